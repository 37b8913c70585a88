// Package tally counts what becomes of the events of a source, by event type.
// Every source has one Stats; what it shows is in the account of a run, in
// metrics and in the status snapshot, which sf-pull(1) describes.
package tally

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Count is what became of the events of one type in this run: Read is the sum of
// Written, Filtered, SampledOut, SkippedDuplicate and DeadLettered.
type Count struct {
	EventType        string `json:"event_type"`
	Read             int64  `json:"read"`
	Written          int64  `json:"written"`
	Filtered         int64  `json:"filtered"`
	SampledOut       int64  `json:"sampled_out"`
	SkippedDuplicate int64  `json:"skipped_duplicate"` // brought again
	DeadLettered     int64  `json:"dead_lettered"`

	Files     int64 `json:"files,omitempty"`    // read to their end
	Queries   int64 `json:"queries,omitempty"`  // for rows
	Bytes     int64 `json:"bytes"`              // of files, rows, bodies or payloads
	Fallbacks int64 `json:"fallbacks"`          // events without a time of their own
	Gaps      int64 `json:"gaps"`               // what could not be had
	Newest    int64 `json:"newest"`             // time of the newest event written; 0: none
	Position  int64 `json:"position,omitempty"` // time that the position has reached
}

// Add adds another count; that of which event type is not looked at.
func (c *Count) Add(d *Count) {
	c.Read += d.Read
	c.Written += d.Written
	c.Filtered += d.Filtered
	c.SampledOut += d.SampledOut
	c.SkippedDuplicate += d.SkippedDuplicate
	c.DeadLettered += d.DeadLettered
	c.Files += d.Files
	c.Queries += d.Queries
	c.Bytes += d.Bytes
	c.Fallbacks += d.Fallbacks
	c.Gaps += d.Gaps
	c.Newest = max(c.Newest, d.Newest)
	c.Position = max(c.Position, d.Position)
}

// Letters counts dead letters of one reason.
type Letters struct {
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes"`
}

// Totals is a look at the counters of a run. Those that a source does not have
// stay empty.
type Totals struct {
	Types          []Count            `json:"types"`   // by name
	Letters        map[string]Letters `json:"letters"` // by reason
	LetterErrors   int64              `json:"letter_errors"`
	LoadErrors     int64              `json:"load_errors"`               // stored positions that could not be read
	PollErrors     map[string]int64   `json:"poll_errors,omitempty"`     // queries that failed, by event type, or "discovery"
	Stalls         map[string]int64   `json:"stalls,omitempty"`          // cycles that could not pass a time, by event type
	DownloadErrors map[string]int64   `json:"download_errors,omitempty"` // by "listing", "transport", "incomplete" or "HTTP <status>"
	BodiesSkipped  map[string]int64   `json:"bodies_skipped,omitempty"`  // by "size", "download_error" or "gone"
	Throttled      int64              `json:"throttled"`
	Cycle          time.Duration      `json:"cycle_ns,omitempty"` // the last one
	Waiting        map[string]string  `json:"waiting,omitempty"`  // event type held back: why
	Failing        map[string]string  `json:"failing,omitempty"`  // what has failed the last time: why
}

// Beyond most event types, which is more than an org has, all others share a
// count, as those with very long names do, so that no input fills the memory or
// the metrics.
const (
	most  = 1000
	long  = 4096
	other = "other"
)

// Stats are the counters of a run. They are safe for concurrent use.
type Stats struct {
	mu      sync.Mutex
	types   map[string]*Count
	t       Totals
	failing map[string]failure // by what fails
}

// failure is what has failed again and again, and since when.
type failure struct {
	since time.Time
	why   string
}

// unreadyAfter is for how long something may fail before a source is not ready.
const unreadyAfter = 15 * time.Minute

// New returns counters at zero.
func New() *Stats {
	return &Stats{types: map[string]*Count{}, t: Totals{
		Letters: map[string]Letters{}, PollErrors: map[string]int64{}, Stalls: map[string]int64{},
		DownloadErrors: map[string]int64{}, BodiesSkipped: map[string]int64{}, Waiting: map[string]string{},
	}, failing: map[string]failure{}}
}

// Totals returns a copy of the counters.
func (s *Stats) Totals() Totals {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.t
	t.Letters, t.PollErrors, t.Stalls = maps.Clone(t.Letters), maps.Clone(t.PollErrors), maps.Clone(t.Stalls)
	t.DownloadErrors, t.BodiesSkipped, t.Waiting = maps.Clone(t.DownloadErrors), maps.Clone(t.BodiesSkipped), maps.Clone(t.Waiting)
	t.Failing = map[string]string{}
	for what, f := range s.failing {
		t.Failing[what] = f.why
	}
	for _, c := range s.types {
		t.Types = append(t.Types, *c)
	}
	slices.SortFunc(t.Types, func(a, b Count) int { return strings.Compare(a.EventType, b.EventType) })
	return t
}

// Add adds to the counters of d's event type, which exist from then on.
func (s *Stats) Add(d *Count) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := d.EventType
	c := s.types[name]
	if c == nil && (len(s.types) >= most || len(name) > long) {
		name = other
		c = s.types[name]
	}
	if c == nil {
		name = strings.Clone(name) // it may be part of a long line
		c = &Count{EventType: name}
		s.types[name] = c
	}
	c.Add(d)
}

// Letter counts a dead letter of so many bytes.
func (s *Stats) Letter(reason string, size int) {
	s.Change(func(t *Totals) {
		l := t.Letters[reason]
		l.Entries++
		l.Bytes += int64(size)
		t.Letters[reason] = l
	})
}

// Change changes the counters that belong to no event type.
func (s *Stats) Change(fn func(t *Totals)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(&s.t)
}

// Failing notes how the latest attempt at part of the work, as a topic, has
// ended: a nil error ends what was failing.
func (s *Stats) Failing(what string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.failing, what)
		return
	}
	f, ok := s.failing[what]
	if !ok {
		f.since = time.Now()
	}
	f.why = err.Error()
	s.failing[what] = f
}

// Ready is an error when part of the work has failed for too long to be called
// well: a source that only tries again is no healthy one.
func (s *Stats) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	longest, what := unreadyAfter, ""
	for name, f := range s.failing {
		if d := time.Since(f.since); d > longest || d == longest && (what == "" || name < what) {
			longest, what = d, name
		}
	}
	if what == "" {
		return nil
	}
	return fmt.Errorf("%s has failed for %s: %s", what, longest.Round(time.Second), s.failing[what].why)
}
