package loki

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// #86: what comes later never overtakes what is not settled, whether the run
// is stopped or its input ends, and other keys are not held up by it.
func TestLaterTokensDoNotOvertake(t *testing.T) {
	for _, stopped := range []bool{true, false} {
		t.Run(fmt.Sprint("stopped ", stopped), func(t *testing.T) {
			bubble(t, func(t *testing.T, tr *trial) {
				tr.cfg.BatchEntries = 1
				tr.typed("A", "k", "1", "one", time.Minute)
				tr.typed("B", "k", "2", "two", time.Minute)
				tr.typed("C", "j", "1", "other key", time.Minute)
				tr.only("k", "3")
				tr.loki.script = func(_ int, p *modelPush) *Answer {
					if strings.Contains(p.labels, `"A"`) {
						time.Sleep(time.Millisecond) // the others are stored before: later they would tell that A alone fails
						a := textAnswer(503, "busy")
						return &a
					}
					return nil
				}
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				if !stopped {
					ctx = context.Background()
					tr.cfg.GiveUp = time.Minute
				}
				tr.run(ctx, &tr.input)
				if tr.last("k") != "" || tr.last("j") != "1" {
					t.Errorf("last tokens %q and %q", tr.last("k"), tr.last("j"))
				}
				want := sysexits.TempFail
				if !stopped {
					want = sysexits.Unavailable
				}
				if tr.code() != want || tr.total().Unsettled != 1 {
					t.Errorf("status %d, %d unsettled: %v", tr.code(), tr.total().Unsettled, tr.err)
				}
			})
		})
	}
}

func TestARecordWithoutKeyHoldsBackLaterTokens(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.cfg.BatchEntries = 1
		tr.typed("A", "k", "1", "before", time.Minute)
		tr.typed("B", "", "", "no key", time.Minute)
		tr.typed("A", "k", "2", "after", time.Minute)
		tr.loki.script = func(_ int, p *modelPush) *Answer {
			if strings.Contains(p.labels, `"B"`) {
				a := textAnswer(503, "busy")
				return &a
			}
			return nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		tr.run(ctx, &tr.input)
		if tr.last("k") != "1" {
			t.Errorf("last token %q", tr.last("k"))
		}
	})
}

// D1: without a destination what is refused is dropped, counted and passed.
func TestWithoutDestinationRefusedEntriesAreCounted(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.noCapture = true
		tr.loki.maxLine = 100
		tr.entry("k", "1", "one", time.Minute)
		tr.entry("k", "2", strings.Repeat("x", 101), time.Minute)
		tr.entry("k", "3", "three", time.Minute)
		tr.start()
		a := tr.engine.Accounts()[0]
		if tr.err != nil || tr.last("k") != "3" || a.Discarded[record.LineTooLong] != 1 || a.Delivered != 2 {
			t.Errorf("%v, last %q, account %+v", tr.err, tr.last("k"), a)
		}
		if got := tr.acks[len(tr.acks)-1]; got.Dropped != 1 || got.Rejected != 0 || got.Delivered != 2 {
			t.Errorf("acknowledgement %+v", got)
		}
	})
}

// D5, #116: a server that refuses everything for one reason stops the run. The
// batch that trips the breaker is neither captured nor acknowledged.
func TestTheBreakerOpens(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.loki.maxLine = 10
		for i := range 10000 {
			line := "good"
			if i >= 300 {
				line = strings.Repeat("x", 11)
			}
			tr.entry("k", fmt.Sprint(i), line+fmt.Sprint(i)[:1], time.Minute)
		}
		tr.cfg.BatchEntries = 50
		tr.start()
		if tr.code() != sysexits.Config || !strings.Contains(tr.err.Error(), "line_too_long") {
			t.Fatalf("status %d: %v", tr.code(), tr.err)
		}
		var hint interface{ Hint() string }
		if !errors.As(tr.err, &hint) || !strings.Contains(hint.Hint(), "--max-line-bytes") {
			t.Errorf("no cure in %#v", tr.err)
		}
		// 300 good, then it takes as many bad ones to be half.
		if n := len(tr.letters); n < 100 || n >= 300 {
			t.Errorf("%d letters", n)
		}
		if want := fmt.Sprint(300 + len(tr.letters) - 1); tr.last("k") != want {
			t.Errorf("last token %q, want %s", tr.last("k"), want)
		}
	})
}

