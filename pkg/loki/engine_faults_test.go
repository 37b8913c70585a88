package loki

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sf2loki/pkg/fdio"
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

func TestAVanishedReaderEndsTheRun(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		gone := make(chan struct{})
		tr.cfg.Gone = gone
		pr, pw := io.Pipe()
		defer pw.Close()
		go func() {
			time.Sleep(time.Minute)
			close(gone)
		}()
		tr.run(context.Background(), pr)
		pr.Close()
		if tr.code() != sysexits.IOErr || !errors.Is(tr.err, fdio.ErrReaderGone) || tr.took > time.Minute+time.Second {
			t.Errorf("%v after %s", tr.err, tr.took)
		}
	})
}

func TestAnInputThatIsTornOrWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		tail string
		code sysexits.Code
	}{
		"torn":     {`{"ts":"2026-`, sysexits.IOErr},
		"no LF":    {`{}`, sysexits.IOErr},
		"not JSON": {"hello\n", sysexits.DataErr},
		"an array": {"[1]\n", sysexits.DataErr},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, tr *trial) {
				tr.entry("k", "1", "one", time.Minute)
				tr.input.WriteString(tc.tail)
				tr.start()
				if tr.code() != tc.code || tr.last("k") != "1" || len(tr.loki.stored) != 1 || len(tr.letters) != 0 {
					t.Errorf("status %d: %v; last %q, %d letters", tr.code(), tr.err, tr.last("k"), len(tr.letters))
				}
			})
		})
	}
}

func TestWhatIsNoRecordIsADeadLetter(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.entry("k", "1", "one", time.Minute)
		tr.input.WriteString(`{"labels":{"a":"b"},"line":"no time","checkpoint_key":"k","checkpoint_value":"2","more":[1, 2]}` + "\n")
		tr.start()
		if tr.err != nil || tr.reasons()[record.InvalidRecord] != 1 || tr.last("k") != "2" {
			t.Fatalf("%v, letters %v, last %q", tr.err, tr.reasons(), tr.last("k"))
		}
		if raw := string(tr.letters[0].Raw); !strings.Contains(raw, `"more":[1,2]`) {
			t.Errorf("the letter lost a field: %s", raw)
		}
	})
}

func TestDeadLettersInTheStream(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.entry("k", "1", "one", time.Minute)
		tr.input.WriteString(`{"labels":{"source":"pubsub","event_type":"X"},"reason":"source_gap","captured_at":"2026-07-30T12:00:00.000000000Z",` +
			`"checkpoint_key":"k","checkpoint_value":"2","dead_letter":{"v":1,"id":"abc","detail":"file 0AT"}}` + "\n")
		tr.entry("k", "3", "three", time.Minute)
		tr.start()
		if tr.err != nil || len(tr.loki.stored) != 2 || tr.last("k") != "3" || tr.reasons()["source_gap"] != 1 {
			t.Fatalf("%v, letters %v, last %q", tr.err, tr.reasons(), tr.last("k"))
		}
		for _, a := range tr.acks {
			if a.Value == "2" {
				t.Error("a dead letter moved a live position")
			}
		}
	})
}

func TestALetterOfAnotherTenantIsRefused(t *testing.T) {
	for _, force := range []bool{false, true} {
		bubble(t, func(t *testing.T, tr *trial) {
			tr.cfg.ForceTenant = force
			tr.entry("k", "1", "one", time.Minute)
			now := record.AppendTime(nil, time.Now().UnixNano())
			fmt.Fprintf(&tr.input, `{"ts":"%s","labels":{"a":"b"},"line":"two","checkpoint_key":"deadletter:f","checkpoint_value":"1","reason":"too_old","dead_letter":{"v":1,"tenant":"8"}}`+"\n", now)
			tr.start()
			if !force && (tr.code() != sysexits.Config || tr.last("k") != "1" || len(tr.loki.stored) != 1) {
				t.Errorf("%v, %d stored", tr.err, len(tr.loki.stored))
			}
			if force && (tr.err != nil || tr.last("deadletter:f") != "1" || len(tr.loki.stored) != 2) {
				t.Errorf("forced: %v, %d stored", tr.err, len(tr.loki.stored))
			}
		})
	}
}

