package checkpoint_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/checkpointtest"
	"sf2loki/pkg/sysexits"
)

// TestCommittersNeverRegress lets committers share one document in a store
// that conflicts, loses replies and fails, each restarted when it fails, and
// looks at every content that the document ever had.
func TestCommittersNeverRegress(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runModel(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

// model is one run. Committer i owns the key own<i>, and all contend for the
// key shared, whose values are 1, 2, 3 and so on, each written once.
type model struct {
	t      *testing.T
	rng    *rand.Rand
	store  *checkpointtest.Memory
	next   int         // of the shared key's values
	wrote  map[int]int // value of the shared key -> the value its writer had seen
	own    []int       // last value that committer i was told is stored
	starts int
}

func runModel(t *testing.T, rng *rand.Rand) {
	m := &model{t: t, rng: rng, store: new(checkpointtest.Memory), wrote: map[int]int{}, own: make([]int, 3)}
	committers := make([]*checkpoint.Committer, len(m.own))
	seen := make([]int, len(m.own)) // the shared value that committer i read or wrote last
	tried := make([]int, len(m.own))
	for range 60 {
		m.store.Fault = m.fault
		i := rng.IntN(len(committers))
		if committers[i] == nil {
			committers[i], seen[i] = m.start(i)
			tried[i] = m.own[i]
			continue
		}
		tried[i]++
		committers[i].Stage(checkpoint.Position{Key: m.key(i), Value: strconv.Itoa(tried[i])})
		shared := rng.IntN(3) == 0
		if shared {
			m.next++
			m.wrote[m.next] = seen[i]
			committers[i].Stage(checkpoint.Position{Key: "shared", Value: strconv.Itoa(m.next)})
		}
		value := m.next
		result, err := committers[i].Write(t.Context(), nothing)
		for _, p := range result.Written {
			if p.Key == m.key(i) {
				m.own[i] = tried[i]
			}
		}
		switch {
		case err != nil:
			m.checkFailure(err, result, shared, seen[i])
			committers[i] = nil // as the supervisor would start it anew
		case shared:
			seen[i] = value
		}
	}
	m.checkHistory()
	m.checkEnd()
}

func (m *model) key(i int) string { return fmt.Sprintf("own%d", i) }

// start makes a committer, without faults, and tells which shared value it has
// seen. What is stored of its own key is what it was told, or a later write
// whose reply was lost.
func (m *model) start(i int) (*checkpoint.Committer, int) {
	m.t.Helper()
	m.store.Fault = nil
	m.starts++
	c, err := checkpoint.NewCommitter(m.t.Context(), m.store, 0, checkpoint.DefaultRetry)
	if err != nil {
		m.t.Fatal(err)
	}
	doc := c.Document()
	own := number(m.t, doc, m.key(i))
	if own < m.own[i] {
		m.t.Fatalf("%s is %d, after %d was said to be stored", m.key(i), own, m.own[i])
	}
	m.own[i] = own
	return c, number(m.t, doc, "shared")
}

// fault is what goes wrong with one call.
func (m *model) fault(call checkpointtest.Call) checkpointtest.Fault {
	switch m.rng.IntN(12) {
	case 0:
		return checkpointtest.Fault{Err: errBusy}
	case 1:
		return checkpointtest.Fault{Err: errReset, Done: true}
	case 2:
		return checkpointtest.Fault{Err: checkpoint.ErrConflict, Done: call == checkpointtest.Put && m.rng.IntN(2) == 0}
	case 3:
		if m.rng.IntN(3) == 0 {
			return checkpointtest.Fault{Err: errPerm}
		}
	case 4: // another writer is quicker, with a key of its own
		return checkpointtest.Fault{Meet: func() {
			fault := m.store.Fault
			m.store.Fault = nil
			err := checkpoint.Update(m.t.Context(), m.store, 0, checkpoint.DefaultRetry, func(doc *checkpoint.Document) error {
				doc.Set("busy", strconv.Itoa(number(m.t, *doc, "busy")+1))
				return nil
			})
			if err != nil {
				m.t.Error(err)
			}
			m.store.Fault = fault
		}}
	}
	return checkpointtest.Fault{}
}

// checkFailure: a committer fails when it may not write, or because the shared
// key is another's, and then its own key is written all the same.
func (m *model) checkFailure(err error, result checkpoint.Result, shared bool, seen int) {
	m.t.Helper()
	switch sysexits.Of(err) {
	case sysexits.NoPerm:
	case sysexits.Protocol:
		m.store.Fault = nil
		doc, _, loadErr := checkpoint.Load(m.t.Context(), m.store)
		if loadErr != nil || !shared || number(m.t, doc, "shared") == seen {
			m.t.Fatalf("a conflict without a cause: %v", err)
		}
		if len(result.Written) != 1 || len(result.Refused) != 1 || result.Refused[0].Key != "shared" {
			m.t.Fatalf("%v, with %+v", err, result)
		}
	default:
		m.t.Fatalf("unexpected failure: %v", err)
	}
}

// checkHistory: own keys only ever grow, and the shared key only ever goes
// from what its writer had seen to what it wrote.
func (m *model) checkHistory() {
	var last checkpoint.Document
	for _, text := range m.store.History() {
		doc, err := checkpoint.ParseDocument(text)
		if err != nil {
			m.t.Fatalf("stored %q: %v", text, err)
		}
		for key := range last.All() {
			if now, before := number(m.t, doc, key), number(m.t, last, key); key != "shared" && now < before {
				m.t.Fatalf("%s went from %d back to %d", key, before, now)
			}
		}
		now, before := number(m.t, doc, "shared"), number(m.t, last, "shared")
		if now != before && m.wrote[now] != before {
			m.t.Fatalf("the shared key went from %d to %d, whose writer had seen %d", before, now, m.wrote[now])
		}
		last = doc
	}
}

// checkEnd: what was said to be stored is.
func (m *model) checkEnd() {
	m.store.Fault = nil
	doc, _, err := checkpoint.Load(m.t.Context(), m.store)
	if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		m.t.Fatal(err)
	}
	for i, told := range m.own {
		if got := number(m.t, doc, m.key(i)); got < told {
			m.t.Errorf("%s is %d, after %d was said to be stored", m.key(i), got, told)
		}
	}
}

func number(t *testing.T, doc checkpoint.Document, key string) int {
	t.Helper()
	text, ok := doc.Get(key)
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