// Bad entries that are found here are decided long before their good
// neighbours are; that must not make them look like the majority.
func TestTheBreakerSeesTheOrderOfTheInput(t *testing.T) {
	for _, tc := range []struct {
		every int
		code  sysexits.Code
	}{{5, 0}, {2, sysexits.Config}} {
		bubble(t, func(t *testing.T, tr *trial) {
			for i := range 5000 {
				tr.entry("k", fmt.Sprint(i), "good", time.Minute)
				if i%tc.every == 1 {
					tr.input.WriteString(`{"labels":{"a":"b"},"line":"no time","checkpoint_key":"k","checkpoint_value":"x"}` + "\n")
				}
				if tc.every == 2 {
					tr.input.WriteString(`{"labels":{"a":"b"},"line":"no time","checkpoint_key":"k","checkpoint_value":"x"}` + "\n")
				}
			}
			tr.loki.latency = 10 * time.Second
			tr.start()
			if tr.code() != tc.code {
				t.Errorf("one in %d: %v", tc.every, tr.err)
			}
		})
	}
}

func TestTheBreakerOpensAtOnce(t *testing.T) {
	for name, set := range map[string]func(*modelLoki){
		"metadata_disallowed": func(m *modelLoki) { m.noMeta = true },
		"invalid_labels":      func(m *modelLoki) { m.required = "team" },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, tr *trial) {
				set(tr.loki)
				tr.write(&record.Record{
					Time: time.Now().UnixNano(), HasTime: true, Labels: []record.Pair{{Name: []byte("a"), Value: []byte("b")}},
					Metadata: []record.Pair{{Name: []byte("m"), Value: []byte("x")}}, Line: []byte("l"), Key: []byte("k"), Value: []byte("1"),
				})
				tr.start()
				if tr.code() != sysexits.Config || !strings.Contains(tr.err.Error(), name) || len(tr.letters) != 0 || len(tr.acks) != 0 {
					t.Errorf("%v, %d letters, %d acks", tr.err, len(tr.letters), len(tr.acks))
				}
			})
		})
	}
}

func TestTheBreakerLeavesAgesAlone(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		for i := range 1000 {
			tr.entry("k", fmt.Sprint(i), "old", 200*time.Hour)
		}
		tr.start()
		if tr.err != nil || tr.reasons()[record.TooOld] != 1000 || tr.last("k") != "999" || tr.loki.count() != 0 {
			t.Errorf("%v, letters %v, %d requests", tr.err, tr.reasons(), tr.loki.count())
		}
	})
}

// D7: a capture that fails is counted and goes on, or stops the run before the
// acknowledgement, as it is told.
func TestACaptureThatFails(t *testing.T) {
	for _, stop := range []bool{false, true} {
		t.Run(fmt.Sprint("stop ", stop), func(t *testing.T) {
			bubble(t, func(t *testing.T, tr *trial) {
				tr.cfg.CaptureOrStop = stop
				tr.captureErr = errors.New("no space left on device")
				tr.loki.maxLine = 10
				tr.entry("k", "1", strings.Repeat("x", 11), time.Minute)
				tr.start()
				status := tr.engine.Status()
				if stop && (tr.code() != sysexits.IOErr || len(tr.acks) != 0 || tr.total().Unsettled != 1) {
					t.Errorf("%v, %d acks", tr.err, len(tr.acks))
				}
				if !stop && (tr.err != nil || tr.last("k") != "1" || tr.acks[0].Dropped != 1) {
					t.Errorf("%v, acks %+v", tr.err, tr.acks)
				}
				if status.CaptureErrors != 1 {
					t.Errorf("%d capture errors counted", status.CaptureErrors)
				}
			})
		})
	}
}

// D32: a batch of nothing but poison is acknowledged in order, for all keys.
func TestOnlyPoisonIsAcknowledged(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.loki.maxLine = 10
		for i := range 20 {
			tr.entry(fmt.Sprint("k", i%2), fmt.Sprint(i), strings.Repeat("x", 11), time.Minute)
		}
		tr.start()
		if tr.err != nil || len(tr.letters) != 20 || tr.last("k0") != "18" || tr.last("k1") != "19" {
			t.Errorf("%v, %d letters, last %q %q", tr.err, len(tr.letters), tr.last("k0"), tr.last("k1"))
		}
	})
}

