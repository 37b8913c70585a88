package pubsub

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sftest"
)

// A pipe that stands still: the credit falls to what is in the pipe, nothing
// more is asked for, and nothing is lost or counted as a fault.
func TestPipeStandsStill(t *testing.T) { // peers 52, 53, 76
	t.Run("session lives", func(t *testing.T) { pipeStandsStill(t, 1) })
	t.Run("session ends", func(t *testing.T) { pipeStandsStill(t, 2) })
}

// pipeStandsStill needs so many logins: the session may end meanwhile.
func pipeStandsStill(t *testing.T, logins int) {
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		r.define()
		r.publish(0, 1000)
		r.out.block(true)
		run := r.start()
		r.bus.WaitCalls("Subscribe", 1)
		synctest.Wait()
		if c := r.bus.Credit(order); c != 0 {
			t.Errorf("credit is %d", c)
		}
		time.Sleep(minutes(90)) // the bus closes the stream after a minute
		synctest.Wait()
		if calls := r.bus.Calls(""); len(calls) != 4 || !strings.HasPrefix(calls[3], "End ") {
			t.Errorf("calls while nothing could be written: %q", calls)
		}
		if c := run.topic(order); c.Reconnects != 0 || c.Stalls != 0 || c.Credit != 0 {
			t.Errorf("the topic is %+v", c)
		}
		if logins > 1 {
			r.org.ExpireTokens()
		}
		r.out.block(false)
		r.out.wait(1000)
		r.wantNumbers(count(0, 1000))
		if r.api.logins != logins {
			t.Errorf("%d logins", r.api.logins)
		}
		if c := run.topic(order); c.Reconnects != int64(logins-1) {
			t.Errorf("the topic is %+v\n%s", c, r.out.log.String())
		}
		run.end()
	})
}

// A pipe that moves, however slowly, keeps the stream open.
func TestPipeMovesSlowly(t *testing.T) {
	inBubble(t, sftest.BusConfig{MaxBatch: 1}, func(r *rig) {
		r.define()
		r.publish(0, 150)
		write := r.cfg.Output.Records
		r.cfg.Output.Records = func(lines []byte) error {
			time.Sleep(25 * time.Second)
			return write(lines)
		}
		run := r.start()
		r.out.wait(150)
		r.wantNumbers(count(0, 150))
		if calls := r.bus.Calls("Subscribe"); len(calls) != 1 {
			t.Errorf("opened %d times: %q", len(calls), calls)
		}
		run.end()
	})
}

// Credit is topped up at half, in few requests, and never goes beyond the
// window.
func TestTopUp(t *testing.T) {
	inBubble(t, sftest.BusConfig{MaxBatch: 7}, func(r *rig) {
		r.define()
		run := r.start()
		r.bus.WaitCredit(order, 100)
		for n := range 500 {
			r.publish(n, n+1)
			synctest.Wait()
			if c := r.bus.Credit(order); c <= 40 || c > 100 {
				t.Fatalf("credit is %d after %d events", c, n+1)
			}
		}
		r.out.wait(500)
		if calls := r.bus.Calls("Fetch"); len(calls) != 10 || calls[0] != "Fetch "+order+" 50" {
			t.Errorf("asked %q", calls)
		}
		run.end()
	})
}

func TestWindow(t *testing.T) {
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		r.define()
		r.cfg.Window = 1
		r.publish(0, 20)
		run := r.start()
		r.out.wait(20)
		r.wantNumbers(count(0, 20))
		run.end()
	})
}

// The bus may not have heard all that was asked for; the next sign of life
// tells, and the stream does not starve.
func TestCreditIsReconciled(t *testing.T) {
	b := newInbox(100, time.Second, newMemory(1), time.Now)
	if n := b.open(); n != 100 {
		t.Fatalf("asked for %d", n)
	}
	b.put(&response{latest: []byte("a"), pending: 10})
	if c := b.creditNow(); c != 100 {
		t.Errorf("credit %d right after the request", c)
	}
	b.lastAsk = b.lastAsk.Add(-time.Hour)
	b.put(&response{latest: []byte("b"), pending: 10})
	if c := b.creditNow(); c != 10 {
		t.Errorf("credit %d", c)
	}
	if n, _ := b.ask(); n != 90 {
		t.Errorf("asked for %d", n)
	}
	if len(b.items) != 1 || string(b.items[0].latest) != "b" {
		t.Errorf("items %v", b.items)
	}
}

