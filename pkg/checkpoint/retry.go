package checkpoint

import (
	"context"
	"errors"
	"time"

	"sf2loki/pkg/backoff"
	"sf2loki/pkg/sysexits"
)

// Retry bounds the attempts at one read or write of the store.
type Retry struct {
	Min, Max time.Duration // the longest possible wait begins at Min and doubles up to Max
	For      time.Duration // no attempt begins later than this after the first
}

// DefaultRetry rides out a restart of the store, and gives up before anybody
// who waits for the pipeline does.
var DefaultRetry = Retry{Min: 100 * time.Millisecond, Max: 5 * time.Second, For: 30 * time.Second}

// readRetry is for somebody who waits for an answer.
var readRetry = Retry{Min: 100 * time.Millisecond, Max: 2 * time.Second, For: 10 * time.Second}

// do calls try until it succeeds, fails for good, or time is up. A conflict is
// worth another try at once: somebody else has got through.
func (r Retry) do(ctx context.Context, try func() error) error {
	deadline := time.Now().Add(r.For)
	failed := backoff.New(r.Min, r.Max)
	contended := backoff.New(time.Millisecond, 250*time.Millisecond)
	for {
		err := try()
		var wait time.Duration
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrConflict):
			wait = contended.Next()
		case Retryable(err):
			wait = failed.Next()
		default:
			return err
		}
		if time.Now().Add(wait).After(deadline) {
			return giveUp(err)
		}
		if backoff.Sleep(ctx, wait) != nil {
			return giveUp(err)
		}
	}
}

// giveUp gives the last error of many attempts its status: contention without
// end is a temporary failure.
func giveUp(err error) error {
	if errors.Is(err, ErrConflict) {
		return sysexits.Wrap(sysexits.TempFail, err)
	}
	return err
}
