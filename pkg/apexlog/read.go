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
	"sf2loki/pkg/tally"
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
			s.stats.Change(func(t *tally.Totals) { t.PollErrors[EventType]++ })
			return fmt.Errorf("list debug logs: %w", err)
		}
		from := at
		for i := range logs {
			l := &logs[i]
			if err := s.pullLog(ctx, l); err != nil {
				return err
			}
			if l.timed {
				at = place{l.time, l.id}
			}
		}
		s.Forget()
		if s.emit.News() {
			if err := s.emit.Account(s.Track, from.time, at.time); err != nil {
				return err
			}
		}
		if len(logs) < pageSize {
			return s.missed()
		}
		if at == from {
			s.stats.Change(func(t *tally.Totals) { t.Stalls[EventType]++ })
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
		if errors.Is(err, salesforce.ErrShort) && len(logs) >= pageSize {
			break
		}
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

// pullLog writes one log, unless it has been written before.
func (s *Source) pullLog(ctx context.Context, l *entry) error {
	s.any = true
	if s.Written(l.key, l.time, l.timed) {
		s.emit.Skip()
		return nil
	}
	inSample := s.rows.typ.Keep([]byte(l.id))
	var body []byte
	var skipped *skip
	if inSample {
		var err error
		if body, skipped, err = s.body(ctx, l); err != nil {
			return err
		}
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
	if err := s.write(l, at, inSample, body, skipped); err != nil {
		return err
	}
	s.Wrote(l.key, l.time, l.timed)
	return nil
}

// write writes the record of a log, unless it is left out by rules or sample.
func (s *Source) write(l *entry, at int64, inSample bool, body []byte, skipped *skip) error {
	if !inSample {
		s.emit.SampleOut(0)
		return nil
	}
	rec, err := s.rows.record(l, body, skipped)
	if err != nil {
		return err
	}
	if rec == nil {
		s.emit.Filter(len(body))
		return nil
	}
	rec.Time, rec.Value = at, s.AppendToken(s.rows.value[:0])
	s.rows.value = rec.Value
	return s.emit.Row(rec, len(body))
}

// skip is why a log is written without its body.
type skip struct {
	reason string // size, download_error, gone or rule
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
	if s.rows.shape.Drops(shape.Body) {
		return nil, &skip{reason: "rule"}, nil
	}
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
			if err := backoff.Sleep(ctx, wait.Next()); err != nil {
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
	s.stats.Change(func(t *tally.Totals) { t.BodiesSkipped[reason]++ })
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
	s.stats.Change(func(t *tally.Totals) { t.DownloadErrors[reason]++ })
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
	shape *shape.Shape
	typ   *shape.Type
	row   feed.Row
	line  []byte
	after []byte // the line after the rules
	value []byte
	pairs []record.Pair
}

// logRow is a log as rules see it: what is listed of it, and its body.
type logRow struct {
	*feed.Row
	body []byte // nil: it has none
}

func (l *logRow) Cell(i int) []byte {
	if i == len(l.Names) {
		return l.body
	}
	return l.Row.Cell(i)
}

func (m *rowMaker) read(raw json.RawMessage) (entry, error) {
	if err := m.row.Parse(raw); err != nil {
		return entry{}, &feed.OddAnswer{Text: err.Error()}
	}
	l := entry{raw: raw, id: string(m.row.Text("Id"))}
	if _, err := salesforce.ID18(l.id); err != nil {
		return entry{}, &feed.OddAnswer{Text: "a record of the answer has no Id"}
	}
	l.time, l.timed = feed.ParseTime(m.row.Text("StartTime"))
	l.time = feed.Millis(l.time)
	l.key = feed.KeyOf([]byte(l.id))
	length, _ := strconv.ParseFloat(string(m.row.Text("LogLength")), 64)
	l.length = feed.Count(length)
	return l, nil
}

// record makes the record of a log: its body, with what is known of it in
// structured metadata; without a body a line of JSON that says what is known. nil:
// a rule drops it.
func (m *rowMaker) record(l *entry, body []byte, why *skip) (*record.Record, error) {
	if err := m.row.Parse(l.raw); err != nil {
		return nil, &feed.OddAnswer{Text: err.Error()}
	}
	names := make([]string, len(m.row.Names), len(m.row.Names)+1)
	for i, name := range m.row.Names {
		names[i] = string(name)
	}
	if why != nil {
		body = nil
	} else if body == nil {
		body = []byte{} // an empty one is one
	}
	columns := m.shape.Columns(append(names, shape.Body))
	if !columns.Take(&logRow{&m.row, body}) {
		return nil, nil
	}
	labels, metadata := m.typ.Pairs(columns)
	m.pairs = append(m.pairs[:0], metadata...)
	for i, name := range m.row.Names {
		if text := columns.Text(names[i]); len(text) > 0 && !m.has(name) {
			m.pairs = append(m.pairs, record.Pair{Name: name, Value: text})
		}
	}
	line := columns.Text(shape.Body)
	if why != nil {
		m.line = m.row.AppendLine(m.line[:0])
		m.after = columns.AppendLine(m.after[:0], m.line)
		line = m.after
		m.pairs = append(m.pairs, record.Pair{Name: []byte("body_skipped"), Value: []byte("true")},
			record.Pair{Name: []byte("body_skip_reason"), Value: []byte(why.reason)})
	}
	return &record.Record{HasTime: true, Labels: labels, Metadata: m.pairs, Line: line, Origin: []byte(l.id)}, nil
}

func (m *rowMaker) has(name []byte) bool {
	for _, p := range m.pairs {
		if bytes.Equal(p.Name, name) {
			return true
		}
	}
	return false
}
