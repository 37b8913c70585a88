package pubsub

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sftest"
	"sf2loki/pkg/sysexits"
)

type fixtureEvent struct {
	Topic    string         `json:"topic"`
	Payload  []byte         `json:"payload_b64"`
	Decoded  map[string]any `json:"decoded"`
	Expanded map[string]any `json:"expanded"`
}

func fixtureEvents(t testing.TB, name string) (list []fixtureEvent) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../sftest/fixtures/avro", name+".events.json"))
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		for field, names := range e.Expanded {
			e.Decoded["ChangeEventHeader"].(map[string]any)[field] = names
		}
	}
	return list
}

// Ten thousand events of five topics, two schema versions of one in flight:
// each is what it is to be.
func TestTenThousandEvents(t *testing.T) {
	inBubble(t, sftest.BusConfig{MaxBatch: 33}, func(r *rig) {
		names := []string{"LoginEventStream", "LogoutEventStream", "ApiEventStream", "AccountChangeEvent", "Order_Shipped__e", "Order_Shipped__e.v2"}
		rng := rand.New(rand.NewPCG(3, 4))
		events, schemas := map[string][]fixtureEvent{}, map[string]string{}
		for _, name := range names {
			events[name] = fixtureEvents(t, name)
			schemas[name] = r.bus.AddSchema(schemaText(t, name))
			topic := events[name][0].Topic
			if !strings.HasSuffix(name, ".v2") {
				r.bus.DefineTopic(sftest.Topic{Name: topic, Schema: schemaText(t, name)})
				r.cfg.Topics.Names = append(r.cfg.Topics.Names, topic)
			}
		}
		want := map[string]map[string]any{} // by origin
		const all = 10_000
		publish := func(n int) {
			for range n {
				name := names[rng.IntN(len(names))]
				e := events[name][rng.IntN(3)]
				id := r.bus.Publish(e.Topic, sftest.Event{SchemaID: schemas[name], Payload: e.Payload})[0]
				want[e.Topic+":"+b64(id)] = e.Decoded
			}
		}
		publish(all / 2)
		run := r.start()
		r.out.wait(100)
		publish(all / 2)
		r.out.waitEvents(all)
		got := r.out.all()
		for _, w := range got {
			if w.CheckpointOnly {
				continue
			}
			expected, ok := want[string(w.Origin)]
			if !ok || !reflect.DeepEqual(w.line, expected) {
				t.Fatalf("%s is\n%s\nwant\n%v", w.Origin, w.Line, expected)
			}
			delete(want, string(w.Origin))
		}
		if len(want) != 0 {
			t.Errorf("%d events are missing", len(want))
		}
		if n := len(r.bus.Calls("GetSchema")); n != len(names) {
			t.Errorf("%d schemas were fetched, want %d", n, len(names))
		}
		if n := run.totals().Schemas; n != len(names) {
			t.Errorf("%d schemas are known", n)
		}
		run.end()
	})
}

// On a channel of several events each says itself what it is, and the time of
// a change is that of its commit.
func TestChannel(t *testing.T) { // C6, peers 61
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		const account, channel = "/data/AccountChangeEvent", "/data/ChangeEvents"
		r.bus.DefineTopic(sftest.Topic{Name: account, Schema: schemaText(t, "AccountChangeEvent")})
		r.bus.DefineTopic(sftest.Topic{Name: channel, Members: []string{account}})
		r.cfg.Topics.Names = []string{channel}
		for _, e := range fixtureEvents(t, "AccountChangeEvent") {
			r.bus.Publish(account, sftest.Event{Payload: e.Payload})
		}
		run := r.start()
		r.out.wait(3)
		for i, w := range r.out.all() {
			header := w.line["ChangeEventHeader"].(map[string]any)
			if w.Time != int64(header["commitTimestamp"].(float64))*1e6 {
				t.Errorf("event %d has the time %d", i, w.Time)
			}
			contains(t, string(w.Raw), `"event_type":"AccountChangeEvent"`)
			if string(w.Key) != "pubsub:"+channel {
				t.Errorf("event %d has the key %s", i, w.Key)
			}
		}
		run.end()
	})
}

