package loki

import (
	"math"
	"time"

	"sf2loki/pkg/backoff"
)

// stream is one label set as Loki sees it: at most one of its requests is in
// flight, and its batches leave in the order in which they were closed. Times
// are durations since the engine's start, which no change of the wall clock
// moves.
type stream struct {
	labels []byte // AppendLabels
	open   *batch // being filled; nil when empty
	opened time.Duration
	// before and after chain the streams with an open batch by opened.
	before, after *stream
	due           bool // the flush interval is over, the stream was busy then

	queue []*batch // closed, the first one is being worked on
	held  []*batch // single entries that Loki answers with the same 5xx, see hold

	place     place
	at        time.Duration // when a waiting stream goes on
	heapIndex int

	notBefore time.Duration // back-off
	pace      time.Duration // when the rate allows the next request
	heldUntil time.Duration // of the held entries
	backoff   *backoff.Backoff
	trouble   *trouble // why it waits; nil when its last request went well

	newest int64         // newest accepted entry, nanoseconds since the epoch
	sent   time.Duration // last request; never when it has had none
	used   time.Duration // last record
	gone   bool          // evicted

	sharded time.Duration // when it was last said that Loki shards it
}

// never is before every time since the engine's start.
const never = time.Duration(math.MinInt64 / 2)

// trouble is the answer that holds a stream.
type trouble struct {
	since   time.Duration
	verdict Verdict
	tries   int
}

// place is where a stream is in the schedule.
type place uint8

const (
	placeNone    place = iota // nothing to send
	placeReady                // in the queue of those that may send now
	placeWaiting              // in the heap, until at
	placeOpening              // waits for the budget of new streams
	placeBusy                 // has a request in flight
)

// stream returns the stream of a label set.
func (e *Engine) stream(labels []byte) *stream {
	if st := e.streams[string(labels)]; st != nil {
		return st
	}
	if e.labelTexts.large(len(e.streams)) {
		e.forgetStreams(e.now(), never)
		e.labelTexts.looked(len(e.streams))
	}
	st := &stream{
		labels: append([]byte(nil), labels...), newest: math.MinInt64, sent: never, sharded: never,
		backoff: backoff.New(minBackoff, maxBackoff),
	}
	e.streams[string(st.labels)] = st
	e.labelTexts.bytes += len(st.labels)
	e.streamsSeen++
	return st
}

// Back-off, and how long after its last entry Loki forgets an idle stream
// (ingester.chunk-idle-period).
const (
	minBackoff = 500 * time.Millisecond
	maxBackoff = 30 * time.Second
	streamIdle = 30 * time.Minute
)

// work tells whether the stream has anything closed to send.
func (st *stream) work() bool { return len(st.queue) > 0 || len(st.held) > 0 }

// openBatch returns the batch that st fills, a new one if need be.
func (e *Engine) openBatch(st *stream) *batch {
	if st.open == nil {
		st.open = e.newBatch(st)
		st.opened = e.now()
		st.used = st.opened
		e.openList.push(st)
		e.kickBy(st.opened + e.flushInterval())
	}
	return st.open
}

// closeOpen puts the batch that st fills into its queue.
func (e *Engine) closeOpen(st *stream) {
	b := st.open
	if b == nil {
		return
	}
	st.open = nil
	if st.due {
		st.due = false
	} else {
		e.openList.remove(st)
	}
	b.sort()
	st.queue = append(st.queue, b)
	e.fed = st
	e.schedule(st)
}

// flushInterval is short while the engine drains: there is no time to lose.
func (e *Engine) flushInterval() time.Duration {
	if e.graceEnd != 0 {
		return min(e.cfg.FlushInterval, drainInterval)
	}
	return e.cfg.FlushInterval
}

const drainInterval = 50 * time.Millisecond

