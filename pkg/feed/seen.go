package feed

import (
	"crypto/sha256"
	"encoding/hex"
	"sync/atomic"
)

// Key identifies a row: an Id of Salesforce, an EventIdentifier, or the sum of
// a row that has neither.
type Key [16]byte

// KeyOf makes the key of an id.
func KeyOf(id []byte) Key {
	var k Key
	switch {
	case len(id) == 15 || len(id) == 18:
		copy(k[:], id[:15]) // the other three follow from these
		return k
	case len(id) == 36 && id[8] == '-' && id[13] == '-' && id[18] == '-' && id[23] == '-':
		var digits [32]byte
		n := copy(digits[:], id[:8])
		for _, from := range []int{9, 14, 19, 24} {
			to := from + 4
			if from == 24 {
				to = 36
			}
			n += copy(digits[n:], id[from:to])
		}
		if _, err := hex.Decode(k[:], digits[:]); err == nil {
			return k
		}
	}
	sum := sha256.Sum256(id)
	copy(k[:], sum[:])
	k[15] = 0xff // no character of an Id
	return k
}

// Memory bounds how many rows are remembered in all.
type Memory struct {
	limit int64
	used  atomic.Int64
}

// NewMemory returns a Memory for limit rows; each takes about 60 bytes.
func NewMemory(limit int64) *Memory { return &Memory{limit: limit} }

// Seen remembers which rows have been written, as far back as an overlap
// reaches. A row that has changed its time since then counts as another.
type Seen struct {
	memory  *Memory
	at      map[Key]int64
	queue   []seenRow // in the order of writing
	head    int
	horizon int64
}

type seenRow struct {
	key  Key
	time int64
}

// NewSeen returns an empty Seen within memory.
func NewSeen(memory *Memory) *Seen { return &Seen{memory: memory, at: map[Key]int64{}} }

// Has tells whether the row has been written.
func (s *Seen) Has(k Key, time int64) bool {
	at, ok := s.at[k]
	return ok && at == time
}

// Add remembers a row. When there is no room, the oldest are forgotten, and
// the horizon rises above them.
func (s *Seen) Add(k Key, time int64) {
	if _, ok := s.at[k]; !ok {
		for s.memory.used.Add(1); s.memory.used.Load() > s.memory.limit && len(s.at) > 0; {
			s.horizon = max(s.horizon, s.queue[s.head].time+1e6)
			s.pop()
		}
	}
	s.at[k] = time
	s.queue = append(s.queue, seenRow{k, time})
}

// pop forgets the oldest, and takes one off the count.
func (s *Seen) pop() {
	old := s.queue[s.head]
	s.head++
	if at, ok := s.at[old.key]; ok && at == old.time {
		delete(s.at, old.key)
		s.memory.used.Add(-1)
	}
	if s.head > 1024 && s.head > len(s.queue)/2 {
		s.queue = append(s.queue[:0], s.queue[s.head:]...)
		s.head = 0
	}
}

// Forget drops the rows before a time, which will not be asked for again.
func (s *Seen) Forget(before int64) {
	for s.head < len(s.queue) && s.queue[s.head].time < before {
		s.pop()
	}
}

// Horizon is the time from which on every row that has been written is
// remembered.
func (s *Seen) Horizon() int64 { return s.horizon }

// Len is how many rows are remembered.
func (s *Seen) Len() int { return len(s.at) }
