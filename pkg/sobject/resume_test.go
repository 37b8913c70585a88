package sobject

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/feed"
	"sf2loki/pkg/sysexits"
)

func TestPositions(t *testing.T) { // peers 5, #103 for objects, C14
	for _, tt := range []struct {
		name, value string
		code        sysexits.Code
		rows        int // of four, an hour apart, the newest an hour old
		cause, warn string
	}{
		{name: "none", rows: 4, cause: "lookback"},
		{name: "a bare time", value: "2026-07-03T09:00:00Z", rows: 3, cause: "position"},
		{name: "a date", value: "2026-07-03", rows: 4, cause: "position"},
		{name: "Salesforce's form", value: "2026-07-03T09:30:00.000+0000", rows: 2, cause: "position"},
		{name: "the daemon's", value: `{"ids": ["ID1", "0Yaxx0000000009ZZZ"], "last_ts": "2026-07-03T09:00:00.000+0000"}`, rows: 2, cause: "position of the daemon"},
		{name: "ours", value: `{"v":1,"org":"ORG","ts":"2026-07-03T09:00:00.000Z","id":"ID1"}`, rows: 3, cause: "position"},
		{name: "ours, a field of the future", value: `{"v":1,"org":"ORG","ts":"2026-07-03T09:30:00.000Z","new":[1]}`, rows: 2, cause: "position"},
		{name: "ours, where reading began", value: `{"v":1,"org":"ORG","ts":"2026-07-03T09:00:00.000Z","id":"ID1","start":"2026-07-03T09:00:00.000Z"}`, rows: 3, cause: "position"},
		{name: "a wild id", value: `{"v":1,"org":"ORG","ts":"2026-07-03T09:00:00.000Z","id":"07L'"}`, rows: 3, cause: "position", warn: "no id of a row"},
		{name: "None", value: "None", rows: 4, cause: "lookback", warn: "neither a position nor a time"},
		{name: "garbage", value: `{"last_ts": "None"}`, rows: 4, cause: "lookback", warn: "no time"},
		{name: "an array", value: `[1]`, rows: 4, cause: "lookback", warn: "neither"},
		{name: "another org's", value: `{"v":1,"org":"00Dxx0000009999AAA","ts":"2026-07-03T09:00:00.000Z"}`, code: sysexits.Config},
		{name: "one of tomorrow", value: `{"v":1,"org":"ORG","ts":"2026-07-04T12:00:00.000Z","id":"ID1"}`, code: sysexits.Config},
		{name: "a date to come", value: "2126-07-03", code: sysexits.Config},
		{name: "a newer release's", value: `{"v":2,"ts":"2026-07-03T09:00:00.000Z"}`, code: sysexits.Config},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			ids := b.logins(4, b.ago(4*time.Hour), time.Hour)
			if tt.value != "" {
				b.doc["eventlog_objects:LoginHistory"] = strings.NewReplacer("ORG", b.org.ID, "ID1", ids[1]).Replace(tt.value)
			}
			lines, err := b.pull("LoginHistory")
			if sysexits.Of(err) != tt.code {
				t.Fatal(err)
			}
			if tt.code != 0 {
				if len(lines) != 0 {
					t.Errorf("%d lines", len(lines))
				}
				return
			}
			if n := len(entries(lines)); n != tt.rows {
				t.Errorf("%d rows, want %d", n, tt.rows)
			}
			log := b.log.String()
			if !strings.Contains(log, tt.cause) || !strings.Contains(log, tt.warn) || (tt.warn == "") != !strings.Contains(log, "cannot be used") {
				t.Errorf("the log is %s", log)
			}
		})
	}
}

func TestSinceAndWindows(t *testing.T) {
	b := newBench(t)
	ids := b.logins(10, b.ago(10*time.Hour), time.Hour) // at 2:00, 3:00 ...
	b.events(10, 0, false, b.ago(10*time.Hour), time.Hour)
	at := func(hour int) time.Time { return time.Date(2026, 7, 3, hour, 0, 0, 0, time.UTC) }
	b.config = func(c *Config) { c.Window = feed.Window{Since: at(4), Until: at(7)} }
	got := b.must("LoginHistory", "LoginEvent")
	sameSet(t, origins(got), append([]string{eventID(2), eventID(3), eventID(4)}, ids[2:5]...))
	for _, l := range got {
		if !strings.HasPrefix(l.Key, "window=2026-07-03T04:00:00Z/2026-07-03T07:00:00Z:eventlog_objects:Login") {
			t.Errorf("key is %s", l.Key)
		}
	}
	if again := b.must("LoginHistory", "LoginEvent"); len(again) != 0 {
		t.Errorf("a window that is over is pulled again: %d rows", len(again))
	}
	b.config = func(c *Config) { c.Window.Since = at(9) }
	sameSet(t, origins(b.must("LoginHistory")), ids[7:])
	b.config = func(c *Config) { c.Window = feed.Window{Since: at(11), Until: at(14)} }
	lines, err := b.pull("LoginHistory")
	if sysexits.Of(err) != sysexits.TempFail || len(entries(lines)) != 1 {
		t.Errorf("a window that is not over: %d rows, %v", len(entries(lines)), err)
	}
	b.config = func(c *Config) { c.Window = feed.Window{Until: at(3)} }
	sameSet(t, origins(b.must("LoginHistory")), ids[:1])
}

