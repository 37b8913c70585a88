package audit

import (
	"strings"
	"time"

	"sf2loki/pkg/checkpoint"
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
	org, source, eventType string

	lossy   bool
	refused bool
}

// cover notes what a run has passed over, of sources that have no files.
func (in *Inputs) cover(p *pass) {
	r, ok := reachOf(p.Origin)
	if !ok {
		return
	}
	c := in.covers[runKey{p.run, p.key}]
	if c == nil {
		c = &cover{reach: r, org: p.org(), source: p.source, eventType: p.EventType}
		in.covers[runKey{p.run, p.key}] = c
	}
	if r.from.Before(c.from) {
		c.from = r.from
	}
	if r.to.After(c.to) {
		c.to = r.to
	}
	refused, _ := p.fates()
	c.lossy, c.refused = c.lossy || p.lossy(), c.refused || refused > 0
}

// coverLosses tells the runs that were cut off with a loss.
func (in *Inputs) coverLosses() {
	for i := range in.lost {
		if c := in.covers[runKey{in.lost[i].run, in.lost[i].key}]; c != nil {
			c.lossy = true
		}
	}
}

// mended tells whether a run of the same org has passed over all of a span
// without a loss; clean, whether nothing was refused either. Of a topic that
// cannot be told: its events come in no order of their times.
func (a *auditor) mended(p *pass, r reach) (mended, clean bool) {
	if p.source == checkpoint.SourcePubsub {
		return false, false
	}
	for _, c := range a.in.covers {
		if !c.lossy && c.org == p.org() && c.source == p.source && c.eventType == p.EventType && !c.from.After(r.from) && !c.to.Before(r.to) {
			mended, clean = true, clean || !c.refused
		}
	}
	return mended, clean
}

// org is whose rows they are: rows of another one are other rows.
func (p *pass) org() string { return checkpoint.ParseKey(p.key).Org }