func TestCutLinesAreCapturedWhole(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.cfg.MaxLine, tr.cfg.CaptureFull = 1000, true
		long := strings.Repeat("é", 1000)
		tr.entry("k", "1", long, time.Minute)
		tr.start()
		if tr.err != nil || tr.last("k") != "1" || tr.reasons()[record.TruncatedCopy] != 1 || string(tr.letters[0].Line) != long {
			t.Errorf("%v, letters %v", tr.err, tr.reasons())
		}
		for line := range tr.loki.lines() {
			if len(line) > 1000 || !strings.HasSuffix(line, "original 2000 bytes]") {
				t.Errorf("pushed %d bytes: ...%q", len(line), line[len(line)-40:])
			}
		}
		if a := tr.acks[0]; a.Delivered != 1 || a.Rejected != 0 {
			t.Errorf("acknowledgement %+v", a)
		}
	})
}

func TestStrictMakesRejectsAnError(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.cfg.Strict = true
		tr.loki.maxLine = 10
		tr.entry("k", "1", strings.Repeat("x", 11), time.Minute)
		tr.start()
		if tr.code() != sysexits.DataErr || tr.last("k") != "1" {
			t.Errorf("%v, last %q", tr.err, tr.last("k"))
		}
	})
}

func TestTimesOfOldEntries(t *testing.T) {
	for _, tc := range []struct {
		times TimePolicy
		now   int // entries pushed with the present time
		old   int // refused for their age
	}{{TimeKeep, 0, 1}, {TimeClamp, 1, 0}, {TimeNow, 2, 0}} {
		bubble(t, func(t *testing.T, tr *trial) {
			tr.cfg.Times = tc.times
			tr.entry("k", "1", "old", 200*time.Hour)
			tr.entry("k", "2", "young", 2*time.Minute)
			tr.start()
			present := 0
			for key := range tr.loki.stored {
				if strings.Contains(key, "event_time=") {
					present++
				}
			}
			if tr.err != nil || present != tc.now || tr.reasons()[record.TooOld] != tc.old {
				t.Errorf("policy %d: %v, %d with event_time, letters %v", tc.times, tr.err, present, tr.reasons())
			}
		})
	}
}

func TestDryRunSendsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.cfg.DryRun = true
		tr.entry("k", "1", "old", 200*time.Hour)
		tr.typed("A", "k", "2", "young", 2*time.Minute)
		tr.typed("B", "k", "3", "young", 2*time.Minute)
		tr.start()
		if tr.err != nil || tr.loki.count() != 0 || len(tr.acks) != 0 || len(tr.letters) != 0 {
			t.Errorf("%v, %d requests, %d acks, %d letters", tr.err, tr.loki.count(), len(tr.acks), len(tr.letters))
		}
		if s := tr.engine.Status(); s.StreamsSeen != 2 || tr.total().Delivered != 2 {
			t.Errorf("status %+v", s)
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

func TestTheStatusOfTheInputIsHandedOn(t *testing.T) {
	begin := `{"checkpoint_only":true,"run":{"program":"sf-pull","run_id":"r1","at":"2026-07-01T00:00:00Z"}}` + "\n"
	end := func(n int) string {
		return fmt.Sprintf(`{"checkpoint_only":true,"run":{"program":"sf-pull","run_id":"r1","at":"2026-07-01T00:00:00Z","status":%d}}`+"\n", n)
	}
	for name, tc := range map[string]struct {
		input string
		empty bool
		code  sysexits.Code
		runs  int
	}{
		"good":         {begin + end(0), false, 0, 3},
		"failed":       {begin + end(77), false, 77, 3},
		"killed":       {begin, false, 75, 2},
		"one of two":   {begin + end(69) + begin + end(0), false, 69, 5},
		"no run lines": {" \n", false, 0, 1},
		"empty":        {"", false, 75, 1},
		"may be empty": {"", true, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, tr *trial) {
				tr.cfg.AllowEmpty = tc.empty
				own := ""
				tr.cfg.OnBegin = func(id string) []byte {
					own = id
					return record.AppendAck(nil, &record.Ack{Run: []byte(`{"program":"loki-push"}`)})
				}
				tr.input.WriteString(tc.input)
				tr.start()
				if tr.code() != tc.code || len(tr.runs) != tc.runs {
					t.Errorf("status %d: %v; runs %q", tr.code(), tr.err, tr.runs)
				}
				if strings.HasPrefix(tc.input, "{") && (own != "r1" || !strings.Contains(tr.runs[0], "sf-pull") || !strings.Contains(tr.runs[1], "loki-push")) {
					t.Errorf("run id %q, runs %q", own, tr.runs)
				}
			})
		})
	}
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