// flushDue closes the batches whose flush interval is over. One of a stream
// that is busy stays open until the stream is free: closing it sooner would
// only make the batches smaller.
func (e *Engine) flushDue(now time.Duration) {
	interval := e.flushInterval()
	for st := e.openList.first; st != nil && (e.in.ended || st.opened+interval <= now); st = e.openList.first {
		if len(st.queue) == 0 || e.in.ended {
			e.closeOpen(st)
			continue
		}
		e.openList.remove(st)
		st.due = true
	}
	if e.local != nil && (e.in.ended || e.localOpened+interval <= now) {
		e.closeLocal()
	}
}

// relieve closes the fullest batches early while memory is full and nothing
// that is under way will free any.
func (e *Engine) relieve() {
	for e.full() && e.inFlight+len(e.ready) < e.cfg.InFlight {
		st := e.fullest.next(&e.openList)
		switch {
		case st != nil && (e.local == nil || st.open.mem.size >= e.local.mem.size):
			e.closeOpen(st)
		case e.local != nil:
			e.closeLocal()
		default:
			return
		}
	}
}

// fullest are the streams whose open batches took the most memory when all were
// last looked at: each more than half as much as the fullest one. To look at all
// for each one that is closed would cost more than to send it.
type fullest struct {
	streams []*stream // the one that was opened first is the last
	above   int       // bytes that each must still have more than
}

// next returns one of them. It stays one until its batch is closed.
func (f *fullest) next(open *openList) *stream {
	if st := f.last(); st != nil {
		return st
	}
	f.above = 0
	for st := open.first; st != nil; st = st.after {
		if st.idle() {
			f.above = max(f.above, st.open.mem.size/2)
		}
	}
	for st := open.last; st != nil; st = st.before {
		if st.idle() && st.open.mem.size > f.above {
			f.streams = append(f.streams, st)
		}
	}
	return f.last()
}

// last takes off the end what has been closed since, and returns what is there then.
func (f *fullest) last() *stream {
	for n := len(f.streams); n > 0; n-- {
		if st := f.streams[n-1]; st.idle() && st.open.mem.size > f.above {
			f.streams = f.streams[:n]
			return st
		}
		f.streams[n-1] = nil
	}
	f.streams = f.streams[:0]
	return nil
}

// idle tells whether the stream fills a batch while nothing of it waits to be sent.
func (st *stream) idle() bool { return st.open != nil && len(st.queue) == 0 }

// openList is the streams with an open batch, the longest open first.
type openList struct{ first, last *stream }

func (l *openList) push(st *stream) {
	st.before, st.after = l.last, nil
	if l.last != nil {
		l.last.after = st
	} else {
		l.first = st
	}
	l.last = st
}

func (l *openList) remove(st *stream) {
	if st.before != nil {
		st.before.after = st.after
	} else {
		l.first = st.after
	}
	if st.after != nil {
		st.after.before = st.before
	} else {
		l.last = st.before
	}
	st.before, st.after = nil, nil
}

// waitHeap is the streams that wait, the first to go on at the top; for
// container/heap.
type waitHeap []*stream

func (h waitHeap) Len() int           { return len(h) }
func (h waitHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h waitHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i, j
}

func (h *waitHeap) Push(x any) {
	st := x.(*stream)
	st.heapIndex = len(*h)
	*h = append(*h, st)
}

func (h *waitHeap) Pop() any {
	old := *h
	st := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return st
}

// sweep forgets streams and label sets that have been idle for as long as Loki
// keeps them, and sooner when there are very many.
func (e *Engine) sweep(now time.Duration) {
	idle := streamIdle
	if e.cfg.HourLabel == "" {
		idle += e.cfg.Window // what a stream's newest entry was still matters
	}
	if len(e.streams) > many {
		idle = time.Minute
	}
	e.forgetStreams(now, idle)
	e.labels.sweep(now, idle)
}

// forgetStreams forgets those that have had nothing to do for longer than idle,
// and whose pace does not matter any more.
func (e *Engine) forgetStreams(now, idle time.Duration) {
	for key, st := range e.streams {
		if st.place == placeNone && st.open == nil && !st.work() && st.pace <= now && now-st.used > idle {
			st.gone = true
			delete(e.streams, key)
			e.labelTexts.bytes -= len(st.labels)
		}
	}
}
