package eventlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"sf2loki/pkg/backoff"
	"sf2loki/pkg/feed"
	"sf2loki/pkg/outlet"
	"sf2loki/pkg/record"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/tally"
)

// incomplete is a body that lacks its end.
type incomplete struct {
	have, want int64
	torn       *torn
	unreadable bool // not even the header can be made out
}

func (i *incomplete) Error() string {
	if i.have < i.want {
		return fmt.Sprintf("the body has %d bytes of %d", i.have, i.want)
	}
	return "the body is not whole: " + i.torn.String()
}

// Unwrap says what a pass makes of it: the next one may find it whole.
func (i *incomplete) Unwrap() error { return &feed.OddAnswer{Text: i.Error()} }

// pullFile downloads one file and writes its records, or sees to it that its
// absence is known.
func (s *Source) pullFile(ctx context.Context, e *emitter, t *series, f *File) error {
	if t.skipDone(f) {
		t.settled(f)
		return nil
	}
	tmp, size, err := s.download(ctx, f)
	if err != nil {
		return s.failed(ctx, e, t, f, err)
	}
	defer tmp.Close()
	s.stats.Add(&tally.Count{EventType: t.eventType, Bytes: size})
	p := s.parcel(t, f, body{tmp, size})
	v, err := look(ctx, p.body, s.cfg.RowLimit, p.fallback)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, ErrRow):
		return s.failed(ctx, e, t, f, &incomplete{have: size, want: f.Length, torn: &torn{err: err}, unreadable: true})
	case err != nil:
		return diskError(err)
	case size < f.Length || v.torn != nil:
		err := &incomplete{have: size, want: f.Length, torn: v.torn}
		if err := s.failed(ctx, e, t, f, err); err != nil || t.passed(f) {
			return err
		}
		if err := s.gap(e, t, f, gap{Have: size, Rows: v.rows}, err.Error(), 200); err != nil {
			return err
		}
	}
	p.account.SourceGaps = t.gaps
	if err := e.file(ctx, p, v); err != nil {
		return err
	}
	t.gaps = 0
	t.settled(f)
	s.stats.Add(&tally.Count{EventType: t.eventType, Position: f.Created.UnixNano()})
	s.log.Debug("file done", "id", f.ID, "event_type", f.EventType, "log_date", f.LogDate, "sequence", f.Sequence, "rows", v.rows, "in_order", v.sorted)
	return nil
}

func (s *Source) parcel(t *series, f *File, b body) *parcel {
	fallback := f.LogDate.UnixNano()
	if f.LogDate.IsZero() {
		fallback = f.Created.UnixNano()
	}
	p := &parcel{
		key: t.key, name: f.ID, eventType: t.eventType, body: b,
		fallback: &fallback, otherwise: fallback,
		token: rowsToken(s.cfg.OrgID, f),
		account: record.Account{
			EventType: t.eventType, Interval: f.Interval, Bytes: b.size,
			LogDate: f.LogDate.UTC().Format(time.RFC3339),
		},
	}
	after := position{created: f.Created, id: f.ID}
	p.done = after.token(s.cfg.OrgID)
	switch {
	case t.pos.inside(f):
		p.skip = t.pos.rows
	case t.pos.begun(f):
		s.log.Info("a file has changed and begins again at its first row", "id", f.ID, "event_type", f.EventType)
	}
	return p
}

// bodyAttempts is how often a body that breaks off is asked for in one go; the
// client itself sees to requests that are not answered.
const bodyAttempts = 3

// download fetches a file into a temporary one: a slow reader of the records
// must not hold a connection to Salesforce.
func (s *Source) download(ctx context.Context, f *File) (*os.File, int64, error) {
	wait := backoff.New(time.Second, 10*time.Second)
	for attempt := 1; ; attempt++ {
		tmp, size, err := s.fetch(ctx, f)
		if err == nil || attempt == bodyAttempts || !hadBegun(err) {
			return tmp, size, err
		}
		if err := backoff.Sleep(ctx, wait.Next()); err != nil {
			return nil, 0, err
		}
	}
}

func (s *Source) fetch(ctx context.Context, f *File) (*os.File, int64, error) {
	r, err := s.cfg.API.Open(ctx, "sobjects/EventLogFile/"+f.ID+"/LogFile")
	if err != nil {
		return nil, 0, err
	}
	defer r.Close()
	tmp, size, err := keep(s.cfg.TmpDir, counting{newBounded(r, f.Length), &s.progress.done})
	if err != nil {
		s.progress.done.Add(-size)
	}
	if salesforce.KindOf(err) != salesforce.KindOther {
		err = &brokenOff{err}
	}
	return tmp, size, err
}

// mostExcess is how much longer than Salesforce says a body may be, beyond twice
// that: one without an end must not fill the disk.
const mostExcess = 64 << 20

// bounded lets a body through that is about as long as the listing says.
type bounded struct {
	io.Reader
	left, length int64
}

func newBounded(r io.Reader, length int64) io.Reader {
	if length <= 0 || length > math.MaxInt64/4 {
		return r
	}
	return &bounded{r, 2*length + mostExcess, length}
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, &feed.OddAnswer{Text: fmt.Sprintf("the body is much longer than the %d bytes that Salesforce says", b.length)}
	}
	n, err := b.Reader.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// brokenOff is a body that had begun to come.