// Events as large as they come: what is held stays within the bound of all
// topics, and one response each.
func TestMemoryIsBounded(t *testing.T) {
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		big := strings.Repeat("x", 1<<20-200)
		var topics []string
		for i := range 2 {
			name := fmt.Sprintf("/event/Big%d__e", i)
			topics = append(topics, name)
			r.bus.DefineTopic(sftest.Topic{Name: name, Schema: schemaText(t, "Order_Shipped__e")})
			for n := range 12 {
				e := orderEvent(n)
				e.Value["Notes__c"] = big
				r.bus.Publish(name, e)
			}
		}
		r.cfg.Topics.Names = topics
		r.out.block(true)
		run := r.start()
		synctest.Wait()
		run.memory.mu.Lock()
		used := run.memory.used
		run.memory.mu.Unlock()
		if used < 8<<20 || used > maxHeld+2*4<<20 {
			t.Errorf("%d MB are held", used>>20)
		}
		r.out.block(false)
		r.out.wait(24)
		r.out.mu.Lock()
		if n := r.out.text.Len(); n < 24*len(big) {
			t.Errorf("%d bytes were written", n)
		}
		r.out.mu.Unlock()
		run.end()
	})
}

func TestWatchdog(t *testing.T) { // C11, peers 54, 73
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		r.define()
		ids := r.publish(0, 3)
		r.bus.Fault("Subscribe", sftest.BusFault{After: 3, Stall: true})
		run := r.start()
		r.out.wait(3)
		r.publish(3, 5)
		begin := time.Now()
		r.out.wait(5)
		if d := time.Since(begin); d < 300*time.Second || d > 302*time.Second {
			t.Errorf("noticed after %v", d)
		}
		r.wantNumbers(count(0, 5))
		if calls := r.bus.Calls("Subscribe"); len(calls) != 2 || calls[1] != "Subscribe "+order+" CUSTOM "+b64(ids[2]) {
			t.Errorf("calls %q", calls)
		}
		if c := run.topic(order); c.Stalls != 1 {
			t.Errorf("the topic is %+v", c)
		}
		run.end()
	})
}

// Whatever ends a stream, it goes on behind the last event that was read.
func TestInterruptions(t *testing.T) { // peers 62, 63
	for name, disturb := range map[string]func(r *rig){
		"end": func(r *rig) { r.bus.Fault("Subscribe", sftest.BusFault{After: 2, End: true}) },
		"RST": func(r *rig) {
			r.bus.Fault("Subscribe", sftest.BusFault{After: 2, Code: "INTERNAL", Text: "Received RST_STREAM with code 0"})
		},
		"gateway": func(r *rig) { r.bus.Fault("Subscribe", sftest.BusFault{After: 2, Code: "UNAVAILABLE"}) },
		"code 13": func(r *rig) { r.bus.Fault("Subscribe", sftest.BusFault{After: 2, Error: "service.unavailable"}) },
		"cut":     nil,
		"goaway":  nil,
		"nothing": func(*rig) {},
		"down": func(r *rig) {
			r.bus.Fault("Subscribe", sftest.BusFault{Times: 20, Code: "UNAVAILABLE", Text: "This application is down for maintenance"})
		},
		"internal": func(r *rig) {
			r.bus.Fault("Subscribe", sftest.BusFault{After: 2, Error: "subscription.internal.error"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, sftest.BusConfig{}, func(r *rig) {
				r.define()
				if disturb != nil {
					disturb(r)
				}
				r.publish(0, 4)
				run := r.start()
				r.out.wait(4)
				switch name {
				case "cut":
					r.bus.Cut()
				case "goaway":
					r.bus.GoAway()
				}
				r.publish(4, 8)
				r.out.wait(8)
				r.wantNumbers(count(0, 8))
				synctest.Wait()
				if n := r.bus.Streams(order); n != 1 {
					t.Errorf("%d streams are open", n)
				}
				run.end()
			})
		})
	}
}

