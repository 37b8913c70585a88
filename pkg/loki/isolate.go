package loki

import (
	"slices"

	"sf2loki/pkg/record"
)

// isolate finds the entries that an answer refuses. What the text proves is
// decided at once. What it only points at is set aside, and the rest is pushed
// once: the answer proves it, or says more. What is set aside, and what no text
// explains, is bisected. Each answer decides an entry, sets one aside or makes
// the group smaller, so it comes to an end.
func (e *Engine) isolate(r *request, v *Verdict) {
	b := r.batch
	e.facts = e.facts[:0]
	for _, i := range r.entries {
		e.facts = append(e.facts, b.entries[i].facts())
	}
	e.suspects = v.Suspects(e.suspects[:0], e.facts)
	b.notSpotless()
	if len(r.entries) == 1 || allRefused(v, len(r.entries)) {
		e.refuseAll(r, v)
		return
	}
	pointed, settled := 0, 0
	for k := range e.suspects {
		switch s := e.suspects[k]; {
		case s.Fault >= 0 && s.Sure:
			settled++
		case s.Fault >= 0:
			pointed++
		}
	}
	rest := len(r.entries) - pointed - settled
	for k, i := range r.entries {
		s := e.suspects[k]
		if s.Fault >= 0 && s.Sure {
			e.refuseFor(r, i, v, s.Fault)
		}
	}
	switch {
	case pointed+rest == 0:
		e.popGroup(b)
	case pointed > 0 && rest > 0 && r.group.want == entryPending:
		e.setAside(r)
	case settled > 0:
		// The rest is the group now, and is pushed again as it is.
		r.group.tries = tries{need: patience}
	default:
		e.bisect(r)
	}
}

// refuseAll decides a request of which no entry can be good: a single one, for
// there is nobody else whom the refusal could be about, or as many as the text
// counts.
func (e *Engine) refuseAll(r *request, v *Verdict) {
	for k, i := range r.entries {
		e.refuseFor(r, i, v, max(e.suspects[k].Fault, 0))
	}
	e.popGroup(r.batch)
}

// storesSome tells whether an answer proves that Loki has stored one of n
// entries at least.
func (v *Verdict) storesSome(n int) bool {
	for i := range v.Faults {
		f := &v.Faults[i]
		if f.WholeStream || f.Total > 0 && f.Ignored >= f.Total {
			return false
		}
	}
	return !allRefused(v, n)
}

// allRefused tells whether the text counts as many refused entries as were
// sent. An entry is counted for one fault only.
func allRefused(v *Verdict, n int) bool {
	count := 0
	for i := range v.Faults {
		count += max(v.Faults[i].Count, v.Faults[i].Ignored)
	}
	return count >= n
}

func (e *Engine) refuseFor(r *request, i int32, v *Verdict, n int) {
	reason, late := record.BadRequest, false
	if n < len(v.Faults) {
		reason, late = v.Faults[n].Reason, v.Faults[n].Late()
		if v.Faults[n].Stops {
			r.batch.stops = true
		}
	}
	e.refuse(r, i, reason, v, late)
}

// setAside takes what the text points at out of the group, to be tried by
// itself once the rest is settled.
func (e *Engine) setAside(r *request) {
	b, g := r.batch, *r.group
	for k, i := range r.entries {
		if s := e.suspects[k]; s.Fault >= 0 && !s.Sure {
			b.entries[i].state = entrySuspect
		}
	}
	e.popGroup(b)
	aside := group{lo: g.lo, hi: g.hi, want: entrySuspect, doubted: g.doubted, tries: tries{need: patience}}
	rest := group{lo: g.lo, hi: g.hi, want: entryPending, doubted: g.doubted, tries: tries{need: patience}}
	if i := slices.IndexFunc(b.groups, func(have group) bool {
		return have.want == entrySuspect && have.lo <= g.lo && have.hi >= g.hi
	}); i < 0 {
		b.groups = append(b.groups, aside)
	}
	b.groups = append(b.groups, rest)
}

// bisect halves a group by number: half of the faults are likely in each. When
// the first half turns out to be spotless the second one is known to be bad,
// and is halved without being sent.
func (e *Engine) bisect(r *request) {
	e.split(r.batch, *r.group, int(r.entries[len(r.entries)/2]))
	r.batch.groups[len(r.batch.groups)-2].twin = true
}

// notSpotless notes that the group on top of the stack is not good throughout.
func (b *batch) notSpotless() {
	if n := len(b.groups); n > 1 {
		b.groups[n-2].twin = false
	}
}

// spotless notes that it is.
func (b *batch) spotless() {
	if n := len(b.groups); n > 1 && b.groups[n-2].twin {
		b.groups[n-2].twin, b.groups[n-2].bad = false, true
	}
}
