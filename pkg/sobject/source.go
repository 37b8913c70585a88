// Package sobject pulls the rows of objects that can be queried and have a
// timestamp: login history, audit trails, stored events, whatever an org
// holds. Ordinary objects are read in the order of (time, Id). Big Objects,
// which take no order but the newest first and give every row the same Id, are
// read in windows that fit into memory and put in order by (time,
// EventIdentifier). What a user sees of it stands in sf-pull(1).
package sobject

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"sf2loki/pkg/backoff"
	"sf2loki/pkg/feed"
	"sf2loki/pkg/outlet"
	"sf2loki/pkg/shape"
	"sf2loki/pkg/tally"
)

// SourceLabel is what every record of this source has in the label source, and
// what its keys begin with.
const SourceLabel = "eventlog_objects"

// API is what this package needs of a Salesforce client.
type API interface {
	Query(ctx context.Context, soql string) iter.Seq2[json.RawMessage, error]
	Get(ctx context.Context, path string) ([]byte, error)
	Now() time.Time // by Salesforce's clock
}

// Config says what to pull, and how. The caller has checked Objects.
type Config struct {
	API   API
	OrgID string // of 18 characters: positions belong to it

	Objects  []Object
	Window   feed.Window
	Lookback time.Duration // how far back a key without a position begins
	Settle   time.Duration // rows that are younger are left for later
	Overlap  time.Duration // what is read again, for rows that became visible late

	Follow      bool
	Poll        time.Duration // of objects without one of their own
	Concurrency int           // objects pulled at a time

	BufferBytes int64 // rows of Big Objects that wait to be put in order; 0: 16 MiB
	Remember    int64 // rows that overlaps can tell apart; 0: 2^18

	KeyPrefix string                          // org=NAME:lane=NAME:
	Resume    func(key string) (string, bool) // stored positions

	Shape  *shape.Shape
	Output outlet.Output
	Log    *slog.Logger
}

// Source pulls the objects of one org.
type Source struct {
	cfg    Config
	log    *slog.Logger
	stats  *tally.Stats
	memory *feed.Memory
	series []*series

	mu      sync.Mutex
	held    time.Time // no query before this: the org has had enough
	refused int       // series whose last cycle was refused for good
}

// New returns a Source.
func New(cfg Config) *Source {
	if cfg.Concurrency <= 0 {
		cfg.Concurrency = 1
	}
	cfg.Concurrency = min(cfg.Concurrency, max(len(cfg.Objects), 1))
	if cfg.BufferBytes <= 0 {
		cfg.BufferBytes = 16 << 20
	}
	if cfg.Remember <= 0 {
		cfg.Remember = 1 << 18
	}
	return &Source{cfg: cfg, log: cfg.Log, stats: tally.New(), memory: feed.NewMemory(cfg.Remember)}
}

// Stats are the counters of the run.
func (s *Source) Stats() *tally.Stats { return s.stats }

// Pull makes one pass over the objects, or with Follow goes on, each object by
// its own schedule, until ctx ends, whose cause it then returns.
func (s *Source) Pull(ctx context.Context) error {
	if err := s.prepare(ctx); err != nil {
		return feed.Final(ctx, err)
	}
	if s.cfg.Follow {
		return feed.Final(ctx, s.follow(ctx))
	}
	return feed.Final(ctx, s.once(ctx))
}

// prepare finds out what every object is and where it begins, before any record
// is written: what is misspelt must not be found out after the first rows of
// another.
func (s *Source) prepare(ctx context.Context) error {
	var waiting error
	for _, o := range s.cfg.Objects {
		t := &series{src: s, obj: o}
		if err := t.learn(ctx); err != nil {
			if feed.Judge(err) != feed.Later {
				return err
			}
			waiting = err
			s.log.Warn("an object could not be looked at yet", "object", o.Name, "err", err)
		} else if err := t.open(); err != nil {
			return err
		}
		s.series = append(s.series, t)
	}
	if waiting != nil && !s.cfg.Follow {
		return waiting
	}
	return nil
}