// An event without a time is as late as the one before it, whoever reads it
// and whenever.
func TestTimes(t *testing.T) { // #20, #42, Z11
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		r.define()
		at := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
		for _, created := range []int64{at.UnixMilli(), 0, at.Unix() + 1, -7, 1 << 60} {
			e := orderEvent(1)
			e.Value["CreatedDate"] = created
			r.bus.Publish(order, e)
		}
		run := r.start()
		r.out.wait(5)
		run.end()
		first := r.out.all()
		for i, want := range []time.Duration{0, 0, time.Second, time.Second, time.Second} {
			if got := first[i].Time; got != at.Add(want).UnixNano() {
				t.Errorf("event %d is of %v", i, time.Unix(0, got).UTC())
			}
		}
		if c := run.totals().Types[0]; c.Fallbacks != 3 {
			t.Errorf("counted %+v", c)
		}
		r.out = newOutput()
		r.cfg.Output.Records = r.out.records
		r.cfg.Resume = func(string) (string, bool) { return string(first[3].Value), true }
		run = r.start()
		r.out.wait(1)
		if again := r.out.all()[0]; string(again.Raw) != string(first[4].Raw) {
			t.Errorf("read again it is\n%s\nand was\n%s", again.Raw, first[4].Raw)
		}
		run.end()
	})
}

// EventDate is better than CreatedDate.
func TestEventDate(t *testing.T) {
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		const topic = "/event/LogoutEventStream"
		r.bus.DefineTopic(sftest.Topic{Name: topic, Schema: schemaText(t, "LogoutEventStream")})
		r.cfg.Topics.Names = []string{topic}
		e := fixtureEvents(t, "LogoutEventStream")[0]
		r.bus.Publish(topic, sftest.Event{Payload: e.Payload})
		run := r.start()
		r.out.wait(1)
		if got := r.out.all()[0].Time; got != int64(e.Decoded["EventDate"].(float64))*1e6 {
			t.Errorf("the time is %d", got)
		}
		run.end()
	})
}

// What cannot be decoded becomes a dead letter with all that is needed to try
// again, and the rest goes on.
func TestUndecodable(t *testing.T) { // #43, Z15, peers 60
	bad := func(r *rig) (events []sftest.Event) {
		hidden := r.bus.AddSchema(strings.Replace(schemaText(r.t, "Order_Shipped__e"), "Notes__c", "Notes2__c", 1))
		r.bus.HideSchema(hidden, true)
		return []sftest.Event{
			{Payload: []byte("\x01garbage")},
			{Payload: append(fixtureEvents(r.t, "Order_Shipped__e")[0].Payload, 0)},
			{SchemaID: hidden, Payload: []byte{2, 3}},
			{SchemaID: r.bus.AddSchema(`{"type":"what?"}`), Payload: []byte{4}},
		}
	}
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		r.define()
		r.publish(0, 1)
		events := bad(r)
		ids := r.bus.Publish(order, events...)
		r.publish(1, 2)
		run := r.start()
		r.out.wait(6)
		r.wantNumbers(count(0, 2))
		letters := r.out.letters(record.DecodeError)
		if len(letters) != len(events) {
			t.Fatalf("%d letters\n%s", len(letters), r.out.log.String())
		}
		for i, l := range letters {
			at, err := parsePosition(string(l.Value), r.org.ID)
			payload, errPayload := base64.StdEncoding.DecodeString(string(l.PayloadBase64))
			if err != nil || errPayload != nil || b64(at.id) != b64(ids[i]) || string(payload) != string(events[i].Payload) || len(l.SchemaID) != 22 || l.Line != nil {
				t.Errorf("letter %d is %s", i, l.Raw)
			}
		}
		totals := run.totals()
		if c := totals.Types[0]; c.Read != 6 || c.Written != 2 || c.DeadLettered != 4 || totals.Letters["decode_error"].Entries != 4 {
			t.Errorf("counted %+v", totals)
		}
		if c := totals.Topics[0].DecodeErrors; c["schema"] != 2 || c["left_over"] != 1 || c["truncated"]+c["invalid"] != 1 {
			t.Errorf("decode errors %v", c)
		}
		run.end()
	})
	inBubble(t, sftest.BusConfig{}, func(r *rig) { // with a place of their own
		r.define()
		var letters []string
		r.cfg.Output.Letter = func(line []byte) error { letters = append(letters, string(line)); return nil }
		id := r.bus.Publish(order, sftest.Event{Payload: []byte("\x01garbage")})[0]
		run := r.start()
		r.out.wait(1)
		if w := r.out.all()[0]; !w.CheckpointOnly || len(letters) != 1 {
			t.Errorf("%s and the letters %q", w.Raw, letters)
		} else if at, _ := parsePosition(string(w.Value), r.org.ID); b64(at.id) != b64(id) {
			t.Errorf("the position is %s", w.Value)
		}
		run.end()
	})
	inBubble(t, sftest.BusConfig{}, func(r *rig) { // a place that fails
		r.define()
		r.cfg.Output.Letter = func([]byte) error { return fmt.Errorf("disk full") }
		r.bus.Publish(order, sftest.Event{Payload: []byte("\x01garbage")})
		if _, err := r.pull(); sysexits.Of(err) != sysexits.IOErr {
			t.Errorf("the end is %v", err)
		}
	})
}