// D33: trouble that does not end is never a dead letter.
func TestTroubleIsNeverADeadLetter(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.cfg.GiveUp = time.Hour
		tr.entry("k", "1", "one", time.Minute)
		tr.entry("k", "2", "two", time.Minute)
		tr.loki.script = func(int, *modelPush) *Answer { a := textAnswer(503, "busy"); return &a }
		tr.start()
		if tr.code() != sysexits.Unavailable || len(tr.letters) != 0 || len(tr.acks) != 0 {
			t.Errorf("%v, %d letters, %d acks", tr.err, len(tr.letters), len(tr.acks))
		}
	})
}

// Without the hour label a request spans no more than the window, and what
// lies further behind is not sent at all.
func TestTheWindowWithoutHourLabel(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.cfg.HourLabel = ""
		for i := range 1000 { // a sparse daily file
			tr.entry("k", fmt.Sprint(i), fmt.Sprint("row ", i), 24*time.Hour-time.Duration(i)*86*time.Second)
		}
		lost := 0
		tr.loki.script = func(n int, p *modelPush) *Answer {
			if n%5 == 0 { // stored, the reply is lost
				lost++
				tr.loki.store(p)
				return &Answer{Err: errors.New("connection reset by peer")}
			}
			return nil
		}
		tr.start()
		if tr.err != nil || len(tr.letters) != 0 || len(tr.loki.stored) != 1000 || lost == 0 {
			t.Errorf("%v, letters %v, %d stored, %d replies lost", tr.err, tr.reasons(), len(tr.loki.stored), lost)
		}
		for _, p := range tr.loki.requests {
			if span := p.entries[len(p.entries)-1].time - p.entries[0].time; span > int64(time.Hour) {
				t.Errorf("a request spans %s", time.Duration(span))
			}
		}
	})
}

func TestWhatIsTooFarBehindIsNotSent(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.cfg.HourLabel = ""
		tr.cfg.BatchEntries = 1
		tr.entry("k", "0", "newest", time.Minute)
		for i := range 50 {
			tr.entry("k", fmt.Sprint(i+1), "late", 3*time.Hour)
		}
		tr.start()
		if tr.err != nil || tr.reasons()[record.TooFarBehind] != 50 || tr.loki.count() != 1 || tr.last("k") != "50" {
			t.Errorf("%v, letters %v, %d requests", tr.err, tr.reasons(), tr.loki.count())
		}
		if !strings.Contains(string(tr.letters[0].Raw), `"maybe_stored":true`) {
			t.Errorf("letter %s", tr.letters[0].Raw)
		}
	})
}

// The hour label lets everything in, in any order and any number of times.
func TestTheHourLabelTakesAnyOrder(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		for range 3 {
			for i := range 500 {
				n := (i * 7) % 500
				tr.write(&record.Record{
					Time: time.Now().UnixNano() - int64(24*time.Hour) + int64(n)*int64(170*time.Second), HasTime: true,
					Labels: []record.Pair{{Name: []byte("source"), Value: []byte("s")}}, Line: fmt.Append(nil, "row ", n), Key: []byte("k"), Value: fmt.Append(nil, i),
				})
			}
		}
		tr.start()
		if tr.err != nil || len(tr.letters) != 0 || len(tr.loki.stored) != 500 {
			t.Errorf("%v, letters %v, %d stored", tr.err, tr.reasons(), len(tr.loki.stored))
		}
	})
}

// G4, #16: memory is bounded whatever the outage, and reading goes on after it.
func TestMemoryIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.cfg.BufferBytes = 1 << 20
		token := strings.Repeat("t", 10000)
		pr, pw := io.Pipe()
		defer pr.Close()
		var written atomic.Int64
		go func() {
			for i := range 3000 {
				tr.typed(fmt.Sprint("T", i%7), "k", fmt.Sprint(i, token), strings.Repeat("x", 1000), time.Minute)
				pw.Write(tr.input.Bytes())
				tr.input.Reset()
				written.Add(1)
			}
			pw.Close()
		}()
		outage := time.Now().Add(time.Hour)
		most, atEnd := int64(0), int64(0)
		tr.loki.script = func(int, *modelPush) *Answer {
			tr.loki.mu.Lock()
			defer tr.loki.mu.Unlock()
			most = max(most, tr.engine.used.Load())
			if time.Now().Before(outage) {
				atEnd = written.Load()
				return &Answer{Err: errors.New("connection refused")}
			}
			return nil
		}
		tr.run(context.Background(), pr)
		if tr.err != nil || len(tr.loki.stored) != 3000 {
			t.Fatalf("%v, %d stored", tr.err, len(tr.loki.stored))
		}
		if most > 1<<20+100000 || atEnd > 200 {
			t.Errorf("at most %d bytes were held, %d records were read during the outage", most, atEnd)
		}
	})
}

