package spool

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/record"
)

// An entry at the end of time never gets too old.
func TestEndOfTime(t *testing.T) {
	s := NewSummary(Window{Now: testTime, MaxAge: 7 * 24 * time.Hour})
	var l Letter
	if err := NewReader(strings.NewReader(`{"ts_unix_nano":"9223372036854775807","line":"x"}`), "test").Next(&l); err != nil {
		t.Fatal(err)
	}
	s.Add(&l, New)
	if s.Beyond != 0 || s.NextBeyond == nil || s.NextBeyond.Year() != 2262 {
		t.Errorf("%d too old, the next at %v", s.Beyond, s.NextBeyond)
	}
}

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

// However many reasons there are, a thousand are told apart.
func TestManyReasons(t *testing.T) {
	one, all := NewSummary(Window{}), NewSummary(Window{})
	for i := range 3 * mostKinds {
		one.addReason(fmt.Sprint(i), 1)
	}
	one.addReason(strings.Repeat("x", longKind+1), 1)
	all.addReason("before", 1)
	all.Merge(one)
	if n := one.Reasons[otherKind]; len(one.Reasons) != mostKinds+1 || n != 2*mostKinds+1 {
		t.Errorf("%d reasons, %d other", len(one.Reasons), n)
	}
	if n := all.Reasons[otherKind]; len(all.Reasons) > mostKinds+1 || n < 2*mostKinds+1 {
		t.Errorf("%d reasons of both, %d other", len(all.Reasons), n)
	}
}
