package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/checkpointtest"
	"sf2loki/pkg/lease"
	"sf2loki/pkg/sysexits"
)

const (
	ttl   = 45 * time.Second
	renew = 10 * time.Second
)

// place is a lease and the document that belongs to it.
type place struct{ lease, document *checkpointtest.Memory }

func newPlace() place {
	return place{new(checkpointtest.Memory), new(checkpointtest.Memory)}
}

func (p place) config(id string) lease.Config {
	return lease.Config{
		Backend: lease.Documents(p.lease), Fences: []checkpoint.Store{p.document}, ID: id,
		TTL: ttl, Renew: renew, Log: slog.New(slog.DiscardHandler),
	}
}

func (p place) contend(id string) *lease.Elector { return lease.New(p.config(id)) }

func (p place) lead(t *testing.T, id string) *lease.Term {
	t.Helper()
	term, err := p.contend(id).Acquire(t.Context(), 100*ttl)
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	return term
}

func (p place) epoch(t *testing.T) uint64 {
	t.Helper()
	epoch, _, err := checkpoint.Fence(t.Context(), p.document)
	must(t, err)
	return epoch
}

// put makes text the lease, whatever it is now.
func (p place) put(t *testing.T, text string) {
	t.Helper()
	_, gen, err := p.lease.Get(t.Context())
	if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		t.Fatal(err)
	}
	_, err = p.lease.Put(t.Context(), []byte(text), gen)
	must(t, err)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func closed(c <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// within runs f and tells whether it took between least and most.
func within(t *testing.T, least, most time.Duration, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if took := time.Since(start); took < least || took > most {
		t.Errorf("took %v, want %v to %v", took, least, most)
	}
}

func TestOneLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace()
		var first *lease.Term
		within(t, 0, 0, func() { first = p.lead(t, "a") })
		if first.Epoch() != 1 || p.epoch(t) != 1 {
			t.Errorf("epoch %d, the document's %d", first.Epoch(), p.epoch(t))
		}
		_, err := p.contend("b").Acquire(t.Context(), 10*ttl)
		var held *lease.HeldError
		if !errors.As(err, &held) || held.Holder != "a" || sysexits.Of(err) != sysexits.TempFail {
			t.Errorf("ten ttls later: %v", err)
		}
		if closed(first.Doubt()) {
			t.Error("the leader doubts")
		}
		must(t, first.End(t.Context()))
		var second *lease.Term
		within(t, 0, 0, func() { second = p.lead(t, "b") })
		if second.Epoch() != 2 {
			t.Errorf("epoch %d", second.Epoch())
		}
		must(t, second.End(t.Context()))
	})
}

func TestWaitNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace()
		first := p.lead(t, "a")
		within(t, 0, 0, func() {
			if _, err := p.contend("b").Acquire(t.Context(), 0); sysexits.Of(err) != sysexits.TempFail {
				t.Errorf("got %v", err)
			}
		})
		must(t, first.End(t.Context()))
		term, err := p.contend("b").Acquire(t.Context(), 0)
		must(t, err)
		must(t, term.End(t.Context()))
	})
}

// A leader that was killed is followed within its ttl and two seconds, and not
// before its ttl.
func TestFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace()
		p.put(t, string(lease.Record{Holder: "dead", Epoch: 7, TTL: ttl, Renewed: time.Now(), Term: "x", Count: 1}.Marshal()))
		var term *lease.Term
		within(t, ttl, ttl+2*time.Second, func() { term = p.lead(t, "b") })
		if term.Epoch() != 8 || p.epoch(t) != 8 {
			t.Errorf("epoch %d, the document's %d", term.Epoch(), p.epoch(t))
		}
		must(t, term.End(t.Context()))
	})
}

func TestHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace()
		first := p.lead(t, "a")
		time.AfterFunc(ttl, func() {
			if err := first.End(context.Background()); err != nil {
				t.Error(err)
			}
		})
		var second *lease.Term
		within(t, ttl, ttl+time.Second, func() { second = p.lead(t, "b") })
		must(t, second.End(t.Context()))
	})
}

// #51: the clocks of others are never asked.
func TestClockSkew(t *testing.T) {
	for name, skew := range map[string]time.Duration{"past": -1000 * time.Hour, "future": 1000 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlace()
				count := uint64(0)
				beat := func() {
					count++
					p.put(t, string(lease.Record{Holder: "a", Epoch: 1, TTL: ttl, Renewed: time.Now().Add(skew), Term: "x", Count: count}.Marshal()))
				}
				beat()
				ticker := time.NewTicker(renew)
				defer ticker.Stop()
				beats := make(chan struct{})
				go func() {
					defer close(beats)
					for range 20 {
						<-ticker.C
						beat()
					}
				}()
				var term *lease.Term
				within(t, 20*renew+ttl, 20*renew+ttl+2*time.Second, func() { term = p.lead(t, "b") })
				<-beats
				must(t, term.End(t.Context()))
			})
		})
	}
}

