package eventlog

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"time"

	"sf2loki/pkg/feed"
)

// Plan is what a pull would do.
type Plan struct {
	feed.PlanHead
	Interval   string     `json:"interval,omitempty"`
	Patterns   []string   `json:"patterns,omitempty"` // event types as given
	Exclude    []string   `json:"exclude,omitempty"`
	Categories []Category `json:"categories"`
	Total      Amount     `json:"total"`
}

// Category is one event type, or one file on disk, of a plan.
type Category struct {
	Source    string `json:"source"`
	EventType string `json:"event_type,omitempty"`
	Path      string `json:"path,omitempty"`
	Key       string `json:"key"`
	Begin     string `json:"begin,omitempty"`
	Cause     string `json:"cause,omitempty"`
	Query     string `json:"query,omitempty"`
	Amount
}

// Amount is how much there is of something.
type Amount struct {
	Files    int64 `json:"files"`
	Bytes    int64 `json:"bytes"`
	APICalls int64 `json:"api_calls"`
	Streams  int64 `json:"streams"`   // that Loki would hold, one for each hour
	TmpBytes int64 `json:"tmp_bytes"` // the largest file
	OldFiles int64 `json:"old_files"` // older than the max age
	OldBytes int64 `json:"old_bytes"`
}

func (a *Amount) add(b *Amount) {
	a.Files += b.Files
	a.Bytes += b.Bytes
	a.APICalls += b.APICalls
	a.Streams += b.Streams
	a.OldFiles += b.OldFiles
	a.OldBytes += b.OldBytes
}

// StaticPlan says what cfg alone tells, without a request.
func StaticPlan(cfg *Config) *Plan {
	p := &Plan{PlanHead: feed.NewPlanHead(SourceLabel, cfg.OrgID, cfg.Window), Interval: cfg.Interval, Patterns: cfg.Types.Include,
		Exclude: cfg.Types.Exclude, Categories: []Category{}}
	for _, name := range cfg.Types.Include {
		if !cfg.Types.excluded(name) {
			p.Categories = append(p.Categories, Category{Source: SourceLabel, EventType: name, Key: cfg.key(name)})
		}
	}
	return p
}

// Plan asks what there is to pull, and pulls nothing. Files whose events are
// older than maxAge are counted apart.
func (s *Source) Plan(ctx context.Context, maxAge time.Duration) (*Plan, error) {
	if err := s.prepare(ctx); err != nil {
		return nil, feed.Final(ctx, err)
	}
	upper := s.cfg.API.Now().Add(-s.cfg.Settle)
	names, err := s.discover(ctx, upper)
	if err == nil {
		err = s.openAll(names)
	}
	if err != nil {
		return nil, feed.Final(ctx, err)
	}
	p := StaticPlan(&s.cfg)
	p.Static, p.Categories = false, []Category{}
	p.Total.APICalls = 2 // the session and the event types
	var sizes []int64
	for _, name := range names {
		c, files, err := s.planSeries(ctx, s.series[name], upper, maxAge)
		if err != nil {
			return nil, feed.Final(ctx, err)
		}
		p.Categories = append(p.Categories, c)
		p.Total.add(&c.Amount)
		sizes = append(sizes, files...)
	}
	slices.SortFunc(sizes, func(a, b int64) int { return int(b - a) })
	for _, n := range sizes[:min(len(sizes), s.cfg.Concurrency)] {
		p.Total.TmpBytes += n
	}
	return p, nil
}

func (s *Source) planSeries(ctx context.Context, t *series, upper time.Time, maxAge time.Duration) (Category, []int64, error) {
	q := t.next(&s.cfg, upper)
	c := Category{Source: SourceLabel, EventType: t.eventType, Key: string(t.key), Begin: t.beginning(), Cause: t.cause, Query: q.soql()}
	hours := map[time.Time]bool{}
	var sizes []int64
	for {
		files, err := s.list.files(ctx, q)
		if err != nil {
			return c, nil, err
		}
		c.APICalls += 1 + int64(len(files))
		for i := range files {
			f := &files[i]
			c.Files++
			c.Bytes += f.Length
			c.TmpBytes = max(c.TmpBytes, f.Length)
			hours[f.LogDate] = true
			sizes = append(sizes, f.Length)
			if maxAge > 0 && s.cfg.API.Now().Sub(f.LogDate) > maxAge {
				c.OldFiles++
				c.OldBytes += f.Length
			}
		}
		if len(files) < q.limit {
			break
		}
		last := files[len(files)-1]
		q.from, q.after, q.include = last.Created, last.ID, false
	}
	c.Streams = int64(len(hours))
	if s.cfg.Interval == Daily {
		c.Streams *= 24
	}
	return c, sizes, nil
}

// Plan says what the files on disk are. Check comes first.
func (f *Files) Plan() (*Plan, error) {
	p := &Plan{PlanHead: feed.NewPlanHead(SourceLabel, "", feed.Window{}), Categories: []Category{}}
	for _, path := range f.cfg.Paths {
		c := Category{Source: SourceLabel, EventType: f.cfg.EventType, Path: path, Key: f.key(path)}
		if path != Stdin {
			file, err := f.open(path)
			if err != nil {
				return nil, err
			}
			c.Files, c.Bytes = 1, file.size
			file.Close()
		}
		p.Categories = append(p.Categories, c)
		p.Total.add(&c.Amount)
	}
	return p, nil
}

// Listed is a file as sf-pull list prints it.
type Listed struct {
	Source    string `json:"source"`
	ID        string `json:"id"`
	EventType string `json:"event_type"`
	Interval  string `json:"interval"`
	LogDate   string `json:"log_date"`
	Created   string `json:"created"`
	Sequence  int    `json:"sequence"`
	Bytes     int64  `json:"bytes"`
}

// List prints the files of one interval that the window holds, or without a
// window those created since from, one JSON object a line.
func List(ctx context.Context, api API, types TypeList, interval string, w feed.Window, from time.Time, out io.Writer) error {
	l := &listing{api: api}
	q := selection{interval: interval, window: w, limit: 2000}
	if w == (feed.Window{}) {
		q.from = from
	}
	enc := json.NewEncoder(out)
	for {
		files, err := l.files(ctx, q)
		if err != nil {
			return err
		}
		for _, f := range files {
			if !types.Wanted(f.EventType) {
				continue
			}
			err := enc.Encode(Listed{SourceLabel, f.ID, f.EventType, f.Interval, f.LogDate.UTC().Format(time.RFC3339),
				f.Created.UTC().Format(time.RFC3339Nano), f.Sequence, f.Length})
			if err != nil {
				return err
			}
		}
		if len(files) < q.limit {
			return nil
		}
		last := files[len(files)-1]
		q.from, q.after = last.Created, last.ID
	}
}
