package checkpointtest

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"sf2loki/pkg/checkpoint"
)

// Memory is a Store in memory, shared by whoever holds it. Fault, when set,
// is asked before every call and may break it.
type Memory struct {
	Fault func(call Call) Fault

	mu      sync.Mutex
	data    []byte
	gen     int // 0: there is no document
	history [][]byte
	calls   map[Call]int
}

// Call is one of a Store's methods.
type Call string

// The calls.
const (
	Get Call = "get"
	Put Call = "put"
)

// Fault is what goes wrong with one call.
type Fault struct {
	Err  error  // what the caller is told
	Done bool   // the call took effect all the same: only its reply is lost
	Meet func() // runs first, as another writer who is quicker
}

// String names the store.
func (m *Memory) String() string { return "memory" }

// Get reads the document.
func (m *Memory) Get(ctx context.Context) ([]byte, checkpoint.Generation, error) {
	fault := m.begin(Get)
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	if fault.Err != nil {
		return nil, "", fault.Err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gen == 0 {
		return nil, "", checkpoint.ErrNotFound
	}
	return slices.Clone(m.data), m.generation(), nil
}

// Put replaces the document.
func (m *Memory) Put(ctx context.Context, data []byte, ifGen checkpoint.Generation) (checkpoint.Generation, error) {
	fault := m.begin(Put)
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if fault.Err != nil && !fault.Done {
		return "", fault.Err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.generation() != ifGen {
		return "", checkpoint.ErrConflict
	}
	m.data = slices.Clone(data)
	m.gen++
	m.history = append(m.history, m.data)
	if fault.Err != nil {
		return "", fault.Err
	}
	return m.generation(), nil
}

// Remove takes the document away, as rm would.
func (m *Memory) Remove() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data, m.gen = nil, 0
}

// History is every content the document has had.
func (m *Memory) History() [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.history)
}

// Calls is how often call was made.
func (m *Memory) Calls(call Call) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[call]
}

func (m *Memory) begin(call Call) Fault {
	m.mu.Lock()
	if m.calls == nil {
		m.calls = make(map[Call]int)
	}
	m.calls[call]++
	m.mu.Unlock()
	if m.Fault == nil {
		return Fault{}
	}
	fault := m.Fault(call)
	if fault.Meet != nil {
		fault.Meet()
	}
	return fault
}

func (m *Memory) generation() checkpoint.Generation {
	if m.gen == 0 {
		return ""
	}
	return checkpoint.Generation(strconv.Itoa(m.gen))
}
