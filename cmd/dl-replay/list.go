package main

import (
	"cmp"
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

type list struct {
	app    *cli.App
	sel    selectFlags
	json   bool
	maxAge time.Duration
}

func newList(app *cli.App, stock *stock) *ffcli.Command {
	l := &list{app: app, sel: selectFlags{stock: stock}}
	fs := app.FlagSet("dl-replay list")
	l.sel.register(fs)
	fs.BoolVar(&l.json, "json", false, "print one JSON object a file")
	cli.DurationVar(fs, &l.maxAge, "max-age", defaultMaxAge, "oldest entry that Loki takes, `AGE`; 0: any")
	return &ffcli.Command{
		Name: "list", ShortUsage: "dl-replay list [SELECT] [--json] [FILE...]",
		ShortHelp: "show the files, and what is in them", FlagSet: fs, Exec: l.exec,
	}
}

// fileRow is one file of the list.
type fileRow struct {
	File  string `json:"file"`
	State string `json:"state"`
	*spool.Summary
}

func (l *list) exec(ctx context.Context, args []string) error {
	r, err := l.sel.read(l.app, args)
	if err != nil {
		return err
	}
	defer r.close()
	rows, err := l.rows(ctx, r)
	l.app.Progress("")
	if err != nil {
		return err
	}
	if l.json {
		enc := json.NewEncoder(l.app.Stdout)
		for _, row := range rows[:len(rows)-1] {
			if err := enc.Encode(row); err != nil {
				return err
			}
		}
	} else if err := l.print(rows); err != nil {
		return err
	}
	return r.verdict()
}

// rows is a row for each file, and last one for all of them.
func (l *list) rows(ctx context.Context, r *reading) ([]*fileRow, error) {
	window := spool.Window{Now: time.Now(), MaxAge: l.maxAge}
	rows := make([]*fileRow, len(r.set.Files))
	total := spool.NewSummary(window)
	var mu sync.Mutex // of total, and done
	done := 0
	err := r.each(func(i int, f *spool.File) error {
		sum := spool.NewSummary(window)
		info, err := r.file(f, func(letter *spool.Letter, s spool.Status) error {
			sum.Add(letter, s)
			return ctx.Err()
		})
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		done++
		l.app.Progress(fmt.Sprintf("file %d of %d, %d records", done, len(rows), total.Records))
		if info.Gone || sum.Records == 0 && l.sel.narrows() {
			return nil
		}
		total.Merge(sum)
		sum.Seal()
		rows[i] = &fileRow{f.Path, state(f, info, sum), sum}
		return nil
	})
	total.Seal()
	rows = slices.DeleteFunc(rows, func(r *fileRow) bool { return r == nil })
	return append(rows, &fileRow{"total", "-", total}), err
}

func state(f *spool.File, info spool.Info, sum *spool.Summary) string {
	switch {
	case info.Unreadable:
		return "unreadable"
	case info.InUse && sum.Statuses[spool.Pending] > 0:
		return "replaying"
	case info.InUse:
		return "open"
	case f.Replayed():
		return "replayed"
	case f.Failed():
		return "failed"
	}
	return "closed"
}

func (l *list) print(rows []*fileRow) error {
	switch len(rows) {
	case 1: // no file
		return nil
	case 2:
		rows = rows[:1]
	}
	table := l.app.NewTable("file", "state", "records", "unique", "bytes", "new", "pending", "replayed", "failed", "discarded",
		"last captured", "oldest event", "too old", "next too old", "all too old", "reasons")
	for _, r := range rows {
		s := r.Statuses
		table.Row(r.File, r.State, r.Records, r.Unique, r.Bytes,
			s[spool.New], s[spool.Pending], s[spool.Replayed], s[spool.Failed], s[spool.Discarded],
			r.LastCaptured, r.OldestEvent, r.Beyond, r.NextBeyond, r.AllBeyond, counted(r.Reasons))
	}
	return table.Flush()
}

// counted is a histogram on one line, the largest first.
func counted[K ~string](counts map[K]int64) string {
	if len(counts) == 0 {
		return "-"
	}
	var parts []string
	for _, name := range byCount(counts) {
		parts = append(parts, fmt.Sprintf("%s:%d", orDash(string(name)), counts[name]))
	}
	return strings.Join(parts, ",")
}

func byCount[K ~string](counts map[K]int64) []K {
	return slices.SortedFunc(maps.Keys(counts), func(a, b K) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
