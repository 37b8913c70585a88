package loki

import (
	"bytes"

	"sf2loki/pkg/record"
)

// tracker keeps every record that has been read and is not behind its key's
// last acknowledgement, in the order of the input, and tells which tokens may
// be acknowledged. It is the one place that decides so, and does nothing else:
//
//   - a token is acknowledged once every record of its key up to it is settled;
//   - a record without a key holds back every later token of all keys;
//   - nothing is acknowledged twice, and never past an unsettled record.
//
// Runs of settled records that wait behind an unsettled one are folded into
// one node, so that a stream held for hours costs no memory for what flows
// around it.
type tracker struct {
	nodes []node  // nodes[0] is the end of every list
	free  []int32 // freed nodes, the last one is still in the processor's cache
	live  int
	kept  int // bytes of texts that the tracker owns

	keys []trackedKey // keys[0] are the records without a key
	ids  map[string]int32
	// freeKeys are places of keys that were forgotten, as there were too many.
	freeKeys []int32
	keyTexts crowd // of the names and tokens of keys
	last     int32 // the key of the record before: most often of this one too
	seq      uint64
	nokey    uint64  // records without a key so far
	dirty    []int32 // keys whose first record may be settled

	runs []runLine
}

// node is one record, or a run of settled ones of the same key.
type node struct {
	seq        uint64 // of the last record
	keyless    uint64 // how many records without a key came before the last record
	keylessTop uint64 // and before the first one
	time       int64
	token      []byte // escaped, as it came; nil: offers no resume point
	account    []byte
	key        int32
	prev, next int32
	sum        tally
	settled    bool
	hasTime    bool
	owned      bool // token is a copy of the tracker's own
}

// nodeBytes is what a node counts for in the memory bound.
const nodeBytes = 128

type trackedKey struct {
	name        string
	first, tail int32
	dirty       bool
	sum         tally // settled since the last acknowledgement
	sinceFiled  tally // settled since the last account
	token       []byte
	time        int64
	hasTime     bool
}

// runBytes is what a runLine counts for beside its text.
const runBytes = 64

// runLine is a line about a run, handed on when all before it is settled.
type runLine struct {
	seq uint64
	run []byte
}

// tally counts entries by their fate.
type tally struct{ delivered, rejected, dropped int64 }

func (t *tally) add(o tally) {
	t.delivered += o.delivered
	t.rejected += o.rejected
	t.dropped += o.dropped
}

// fate is what became of an entry.
type fate uint8

// The fates. A record without an entry is settled as nothing.
const (
	fateNone fate = iota
	fateDelivered
	fateRejected // captured durably as a dead letter
	fateDropped  // refused with no destination, or given up on purpose
)

func (f fate) tally() tally {
	switch f {
	case fateDelivered:
		return tally{delivered: 1}
	case fateRejected:
		return tally{rejected: 1}
	case fateDropped:
		return tally{dropped: 1}
	}
	return tally{}
}

func newTracker() *tracker {
	return &tracker{
		nodes: make([]node, 1, 1024),
		keys:  make([]trackedKey, 1, 16),
		ids:   make(map[string]int32),
	}
}

// position is what a record says about its place in the stream.
type position struct {
	key     []byte // nil: none
	token   []byte // escaped, as it came; nil: offers no resume point
	account []byte
	time    int64
	hasTime bool
}

// add appends a record and returns its number. The tracker copies p.account and
// keeps p.token as it is: the caller calls own before that memory is used for something else.
func (t *tracker) add(p position) int32 {
	key := t.key(p.key)
	id := int32(len(t.nodes))
	if n := len(t.free); n > 0 {
		id = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		t.nodes = append(t.nodes, node{})
	}
	t.seq++
	t.live++
	k := &t.keys[key]
	if key == 0 {
		p.token, p.account = nil, nil
		t.nokey++
	}
	n := &t.nodes[id] // all zero
	n.seq, n.keyless, n.keylessTop = t.seq, t.nokey, t.nokey
	n.time, n.hasTime, n.token, n.key, n.prev = p.time, p.hasTime, p.token, key, k.tail
	if p.account != nil {
		n.account = bytes.Clone(p.account)
		t.kept += len(p.account)
	}
	if k.tail != 0 {
		t.nodes[k.tail].next = id
	} else {
		k.first = id
	}
	k.tail = id
	return id
}

