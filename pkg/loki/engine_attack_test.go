package loki

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// Batches that are decided without a request must not let their stream into the
// schedule twice: of one stream there is one request at a time.
func TestABatchThatIsNotSentKeepsTheOrder(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.cfg.HourLabel = ""
		tr.cfg.BatchEntries = 10
		tr.cfg.StreamRate = 0
		tr.loki.latency = 3 * time.Second
		pr, pw := io.Pipe()
		defer pr.Close()
		go func() {
			say := func(n int, age time.Duration) {
				for i := range n {
					tr.entry("k", fmt.Sprint(i), fmt.Sprint("line ", tr.n), age)
				}
				pw.Write(tr.input.Bytes())
				tr.input.Reset()
			}
			say(10, time.Minute)   // under way for 3 s
			say(10, 2*time.Hour)   // waits, and is too far behind
			say(5, 30*time.Second) // due meanwhile
			time.Sleep(4 * time.Second)
			for range 5 {
				say(10, 20*time.Second)
				time.Sleep(time.Second)
			}
			pw.Close()
		}()
		tr.run(context.Background(), pr)
		if tr.err != nil || tr.reasons()[record.TooFarBehind] != 10 || len(tr.loki.stored) != 65 {
			t.Errorf("%v, letters %v, %d stored", tr.err, tr.reasons(), len(tr.loki.stored))
		}
	})
}

// Memory that acknowledging frees lets the reading go on, when nothing else is
// left that could free any.
func TestAcknowledgingFreesMemory(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.cfg.BufferBytes = 64 << 10
		for i := range 5000 {
			fmt.Fprintf(&tr.input, `{"checkpoint_only":true,"checkpoint_key":"k%d","checkpoint_value":"v","account":{"origin":"0AT%d","rows":0}}`+"\n", i%7, i)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		tr.run(ctx, &tr.input)
		if tr.err != nil || len(tr.acks) != 5000 {
			t.Errorf("%v, %d acks", tr.err, len(tr.acks))
		}
	})
}

// slowReader takes acknowledgements only after a while.
type slowReader struct {
	to   io.Writer
	wait time.Duration
}

func (s *slowReader) Write(p []byte) (int, error) {
	time.Sleep(s.wait)
	return s.to.Write(p)
}

// A reader of the acknowledgements that takes minutes is waited for at the end
// as it is before it; after a signal for the time of grace.
func TestASlowReaderGetsAllAcknowledgements(t *testing.T) {
	for _, tc := range []struct {
		wait, signal time.Duration
		code         sysexits.Code
	}{{3 * time.Minute, 0, 0}, {3 * time.Minute, time.Minute, sysexits.TempFail}, {70 * time.Second, time.Minute, 0}} {
		t.Run(fmt.Sprint(tc.wait, " signal ", tc.signal), func(t *testing.T) {
			bubble(t, func(t *testing.T, tr *trial) {
				tr.cfg.Push, tr.cfg.Capture = tr.loki, tr.capture
				tr.entry("k", "1", "one", time.Minute)
				e, err := NewEngine(tr.cfg)
				if err != nil {
					t.Fatal(err)
				}
				ctx := context.Background()
				if tc.signal > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.signal)
					defer cancel()
				}
				began := time.Now()
				err = e.Run(ctx, &tr.input, &slowReader{tr, tc.wait})
				took := time.Since(began)
				if sysexits.Of(err) != tc.code || took > tc.wait+time.Second || tc.code == 0 && tr.last("k") != "1" {
					t.Errorf("%v after %s, last %q", err, took, tr.last("k"))
				}
				time.Sleep(tc.wait) // for the one that is left behind
				synctest.Wait()
			})
		})
	}
}

// G4: what is remembered of names is bounded, however many there are.
func TestManyNamesCostNoMemory(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		const n = 12500
		tr.cfg.NewStreams, tr.cfg.BatchEntries = 0, 1
		for i := range n {
			tr.typed(fmt.Sprint("T", i), fmt.Sprint("k", i), "v", "x", time.Minute)
			fmt.Fprintf(&tr.input, `{"checkpoint_only":true,"run":{"program":"p","run_id":"%d","at":"2026-07-01T20:00:00Z"}}`+"\n", i)
			fmt.Fprintf(&tr.input, `{"ts":"2026-07-01T20:00:00Z","labels":{"x%d":"y","bad name":"z"},"line":"x"}`+"\n", i)
		}
		tr.cfg.Breaker = false
		tr.loki.latency = time.Millisecond
		tr.start()
		e := tr.engine
		for what, have := range map[string]int{
			"accounts": len(e.accounts), "streams": len(e.streams), "keys": len(e.tracker.keys), "label sets": len(e.labels.sets),
		} {
			if have > 10500 {
				t.Errorf("%d %s are remembered", have, what)
			}
		}
		if a := tr.total(); a.Delivered != n || a.DeadLettered != n || len(tr.acks) < n {
			t.Errorf("account %+v, %d acks", a, len(tr.acks))
		}
		if tr.code() != sysexits.TempFail || !strings.Contains(tr.err.Error(), "never told its end") {
			t.Errorf("%v", tr.err)
		}
	})
}

// What waits to be acknowledged counts as memory, runs and accounts included.
func TestLinesThatWaitCountAsMemory(t *testing.T) {
	for name, line := range map[string]string{
		"runs":     `{"checkpoint_only":true,"run":{"program":"p","run_id":"r","at":"2026-07-01T20:00:00Z","status":0}}`,
		"accounts": `{"checkpoint_only":true,"checkpoint_key":"k","checkpoint_value":"v","account":{"origin":"` + strings.Repeat("x", 500) + `"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, tr *trial) {
				tr.cfg.BufferBytes = 1 << 20
				tr.entry("k", "0", "held", time.Minute)
				tr.loki.script = func(int, *modelPush) *Answer { return &Answer{Status: 503} }
				first := bytes.Clone(tr.input.Bytes())
				text := []byte(line + "\n")
				read := 0
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				tr.run(ctx, readFunc(func(p []byte) (int, error) {
					if first != nil {
						n := copy(p, first)
						first = nil
						return n, nil
					}
					if read > 20<<20 {
						return 0, io.EOF
					}
					read += len(text)
					return copy(p, text), nil
				}))
				if read > 2<<20 {
					t.Errorf("%d bytes were read with a buffer of %d", read, tr.cfg.BufferBytes)
				}
			})
		})
	}
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// A clock that is behind makes no time negative.
func TestLagIsNeverNegative(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.entry("k", "1", "ahead", -5*time.Minute)
		tr.start()
		if a := tr.engine.Accounts()[0]; a.Delivered != 1 || a.Lag.Sum < 0 || a.Lag.Buckets[0] != 1 {
			t.Errorf("%+v", a)
		}
	})
}

// One refusal that proves nothing does not end a run that is slow on its own
// account before it has tried anything else.
func TestOneDoubtfulAnswerEndsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.cfg.BatchEntries = 1
		tr.cfg.Egress.BytesPerSecond, tr.cfg.StreamRate = 1, 0
		tr.typed("A", "k", "0", "POISON"+strings.Repeat("x", 100), time.Minute)
		tr.typed("B", "k", "1", "good", time.Minute)
		tr.loki.script = func(_ int, p *modelPush) *Answer {
			if strings.HasPrefix(p.entries[0].line, "POISON") {
				return &Answer{Status: 400}
			}
			return nil
		}
		tr.start()
		if tr.err != nil || len(tr.letters) != 1 || tr.last("k") != "1" {
			t.Errorf("%v, letters %v, last %q", tr.err, tr.reasons(), tr.last("k"))
		}
	})
}
