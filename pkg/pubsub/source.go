// Package pubsub reads the topics of an org's event bus: one process, many
// topics, one connection. Each topic has a stream that its events come on, an
// inbox that bounds how many of them are on their way, and an emitter that
// writes them as records; a pipe that stands still stops the asking for more.
// What users see of it is described in sf-pull(1).
package pubsub

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"sf2loki/pkg/backoff"
	"sf2loki/pkg/outlet"
	"sf2loki/pkg/pubsub/eventbus"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/shape"
)

// API is what the source needs of the org's client.
type API interface {
	Token(ctx context.Context) (salesforce.Token, error)
	Drop(salesforce.Token)
	Get(ctx context.Context, path string) ([]byte, error)
	Tooling
}

// Config says what to read and how.
type Config struct {
	API   API
	OrgID string

	Endpoint Endpoint
	Dial     func(ctx context.Context, addr string) (net.Conn, error) // nil: TCP, by the proxy of the environment

	Topics  TopicList
	Managed string // id or developer name of a managed subscription, instead of topics

	Replay     Preset // where a topic without a position begins
	Lost       Policy // what happens when Salesforce refuses a position
	Window     int    // events of a topic that are on their way at most; 1 to MaxWindow
	Rediscover time.Duration
	MaxEvents  int64         // the run ends after so many; 0: never
	IdleExit   time.Duration // the run ends when no event has come for so long; 0: never

	KeyPrefix string
	Resume    func(key string) (string, bool)
	// Stored reads a position anew, for Managed: only what is stored is
	// committed to Salesforce.
	Stored func(key string) (string, bool, error)

	Output outlet.Output
	Shape  *shape.Shape
	Log    *slog.Logger
	Now    func() time.Time
	Timing Timing
	Tries  int // how often a call is tried at the start of the run; 0: 5
}

// Endpoint is the host that serves the bus.
type Endpoint struct {
	Addr      string // HOST:PORT
	Plaintext bool
	TLS       *tls.Config // nil: the certificates that this machine trusts
}

// Timing are the intervals of the source; a zero one is as documented.
type Timing struct {
	Watchdog    time.Duration // a silent stream is opened again after it; 300 s
	Nudge       time.Duration // a stream without credit gets some after it, as long as the pipe moves; 30 s
	Min, Max    time.Duration // pause before a stream is opened again; 1 s, 30 s
	SlowMin     time.Duration // the same where a limit is to pass; 1 min
	SlowMax     time.Duration // 15 min
	Call        time.Duration // a call that answers once; 30 s
	CommitEvery time.Duration // managed: the stored position is looked at; 5 s
}

func orTime(d *time.Duration, other time.Duration) {
	if *d <= 0 {
		*d = other
	}
}

func (t *Timing) settle() {
	orTime(&t.Watchdog, 300*time.Second) // signs of life come every 270 s at the latest
	orTime(&t.Nudge, 30*time.Second)     // a stream may be without credit for 60 s
	orTime(&t.Min, time.Second)
	orTime(&t.Max, 30*time.Second)
	orTime(&t.SlowMin, time.Minute)
	orTime(&t.SlowMax, 15*time.Minute)
	orTime(&t.Call, 30*time.Second)
	orTime(&t.CommitEvery, 5*time.Second)
}

// MaxWindow is what Salesforce lets a stream have outstanding at most.
const MaxWindow = 100

// Preset is where a topic without a position begins.
type Preset string

// The presets.
const (
	Earliest Preset = "earliest"
	Latest   Preset = "latest"
)

// Policy is what happens when Salesforce refuses a topic's position.
type Policy string

// The policies.
const (
	LostEarliest Policy = "earliest"
	LostLatest   Policy = "latest"
	LostFail     Policy = "fail"
)

