// Package eventlog pulls event log files: from an org, where it lists and
// downloads EventLogFile records, and from CSV files on disk. Its cursor is
// the total order (CreatedDate, Id) of the files of one event type, and the
// rows of a file in time order. What a user sees of it stands in sf-pull(1).
package eventlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sf2loki/pkg/backoff"
	"sf2loki/pkg/feed"
	"sf2loki/pkg/outlet"
	"sf2loki/pkg/shape"
	"sf2loki/pkg/tally"
)

// Config says what to pull from an org, and how.
type Config struct {
	API   API
	OrgID string // of 18 characters: positions belong to it

	Types    TypeList
	Interval string // Hourly or Daily
	Window   feed.Window
	Lookback time.Duration // how far back a key without a position begins
	Settle   time.Duration // files that are younger are left for later
	Patience time.Duration // how long a file that cannot be had holds back later ones

	Follow bool
	Poll   time.Duration

	Watched bool // somebody wants to know how much there is to do, and a query may be spent on it

	Concurrency int
	TmpDir      string
	RowLimit    int // bytes; 0: DefaultRowLimit
	PageSize    int // files of one query; 0: 500

	KeyPrefix string                          // org=NAME:lane=NAME:
	Resume    func(key string) (string, bool) // stored positions
	Command   string                          // what a command that fetches a file begins with

	Shape  *shape.Shape
	Output outlet.Output
	Log    *slog.Logger
}

// Source pulls the files of one org.
type Source struct {
	cfg    Config
	log    *slog.Logger
	stats  *tally.Stats
	list   *listing
	sorter *sorter

	progress Progress

	names  []string // as the org spells them
	series map[string]*series
	star   time.Time // where types begin that are seen for the first time
}

// New returns a Source. The caller has checked cfg.Types.
func New(cfg Config) *Source {
	if cfg.PageSize <= 0 {
		cfg.PageSize = 500
	}
	if cfg.RowLimit <= 0 {
		cfg.RowLimit = DefaultRowLimit
	}
	return &Source{
		cfg: cfg, log: cfg.Log, stats: tally.New(),
		list:   &listing{api: cfg.API},
		sorter: newSorter(cfg.TmpDir, cfg.RowLimit),
		series: map[string]*series{},
	}
}

// Stats are the counters of the run.
func (s *Source) Stats() *tally.Stats { return s.stats }

// Progress is how far the run is.
func (s *Source) Progress() *Progress { return &s.progress }

// Pull makes one pass over the files, or with Follow one after the other until
// ctx ends, whose cause it then returns.
func (s *Source) Pull(ctx context.Context) error {
	if err := s.prepare(ctx); err != nil {
		return feed.Final(ctx, err)
	}
	for {
		begin := time.Now()
		err := s.cycle(ctx)
		s.passed(time.Since(begin))
		s.stats.Failing("the pass over event log files", err)
		if ctx.Err() != nil || !s.cfg.Follow || err != nil && !feed.Temporary(err) {
			return feed.Final(ctx, err)
		}
		if err := backoff.Sleep(ctx, s.untilNext(err, time.Since(begin))); err != nil {
			return err
		}
	}
}

// passed notes the end of a pass.
func (s *Source) passed(took time.Duration) {
	s.cfg.Shape.WarnMissing(s.log)
	s.stats.Change(func(t *tally.Totals) { t.Cycle = took })
	if !s.cfg.Follow {
		return // the account says it all
	}
	var sum tally.Count
	for _, c := range s.stats.Totals().Types {
		sum.Add(&c)
	}
	s.log.Info("pass", "event_types", len(s.series), "dur", took.Round(time.Millisecond),
		"files_so_far", sum.Files, "written_so_far", sum.Written, "dead_lettered_so_far", sum.DeadLettered)
}

// retryHeld is when a file that could not be had is tried again, if the poll
// interval is longer.
const retryHeld = 5 * time.Minute

// untilNext is how long to wait after a cycle that took so long.
func (s *Source) untilNext(err error, took time.Duration) time.Duration {
	wait := s.cfg.Poll
	if errors.Is(err, feed.ErrLeft) {
		wait = min(wait, retryHeld)
	}
	wait = backoff.Jitter(wait)
	if feed.Judge(err) == feed.Throttle {
		return wait // what it took was our own doing
	}
	return max(wait-took, 0)
}

