package loki

import (
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// answered takes in what one answer means for the entries of its request.
func (e *Engine) answered(r *request, v Verdict, a *Answer) {
	e.noteAnswer(r, &v, a)
	switch v.Class {
	case Stored:
		e.succeeded(r.stream)
		e.accept(r)
		r.batch.spotless()
		e.popGroup(r.batch)
	case Partial:
		if v.storesSome(len(r.entries)) {
			e.succeeded(r.stream)
		} else {
			e.served(r.stream)
		}
		e.isolate(r, &v)
	case Refused:
		if v.unknown() {
			e.unexplained(r, &v)
			return
		}
		// Nothing is stored, but the server is well.
		e.served(r.stream)
		e.isolate(r, &v)
	case TooLarge:
		e.tooLarge(r, &v)
	case RateLimited, StreamRate:
		e.troubled(r, &v)
		e.splitOverBurst(r, &v)
	case StreamLimit:
		e.troubled(r, &v)
	case Busy:
		e.troubled(r, &v)
		e.suspectServerError(r, &v)
	default: // Misconfigured, NotLoki
		e.troubled(r, &v)
	}
}

// accept settles the entries of a request that Loki has stored.
func (e *Engine) accept(r *request) {
	for _, i := range r.entries {
		r.batch.decide(i, entryStored)
	}
	last := r.batch.entries[r.entries[len(r.entries)-1]].time
	r.stream.newest = max(r.stream.newest, last)
}

func (e *Engine) popGroup(b *batch) { b.groups = b.groups[:len(b.groups)-1] }

// refuse settles an entry that Loki has refused for good.
func (e *Engine) refuse(r *request, i int32, reason record.Reason, v *Verdict, late bool) {
	b := r.batch
	b.entries[i].fault = e.addFault(b, fault{reason: reason, status: v.Status, detail: v.Detail, stage: stagePush})
	b.decide(i, entryRefused)
	if late {
		e.noteOldest(b.entries[i].time)
	}
}

// learn remembers a size that was too large, so that the next requests are
// smaller from the start. A single entry teaches nothing.
func (e *Engine) learn(r *request, v *Verdict) {
	if len(r.entries) < 2 {
		return
	}
	limit := r.size / 2
	if v.Class == TooLarge && v.Limit > 0 && !v.LimitCompressed {
		limit = min(int(v.Limit)*3/4, r.size*3/4)
	}
	limit = max(limit, leastRequest)
	if e.learnedLimit == 0 || limit < e.learnedLimit {
		e.learnedLimit = limit
		e.log.Warn("requests are made smaller", "bytes", limit, "answer", v.String())
	}
}

// leastRequest is where learning ends: smaller requests come from halving.
const leastRequest = 16 << 10

// halve puts the group of a request into two, by size.
func (e *Engine) halve(r *request) {
	b := r.batch
	b.notSpotless()
	g := *r.group
	half, size := r.size/2, 0
	mid := int(r.entries[len(r.entries)-1])
	for k, i := range r.entries {
		if size += len(b.entries[i].encoded()); size > half && k > 0 {
			mid = int(i)
			break
		}
	}
	e.split(b, g, mid)
}

// split puts the group on top of the stack into two parts, the first on top.
func (e *Engine) split(b *batch, g group, mid int) {
	e.popGroup(b)
	g.tries.same, g.tries.rate, g.twin, g.bad = 0, 0, false, false
	low, high := g, g
	low.hi, high.lo = mid, mid
	b.groups = append(b.groups, high, low)
}

// splitOverBurst halves a request that is larger than a rate limit ever lets
// pass. The text names the rate; the burst is at least that, as a rule. Where
// it is not, or nothing is named, it shows by others that are stored.
func (e *Engine) splitOverBurst(r *request, v *Verdict) {
	t := &r.group.tries
	if t.rate == 0 && t.same == 0 {
		t.successes = e.successes
	}
	t.rate++
	switch {
	case r.batch.heldAlone:
	case len(r.entries) == 1:
		if t.rate >= patience && e.successes > t.successes {
			e.holdFailing(r, v) // larger than the burst by itself: for ever
		}
	case v.Limit > 0 && max(v.Bytes, r.line) > v.Limit:
		e.learn(r, v)
		e.halve(r)
	case t.rate >= patience && e.successes > t.successes:
		e.halve(r)
	case t.rate >= patience && !r.batch.halved:
		r.batch.halved = true
		e.halve(r)
	}
}

// suspectServerError looks into a group that meets the same 5xx again and
// again. While other requests succeed it is the group's own fault: it is
// bisected, and an entry that remains alone is held, for a server error is no
// verdict on an entry. While nothing else succeeds there is nothing to compare
// with, so the first halves are each other's comparison.
func (e *Engine) suspectServerError(r *request, v *Verdict) {
	t := &r.group.tries
	if v.Status == 0 || v.Status != t.status {
		t.status, t.same, t.successes = v.Status, 0, e.successes
	}
	if v.Status == 0 {
		return
	}
	if t.same++; t.same < t.need {
		return
	}
	others := e.successes > t.successes
	switch {
	case r.batch.heldAlone:
	case others && len(r.entries) == 1:
		e.holdFailing(r, v)
	case others:
		t.need = impatience
		e.halve(r)
		r.stream.backoff.Reset()
	case !r.batch.halved && len(r.entries) > 1:
		r.batch.halved = true
		e.halve(r)
	}
}

// impatience is patience once a group is known to be at fault.
const impatience = 2

// hold moves an entry into a batch of its own, which is tried again every now
// and then, and lets the rest of its stream go on.
func (e *Engine) hold(r *request, v *Verdict) {
	i := r.entries[0]
	from := &r.batch.entries[i]
	b := e.newBatch(r.stream)
	b.heldAlone, b.verdict = true, *v
	before := b.mem.size
	mem := b.mem.take(append(b.mem.room(len(from.mem), &e.blocks), from.mem...))
	b.entries = append(b.entries, *from)
	b.entries[0].mem, b.entries[0].state = mem, entryPending
	b.groups = append(b.groups, group{hi: 1, want: entryPending, doubted: r.group.doubted, tries: tries{need: patience}})
	b.next, b.left = 1, 1
	e.memory += int64(b.mem.size-before) + entryBytes
	e.tracker.own(from.node, from.seq)
	r.batch.decide(i, entryMoved)
	r.batch.notSpotless()
	e.popGroup(r.batch)
	if r.stream.held = append(r.stream.held, b); len(r.stream.held) == 1 {
		r.stream.heldUntil = e.now() + maxBackoff
	}
	r.stream.notBefore = 0
}

// holdFailing holds an entry that the server fails at for ever.
func (e *Engine) holdFailing(r *request, v *Verdict) {
	e.hold(r, v)
	e.log.Error("an entry is held: the server answers it with the same error again and again while others are stored",
		"stream", string(r.stream.labels), "answer", v.String())
}

// succeeded notes that the server stores what it is sent.
func (e *Engine) succeeded(st *stream) {
	if e.outage() {
		e.rouse()
	}
	e.storedAny = true
	e.lastSuccess = e.now()
	e.served(st)
	e.successes++
	e.resume()
	e.outageBackoff.Reset()
}

// served notes that the server answers as it should.
func (e *Engine) served(st *stream) {
	e.failures, e.failingSince, e.misconfiguredSince = 0, never, never
	st.backoff.Reset()
	st.notBefore = 0
	st.trouble = nil
}

// rouse lets all streams that wait for the end of an outage go on.
func (e *Engine) rouse() {
	e.gate = 0
	for _, st := range append([]*stream(nil), e.waitHeap...) {
		if st.trouble != nil && tenantWide(st.trouble.verdict.Class) && st.trouble.verdict.RetryAfter == 0 {
			st.notBefore = 0
			e.schedule(st)
		}
	}
}

// tenantWide tells whether an answer is about all streams.
func tenantWide(c Class) bool {
	return c == RateLimited || c == Busy || c == Misconfigured || c == NotLoki
}

// troubled puts a stream into back-off, and the whole engine when the answer
// is about everything and tells for how long.
func (e *Engine) troubled(r *request, v *Verdict) {
	st, now := r.stream, e.now()
	wait := st.backoff.Next()
	if v.RetryAfter > 0 {
		wait = max(wait, v.RetryAfter)
	}
	if r.batch.heldAlone {
		// It says nothing about a server that stores others: that is why it is held.
		if !e.storedAny {
			e.noteTrouble(v, now)
		}
		st.heldUntil = now + max(wait, maxBackoff)
		r.batch.verdict = *v
		r.batch.tried = e.in.ended
		st.held = append(st.held[1:], st.held[0])
		return
	}
	e.noteTrouble(v, now)
	st.notBefore = now + wait
	if st.trouble == nil {
		st.trouble = &trouble{since: now}
	}
	st.trouble.verdict = *v
	st.trouble.tries++
	if !tenantWide(v.Class) {
		return
	}
	if v.RetryAfter > 0 {
		e.gate = max(e.gate, now+v.RetryAfter)
	}
	if e.failures++; e.outage() {
		e.gate = max(e.gate, now+e.outageBackoff.Next())
	}
}

// noteTrouble remembers since when nothing goes well, and why.
func (e *Engine) noteTrouble(v *Verdict, now time.Duration) {
	if e.failingSince == never {
		e.failingSince = now
	}
	e.lastTrouble = *v
	if v.Class != Misconfigured && v.Class != NotLoki {
		return
	}
	if e.misconfigured++; e.misconfiguredSince == never {
		e.misconfigured, e.misconfiguredSince = 1, now
	}
}

// outage tells whether so many answers in a row were bad that it is the
// server's state and not one request's.
func (e *Engine) outage() bool { return e.failures >= 2*e.cfg.InFlight }

// checkPatience ends the run when the server has been unusable for too long.
func (e *Engine) checkPatience(now time.Duration) {
	v := &e.lastTrouble
	misconfigured := v.Class == Misconfigured || v.Class == NotLoki
	if e.misconfiguredSince != never && e.misconfigured > 1 && misconfigured && !e.storedAny {
		if at := e.misconfiguredSince + e.cfg.MisconfigAfter; at > now {
			e.kickBy(at)
		} else {
			e.fail(giveUpError(v, v.Code, now-e.misconfiguredSince))
			return
		}
	}
	if e.failingSince == never || e.cfg.GiveUp == 0 {
		return
	}
	if at := e.failingSince + e.cfg.GiveUp; at > now {
		e.kickBy(at)
		return
	}
	code := sysexits.Unavailable
	if misconfigured {
		code = v.Code
	}
	e.fail(giveUpError(v, code, now-e.failingSince))
}

func giveUpError(v *Verdict, code sysexits.Code, after time.Duration) error {
	return sysexits.WithHint(sysexits.Errorf(code, "push: no success for %s: %s", after.Round(time.Second), v), v.Hint)
}
