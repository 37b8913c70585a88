package audit

import "time"

// window is a span of time; one without an end, or a beginning, has all of it.
type window struct{ since, until time.Time }

func (w window) has(t time.Time) bool {
	return !t.Before(w.since) && (w.until.IsZero() || t.Before(w.until))
}

// concerns tells whether a pass is of the window, or has rows of it: the rows of
// one account may be of several days.
func (w window) concerns(p *pass) bool {
	r, ok := reachOf(p.Origin)
	return w.has(p.when()) ||
		ok && !r.to.Before(w.since) && (w.until.IsZero() || r.from.Before(w.until)) && !r.to.Before(r.from)
}
