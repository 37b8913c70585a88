package sftest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hamba/avro/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"sf2loki/pkg/pubsub/eventbus"
)

// stranger is a client that knows nothing but what is public.
type stranger struct {
	t *testing.T
	eventbus.PubSubClient
	ctx context.Context
}

func newStranger(t *testing.T, o *Org, b *Bus) *stranger {
	t.Helper()
	resp, err := http.PostForm(o.URL+"/services/oauth2/token", url.Values{"grant_type": {"client_credentials"},
		"client_id": {o.ClientID}, "client_secret": {o.ClientSecret}})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var token struct {
		Access   string `json:"access_token"`
		Instance string `json:"instance_url"`
		ID       string `json:"id"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&token); err != nil {
		t.Fatal(err)
	}
	creds := insecure.NewCredentials()
	if b.CA != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(b.CA)) {
			t.Fatal("no CA")
		}
		creds = credentials.NewTLS(&tls.Config{RootCAs: pool})
	}
	conn, err := grpc.NewClient(b.Addr, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	parts := strings.Split(token.ID, "/")
	ctx := metadata.AppendToOutgoingContext(t.Context(), "accesstoken", token.Access, "instanceurl", token.Instance, "tenantid", parts[len(parts)-2])
	return &stranger{t: t, PubSubClient: eventbus.NewPubSubClient(conn), ctx: ctx}
}

func (s *stranger) subscribe(req *eventbus.FetchRequest) eventbus.PubSub_SubscribeClient {
	s.t.Helper()
	st, err := s.Subscribe(s.ctx)
	if err == nil {
		err = st.Send(req)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return st
}

func TestStranger(t *testing.T) {
	for _, secure := range []bool{true, false} {
		o := NewOrg(Config{})
		b := o.NewBus(BusConfig{TLS: secure})
		b.DefineSamples()
		b.Fill(5, time.Hour)
		s := newStranger(t, o, b)
		for _, name := range SampleTopics() {
			info, err := s.GetTopic(s.ctx, &eventbus.TopicRequest{TopicName: name})
			if err != nil || !info.CanSubscribe {
				t.Fatalf("%s: %v, %v", name, info, err)
			}
			schema, err := s.GetSchema(s.ctx, &eventbus.SchemaRequest{SchemaId: info.SchemaId})
			if err != nil {
				t.Fatal(err)
			}
			codec, err := avro.ParseWithCache(schema.SchemaJson, "", &avro.SchemaCache{})
			if err != nil {
				t.Fatal(err)
			}
			st := s.subscribe(&eventbus.FetchRequest{TopicName: name, ReplayPreset: eventbus.ReplayPreset_EARLIEST, NumRequested: 3})
			resp, err := st.Recv()
			if err != nil || len(resp.Events) != 3 || resp.PendingNumRequested != 0 || string(resp.LatestReplayId) != string(resp.Events[2].ReplayId) {
				t.Fatalf("%s: %v, %v", name, resp, err)
			}
			for _, e := range resp.Events {
				var v map[string]any
				if err := avro.Unmarshal(codec, e.Event.Payload, &v); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if len(e.ReplayId) != 10 || e.Event.SchemaId != info.SchemaId || len(e.Event.Id) != 36 {
					t.Errorf("%s: %v", name, e)
				}
			}
			// On from there, on another stream.
			st = s.subscribe(&eventbus.FetchRequest{TopicName: name, ReplayPreset: eventbus.ReplayPreset_CUSTOM, ReplayId: resp.LatestReplayId, NumRequested: 100})
			if resp, err = st.Recv(); err != nil || len(resp.Events) != 2 || resp.PendingNumRequested != 98 {
				t.Errorf("%s: %v, %v", name, resp, err)
			}
		}
		o.Close()
	}
}

func TestSamplesAreTheSame(t *testing.T) {
	at := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
	for _, name := range SampleTopics() {
		if one, two := Sample(name, 4, at), Sample(name, 4, at); !reflect.DeepEqual(one, two) {
			t.Errorf("%s: %v and %v", name, one, two)
		}
		if one, two := Sample(name, 4, at), Sample(name, 5, at); one.ID == two.ID {
			t.Errorf("%s: two events with one id", name)
		}
	}
}

func TestBusRefuses(t *testing.T) {
	o := NewOrg(Config{})
	defer o.Close()
	b := o.NewBus(BusConfig{})
	b.DefineSamples()
	const topic = "/event/LoginEventStream"
	s := newStranger(t, o, b)
	subscribe := func(ctx context.Context, reqs ...*eventbus.FetchRequest) (metadata.MD, error) {
		st, err := s.Subscribe(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range reqs {
			st.Send(r)
		}
		for {
			if _, err := st.Recv(); err != nil {
				return st.Trailer(), err
			}
		}
	}
	first := &eventbus.FetchRequest{TopicName: topic, NumRequested: 1}
	bare := metadata.NewOutgoingContext(t.Context(), metadata.Pairs("accesstoken", "x"))
	dead := metadata.NewOutgoingContext(t.Context(), metadata.Pairs("accesstoken", "x", "instanceurl", o.URL, "tenantid", o.ID))
	for want, got := range map[string]func() (metadata.MD, error){
		"service.auth.headers.invalid": func() (metadata.MD, error) { return subscribe(bare, first) },
		"service.auth.error":           func() (metadata.MD, error) { return subscribe(dead, first) },
		"topic.not.found": func() (metadata.MD, error) {
			return subscribe(s.ctx, &eventbus.FetchRequest{TopicName: "/event/X", NumRequested: 1})
		},
		"topic.validation.empty": func() (metadata.MD, error) {
			return subscribe(s.ctx, &eventbus.FetchRequest{NumRequested: 1})
		},
		"subscription.fetch.requested.events.invalid": func() (metadata.MD, error) {
			return subscribe(s.ctx, &eventbus.FetchRequest{TopicName: topic})
		},
		"subscription.fetch.replayid.corrupted": func() (metadata.MD, error) {
			return subscribe(s.ctx, &eventbus.FetchRequest{TopicName: topic, NumRequested: 1, ReplayPreset: eventbus.ReplayPreset_CUSTOM, ReplayId: []byte("x")})
		},
		"subscription.fetch.replayid.validation.failed": func() (metadata.MD, error) {
			return subscribe(s.ctx, &eventbus.FetchRequest{TopicName: topic, NumRequested: 1, ReplayPreset: eventbus.ReplayPreset_CUSTOM})
		},
		"subscription.fetch.topic.mismatch": func() (metadata.MD, error) {
			return subscribe(s.ctx, first, &eventbus.FetchRequest{TopicName: "/event/ApiEventStream", NumRequested: 1})
		},
		"service.auth.refresh.invalid": func() (metadata.MD, error) {
			return subscribe(s.ctx, &eventbus.FetchRequest{TopicName: topic, NumRequested: 1, AuthRefresh: "x"})
		},
		"schema.validation.failed": func() (metadata.MD, error) {
			var md metadata.MD
			_, err := s.GetSchema(s.ctx, &eventbus.SchemaRequest{}, grpc.Trailer(&md))
			return md, err
		},
	} {
		md, err := got()
		if code := md.Get("error-code"); len(code) != 1 || code[0] != errorPrefix+want || status.Code(err) != busErrors[want].code {
			t.Errorf("%s: %v, %v", want, err, md)
		}
		if id := md.Get("rpc-id"); len(id) != 1 || len(md.Get("type")) != 1 || !strings.HasSuffix(err.Error(), "rpcId: "+id[0]) {
			t.Errorf("%s: %v, %v", want, err, md)
		}
	}
}

func TestBusCredit(t *testing.T) {
	o := NewOrg(Config{})
	defer o.Close()
	b := o.NewBus(BusConfig{ZeroCredit: 20 * time.Millisecond, Keepalive: 10 * time.Millisecond})
	b.DefineSamples()
	const topic = "/event/LoginEventStream"
	s := newStranger(t, o, b)
	st := s.subscribe(&eventbus.FetchRequest{TopicName: topic, NumRequested: 500})
	b.WaitCredit(topic, MaxCredit) // more is not heard
	resp, err := st.Recv()
	if err != nil || len(resp.Events) != 0 || len(resp.LatestReplayId) != 10 || resp.PendingNumRequested != 100 {
		t.Errorf("the sign of life is %v, %v", resp, err)
	}
	for i := range 130 {
		b.Publish(topic, Sample(topic, i, o.Now()))
	}
	got := 0
	for {
		resp, err := st.Recv()
		if err == io.EOF {
			break // without credit for too long
		}
		if err != nil {
			t.Fatal(err)
		}
		got += len(resp.Events)
	}
	if got != 100 {
		t.Errorf("%d events came for a credit of 100", got)
	}
	b.WaitStreams(topic, 0)
}

func TestBusPublish(t *testing.T) {
	o := NewOrg(Config{})
	defer o.Close()
	b := o.NewBus(BusConfig{})
	b.DefineSamples()
	const topic = "/event/Order_Shipped__e"
	s := newStranger(t, o, b)
	info, err := s.GetTopic(s.ctx, &eventbus.TopicRequest{TopicName: topic})
	if err != nil {
		t.Fatal(err)
	}
	codec := avro.MustParse(string(avroFixture("Order_Shipped__e.avsc")))
	payload, err := avro.Marshal(codec, map[string]any{"CreatedDate": int64(1), "CreatedById": "005", "Order_Number__c": nil,
		"Weight_Kg__c": nil, "Express__c": nil, "Shipped_At__c": nil, "Notes__c": nil})
	if err != nil {
		t.Fatal(err)
	}
	event := &eventbus.ProducerEvent{Id: "mine", SchemaId: info.SchemaId, Payload: payload}
	large := &eventbus.ProducerEvent{Id: "large", SchemaId: info.SchemaId, Payload: make([]byte, maxEvent+1)}
	resp, err := s.Publish(s.ctx, &eventbus.PublishRequest{TopicName: topic, Events: []*eventbus.ProducerEvent{event, large}})
	if err != nil || len(resp.Results) != 2 || resp.Results[0].Error != nil || resp.Results[1].Error == nil || resp.Results[0].CorrelationKey != "mine" {
		t.Fatalf("%v, %v", resp, err)
	}
	stream, err := s.PublishStream(s.ctx)
	if err != nil {
		t.Fatal(err)
	}
	stream.Send(&eventbus.PublishRequest{TopicName: topic, Events: []*eventbus.ProducerEvent{event}})
	if r, err := stream.Recv(); err != nil || len(r.Results) != 1 {
		t.Fatalf("%v, %v", r, err)
	}
	stream.CloseSend()
	if _, err := stream.Recv(); err != io.EOF {
		t.Errorf("the end is %v", err)
	}
	if n := b.Events(topic); n != 2 {
		t.Errorf("%d events", n)
	}
	if _, err := s.Publish(s.ctx, &eventbus.PublishRequest{TopicName: "/event/X"}); status.Code(err) != codes.NotFound {
		t.Errorf("%v", err)
	}
}

func TestBusManaged(t *testing.T) {
	o := NewOrg(Config{})
	defer o.Close()
	b := o.NewBus(BusConfig{CommitIdle: 50 * time.Millisecond})
	b.DefineSamples()
	const topic = "/event/LoginEventStream"
	ids := b.Publish(topic, Sample(topic, 0, o.Now()), Sample(topic, 1, o.Now()))
	b.DefineManaged(Managed{ID: "18x1", DeveloperName: "Mine", Topic: topic})
	b.DefineManaged(Managed{ID: "18x2", DeveloperName: "Stopped", Topic: topic, Stopped: true})
	s := newStranger(t, o, b)
	open := func(reqs ...*eventbus.ManagedFetchRequest) eventbus.PubSub_ManagedSubscribeClient {
		st, err := s.ManagedSubscribe(s.ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range reqs {
			st.Send(r)
		}
		return st
	}
	commit := func(id []byte) *eventbus.CommitReplayRequest {
		return &eventbus.CommitReplayRequest{CommitRequestId: "c", ReplayId: id}
	}
	for want, req := range map[string]*eventbus.ManagedFetchRequest{
		"id.or.developer.name.empty":              {NumRequested: 1},
		"config.stopped":                          {DeveloperName: "Stopped", NumRequested: 1},
		"developer.name.not.found":                {DeveloperName: "Nobody", NumRequested: 1},
		"subscription.id.not.found":               {SubscriptionId: "18x9", NumRequested: 1},
		"fetch.request.events.invalid":            {DeveloperName: "Mine"},
		"fetch.request.commit.request.restricted": {DeveloperName: "Mine", NumRequested: 1, CommitReplayIdRequest: commit(ids[0])},
	} {
		st := open(req)
		if _, err := st.Recv(); err == nil || len(st.Trailer().Get("error-code")) != 1 || st.Trailer().Get("error-code")[0] != errorPrefix+"managed.subscription."+want {
			t.Errorf("%s: %v, %v", want, err, st.Trailer())
		}
	}
	st := open(&eventbus.ManagedFetchRequest{SubscriptionId: "18x1", NumRequested: 10})
	if r, err := st.Recv(); err != nil || len(r.Events) != 2 {
		t.Fatalf("%v, %v", r, err)
	}
	second := open(&eventbus.ManagedFetchRequest{SubscriptionId: "18x1", NumRequested: 10})
	if _, err := second.Recv(); status.Code(err) != codes.AlreadyExists {
		t.Errorf("a second client: %v", err)
	}
	st.Send(&eventbus.ManagedFetchRequest{CommitReplayIdRequest: commit([]byte("bad"))})
	if r, err := st.Recv(); err != nil || r.CommitResponse.GetError() == nil {
		t.Errorf("%v, %v", r, err)
	}
	st.Send(&eventbus.ManagedFetchRequest{CommitReplayIdRequest: commit(ids[0])})
	if r, err := st.Recv(); err != nil || r.CommitResponse.GetError() != nil || string(b.Committed("18x1")) != string(ids[0]) {
		t.Errorf("%v, %v", r, err)
	}
	if _, err := st.Recv(); status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "No CommitReplayRequests") {
		t.Errorf("without commits: %v", err)
	}
	b.WaitStreams(topic, 0)
	st = open(&eventbus.ManagedFetchRequest{DeveloperName: "Mine", NumRequested: 10})
	if r, err := st.Recv(); err != nil || len(r.Events) != 1 {
		t.Errorf("behind the commit: %v, %v", r, err)
	}
}

func TestBusRetention(t *testing.T) {
	now := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
	o := NewOrg(Config{Now: func() time.Time { return now }})
	defer o.Close()
	b := o.NewBus(BusConfig{})
	b.DefineSamples()
	const topic = "/event/LoginEventStream"
	old := b.Publish(topic, Sample(topic, 0, now.Add(-73*time.Hour)))[0]
	b.Publish(topic, Sample(topic, 1, now))
	s := newStranger(t, o, b)
	st := s.subscribe(&eventbus.FetchRequest{TopicName: topic, ReplayPreset: eventbus.ReplayPreset_EARLIEST, NumRequested: 9})
	if r, err := st.Recv(); err != nil || len(r.Events) != 1 {
		t.Errorf("%v, %v", r, err)
	}
	st = s.subscribe(&eventbus.FetchRequest{TopicName: topic, ReplayPreset: eventbus.ReplayPreset_CUSTOM, ReplayId: old, NumRequested: 9})
	if _, err := st.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("%v", err)
	}
}
