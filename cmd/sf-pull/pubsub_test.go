package main

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"sf2loki/pkg/sftest"
)

func TestPubsubScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/pubsub", RequireExplicitExec: true, UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Values["bus"] = new(*sftest.Bus)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"bus": busCommand},
	})
}

// busCommand starts and steers the event bus of a simulated org:
//
//	bus start [tls]              and sets the flags' environment to it
//	bus publish TOPIC FROM TO    sample events of 2026-07-03, one a second
//	bus garbage TOPIC            an event that cannot be decoded
//	bus fault MATCH JSON         the next calls that match fail so
//	bus reset                    no replay id is valid any more
//	bus calls N MATCH            so many calls have matched
func busCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: bus VERB ARGS")
	}
	slot := ts.Value("bus").(**sftest.Bus)
	if args[0] == "start" {
		*slot = startBus(ts, len(args) > 1)
		return
	}
	bus := *slot
	number := func(i int) int {
		n, err := strconv.Atoi(args[i])
		ts.Check(err)
		return n
	}
	switch args[0] {
	case "publish":
		for n := number(2); n < number(3); n++ {
			bus.Publish(args[1], sftest.Sample(args[1], n, now.Add(time.Duration(n-10_000)*time.Second)))
		}
	case "garbage":
		bus.Publish(args[1], sftest.Event{ID: "e1", Payload: []byte{1, 2, 3}})
	case "fault":
		var f sftest.BusFault
		ts.Check(json.Unmarshal([]byte(args[2]), &f))
		bus.Fault(args[1], f)
	case "reset":
		bus.Reset()
	case "calls":
		if calls := bus.Calls(args[2]); len(calls) != number(1) {
			ts.Fatalf("calls %q", calls)
		}
	default:
		ts.Fatalf("bus: unknown verb %s", args[0])
	}
}

func startBus(ts *testscript.TestScript, tls bool) *sftest.Bus {
	org := startOrg(ts, false)
	bus := org.NewBus(sftest.BusConfig{TLS: tls, Keepalive: 50 * time.Millisecond})
	bus.DefineSamples()
	bus.DefineTopic(sftest.Topic{Name: "/event/FileEvent", CannotSubscribe: true})
	bus.DefineManaged(sftest.Managed{ID: "18xxx0000000001AAA", DeveloperName: "Logins", Topic: "/event/LoginEventStream"})
	if tls {
		ts.Check(os.WriteFile(ts.MkAbs("ca.pem"), []byte(bus.CA), 0o600))
		ts.Setenv("SF_PULL_ENDPOINT", bus.Addr)
	} else {
		ts.Setenv("SF_PULL_ENDPOINT", "http://"+bus.Addr)
	}
	ts.Setenv("SF_PULL_IDLE_EXIT", "1s")
	return bus
}

func TestParseEndpoint(t *testing.T) {
	for text, want := range map[string]string{
		"api.pubsub.salesforce.com":          "tls api.pubsub.salesforce.com:7443",
		"api.pubsub.salesforce.com:443":      "tls api.pubsub.salesforce.com:443",
		"https://api.deu.pubsub.example:443": "tls api.deu.pubsub.example:443",
		"https://x.example/":                 "tls x.example:7443",
		"http://127.0.0.1:7011":              "plain 127.0.0.1:7011",
		"[::1]:7443":                         "tls [::1]:7443",
	} {
		e, err := parseEndpoint(text)
		got := "tls " + e.Addr
		if e.Plaintext {
			got = "plain " + e.Addr
		}
		if err != nil || got != want {
			t.Errorf("%s is %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", ":443", "x:0", "x:65536", "ftp://x:1", "https://user:secret@x:1", "user:secret@x:port", "x:1/path", "x:port", "a b"} {
		if e, err := parseEndpoint(text); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q is %v, %v", text, e, err)
		}
	}
}
