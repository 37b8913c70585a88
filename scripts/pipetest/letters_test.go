package pipetest

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/scripts/testbed"
)

// Dead letters fed back by hand, with what the live lane commits to, are
// pushed and move no position.
func TestLettersByHand(t *testing.T) {
	t.Parallel()
	d := newDay(t)
	d.hour(5, 60, 0, time.Hour)
	d.srv.SetLimits("fake", func(l *lokitest.Limits) { l.MaxLineSize = 700 })
	d.set("LOKI_PUSH_BREAKER=false").OK(live)
	letters, before := d.letters("dead"), d.positions()
	if len(letters) == 0 || len(letters)+len(held(d.srv)) != len(d.org.want) || before["eventlogfile:Login"] == "" {
		t.Fatalf("%d letters and %d entries of %d rows; positions %v", len(letters), len(held(d.srv)), len(d.org.want), before)
	}
	d.srv.SetLimits("fake", func(l *lokitest.Limits) { l.MaxLineSize = 256 << 10 })
	for range 2 {
		d.OK(`cat dead/*.ndjson | loki-push --url "$LOKI" | ckpt commit state.json`)
		same(t, "Loki", held(d.srv), d.org.want)
		if after := d.positions(); !maps.Equal(after, before) {
			t.Errorf("positions: %v, before %v", after, before)
		}
	}
}

// Both programs write their letters to one descriptor, each line whole.
func TestSharedDescriptor(t *testing.T) {
	for _, shell := range shells {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Shell = shell
			data, err := os.ReadFile(fixtures + "/Report_truncated.csv")
			if err != nil {
				t.Fatal(err)
			}
			b.Write("torn.csv", string(data))
			srv := loki(t, lokitest.Config{})
			b.pipe(65, `{ sf-pull elf --file torn.csv | loki-push --breaker=false --url `+srv.URL+` | ckpt commit state.json; } 3>letters`)
			reasons := map[string]int{}
			for _, l := range parseLetters(t, b.Read("letters")) {
				reasons[l.Reason]++
			}
			if want := map[string]int{"decode_error": 1, "too_old": 16}; !maps.Equal(reasons, want) {
				t.Errorf("letters %v, want %v", reasons, want)
			}
		})
	}
}

// Who moves a position by hand while a pipeline runs wins; the pipeline ends
// with 76, and goes on from there when it is started again.
func TestConflict(t *testing.T) {
	t.Parallel()
	d := newDay(t)
	d.hour(5, 400, 0, time.Hour)
	const key = "eventlogfile:Login"
	set := fmt.Sprintf("ckpt set state.json %s %s", key, hoursAgo(48).Format(time.RFC3339))
	d.srv.Script(func(n int, _ lokitest.Request) *lokitest.Answer {
		if n == 20 {
			testbed.Eventually(t, "a first commit", func() bool { return d.positions()[key] != "" })
			if r := d.Run(set); r.Status != 0 {
				t.Errorf("%v", r)
			}
		}
		return nil
	})
	r := d.Run(strings.Replace(live, "--spool dead", "--spool dead --batch-entries 10 --in-flight 1", 1))
	if r.Status != 76 || !strings.Contains(r.Stderr, "another writer moved "+key) {
		t.Errorf("want 76: %v", r)
	}
	if p := d.positions()[key]; !strings.HasPrefix(p, hoursAgo(48).Format("2006-01-02T15:")) {
		t.Errorf("position %s", p)
	}
	d.srv.Script(nil)
	d.OK(live)
	d.stored()
}

// What jq lays out over several lines is a stream all the same, on both sides
// of loki-push; so are acknowledgements that tee has copied.
func TestPrettyStreams(t *testing.T) {
	t.Parallel()
	d := newDay(t)
	d.hour(5, 100, 0, time.Hour)
	d.OK(`sf-pull elf --event-type Login --resume state.json | jq . | loki-push --url "$LOKI" | jq . | tee acks | ckpt commit state.json`)
	d.stored()
	if d.positions()["eventlogfile:Login"] == "" || !strings.Contains(d.Read("acks"), "\n  \"account\": {") {
		t.Errorf("positions %v, acks %.500s", d.positions(), d.Read("acks"))
	}
}
