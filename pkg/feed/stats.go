package feed

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// Count is what became of the rows of one event type in this run: Read is the
// sum of Written, Filtered, SampledOut, SkippedDuplicate and DeadLettered.
type Count struct {
	EventType        string `json:"event_type"`
	Read             int64  `json:"read"`
	Written          int64  `json:"written"`
	Filtered         int64  `json:"filtered"`
	SampledOut       int64  `json:"sampled_out"`
	SkippedDuplicate int64  `json:"skipped_duplicate"` // brought again by the overlap
	DeadLettered     int64  `json:"dead_lettered"`

	Bytes     int64 `json:"bytes"` // of rows and bodies
	Queries   int64 `json:"queries"`
	Fallbacks int64 `json:"fallbacks"` // rows without a time of their own
	Gaps      int64 `json:"gaps"`      // what could not be had
	Newest    int64 `json:"newest"`    // time of the newest row written; 0: none
	Position  int64 `json:"position"`  // time that the position has reached
}

func (c *Count) add(d *Count) {
	c.Read += d.Read
	c.Written += d.Written
	c.Filtered += d.Filtered
	c.SampledOut += d.SampledOut
	c.SkippedDuplicate += d.SkippedDuplicate
	c.DeadLettered += d.DeadLettered
	c.Bytes += d.Bytes
	c.Queries += d.Queries
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

// Totals is a look at the counters of a run.
type Totals struct {
	Types          []Count            `json:"types"`   // by name
	Letters        map[string]Letters `json:"letters"` // by reason
	LetterErrors   int64              `json:"letter_errors"`
	PollErrors     map[string]int64   `json:"poll_errors"`     // queries that failed, by event type
	Stalls         map[string]int64   `json:"stalls"`          // cycles that could not pass a time, by event type
	DownloadErrors map[string]int64   `json:"download_errors"` // bodies, by "transport" or "HTTP <status>"
	BodiesSkipped  map[string]int64   `json:"bodies_skipped"`  // by "size", "download_error" or "gone"
	LoadErrors     int64              `json:"load_errors"`     // stored positions that could not be read
	Throttled      int64              `json:"throttled"`
	Waiting        map[string]string  `json:"waiting"` // event type held back: why
}

// Stats are the counters of a run. They are safe for concurrent use.
type Stats struct {
	mu    sync.Mutex
	types map[string]*Count
	t     Totals
}

// NewStats returns counters at zero.
func NewStats() *Stats {
	return &Stats{types: map[string]*Count{}, t: Totals{
		Letters: map[string]Letters{}, PollErrors: map[string]int64{}, Stalls: map[string]int64{},
		DownloadErrors: map[string]int64{}, BodiesSkipped: map[string]int64{}, Waiting: map[string]string{},
	}}
}

// Totals returns a copy of the counters.
func (s *Stats) Totals() Totals {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.t
	t.Letters, t.PollErrors, t.Stalls = maps.Clone(t.Letters), maps.Clone(t.PollErrors), maps.Clone(t.Stalls)
	t.DownloadErrors, t.BodiesSkipped, t.Waiting = maps.Clone(t.DownloadErrors), maps.Clone(t.BodiesSkipped), maps.Clone(t.Waiting)
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
	c := s.types[d.EventType]
	if c == nil {
		c = &Count{EventType: d.EventType}
		s.types[d.EventType] = c
	}
	c.add(d)
}

// Change changes the counters that belong to no event type.
func (s *Stats) Change(fn func(t *Totals)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(&s.t)
}

func (s *Stats) letter(reason string, size int) {
	s.Change(func(t *Totals) {
		l := t.Letters[reason]
		l.Entries++
		l.Bytes += int64(size)
		t.Letters[reason] = l
	})
}
