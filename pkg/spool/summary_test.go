package spool

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/record"
)

// Two halves count what the whole counts.
func TestMerge(t *testing.T) {
	window := Window{Now: testTime.Add(7*24*time.Hour + 2), MaxAge: 7 * 24 * time.Hour}
	whole, first, second := NewSummary(window), NewSummary(window), NewSummary(window)
	for i := range 8 {
		var l Letter
		line := sample(i/2, []record.Reason{record.TooOld, record.BadRequest}[i%2])
		if err := NewReader(strings.NewReader(string(line)), "test").Next(&l); err != nil {
			t.Fatal(err)
		}
		status := []Status{New, Failed, Replayed}[i%3]
		whole.Add(&l, status)
		[]*Summary{first, second}[i/5].Add(&l, status)
	}
	first.Merge(second)
	first.Merge(NewSummary(window))
	whole.Seal()
	first.Seal()
	got, _ := json.Marshal(first)
	want, _ := json.Marshal(whole)
	if string(got) != string(want) || whole.Unique != 4 || whole.Beyond == 0 || whole.NextBeyond == nil {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
