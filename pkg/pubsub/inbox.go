package pubsub

import (
	"context"
	"sync"
	"time"

	"sf2loki/pkg/pubsub/eventbus"
)

// item is something on its way to the output: events, a sign of life, or the
// loss of a position.
type item struct {
	events []*eventbus.ConsumerEvent
	latest []byte // of a sign of life
	gap    *gap
	size   int // what the events weigh
}

// inbox holds what a topic's stream has brought and the output has not taken
// yet. Together with what the stream may still bring, its credit, this never
// exceeds the window. So a pipe that stands still lets the credit fall to
// nothing, and one that moves keeps it up.
type inbox struct {
	window int
	nudge  time.Duration
	memory *memory
	now    func() time.Time

	mu        sync.Mutex
	items     []item
	held      int // events in items, and those that the output is at
	size      int // their weight
	credit    int // of the open stream; 0 without one
	zeroSince time.Time
	lastAsk   time.Time
	closed    bool

	came chan struct{} // an item has come, or the end; one waiter
	room chan struct{} // events have been taken; one waiter
}

func newInbox(window int, nudge time.Duration, m *memory, now func() time.Time) *inbox {
	return &inbox{window: window, nudge: nudge, memory: m, now: now, came: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// settleAfter is how long after the last request the server's count of the
// credit must have taken it in.
const settleAfter = 10 * time.Second

// put takes in a response.
func (b *inbox) put(r *response) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.credit = max(b.credit-len(r.events), 0)
	if r.pending < b.credit && b.now().Sub(b.lastAsk) > settleAfter {
		b.credit = max(r.pending, 0) // not all that was asked for was heard
	}
	if b.credit == 0 && b.zeroSince.IsZero() {
		b.zeroSince = b.now()
	}
	it := item{events: r.events, size: r.size}
	if len(r.events) == 0 {
		if it.latest = r.latest; len(r.latest) == 0 {
			return
		}
		if n := len(b.items); n > 0 && b.items[n-1].latest != nil {
			b.items[n-1] = it // a newer sign of life says all that the older did
			return
		}
	}
	b.add(it)
}

func (b *inbox) add(it item) {
	b.items = append(b.items, it)
	b.held += len(it.events)
	b.size += it.size
	b.memory.add(it.size)
	signal(b.came)
}

// lose puts the loss of the position behind what came before it.
func (b *inbox) lose(g *gap) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(item{gap: g})
}

// close has the emitter end when it has taken all.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.credit = true, 0
	signal(b.came)
}

// take gives the next item; more is false at the end. With wait false it does
// not wait for one.
func (b *inbox) take(ctx context.Context, wait bool) (it item, ok, more bool) {
	for {
		b.mu.Lock()
		if len(b.items) > 0 {
			it = b.items[0]
			b.items = b.items[1:]
			if len(b.items) == 0 {
				b.items = nil
			}
			b.mu.Unlock()
			return it, true, true
		}
		closed := b.closed
		b.mu.Unlock()
		if closed || !wait || ctx.Err() != nil {
			return item{}, false, !closed && ctx.Err() == nil
		}
		select {
		case <-b.came:
		case <-ctx.Done():
		}
	}
}

// done tells that the output has taken events of such a weight.
func (b *inbox) done(events, size int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= events
	b.size -= size
	b.memory.add(-size)
	signal(b.room)
}

// busy tells whether something is on its way to the output.
func (b *inbox) busy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held > 0
}

func (b *inbox) creditNow() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.credit
}

// ask is how many events to ask for now; 0: none. It asks for much at a time,
// or for what there is room for when the stream has had no credit for a while.
// retry is when to look again although nothing happened; 0: no need.
func (b *inbox) ask() (n int, retry time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	room := b.window - b.held - b.credit
	switch {
	case room <= 0:
		return 0, 0
	case room < b.window-b.window/2:
		if b.credit > 0 {
			return 0, 0
		}
		if left := b.nudge - b.now().Sub(b.zeroSince); left > 0 {
			return 0, left
		}
	}
	b.grant(room)
	return room, 0
}

// open is ask for a stream that is about to begin.
func (b *inbox) open() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.credit = 0
	room := b.window - b.held
	if room < b.window-b.window/2 {
		return 0
	}
	b.grant(room)
	return room
}

func (b *inbox) grant(n int) {
	b.credit += n
	b.zeroSince, b.lastAsk = time.Time{}, b.now()
}

// ended forgets the credit of a stream and tells whether there was none left.
func (b *inbox) ended() (dry bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	dry = b.credit == 0
	b.credit = 0
	return dry
}

// waitRoom waits until a new stream has something to ask for.
func (b *inbox) waitRoom(ctx context.Context) bool {
	for ctx.Err() == nil {
		b.mu.Lock()
		enough := b.window-b.held >= b.window-b.window/2
		b.mu.Unlock()
		if enough {
			return true
		}
		select {
		case <-b.room:
		case <-ctx.Done():
		}
	}
	return false
}

// maxHeld bounds the bytes of events that all inboxes hold. One response each
// may come on top.
const maxHeld = 16 << 20

// memory is what all inboxes share.
type memory struct {
	limit int

	mu      sync.Mutex
	used    int
	changed chan struct{} // closed and replaced when used has shrunk
}

func newMemory(limit int) *memory { return &memory{limit: limit, changed: make(chan struct{})} }

func (m *memory) add(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used += n
	if n < 0 {
		close(m.changed)
		m.changed = make(chan struct{})
	}
}

// wait waits until there is room for a response. An inbox that holds nothing
// does not wait for others.
func (m *memory) wait(ctx context.Context, b *inbox) {
	for {
		m.mu.Lock()
		full, changed := m.used > m.limit, m.changed
		m.mu.Unlock()
		if !full || ctx.Err() != nil || !b.busy() {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}
