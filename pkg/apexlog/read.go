package apexlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"sf2loki/pkg/backoff"
	"sf2loki/pkg/feed"
	"sf2loki/pkg/record"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/shape"
)

// columns are the fields of a log, in the order of its line when it has no body.
const columns = "Id, StartTime, LogUserId, Operation, Request, Application, Status, DurationMilliseconds, LogLength, Location, RequestIdentifier"

// pageSize is how many logs are listed at a time; each then costs a call.
const pageSize = 200

// place is a place in the order of (StartTime, Id): behind the log of that id,
// or, without one, before all logs of that time.
type place struct {
	time int64
	id   string
}

// soql writes the query for the logs from a place up to a time.
func (s *Source) soql(from place, upper int64) string {
	at := feed.DateTime(from.time)
	where := "StartTime >= " + at
	if from.id != "" {
		where = "(StartTime > " + at + " OR (StartTime = " + at + " AND Id > " + salesforce.Quote(from.id) + "))"
	}
	if len(s.users) > 0 {
		where += " AND LogUserId IN " + salesforce.QuoteList(s.users)
	}
	return "SELECT " + columns + " FROM ApexLog WHERE " + where + " AND StartTime < " + feed.DateTime(upper) +
		" ORDER BY StartTime ASC, Id ASC LIMIT " + strconv.Itoa(pageSize)
}

// entry is one log as it is listed.
type entry struct {
	raw    json.RawMessage
	time   int64
	timed  bool
	id     string
	key    feed.Key
	length int64
}

// read reads page after page and writes the logs, in order, up to the first
// whose body cannot be had.
func (s *Source) read(ctx context.Context, at place, upper int64) error {
	for again := 0; ; {
		logs, err := s.list(ctx, s.soql(at, upper))
		if err != nil && salesforce.KindOf(err) == salesforce.KindLocator && again < 3 {
			again++
			continue
		}
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			s.stats.Change(func(t *feed.Totals) { t.PollErrors[EventType]++ })
			return fmt.Errorf("list debug logs: %w", err)
		}
		from := at
		for i := range logs {
			l := &logs[i]
			if err := s.log1(ctx, l); err != nil {
				return err
			}
			if l.timed {
				at = place{l.time, l.id}
			}
		}
		s.Forget()
		if s.emit.News() {
			if err := s.account(from.time, at.time); err != nil {
				return err
			}
		}
		if len(logs) < pageSize {
			return s.missed()
		}
		if at == from {
			s.stats.Change(func(t *feed.Totals) { t.Stalls[EventType]++ })
			return &feed.OddAnswer{Text: "a full page of debug logs does not lead past " + feed.DateTime(at.time)}
		}
	}
}

// missed tells of the log whose body failed, when the org lists it no more.
func (s *Source) missed() error {
	f := s.Pos.Failing
	if f.ID == "" {
		return nil
	}
	why := "debug log " + f.ID + ", whose body had failed since " + f.Since.Format(time.RFC3339) + ", is listed no more"
	l := &entry{id: f.ID, time: s.At(), timed: true}
	if err := s.gap(l, l.time, &skip{reason: "gone", detail: why}); err != nil {
		return err
	}
	s.countSkipped("gone")
	s.Pos.Failing = feed.Failing{}
	return s.emit.Checkpoint(s.AppendToken(nil))
}

// list runs a query.
func (s *Source) list(ctx context.Context, soql string) ([]entry, error) {
	var logs []entry
	s.emit.Query()
	for raw, err := range s.cfg.API.QueryTooling(ctx, soql) {
		if err != nil {
			return nil, err
		}
		l, err := s.rows.read(raw)
		if err != nil {
			return nil, err
		}
		logs = append(logs, l)
	}
	return logs, nil
}