type brokenOff struct{ error }

func (b *brokenOff) Unwrap() error { return b.error }

func hadBegun(err error) bool {
	var b *brokenOff
	return errors.As(err, &b)
}

// failed judges a file that could not be had. nil means that it has been waited
// for long enough: then either the position is behind it, with a source_gap in
// its place, or what there is of it is to be delivered.
func (s *Source) failed(ctx context.Context, e *emitter, t *series, f *File, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err = fmt.Errorf("%s of %s, %s: %w", f.ID, f.EventType, f.LogDate.UTC().Format(time.RFC3339), err)
	status := feed.Status(err)
	var missing gap
	if t.pos.begun(f) {
		missing.Rows = t.pos.rows
	}
	switch feed.Judge(err) {
	case feed.Gone:
		s.countFailure(status, err)
		return s.giveUp(e, t, f, missing, err.Error(), status)
	case feed.Later:
		s.countFailure(status, err)
	default:
		return err
	}
	if t.pos.failing.ID != f.ID {
		if err := s.hold(e, t, f); err != nil {
			return err
		}
	}
	age := s.cfg.API.Now().Sub(t.pos.failing.Since)
	if age < s.cfg.Patience || salesforce.KindOf(err) == salesforce.KindTransport && !hadBegun(err) {
		return err // without a connection it is the way to Salesforce that fails, not the file
	}
	var part *incomplete
	if errors.As(err, &part) && !part.unreadable {
		return nil
	}
	return s.giveUp(e, t, f, missing, err.Error(), status)
}

func (s *Source) countFailure(status int, err error) {
	reason := "transport"
	var part *incomplete
	switch {
	case errors.As(err, &part):
		reason = "incomplete"
	case status != 0:
		reason = fmt.Sprintf("HTTP %d", status)
	}
	s.stats.Change(func(t *tally.Totals) { t.DownloadErrors[reason]++ })
}

// hold notes, in the position too, since when f has been failing.
func (s *Source) hold(e *emitter, t *series, f *File) error {
	if !t.pos.set() {
		t.pos = position{created: f.Created}
	}
	t.pos.failing = feed.Failing{ID: f.ID, Since: s.cfg.API.Now().UTC().Truncate(time.Second)}
	return e.checkpoint(t.key, t.pos.token(s.cfg.OrgID))
}

// passed tells whether the position is behind f.
func (t *series) passed(f *File) bool {
	return t.pos.id == f.ID && t.pos.created.Equal(f.Created) && t.pos.rows == 0
}

// gap is what a source_gap says about the file, or its end, that is missing.
type gap struct {
	Kind      string `json:"kind"`
	ID        string `json:"id"`
	EventType string `json:"event_type"`
	Interval  string `json:"interval,omitempty"`
	LogDate   string `json:"log_date,omitempty"`
	Created   string `json:"created"`
	Bytes     int64  `json:"bytes,omitempty"`
	Have      int64  `json:"have,omitempty"` // bytes that were delivered
	Rows      int64  `json:"rows,omitempty"` // rows that were delivered
	Command   string `json:"command,omitempty"`
}

// giveUp writes a source_gap in the place of f and moves the position behind it.
func (s *Source) giveUp(e *emitter, t *series, f *File, g gap, why string, status int) error {
	if err := s.gap(e, t, f, g, why, status); err != nil {
		return err
	}
	t.settled(f)
	return e.checkpoint(t.key, t.pos.token(s.cfg.OrgID))
}

func (s *Source) gap(e *emitter, t *series, f *File, g gap, why string, status int) error {
	g.Kind, g.ID, g.EventType, g.Interval = "elf_file", f.ID, f.EventType, f.Interval
	g.Created, g.Bytes = f.Created.UTC().Format(time.RFC3339Nano), f.Length
	at := f.Created
	if !f.LogDate.IsZero() && !f.LogDate.Equal(f.Created) {
		at = f.LogDate
		g.LogDate, g.Command = f.LogDate.UTC().Format(time.RFC3339), s.command(f)
	}
	detail := "source gap: " + why
	if g.Command != "" {
		detail += "; fetch it with: " + g.Command
	}
	s.log.Warn("a file is given up", "id", f.ID, "event_type", f.EventType, "log_date", g.LogDate, "why", why, "command", g.Command)
	e.rec = record.Record{Time: at.UnixNano(), HasTime: true, Labels: e.typ.Labels(), Key: t.key, Origin: []byte(f.ID)}
	if err := outlet.SetGap(&e.rec, &g); err != nil {
		return err
	}
	e.count.Gaps++
	if e.out.Letter == nil {
		t.gaps++
	}
	return e.letter(&record.Letter{Reason: record.SourceGap, Status: status, Detail: detail})
}

// command is how the file of a gap is fetched: as a window of its own.
func (s *Source) command(f *File) string {
	span := time.Hour
	if f.Interval == Daily {
		span = 24 * time.Hour
	}
	at := f.LogDate.UTC()
	return fmt.Sprintf("%s --interval %s --event-type %s --since %s --until %s", s.cfg.Command, f.Interval, f.EventType,
		at.Format(time.RFC3339), at.Add(span).Format(time.RFC3339))
}
