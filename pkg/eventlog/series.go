package eventlog

import (
	"context"
	"fmt"
	"time"

	"sf2loki/pkg/feed"
	"sf2loki/pkg/record"
	"sf2loki/pkg/tally"
)

// series are the files of one event type, and the position in them.
type series struct {
	eventType string
	key       []byte
	pos       position
	since     time.Time // LogDate, for a key without a position
	from      time.Time // CreatedDate, for a key without a position
	cause     string    // why it begins where it does
	failures  int       // cycles in a row
	gaps      int64     // source_gaps in the stream that no account has told of
}

// key is the checkpoint key of an event type.
func (cfg *Config) key(eventType string) string {
	key := cfg.KeyPrefix + cfg.Window.Prefix() + SourceLabel + ":"
	if cfg.Interval == Daily {
		key += "Daily:"
	}
	return key + eventType
}

// load reads the stored position of a key. A value that is none counts as not
// there, loudly; one that must not be passed over is an error.
func (s *Source) load(key string) (pos position, stored bool, err error) {
	text, ok := s.cfg.Resume(key)
	if !ok {
		return pos, false, nil
	}
	pos, err = parsePosition(text, s.cfg.OrgID)
	if ahead := feed.Ahead(pos.created, s.cfg.API.Now()); ahead != nil {
		return pos, true, fmt.Errorf("%s: %w", key, ahead)
	}
	switch {
	case feed.IsUseless(err):
		s.stats.Change(func(t *tally.Totals) { t.LoadErrors++ })
		s.log.Warn("a stored position cannot be used", "key", key, "err", err)
	case err != nil:
		return pos, true, fmt.Errorf("%s: %w", key, err)
	}
	return pos, true, nil
}

// open puts a type that is new at its beginning.
func (s *Source) open(eventType string) error {
	if s.series[eventType] != nil {
		return nil
	}
	key := s.cfg.key(eventType)
	pos, stored, err := s.load(key)
	if err != nil {
		return err
	}
	t := &series{eventType: eventType, key: []byte(key), pos: pos}
	cause := "position"
	switch {
	case pos.set():
		if pos.done != nil {
			cause = "position of the daemon"
		}
	case !s.cfg.Window.Since.IsZero():
		t.since, cause = s.cfg.Window.Since, "since"
	case !s.cfg.Window.Until.IsZero():
		cause = "the oldest file"
	default:
		t.from, cause = s.cfg.API.Now().Add(-s.cfg.Lookback), "lookback"
		if !s.star.IsZero() && s.star.Before(t.from) {
			t.from, cause = s.star, "last complete pass"
		}
	}
	t.cause = cause
	s.log.Info("begin", "key", key, "cause", cause, "stored", stored, "at", t.beginning(), "rows", pos.rows)
	s.series[eventType] = t
	s.stats.Add(&tally.Count{EventType: eventType})
	return nil
}

func (t *series) beginning() string {
	for _, at := range []time.Time{t.pos.created, t.since, t.from} {
		if !at.IsZero() {
			return at.UTC().Format(time.RFC3339Nano)
		}
	}
	return ""
}

// next is the query for the files behind the position.
func (t *series) next(cfg *Config, upper time.Time) selection {
	q := selection{eventType: t.eventType, interval: cfg.Interval, before: upper, limit: cfg.PageSize}
	q.window = feed.Window{Since: t.since}
	if cfg.Window.Fixed() {
		q.window = cfg.Window
	}
	q.from = t.from
	if t.pos.set() {
		q.from, q.after, q.include = t.pos.created, t.pos.id, t.pos.rows > 0
	}
	return q
}

// wildKey is the type in the key of where types begin that are seen for the
// first time under a pattern: a type with few files may have had its first one
// while nothing ran.
const wildKey = "*"

func (s *Source) loadStar() error {
	pos, _, err := s.load(s.cfg.key(wildKey))
	s.star = pos.created
	return err
}

