package main

import (
	"bufio"
	"context"
	"encoding/json"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/cli"
)

type list struct {
	app  *cli.App
	json bool
}

const listUsage = "ckpt list STORE [PATTERN...] [--json]"

func newList(app *cli.App) *ffcli.Command {
	l := &list{app: app}
	fs := app.FlagSet("ckpt list")
	fs.BoolVar(&l.json, "json", false, "print one JSON object a line")
	return &ffcli.Command{
		Name: "list", ShortUsage: listUsage, ShortHelp: "show keys, positions and their age", FlagSet: fs,
		LongHelp: "A PATTERN selects keys; * in it is any text.", Exec: l.exec,
	}
}

func (l *list) exec(ctx context.Context, args []string) error {
	store, patterns, err := storeAnd(l.app, args, 0, -1, listUsage)
	if err != nil {
		return err
	}
	doc, err := loadAny(ctx, l.app, store)
	if err != nil {
		return err
	}
	rows := checkpoint.List(doc, patterns)
	if l.json {
		return l.printJSON(rows, time.Now())
	}
	return l.printTable(rows, time.Now())
}

func (l *list) printTable(rows []checkpoint.Row, now time.Time) error {
	if len(rows) == 0 {
		return nil
	}
	table := l.app.NewTable("key", "position", "last record", "age")
	for _, r := range rows {
		last, age := time.Time{}, ""
		if d, ok := r.Age(now); ok {
			last, age = r.Time, ageText(d)
		}
		table.Row(r.Key, r.Position, last, age)
	}
	return table.Flush()
}

// ageText is an age for people; events may have times that are still to come.
func ageText(d time.Duration) string {
	if d < 0 {
		return "in " + cli.FormatDuration(coarse(-d))
	}
	return cli.FormatDuration(coarse(d))
}

// coarse leaves of an age what one wants to read.
func coarse(d time.Duration) time.Duration {
	switch {
	case d >= 48*time.Hour:
		return d.Truncate(24 * time.Hour)
	case d >= time.Hour:
		return d.Truncate(time.Minute)
	}
	return d.Truncate(time.Second)
}

// row is one line of --json.
type row struct {
	Key        string     `json:"key"`
	Value      string     `json:"value"`
	Org        string     `json:"org,omitempty"`
	Lane       string     `json:"lane,omitempty"`
	Window     string     `json:"window,omitempty"`
	Source     string     `json:"source"`
	Object     string     `json:"object,omitempty"`
	Position   string     `json:"position"`
	Time       *time.Time `json:"time,omitempty"`
	AgeSeconds *float64   `json:"age_seconds,omitempty"`
}

func (l *list) printJSON(rows []checkpoint.Row, now time.Time) error {
	w := bufio.NewWriter(l.app.Stdout)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, r := range rows {
		out := row{
			Key: r.Key, Value: r.Value, Position: r.Position,
			Org: r.Parts.Org, Lane: r.Parts.Lane, Window: r.Parts.Window, Source: r.Parts.Source, Object: r.Parts.Object,
		}
		if d, ok := r.Age(now); ok {
			age := d.Round(time.Millisecond).Seconds()
			out.Time, out.AgeSeconds = &r.Time, &age
		}
		if err := enc.Encode(out); err != nil {
			return err
		}
	}
	return w.Flush()
}