func TestDuplicates(t *testing.T) {
	inBubble(t, sftest.BusConfig{Duplicates: 3}, func(r *rig) {
		r.define()
		r.publish(0, 5)
		r.bus.Fault("Subscribe", sftest.BusFault{After: 5, End: true})
		run := r.start()
		r.out.wait(5)
		r.bus.WaitCalls("Subscribe", 2)
		r.publish(5, 6)
		r.out.wait(6)
		r.wantNumbers(count(0, 6))
		if c := run.totals().Types[0]; c.SkippedDuplicate != 3 || c.Read != 9 || c.Written != 6 {
			t.Errorf("counted %+v", c)
		}
		run.end()
	})
}

// Killed at random moments and started again at the last position that came
// out, the source covers the topic, and repeats are byte for byte the same.
func TestKillAndResume(t *testing.T) {
	inBubble(t, sftest.BusConfig{MaxBatch: 9}, func(r *rig) {
		r.define()
		const all = 500
		r.publish(0, all)
		rng := rand.New(rand.NewPCG(1, 1))
		seen := map[string]string{}
		stored, have := "", false
		for round := 0; len(seen) < all; round++ {
			r.out = newOutput()
			r.cfg.Output.Records = r.out.records
			r.cfg.Resume = func(key string) (string, bool) {
				if key != "pubsub:"+order {
					t.Errorf("asked for %s", key)
				}
				return stored, have
			}
			run := r.start()
			r.out.wait(min(1+rng.IntN(60), all-len(seen)))
			run.end()
			list := r.out.all()
			for i, w := range list {
				n := w.line["Order_Number__c"].(string)
				if old, ok := seen[n]; ok && old != string(w.Raw) {
					t.Fatalf("event %s is\n%s\nand was\n%s", n, w.Raw, old)
				}
				if i > 0 && len(seen) > 0 && string(w.Value) == string(list[i-1].Value) {
					t.Fatal("two records with one position")
				}
				seen[n] = string(w.Raw)
			}
			// Not all that came out need have been settled.
			if k := rng.IntN(len(list) + 1); k > 0 {
				stored, have = string(list[k-1].Value), true
			} else if !have {
				clear(seen)
			}
			if round > 500 {
				t.Fatal("no progress")
			}
		}
	})
}

// An output that fails ends the run with its error.
func TestOutputFails(t *testing.T) {
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		r.define()
		r.publish(0, 3)
		broken := errors.New("broken pipe")
		r.out.err = broken
		if _, err := r.pull(); !errors.Is(err, broken) {
			t.Errorf("the end is %v", err)
		}
	})
}

func TestMaxEvents(t *testing.T) {
	inBubble(t, sftest.BusConfig{MaxBatch: 4}, func(r *rig) {
		other := "/event/Other__e"
		r.bus.DefineTopic(sftest.Topic{Name: other, Schema: schemaText(t, "Order_Shipped__e")})
		r.cfg.Topics.Names = []string{order, other}
		r.define()
		r.publish(0, 30)
		for n := range 30 {
			r.bus.Publish(other, orderEvent(n))
		}
		for _, most := range []int64{1, 7, 60} {
			r.out = newOutput()
			r.cfg.Output.Records = r.out.records
			r.cfg.MaxEvents = most
			if _, err := r.pull(); err != nil {
				t.Errorf("the end is %v", err)
			}
			if n := len(r.out.all()); n != int(most) {
				t.Errorf("%d events, want %d", n, most)
			}
		}
	})
}