// Source reads topics.
type Source struct {
	cfg     Config
	log     *slog.Logger
	stats   *Stats
	bus     eventbus.PubSubClient
	conn    *grpc.ClientConn
	schemas *schemas
	memory  *memory

	// With MaxEvents: events that were begun, and those that are in a block.
	begun, ended atomic.Int64
	lastMove     atomic.Int64 // when an event was written or a stream was not open, for IdleExit

	mu        sync.Mutex
	followers map[string]*follower // by topic
}

// New returns a Source. Pull reports what is wrong with cfg.
func New(cfg Config) *Source {
	cfg.Timing.settle()
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Output.Now == nil {
		cfg.Output.Now = cfg.Now
	}
	if cfg.Window <= 0 {
		cfg.Window = MaxWindow
	}
	if cfg.Tries <= 0 {
		cfg.Tries = firstTries
	}
	stats := newStats()
	stats.declare(cfg.Topics.explicit())
	return &Source{cfg: cfg, log: cfg.Log, stats: stats, memory: newMemory(maxHeld), followers: map[string]*follower{}}
}

// Stats are the counters of the run.
func (s *Source) Stats() *Stats { return s.stats }

// errDone ends a run that has what it was to have.
var errDone = errors.New("done")

// Pull reads until ctx is done, or MaxEvents or IdleExit end the run.
func (s *Source) Pull(ctx context.Context) error {
	if err := s.dial(); err != nil {
		return err
	}
	defer s.conn.Close()
	s.schemas = newSchemas(s)
	run := &run{s: s}
	run.ctx, run.stop = context.WithCancelCause(ctx)
	defer run.stop(nil)
	if err := run.begin(); err != nil {
		return err
	}
	run.tasks.Go(run.rediscover)
	if s.cfg.IdleExit > 0 {
		run.tasks.Go(run.watchIdle)
	}
	run.wait()
	s.cfg.Shape.WarnMissing(s.log)
	err := context.Cause(run.ctx)
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return err
	case errors.Is(err, errDone):
		return run.abandoned()
	}
	return err
}

// run is one Pull.
type run struct {
	s     *Source
	ctx   context.Context
	stop  context.CancelCauseFunc
	tasks sync.WaitGroup // the streams, and what looks after them
	given error          // why the first topic was given up; guarded by s.mu
}

// begin finds the topics, checks them, and starts to follow them.
func (r *run) begin() error {
	s := r.s
	if s.cfg.Managed != "" {
		f := s.newManaged()
		r.tasks.Go(func() { f.managed.watch(r.ctx) })
		r.follow(f, position{cause: "the org keeps the position"})
		return nil
	}
	topics, err := s.firstTopics(r.ctx)
	if err != nil {
		return err
	}
	positions := make([]position, len(topics))
	for i, topic := range topics {
		if positions[i], err = s.start(topic); err != nil {
			return err
		}
	}
	for i, topic := range topics {
		r.follow(s.newFollower(topic), positions[i])
	}
	return nil
}

// follow starts a topic's stream and emitter.
func (r *run) follow(f *follower, at position) {
	s := r.s
	s.mu.Lock()
	s.followers[f.topic] = f
	s.mu.Unlock()
	f.from, f.emitter.last = at, at.time
	f.active.Store(true)
	s.log.Info("topic begins", "topic", f.topic, "from", at.String(), "cause", at.cause)
	r.tasks.Go(func() {
		err := f.both(r.ctx)
		f.active.Store(false)
		r.ended(f, err)
	})
}

// ended decides what the end of a topic means for the others.
func (r *run) ended(f *follower, err error) {
	s := r.s
	var gone *topicError
	switch {
	case r.ctx.Err() != nil:
		return
	case !errors.As(err, &gone):
		r.stop(err)
		return
	}
	s.stats.topic(f.topic, func(c *TopicCount) { c.GivenUp = gone.Error() })
	s.stats.Failing("topic "+f.topic, nil) // it is not tried any more
	f.givenUp.Store(true)
	s.mu.Lock()
	if r.given == nil {
		r.given = err
	}
	rest := slices.ContainsFunc(followersOf(s), func(o *follower) bool { return o.active.Load() })
	s.mu.Unlock()
	if !rest {
		r.stop(err)
		return
	}
	s.log.Error("topic given up, it is tried again at the next discovery", "topic", f.topic, "err", err)
}

