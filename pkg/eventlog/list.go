package eventlog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sf2loki/pkg/feed"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sysexits"
)

// The intervals that Salesforce makes files at.
const (
	Hourly = "Hourly"
	Daily  = "Daily"
)

// File is one EventLogFile as Salesforce lists it.
type File struct {
	ID        string
	EventType string // the value of the picklist, which the rows may spell otherwise
	Interval  string
	LogDate   time.Time
	Created   time.Time
	Length    int64 // bytes; 0 when Salesforce does not say
	Sequence  int
}

// parseFile reads a record of a listing. Numbers come as 2692.0.
func parseFile(raw json.RawMessage) (File, error) {
	var r struct {
		ID            string `json:"Id"`
		EventType     string
		Interval      string
		LogDate       string
		CreatedDate   string
		LogFileLength float64
		Sequence      float64
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return File{}, fmt.Errorf("a record of the listing: %.200v", err)
	}
	if !validID(r.ID) {
		return File{}, fmt.Errorf("a record of the listing: %.40q is no Id", r.ID)
	}
	f := File{ID: r.ID, EventType: r.EventType, Interval: r.Interval, Length: feed.Count(r.LogFileLength), Sequence: int(feed.Count(r.Sequence))}
	var err1, err2 error
	f.Created, err1 = salesforce.ParseTime(r.CreatedDate)
	if r.LogDate != "" {
		f.LogDate, err2 = salesforce.ParseTime(r.LogDate)
	}
	if err := cmp.Or(err1, err2); err != nil {
		return File{}, fmt.Errorf("a record of the listing, %s: %.200v", r.ID, err)
	}
	return f, nil
}

// validID reports whether id has the form of a record's Id.
func validID(id string) bool {
	for _, c := range []byte(id) {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
			return false
		}
	}
	return len(id) == 15 || len(id) == 18
}

// selection is one query for files: those of a type behind a position, or all.
type selection struct {
	eventType string // empty: all
	interval  string
	plain     bool        // the org does not know Interval and Sequence: all files are Daily
	window    feed.Window // by the LogDate of files
	from      time.Time   // CreatedDate; with after, behind (from, after)
	after     string
	include   bool // the file after itself too
	before    time.Time
	limit     int
}

// soql writes the query. Filter and order are on the same key, which makes the
// order total, and Interval is always named: without it an org leaves files
// out, or mixes hourly and daily ones, as other conditions have it.
func (s *selection) soql() string {
	columns := "Id, EventType, Interval, LogDate, CreatedDate, LogFileLength, Sequence"
	if s.plain {
		columns = "Id, EventType, LogDate, CreatedDate, LogFileLength"
	}
	q := "SELECT " + columns + " FROM EventLogFile WHERE " + strings.Join(s.conditions(), " AND ") + " ORDER BY CreatedDate ASC, Id ASC"
	if s.limit > 0 {
		q += fmt.Sprintf(" LIMIT %d", s.limit)
	}
	return q
}

func (s *selection) conditions() []string {
	var w []string
	if s.eventType != "" {
		w = append(w, "EventType = "+salesforce.Quote(s.eventType))
	}
	if !s.plain {
		w = append(w, "Interval = "+salesforce.Quote(s.interval))
	}
	switch from := salesforce.DateTime(s.from); {
	case s.after != "":
		op := ">"
		if s.include {
			op = ">="
		}
		w = append(w, fmt.Sprintf("(CreatedDate > %s OR (CreatedDate = %s AND Id %s %s))", from, from, op, salesforce.Quote(s.after)))
	case !s.from.IsZero():
		w = append(w, "CreatedDate >= "+from)
	}
	if !s.before.IsZero() {
		w = append(w, "CreatedDate < "+salesforce.DateTime(s.before))
	}
	if !s.window.Since.IsZero() {
		w = append(w, "LogDate >= "+salesforce.DateTime(s.window.Since))
	}
	if !s.window.Until.IsZero() {
		w = append(w, "LogDate < "+salesforce.DateTime(s.window.Until))
	}
	if len(w) == 0 {
		w = append(w, "CreatedDate >= 1999-01-01T00:00:00.000Z") // never an unfiltered query: it leaves files out
	}
	return w
}

