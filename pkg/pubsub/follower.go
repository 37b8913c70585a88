package pubsub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"sf2loki/pkg/backoff"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sysexits"
)

// follower keeps the stream of one topic open.
type follower struct {
	s       *Source
	topic   string
	managed *committing // nil: an ordinary topic
	inbox   *inbox
	emitter *emitter
	from    position // where it began

	active  atomic.Bool // its goroutines run
	givenUp atomic.Bool
	up      atomic.Bool // its stream is open

	mu  sync.Mutex
	pos position // where a new stream would begin
}

func (s *Source) newFollower(topic string) *follower {
	f := &follower{s: s, topic: topic, inbox: newInbox(s.cfg.Window, s.cfg.Timing.Nudge, s.memory, s.cfg.Now)}
	f.emitter = newEmitter(s, topic, f.inbox)
	s.stats.topic(topic, func(*TopicCount) {})
	return f
}

// both runs the stream and the emitter until ctx is done or one of them fails.
func (f *follower) both(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	emitted := make(chan error, 1)
	go func() {
		err := f.emitter.run(ctx)
		stop(err)
		emitted <- err
	}()
	err := f.run(ctx)
	f.inbox.close()
	if failed := <-emitted; failed != nil {
		return failed
	}
	return err
}

func (f *follower) position() position {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pos
}

func (f *follower) setPosition(p position) {
	f.mu.Lock()
	f.pos = p
	f.mu.Unlock()
	f.count(func(c *TopicCount) { c.Position = p.String() })
}

func (f *follower) count(fn func(*TopicCount)) { f.s.stats.topic(f.topic, fn) }

// maxLogins is how many sessions in a row may be refused before the
// credentials are to blame.
const maxLogins = 5

// ending is how a stream came to its end.
type ending struct {
	failure
	token  salesforce.Token
	lively bool // something had come
	dry    bool // it had no credit
	silent bool // the watchdog ended it
}

// series counts failures in a row.
type series struct {
	quick, slow *backoff.Backoff
	failures    int
	logins      int
}