func TestNothingNew(t *testing.T) { // a second run brings nothing new: repeats are byte-identical
	b := newBench(t)
	b.logins(2000, b.ago(3*time.Hour), 5*time.Second)
	b.events(2000, 0, false, b.ago(3*time.Hour), 5*time.Second)
	first := map[string]bool{}
	for _, l := range b.must("LoginHistory", "LoginEvent") {
		first[l.TS+l.Line] = true
	}
	for range 2 {
		again := b.must("LoginHistory", "LoginEvent")
		if len(again) > 2*121 {
			t.Errorf("%d rows again: more than the overlap", len(again))
		}
		for _, l := range again {
			if !first[l.TS+l.Line] {
				t.Fatalf("new: %s", l.Line)
			}
		}
	}
	b.config = func(c *Config) { c.Overlap = 0 }
	if again := b.must("LoginHistory", "LoginEvent"); len(again) != 0 {
		t.Errorf("%d rows again without an overlap", len(again))
	}
}

func TestEmptyObjectIsAnchored(t *testing.T) {
	b := newBench(t)
	b.config = func(c *Config) { c.Lookback = time.Hour }
	if got := b.must("LoginHistory", "LoginEvent"); len(got) != 0 {
		t.Fatal("rows")
	}
	b.advance(5 * time.Hour)
	ids := b.logins(1, b.ago(4*time.Hour), 0)
	before := b.logins(1, b.ago(6*time.Hour+time.Minute), 0) // before the run that anchored it began
	if got := origins(b.must("LoginHistory", "LoginEvent")); len(got) != 1 || got[0] != ids[0] {
		t.Errorf("rows %q, want %q, not %q", got, ids, before)
	}
}

func TestKillAndResume(t *testing.T) { // at any record; what comes out covers the source
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			b := newBench(t)
			b.config = func(c *Config) {
				c.BufferBytes = 200 << 10
				c.Overlap = []time.Duration{0, 10 * time.Minute}[seed%2]
			}
			var want []string
			got := map[string]string{}
			for round := 0; round < 30; round++ {
				if round < 15 {
					n, at := rnd.IntN(80), b.ago(time.Duration(rnd.IntN(4))*time.Minute+time.Minute)
					step := time.Duration(rnd.IntN(3)) * time.Millisecond
					want = append(want, b.logins(n, at, step)...)
					want = append(want, b.events(n, round*1000, rnd.IntN(2) == 0, at, step)...)
				}
				b.limit = 0
				if rnd.IntN(3) > 0 && round < 25 {
					b.limit = 1 + rnd.IntN(120)
				}
				lines, err := b.pull("LoginHistory", "LoginEvent")
				if err != nil && b.limit == 0 {
					t.Fatal(err)
				}
				for _, l := range entries(lines) {
					if was, ok := got[l.Origin]; ok && was != l.TS+l.Line {
						t.Fatalf("a repeat differs: %s, then %s", was, l.Line)
					}
					got[l.Origin] = l.TS + l.Line
				}
				b.advance(time.Duration(rnd.IntN(5)) * time.Minute)
			}
			missing := 0
			for _, id := range want {
				if got[id] == "" {
					missing++
				}
			}
			if missing > 0 || len(got) != len(want) {
				t.Errorf("%d of %d rows are missing, %d came", missing, len(want), len(got))
			}
		})
	}
}

func TestManyRowsInTheOverlap(t *testing.T) { // ids in bounded memory: the overlap shrinks
	b := newBench(t)
	b.config = func(c *Config) { c.Remember = 300 }
	b.logins(1000, b.ago(9*time.Minute), 100*time.Millisecond)
	s := b.open("LoginHistory")
	if n := len(b.mustCycle(s)); n != 1000 {
		t.Fatalf("%d rows", n)
	}
	for range 3 {
		b.advance(time.Minute)
		if n := len(b.mustCycle(s)); n != 0 {
			t.Errorf("%d rows again", n)
		}
	}
	if n := s.series[0].Remembered(); n > 300 {
		t.Errorf("%d ids are kept", n)
	}
	if !strings.Contains(b.log.String(), "the overlap is shorter than asked for") {
		t.Error("nothing says so")
	}
}

func TestOlderThanWhatIsKept(t *testing.T) {
	b := newBench(t)
	b.logins(1, b.ago(time.Hour), 0)
	b.doc["eventlog_objects:LoginHistory"] = "2025-12-01"
	b.doc["eventlog_objects:SetupAuditTrail"] = "2026-07-01"
	if got := b.must("LoginHistory", "SetupAuditTrail"); len(got) != 1 {
		t.Errorf("%d rows", len(got))
	}
	if log := b.log.String(); strings.Count(log, "Salesforce has deleted rows") != 1 || !strings.Contains(log, "from=2025-12-01T00:00:00.000Z until=2026-01-04T12:00") {
		t.Errorf("the log is %s", log)
	}
}
