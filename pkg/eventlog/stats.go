package eventlog

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Count is what became of the rows of one event type in this run: Read is the
// sum of Written, Filtered, SampledOut, SkippedDuplicate and DeadLettered.
type Count struct {
	EventType        string `json:"event_type"`
	Read             int64  `json:"read"`
	Written          int64  `json:"written"`
	Filtered         int64  `json:"filtered"`
	SampledOut       int64  `json:"sampled_out"`
	SkippedDuplicate int64  `json:"skipped_duplicate"`
	DeadLettered     int64  `json:"dead_lettered"`

	Files     int64 `json:"files"`     // read to their end
	Bytes     int64 `json:"bytes"`     // downloaded, or read from disk
	Fallbacks int64 `json:"fallbacks"` // rows without a time of their own
	Gaps      int64 `json:"gaps"`      // files, or ends of files, that could not be had
	Newest    int64 `json:"newest"`    // time of the newest row written; 0: none
	Position  int64 `json:"position"`  // CreatedDate of the file that the position has reached
}

func (c *Count) add(d *Count) {
	c.Read += d.Read
	c.Written += d.Written
	c.Filtered += d.Filtered
	c.SampledOut += d.SampledOut
	c.SkippedDuplicate += d.SkippedDuplicate
	c.DeadLettered += d.DeadLettered
	c.Files += d.Files
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

// Totals is a look at the counters of a run.
type Totals struct {
	Types          []Count            `json:"types"`   // by name
	Letters        map[string]Letters `json:"letters"` // by reason
	LetterErrors   int64              `json:"letter_errors"`
	DownloadErrors map[string]int64   `json:"download_errors"` // by "listing", "transport", "incomplete" or "HTTP <status>"
	PollErrors     map[string]int64   `json:"poll_errors"`     // by event type, or "discovery"
	LoadErrors     int64              `json:"load_errors"`     // stored positions that could not be read
	Throttled      int64              `json:"throttled"`
	Cycle          time.Duration      `json:"cycle_ns"` // the last one
	Waiting        map[string]string  `json:"waiting"`  // event type held back: why
}

// Stats are the counters of a run. They are safe for concurrent use.
type Stats struct {
	mu    sync.Mutex
	types map[string]*Count
	t     Totals
}

func newStats() *Stats {
	return &Stats{types: map[string]*Count{}, t: Totals{
		Letters: map[string]Letters{}, DownloadErrors: map[string]int64{}, PollErrors: map[string]int64{}, Waiting: map[string]string{},
	}}
}

// Totals returns a copy of the counters.
func (s *Stats) Totals() Totals {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.t
	t.Letters, t.DownloadErrors = maps.Clone(t.Letters), maps.Clone(t.DownloadErrors)
	t.PollErrors, t.Waiting = maps.Clone(t.PollErrors), maps.Clone(t.Waiting)
	for _, c := range s.types {
		t.Types = append(t.Types, *c)
	}
	slices.SortFunc(t.Types, func(a, b Count) int { return strings.Compare(a.EventType, b.EventType) })
	return t
}

func (s *Stats) add(d *Count) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.types[d.EventType]
	if c == nil {
		c = &Count{EventType: d.EventType}
		s.types[d.EventType] = c
	}
	c.add(d)
}

func (s *Stats) letter(reason string, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.t.Letters[reason]
	l.Entries++
	l.Bytes += int64(size)
	s.t.Letters[reason] = l
}

func (s *Stats) change(fn func(t *Totals)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(&s.t)
}
