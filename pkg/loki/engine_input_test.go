package loki

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/fdio"
	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

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
