package backoff

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestNext(t *testing.T) {
	b := New(time.Second, 5*time.Second)
	for i, ceiling := range []time.Duration{1, 2, 4, 5, 5, 5} {
		if d := b.Next(); d < 0 || d > ceiling*time.Second {
			t.Errorf("wait %d is %v, beyond %v s", i, d, int(ceiling))
		}
	}
	b.Reset()
	if d := b.Next(); d > time.Second {
		t.Errorf("after Reset the wait is %v", d)
	}
}

func TestNextSpreads(t *testing.T) {
	var low, high int
	for range 400 {
		if New(time.Second, time.Second).Next() < time.Second/2 {
			low++
		} else {
			high++
		}
	}
	// Each is 200 give or take 10; 100 is ten standard deviations away.
	if low < 100 || high < 100 {
		t.Errorf("%d waits in the lower half, %d in the upper: no full jitter", low, high)
	}
}

func TestSwappedLimits(t *testing.T) {
	b := New(time.Minute, time.Second)
	for range 10 {
		if d := b.Next(); d > time.Minute {
			t.Errorf("wait %v is above the longer limit", d)
		}
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if err := Sleep(t.Context(), time.Minute); err != nil || time.Since(start) != time.Minute {
			t.Errorf("slept %v: %v", time.Since(start), err)
		}
		cause := errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		start = time.Now()
		if err := Sleep(ctx, time.Minute); err != cause || time.Since(start) != time.Second {
			t.Errorf("woke after %v: %v", time.Since(start), err)
		}
		if err := Sleep(ctx, 0); err != cause {
			t.Errorf("Sleep of a context that is done = %v", err)
		}
	})
}