func followersOf(s *Source) []*follower {
	var list []*follower
	for _, f := range s.followers {
		list = append(list, f)
	}
	return list
}

func (s *Source) eachFollower() []*follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	return followersOf(s)
}

func (r *run) wait() {
	<-r.ctx.Done()
	r.tasks.Wait()
}

// abandoned is nil when every topic was read to the end that was asked for.
func (r *run) abandoned() error {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	for _, f := range r.s.followers {
		if f.givenUp.Load() {
			return r.given
		}
	}
	return nil
}

// rediscover looks for new topics, and for those that were given up, from time
// to time.
func (r *run) rediscover() {
	s := r.s
	if s.cfg.Managed != "" || s.cfg.Rediscover <= 0 {
		return
	}
	for sleep(r.ctx, backoff.Jitter(s.cfg.Rediscover)) {
		if err := r.lookAgain(); err != nil && r.ctx.Err() == nil {
			s.log.Error("topics could not be looked for", "err", err)
		}
	}
}

// lookAgain adds what is new; nothing is ever taken away.
func (r *run) lookAgain() error {
	s := r.s
	found, err := s.discover(r.ctx)
	for _, f := range s.eachFollower() {
		if f.givenUp.Load() && !slices.Contains(found, f.topic) {
			found = append(found, f.topic)
		}
	}
	for _, topic := range found {
		s.mu.Lock()
		old := s.followers[topic]
		s.mu.Unlock()
		if old != nil && !old.givenUp.Load() {
			continue
		}
		if old == nil && len(s.eachFollower()) >= maxTopics {
			return fmt.Errorf("topic %s is one more than a connection carries: run several processes", topic)
		}
		if why := s.checkTopic(r.ctx, topic); why != nil && !Unanswered(why) {
			s.log.Info("topic left out", "topic", topic, "err", why)
			continue
		}
		at, errStart := position{}, error(nil)
		if old != nil {
			at = old.position()
			at.time, at.cause = old.emitter.last, "it was given up here"
		} else if at, errStart = s.start(topic); errStart != nil {
			r.stop(errStart)
			return errStart
		}
		s.stats.topic(topic, func(c *TopicCount) { c.GivenUp = "" })
		r.follow(s.newFollower(topic), at)
	}
	return err
}

// watchIdle ends the run when nothing has come for a while although every
// stream was open.
func (r *run) watchIdle() {
	s := r.s
	s.moved()
	for {
		quiet := s.cfg.Now().Sub(time.Unix(0, s.lastMove.Load()))
		if quiet >= s.cfg.IdleExit {
			r.stop(errDone)
			return
		}
		if !sleep(r.ctx, min(s.cfg.IdleExit-quiet, max(s.cfg.IdleExit/4, time.Millisecond))) {
			return
		}
		for _, f := range s.eachFollower() {
			if f.active.Load() && !f.up.Load() || f.inbox.busy() {
				s.moved()
			}
		}
	}
}

// moved notes that something happened that a quiet run would not see.
func (s *Source) moved() { s.lastMove.Store(s.cfg.Now().UnixNano()) }

// take tells whether one more event may be written.
func (s *Source) take() bool { return s.cfg.MaxEvents <= 0 || s.begun.Add(1) <= s.cfg.MaxEvents }

// full notes that an event that might be written has been, and tells whether
// it was the last.
func (s *Source) full() bool { return s.cfg.MaxEvents > 0 && s.ended.Add(1) == s.cfg.MaxEvents }

// topicError is why one topic cannot be read, while others can.
type topicError struct {
	topic string
	err   error
}

func (e *topicError) Error() string { return fmt.Sprintf("topic %s: %v", e.topic, e.err) }
func (e *topicError) Unwrap() error { return e.err }
