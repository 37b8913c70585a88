package loki

import (
	"container/heap"
	"context"
	"time"

	"sf2loki/pkg/record"
)

// request is one request in flight.
type request struct {
	stream  *stream
	batch   *batch
	group   *group
	entries []int32 // positions in the batch
	parts   [][]byte
	push    []byte
	size    int   // of push
	line    int64 // bytes of lines
	charge  int64 // those of them that are not in the daily budget yet
	began   time.Duration
}

// schedule puts a stream where it belongs: it may send now, waits for a time,
// or has nothing to send. A busy stream comes back here when its answer is in.
func (e *Engine) schedule(st *stream) {
	switch {
	case st.place == placeBusy || st.place == placeOpening:
		return
	case !st.work():
		e.unplace(st)
		return
	}
	at := max(st.notBefore, st.pace)
	if len(st.queue) == 0 {
		at = max(at, st.heldUntil)
	}
	if at <= e.now() {
		if st.place != placeReady {
			e.unplace(st)
			st.place = placeReady
			e.ready = append(e.ready, st)
		}
		return
	}
	st.at = at
	if st.place == placeWaiting {
		heap.Fix(&e.waitHeap, st.heapIndex)
	} else {
		st.place = placeWaiting
		heap.Push(&e.waitHeap, st)
	}
	e.kickBy(at)
}

func (e *Engine) unplace(st *stream) {
	if st.place == placeWaiting {
		heap.Remove(&e.waitHeap, st.heapIndex)
	}
	st.place = placeNone
}

// dispatch starts what may start now.
func (e *Engine) dispatch(now time.Duration) {
	for len(e.waitHeap) > 0 && e.waitHeap[0].at <= now {
		st := heap.Pop(&e.waitHeap).(*stream)
		st.place = placeNone
		e.schedule(st)
	}
	e.openStreams(now)
	for !e.stopping && len(e.ready) > 0 && e.inFlight < e.maxInFlight() && e.gateOpen(now) {
		st := e.ready[0]
		e.ready[0] = nil
		e.ready = e.ready[1:]
		if st.place != placeReady {
			continue // it was placed anew since
		}
		st.place = placeBusy // nobody else puts it into the schedule meanwhile
		r := e.prepare(st, now)
		switch {
		case r != nil:
			e.launch(r, now)
		case st.place == placeBusy:
			st.place = placeNone
			e.schedule(st)
		}
	}
}

// gateOpen tells whether anything may be sent now, and else sees to it that
// the question is asked again in time.
func (e *Engine) gateOpen(now time.Duration) bool {
	at := max(e.gate, e.rates.next)
	if at > now {
		e.kickBy(at)
	}
	return at <= now
}

// maxInFlight is one while every answer tells of an outage: one request is
// enough to find out when it is over.
func (e *Engine) maxInFlight() int {
	if e.outage() {
		return 1
	}
	return e.cfg.InFlight
}

// openStreams lets those new streams go that the budget has room for. It
// refills evenly, so that a backfill slows down instead of filling the
// tenant's limit.
func (e *Engine) openStreams(now time.Duration) {
	for len(e.opening) > 0 {
		if !e.newStreams.take(now) {
			e.kickBy(e.newStreams.at)
			return
		}
		st := e.opening[0]
		e.opening = e.opening[1:]
		st.sent = now
		st.place = placeNone
		e.schedule(st)
	}
}

