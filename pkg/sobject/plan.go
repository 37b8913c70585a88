package sobject

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"sf2loki/pkg/feed"
	"sf2loki/pkg/salesforce"
)

// Plan is what a pull would do.
type Plan struct {
	feed.PlanHead
	Categories []Category `json:"categories"`
	Total      Amount     `json:"total"`
}

// Category is one object of a plan.
type Category struct {
	Source    string `json:"source"`
	EventType string `json:"event_type"`
	Key       string `json:"key"`
	Field     string `json:"field"`
	BigObject bool   `json:"big_object"`
	Begin     string `json:"begin,omitempty"`
	Cause     string `json:"cause,omitempty"`
	Query     string `json:"query,omitempty"`
	Amount
}

// Amount is how much there is of something. Rows that Salesforce does not
// count, as those of Big Objects, are in Unknown categories.
type Amount struct {
	Rows     int64 `json:"rows"`
	Unknown  int64 `json:"unknown"` // categories whose rows Salesforce does not count
	APICalls int64 `json:"api_calls"`
	Streams  int64 `json:"streams"`  // that Loki would hold at most, one for each hour
	OldRows  int64 `json:"old_rows"` // older than the max age
}

func (a *Amount) add(b *Amount) {
	a.Rows += b.Rows
	a.Unknown += b.Unknown
	a.APICalls += b.APICalls
	a.Streams += b.Streams
	a.OldRows += b.OldRows
}

// StaticPlan says what cfg alone tells, without a request.
func StaticPlan(cfg *Config) *Plan {
	p := &Plan{PlanHead: feed.NewPlanHead(SourceLabel, cfg.OrgID, cfg.Window), Categories: []Category{}}
	for _, o := range cfg.Objects {
		p.Categories = append(p.Categories, Category{Source: SourceLabel, EventType: o.Name, Field: o.field(), BigObject: o.Big,
			Key: Key(cfg.KeyPrefix, cfg.Window, o.Name)})
	}
	return p
}

// Plan asks what there is to pull, and pulls nothing. Rows older than maxAge
// are counted apart.
func (s *Source) Plan(ctx context.Context, maxAge time.Duration) (*Plan, error) {
	if err := s.prepare(ctx); err != nil {
		return nil, feed.Final(ctx, err)
	}
	p := StaticPlan(&s.cfg)
	p.Static, p.Categories = false, []Category{}
	p.Total.APICalls = 1 // the session
	for _, t := range s.series {
		if t.sch == nil {
			continue
		}
		c, err := t.plan(ctx, maxAge)
		if err != nil {
			return nil, feed.Final(ctx, err)
		}
		p.Categories = append(p.Categories, c)
		p.Total.add(&c.Amount)
	}
	return p, nil
}

func (t *series) plan(ctx context.Context, maxAge time.Duration) (Category, error) {
	cfg := &t.src.cfg
	settled := feed.Millis(cfg.API.Now().Add(-cfg.Settle).UnixNano())
	upper := t.Upper(settled)
	q := query{sch: t.sch, from: t.from(settled), before: upper, limit: most}
	c := Category{Source: SourceLabel, EventType: t.sch.name, Key: t.key, Field: t.sch.field, BigObject: t.sch.big,
		Begin: feed.DateTime(q.from.time), Cause: t.Cause, Query: q.soql()}
	c.APICalls = 3 // the description, the probe, one page
	if q.from.time >= upper {
		return c, nil
	}
	c.Streams = (upper-1)/int64(time.Hour) - q.from.time/int64(time.Hour) + 1
	rows, err := t.count(ctx, q)
	if err != nil {
		return c, err
	}
	if rows < 0 {
		c.Unknown = 1
		return c, nil
	}
	c.Rows = rows
	c.Streams = min(c.Streams, rows)
	c.APICalls += rows / int64(t.sch.inUse().limit) * int64(1+len(t.sch.inUse().parts))
	if old := feed.Millis(cfg.API.Now().Add(-maxAge).UnixNano()); maxAge > 0 && q.from.time < old {
		q.before = min(upper, old)
		c.OldRows, err = t.count(ctx, q)
		c.OldRows = max(c.OldRows, 0)
	}
	return c, err
}

// count asks how many rows a query would bring; -1: Salesforce does not say.
func (t *series) count(ctx context.Context, q query) (int64, error) {
	if t.sch.big {
		return -1, nil
	}
	for raw, err := range t.src.cfg.API.Query(ctx, q.counting()) {
		switch salesforce.KindOf(err) {
		case salesforce.KindQueryTimeout, salesforce.KindBigObject, salesforce.KindQuery:
			return -1, nil
		}
		if err != nil {
			return 0, err
		}
		var n struct{ N int64 }
		if err := json.Unmarshal(raw, &n); err != nil {
			return 0, &feed.OddAnswer{Text: fmt.Sprintf("count the rows of %s: %.200v", t.sch.name, err)}
		}
		return n.N, nil
	}
	return 0, &feed.OddAnswer{Text: "count the rows of " + t.sch.name + ": an empty answer"}
}
