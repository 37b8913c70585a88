package spool

import (
	"math"
	"time"
)

// Summary counts records.
type Summary struct {
	Records  int64            `json:"records"`
	Unique   int64            `json:"unique"` // different ids; set by Seal
	Bytes    int64            `json:"bytes"`
	Statuses map[Status]int64 `json:"statuses"`

	// What follows is of the records with something left to do.
	Waiting int64            `json:"waiting"`
	Reasons map[string]int64 `json:"reasons"`

	FirstCaptured *time.Time `json:"first_captured_at,omitempty"`
	LastCaptured  *time.Time `json:"last_captured_at,omitempty"`
	OldestEvent   *time.Time `json:"oldest_event,omitempty"`
	NewestEvent   *time.Time `json:"newest_event,omitempty"`

	// Beyond counts those that are too old for the server now, and
	// BeyondTomorrow those that will be in a day; at NextBeyond the next one
	// will be, and at AllBeyond the last.
	Beyond         int64      `json:"beyond"`
	BeyondTomorrow int64      `json:"beyond_tomorrow"`
	NextBeyond     *time.Time `json:"next_beyond_at,omitempty"`
	AllBeyond      *time.Time `json:"all_beyond_at,omitempty"`

	window   Window
	distinct distinct
}

// Window is what the server takes: entries younger than MaxAge, all when it is 0.
type Window struct {
	Now    time.Time
	MaxAge time.Duration
}

// NewSummary returns a Summary that judges ages by the window.
func NewSummary(w Window) *Summary {
	return &Summary{Statuses: map[Status]int64{}, Reasons: map[string]int64{}, window: w}
}

// Add counts a record.
func (s *Summary) Add(l *Letter, status Status) {
	s.Records++
	s.distinct.add(l.ID())
	s.Bytes += int64(len(l.Raw)) + 1
	s.Statuses[status]++
	if at, ok := l.Captured(); ok {
		extend(&s.FirstCaptured, &s.LastCaptured, at)
	}
	if status.final() {
		return
	}
	s.Waiting++
	s.addReason(string(l.Reason()), 1)
	if at, ok := l.Time(); ok && l.HasLine() {
		s.addEvent(at)
	}
}

// addReason counts reasons apart as kinds are.
func (s *Summary) addReason(reason string, n int64) {
	if _, ok := s.Reasons[reason]; !ok && (len(s.Reasons) >= mostKinds || len(reason) > longKind) {
		reason = otherKind
	}
	s.Reasons[reason] += n
}

// Merge counts what other counted, which has not been sealed.
func (s *Summary) Merge(other *Summary) {
	s.Records += other.Records
	s.Bytes += other.Bytes
	s.Waiting += other.Waiting
	s.Beyond += other.Beyond
	s.BeyondTomorrow += other.BeyondTomorrow
	for status, n := range other.Statuses {
		s.Statuses[status] += n
	}
	for reason, n := range other.Reasons {
		s.addReason(reason, n)
	}
	s.distinct.ids = append(s.distinct.ids, other.distinct.ids...)
	for _, span := range []struct{ first, last, otherFirst, otherLast **time.Time }{
		{&s.FirstCaptured, &s.LastCaptured, &other.FirstCaptured, &other.LastCaptured},
		{&s.OldestEvent, &s.NewestEvent, &other.OldestEvent, &other.NewestEvent},
		{&s.NextBeyond, &s.AllBeyond, &other.NextBeyond, &other.AllBeyond},
	} {
		if *span.otherFirst != nil {
			extend(span.first, span.last, (*span.otherFirst).UnixNano())
			extend(span.first, span.last, (*span.otherLast).UnixNano())
		}
	}
}

// Seal ends the counting.
func (s *Summary) Seal() {
	s.Unique = s.distinct.count()
	s.distinct = distinct{}
}

func (s *Summary) addEvent(at int64) {
	extend(&s.OldestEvent, &s.NewestEvent, at)
	if s.window.MaxAge <= 0 {
		return
	}
	end := time.Unix(0, min(at, math.MaxInt64-int64(s.window.MaxAge))).Add(s.window.MaxAge).UTC()
	switch left := end.Sub(s.window.Now); {
	case left <= 0:
		s.Beyond++
		s.BeyondTomorrow++
		return
	case left <= 24*time.Hour:
		s.BeyondTomorrow++
	}
	extend(&s.NextBeyond, &s.AllBeyond, end.UnixNano())
}

func extend(first, last **time.Time, ns int64) {
	if *first == nil {
		*first, *last = new(time.Time), new(time.Time)
		**first = time.Unix(0, ns).UTC()
		**last = **first
		return
	}
	if at := time.Unix(0, ns).UTC(); at.Before(**first) {
		**first = at
	} else if at.After(**last) {
		**last = at
	}
}