// prepare returns the next request of a stream; nil when it has none now.
func (e *Engine) prepare(st *stream, now time.Duration) *request {
	if now-st.sent > streamIdle && !e.cfg.DryRun {
		if !e.newStreams.take(now) {
			st.place = placeOpening
			e.opening = append(e.opening, st)
			e.kickBy(e.newStreams.at)
			return nil
		}
		st.sent = now
	}
	for {
		b := e.current(st, now)
		if b == nil {
			return nil
		}
		if b.left == 0 {
			e.retire(st, b)
			continue
		}
		g := e.nextGroup(b)
		if g == nil {
			continue // all that was left has been decided here
		}
		r := e.spareRequest()
		r.entries = b.members(r.entries[:0], g)
		if len(r.entries) == 0 {
			b.groups = b.groups[:len(b.groups)-1]
			e.spare = append(e.spare, r)
			continue
		}
		r.stream, r.batch, r.group = st, b, g
		if g.bad && len(r.entries) > 1 {
			e.bisect(r)
			e.spare = append(e.spare, r)
			continue
		}
		if e.cfg.DryRun {
			e.suppose(r)
			continue
		}
		e.fill(r)
		if e.tooSoon(r, now) {
			e.spare = append(e.spare, r)
			return nil
		}
		return r
	}
}

// tooSoon delays the first requests of a run by what the pace takes for them:
// a run that ended the moment before may have sent to the same streams.
func (e *Engine) tooSoon(r *request, now time.Duration) bool {
	if e.cfg.StreamRate == 0 || r.stream.pace > 0 {
		return false
	}
	r.stream.pace = perSecond(int64(r.size), e.cfg.StreamRate)
	return now < r.stream.pace
}

// current is the batch whose turn it is: a held entry when it is due, else the
// first one of the queue.
func (e *Engine) current(st *stream, now time.Duration) *batch {
	if len(st.held) > 0 && st.heldUntil <= now {
		return st.held[0]
	}
	if len(st.queue) > 0 {
		return st.queue[0]
	}
	return nil
}

// retire takes a batch whose entries are all decided off its stream.
func (e *Engine) retire(st *stream, b *batch) {
	if b.heldAlone {
		st.held = st.held[1:]
	} else {
		st.queue[0] = nil
		st.queue = st.queue[1:]
	}
	e.finalize(b)
	if st.due && len(st.queue) == 0 {
		e.closeOpen(st)
	}
}

// nextGroup returns the group to try next, a new one when there is none.
func (e *Engine) nextGroup(b *batch) *group {
	if len(b.groups) == 0 && !e.chunk(b) {
		return nil
	}
	return &b.groups[len(b.groups)-1]
}

// chunk makes a group of the next entries, as many as one request takes.
// Without the hour label a request spans no more than Loki's window, and what
// lies further behind the newest accepted entry is not sent at all: Loki would
// refuse it, even if it holds it already.
func (e *Engine) chunk(b *batch) bool {
	windowed := e.cfg.HourLabel == "" && e.cfg.Window > 0 && !b.heldAlone
	limit := e.requestLimit()
	size, lo, n := len(b.stream.labels)+16, -1, 0
	i := b.next
	for ; i < len(b.entries); i++ {
		en := &b.entries[i]
		if en.state != entryPending {
			continue
		}
		if windowed && b.stream.newest > en.time && b.stream.newest-en.time > int64(e.cfg.Window) {
			e.tooFarBehind(b, i)
			continue
		}
		s := len(en.encoded())
		if n > 0 && (size+s > limit || windowed && en.time-b.entries[lo].time > int64(e.cfg.Window)) {
			break
		}
		if lo < 0 {
			lo = i
		}
		size += s
		n++
	}
	b.next = i
	if n == 0 {
		return false
	}
	b.groups = append(b.groups, group{lo: lo, hi: i, want: entryPending, tries: tries{need: patience}})
	return true
}

// patience is how often the same 5xx is met before a group is looked into.
const patience = 10

func (e *Engine) tooFarBehind(b *batch, i int) {
	b.entries[i].fault = e.addFault(b, fault{reason: record.TooFarBehind, stage: stageCheck,
		detail: "further behind the newest entry of its stream than Loki's window of " + e.cfg.Window.String()})
	b.decide(int32(i), entryRefused)
}