func TestNothingCanBeDecoded(t *testing.T) {
	inBubble(t, sftest.BusConfig{MaxBatch: 1}, func(r *rig) {
		r.define()
		for range 7 {
			r.bus.Publish(order, sftest.Event{Payload: []byte("\x01garbage")})
		}
		r.publish(0, 1)
		run := r.start()
		r.out.wait(8)
		if c := run.topic(order); c.DecodeStalls != 1 {
			t.Errorf("the topic is %+v", c)
		}
		if n := strings.Count(r.out.log.String(), "no event of the topic can be decoded"); n != 1 {
			t.Errorf("said %d times", n)
		}
		run.end()
	})
}

// A schema that cannot be had for the time being: nothing is passed over.
func TestSchemaLater(t *testing.T) {
	for name, fault := range map[string]sftest.BusFault{
		"unavailable": {Times: 20, Error: "schema.api.unavailable"},
		"gateway":     {Times: 20, Code: "UNAVAILABLE"},
		"expired":     {Error: "service.auth.error"},
		"too new":     {Times: 2, Error: "schema.validation.failed"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, sftest.BusConfig{}, func(r *rig) {
				r.define()
				r.publish(0, 3)
				r.bus.Fault("GetSchema", fault)
				run := r.start()
				r.out.wait(3)
				r.wantNumbers(count(0, 3))
				run.end()
			})
		})
	}
	inBubble(t, sftest.BusConfig{}, func(r *rig) { // asked to stop while it waits
		r.define()
		r.publish(0, 3)
		r.bus.Fault("GetSchema", sftest.BusFault{Times: -1, Code: "UNAVAILABLE"})
		run := r.start()
		time.Sleep(minutes(5))
		synctest.Wait()
		run.end()
		if r.out.lines != 0 {
			t.Errorf("written: %s", r.out.text.String())
		}
	})
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		r.define()
		r.publish(0, 3)
		r.bus.Fault("GetSchema", sftest.BusFault{Times: -1, Error: "schema.meta.permission"})
		if _, err := r.pull(); sysexits.Of(err) != sysexits.NoPerm {
			t.Errorf("the end is %v", err)
		}
		if r.out.lines != 0 {
			t.Errorf("a right that is missing makes no dead letters: %s", r.out.text.String())
		}
	})
}

func TestSchemaIsFetchedOnceForAll(t *testing.T) {
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		for i := range 8 {
			name := fmt.Sprintf("/event/Same%d__e", i)
			r.bus.DefineTopic(sftest.Topic{Name: name, Schema: schemaText(t, "Order_Shipped__e")})
			r.bus.Publish(name, orderEvent(i))
			r.cfg.Topics.Names = append(r.cfg.Topics.Names, name)
		}
		r.bus.Fault("GetSchema", sftest.BusFault{Latency: time.Second, Times: -1})
		run := r.start()
		r.out.wait(8)
		if n := len(r.bus.Calls("GetSchema")); n != 1 {
			t.Errorf("fetched %d times", n)
		}
		run.end()
	})
}
