package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"sf2loki/pkg/backoff"
	"sf2loki/pkg/checkpoint"
)

// Term is one time of leading. It renews the lease until End.
type Term struct {
	e         *Elector
	rec       Record
	gen       checkpoint.Generation
	confirmed time.Time // before the last write that is known to have come through

	doubt, over chan struct{}
	stop        context.CancelFunc
	stopped     chan struct{}
	lost        bool
}

func newTerm(e *Elector, epoch uint64) *Term {
	return &Term{
		e:     e,
		rec:   Record{Holder: e.cfg.ID, Epoch: epoch, TTL: e.cfg.TTL, Term: rand.Text()},
		doubt: make(chan struct{}), over: make(chan struct{}), stopped: make(chan struct{}),
	}
}

// Epoch is the term's, which documents know as the least that may write.
func (t *Term) Epoch() uint64 { return t.rec.Epoch }

// Doubt is closed when what runs under the lease has to end: the lease was
// lost, or not renewed for two thirds of the ttl.
func (t *Term) Doubt() <-chan struct{} { return t.doubt }

// Over is closed when it has to be gone: at nine tenths of the ttl after the
// last renewal.
func (t *Term) Over() <-chan struct{} { return t.over }

// write makes the term's record the lease, if that still is ifGen. ErrLost: it
// is another's. After any other error it is either.
func (t *Term) write(ctx context.Context, ifGen checkpoint.Generation) error {
	start := time.Now()
	t.rec.Renewed = start
	t.rec.Count++
	gen, err := t.e.cfg.Backend.Write(ctx, t.rec, ifGen)
	if err != nil {
		// Ours may have come through, this write or one before, and only its
		// reply not.
		now, there, rerr := t.e.cfg.Backend.Read(ctx)
		switch {
		case rerr == nil && now.Term == t.rec.Term && now.Count == t.rec.Count:
			gen, err = there, nil
		case rerr == nil && now.Term == t.rec.Term:
			t.gen = there
			return notYet(err)
		case !errors.Is(err, checkpoint.ErrConflict):
			return err
		case rerr == nil || errors.Is(rerr, checkpoint.ErrNotFound) || errors.Is(rerr, ErrCorrupt):
			return ErrLost
		default:
			return rerr
		}
	}
	t.gen, t.confirmed = gen, start
	return err
}

// notYet keeps a conflict with ourselves from being one with another.
func notYet(err error) error {
	if errors.Is(err, checkpoint.ErrConflict) {
		return fmt.Errorf("a write of ours came late: %w", checkpoint.ErrConflict)
	}
	return err
}

// still is nil while nobody else can have the lease.
func (t *Term) still() error {
	if time.Since(t.confirmed) >= doubtAfter(t.e.cfg.TTL) {
		return fmt.Errorf("raising the epoch took too long: %w", ErrLost)
	}
	return nil
}

// raise makes the term's epoch the least of every document, and confirms the
// lease after that.
func (t *Term) raise(ctx context.Context) error {
	retry := checkpoint.Retry{Min: 50 * time.Millisecond, Max: time.Second, For: doubtAfter(t.e.cfg.TTL)}
	by := checkpoint.Leader{Lease: t.e.cfg.Backend.String(), Holder: t.rec.Holder, Term: t.rec.Term}
	for attempt := 1; ; attempt++ {
		err := t.raiseAll(ctx, by, retry)
		if err == nil {
			break
		}
		if !errors.Is(err, checkpoint.ErrFenced) || attempt == 3 {
			return err
		}
		// Somebody was there between our look and our write.
		epoch, err := t.e.nextEpoch(ctx)
		if err != nil {
			return err
		}
		t.rec.Epoch = epoch
	}
	if err := t.write(ctx, t.gen); err != nil {
		return err
	}
	return t.still()
}

func (t *Term) raiseAll(ctx context.Context, by checkpoint.Leader, retry checkpoint.Retry) error {
	for _, store := range t.e.cfg.Fences {
		if err := checkpoint.RaiseFence(ctx, store, t.rec.Epoch, by, t.still, retry); err != nil {
			return err
		}
	}
	return nil
}

// begin renews from now on.
func (t *Term) begin(ctx context.Context) {
	ctx, t.stop = context.WithCancel(ctx)
	go t.keep(ctx)
}

// keep renews until ctx is done. Its timers do not wait for a renewal that
// hangs.
func (t *Term) keep(ctx context.Context) {
	defer close(t.stopped)
	ttl := t.e.cfg.TTL
	renew := time.NewTimer(time.Until(t.confirmed.Add(t.e.cfg.Renew)))
	doubt := time.NewTimer(time.Until(t.confirmed.Add(doubtAfter(ttl))))
	over := time.NewTimer(time.Until(t.confirmed.Add(overAfter(ttl))))
	defer renew.Stop()
	defer doubt.Stop()
	defer over.Stop()
	retry := backoff.New(t.e.poll()/4, t.e.poll())
	renewed := make(chan error, 1)
	busy, doubted := false, false
	for {
		select {
		case <-ctx.Done():
			if busy {
				<-renewed // it has the same context
			}
			return
		case <-renew.C:
			busy = true
			go func() {
				ctx, cancel := context.WithTimeout(ctx, t.e.patience())
				defer cancel()
				renewed <- t.write(ctx, t.gen)
			}()
		case err := <-renewed:
			busy = false
			switch {
			case errors.Is(err, ErrLost):
				t.lost = true
				t.e.cfg.Log.Error("the lease is another's", "lease", t.e.cfg.Backend.String())
				doubt.Reset(0)
			case err != nil:
				t.e.cfg.Log.Warn("renewal failed", "err", err.Error())
				renew.Reset(retry.Next())
			default:
				retry.Reset()
				renew.Reset(t.e.cfg.Renew)
				if !doubted { // what has begun to end is not called back
					doubt.Reset(time.Until(t.confirmed.Add(doubtAfter(ttl))))
					over.Reset(time.Until(t.confirmed.Add(overAfter(ttl))))
				}
			}
		case <-doubt.C:
			if !doubted {
				doubted = true
				close(t.doubt)
			}
		case <-over.C:
			if !doubted { // after a long sleep both are due
				doubted = true
				close(t.doubt)
			}
			close(t.over)
		}
	}
}

// End stops renewing and gives the lease back. ErrLost: it was not ours any
// more.
func (t *Term) End(ctx context.Context) error {
	t.stop()
	<-t.stopped
	if t.lost {
		return ErrLost
	}
	return t.release(ctx)
}

// release says that nobody holds the lease. It keeps its epoch.
func (t *Term) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.e.patience())
	defer cancel()
	t.rec.Holder = ""
	retry := backoff.New(50*time.Millisecond, time.Second)
	for {
		err := t.write(ctx, t.gen)
		if err == nil || errors.Is(err, ErrLost) {
			return err
		}
		if !passes(err) || backoff.Sleep(ctx, retry.Next()) != nil {
			return err
		}
	}
}
