package loki

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/sysexits"
)

// doubtful are refusals that can as well be a mistake of the configuration.
var doubtful = map[string]Answer{
	"400 of a gateway": textAnswer(400, "invalid API key"),
	"400 empty":        {Status: 400},
	"400 like Loki's":  textAnswer(400, "entry for stream '{a=\"b\"}' has the wrong colour"),
	"400 of all":       textAnswer(400, "20 errors like: entry for stream '{a=\"b\"}' has the wrong colour"),
	"413":              textAnswer(413, "too large"),
	"413 html":         {Status: 413, Body: []byte("<html>413</html>"), ContentType: "text/html"},
	"500 too large":    textAnswer(500, "rpc error: code = ResourceExhausted desc = grpc: received message larger than max (2000 vs. 10)"),
}

// G5: whoever refuses everything in such a way gets no dead letters out of it,
// neither of one entry nor of many, but an exit that says so.
func TestWhatRefusesEverythingMakesNoLetters(t *testing.T) {
	for name, a := range doubtful {
		for _, n := range []int{1, 2, 60} {
			t.Run(fmt.Sprint(name, " of ", n), func(t *testing.T) {
				bubble(t, func(t *testing.T, tr *trial) {
					for i := range n {
						tr.typed(fmt.Sprint("T", i%3), "k", fmt.Sprint(i), "line", time.Minute)
					}
					tr.loki.script = func(int, *modelPush) *Answer { return &a }
					tr.start()
					if tr.code() != sysexits.Config || tr.total().Unsettled != int64(n) || len(tr.letters) != 0 || len(tr.acks) != 0 {
						t.Errorf("%v, %d unsettled, %d letters, %d acks", tr.err, tr.total().Unsettled, len(tr.letters), len(tr.acks))
					}
					var hint interface{ Hint() string }
					if !errors.As(tr.err, &hint) || !strings.Contains(hint.Hint(), "--") {
						t.Errorf("no advice in %v", tr.err)
					}
					if d := tr.took - time.Minute; d < 0 || d > 5*time.Second {
						t.Errorf("ended after %s", tr.took)
					}
					if tr.loki.count() > 60 {
						t.Errorf("%d requests", tr.loki.count())
					}
				})
			})
		}
	}
}

// When it stops refusing, all is stored, and soon.
func TestWhatStopsRefusingLosesNothing(t *testing.T) {
	for name, a := range doubtful {
		for _, before := range []int{0, 1} { // requests that are stored first
			t.Run(fmt.Sprint(name, " after ", before), func(t *testing.T) {
				bubble(t, func(t *testing.T, tr *trial) {
					tr.cfg.BatchEntries = 10
					trouble := 20 * time.Second
					if before > 0 {
						trouble = time.Hour
					}
					end := time.Now().Add(trouble)
					pr, pw := io.Pipe()
					defer pr.Close()
					go func() {
						for i := range 60 {
							tr.typed(fmt.Sprint("T", i%3), "k", fmt.Sprint(i), fmt.Sprint("line ", i), time.Minute)
							pw.Write(tr.input.Bytes())
							tr.input.Reset()
						}
						time.Sleep(trouble)
						pw.Close()
					}()
					tr.loki.script = func(n int, _ *modelPush) *Answer {
						if n > before && time.Now().Before(end) {
							return &a
						}
						return nil
					}
					tr.run(context.Background(), pr)
					if tr.err != nil || len(tr.letters) != 0 || len(tr.loki.stored) != 60 || tr.last("k") != "59" {
						t.Errorf("%v, %d letters, %d stored, last %q", tr.err, len(tr.letters), len(tr.loki.stored), tr.last("k"))
					}
					if late := time.Since(end); late > 2*time.Minute {
						t.Errorf("done %s after the end of the trouble", late)
					}
				})
			})
		}
	}
}

// An entry that is refused by itself is held, and becomes a dead letter once
// something else has been stored; its stream goes on meanwhile.
func TestAnEntryIsBlamedOnceOthersAreStored(t *testing.T) {
	for name, a := range doubtful {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, tr *trial) {
				pr, pw := io.Pipe()
				defer pr.Close()
				say := func(value, line string) {
					tr.entry("k", value, line, time.Minute)
					pw.Write(tr.input.Bytes())
					tr.input.Reset()
				}
				early := 0
				go func() {
					say("0", "good")
					time.Sleep(5 * time.Second)
					say("1", "POISON")
					time.Sleep(10 * time.Minute)
					tr.mu.Lock()
					early = len(tr.lines)
					tr.mu.Unlock()
					say("2", "good too")
					time.Sleep(20 * time.Second)
					pw.Close()
				}()
				tr.loki.script = func(_ int, p *modelPush) *Answer {
					for _, e := range p.entries {
						if e.line == "POISON" {
							return &a
						}
					}
					return nil
				}
				tr.run(context.Background(), pr)
				if tr.err != nil || len(tr.letters) != 1 || early != 0 || tr.last("k") != "2" || len(tr.loki.stored) != 2 {
					t.Errorf("%v, letters %v (%d early), last %q", tr.err, tr.reasons(), early, tr.last("k"))
				}
				if tr.took > 10*time.Minute+30*time.Second {
					t.Errorf("took %s", tr.took)
				}
			})
		})
	}
}

// A run that stored something and ends with such an entry is not complete.
func TestADoubtfulEntryAtTheEndIsUnsettled(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.cfg.BatchEntries = 1
		tr.entry("k", "0", "good", time.Minute)
		tr.entry("k", "1", "POISON", time.Minute)
		tr.loki.script = func(_ int, p *modelPush) *Answer {
			if p.entries[0].line == "POISON" {
				return &Answer{Status: 400}
			}
			return nil
		}
		tr.start()
		if tr.code() != sysexits.TempFail || len(tr.letters) != 0 || tr.last("k") != "0" || tr.total().Unsettled != 1 {
			t.Errorf("%v, letters %v, last %q", tr.err, tr.reasons(), tr.last("k"))
		}
	})
}

// An entry that is larger than the burst by itself does not hold its stream.
func TestAnEntryOverTheBurstIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.entry("k", "0", strings.Repeat("x", 5000), time.Minute)
		tr.entry("k", "1", "good", time.Minute)
		tr.typed("B", "j", "0", "other", time.Minute)
		pr, pw := io.Pipe()
		defer pr.Close()
		go func() {
			pw.Write(tr.input.Bytes())
			tr.input.Reset()
			for i := range 60 {
				time.Sleep(10 * time.Second)
				tr.typed("B", "j", fmt.Sprint(i+1), fmt.Sprint("other ", i), time.Minute)
				pw.Write(tr.input.Bytes())
				tr.input.Reset()
			}
			pw.Close()
		}()
		tr.loki.script = func(_ int, p *modelPush) *Answer {
			if n := len(p.entries[0].line); n > 1000 {
				a := textAnswer(429, fmt.Sprintf("ingestion rate limit exceeded for user x (limit: 1000 bytes/sec) while attempting to ingest '1' lines totaling '%d' bytes, reduce log volume", n))
				return &a
			}
			return nil
		}
		tr.run(context.Background(), pr)
		if tr.code() != sysexits.TempFail || tr.total().Unsettled != 1 || !tr.loki.lines()["good"] || len(tr.letters) != 0 || tr.last("j") != "60" {
			t.Errorf("%v, account %+v, last %q", tr.err, tr.total(), tr.last("j"))
		}
	})
}
