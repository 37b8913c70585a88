package loki

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"sf2loki/pkg/record"
)

// plainTracker says the same as tracker in the most obvious way: it keeps
// everything and looks at all of it each time.
type plainTracker struct {
	records []plainRecord
	acked   map[string]int // position after the last token acknowledged
	counted map[string]int // position up to which entries have been counted
}

type plainRecord struct {
	key, token string
	settled    bool
	fate       fate
}

// acks returns the token that is due for each key, and the sums up to it.
func (p *plainTracker) acks() map[string]record.Ack {
	due := map[string]record.Ack{}
	blocked := map[string]bool{}
	sums := map[string]tally{}
	for i, r := range p.records {
		if !r.settled {
			if r.key == "" {
				break
			}
			blocked[r.key] = true
			continue
		}
		if r.key == "" || blocked[r.key] || i < p.acked[r.key] {
			continue
		}
		s := sums[r.key]
		s.add(r.fate.tally())
		sums[r.key] = s
		if r.token != "" {
			due[r.key] = record.Ack{Key: r.key, EscapedValue: []byte(r.token), Delivered: s.delivered, Rejected: s.rejected, Dropped: s.dropped}
			p.counted[r.key] = i + 1
		}
	}
	for key := range due {
		p.acked[key] = p.counted[key]
	}
	return due
}

func TestTrackerSaysWhatThePlainOneSays(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		plain := &plainTracker{acked: map[string]int{}, counted: map[string]int{}}
		tr := newTracker()
		var open []int // positions of unsettled records
		var ids []int32
		keys := []string{"a", "b", "c", ""}
		if seed%3 == 0 {
			keys = keys[:3]
		}
		for step := range 400 {
			switch n := r.IntN(10); {
			case n < 5:
				rec := plainRecord{key: keys[r.IntN(len(keys))]}
				p := position{}
				if rec.key != "" {
					p.key = []byte(rec.key)
					if r.IntN(3) > 0 {
						rec.token = fmt.Sprint(step)
						p.token = []byte(rec.token)
					}
				}
				open = append(open, len(plain.records))
				plain.records = append(plain.records, rec)
				ids = append(ids, tr.add(p))
			case n < 9 && len(open) > 0:
				k := r.IntN(len(open))
				if r.IntN(2) == 0 {
					k = 0
				}
				i := open[k]
				open = append(open[:k], open[k+1:]...)
				f := fate(r.IntN(4))
				plain.records[i].settled, plain.records[i].fate = true, f
				tr.settle(ids[i], f)
				tr.own(ids[i], uint64(i+1))
			default:
				compareAcks(t, seed, step, plain, tr)
			}
		}
		for _, i := range open {
			plain.records[i].settled, plain.records[i].fate = true, fateDelivered
			tr.settle(ids[i], fateDelivered)
		}
		compareAcks(t, seed, -1, plain, tr)
		if tr.kept != 0 {
			t.Fatalf("seed %d: the tracker still counts %d bytes of tokens", seed, tr.kept)
		}
		if tr.live != 0 {
			t.Fatalf("seed %d: %d nodes are left", seed, tr.live)
		}
	}
}

func compareAcks(t *testing.T, seed uint64, step int, plain *plainTracker, tr *tracker) {
	t.Helper()
	want := plain.acks()
	got := map[string]record.Ack{}
	tr.acks(func(a *record.Ack) {
		if _, ok := got[a.Key]; ok {
			t.Fatalf("seed %d step %d: two acknowledgements of %s in one round", seed, step, a.Key)
		}
		got[a.Key] = *a
	})
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("seed %d step %d: acks %v, want %v", seed, step, got, want)
	}
}

func TestTrackerFoldsWhatWaits(t *testing.T) {
	tr := newTracker()
	held := tr.add(position{key: []byte("k"), token: []byte("0")})
	for i := range 10000 {
		id := tr.add(position{key: []byte("k"), token: fmt.Append(nil, i+1)})
		tr.settle(id, fateDelivered)
	}
	if tr.live > 3 {
		t.Errorf("%d nodes for 10000 settled records behind one that is not", tr.live)
	}
	if tr.acks(func(a *record.Ack) { t.Errorf("ack of %s", a.EscapedValue) }); t.Failed() {
		return
	}
	tr.settle(held, fateRejected)
	var got []record.Ack
	tr.acks(func(a *record.Ack) { got = append(got, *a) })
	if len(got) != 1 || string(got[0].EscapedValue) != "10000" || got[0].Delivered != 10000 || got[0].Rejected != 1 {
		t.Errorf("acks %+v", got)
	}
}

func TestTrackerRepeatsAccounts(t *testing.T) {
	tr := newTracker()
	var ids []int32
	add := func(token, account string) {
		p := position{key: []byte("k"), token: []byte(token)}
		if account != "" {
			p.account = []byte(account)
		}
		ids = append(ids, tr.add(p))
	}
	add("1", "")
	add("2", `{"origin":"A"}`)
	add("3", "")
	add("4", `{"origin":"B"}`)
	add("5", "")
	for k, f := range []fate{fateDelivered, fateNone, fateRejected, fateNone, fateDropped} {
		tr.settle(ids[k], f)
	}
	var got []string
	tr.acks(func(a *record.Ack) {
		got = append(got, fmt.Sprintf("%s %d/%d/%d %s", a.EscapedValue, a.Delivered, a.Rejected, a.Dropped, a.Account))
	})
	want := []string{
		`2 1/0/0 {"origin":"A","delivered":1,"rejected":0,"dropped":0}`,
		`4 0/1/0 {"origin":"B","delivered":0,"rejected":1,"dropped":0}`,
		`5 0/0/1 `,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("acks\n%q, want\n%q", got, want)
	}
}

func TestTrackerHandsRunsOnInPlace(t *testing.T) {
	tr := newTracker()
	tr.addRun([]byte(`{"begin":1}`))
	a := tr.add(position{key: []byte("k"), token: []byte("1")})
	tr.addRun([]byte(`{"end":1}`))
	b := tr.add(position{key: []byte("j"), token: []byte("2")})
	var got []string
	note := func(a *record.Ack) { got = append(got, string(a.Run)+string(a.EscapedValue)) }
	tr.acks(note)
	tr.settle(b, fateDelivered)
	tr.acks(note)
	tr.settle(a, fateDelivered)
	tr.acks(note)
	if want := []string{`{"begin":1}`, "2", "1", `{"end":1}`}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", got, want)
	}
}
