package pubsub

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// Count is what became of the events of one type in this run: Read is the sum
// of Written, Filtered, SampledOut, SkippedDuplicate and DeadLettered.
type Count struct {
	EventType        string
	Read             int64
	Written          int64
	Filtered         int64
	SampledOut       int64
	SkippedDuplicate int64
	DeadLettered     int64

	Bytes     int64 // of payloads
	Fallbacks int64 // events without a time of their own
	Newest    int64 // time of the newest event written; 0: none
}

func (c *Count) add(d *Count) {
	c.Read += d.Read
	c.Written += d.Written
	c.Filtered += d.Filtered
	c.SampledOut += d.SampledOut
	c.SkippedDuplicate += d.SkippedDuplicate
	c.DeadLettered += d.DeadLettered
	c.Bytes += d.Bytes
	c.Fallbacks += d.Fallbacks
	c.Newest = max(c.Newest, d.Newest)
}

// TopicCount is how the stream of one topic has fared.
type TopicCount struct {
	Topic        string
	Up           bool   // the stream is open
	Credit       int    // events that it may still bring
	Position     string // of the last event or sign of life that was read
	Reconnects   int64
	Stalls       int64 // streams that fell silent
	Lost         int64 // positions that Salesforce refused
	DecodeStalls int64 // times that nothing could be decoded for a while
	CommitErrors int64 // managed: positions that Salesforce did not take
	Failing      string
	GivenUp      string

	DecodeErrors map[string]int64 // by reason
}

// Letters counts dead letters of one reason.
type Letters struct{ Entries, Bytes int64 }

// Totals is a look at the counters of a run.
type Totals struct {
	Types        []Count            // by name
	Topics       []TopicCount       // by name
	Letters      map[string]Letters // by reason
	LetterErrors int64
	LoadErrors   int64 // stored positions that could not be read
	Gaps         int64
	Schemas      int
}

// Stats are the counters of a run. They are safe for concurrent use.
type Stats struct {
	mu     sync.Mutex
	types  map[string]*Count
	topics map[string]*TopicCount
	t      Totals
}

func newStats() *Stats {
	return &Stats{types: map[string]*Count{}, topics: map[string]*TopicCount{}, t: Totals{Letters: map[string]Letters{}}}
}

// Totals returns a copy of the counters.
func (s *Stats) Totals() Totals {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.t
	t.Letters = maps.Clone(t.Letters)
	for _, c := range s.types {
		t.Types = append(t.Types, *c)
	}
	for _, c := range s.topics {
		copied := *c
		copied.DecodeErrors = maps.Clone(c.DecodeErrors)
		t.Topics = append(t.Topics, copied)
	}
	slices.SortFunc(t.Types, func(a, b Count) int { return strings.Compare(a.EventType, b.EventType) })
	slices.SortFunc(t.Topics, func(a, b TopicCount) int { return strings.Compare(a.Topic, b.Topic) })
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

// topic changes the counters of a topic, which exist from then on.
func (s *Stats) topic(name string, fn func(c *TopicCount)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.topics[name]
	if c == nil {
		c = &TopicCount{Topic: name, DecodeErrors: map[string]int64{}}
		s.topics[name] = c
	}
	fn(c)
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