// run opens the topic's stream, and again when it ends, until ctx is done or
// there is no sense in it.
func (f *follower) run(ctx context.Context) error {
	t := &f.s.cfg.Timing
	row := &series{quick: backoff.New(t.Min, t.Max), slow: backoff.New(t.SlowMin, t.SlowMax)}
	f.setPosition(f.from)
	for opened := 0; f.inbox.waitRoom(ctx); opened++ {
		end := f.session(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if end.lively {
			row.quick.Reset()
			row.slow.Reset()
			row.failures, row.logins = 0, 0
		}
		if end.dry && end.do == again {
			continue // it had to end; the pipe is to blame
		}
		row.failures++
		f.count(func(c *TopicCount) { c.Reconnects, c.Failing = c.Reconnects+1, end.err.Error() })
		f.s.stats.Failing("topic "+f.topic, end.err)
		pause, err := f.decide(end, row)
		if err != nil {
			return err
		}
		f.tell(end, row, pause)
		sleep(ctx, pause)
	}
	return nil
}

// decide gives the pause before the next stream, or the error that ends it all.
func (f *follower) decide(end ending, row *series) (time.Duration, error) {
	do := end.do
	switch {
	case do == doubt && row.failures > patience:
		do = lost
	case do == bug && row.failures > patience:
		do = abort
	}
	switch do {
	case later:
		return f.s.cfg.Timing.SlowMin/2 + row.slow.Next(), nil
	case login:
		f.s.cfg.API.Drop(end.token)
		row.logins++
		switch {
		case row.logins > maxLogins:
			return 0, end.fatal()
		case row.logins == 1:
			return 0, nil
		}
	case lost:
		if f.managed == nil {
			return 0, f.lose(end)
		}
	case leave:
		return 0, &topicError{f.topic, end.fatal()}
	case abort:
		return 0, end.fatal()
	}
	return row.quick.Next(), nil
}

// tell has the log say what happened, the louder the longer it goes on.
func (f *follower) tell(end ending, row *series, pause time.Duration) {
	attrs := []any{"topic", f.topic, "err", end.err, "pause", pause.Round(time.Millisecond)}
	if end.hint != "" {
		attrs = append(attrs, "hint", end.hint)
	}
	switch {
	case end.do == later || row.failures == patience:
		f.s.log.Warn("stream interrupted", attrs...)
	case row.failures > patience:
		f.s.log.Debug("stream interrupted", attrs...)
	default:
		f.s.log.Info("stream interrupted", attrs...)
	}
}

// gap is what a source_gap says about a span of a topic.
type gap struct {
	Kind      string `json:"kind"`
	Topic     string `json:"topic"`
	After     string `json:"after"` // the replay id that was refused, base64
	AfterTime string `json:"after_time,omitempty"`
	Resumed   Policy `json:"resumed"` // from what came next: earliest or latest
	why       string
}

// lose gives up a refused position, as the policy says.
func (f *follower) lose(end ending) error {
	at := f.position()
	if len(at.id) == 0 {
		return sysexits.Errorf(sysexits.Software, "topic %s: %w, although the stream began at no position", f.topic, end.err)
	}
	if f.s.cfg.Lost == LostFail {
		return sysexits.WithHint(sysexits.Errorf(sysexits.Config, "topic %s: Salesforce refuses the position %s: %w", f.topic, at, end.err),
			"events are kept for 72 hours; ckpt set STORE KEY earliest reads all that is left")
	}
	g := &gap{Kind: "pubsub_span", Topic: f.topic, After: at.String(), Resumed: f.s.cfg.Lost, why: end.err.Error()}
	f.s.log.Error("Salesforce refuses the position: events may be missing", "topic", f.topic, "after", g.After, "from", f.s.cfg.Lost, "err", end.err)
	f.count(func(c *TopicCount) { c.Lost++ })
	f.inbox.lose(g)
	f.setPosition(position{preset: Preset(f.s.cfg.Lost)})
	return nil
}

var errSilent = errors.New("nothing has come from the stream, not even a sign of life")

// session opens a stream and receives until it ends.
func (f *follower) session(ctx context.Context) (end ending) {
	t, err := f.s.cfg.API.Token(ctx)
	if err != nil {
		return ending{failure: judgeToken(err)}
	}
	end.token = t
	n := f.inbox.open()
	if n == 0 {
		return ending{dry: true, failure: failure{err: errors.New("no room")}}
	}
	inner, cancel := context.WithCancelCause(f.s.headers(ctx, t))
	at := f.position()
	st, err := f.open(inner, at, n)
	if err != nil {
		cancel(nil)
		end.failure = f.s.judge(err, nil, false)
		return end
	}
	watchdog := time.AfterFunc(f.s.cfg.Timing.Watchdog, func() { cancel(errSilent) })
	var sender sync.WaitGroup
	sender.Go(func() { f.send(inner, st, watchdog) })
	f.setUp(true)
	end.lively, err = f.receive(inner, st, watchdog)
	f.setUp(false)
	end.dry = f.inbox.ended()
	if errors.Is(context.Cause(inner), errSilent) {
		end.silent, end.dry = true, false
		end.failure = failure{err: fmt.Errorf("%w for %v", errSilent, f.s.cfg.Timing.Watchdog)}
		f.count(func(c *TopicCount) { c.Stalls++ })
	} else {
		end.failure = f.s.judge(err, st.trailer(), len(at.id) > 0)
	}
	watchdog.Stop()
	cancel(nil) // the old stream is gone before a new one comes
	sender.Wait()
	return end
}

func (f *follower) open(ctx context.Context, at position, n int) (stream, error) {
	if f.managed != nil {
		return openManaged(ctx, f.s.bus, f.managed.name, n)
	}
	return openPlain(ctx, f.s.bus, f.topic, at, n)
}

func (f *follower) setUp(up bool) {
	f.up.Store(up)
	f.count(func(c *TopicCount) { c.Up = up })
}

// receive takes in what the stream brings until it ends.
func (f *follower) receive(ctx context.Context, st stream, watchdog *time.Timer) (lively bool, err error) {
	for {
		if f.inbox.creditNow() == 0 {
			watchdog.Stop() // without credit there is nothing to wait for
		}
		r, err := st.recv()
		if err != nil {
			return lively, err
		}
		if !lively {
			lively = true
			f.count(func(c *TopicCount) { c.Failing = "" })
			f.s.stats.Failing("topic "+f.topic, nil)
		}
		watchdog.Stop()
		f.arrived(r)
		f.s.memory.wait(ctx, f.inbox)
		if ctx.Err() == nil {
			watchdog.Reset(f.s.cfg.Timing.Watchdog)
		}
	}
}

func (f *follower) arrived(r *response) {
	if f.managed != nil {
		f.managed.answered(r)
	}
	f.inbox.put(r)
	id := r.latest
	if n := len(r.events); n > 0 {
		id = r.events[n-1].ReplayId
		f.s.moved()
	}
	if len(id) > 0 && !bytes.Equal(id, f.position().id) {
		f.setPosition(position{id: id})
	}
	f.count(func(c *TopicCount) { c.Credit = f.inbox.creditNow() })
	signal(f.inbox.room)
}

// send asks for more events when there is room for them, and commits.
func (f *follower) send(ctx context.Context, st stream, watchdog *time.Timer) {
	var commits chan []byte
	if f.managed != nil {
		commits = f.managed.begin()
	}
	nudge := time.NewTimer(time.Hour)
	defer nudge.Stop()
	for {
		n, retry := f.inbox.ask()
		if n > 0 {
			if st.ask(n) != nil {
				return // the receiver hears why
			}
			watchdog.Reset(f.s.cfg.Timing.Watchdog)
			f.count(func(c *TopicCount) { c.Credit = f.inbox.creditNow() })
		}
		if retry == 0 {
			retry = time.Hour
		}
		nudge.Reset(retry)
		select {
		case <-f.inbox.room:
		case <-nudge.C:
		case id := <-commits:
			if st.commit(id) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
