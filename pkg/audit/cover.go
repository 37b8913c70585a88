package audit

import (
	"strings"
	"time"
)

// reach is the span of time that a pass over rows or logs tells of.
type reach struct{ from, to time.Time }

// reachOf takes the span out of an origin, "LoginHistory FROM/TO". Files have none.
func reachOf(origin string) (r reach, ok bool) {
	_, text, ok := strings.Cut(origin, " ")
	from, to, slash := strings.Cut(text, "/")
	if !ok || !slash {
		return r, false
	}
	var err, toErr error
	r.from, err = time.Parse(time.RFC3339, from)
	r.to, toErr = time.Parse(time.RFC3339, to)
	return r, err == nil && toErr == nil
}

// window is the one that pulls all of it again: its end is not within.
func (r reach) window() (since, until time.Time) { return r.from, r.to.Add(time.Millisecond) }

// runKey is one run's way along one key.
type runKey struct{ run, key string }

// cover is how far a run came with a key. It began where its window does and
// passed over all rows in their order.
type cover struct {
	reach
	source, eventType string
	lossy             bool
}

// covers finds what runs have passed over, of sources that have no files.
func (a *auditor) covers() map[runKey]*cover {
	covers := map[runKey]*cover{}
	for _, passes := range a.in.passes {
		for i := range passes {
			p := &passes[i]
			r, ok := reachOf(p.Origin)
			if !ok {
				continue
			}
			c := covers[runKey{p.run, p.key}]
			if c == nil {
				c = &cover{reach: r, source: p.source, eventType: p.EventType}
				covers[runKey{p.run, p.key}] = c
			}
			if r.from.Before(c.from) {
				c.from = r.from
			}
			if r.to.After(c.to) {
				c.to = r.to
			}
			c.lossy = c.lossy || p.lossy()
		}
	}
	for i := range a.in.lost {
		if c := covers[runKey{a.in.lost[i].run, a.in.lost[i].key}]; c != nil {
			c.lossy = true
		}
	}
	return covers
}

// mended tells whether a run without a loss has passed over all of a span.
func (a *auditor) mended(source, eventType string, r reach) bool {
	for _, c := range a.passed {
		if !c.lossy && c.source == source && c.eventType == eventType && !c.from.After(r.from) && !c.to.Before(r.to) {
			return true
		}
	}
	return false
}
