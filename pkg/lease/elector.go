package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"sf2loki/pkg/backoff"
	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/sysexits"
)

// Config is what an Elector needs.
type Config struct {
	Backend Backend
	Fences  []checkpoint.Store // whose epochs are raised; they belong to this lease
	ID      string             // names this contender
	TTL     time.Duration      // how long the lease lasts without renewal
	Renew   time.Duration      // how often it is renewed
	Log     *slog.Logger

	// Check is asked about a document whose fence was raised under another
	// lease, before it is raised under this one. Nil: there is no objection.
	Check func(ctx context.Context, document string, by checkpoint.Leader) error
}

// ErrLost says that the lease was ours, and is another's or nobody's.
var ErrLost = sysexits.Wrap(sysexits.Protocol, errors.New("the lease was lost"))

// HeldError is that of a wait that ran out.
type HeldError struct {
	Lease, Holder string
	Err           error // what stood in the way last, when it was not a holder
}

func (e *HeldError) Error() string {
	switch {
	case e.Err != nil:
		return "waited in vain: " + e.Err.Error()
	case e.Holder == "":
		return fmt.Sprintf("the lease %s has no holder, but may have had one just now", e.Lease)
	}
	return fmt.Sprintf("the lease %s is held by %s", e.Lease, e.Holder)
}

// Unwrap lets a store that cannot be reached have its own status.
func (e *HeldError) Unwrap() error {
	if checkpoint.Retryable(e.Err) {
		return e.Err
	}
	return nil
}

// Elector contends for one lease.
type Elector struct {
	cfg Config

	// What was seen last, and since when it is so, on our own clock.
	seen   bool
	rec    Record
	gen    checkpoint.Generation
	broken bool // corrupt, or gone after it was there
	since  time.Time
	told   string // what was logged last about why we wait
}

// New returns an Elector that has seen nothing yet.
func New(cfg Config) *Elector { return &Elector{cfg: cfg} }

// Shares of the ttl, without a renewal, after which CMD is asked to end and is
// ended, so that it is gone before anybody else can lead.
func doubtAfter(ttl time.Duration) time.Duration { return ttl * 2 / 3 }
func overAfter(ttl time.Duration) time.Duration  { return ttl * 9 / 10 }

// Acquire waits until this contender leads. It gives up after wait, unless
// that is negative: a wait of 0 is one attempt. Only errors that will not pass
// end it earlier.
func (e *Elector) Acquire(ctx context.Context, wait time.Duration) (*Term, error) {
	deadline := time.Now().Add(wait)
	failed := backoff.New(e.poll()/4, e.poll())
	for {
		term, pause, err := e.try(ctx)
		switch {
		case term != nil:
			return term, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil && !passes(err):
			return nil, err
		case err != nil:
			pause = failed.Next()
		default:
			failed.Reset()
		}
		e.tell(err)
		if wait >= 0 && time.Now().Add(pause).After(deadline) {
			return nil, sysexits.Wrap(sysexits.TempFail, &HeldError{Lease: e.cfg.Backend.String(), Holder: e.rec.Holder, Err: err})
		}
		if err := backoff.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// passes reports whether the next attempt may do better.
func passes(err error) bool {
	return checkpoint.Retryable(err) || errors.Is(err, ErrLost) || errors.Is(err, checkpoint.ErrConflict) || errors.Is(err, checkpoint.ErrFenced)
}

// tell logs why we wait, whenever that changes.
func (e *Elector) tell(err error) {
	text := "held by " + e.rec.Holder
	if err != nil {
		text = err.Error()
	}
	if text == e.told {
		return
	}
	e.told = text
	if err != nil {
		e.cfg.Log.Warn("standby", "lease", e.cfg.Backend.String(), "reason", text)
		return
	}
	e.cfg.Log.Info("standby", "lease", e.cfg.Backend.String(), "holder", e.rec.Holder)
}

// poll is how often a standby looks: often enough to lead soon after the end
// of the ttl.
func (e *Elector) poll() time.Duration { return min(e.cfg.Renew, time.Second) }

// try looks once, and leads when it may. pause is how long until it makes
// sense to look again.
func (e *Elector) try(ctx context.Context) (term *Term, pause time.Duration, err error) {
	if err := e.look(ctx); err != nil {
		return nil, 0, err
	}
	if left := e.left(time.Now()); left > 0 {
		return nil, min(left, e.poll()), nil
	}
	term, err = e.claim(ctx)
	return term, 0, err
}

// look reads the lease, and notes since when it is as it is.
func (e *Elector) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.patience())
	defer cancel()
	rec, gen, err := e.cfg.Backend.Read(ctx)
	corrupt, gone := errors.Is(err, ErrCorrupt), errors.Is(err, checkpoint.ErrNotFound)
	if err != nil && !corrupt && !gone {
		return err
	}
	if e.seen && gen == e.gen {
		return nil
	}
	if rec.Epoch < e.rec.Epoch {
		rec.Epoch = e.rec.Epoch // whatever was done to it, an epoch does not go back
	}
	// A lease that has just gone may have a holder who does not know yet.
	e.broken = corrupt || gone && e.seen
	e.seen, e.rec, e.gen, e.since = true, rec, gen, time.Now()
	return nil
}

// left is how long the lease has to stay as it is before it may be claimed.
func (e *Elector) left(now time.Time) time.Duration {
	if e.rec.Holder == "" && !e.broken {
		return 0
	}
	ttl := e.rec.TTL
	if ttl <= 0 {
		ttl = e.cfg.TTL
	}
	return ttl - now.Sub(e.since)
}

func (e *Elector) patience() time.Duration { return min(e.cfg.TTL/3, 15*time.Second) }

// claim takes the lease as it was seen, and then raises the fences: only who
// has done both leads.
func (e *Elector) claim(ctx context.Context) (*Term, error) {
	ctx, cancel := context.WithTimeout(ctx, doubtAfter(e.cfg.TTL))
	defer cancel()
	epoch, err := e.nextEpoch(ctx)
	if err != nil {
		return nil, err
	}
	t := newTerm(e, epoch)
	if err := t.write(ctx, e.gen); err != nil {
		return nil, err
	}
	if err := t.raise(ctx); err != nil {
		if e := t.release(ctx); e != nil {
			err = fmt.Errorf("%w (and the lease stays ours until it ends: %w)", err, e)
		}
		return nil, err
	}
	e.told = ""
	e.rec, e.gen, e.since, e.broken = t.rec, t.gen, t.confirmed, false
	t.begin(context.WithoutCancel(ctx))
	return t, nil
}

// nextEpoch is above the lease's own and above those of all documents.
func (e *Elector) nextEpoch(ctx context.Context) (uint64, error) {
	highest := e.rec.Epoch
	for _, store := range e.cfg.Fences {
		epoch, by, err := checkpoint.Fence(ctx, store)
		if err != nil {
			return 0, err
		}
		// The same term: it is this lease, by another of its names.
		same := by.Lease == "" || by.Lease == e.cfg.Backend.String() || by.Term == e.rec.Term
		if !same && e.cfg.Check != nil {
			if err := e.cfg.Check(ctx, store.String(), by); err != nil {
				return 0, err
			}
		}
		highest = max(highest, epoch)
	}
	if highest == math.MaxUint64 {
		return 0, sysexits.Errorf(sysexits.Config, "the epoch of the lease or of a document is %d, and none is above it; was it edited?", highest)
	}
	return highest + 1, nil
}
