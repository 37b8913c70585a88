package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/spool"
)

// progressEvery is how many records are read between two looks of a person.
const progressEvery = 10_000

const defaultMaxAge = 7 * 24 * time.Hour // reject_old_samples_max_age of Loki

type stats struct {
	app    *cli.App
	sel    selectFlags
	json   bool
	by     []string
	maxAge time.Duration
}

func newStats(app *cli.App, stock *stock) *ffcli.Command {
	s := &stats{app: app, sel: selectFlags{stock: stock}, by: []string{"reason"}}
	fs := app.FlagSet("dl-replay stats")
	s.sel.register(fs)
	fs.BoolVar(&s.json, "json", false, "print one JSON object a group")
	cli.ListVar(fs, &s.by, "by", "group by `FIELD`: reason, status, event_type, source, org, tenant, run_id, instance, hour, day")
	cli.DurationVar(fs, &s.maxAge, "max-age", defaultMaxAge, "oldest entry that Loki takes, `AGE`; 0: any")
	return &ffcli.Command{
		Name: "stats", ShortUsage: "dl-replay stats [SELECT] [--by FIELD,...] [--json] [FILE...]",
		ShortHelp: "count records by reason, type and so on", FlagSet: fs, Exec: s.exec,
	}
}

// dimensions are what records can be grouped by.
var dimensions = map[string]func(*spool.Letter, spool.Status) string{
	"reason":     func(l *spool.Letter, _ spool.Status) string { return string(l.Reason()) },
	"status":     func(_ *spool.Letter, s spool.Status) string { return string(s) },
	"event_type": func(l *spool.Letter, _ spool.Status) string { return l.Label("event_type") },
	"source":     func(l *spool.Letter, _ spool.Status) string { return l.Label("source") },
	"org":        func(l *spool.Letter, _ spool.Status) string { return l.Org() },
	"tenant":     func(l *spool.Letter, _ spool.Status) string { return l.Envelope("tenant") },
	"run_id":     func(l *spool.Letter, _ spool.Status) string { return l.Envelope("run_id") },
	"instance":   func(l *spool.Letter, _ spool.Status) string { return l.Envelope("instance") },
	"hour":       func(l *spool.Letter, _ spool.Status) string { return eventTime(l, "2006-01-02T15") },
	"day":        func(l *spool.Letter, _ spool.Status) string { return eventTime(l, "2006-01-02") },
}

func eventTime(l *spool.Letter, layout string) string {
	at, ok := l.Time()
	if !ok {
		return ""
	}
	return time.Unix(0, at).UTC().Format(layout)
}

func (s *stats) exec(ctx context.Context, args []string) error {
	for _, name := range s.by {
		if dimensions[name] == nil {
			return cli.Usagef("--by %q: it may be %s", name, strings.Join(slices.Sorted(maps.Keys(dimensions)), ", "))
		}
	}
	r, err := s.sel.read(s.app, args)
	if err != nil {
		return err
	}
	defer r.close()
	groups := map[string]*spool.Summary{}
	window := spool.Window{Now: time.Now(), MaxAge: s.maxAge}
	var mu sync.Mutex // of groups
	read := int64(0)
	readErr := r.each(func(_ int, f *spool.File) error {
		inFile := map[string]*spool.Summary{}
		_, err := r.file(f, func(l *spool.Letter, status spool.Status) error {
			s.group(inFile, s.key(l, status), window).Add(l, status)
			return ctx.Err()
		})
		mu.Lock()
		defer mu.Unlock()
		for key, sum := range inFile {
			s.group(groups, key, window).Merge(sum)
			read += sum.Records
		}
		s.app.Progress(fmt.Sprintf("%d records", read))
		return err
	})
	if readErr == nil {
		readErr = r.verdict()
	}
	s.app.Progress("")
	for _, g := range groups {
		g.Seal()
	}
	if err := s.print(groups); err != nil {
		return err
	}
	return readErr
}

const keySep = "\x00"

// Beyond mostGroups all others are one, as those with very long names are, so
// that no spool fills the memory.
const (
	mostGroups = 20_000
	longGroup  = 1024
)

// group is the one of groups that key belongs to.
func (s *stats) group(groups map[string]*spool.Summary, key string, window spool.Window) *spool.Summary {
	if groups[key] == nil && (len(groups) >= mostGroups || len(key) > longGroup) {
		key = strings.TrimSuffix(strings.Repeat("other"+keySep, len(s.by)), keySep)
	}
	if groups[key] == nil {
		groups[key] = spool.NewSummary(window)
	}
	return groups[key]
}

func (s *stats) key(l *spool.Letter, status spool.Status) string {
	values := make([]string, len(s.by))
	for i, name := range s.by {
		values[i] = strings.ReplaceAll(dimensions[name](l, status), keySep, "\uFFFD")
	}
	return strings.Join(values, keySep)
}

func (s *stats) print(groups map[string]*spool.Summary) error {
	keys := slices.Sorted(maps.Keys(groups))
	if s.json {
		enc := json.NewEncoder(s.app.Stdout)
		for _, key := range keys {
			if err := enc.Encode(s.object(key, groups[key])); err != nil {
				return err
			}
		}
		return nil
	}
	if len(keys) == 0 {
		return nil
	}
	table := s.app.NewTable(slices.Concat(s.by, []string{"records", "unique", "bytes", "waiting", "too old", "oldest event"})...)
	for _, key := range keys {
		g := groups[key]
		var row []any
		for _, value := range strings.Split(key, keySep) {
			row = append(row, value)
		}
		table.Row(append(row, g.Records, g.Unique, g.Bytes, g.Waiting, g.Beyond, g.OldestEvent)...)
	}
	return table.Flush()
}

// object is a group as JSON: what it is grouped by, and its counts.
func (s *stats) object(key string, g *spool.Summary) map[string]any {
	by := map[string]string{}
	for i, value := range strings.Split(key, keySep) {
		by[s.by[i]] = value
	}
	return map[string]any{"by": by, "counts": g}
}
