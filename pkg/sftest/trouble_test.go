package sftest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"sf2loki/pkg/pubsub/eventbus"
)

const loginTopic = "/event/LoginEventStream"

// steer posts a control request, and wants its status.
func (c *client) steer(verb, body string, want int) string {
	c.t.Helper()
	resp, err := http.Post(c.org.URL+controlPath+verb, "application/json", strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	got, data := c.body(resp)
	if got != want {
		c.t.Errorf("%s %s: %d %s", verb, body, got, data)
	}
	return string(data)
}

// Whatever goes wrong with an event bus can be ordered by a program that is no
// Go test, and goes wrong as it does with a real one.
func TestBusTrouble(t *testing.T) {
	org := newOrg(t, Config{})
	c := login(t, org)
	c.steer("bus-tick", "", 404) // it has none yet
	b := org.NewBus(BusConfig{})
	b.DefineSamples()
	s := newStranger(t, org, b)
	topic := func() (metadata.MD, error) {
		var md metadata.MD
		_, err := s.GetTopic(s.ctx, &eventbus.TopicRequest{TopicName: loginTopic}, grpc.Trailer(&md))
		return md, err
	}

	c.steer("bus-fault", `{"match":"GetTopic","bus":{"error":"topic.not.found","times":2,"skip":1}}`, 200)
	if _, err := topic(); err != nil {
		t.Errorf("the one that passes: %v", err)
	}
	for range 2 {
		if md, err := topic(); len(md.Get("error-code")) != 1 || status.Code(err) != busErrors["topic.not.found"].code {
			t.Errorf("a refusal of the service: %v, %v", err, md)
		}
	}
	c.steer("bus-fault", `{"match":"GetTopic","bus":{"code":"UNAVAILABLE","times":-1,"latency_ms":1}}`, 200)
	for range 3 {
		if md, err := topic(); len(md.Get("error-code")) != 0 || status.Code(err) != codes.Unavailable {
			t.Errorf("a refusal of a gateway: %v, %v", err, md)
		}
	}
	c.steer("bus-clear", "", 200)
	if _, err := topic(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if calls := c.steer("bus-calls", `{"match":"GetTopic"}`, 200); strings.Count(calls, "GetTopic "+loginTopic) != 7 {
		t.Errorf("calls %s", calls)
	}
	for verb, body := range map[string]string{
		"bus-nothing": "", "nothing": "", "bus-publish": `{"bus":{"topic":"/event/None"}}`,
	} {
		c.steer(verb, body, 404)
	}
}

// A stream can be ended, hung, cut and sent away; events go on behind it.
func TestStreamTrouble(t *testing.T) {
	org := newOrg(t, Config{})
	c := login(t, org)
	b := org.NewBus(BusConfig{})
	b.DefineSamples()
	s := newStranger(t, org, b)
	open := func() eventbus.PubSub_SubscribeClient {
		t.Helper()
		st := s.subscribe(&eventbus.FetchRequest{TopicName: loginTopic, NumRequested: 10})
		b.WaitStreams(loginTopic, 1)
		b.WaitCredit(loginTopic, 10)
		return st
	}
	// ends reads to the end, and gives how many events came before.
	ends := func(st eventbus.PubSub_SubscribeClient) (events int, err error) {
		for {
			resp, err := st.Recv()
			if err != nil {
				b.WaitStreams(loginTopic, 0)
				return events, err
			}
			events += len(resp.Events)
		}
	}
	c.steer("bus-fault", `{"match":"Subscribe","bus":{"end":true,"after":2}}`, 200)
	st := open()
	c.steer("bus-publish", `{"bus":{"topic":"`+loginTopic+`","count":3}}`, 200)
	if n, err := ends(st); n != 2 || err != io.EOF {
		t.Errorf("%d events, %v; want 2 and the end", n, err)
	}
	for verb, want := range map[string]codes.Code{"bus-cut": codes.Unavailable, "bus-goaway": codes.OK, "bus-reset": codes.OK} {
		st := open()
		if b.Streams(loginTopic) != 1 || b.Streams("/event/ApiEventStream") != 0 || b.Credit(loginTopic) != 10 {
			t.Errorf("%d streams, credit %d", b.Streams(loginTopic), b.Credit(loginTopic))
		}
		c.steer(verb, "", 200)
		_, err := ends(st)
		if got := status.Code(err); err != io.EOF && got != want {
			t.Errorf("%s ends a stream with %v", verb, err)
		}
	}
	b.ResetCalls()
	if calls := b.Calls(""); len(calls) != 0 {
		t.Errorf("calls %q", calls)
	}
	st = open()
	b.WaitCalls("Subscribe "+loginTopic, 1)
	payload := []byte("whatever it is")
	text, err := json.Marshal(map[string]any{"bus": map[string]any{"topic": loginTopic, "payload": payload}})
	if err != nil {
		t.Fatal(err)
	}
	c.steer("bus-publish", string(text), 200)
	resp, err := st.Recv()
	if err != nil || len(resp.Events) != 1 || string(resp.Events[0].Event.Payload) != string(payload) {
		t.Errorf("what was published came as %v, %v", resp, err)
	}
}

// Ids of replay move on with the org, and are worthless after a migration.
func TestReplayIDsOfAnotherTime(t *testing.T) {
	org := newOrg(t, Config{})
	b := org.NewBus(BusConfig{})
	b.DefineSamples()
	s := newStranger(t, org, b)
	id := b.Tick()
	if next := b.Tick(); string(next) <= string(id) {
		t.Errorf("%x after %x", next, id)
	}
	behind := &eventbus.FetchRequest{TopicName: loginTopic, NumRequested: 1, ReplayPreset: eventbus.ReplayPreset_CUSTOM, ReplayId: id}
	st := s.subscribe(behind)
	b.Publish(loginTopic, Sample(loginTopic, 1, org.Now()))
	if resp, err := st.Recv(); err != nil || len(resp.Events) != 1 {
		t.Errorf("behind an id: %v, %v", resp, err)
	}
	b.Reset()
	if _, err := s.subscribe(behind).Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("behind an id of another time: %v", err)
	}
	b.RemoveTopic(loginTopic)
	if _, err := s.GetTopic(s.ctx, &eventbus.TopicRequest{TopicName: loginTopic}); status.Code(err) != busErrors["topic.not.found"].code {
		t.Errorf("a topic that was removed: %v", err)
	}
}

// Schemas are fetched by what they are, if nobody hides them.
func TestSchemas(t *testing.T) {
	org := newOrg(t, Config{})
	c := login(t, org)
	b := org.NewBus(BusConfig{})
	s := newStranger(t, org, b)
	get := func(id string) string {
		info, err := s.GetSchema(s.ctx, &eventbus.SchemaRequest{SchemaId: id})
		if err != nil {
			return status.Code(err).String()
		}
		return info.SchemaJson
	}
	const text = `{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}`
	id := b.AddSchema(text)
	if again := b.AddSchema(" " + text); again != id {
		t.Errorf("one schema has the ids %s and %s", id, again)
	}
	b.AddSchemaAs("mine", text)
	odd := b.AddSchema("what")
	for _, pair := range [][2]string{{id, text}, {"mine", text}, {odd, "what"}} {
		if got := get(pair[0]); got != pair[1] {
			t.Errorf("%s: %s", pair[0], got)
		}
	}
	c.steer("bus-hide-schema", `{"bus":{"schema":"`+id+`"}}`, 200)
	if got := get(id); got == text {
		t.Error("a hidden schema is given out")
	}
	b.HideSchema(id, false)
	if got := get(id); got != text {
		t.Errorf("shown again: %s", got)
	}
}

// Secrets can be renewed, sessions go on meanwhile, and who logs in is told
// what was wrong.
func TestCredentials(t *testing.T) {
	org := newOrg(t, Config{})
	c := login(t, org)
	old, key := org.ClientSecret, org.PrivateKeyPEM()
	secret := org.Rotate()
	if secret == old || org.PrivateKeyPEM() == key {
		t.Error("nothing was renewed")
	}
	ask := func(id, secret string) (int, string) {
		status, body := c.post(url.Values{"grant_type": {"client_credentials"}, "client_id": {id}, "client_secret": {secret}})
		return status, string(body)
	}
	logins := org.Logins()
	for want, pair := range map[string][2]string{"invalid client credentials": {org.ClientID, old}, "client identifier invalid": {"x", secret}} {
		if status, body := ask(pair[0], pair[1]); status/100 != 4 || !strings.Contains(body, want) {
			t.Errorf("%d %s, want %s", status, body, want)
		}
	}
	if status, body := ask(org.ClientID, secret); status != 200 || org.Logins() != logins+1 {
		t.Errorf("the new secret: %d %s after %d logins", status, body, org.Logins()-logins)
	}
	if status, body := c.get("/services/oauth2/userinfo"); status != 200 || !strings.Contains(body, org.Username) {
		t.Errorf("a session of before: %d %s", status, body)
	}
	if status, body := c.body(c.do("/services/oauth2/userinfo", func(r *http.Request) { r.Header.Del("Authorization") })); status != 403 || !strings.Contains(string(body), "Missing") {
		t.Errorf("no session: %d %s", status, body)
	}
}

// The org's clock may be another than ours, and its calls are counted.
func TestClockAndCounts(t *testing.T) {
	org := newOrg(t, Config{})
	c := login(t, org)
	c.steer("skew", `{"skew_seconds":3600}`, 200)
	resp := c.do("/services/data/v62.0/limits")
	status, _ := c.body(resp)
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if ahead := time.Until(date); status != 200 || err != nil || ahead < 55*time.Minute || ahead > time.Hour+time.Minute {
		t.Errorf("%d; the date is %v ahead, %v", status, ahead, err)
	}
	org.WaitRequests("/limits", 1)
	org.ResetRequests()
	if left := org.Requests(""); len(left) != 0 {
		t.Errorf("%d requests", len(left))
	}
	c.steer("usage", `{"used":90,"max":100}`, 200)
	if _, body := c.get("/services/data/v62.0/limits"); !strings.Contains(body, `"Max":100`) {
		t.Errorf("limits %s", body)
	}
	c.steer("expire-locators", "", 200)
	c.steer("clear", "", 200)
	if day := c.steer("day", `{"type":"Login","start":"2026-07-01T00:00:00Z","created":"2026-07-02T03:00:00Z"}`, 200); !strings.Contains(day, `"id":"0AT`) {
		t.Errorf("a day: %s", day)
	}
}