// requestLimit is the most bytes of a request of more than one entry.
func (e *Engine) requestLimit() int {
	limit := int(^uint(0) >> 1)
	if e.cfg.StreamRate > 0 {
		limit = e.cfg.RequestBytes
	}
	if e.learnedLimit > 0 {
		limit = min(limit, e.learnedLimit)
	}
	return limit
}

// suppose treats a request as stored, for a dry run.
func (e *Engine) suppose(r *request) {
	e.accept(r)
	r.batch.groups = r.batch.groups[:len(r.batch.groups)-1]
	e.spare = append(e.spare, r)
}

func (e *Engine) spareRequest() *request {
	n := len(e.spare)
	if n == 0 {
		return &request{}
	}
	r := e.spare[n-1]
	e.spare = e.spare[:n-1]
	return r
}

// fill collects the parts of a request. Entries that lie side by side cannot
// be joined: the records' texts lie between them.
func (e *Engine) fill(r *request) {
	r.parts, r.line, r.charge = r.parts[:0], 0, 0
	for _, i := range r.entries {
		en := &r.batch.entries[i]
		r.parts = append(r.parts, en.encoded())
		r.line += int64(en.lineLen)
		if !en.charged {
			r.charge += int64(en.lineLen)
		}
	}
	r.size = PushSize(r.stream.labels, r.parts)
}

// launch sends a request. The pace counts it whatever its answer will be, as
// the server does.
func (e *Engine) launch(r *request, now time.Duration) {
	st := r.stream
	st.sent = now
	if e.cfg.StreamRate > 0 {
		st.pace = max(st.pace, now) + perSecond(int64(r.size), e.cfg.StreamRate)
	}
	e.rates.spend(now, int64(len(r.entries)), r.line)
	e.inFlight++
	r.began = now
	go e.perform(r)
}

// perform runs in its own goroutine: one for each request in flight.
func (e *Engine) perform(r *request) {
	admitted, until := e.daily.admit(r.charge)
	var answer Answer
	if admitted {
		r.push = AppendPush(r.push[:0], r.stream.labels, r.parts)
		answer = e.cfg.Push.Push(e.pushCtx, r.push)
	}
	verdict := Judge(answer)

	e.mu.Lock()
	defer e.mu.Unlock()
	e.inFlight--
	r.stream.place = placeNone
	if e.cfg.StreamRate > 0 && admitted {
		r.stream.pace = max(r.stream.pace, e.now()-paceSlack+perSecond(int64(r.size), e.cfg.StreamRate))
	}
	switch {
	case !admitted:
		e.overBudget(r, until)
	case context.Cause(e.pushCtx) != nil && answer.Err != nil:
		// The engine is ending: nothing is known, nothing follows.
	default:
		e.charged(r)
		e.answered(r, verdict, &answer)
	}
	clear(r.parts)
	r.batch, r.group = nil, nil
	e.spare = append(e.spare, r)
	e.advanceStream(r.stream)
	e.kick()
}

// advanceStream retires what is done and places the stream anew.
func (e *Engine) advanceStream(st *stream) {
	for len(st.queue) > 0 && st.queue[0].left == 0 {
		e.retire(st, st.queue[0])
	}
	for len(st.held) > 0 && st.held[0].left == 0 {
		e.retire(st, st.held[0])
	}
	if st.due && len(st.queue) == 0 {
		e.closeOpen(st)
	}
	e.schedule(st)
}

// paceSlack is how long a request may be under way before the pace counts from
// its answer: the later it arrived, the sooner the next one comes upon it, and
// Loki looks at one second. With requests of 256 KiB at the default rate this
// keeps any second below what Loki shards at (shard_streams.desired_rate).
const paceSlack = 90 * time.Millisecond

func (e *Engine) charged(r *request) {
	for _, i := range r.entries {
		r.batch.entries[i].charged = true
	}
}

// perSecond is how long n units last at a rate.
func perSecond(n, rate int64) time.Duration {
	return time.Duration(float64(n) / float64(rate) * float64(time.Second))
}
