package pubsub

import (
	"bytes"
	"context"
	"regexp"
	"sync"
)

// A managed subscription has its position in the org. It is moved there only
// as far as positions that are stored: what came back from the other end of
// the pipe.

var managedID = regexp.MustCompile(`^18x[A-Za-z0-9]{12}([A-Za-z0-9]{3})?$`)

// isManagedID tells a subscription's id from its developer name.
func isManagedID(name string) bool { return managedID.MatchString(name) }

// managedTopic stands for the topic, which only the org knows.
func managedTopic(name string) string { return "managed:" + name }

// committing moves the position of a managed subscription.
type committing struct {
	s    *Source
	f    *follower
	name string
	key  string

	mu     sync.Mutex
	stored []byte // the position that is stored
	out    chan []byte
}

func (s *Source) newManaged() *follower {
	f := s.newFollower(managedTopic(s.cfg.Managed))
	f.emitter.severally = true
	f.emitter.seen = newRing(manyEvents) // after an interruption all that is not committed comes again
	f.managed = &committing{s: s, f: f, name: s.cfg.Managed, key: s.key(f.topic)}
	return f
}

// manyEvents is about what a pipe holds.
const manyEvents = 1 << 14

// begin is called when a stream has been opened; what it returns are positions
// to commit on it.
func (c *committing) begin() chan []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = make(chan []byte, 1)
	if c.stored != nil {
		c.out <- c.stored
	}
	return c.out
}

// answered looks at a response: a sign of life has the last position committed
// once more, as a subscription without commits is closed after half an hour.
func (c *committing) answered(r *response) {
	if r.commit != nil {
		if err := r.commit.GetError(); err != nil {
			c.f.count(func(t *TopicCount) { t.CommitErrors++ })
			c.s.log.Error("Salesforce does not take a position", "topic", c.f.topic, "err", err.Msg)
		}
		return
	}
	if len(r.events) == 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.queue(c.stored)
	}
}

// queue has id committed, in the place of one that was not yet. The caller
// holds mu.
func (c *committing) queue(id []byte) {
	if id == nil || c.out == nil {
		return
	}
	select {
	case <-c.out:
	default:
	}
	c.out <- id
}

// watch reads the stored position from time to time, until ctx is done.
func (c *committing) watch(ctx context.Context) {
	failed := false
	for ok := true; ok; ok = sleep(ctx, c.s.cfg.Timing.CommitEvery) {
		err := c.look()
		if err != nil && !failed {
			c.s.log.Warn("the stored position cannot be read: nothing is committed to Salesforce", "key", c.key, "err", err)
		}
		failed = err != nil
	}
}

func (c *committing) look() error {
	value, ok, err := c.s.cfg.Stored(c.key)
	if err != nil || !ok {
		return err
	}
	p, err := parsePosition(value, c.s.cfg.OrgID)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(p.id) > 0 && !bytes.Equal(p.id, c.stored) {
		c.stored = p.id
		c.queue(p.id)
	}
	return nil
}