// holds refuses a file that was not asked for: a position behind one of the
// future would pass over all that come before that.
func (s *selection) holds(f *File) error {
	switch {
	case !s.before.IsZero() && !f.Created.Before(s.before):
		return fmt.Errorf("a record of the listing, %s: created at %s, which was not asked for", f.ID, salesforce.DateTime(f.Created))
	case s.eventType != "" && !strings.EqualFold(f.EventType, s.eventType):
		return fmt.Errorf("a record of the listing, %s: event type %.80q instead of %s", f.ID, f.EventType, s.eventType)
	}
	return nil
}

// discovery is the query for the types that have files. Without a filter such
// a query leaves types out.
func (s *selection) discovery() string {
	return "SELECT EventType FROM EventLogFile WHERE " + strings.Join(s.conditions(), " AND ") + " GROUP BY EventType"
}

// listing asks Salesforce for files. It remembers whether the org knows
// intervals.
type listing struct {
	api   API
	plain atomic.Bool
}

// listTries is how often a listing is asked for whose rest has expired, or did
// not come.
const listTries = 3

// files runs a selection.
func (l *listing) files(ctx context.Context, s selection) ([]File, error) {
	for try := 1; ; try++ {
		files, err := l.filesOnce(ctx, s)
		if salesforce.KindOf(err) != salesforce.KindLocator || try == listTries {
			return files, err
		}
	}
}

func (l *listing) filesOnce(ctx context.Context, s selection) ([]File, error) {
	var files []File
	err := l.run(ctx, &s, (*selection).soql, func(raw json.RawMessage) error {
		f, err := parseFile(raw)
		if err != nil {
			return err
		}
		if err := s.holds(&f); err != nil {
			return err
		}
		if f.Interval == "" {
			f.Interval = s.interval
		}
		files = append(files, f)
		return nil
	}, func() { files = nil })
	if errors.Is(err, salesforce.ErrShort) && s.limit > 0 && len(files) >= s.limit {
		err = nil
	}
	return files, err
}

// types asks which types have files that s selects.
func (l *listing) types(ctx context.Context, s selection) ([]string, error) {
	var names []string
	err := l.run(ctx, &s, (*selection).discovery, func(raw json.RawMessage) error {
		var r struct{ EventType string }
		if err := json.Unmarshal(raw, &r); err != nil || !salesforce.IsName(r.EventType) {
			return fmt.Errorf("a record of the event types: %.80q", raw)
		}
		names = append(names, r.EventType)
		return nil
	}, func() { names = nil })
	slices.Sort(names)
	return names, err
}

// run runs a query; in an org that does not know Interval once more without
// it, when that means the same.
func (l *listing) run(ctx context.Context, s *selection, text func(*selection) string, use func(json.RawMessage) error, again func()) error {
	s.plain = l.plain.Load()
	err := l.query(ctx, text(s), use)
	var refusal *salesforce.Error
	if s.plain || !errors.As(err, &refusal) || refusal.Kind != salesforce.KindField || !namesInterval(refusal) {
		return err
	}
	if s.interval == Hourly {
		return sysexits.WithHint(sysexits.Errorf(sysexits.Config, "this org shows no hourly event log files: %w", err),
			"use --interval Daily, or have hourly event log files switched on for the org and View Event Log Files granted to the user")
	}
	l.plain.Store(true)
	s.plain = true
	again()
	return l.query(ctx, text(s), use)
}

func namesInterval(e *salesforce.Error) bool {
	return strings.Contains(e.Message, "Interval") || strings.Contains(e.Message, "Sequence")
}

func (l *listing) query(ctx context.Context, soql string, use func(json.RawMessage) error) error {
	for raw, err := range l.api.Query(ctx, soql) {
		if err != nil {
			return err
		}
		if err := use(raw); err != nil {
			return &feed.OddAnswer{Text: err.Error()}
		}
	}
	return nil
}

// picklist asks which event types the org knows; nil when it does not say.
func (l *listing) picklist(ctx context.Context) ([]string, error) {
	raw, err := l.api.Get(ctx, "sobjects/EventLogFile/describe")
	if err != nil {
		return nil, err
	}
	var d struct {
		Fields []struct {
			Name           string `json:"name"`
			PicklistValues []struct {
				Value string `json:"value"`
			} `json:"picklistValues"`
		} `json:"fields"`
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, sysexits.Errorf(sysexits.TempFail, "describe EventLogFile: the answer describes no object")
	}
	for _, f := range d.Fields {
		if f.Name != "EventType" {
			continue
		}
		var names []string
		for _, v := range f.PicklistValues {
			names = append(names, v.Value)
		}
		return names, nil
	}
	return nil, nil
}