// saveStar notes a pass that has been over all types: a new one begins there,
// less the lookback.
func (s *Source) saveStar(upper time.Time) error {
	if !s.cfg.Types.Wild() || s.cfg.Window != (feed.Window{}) {
		return nil
	}
	pos := position{created: upper.Add(-s.cfg.Lookback)}
	rec := record.Record{Key: []byte(s.cfg.key(wildKey)), Value: pos.token(s.cfg.OrgID), CheckpointOnly: true}
	return s.cfg.Output.Records(record.AppendRecord(nil, &rec)) // of no type, so it is not counted
}

// pull goes through the files of one type.
func (s *Source) pull(ctx context.Context, e *emitter, name string, upper time.Time, enough <-chan struct{}) error {
	t := s.series[name]
	err := s.pullSeries(ctx, e, t, upper, enough)
	s.note(ctx, t, err)
	return err
}

// note says how a type stands after a cycle: louder from the third failure on.
func (s *Source) note(ctx context.Context, t *series, err error) {
	if ctx.Err() != nil {
		return
	}
	s.stats.Change(func(x *tally.Totals) {
		delete(x.Waiting, t.eventType)
		if err != nil {
			x.Waiting[t.eventType] = err.Error()
		}
	})
	if err == nil {
		t.failures = 0
		return
	}
	if feed.Judge(err) != feed.Later {
		return
	}
	t.failures++
	say := s.log.Warn
	if t.failures >= 3 {
		say = s.log.Error
	}
	say("event type waits", "event_type", t.eventType, "failures", t.failures, "err", err)
}

// pullSeries lists page after page and pulls the files, in order, up to the
// first that cannot be had.
func (s *Source) pullSeries(ctx context.Context, e *emitter, t *series, upper time.Time, enough <-chan struct{}) error {
	e.setType(t.eventType)
	found := false
	for {
		q := t.next(&s.cfg, upper)
		files, err := s.list.files(ctx, q)
		if err != nil {
			if ctx.Err() == nil {
				s.stats.Change(func(x *tally.Totals) {
					x.PollErrors[t.eventType]++
					x.DownloadErrors["listing"]++
				})
			}
			return fmt.Errorf("list the files of %s: %w", t.eventType, err)
		}
		if q.include {
			if err := s.checkBegun(e, t, files); err != nil {
				return err
			}
		}
		for i := range files {
			select {
			case <-enough:
				return fmt.Errorf("files are %w: %s stopped early", feed.ErrLeft, t.eventType)
			default:
			}
			if err := s.pullFile(ctx, e, t, &files[i]); err != nil {
				return err
			}
			found = true
		}
		if len(files) < q.limit {
			break
		}
	}
	return s.anchor(e, t, found)
}

// anchor gives a key without a position one at its beginning, so that a
// program that runs seldom does not begin later each time.
func (s *Source) anchor(e *emitter, t *series, found bool) error {
	if found || t.pos.set() || t.from.IsZero() {
		return nil
	}
	t.pos = position{created: t.from}
	return e.checkpoint(t.key, t.pos.token(s.cfg.OrgID))
}

// checkBegun sees to the file that was begun in an earlier run: when the org
// has it no more, the rest of its rows is lost.
func (s *Source) checkBegun(e *emitter, t *series, files []File) error {
	for i := range files {
		if files[i].ID == t.pos.id {
			return nil // the same, or made anew
		}
	}
	f := &File{ID: t.pos.id, EventType: t.eventType, Interval: s.cfg.Interval, Created: t.pos.created, LogDate: t.pos.created, Length: t.pos.length}
	why := fmt.Sprintf("the org lists it no more; %d of its rows had been pulled", t.pos.rows)
	return s.giveUp(e, t, f, gap{Rows: t.pos.rows}, why, 0)
}

// settled moves the position behind f.
func (t *series) settled(f *File) { t.pos = position{created: f.Created, id: f.ID, done: t.pos.done} }

// skipDone tells whether the daemon has read f already.
func (t *series) skipDone(f *File) bool { return t.pos.done[f.ID] && f.Created.Equal(t.pos.created) }
