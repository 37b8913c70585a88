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
	EventType        string `json:"event_type"`
	Read             int64  `json:"read"`
	Written          int64  `json:"written"`
	Filtered         int64  `json:"filtered"`
	SampledOut       int64  `json:"sampled_out"`
	SkippedDuplicate int64  `json:"skipped_duplicate"`
	DeadLettered     int64  `json:"dead_lettered"`

	Bytes     int64 `json:"bytes"`     // of payloads
	Fallbacks int64 `json:"fallbacks"` // events without a time of their own
	Gaps      int64 `json:"gaps"`      // spans of topics that may be missing
	Newest    int64 `json:"newest"`    // time of the newest event written; 0: none
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
	c.Gaps += d.Gaps
	c.Newest = max(c.Newest, d.Newest)
}

// TopicCount is how the stream of one topic has fared.
type TopicCount struct {
	Topic        string `json:"topic"`
	Up           bool   `json:"up"`       // the stream is open
	Credit       int    `json:"credit"`   // events that it may still bring
	Position     string `json:"position"` // of the last event or sign of life that was read
	Reconnects   int64  `json:"reconnects"`
	Stalls       int64  `json:"stalls"`        // streams that fell silent
	Lost         int64  `json:"lost"`          // positions that Salesforce refused
	DecodeStalls int64  `json:"decode_stalls"` // times that nothing could be decoded for a while
	CommitErrors int64  `json:"commit_errors"` // managed: positions that Salesforce did not take
	Failing      string `json:"failing,omitempty"`
	GivenUp      string `json:"given_up,omitempty"`

	DecodeErrors map[string]int64 `json:"decode_errors"` // by reason
}

// Letters counts dead letters of one reason.
type Letters struct {
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes"`
}

// Totals is a look at the counters of a run.
type Totals struct {
	Types        []Count            `json:"event_types"` // by name
	Topics       []TopicCount       `json:"topics"`      // by name
	Letters      map[string]Letters `json:"letters"`     // by reason
	LetterErrors int64              `json:"letter_errors"`
	LoadErrors   int64              `json:"load_errors"` // stored positions that could not be read
	Schemas      int                `json:"schemas"`
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

// declare has the counters of topics exist before anything is known of them.
func (s *Stats) declare(topics []string) {
	for _, topic := range topics {
		s.topic(topic, func(*TopicCount) {})
		if name, severally := eventType(topic); !severally {
			s.add(&Count{EventType: name})
		}
	}
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
		for _, reason := range decodeReasons {
			c.DecodeErrors[reason] = 0
		}
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