// C20, #96: a lease that is removed while it is held has its leader step down
// at the next renewal, and nobody lead before that could be.
func TestRemovedWhileHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace()
		first := p.lead(t, "a")
		standby := p.contend("b")
		if _, err := standby.Acquire(t.Context(), renew/2); err == nil {
			t.Fatal("two lead")
		}
		p.lease.Remove()
		go func() { <-first.Doubt(); _ = first.End(context.Background()) }()
		within(t, ttl, ttl+2*time.Second, func() {
			term, err := standby.Acquire(t.Context(), 100*ttl)
			must(t, err)
			if !closed(first.Doubt()) {
				t.Error("the first leads still")
			}
			if term.Epoch() != 2 {
				t.Errorf("epoch %d after 1", term.Epoch())
			}
			must(t, term.End(t.Context()))
		})
	})
}

func TestStepDownWhenRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace()
		term := p.lead(t, "a")
		p.lease.Remove()
		within(t, 0, renew, func() { <-term.Doubt() })
		if err := term.End(t.Context()); !errors.Is(err, lease.ErrLost) {
			t.Errorf("the end of a lost term: %v", err)
		}
	})
}

// Who led knows that a lease which is not there any more was there.
func TestRemovedIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace()
		e := p.contend("a")
		term, err := e.Acquire(t.Context(), 0)
		must(t, err)
		p.lease.Remove()
		<-term.Doubt()
		_ = term.End(t.Context())
		within(t, ttl, ttl+2*time.Second, func() {
			term, err := e.Acquire(t.Context(), 100*ttl)
			must(t, err)
			must(t, term.End(t.Context()))
		})
	})
}

// Epochs are those of the documents too: they outlive the lease.
func TestRemovedWhileNobodyHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace()
		for want := uint64(1); want < 5; want++ {
			term := p.lead(t, "a")
			if term.Epoch() != want || p.epoch(t) != want {
				t.Errorf("epoch %d, the document's %d; want %d", term.Epoch(), p.epoch(t), want)
			}
			must(t, term.End(t.Context()))
			if want%2 == 0 {
				p.lease.Remove()
			} else {
				p.document.Remove()
			}
		}
	})
}

// A corrupt lease may have a holder: it is left alone for a ttl, and a holder
// steps down.
func TestCorrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace()
		first := p.lead(t, "a")
		p.put(t, `{"holder":"a","ep`)
		standby := p.contend("b")
		go func() { <-first.Doubt(); _ = first.End(context.Background()) }()
		within(t, ttl, ttl+2*time.Second, func() {
			term, err := standby.Acquire(t.Context(), 100*ttl)
			must(t, err)
			if !closed(first.Doubt()) || term.Epoch() != 2 {
				t.Errorf("the first doubts: %v; epoch %d", closed(first.Doubt()), term.Epoch())
			}
			must(t, term.End(t.Context()))
		})
	})
}

// What is no lease is never written over, by a standby or a leader.
func TestForeign(t *testing.T) {
	for _, text := range []string{`{"eventlogfile:Login":"x"}`, `[]`, `null`, `{"holder":null,"epoch":18446744073709551615}`, `"x"`, `7`, `{"v":2,"holder":"a","epoch":1}`,
		`{"v":1,"holder":"a","epoch":"x"}`, `{"v":1,"holder":"a","epoch":1,"ttl":"soon"}`,
		`{"holder":"` + strings.Repeat("x", lease.MaxBytes), `{` + strings.Repeat(`"":0,`, lease.MaxBytes) + `"":0}`} {
		synctest.Test(t, func(t *testing.T) {
			p := newPlace()
			p.put(t, text)
			_, err := p.contend("a").Acquire(t.Context(), 100*ttl)
			if sysexits.Of(err) != sysexits.Config {
				t.Errorf("%s: %v", text, err)
			}
			if data, _, _ := p.lease.Get(t.Context()); string(data) != text {
				t.Errorf("%s became %s", text, data)
			}
		})
	}
}

// The daemon's lease is respected, #62 with whatever is null in it.
func TestDaemonsLease(t *testing.T) {
	tests := []struct {
		text  string
		least time.Duration
		epoch uint64
	}{
		{`{"holder":"daemon","expires_at":"2026-07-01T10:00:00+00:00","epoch":4}`, ttl, 5},
		{`{"holder":null,"expires_at":null,"epoch":null}`, 0, 1},
		{`{"holder":"daemon","expires_at":null,"epoch":4}`, 0, 5},
		{`{}`, 0, 1},
	}
	for _, test := range tests {
		synctest.Test(t, func(t *testing.T) {
			p := newPlace()
			p.put(t, test.text)
			within(t, test.least, test.least+2*time.Second, func() {
				term := p.lead(t, "a")
				if term.Epoch() != test.epoch {
					t.Errorf("%s: epoch %d, want %d", test.text, term.Epoch(), test.epoch)
				}
				must(t, term.End(t.Context()))
			})
		})
	}
}

