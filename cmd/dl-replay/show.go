package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/record"
	"sf2loki/pkg/spool"
	"sf2loki/pkg/sysexits"
)

type show struct {
	app  *cli.App
	sel  selectFlags
	json bool
}

func newShow(app *cli.App, stock *stock) *ffcli.Command {
	s := &show{app: app, sel: selectFlags{stock: stock}}
	fs := app.FlagSet("dl-replay show")
	s.sel.register(fs)
	fs.BoolVar(&s.json, "json", false, "print one JSON object a record")
	return &ffcli.Command{
		Name: "show", ShortUsage: "dl-replay show [SELECT] [ID...] [FILE...]",
		ShortHelp: "explain records one by one, with the cure", FlagSet: fs, Exec: s.exec,
	}
}

var idPattern = regexp.MustCompile(`^[0-9a-f]{6,32}$`)

func (s *show) exec(ctx context.Context, args []string) error {
	var files []string
	for _, arg := range args {
		if _, err := os.Lstat(arg); err != nil && idPattern.MatchString(arg) {
			s.sel.ids = append(s.sel.ids, arg)
		} else {
			files = append(files, arg)
		}
	}
	r, err := s.sel.read(s.app, files)
	if err != nil {
		return err
	}
	defer r.close()
	out := bufio.NewWriter(s.app.Stdout)
	n := 0
	err = r.all(func(f *spool.File, l *spool.Letter, status spool.Status) error {
		n++
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if s.json {
			return printObject(out, f, l, status)
		}
		if n > 1 {
			fmt.Fprintln(out)
		}
		printLetter(out, f, l, status)
		return nil
	})
	if ferr := out.Flush(); ferr != nil {
		return ferr
	}
	if err == nil && n == 0 && len(s.sel.ids) > 0 {
		return sysexits.Errorf(sysexits.DataErr, "no record that is selected has the id %s", strings.Join(s.sel.ids, " or "))
	}
	return err
}

// shown is a record with what its file does not say of it.
type shown struct {
	ID     string          `json:"id"`
	Status spool.Status    `json:"status"`
	File   string          `json:"file"`
	Line   int64           `json:"line"`
	Means  string          `json:"means,omitempty"`
	Cure   string          `json:"cure,omitempty"`
	Record json.RawMessage `json:"record"`
}

func printObject(w io.Writer, f *spool.File, l *spool.Letter, status spool.Status) error {
	e, _ := spool.Explain(l.Reason())
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(shown{l.ID().String(), status, f.Path, l.Line, e.Meaning, e.Cure, l.Raw})
}

// printLetter writes to a buffer that keeps the first error for its Flush.
func printLetter(w io.Writer, f *spool.File, l *spool.Letter, status spool.Status) {
	field := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "%-12s%s\n", name, cli.Printable(text))
		}
	}
	refusal := l.Refusal()
	field("id", l.ID().String())
	field("status", string(status))
	field("place", fmt.Sprintf("%s, line %d", f.Path, l.Line))
	field("reason", string(refusal.Reason))
	if e, ok := spool.Explain(refusal.Reason); ok {
		field("means", e.Meaning)
		field("cure", e.Cure)
	}
	field("detail", refusal.Detail)
	field("refused", refused(l, refusal))
	if refusal.MaybeStored {
		field("note", "the entry may be in the store all the same")
	}
	if at, ok := l.Captured(); ok {
		field("captured", timeText(at))
	}
	if at, ok := l.Time(); ok {
		field("event", timeText(at))
	}
	for _, h := range l.History() {
		field("history", fmt.Sprintf("%s %s %d", h.At.UTC().Format(time.RFC3339), h.Reason, h.Status))
	}
	for _, name := range []string{"labels", "structured_metadata"} {
		field(short(name), l.Text(name))
	}
	for _, name := range []string{"origin", "checkpoint_key", "checkpoint_value", "schema_id", "payload_base64"} {
		value, _ := l.TopField(name)
		field(short(name), value)
	}
	if l.HasLine() {
		field("line", shownLine(l.EntryLine()))
	}
}

func refused(l *spool.Letter, r *record.Letter) string {
	text := fmt.Sprintf("%d times", l.Attempts())
	if l.Attempts() == 1 {
		text = "once"
	}
	if r.Stage != "" {
		text += ", at stage " + r.Stage
	}
	if r.Status != 0 {
		text += fmt.Sprintf(", status %d", r.Status)
	}
	if r.RunID != "" {
		text += ", run " + r.RunID
	}
	if r.Instance != "" {
		text += ", by " + r.Instance
	}
	if r.Tenant != "" {
		text += ", tenant " + r.Tenant
	}
	return text
}

func short(name string) string {
	switch name {
	case "structured_metadata":
		return "metadata"
	case "checkpoint_key":
		return "key"
	case "checkpoint_value":
		return "value"
	case "payload_base64":
		return "payload"
	case "schema_id":
		return "schema"
	}
	return name
}

func timeText(ns int64) string { return string(record.AppendTime(nil, ns)) }

// shownLine is a line as it is, if it is JSON, else quoted.
func shownLine(line []byte) string {
	if json.Valid(line) {
		return string(line)
	}
	return fmt.Sprintf("%+q", line)
}