// log1 writes one log, unless it has been written before.
func (s *Source) log1(ctx context.Context, l *entry) error {
	s.any = true
	if s.Written(l.key, l.time, l.timed) {
		s.emit.Skip()
		return nil
	}
	body, skipped, err := s.body(ctx, l)
	if err != nil {
		return err
	}
	if s.Pos.Failing.ID == l.id {
		s.Pos.Failing = feed.Failing{}
	}
	at := l.time
	if l.timed {
		s.Advance(l.time, l.id)
	} else {
		at = s.At()
		s.emit.Fallback()
	}
	if skipped != nil && skipped.gap {
		if err := s.gap(l, at, skipped); err != nil {
			return err
		}
	}
	rec, err := s.rows.record(l, body, skipped)
	if err != nil {
		return err
	}
	rec.Time, rec.Value = at, s.AppendToken(s.rows.value[:0])
	s.rows.value = rec.Value
	if err := s.emit.Row(rec, len(body)); err != nil {
		return err
	}
	s.Wrote(l.key, l.time, l.timed)
	return nil
}

// skip is why a log is written without its body.
type skip struct {
	reason string // size, download_error or gone
	gap    bool
	status int
	detail string
}

// bodyAttempts is how often a body that breaks off is asked for in one go; the
// client itself sees to requests that are not answered.
const bodyAttempts = 3

// body fetches the body of a log. One that there is none of, or that is too
// long, is told by skip; an error means that this log and those after it are
// left for a later cycle.
func (s *Source) body(ctx context.Context, l *entry) ([]byte, *skip, error) {
	if l.length > s.cfg.MaxBody {
		s.countSkipped("size")
		return nil, &skip{reason: "size"}, nil
	}
	wait := backoff.New(time.Second, 10*time.Second)
	for attempt := 1; ; attempt++ {
		text, err := s.fetch(ctx, l)
		var broken *brokenOff
		switch {
		case err == nil && int64(len(text)) > s.cfg.MaxBody:
			s.countSkipped("size")
			return nil, &skip{reason: "size"}, nil
		case err == nil:
			return text, nil, nil
		case ctx.Err() != nil:
			return nil, nil, context.Cause(ctx)
		case attempt < bodyAttempts && errors.As(err, &broken):
			if err := feed.Wait(ctx, wait.Next()); err != nil {
				return nil, nil, err
			}
			continue
		}
		skipped, err := s.failed(l, err)
		return nil, skipped, err
	}
}

func (s *Source) fetch(ctx context.Context, l *entry) ([]byte, error) {
	r, err := s.cfg.API.Open(ctx, "tooling/sobjects/ApexLog/"+l.id+"/Body")
	if err != nil {
		return nil, err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, s.cfg.MaxBody+1))
	if err != nil {
		return nil, &brokenOff{err}
	}
	return text, nil
}

// brokenOff is a body that had begun to come.
type brokenOff struct{ error }

func (b *brokenOff) Unwrap() error { return b.error }

func (s *Source) countSkipped(reason string) {
	s.stats.Change(func(t *feed.Totals) { t.BodiesSkipped[reason]++ })
}

// failed judges a body that could not be had.
func (s *Source) failed(l *entry, err error) (*skip, error) {
	status := feed.Status(err)
	verdict := feed.Judge(err)
	err = fmt.Errorf("debug log %s of %s: %w", l.id, feed.DateTime(l.time), err)
	switch verdict {
	case feed.Gone:
		s.countFailure(status)
		s.countSkipped("gone")
		return &skip{reason: "gone", gap: true, status: status, detail: err.Error()}, nil
	case feed.Later:
		s.countFailure(status)
	default:
		return nil, err
	}
	if s.Pos.Failing.ID != l.id {
		if err := s.hold(l); err != nil {
			return nil, err
		}
	}
	var broken *brokenOff
	age := s.cfg.API.Now().Sub(s.Pos.Failing.Since)
	if age < s.cfg.Patience || salesforce.KindOf(err) == salesforce.KindTransport && !errors.As(err, &broken) {
		return nil, err // without a connection it is the way to Salesforce that fails, not the log
	}
	s.countSkipped("download_error")
	return &skip{reason: "download_error", gap: true, status: status, detail: err.Error()}, nil
}

func (s *Source) countFailure(status int) {
	reason := "transport"
	if status != 0 {
		reason = fmt.Sprintf("HTTP %d", status)
	}
	s.stats.Change(func(t *feed.Totals) { t.DownloadErrors[reason]++ })
}

