// Package apexlog pulls Apex debug logs by the Tooling API: it lists them in
// the order of (StartTime, Id) and fetches the body of each. A body that cannot
// be had holds back the logs after it, for a time; then its absence is told.
// What a user sees of it stands in sf-pull(1).
package apexlog

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"time"

	"sf2loki/pkg/backoff"
	"sf2loki/pkg/feed"
	"sf2loki/pkg/outlet"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/shape"
	"sf2loki/pkg/tally"
)

// SourceLabel is what every record of this source has in the label source, and
// its key.
const SourceLabel = "apexlog"

// EventType is what every record of this source has in the label event_type.
const EventType = "ApexLog"

// API is what this package needs of a Salesforce client.
type API interface {
	Query(ctx context.Context, soql string) iter.Seq2[json.RawMessage, error]
	QueryTooling(ctx context.Context, soql string) iter.Seq2[json.RawMessage, error]
	Open(ctx context.Context, path string) (io.ReadCloser, error)
	Now() time.Time // by Salesforce's clock
}

// Config says what to pull, and how.
type Config struct {
	API   API
	OrgID string // of 18 characters: positions belong to it

	Users    []string // ids or usernames; none: all
	Window   feed.Window
	Lookback time.Duration // how far back a key without a position begins
	Settle   time.Duration // logs that are younger are left for later
	Overlap  time.Duration // what is read again: a long transaction's log comes late
	Patience time.Duration // how long a body that cannot be had holds back later logs
	MaxBody  int64         // bytes of a body that becomes a line

	Follow bool
	Poll   time.Duration

	Remember int64 // logs that the overlap can tell apart; 0: 2^16

	KeyPrefix string                          // org=NAME:lane=NAME:
	Resume    func(key string) (string, bool) // stored positions
	Command   string                          // what a command that fetches a log begins with

	Shape  *shape.Shape
	Output outlet.Output
	Log    *slog.Logger
}

// Source pulls the debug logs of one org.
type Source struct {
	*feed.Track

	cfg   Config
	log   *slog.Logger
	stats *tally.Stats
	key   string
	users []string // ids
	emit  *feed.Emitter
	rows  rowMaker

	failures int
	untraced bool // it has been said that nobody is traced
	any      bool // a log has been seen
}

// New returns a Source.
func New(cfg Config) *Source {
	if cfg.Remember <= 0 {
		cfg.Remember = 1 << 16
	}
	key := Key(cfg.KeyPrefix, cfg.Window)
	s := &Source{cfg: cfg, log: cfg.Log, stats: tally.New(), key: key}
	if cfg.Shape != nil {
		s.rows.shape, s.rows.typ = cfg.Shape, cfg.Shape.Type(SourceLabel, EventType)
		s.emit = feed.NewEmitter(&s.cfg.Output, s.stats, key, EventType, s.rows.typ.Labels())
	}
	return s
}

// Key is the checkpoint key.
func Key(prefix string, w feed.Window) string { return prefix + w.Prefix() + SourceLabel }

// Stats are the counters of the run.
func (s *Source) Stats() *tally.Stats { return s.stats }

// Pull makes one pass over the logs, or with Follow one after the other until
// ctx ends, whose cause it then returns.
func (s *Source) Pull(ctx context.Context) error {
	if err := s.prepare(ctx); err != nil {
		return feed.Final(ctx, err)
	}
	for {
		begin := time.Now()
		err := s.cycle(ctx)
		s.note(ctx, err)
		s.stats.Failing("the pass over debug logs", err)
		s.cfg.Shape.WarnMissing(s.log)
		if ctx.Err() != nil || !s.cfg.Follow || err != nil && !feed.Temporary(err) {
			return feed.Final(ctx, err)
		}
		if err := backoff.Sleep(ctx, s.untilNext(err, time.Since(begin))); err != nil {
			return err
		}
	}
}