func (t *tracker) key(name []byte) int32 {
	if name == nil {
		return 0
	}
	if t.last != 0 && t.keys[t.last].name == string(name) {
		return t.last
	}
	id, ok := t.ids[string(name)]
	if !ok {
		id = t.newKey(string(name))
	}
	t.last = id
	return id
}

// newKey begins with a key. When there are very many, those that wait for
// nothing are forgotten, and with them what they had counted for their next
// account.
func (t *tracker) newKey(name string) int32 {
	if t.keyTexts.large(len(t.ids)) {
		for name, id := range t.ids {
			if k := &t.keys[id]; k.first == 0 && !k.dirty {
				delete(t.ids, name)
				t.keyTexts.bytes -= len(name) + cap(k.token)
				*k = trackedKey{}
				t.freeKeys = append(t.freeKeys, id)
			}
		}
		t.last = 0
		t.keyTexts.looked(len(t.ids))
	}
	id := int32(len(t.keys))
	if n := len(t.freeKeys); n > 0 {
		id = t.freeKeys[n-1]
		t.freeKeys = t.freeKeys[:n-1]
	} else {
		t.keys = append(t.keys, trackedKey{})
	}
	t.keys[id].name = name
	t.ids[name] = id
	t.keyTexts.bytes += len(name)
	return id
}

// addRun appends a line about a run.
func (t *tracker) addRun(run []byte) {
	t.runs = append(t.runs, runLine{seq: t.seq, run: bytes.Clone(run)})
	t.kept += len(run) + runBytes
}

// settle gives a record its fate. It must be called once for each.
func (t *tracker) settle(id int32, f fate) {
	n := &t.nodes[id]
	key, next := n.key, n.next
	n.settled = true
	n.sum = f.tally()
	t.absorb(id, n.prev)
	t.absorb(next, id) // n may be gone after this
	if first := t.keys[key].first; t.nodes[first].settled {
		t.mark(key)
	}
}

// absorb folds the node before into after when both are settled and nothing
// that has yet to be written is lost by it.
func (t *tracker) absorb(after, before int32) {
	if after == 0 || before == 0 {
		return
	}
	a, b := &t.nodes[after], &t.nodes[before]
	if !a.settled || !b.settled || b.account != nil || (b.token != nil && a.token == nil) {
		return
	}
	if a.key != 0 && b.keyless != a.keylessTop && t.barrier() < a.seq {
		return // an unsettled record without a key may lie between: then before goes first
	}
	a.sum.add(b.sum)
	a.keylessTop = b.keylessTop
	t.unlink(before)
}

// barrier is the number of the first unsettled record without a key.
func (t *tracker) barrier() uint64 {
	for id := t.keys[0].first; id != 0; id = t.nodes[id].next {
		if !t.nodes[id].settled {
			return t.nodes[id].seq
		}
	}
	return ^uint64(0)
}

func (t *tracker) unlink(id int32) {
	n := &t.nodes[id]
	k := &t.keys[n.key]
	if n.prev != 0 {
		t.nodes[n.prev].next = n.next
	} else {
		k.first = n.next
	}
	if n.next != 0 {
		t.nodes[n.next].prev = n.prev
	} else {
		k.tail = n.prev
	}
	if n.owned {
		t.kept -= len(n.token)
	}
	t.kept -= len(n.account)
	*n = node{}
	t.free = append(t.free, id)
	t.live--
}

