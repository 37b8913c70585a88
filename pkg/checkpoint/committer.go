package checkpoint

import (
	"context"
	"fmt"
	"sync"
	"time"

	"sf2loki/pkg/sysexits"
)

// Position is a key's new position, and the time of the last record behind it.
type Position struct {
	Key, Value string
	Time       time.Time // zero: the record had none
}

// Committer moves positions in a store that it shares with other writers. A
// key moves only while its stored value is the one that this committer last
// saw or wrote; what others do to other keys is merged. Stage may be called
// while Write runs; Write may not be called twice at once.
type Committer struct {
	store Store
	epoch uint64 // 0: no lease
	retry Retry

	// Of Write alone: the document as it last was, and what each key held at
	// the start or was given by us since.
	doc  Document
	gen  Generation
	seen map[string]string

	mu     sync.Mutex
	staged map[string]Position
	order  []string
	size   int // of keys and values that are staged
}

// NewCommitter opens the store: it proves that it can be written, as far as
// that can be known, and reads the document. epoch is that of the lease under
// which we run, 0 for none.
func NewCommitter(ctx context.Context, store Store, epoch uint64, retry Retry) (*Committer, error) {
	c := &Committer{
		store: store, epoch: epoch, retry: retry,
		seen: make(map[string]string), staged: make(map[string]Position),
	}
	if p, ok := store.(Preparer); ok {
		if err := c.retry.do(ctx, func() error { return p.Prepare(ctx) }); err != nil {
			return nil, fmt.Errorf("open %s: %w", store, err)
		}
	}
	if err := c.retry.do(ctx, func() error { return c.reload(ctx) }); err != nil {
		return nil, err
	}
	for key, value := range c.doc.Positions() {
		c.seen[key] = value
	}
	return c, nil
}

// Document is the document as it was last read or written.
func (c *Committer) Document() Document { return c.doc.Clone() }

// Stage notes a position for the next Write and reports whether it replaces
// one that was waiting.
func (c *Committer) Stage(p Position) (superseded bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, superseded := c.staged[p.Key]
	if !superseded {
		c.order = append(c.order, p.Key)
		c.size += len(p.Key)
	}
	c.size += len(p.Value) - len(old.Value)
	c.staged[p.Key] = p
	return superseded
}

// overfull tells when more waits than any document holds.
func (c *Committer) overfull() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fits(c.size, len(c.order))
}

// take hands over everything that is staged.
func (c *Committer) take() []Position {
	c.mu.Lock()
	defer c.mu.Unlock()
	batch := make([]Position, 0, len(c.order))
	for _, key := range c.order {
		batch = append(batch, c.staged[key])
	}
	clear(c.staged)
	c.order, c.size = nil, 0
	return batch
}

// Result is what one Write did.
type Result struct {
	Written []Position // stored now, by us or already
	Refused []Position // not stored, for the error that Write returned
}

// Write stores everything that is staged. A key that somebody else has moved
// is refused, the others are written all the same. before runs ahead of the
// store, and nothing is written when it fails.
func (c *Committer) Write(ctx context.Context, before func() error) (Result, error) {
	batch := c.take()
	if err := before(); err != nil {
		return Result{Refused: batch}, err
	}
	if len(batch) == 0 {
		return Result{}, nil
	}
	var result Result
	stale := false
	err := c.retry.do(ctx, func() error {
		if stale {
			if err := c.reload(ctx); err != nil {
				return err
			}
		}
		stale = true // until a write has proved what is stored
		next, changed := c.merge(batch, &result)
		if !changed {
			return nil
		}
		gen, err := put(ctx, c.store, &next, c.gen)
		if err != nil {
			return err
		}
		c.doc, c.gen = next, gen
		return nil
	})
	if err != nil {
		return Result{Refused: batch}, err
	}
	for _, p := range result.Written {
		c.seen[p.Key] = p.Value
	}
	return result, c.conflict(result.Refused)
}

// merge puts batch into a copy of the document as it last was, and sorts the
// positions into those that may be written and those that may not.
func (c *Committer) merge(batch []Position, result *Result) (next Document, changed bool) {
	*result = Result{}
	next = c.doc.Clone()
	for _, p := range batch {
		stored, there := next.Get(p.Key)
		if there && stored == p.Value {
			result.Written = append(result.Written, p)
			continue
		}
		seen, known := c.seen[p.Key]
		if there != known || stored != seen {
			result.Refused = append(result.Refused, p)
			continue
		}
		result.Written = append(result.Written, p)
		next.Set(p.Key, p.Value)
		if p.Time.IsZero() {
			next.ClearRecordTime(p.Key)
		} else {
			next.SetRecordTime(p.Key, p.Time)
		}
		changed = true
	}
	if changed && c.epoch > 0 {
		next.SetFenceEpoch(c.epoch)
	}
	return next, changed
}

func (c *Committer) conflict(refused []Position) error {
	if len(refused) == 0 {
		return nil
	}
	p := refused[0]
	more := ""
	if len(refused) > 1 {
		more = fmt.Sprintf(" (and %d more keys)", len(refused)-1)
	}
	return sysexits.Errorf(sysexits.Protocol, "%s: another writer moved %s to %s, not from %s on as we did%s; start again from there",
		c.store, p.Key, stand(c.doc.Get(p.Key)), stand(known(c.seen, p.Key)), more)
}

func known(m map[string]string, key string) (string, bool) {
	value, ok := m[key]
	return value, ok
}

// stand words a value that may be absent, and cuts a long one.
func stand(value string, ok bool) string {
	if !ok {
		return "nothing"
	}
	return fmt.Sprintf("%.120q", value)
}

// reload reads the document as it is now, and refuses one that we may not
// write.
func (c *Committer) reload(ctx context.Context) error {
	doc, gen, err := loadToWrite(ctx, c.store, c.epoch)
	if err != nil {
		return err
	}
	c.doc, c.gen = doc, gen
	return nil
}