// hold notes, in the position too, since when the body of l has been failing.
func (s *Source) hold(l *entry) error {
	s.Anchor()
	s.Pos.Failing = feed.Failing{ID: l.id, Since: s.cfg.API.Now().UTC().Truncate(time.Second)}
	return s.emit.Checkpoint(s.AppendToken(nil))
}

// gap is what a source_gap says about a body that is missing.
type gap struct {
	Kind    string `json:"kind"`
	ID      string `json:"id"`
	Start   string `json:"start"`
	Bytes   int64  `json:"bytes,omitempty"`
	Command string `json:"command,omitempty"`
}

// gap tells of a body that is missing. What is known of its log is written as
// any other.
func (s *Source) gap(l *entry, at int64, why *skip) error {
	g := gap{Kind: "apex_log", ID: l.id, Start: feed.DateTime(at), Bytes: l.length}
	detail := why.detail
	if why.reason != "gone" {
		second := at - at%int64(time.Second)
		g.Command = fmt.Sprintf("%s --since %s --until %s", s.cfg.Command, time.Unix(0, second).UTC().Format(time.RFC3339),
			time.Unix(0, second+int64(time.Second)).UTC().Format(time.RFC3339))
		detail += "; fetch it with: " + g.Command
	}
	s.log.Warn("the body of a debug log is given up", "id", l.id, "start", g.Start, "why", why.detail, "command", g.Command)
	return s.emit.Gap(&record.Record{Time: at, HasTime: true, Origin: []byte(l.id)}, &g, why.status, detail)
}

// rowMaker makes records of logs.
type rowMaker struct {
	shape   *shape.Shape
	columns *shape.Columns
	row     feed.Row
	line    []byte
	value   []byte
	pairs   []record.Pair
}

func (m *rowMaker) read(raw json.RawMessage) (entry, error) {
	if err := m.row.Parse(raw); err != nil {
		return entry{}, &feed.OddAnswer{Text: "list debug logs: " + err.Error()}
	}
	l := entry{raw: raw, id: string(m.row.Text("Id"))}
	if _, err := salesforce.ID18(l.id); err != nil {
		return entry{}, &feed.OddAnswer{Text: "list debug logs: a record of the answer has no Id"}
	}
	l.time, l.timed = feed.ParseTime(m.row.Text("StartTime"))
	l.time = feed.Millis(l.time)
	l.key = feed.KeyOf([]byte(l.id))
	length, _ := strconv.ParseFloat(string(m.row.Text("LogLength")), 64)
	l.length = int64(length)
	return l, nil
}

// record makes the record of a log: its body, with what is known of it in
// structured metadata; without a body a line of JSON that says what is known.
func (m *rowMaker) record(l *entry, body []byte, why *skip) (*record.Record, error) {
	if err := m.row.Parse(l.raw); err != nil {
		return nil, &feed.OddAnswer{Text: err.Error()}
	}
	names := make([]string, len(m.row.Names))
	for i, name := range m.row.Names {
		names[i] = string(name)
	}
	m.columns = m.shape.Columns(names)
	m.pairs = append(m.pairs[:0], m.columns.Metadata(&m.row)...)
	for i, name := range m.row.Names {
		if text := m.row.Cell(i); len(text) > 0 && !m.has(name) {
			m.pairs = append(m.pairs, record.Pair{Name: name, Value: text})
		}
	}
	line := body
	if why != nil {
		m.line = m.row.AppendLine(m.line[:0])
		line = m.line
		m.pairs = append(m.pairs, record.Pair{Name: []byte("body_skipped"), Value: []byte("true")},
			record.Pair{Name: []byte("body_skip_reason"), Value: []byte(why.reason)})
	}
	return &record.Record{HasTime: true, Metadata: m.pairs, Line: line, Origin: []byte(l.id)}, nil
}

func (m *rowMaker) has(name []byte) bool {
	for _, p := range m.pairs {
		if bytes.Equal(p.Name, name) {
			return true
		}
	}
	return false
}