// What lies around a held stream flows, at no cost of memory.
func TestAHeldStreamCostsNoMemory(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.cfg.BufferBytes = 256 << 10
		tr.typed("HELD", "k", "0", "held", time.Minute)
		for i := range 20000 {
			tr.typed("T", "k", fmt.Sprint(i+1), "x", time.Minute)
		}
		tr.cfg.StreamRate = 0
		tr.loki.script = func(_ int, p *modelPush) *Answer {
			if strings.Contains(p.labels, "HELD") {
				a := textAnswer(429, "maximum active stream limit exceeded when trying to create stream {x=\"y\"}, reduce the number of active streams")
				return &a
			}
			return nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		tr.run(ctx, &tr.input)
		if tr.total().Delivered != 20000 || tr.last("k") != "" {
			t.Errorf("%d delivered, last %q", tr.total().Delivered, tr.last("k"))
		}
	})
}

func TestTheStreamIsPaced(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		for i := range 6000 {
			tr.entry("k", fmt.Sprint(i), strings.Repeat("x", 1000), time.Minute)
		}
		tr.start()
		bytes := 0
		for _, p := range tr.loki.requests {
			bytes += p.size
			if p.size > 256<<10 {
				t.Errorf("a request of %d bytes", p.size)
			}
		}
		if rate := float64(bytes-256<<10) / tr.took.Seconds(); rate > 1250e3 || rate < 1000e3 {
			t.Errorf("%.0f bytes per second in %s", rate, tr.took)
		}
		if len(tr.acks) > 7 {
			t.Errorf("%d acknowledgements for 6 batches", len(tr.acks))
		}
	})
}

// However late single requests arrive, no second sees as much of a stream as
// makes Loki shard it.
func TestNoSecondIsFastEnoughForShards(t *testing.T) {
	const desiredRate = 1536 << 10 // shard_streams.desired_rate
	bubble(t, func(t *testing.T, tr *trial) {
		for i := range 20000 {
			tr.entry("k", fmt.Sprint(i), strings.Repeat("x", 1000), time.Minute)
		}
		r := rand.New(rand.NewPCG(1, 2))
		type arrival struct {
			at   time.Time
			size int
		}
		// What a run before this one sent in its last second.
		var arrivals []arrival
		for i := range 5 {
			arrivals = append(arrivals, arrival{time.Now().Add(-time.Duration(i) * 218 * time.Millisecond), 256 << 10})
		}
		tr.loki.script = func(_ int, p *modelPush) *Answer {
			switch r.IntN(4) {
			case 0:
				time.Sleep(time.Duration(r.IntN(600)) * time.Millisecond)
			case 1:
				time.Sleep(time.Duration(r.IntN(90)) * time.Millisecond)
			}
			arrivals = append(arrivals, arrival{time.Now(), p.size})
			return nil
		}
		tr.start()
		for i, last := range arrivals {
			sum := 0
			for _, a := range arrivals[:i+1] {
				if last.at.Sub(a.at) <= time.Second {
					sum += a.size
				}
			}
			if sum > desiredRate {
				t.Fatalf("%d bytes within a second, at request %d", sum, i)
			}
		}
	})
}

func TestNewStreamsSlowDown(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.cfg.NewStreams = 60
		for i := range 90 {
			tr.typed(fmt.Sprint("T", i), "k", fmt.Sprint(i), "x", time.Minute)
		}
		tr.start()
		if tr.err != nil || len(tr.loki.stored) != 90 || tr.took < 29*time.Minute || tr.took > 31*time.Minute {
			t.Errorf("%v, %d stored after %s", tr.err, len(tr.loki.stored), tr.took)
		}
	})
}

func TestReadinessNamesWhatHolds(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.entry("k", "1", "one", time.Minute)
		var early, late error
		tr.loki.script = func(n int, _ *modelPush) *Answer {
			if n == 3 {
				early = tr.engine.Ready()
			}
			if time.Since(tr.loki.requests[0].at) > 16*time.Minute {
				late = tr.engine.Ready()
				return nil
			}
			a := textAnswer(503, "on fire")
			return &a
		}
		tr.start()
		if early != nil || late == nil || !strings.Contains(late.Error(), "Login") || !strings.Contains(late.Error(), "on fire") {
			t.Errorf("early %v, late %v", early, late)
		}
		if err := tr.engine.Ready(); err != nil {
			t.Errorf("at the end: %v", err)
		}
	})
}