// untilNext is how long to wait after a cycle that took so long.
func (s *Source) untilNext(err error, took time.Duration) time.Duration {
	wait := backoff.Jitter(s.cfg.Poll)
	if err != nil && feed.Judge(err) == feed.Throttle {
		return wait // what it took was our own doing
	}
	return max(wait-took, 0)
}

// prepare finds the users and the beginning. Nothing has been written yet.
func (s *Source) prepare(ctx context.Context) error {
	users, err := findUsers(ctx, s.cfg.API, s.cfg.Users)
	if err != nil {
		return err
	}
	s.users = users
	text, stored := s.cfg.Resume(s.key)
	terms := feed.Terms{OrgID: s.cfg.OrgID, Window: s.cfg.Window, Lookback: s.cfg.Lookback, Overlap: s.cfg.Overlap}
	track, err := feed.Open(terms, feed.NewMemory(s.cfg.Remember), text, stored, s.cfg.API.Now())
	switch {
	case feed.IsUseless(err):
		s.stats.Change(func(t *tally.Totals) { t.LoadErrors++ })
		s.log.Warn("a stored position cannot be used", "key", s.key, "err", err)
	case err != nil:
		return fmt.Errorf("%s: %w", s.key, err)
	}
	s.Track = track
	s.log.Info("begin", "key", s.key, "cause", s.Cause, "stored", stored, "at", feed.DateTime(s.At()))
	s.WarnPurged(s.log, s.key, keeps, s.cfg.API.Now())
	return nil
}

// keeps is how long Salesforce keeps a log that was made for monitoring; one
// that a user made for himself goes after a day.
const keeps = 7 * 24 * time.Hour

// cycle reads what there is, up to one bound.
func (s *Source) cycle(ctx context.Context) error {
	settled := feed.Millis(s.cfg.API.Now().Add(-s.cfg.Settle).UnixNano())
	upper := s.Upper(settled)
	at, id, short := s.From(settled)
	if short {
		s.log.Warn("logs come so fast that the overlap is shorter than asked for", "overlap", s.Reach())
	}
	if at < upper {
		if err := s.read(ctx, place{at, id}, upper); err != nil {
			return cmp.Or(s.emit.Flush(), err)
		}
		s.askForTraces(ctx)
	}
	if err := s.emit.Finish(s.Track, s.cfg.Follow, at, upper); err != nil {
		return err
	}
	return s.Unready(settled)
}

// note says how the source stands after a cycle: louder from the third failure on.
func (s *Source) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	s.stats.Change(func(t *tally.Totals) {
		delete(t.Waiting, EventType)
		if err != nil {
			t.Waiting[EventType] = err.Error()
		}
	})
	switch {
	case err == nil:
		s.failures = 0
		return
	case feed.Judge(err) == feed.Throttle:
		s.stats.Change(func(t *tally.Totals) { t.Throttled++ })
		if s.cfg.Follow {
			s.log.Warn("Salesforce's limits end this cycle; the next one goes on", "err", err)
		}
		return
	case !feed.Temporary(err):
		return
	}
	s.failures++
	say := s.log.Warn
	if s.failures >= 3 {
		say = s.log.Error
	}
	say("logs wait", "failures", s.failures, "err", err)
}

// askForTraces says once that no log will come because nobody is traced: an org
// writes debug logs only under a trace flag, and says nothing without one.
func (s *Source) askForTraces(ctx context.Context) {
	if s.any || s.untraced {
		return
	}
	soql := "SELECT Id FROM TraceFlag WHERE ExpirationDate > " + salesforce.DateTime(s.cfg.API.Now())
	if len(s.users) > 0 {
		soql += " AND TracedEntityId IN " + salesforce.QuoteList(s.users)
	}
	for _, err := range s.cfg.API.QueryTooling(ctx, soql+" LIMIT 1") {
		if err != nil {
			s.log.Debug("trace flags cannot be asked for", "err", err)
		}
		return
	}
	s.untraced = true
	s.log.Warn("no trace flag is active: Salesforce writes debug logs only under one; set it in Setup, Debug Logs", "users", s.cfg.Users)
}
