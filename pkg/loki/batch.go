package loki

import (
	"slices"

	"sf2loki/pkg/record"
)

// entry is one record with an entry, or a dead letter on its way through.
type entry struct {
	time int64
	seq  uint64 // in the tracker
	node int32
	// mem holds the record's text, then its encoded form, in the batch's arena.
	mem     []byte
	rawLen  int32
	lineLen int32 // as pushed
	mdBytes int32
	mdPairs int32
	fault   int32 // why it is refused or suspected: index in batch.faults
	state   state
	cut     bool // the line was cut to the limit
	charged bool // counted in the daily budget
	account *SourceAccount
}

// entryBytes is what an entry counts for in the memory bound, beside its text.
const entryBytes = 120

func (e *entry) raw() []byte     { return e.mem[:e.rawLen] }
func (e *entry) encoded() []byte { return e.mem[e.rawLen:] }

func (e *entry) facts() EntryFacts {
	return EntryFacts{
		Time: e.time, LineBytes: int(e.lineLen), MetadataBytes: int(e.mdBytes), MetadataPairs: int(e.mdPairs),
	}
}

// state is what is known about an entry. The first two are open; all others
// are final, and an entry in them is never sent, captured or counted again.
type state uint8

const (
	entryPending  state = iota
	entrySuspect        // set aside: the answer's text fits it, but does not prove it
	entryStored         // Loki has it
	entryRefused        // for the reason in its fault
	entryOverrun        // given up for the daily budget
	entryVerbatim       // came as a dead letter without an entry: handed on
	entryMoved          // is in a batch of its own now, see hold
)

func (s state) open() bool { return s <= entrySuspect }

// fault is why an entry is refused.
type fault struct {
	reason record.Reason
	status int
	detail string
	stage  string // push: Loki said so; check: judged here
}

// batch is a run of entries of one stream that is settled as a whole, in as
// many requests as it takes. Its entries are sorted by time once it is closed.
type batch struct {
	stream  *stream // nil: entries that were judged here and need no push
	mem     arena
	entries []entry
	faults  []fault
	encoded int // bytes
	left    int // entries whose state is open
	reasons int // bytes of faults

	next   int     // first entry that no group holds yet
	groups []group // a stack: the last one is tried next
	// heldAlone: this is one entry that Loki answers with the same 5xx for ever.
	heldAlone bool
	tried     bool    // since the end of the input
	verdict   Verdict // the last answer of one that is held
	halved    bool    // once, although nothing else succeeded
	stops     bool    // a fault that no entry will ever pass
}

// group is a part of a batch that goes into one request: those of
// entries[lo:hi] that are in the state want.
type group struct {
	lo, hi int
	want   state
	tries  tries
	twin   bool // the second half of a group that was refused as a whole
	bad    bool // and the first half was good
	// doubted is one more than the engine's successes when a refusal first met
	// it that may be nobody's fault; 0: none has. See doubt.go.
	doubted uint64
}

// tries is what a group has met so far.
type tries struct {
	status    int    // of the last answer when it was a 5xx
	same      int    // how often in a row
	need      int    // how often it takes to look into the group
	successes uint64 // of the engine, before the first of them
	rate      int    // rate limits in a row
}

// compareEntries is the order of entries in time; equal times keep the order of
// the input.
func compareEntries(a, b entry) int {
	switch {
	case a.time < b.time:
		return -1
	case a.time > b.time:
		return 1
	}
	return 0
}

func (b *batch) sort() {
	if !slices.IsSortedFunc(b.entries, compareEntries) {
		slices.SortStableFunc(b.entries, compareEntries)
	}
}

// faultBytes is what a fault counts for beside its detail.
const faultBytes = 64

// addFault returns the index of a fault, the last one's when it is the same.
func (e *Engine) addFault(b *batch, f fault) int32 {
	if n := len(b.faults); n > 0 && b.faults[n-1] == f {
		return int32(n - 1)
	}
	b.faults = append(b.faults, f)
	n := faultBytes + len(f.detail)
	b.reasons += n
	e.memory += int64(n)
	return int32(len(b.faults) - 1)
}

// members appends the positions of a group's entries.
func (b *batch) members(dst []int32, g *group) []int32 {
	for i := g.lo; i < g.hi; i++ {
		if b.entries[i].state == g.want {
			dst = append(dst, int32(i))
		}
	}
	return dst
}

// decide gives an open entry its final state.
func (b *batch) decide(i int32, s state) {
	if b.entries[i].state.open() {
		b.left--
	}
	b.entries[i].state = s
}

// arena holds the texts of a batch in a few blocks that are used again.
type arena struct {
	blocks [][]byte
	size   int // capacity of all blocks
}

// The sizes of blocks: the first ones are small, because a backfill may have
// hundreds of streams with a few entries each.
var blockSizes = [...]int{4 << 10, 16 << 10, 64 << 10}

// room returns a slice of length zero with room for n bytes. The caller fills
// it and says with take how much it used.
func (a *arena) room(n int, free *blocks) []byte {
	if last := len(a.blocks) - 1; last >= 0 {
		if b := a.blocks[last]; cap(b)-len(b) >= n {
			return b[len(b):len(b):cap(b)]
		}
	}
	b := free.get(n, len(a.blocks))
	a.blocks = append(a.blocks, b)
	a.size += cap(b)
	return b[:0:cap(b)]
}

// take marks what was appended to the last room as used and returns it.
func (a *arena) take(used []byte) []byte {
	b := &a.blocks[len(a.blocks)-1]
	*b = (*b)[:len(*b)+len(used)]
	return used[:len(used):len(used)]
}

func (a *arena) release(free *blocks) {
	for _, b := range a.blocks {
		free.put(b)
	}
	clear(a.blocks)
	a.blocks, a.size = a.blocks[:0], 0
}

// blocks are free blocks by size, at most max bytes of them.
type blocks struct {
	free [len(blockSizes)][][]byte
	size int
	max  int
}

func (f *blocks) get(n, nth int) []byte {
	class := min(nth/2, len(blockSizes)-1)
	for class < len(blockSizes)-1 && blockSizes[class] < n {
		class++
	}
	if n > blockSizes[class] {
		return make([]byte, 0, n)
	}
	if k := len(f.free[class]); k > 0 {
		b := f.free[class][k-1]
		f.free[class] = f.free[class][:k-1]
		f.size -= cap(b)
		return b[:0]
	}
	return make([]byte, 0, blockSizes[class])
}

func (f *blocks) put(b []byte) {
	class := slices.Index(blockSizes[:], cap(b))
	if class < 0 || f.size+cap(b) > f.max {
		return
	}
	f.size += cap(b)
	f.free[class] = append(f.free[class], b)
}
