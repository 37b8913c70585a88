package pubsub

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"sf2loki/pkg/tally"
)

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

// Totals is a look at the counters of a run.
type Totals struct {
	tally.Totals
	Topics  []TopicCount `json:"topics"` // by name
	Schemas int          `json:"schemas"`
}

// Stats are the counters of a run. They are safe for concurrent use.
type Stats struct {
	*tally.Stats

	mu      sync.Mutex
	topics  map[string]*TopicCount
	schemas int
}

func newStats() *Stats { return &Stats{Stats: tally.New(), topics: map[string]*TopicCount{}} }

// declare has the counters of topics exist before anything is known of them.
func (s *Stats) declare(topics []string) {
	for _, topic := range topics {
		s.topic(topic, func(*TopicCount) {})
		if name, severally := eventType(topic); !severally {
			s.Add(&tally.Count{EventType: name})
		}
	}
}

// Totals returns a copy of the counters.
func (s *Stats) Totals() Totals {
	t := Totals{Totals: s.Stats.Totals()}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Schemas = s.schemas
	for _, c := range s.topics {
		copied := *c
		copied.DecodeErrors = maps.Clone(c.DecodeErrors)
		t.Topics = append(t.Topics, copied)
	}
	slices.SortFunc(t.Topics, func(a, b TopicCount) int { return strings.Compare(a.Topic, b.Topic) })
	return t
}

func (s *Stats) setSchemas(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.schemas = n
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
