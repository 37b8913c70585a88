package prooftest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/sftest"
)

// A hole in what was pulled of objects or debug logs is found, and its command
// fills it, also when the paths want quotes; nothing else is pulled by it.
func TestFillOfRows(t *testing.T) {
	at := func(n int) time.Time {
		return time.Now().Add(-5 * time.Hour).Add(time.Duration(n/3) * time.Minute).Truncate(time.Millisecond)
	}
	for name, source := range map[string]struct {
		pull string
		add  func(b *bench, n int)
	}{
		"objects": {"objects --object LoginHistory", func(b *bench, n int) {
			b.org.Insert("LoginHistory", sftest.Row{"UserId": b.org.UserID, "LoginTime": at(n), "Status": "Success"})
		}},
		"big objects": {"objects --object LoginEvent,big", func(b *bench, n int) {
			b.org.Insert("LoginEvent", sftest.Row{"EventDate": at(n), "EventIdentifier": fmt.Sprintf("5f1c3b60-0000-4000-8000-%012d", n), "Status": "Success"})
		}},
		"apexlog": {"apexlog", func(b *bench, n int) {
			b.org.AddApexLog(sftest.ApexLog{Start: at(n).Truncate(time.Second), Body: fmt.Sprintf("12:00:00.0 (%d)|USER_DEBUG|x\n", n)})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Set("SF_PULL_LOG_LEVEL=error", "LOKI_PUSH_LOG_LEVEL=error", "CKPT_LOG_LEVEL=error", "SF_PULL_ORG=prod.eu-1", "LOKI_PUSH_ORG=prod.eu-1")
			b.org.DefineObjects()
			for n := range 90 {
				source.add(b, n)
			}
			const join = ` ckpt audit --listing /dev/null --allow-empty --late 0s --json --ledger "it's a ledger" --spool "dead 'letters'"`
			b.OK(`mkdir -m 700 "dead 'letters'"; sf-pull ` + source.pull + ` | sed 17d | loki-push --spool "dead 'letters'" | ckpt commit state.json --ledger "it's a ledger"`)
			r := b.Run(join)
			f := &found{}
			if err := json.Unmarshal([]byte(r.Stdout), f); err != nil {
				t.Fatalf("%v: %v", err, r)
			}
			if f.kinds() != "hole: rows missing" || len(f.Findings) != 1 || r.Status != 65 {
				t.Fatalf("%v", r)
			}
			b.OK(f.Findings[0].Command)
			if r := b.Run(join); r.Status != 0 || !strings.Contains(r.Stdout, `"verdict":"complete"`) {
				t.Fatalf("after %s: %v: ledger %s", f.Findings[0].Command, r, b.Read("it's a ledger"))
			}
			if n := len(b.srv.Entries("fake")); n != 90 {
				t.Errorf("Loki holds %d entries, want 90", n)
			}
		})
	}
}

// What came of a topic and got lost on the way is found by its hours; no command
// brings it back.
func TestAuditOfTopics(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	bus := b.org.NewBus(sftest.BusConfig{})
	bus.DefineSamples()
	const topic = "/event/LoginEventStream"
	hour := time.Now().UTC().Truncate(time.Hour).Add(-5 * time.Hour)
	for n := range 90 {
		bus.Publish(topic, sftest.Sample(topic, n, hour.Add(time.Duration(n)*2*time.Minute)))
	}
	b.Set("SF_PULL_LOG_LEVEL=error", "LOKI_PUSH_LOG_LEVEL=error", "CKPT_LOG_LEVEL=error")
	for _, tt := range []struct{ lane, filter, want string }{
		{"whole", "", ""},
		{"holed", "sed 47d |", "LoginEventStream " + topic + " " + hour.Add(time.Hour).Format("2006-01-02T15:04:05.000Z") + "/" + hour.Add(118*time.Minute).Format("2006-01-02T15:04:05.000Z") + ": 1 of the 30 rows have no fate"},
	} {
		b.OK(fmt.Sprintf("sf-pull pubsub --endpoint http://%s --topic %s --max-events 90 --lane %s | %s loki-push --spool dead | ckpt commit state.json --ledger %[3]s.ledger", bus.Addr, topic, tt.lane, tt.filter))
		r := b.Run("ckpt audit --listing /dev/null --allow-empty --late 0s --spool dead --ledger " + tt.lane + ".ledger")
		if tt.want == "" && r.Status != 0 || tt.want != "" && (r.Status != 65 || !strings.Contains(r.Stdout, tt.want) || strings.Count(r.Stdout, "\nhole: ") != 1) {
			t.Errorf("want %q: %v", tt.want, r)
		}
		if n := strings.Count(b.Read(tt.lane+".ledger"), `"rows":30,`); n != 3 {
			t.Errorf("%d hours: %s", n, b.Read(tt.lane+".ledger"))
		}
	}
}
