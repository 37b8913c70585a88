package pubsub

import (
	"context"
	"fmt"
	"slices"

	"sf2loki/pkg/feed"
)

// SourceLabel is what every record of this source has in the label source.
const SourceLabel = "pubsub"

// Plan is what a pull would do.
type Plan struct {
	feed.PlanHead
	Patterns   []string   `json:"patterns,omitempty"` // topics as given
	Include    []string   `json:"include,omitempty"`
	Exclude    []string   `json:"exclude,omitempty"`
	Categories []Category `json:"categories"`
	Total      Amount     `json:"total"`
}

// Category is one topic of a plan.
type Category struct {
	Source       string `json:"source"`
	EventType    string `json:"event_type,omitempty"` // none: the events tell
	Topic        string `json:"topic"`
	Key          string `json:"key"`
	Begin        string `json:"begin,omitempty"` // earliest, latest, or a replay id
	Cause        string `json:"cause,omitempty"`
	CanSubscribe *bool  `json:"can_subscribe,omitempty"`
	Error        string `json:"error,omitempty"`
	Refused      error  `json:"-"` // what Error says, with its status and cure
}

// Amount is how much there is of something. What is in the topics cannot be
// known without reading them.
type Amount struct {
	APICalls int64 `json:"api_calls"` // calls of the bus are none
	Topics   int64 `json:"topics"`
}

// StaticPlan says what cfg alone tells, without a request.
func StaticPlan(cfg *Config) *Plan {
	p := &Plan{PlanHead: feed.NewPlanHead(SourceLabel, cfg.OrgID, feed.Window{}), Patterns: cfg.Topics.patterns(),
		Include: cfg.Topics.Include, Exclude: cfg.Topics.Exclude, Categories: []Category{}}
	topics := cfg.Topics.explicit()
	if cfg.Managed != "" {
		topics = []string{managedTopic(cfg.Managed)}
	}
	for _, topic := range topics {
		p.Categories = append(p.Categories, category(cfg, topic))
	}
	p.Total.Topics = int64(len(topics))
	return p
}

func category(cfg *Config, topic string) Category {
	c := Category{Source: SourceLabel, Topic: topic, Key: cfg.key(topic)}
	if name, severally := eventType(topic); !severally && cfg.Managed == "" {
		c.EventType = name
	}
	return c
}

// Plan asks which topics there are and whether they may be read, and reads
// nothing.
func (s *Source) Plan(ctx context.Context) (*Plan, error) {
	p := StaticPlan(&s.cfg)
	p.Static = false
	p.Total.APICalls = 1 // the session
	if s.cfg.Managed != "" {
		return p, nil
	}
	if err := s.dial(); err != nil {
		return nil, err
	}
	defer s.conn.Close()
	found, err := s.discover(ctx)
	if err != nil {
		return nil, err
	}
	if s.cfg.Topics.Wild() {
		p.Total.APICalls++
	}
	topics := s.cfg.Topics.explicit()
	for _, topic := range found {
		if !slices.Contains(topics, topic) {
			topics = append(topics, topic)
		}
	}
	p.Categories = []Category{}
	refused := s.checkTopics(ctx, topics)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for i, topic := range topics {
		c := category(&s.cfg, topic)
		at, err := s.start(topic)
		if err != nil {
			return nil, fmt.Errorf("plan: %w", err)
		}
		may := refused[i] == nil
		c.Begin, c.Cause, c.CanSubscribe = at.String(), at.cause, &may
		if !may {
			c.Error, c.Refused = refused[i].Error(), refused[i]
		}
		p.Categories = append(p.Categories, c)
	}
	p.Total.Topics = 0
	for _, c := range p.Categories {
		if *c.CanSubscribe {
			p.Total.Topics++
		}
	}
	return p, nil
}