// own makes the token of a node that still waits the tracker's own. It is
// called for every record of a batch before the batch's memory is used again;
// seq tells that the node is still that record's.
func (t *tracker) own(id int32, seq uint64) {
	n := &t.nodes[id]
	if n.seq != seq || n.owned || n.token == nil {
		return
	}
	n.token = append(make([]byte, 0, len(n.token)), n.token...)
	n.owned = true
	t.kept += len(n.token)
}

func (t *tracker) mark(key int32) {
	if k := &t.keys[key]; !k.dirty {
		k.dirty = true
		t.dirty = append(t.dirty, key)
	}
}

// acks calls write for every acknowledgement that has become due, at most one
// for each key and one for each account, and forgets what it covers.
func (t *tracker) acks(write func(*record.Ack)) {
	if t.keys[0].dirty {
		t.passKeyless()
	}
	barrier := t.barrier()
	dirty := t.dirty
	t.dirty = t.dirty[len(t.dirty):]
	for _, key := range dirty {
		t.keys[key].dirty = false
		if key != 0 {
			t.pass(&t.keys[key], barrier, write)
		}
	}
	t.dirty = append(dirty[:0], t.dirty...)
	t.passRuns(write)
}

// passKeyless drops the settled records without a key at the head of their
// list. Every key may then go on.
func (t *tracker) passKeyless() {
	for k := &t.keys[0]; k.first != 0 && t.nodes[k.first].settled; {
		t.unlink(k.first)
	}
	for key := 1; key < len(t.keys); key++ {
		if t.keys[key].first != 0 {
			t.mark(int32(key))
		}
	}
}

func (t *tracker) pass(k *trackedKey, barrier uint64, write func(*record.Ack)) {
	var due tally
	pending := false
	for k.first != 0 {
		n := &t.nodes[k.first]
		if !n.settled || n.seq > barrier {
			break
		}
		k.sum.add(n.sum)
		k.sinceFiled.add(n.sum)
		if n.token != nil {
			due.add(k.sum)
			k.sum = tally{}
			t.keyTexts.bytes -= cap(k.token)
			k.token, k.time, k.hasTime = append(k.token[:0], n.token...), n.time, n.hasTime
			t.keyTexts.bytes += cap(k.token)
			pending = true
		}
		if n.account != nil && k.token != nil {
			f := k.sinceFiled
			account := record.AppendSettled(nil, n.account, f.delivered, f.rejected, f.dropped)
			write(k.ack(due, account))
			k.sinceFiled, due, pending = tally{}, tally{}, false
		}
		t.unlink(k.first)
	}
	if pending {
		write(k.ack(due, nil))
	}
}

func (k *trackedKey) ack(due tally, account []byte) *record.Ack {
	return &record.Ack{
		Key: k.name, EscapedValue: k.token, Time: k.time, HasTime: k.hasTime,
		Delivered: due.delivered, Rejected: due.rejected, Dropped: due.dropped, Account: account,
	}
}

// passRuns hands on the lines about runs before which all is settled.
func (t *tracker) passRuns(write func(*record.Ack)) {
	if len(t.runs) == 0 {
		return
	}
	first := t.firstUnsettled()
	for len(t.runs) > 0 && t.runs[0].seq < first {
		write(&record.Ack{Run: t.runs[0].run})
		t.kept -= len(t.runs[0].run) + runBytes
		t.runs = t.runs[1:]
	}
}

// flushRuns hands on the remaining lines about runs, for the end.
func (t *tracker) flushRuns(write func(*record.Ack)) {
	for _, r := range t.runs {
		write(&record.Ack{Run: r.run})
	}
	t.runs = nil
}

func (t *tracker) firstUnsettled() uint64 {
	first := ^uint64(0)
	for i := range t.keys {
		for id := t.keys[i].first; id != 0; id = t.nodes[id].next {
			if !t.nodes[id].settled {
				first = min(first, t.nodes[id].seq)
				break
			}
		}
	}
	return first
}

// bytes is what the tracker counts for in the memory bound.
func (t *tracker) bytes() int { return t.live*nodeBytes + t.kept }