// broken lets calls of a store fail while it is set.
type broken struct {
	mu    sync.Mutex
	fault func(call checkpointtest.Call) checkpointtest.Fault
}

func (b *broken) set(fault func(call checkpointtest.Call) checkpointtest.Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault = fault
}

func (b *broken) ask(call checkpointtest.Call) checkpointtest.Fault {
	b.mu.Lock()
	fault := b.fault
	b.mu.Unlock()
	if fault == nil {
		return checkpointtest.Fault{}
	}
	return fault(call)
}

var errDown = sysexits.Errorf(sysexits.Unavailable, "no answer")

func down(checkpointtest.Call) checkpointtest.Fault { return checkpointtest.Fault{Err: errDown} }

// A leader that cannot renew is gone before anybody else can lead.
func TestStoreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace()
		var b broken
		p.lease.Fault = b.ask
		term := p.lead(t, "a")
		b.set(down)
		start := time.Now()
		<-term.Doubt()
		if took := time.Since(start); took != ttl*2/3 {
			t.Errorf("doubt after %v", took)
		}
		<-term.Over()
		if took := time.Since(start); took != ttl*9/10 {
			t.Errorf("over after %v", took)
		}
		b.set(nil)
		must(t, term.End(t.Context())) // it is still ours, so others need not wait
		second := p.lead(t, "b")
		must(t, second.End(t.Context()))
	})
}

// #141: failures shorter than the ttl change nothing.
func TestStoreDownForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace()
		var b broken
		p.lease.Fault = b.ask
		term := p.lead(t, "a")
		for range 5 {
			b.set(down)
			time.Sleep(ttl / 2)
			b.set(nil)
			time.Sleep(renew + time.Second)
		}
		if closed(term.Doubt()) {
			t.Error("the leader doubts")
		}
		must(t, term.End(t.Context()))
	})
}

// A renewal that hangs does not keep the leader from noticing.
func TestStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace()
		var b broken
		p.lease.Fault = b.ask
		term := p.lead(t, "a")
		b.set(func(checkpointtest.Call) checkpointtest.Fault {
			return checkpointtest.Fault{Err: errDown, Meet: func() { time.Sleep(10 * ttl) }}
		})
		within(t, ttl*9/10, ttl*9/10, func() { <-term.Over() })
		_ = term.End(t.Context())
	})
}

// Lost replies of renewals are no loss of the lease.
func TestLostReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace()
		var b broken
		p.lease.Fault = b.ask
		term := p.lead(t, "a")
		n := 0
		b.set(func(call checkpointtest.Call) checkpointtest.Fault {
			if n++; call == checkpointtest.Put || n%3 == 0 {
				return checkpointtest.Fault{Err: errDown, Done: true}
			}
			return checkpointtest.Fault{}
		})
		time.Sleep(10 * ttl)
		if closed(term.Doubt()) {
			t.Error("the leader doubts")
		}
		b.set(nil)
		must(t, term.End(t.Context()))
	})
}

// Whoever sleeps between taking the lease and raising the epoch, past the end
// of the lease, does not raise it any more: it would fence the one who leads.
func TestSleepsBeforeRaising(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace()
		var second *lease.Term
		slept := false
		p.document.Fault = func(call checkpointtest.Call) checkpointtest.Fault {
			if call != checkpointtest.Put || slept {
				return checkpointtest.Fault{}
			}
			slept = true
			return checkpointtest.Fault{Meet: func() { second = p.lead(t, "b") }} // sleeps for a ttl
		}
		_, err := p.contend("a").Acquire(t.Context(), ttl)
		if err == nil {
			t.Fatal("two lead")
		}
		if second.Epoch() != 2 || p.epoch(t) != 2 || closed(second.Doubt()) {
			t.Errorf("the second has epoch %d, the document %d", second.Epoch(), p.epoch(t))
		}
		must(t, second.End(t.Context()))
	})
}

