package salesforce

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// clock follows Salesforce's clock by the Date header of its answers.
type clock struct{ ahead atomic.Int64 } // nanoseconds; 0 until known

func (k *clock) skew() time.Duration { return time.Duration(k.ahead.Load()) }

// clockNoise is what a Date header, which has whole seconds and has travelled,
// may be off by without meaning anything.
const clockNoise = 2 * time.Second

func (k *clock) observe(date, now time.Time) {
	ahead := date.Add(500 * time.Millisecond).Sub(now)
	if (ahead - k.skew()).Abs() < clockNoise {
		return
	}
	if ahead.Abs() < clockNoise {
		ahead = 0
	}
	k.ahead.Store(int64(ahead))
}

// Usage is the org's use of its calls of the last 24 hours.
type Usage struct {
	Used, Max int64
	At        time.Time // when it was told; zero: never
}

// Left is how many calls are left, none below zero.
func (u Usage) Left() int64 { return max(u.Max-u.Used, 0) }

type usageWatch struct {
	mu  sync.Mutex
	cur Usage
}

func (w *usageWatch) get() Usage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cur
}

// parseUsage reads api-usage out of a Sforce-Limit-Info header, which may name
// other allowances beside it, in any order.
func parseUsage(header string) (used, limit int64, ok bool) {
	for _, part := range strings.FieldsFunc(header, func(r rune) bool { return r == ';' || r == ',' }) {
		value, found := strings.CutPrefix(strings.TrimSpace(part), "api-usage=")
		if !found {
			continue
		}
		a, b, found := strings.Cut(value, "/")
		if !found {
			return 0, 0, false
		}
		used, err1 := strconv.ParseInt(strings.TrimSpace(a), 10, 64)
		limit, err2 := strconv.ParseInt(strings.TrimSpace(b), 10, 64)
		return used, limit, err1 == nil && err2 == nil && used >= 0 && limit > 0
	}
	return 0, 0, false
}

// observe learns from the headers of an answer, whatever its status.
func (c *Client) observe(header http.Header) {
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		c.clock.observe(date, c.set.Now())
	}
	used, limit, ok := parseUsage(header.Get("Sforce-Limit-Info"))
	if !ok {
		return
	}
	u := Usage{Used: used, Max: limit, At: c.set.Now()}
	c.usage.mu.Lock()
	c.usage.cur = u
	c.usage.mu.Unlock()
	if c.set.Hooks.Usage != nil {
		c.set.Hooks.Usage(u)
	}
}

// reserveProbe is how old the last figure must be before one call is spent to
// learn whether the reserve is free again: nothing else would ever tell.
const reserveProbe = 15 * time.Minute

// checkReserve refuses a request that would dip into the reserve.
func (c *Client) checkReserve(ctx context.Context, t *Token) error {
	if c.belowReserve() == nil {
		return nil
	}
	c.usage.mu.Lock()
	probe := c.set.Now().Sub(c.usage.cur.At) >= reserveProbe
	if probe {
		c.usage.cur.At = c.set.Now() // the others wait for this one's news
	}
	c.usage.mu.Unlock()
	if probe {
		// Only the header matters: a user without the right to see limits gets it too.
		err := c.once(ctx, t, "read limits", "limits/", func(a *answer) error { return a.Close() })
		if KindOf(err) == KindAuth {
			return err
		}
	}
	return c.belowReserve()
}

func (c *Client) belowReserve() error {
	u := c.usage.get()
	if u.At.IsZero() || c.set.Reserve == (Reserve{}) || u.Left() >= c.set.Reserve.least(u.Max) {
		return nil
	}
	return &Error{Op: "keep the api reserve", Kind: KindReserve,
		Message: fmt.Sprintf("%d of %d calls of the day are left, less than %s", u.Left(), u.Max, c.set.Reserve),
		Cure:    "wait, or lower --api-reserve"}
}
