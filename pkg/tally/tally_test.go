package tally

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestStats(t *testing.T) {
	s := New()
	s.Add(&Count{EventType: "B", Read: 3, Written: 2, Filtered: 1, Newest: 9, Position: 4})
	s.Add(&Count{EventType: "A"})
	s.Add(&Count{EventType: "B", Read: 1, DeadLettered: 1, Newest: 5, Position: 6, Files: 1, Queries: 2, Bytes: 3, Fallbacks: 4, Gaps: 5})
	s.Letter("decode_error", 10)
	s.Letter("decode_error", 5)
	s.Change(func(t *Totals) { t.PollErrors["B"]++ })
	got := s.Totals()
	want := Count{EventType: "B", Read: 4, Written: 2, Filtered: 1, DeadLettered: 1, Newest: 9, Position: 6, Files: 1, Queries: 2, Bytes: 3, Fallbacks: 4, Gaps: 5}
	if len(got.Types) != 2 || got.Types[0] != (Count{EventType: "A"}) || got.Types[1] != want {
		t.Errorf("types are %+v", got.Types)
	}
	if got.Letters["decode_error"] != (Letters{2, 15}) || got.PollErrors["B"] != 1 {
		t.Errorf("totals are %+v", got)
	}
	got.Letters["x"], got.PollErrors["B"] = Letters{}, 7
	if again := s.Totals(); len(again.Letters) != 1 || again.PollErrors["B"] != 1 {
		t.Error("a look is no copy")
	}
}

// No input fills the memory with event types.
func TestManyTypes(t *testing.T) {
	s := New()
	s.Add(&Count{EventType: strings.Repeat("x", long+1), Read: 1})
	for i := range 5 * most {
		s.Add(&Count{EventType: fmt.Sprint("T", i), Read: 1})
	}
	types := s.Totals().Types
	sum := int64(0)
	for _, c := range types {
		sum += c.Read
		if c.EventType == other && c.Read != 4*most+2 {
			t.Errorf("others are %+v", c)
		}
	}
	if len(types) != most || sum != 5*most+1 {
		t.Errorf("%d types, %d events", len(types), sum)
	}
}

// What only fails is no healthy source, however often it is tried (#17, peers 49).
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		s.Failing("topic A", errors.New("refused"))
		s.Failing("topic B", nil)
		time.Sleep(time.Minute)
		s.Failing("topic B", errors.New("busy"))
		s.Failing("topic A", errors.New("refused again"))
		time.Sleep(unreadyAfter - time.Minute - time.Second)
		if err := s.Ready(); err != nil {
			t.Errorf("too early: %v", err)
		}
		time.Sleep(time.Second)
		if err := s.Ready(); err == nil || err.Error() != "topic A has failed for 15m0s: refused again" {
			t.Errorf("not ready because of: %v", err)
		}
		if f := s.Totals().Failing; len(f) != 2 || f["topic B"] != "busy" {
			t.Errorf("failing are %v", f)
		}
		s.Failing("topic A", nil)
		if err := s.Ready(); err != nil {
			t.Errorf("it works again: %v", err)
		}
		time.Sleep(time.Hour)
		if err := s.Ready(); err == nil || !strings.HasPrefix(err.Error(), "topic B has failed for 1h14m0s") {
			t.Errorf("not ready because of: %v", err)
		}
	})
}