// G7, #47: a leader that was asleep commits nothing, even when it wakes before
// the new one has committed anything.
func TestAsleepLeaderIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace()
		first := p.lead(t, "a")
		old, err := checkpoint.NewCommitter(t.Context(), p.document, first.Epoch(), checkpoint.DefaultRetry)
		must(t, err)
		p.lease.Remove() // as if it had slept through its end
		second := p.lead(t, "b")
		old.Stage(checkpoint.Position{Key: "k", Value: "5"})
		if _, err := old.Write(t.Context(), func() error { return nil }); sysexits.Of(err) != sysexits.Protocol {
			t.Errorf("the old leader's commit: %v", err)
		}
		next, err := checkpoint.NewCommitter(t.Context(), p.document, second.Epoch(), checkpoint.DefaultRetry)
		must(t, err)
		next.Stage(checkpoint.Position{Key: "k", Value: "9"})
		_, err = next.Write(t.Context(), func() error { return nil })
		must(t, err)
		must(t, second.End(t.Context()))
		_ = first.End(t.Context())
	})
}

// A document of another lease is asked about, and one that was moved away is
// no document to lead for.
func TestDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, other := newPlace(), named{new(checkpointtest.Memory)}
		term := p.lead(t, "a")
		config := p.config("b")
		config.Backend = lease.Documents(other)
		var asked string
		config.Check = func(_ context.Context, document string, by checkpoint.Leader) error {
			asked = document + " " + by.Lease + " " + by.Holder
			return sysexits.Errorf(sysexits.Protocol, "held")
		}
		if _, err := lease.New(config).Acquire(t.Context(), 100*ttl); sysexits.Of(err) != sysexits.Protocol || asked != "memory memory a" {
			t.Errorf("%v, asked about %q", err, asked)
		}
		must(t, term.End(t.Context()))
		fill(t, p.document, `{"__moved_to__":"elsewhere"}`)
		if _, err := p.contend("a").Acquire(t.Context(), 100*ttl); sysexits.Of(err) != sysexits.Protocol {
			t.Errorf("a moved document: %v", err)
		}
		fill(t, p.document, `{"k":`)
		if _, err := p.contend("a").Acquire(t.Context(), 100*ttl); sysexits.Of(err) != sysexits.Config {
			t.Errorf("a corrupt document: %v", err)
		}
	})
}

// Hosts may know one lease by different names.
func TestOtherNameOfTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace()
		must(t, p.lead(t, "a").End(t.Context()))
		config := p.config("b")
		config.Backend = lease.Documents(named{p.lease})
		config.Check = func(_ context.Context, document string, by checkpoint.Leader) error {
			return sysexits.Errorf(sysexits.Protocol, "asked about %s", document)
		}
		term, err := lease.New(config).Acquire(t.Context(), 0)
		must(t, err)
		must(t, term.End(t.Context()))
	})
}

type named struct{ *checkpointtest.Memory }

func (named) String() string { return "other" }

func fill(t *testing.T, store checkpoint.Store, text string) {
	t.Helper()
	_, gen, err := store.Get(t.Context())
	must(t, err)
	_, err = store.Put(t.Context(), []byte(text), gen)
	must(t, err)
}

// With several documents either all have the epoch or nobody leads.
func TestSeveralDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, second := newPlace(), new(checkpointtest.Memory)
		_, err := second.Put(t.Context(), []byte(`{"__fence_epoch__":"41"}`), "")
		must(t, err)
		config := p.config("a")
		config.Fences = append(config.Fences, second)
		term, err := lease.New(config).Acquire(t.Context(), 100*ttl)
		must(t, err)
		if epoch, _, _ := checkpoint.Fence(t.Context(), second); term.Epoch() != 42 || epoch != 42 || p.epoch(t) != 42 {
			t.Errorf("epochs %d, %d, %d", term.Epoch(), p.epoch(t), epoch)
		}
		must(t, term.End(t.Context()))
		second.Fault = down
		if _, err := lease.New(config).Acquire(t.Context(), ttl); sysexits.Of(err) != sysexits.Unavailable {
			t.Errorf("a document that cannot be reached: %v", err)
		}
		r, _, err := lease.Documents(p.lease).Read(t.Context())
		if err != nil || r.Holder != "" {
			t.Errorf("the lease is held by %q, %v", r.Holder, err)
		}
	})
}

func TestLive(t *testing.T) {
	now := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		r    lease.Record
		want bool
	}{
		{lease.Record{Holder: "a", TTL: ttl, Renewed: now}, true},
		{lease.Record{Holder: "a", TTL: ttl, Renewed: now.Add(-ttl - time.Second)}, true},
		{lease.Record{Holder: "a", TTL: ttl, Renewed: now.Add(-2 * ttl)}, false},
		{lease.Record{Holder: "a", TTL: ttl, Renewed: now.Add(ttl)}, true},
		{lease.Record{TTL: ttl, Renewed: now}, false},
		{lease.Record{Holder: "daemon", Renewed: now.Add(30 * time.Second)}, true},
	} {
		if got := lease.Live(test.r, now); got != test.want {
			t.Errorf("%+v: %v", test.r, got)
		}
	}
}