// once pulls every object once, several at a time.
func (s *Source) once(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan *series, len(s.series))
	for _, t := range s.series {
		queue <- t
	}
	close(queue)
	var sum outcome
	var workers sync.WaitGroup
	for range s.cfg.Concurrency {
		workers.Go(func() {
			for t := range queue {
				if ctx.Err() != nil {
					return
				}
				err := t.pull(ctx)
				sum.add(err)
				if err != nil && feed.Judge(err) == feed.Ends {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	s.cfg.Shape.WarnMissing(s.log)
	return sum.err(len(s.series))
}

// outcome is what became of the objects of a pass.
type outcome struct {
	mu       sync.Mutex
	ends     error
	refused  error
	throttle error
	left     int
	last     error
}

func (o *outcome) add(err error) {
	if err == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch feed.Judge(err) {
	case feed.Ends:
		if o.ends == nil {
			o.ends = err
		}
	case feed.Refused, feed.Gone:
		o.refused = err
	case feed.Throttle:
		o.throttle = err
	default:
		o.left++
		o.last = err
	}
}

// err is the one error of a pass over n objects: the one that asks for the most.
func (o *outcome) err(n int) error {
	switch {
	case o.ends != nil:
		return o.ends
	case o.refused != nil:
		return o.refused
	case o.throttle != nil:
		return o.throttle
	case o.left > 0:
		return fmt.Errorf("rows are %w: %d of %d objects are not done, the last because of: %v", feed.ErrLeft, o.left, n, o.last)
	}
	return nil
}

// follow pulls each object by its own schedule until ctx ends, or nothing is
// left that could be pulled.
func (s *Source) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, s.cfg.Concurrency)
	var all sync.WaitGroup
	for _, t := range s.series {
		all.Go(func() {
			for {
				wait, err := t.turn(ctx, slots)
				if err == nil {
					err = backoff.Sleep(ctx, wait)
				}
				if err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// retryFailed is when an object is asked again after a failure, if its poll
// interval is longer.
const retryFailed = 5 * time.Minute

// turn waits for a slot, makes one cycle, and tells how long to wait for the next.
func (t *series) turn(ctx context.Context, slots chan struct{}) (time.Duration, error) {
	if err := t.src.untilFree(ctx); err != nil {
		return 0, err
	}
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	begin := time.Now()
	err := t.pull(ctx)
	took := time.Since(begin)
	<-slots
	t.src.passed(t)
	t.src.stats.Failing("object "+t.obj.Name, err)
	wait := backoff.Jitter(t.poll())
	if err == nil {
		return max(wait-took, 0), nil
	}
	switch feed.Judge(err) {
	case feed.Ends:
		return 0, err
	case feed.Throttle:
		return wait, nil
	case feed.Refused, feed.Gone:
		if t.src.allRefused() {
			return 0, err
		}
	}
	return backoff.Jitter(min(t.poll(), retryFailed)), nil
}

// passed notes the end of a cycle. Once every object has had one, it is known
// which columns none of them has.
func (s *Source) passed(t *series) {
	s.mu.Lock()
	t.passed = true
	all := !slices.ContainsFunc(s.series, func(o *series) bool { return !o.passed })
	s.mu.Unlock()
	if all {
		s.cfg.Shape.WarnMissing(s.log)
	}
}

// untilFree waits while the org has had enough of us.
func (s *Source) untilFree(ctx context.Context) error {
	for {
		s.mu.Lock()
		wait := time.Until(s.held)
		s.mu.Unlock()
		if wait <= 0 {
			return nil
		}
		if err := backoff.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// throttled notes that the org has had enough: no object is asked for before
// the next cycle of the one that found out.
func (s *Source) throttled(d time.Duration, err error) {
	s.mu.Lock()
	s.held = time.Now().Add(d)
	s.mu.Unlock()
	s.stats.Change(func(t *tally.Totals) { t.Throttled++ })
	if s.cfg.Follow {
		s.log.Warn("Salesforce's limits end this cycle; the next one goes on", "err", err)
	}
}

// enough is the error of an object that stops for what another has been told.
func (s *Source) enough() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Until(s.held) > 0 {
		return fmt.Errorf("rows are %w: Salesforce's limits ended the cycle", feed.ErrLeft)
	}
	return nil
}

func (s *Source) allRefused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused == len(s.series)
}
