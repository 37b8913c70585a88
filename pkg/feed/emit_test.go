package feed

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/outlet"
	"sf2loki/pkg/record"
	"sf2loki/pkg/tally"
)

// Whatever becomes of a row is in the account, and the account balances; the
// next one begins anew.
func TestAccount(t *testing.T) {
	var out bytes.Buffer
	stats := tally.New()
	e := NewEmitter(&outlet.Output{Records: func(b []byte) error { out.Write(b); return nil }, Now: time.Now, RunID: "r"}, stats, "k", "X",
		[]record.Pair{{Name: []byte("source"), Value: []byte("s")}})
	for range 3 {
		if err := e.Row(&record.Record{Time: 1, HasTime: true, Line: []byte("x"), Value: []byte("v")}, 10); err != nil {
			t.Fatal(err)
		}
	}
	e.Skip()
	e.Filter(10)
	e.Filter(10)
	e.SampleOut(10)
	e.Fallback()
	e.Query()
	if !e.News() {
		t.Error("rows are no news")
	}
	track := &Track{Pos: Position{Set: true, Time: 6e6}}
	err := errors.Join(e.Gap(&record.Record{Time: 2, HasTime: true}, map[string]string{"what": "x"}, 404, "gone"), e.Account(track, 0, 6e6))
	if e.News() {
		t.Error("an account leaves news behind")
	}
	if err := errors.Join(err, e.Checkpoint([]byte("w")), e.Account(track, 6e6, 6e6)); err != nil {
		t.Fatal(err)
	}
	c := stats.Totals().Types[0]
	if c.Read != 7 || c.Read != c.Written+c.Filtered+c.SampledOut+c.SkippedDuplicate+c.DeadLettered {
		t.Errorf("the account does not balance: %+v", c)
	}
	if c.Gaps != 1 || c.Fallbacks != 1 || c.Queries != 1 || c.Bytes != 60 || c.Position != 6e6 {
		t.Errorf("%+v", c)
	}
	for _, want := range []string{
		`"account":{"origin":"X 1970-01-01T00:00:00.000Z/1970-01-01T00:00:00.006Z","event_type":"X","bytes":60,"rows":7,"filtered":2,"sampled_out":1,"skipped_duplicate":1,"dead_lettered":0,"source_gaps":1}`,
		`"account":{"origin":"X 1970-01-01T00:00:00.006Z/1970-01-01T00:00:00.006Z","event_type":"X","bytes":0,"rows":0,"filtered":0,"sampled_out":0,"skipped_duplicate":0,"dead_lettered":0}`,
		`"gap":{"what":"x"}`, `"reason":"source_gap"`, `"checkpoint_value":"w"`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
}

// A row that could not be written does not count as written.
func TestFailedWrite(t *testing.T) {
	full := errors.New("full")
	stats := tally.New()
	e := NewEmitter(&outlet.Output{Records: func([]byte) error { return full }, Now: time.Now, Letter: func([]byte) error { return full }}, stats, "k", "X", nil)
	if err := e.Row(&record.Record{Time: 1, HasTime: true, Line: []byte("x")}, 1); err != nil {
		t.Fatal(err)
	}
	if err := e.Flush(); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
	if err := e.Gap(&record.Record{Time: 2, HasTime: true}, "x", 0, "gone"); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
	if c := stats.Totals().Types[0]; c.Read != 0 || c.Written != 0 {
		t.Errorf("%+v", c)
	}
}
