package apexlog

import (
	"context"
	"fmt"
	"time"

	"sf2loki/pkg/feed"
)

// Plan is what a pull would do.
type Plan struct {
	feed.PlanHead
	Users      []string   `json:"users,omitempty"`
	Categories []Category `json:"categories"`
	Total      Amount     `json:"total"`
}

// Category is all there is to pull.
type Category struct {
	Source    string `json:"source"`
	EventType string `json:"event_type"`
	Key       string `json:"key"`
	Begin     string `json:"begin,omitempty"`
	Cause     string `json:"cause,omitempty"`
	Query     string `json:"query,omitempty"`
	Amount
}

// Amount is how much there is.
type Amount struct {
	Rows     int64 `json:"rows"`
	Bytes    int64 `json:"bytes"`
	APICalls int64 `json:"api_calls"`
	Streams  int64 `json:"streams"`  // that Loki would hold, one for each hour
	OldRows  int64 `json:"old_rows"` // older than the max age
}

// StaticPlan says what cfg alone tells, without a request.
func StaticPlan(cfg *Config) *Plan {
	return &Plan{PlanHead: feed.NewPlanHead(SourceLabel, cfg.OrgID, cfg.Window), Users: cfg.Users,
		Categories: []Category{{Source: SourceLabel, EventType: EventType, Key: Key(cfg.KeyPrefix, cfg.Window)}}}
}

// Plan asks what there is to pull, and pulls nothing. Logs older than maxAge
// are counted apart.
func (s *Source) Plan(ctx context.Context, maxAge time.Duration) (*Plan, error) {
	if err := s.prepare(ctx); err != nil {
		return nil, feed.Final(ctx, err)
	}
	p := StaticPlan(&s.cfg)
	p.Static = false
	c := &p.Categories[0]
	now := s.cfg.API.Now()
	settled := feed.Millis(now.Add(-s.cfg.Settle).UnixNano())
	from, id, _ := s.From(settled)
	at, upper := place{from, id}, s.Upper(settled)
	c.Begin, c.Cause, c.Query = feed.DateTime(from), s.Cause, s.soql(at, upper)
	hours := map[int64]bool{}
	for at.time < upper {
		logs, err := s.list(ctx, s.soql(at, upper))
		if err != nil {
			return nil, feed.Final(ctx, fmt.Errorf("list debug logs: %w", err))
		}
		c.APICalls++
		for i := range logs {
			l := &logs[i]
			c.Rows++
			hours[l.time/int64(time.Hour)] = true
			if l.length <= s.cfg.MaxBody {
				c.Bytes += l.length
				c.APICalls++
			}
			if maxAge > 0 && l.time < now.Add(-maxAge).UnixNano() {
				c.OldRows++
			}
			if l.timed {
				at = place{l.time, l.id}
			}
		}
		if len(logs) < pageSize {
			break
		}
	}
	c.Streams = int64(len(hours))
	p.Total = c.Amount
	p.Total.APICalls++ // the session
	return p, nil
}