// prepare finds out what there is to pull and where each part of it begins.
// Nothing has been written yet.
func (s *Source) prepare(ctx context.Context) error {
	names, err := s.spell(ctx)
	if err != nil {
		return err
	}
	s.names = names
	if s.cfg.Types.Wild() && s.cfg.Window == (feed.Window{}) {
		if err := s.loadStar(); err != nil {
			return err
		}
	}
	return s.openAll(names)
}

// openAll opens the series of all types before any record is written, so that
// a position that must not be passed over leaves everything untouched.
func (s *Source) openAll(names []string) error {
	for _, name := range names {
		if err := s.open(name); err != nil {
			return err
		}
	}
	return nil
}

// cycle goes once over all types, with one bound for all of them.
func (s *Source) cycle(ctx context.Context) error {
	upper := s.cfg.API.Now().Add(-s.cfg.Settle)
	names, err := s.discover(ctx, upper)
	if err != nil {
		if !feed.Temporary(err) {
			return err
		}
		s.pollFailed("discovery", err)
		if feed.Judge(err) == feed.Throttle {
			return s.throttled(err)
		}
	}
	if err := s.openAll(names); err != nil {
		return err
	}
	if s.cfg.Watched && !s.cfg.Follow {
		s.foresee(ctx, names, upper)
	}
	r := s.pullAll(ctx, names, upper)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case r.fatal != nil:
		return r.fatal
	case r.throttle != nil:
		return s.throttled(r.throttle)
	case r.held > 0:
		return fmt.Errorf("files are %w: %d of %d event types are not done, the last because of: %v", feed.ErrLeft, r.held, len(names), r.last)
	case err != nil:
		return fmt.Errorf("files are %w: the event types could not be asked for: %v", feed.ErrLeft, err)
	}
	return s.saveStar(upper)
}

func (s *Source) throttled(err error) error {
	s.stats.Change(func(t *tally.Totals) { t.Throttled++ })
	if s.cfg.Follow {
		s.log.Warn("Salesforce's limits end this cycle; the next one goes on", "err", err)
	}
	return err
}

func (s *Source) pollFailed(object string, err error) {
	s.stats.Change(func(t *tally.Totals) { t.PollErrors[object]++ })
	s.log.Warn("a query failed", "object", object, "err", err)
}

// discover gives all types to pull in this cycle.
func (s *Source) discover(ctx context.Context, upper time.Time) ([]string, error) {
	names := append([]string(nil), s.names...)
	if !s.cfg.Types.Wild() {
		return names, nil
	}
	found, err := s.list.types(ctx, selection{interval: s.cfg.Interval, window: s.cfg.Window, before: upper})
	for _, name := range found {
		if s.cfg.Types.Wanted(name) && !containsFold(names, name) {
			names = append(names, name)
		}
	}
	return names, err
}

// result is what became of the types of a cycle.
type result struct {
	mu       sync.Mutex
	fatal    error
	throttle error
	held     int
	last     error
}

func (r *result) add(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch feed.Judge(err) {
	case feed.Throttle:
		r.throttle = err
	case feed.Later:
		r.held++
		r.last = err
	default:
		if r.fatal == nil {
			r.fatal = err
		}
	}
}

// pullAll pulls the types, several at a time. What no type can do better ends
// all of them, and so does a limit of the org: each at the end of the file that
// it has in hand.
func (s *Source) pullAll(ctx context.Context, names []string, upper time.Time) *result {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &result{}
	queue := make(chan string)
	enough := make(chan struct{})
	var once sync.Once
	var workers sync.WaitGroup
	for range min(s.cfg.Concurrency, len(names)) {
		workers.Go(func() {
			e := newEmitter(&s.cfg.Output, s.stats, s.cfg.Shape, s.sorter)
			e.progress, e.halves = &s.progress, 1
			for name := range queue {
				err := s.pull(ctx, e, name, upper, enough)
				if err == nil {
					continue
				}
				r.add(err)
				switch feed.Judge(err) {
				case feed.Later:
				case feed.Throttle:
					once.Do(func() { close(enough) })
				default:
					once.Do(func() { close(enough) })
					cancel(err)
				}
			}
		})
	}
handOut:
	for _, name := range names {
		select {
		case queue <- name:
		case <-enough:
			break handOut
		case <-ctx.Done():
			break handOut
		}
	}
	close(queue)
	workers.Wait()
	return r
}