func TestIdleExit(t *testing.T) {
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		r.define()
		r.publish(0, 3)
		r.cfg.IdleExit = 10 * time.Second
		begin := time.Now()
		go func() {
			r.out.wait(3)
			time.Sleep(8 * time.Second)
			r.publish(3, 4)
		}()
		if _, err := r.pull(); err != nil {
			t.Errorf("the end is %v", err)
		}
		r.wantNumbers(count(0, 4))
		if d := time.Since(begin); d < 18*time.Second || d > 22*time.Second {
			t.Errorf("ended after %v", d)
		}
	})
}

// An org that cannot be reached is not idle.
func TestNotReachedIsNotIdle(t *testing.T) {
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		r.define()
		r.publish(0, 3)
		r.cfg.IdleExit = 10 * time.Second
		r.bus.Fault("Subscribe", sftest.BusFault{Times: 40, Code: "UNAVAILABLE"})
		if _, err := r.pull(); err != nil {
			t.Errorf("the end is %v", err)
		}
		r.wantNumbers(count(0, 3))
	})
}

func TestLatest(t *testing.T) {
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		r.define()
		r.cfg.Replay = Latest
		r.publish(0, 3)
		run := r.start()
		r.bus.WaitCredit(order, 100)
		r.publish(3, 5)
		r.out.wait(2)
		r.wantNumbers(count(3, 5))
		run.end()
	})
}

// What is lost while nobody looked is said, and read as the policy wants.
func TestLostPosition(t *testing.T) { // C9, peers 64, 65, 68
	for _, c := range []struct {
		policy Policy
		want   []string
		events int
	}{
		{LostEarliest, count(2, 6), 4},
		{LostLatest, count(5, 6), 1},
	} {
		t.Run(string(c.policy), func(t *testing.T) {
			inBubble(t, sftest.BusConfig{Retention: 72 * time.Hour}, func(r *rig) {
				r.define()
				old := orderEvent(0)
				now := r.org.Now()
				old.At = now.Add(-100 * time.Hour)
				id := r.bus.Publish(order, old)[0]
				for n, age := range []time.Duration{90, 3, 2, 1} {
					e := orderEvent(n + 1)
					e.At = now.Add(-age * time.Hour)
					r.bus.Publish(order, e)
				}
				r.cfg.Lost = c.policy
				r.cfg.Resume = func(string) (string, bool) { return b64(id), true }
				run := r.start()
				r.bus.WaitCalls("Subscribe", 2)
				r.bus.WaitStreams(order, 1)
				synctest.Wait()
				r.publish(5, 6)
				r.out.wait(c.events + 1)
				r.wantNumbers(c.want)
				gaps := r.out.letters(record.SourceGap)
				if len(gaps) != 1 || gaps[0].Line != nil || string(gaps[0].Key) != "pubsub:"+order || gaps[0].Value != nil {
					t.Fatalf("gaps %v", gaps)
				}
				contains(t, string(gaps[0].Raw), `"gap":{"kind":"pubsub_span","topic":"`+order+`","after":"`+b64(id)+`","resumed":"`+string(c.policy)+`"}`)
				if top := run.topic(order); top.Lost != 1 {
					t.Errorf("the topic is %+v", top)
				}
				contains(t, r.out.log.String(), "Salesforce refuses the position")
				run.end()
			})
		})
	}
}

// A migration of the org makes all ids invalid while the stream is open.
func TestTopicReset(t *testing.T) {
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		r.define()
		r.publish(0, 3)
		run := r.start()
		r.out.wait(3)
		r.bus.Reset()
		r.publish(3, 4)
		r.out.wait(5) // a gap, and the new event: the ids of the others are known
		gaps := r.out.letters(record.SourceGap)
		if len(gaps) != 1 {
			t.Fatalf("%d gaps", len(gaps))
		}
		contains(t, string(gaps[0].Raw), `"after_time":"2026-07-01T10:00:02Z"`)
		if got := r.numbers(); !slices.Equal(got, count(0, 4)) {
			t.Errorf("events %v", got)
		}
		run.end()
	})
}
