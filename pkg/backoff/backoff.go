// Package backoff tells how long to wait before the next attempt: exponential,
// with full jitter, so that many clients of one server do not return together.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is one series of attempts. It is not safe for concurrent use.
type Backoff struct {
	min, max, ceiling time.Duration
}

// New returns a series whose longest possible wait begins at min and doubles
// with each attempt up to max.
func New(min, max time.Duration) *Backoff {
	if max < min {
		max = min
	}
	return &Backoff{min: min, max: max, ceiling: min}
}

// Next returns the wait before the next attempt: anything from nothing to the
// present ceiling, which then doubles.
func (b *Backoff) Next() time.Duration {
	d := time.Duration(rand.Int64N(int64(b.ceiling) + 1))
	if b.ceiling > b.max/2 {
		b.ceiling = b.max
	} else {
		b.ceiling *= 2
	}
	return d
}

// Reset begins the series anew, after an attempt that went well.
func (b *Backoff) Reset() { b.ceiling = b.min }

// Jitter is up to a tenth more or less than d, so that many programs that do
// something every d do not do it at the same moment.
func Jitter(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()-0.5)*0.2*float64(d))
}

// Sleep waits for d, or until ctx is done, whose cause it then returns.
func Sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
