package loki

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// script answers the first requests with these, and then lets the model judge.
func script(answers ...Answer) func(int, *modelPush) *Answer {
	return func(n int, _ *modelPush) *Answer {
		if n > len(answers) || answers[n-1].Status == 0 && answers[n-1].Err == nil {
			return nil
		}
		return &answers[n-1]
	}
}

// Answers that are nobody's fault are waited out: nothing becomes a dead
// letter, nothing is acknowledged before it is stored, everything is stored.
func TestWaitsOutWhatIsNotTheEntriesFault(t *testing.T) {
	html := Answer{Status: 200, Body: []byte("<html>sign in</html>"), ContentType: "text/html"}
	for name, a := range map[string]Answer{
		"260 blocked":     textAnswer(260, "ingestion blocked for user 'x' until '2036-01-01T00:00:00Z' with status code '260'"),
		"301":             {Status: 301, Location: "https://elsewhere/"},
		"302":             {Status: 302, Location: "https://elsewhere/login"},
		"307":             {Status: 307, Location: "https://elsewhere/"},
		"401":             textAnswer(401, "no org id"),
		"403":             textAnswer(403, "forbidden"),
		"404":             textAnswer(404, "404 page not found"),
		"405":             {Status: 405},
		"406":             textAnswer(406, "not acceptable"),
		"409":             textAnswer(409, "conflict"),
		"415":             textAnswer(415, "unsupported"),
		"422":             textAnswer(422, "error at least one valid stream is required for ingestion"),
		"429":             textAnswer(429, "ingestion rate limit exceeded for user x (limit: 4194304 bytes/sec) while attempting to ingest '1' lines totaling '20' bytes, reduce log volume"),
		"429 stream":      textAnswer(429, "maximum active stream limit exceeded when trying to create stream {a=\"b\"}, reduce the number of active streams"),
		"500 empty ring":  textAnswer(500, "empty ring"),
		"502":             textAnswer(502, "bad gateway"),
		"503":             textAnswer(503, "The server cannot accept more requests at this time."),
		"504":             textAnswer(504, "timeout"),
		"reset":           {Err: errors.New("connection reset by peer")},
		"200 html":        html,
		"400 html":        {Status: 400, Body: []byte("<html>bad request</html>"), ContentType: "text/html"},
		"400 undecodable": textAnswer(400, "snappy: corrupt input"),
		"400 tenant":      textAnswer(400, "tenant ID 'a/b' contains unsupported character '/'"),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, tr *trial) {
				tr.entry("k", "1", "one", time.Minute)
				tr.entry("k", "2", "two", time.Minute)
				acksBefore := -1
				tr.loki.script = func(n int, _ *modelPush) *Answer {
					if n > 3 {
						tr.mu.Lock()
						acksBefore = len(tr.acks)
						tr.mu.Unlock()
						return nil
					}
					return &a
				}
				tr.start()
				if tr.err != nil {
					t.Fatal(tr.err)
				}
				if len(tr.letters) != 0 || acksBefore != 0 {
					t.Errorf("%d letters, %d acknowledgements before anything was stored", len(tr.letters), acksBefore)
				}
				if tr.last("k") != "2" || len(tr.loki.stored) != 2 || tr.loki.count() != 4 {
					t.Errorf("last %q, %d stored, %d requests", tr.last("k"), len(tr.loki.stored), tr.loki.count())
				}
			})
		})
	}
}

func TestStoredIsWhatTheAnswerProves(t *testing.T) {
	for name, a := range map[string]Answer{
		"204":      {Status: 204},
		"200":      {Status: 200},
		"200 JSON": {Status: 200, Body: []byte(`{"status":"ok"}`), ContentType: "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, tr *trial) {
				tr.entry("k", "1", "one", time.Minute)
				tr.loki.script = script(a)
				tr.start()
				if tr.err != nil || tr.last("k") != "1" || tr.loki.count() != 1 {
					t.Errorf("%v, last %q, %d requests", tr.err, tr.last("k"), tr.loki.count())
				}
			})
		})
	}
}

// A wrong configuration ends a run that has stored nothing yet after a minute;
// one that worked before it keeps trying, unless told when to stop.
func TestGivesUpOnAWrongConfiguration(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer Answer
		stored int // requests that work before
		giveUp time.Duration
		code   sysexits.Code
		after  time.Duration // 0: goes on until stopped
	}{
		{"401 at first", textAnswer(401, "no org id"), 0, 0, sysexits.NoPerm, time.Minute},
		{"404 at first", textAnswer(404, "404 page not found"), 0, 0, sysexits.Config, time.Minute},
		{"html at first", Answer{Status: 200, Body: []byte("<html>"), ContentType: "text/html"}, 0, 0, sysexits.Config, time.Minute},
		{"401 later", textAnswer(401, "no org id"), 1, 0, sysexits.TempFail, 0},
		{"401 later with a limit", textAnswer(401, "no org id"), 1, 10 * time.Minute, sysexits.NoPerm, 10 * time.Minute},
		{"503", textAnswer(503, "busy"), 0, 0, sysexits.TempFail, 0},
		{"503 with a limit", textAnswer(503, "busy"), 0, 5 * time.Minute, sysexits.Unavailable, 5 * time.Minute},
		{"no answer with a limit", Answer{Err: errors.New("connection refused")}, 0, 5 * time.Minute, sysexits.Unavailable, 5 * time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, tr *trial) {
				tr.cfg.GiveUp = tc.giveUp
				tr.cfg.BatchEntries = 1
				for i := range 3 {
					tr.entry("k", fmt.Sprint(i), "line", time.Minute)
				}
				tr.loki.script = func(n int, _ *modelPush) *Answer {
					if n <= tc.stored {
						return nil
					}
					return &tc.answer
				}
				ctx := context.Background()
				if tc.after == 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, 3*time.Hour)
					defer cancel()
					tc.after = 3*time.Hour + 25*time.Second
				}
				tr.run(ctx, &tr.input)
				if tr.code() != tc.code {
					t.Errorf("status %d: %v", tr.code(), tr.err)
				}
				if d := tr.took - tc.after; d < 0 || d > time.Second {
					t.Errorf("ended after %s, want %s", tr.took, tc.after)
				}
				if len(tr.letters) != 0 || len(tr.loki.stored) != tc.stored {
					t.Errorf("%d letters, %d stored", len(tr.letters), len(tr.loki.stored))
				}
				if got := tr.total().Unsettled; got != int64(3-tc.stored) {
					t.Errorf("%d unsettled", got)
				}
			})
		})
	}
}

func TestHonoursRetryAfter(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.entry("k", "1", "one", time.Minute)
		a := textAnswer(429, "slow down")
		a.RetryAfter = 7 * time.Second
		tr.loki.script = script(a, a, a, a, a, a, a, a)
		tr.start()
		for i, p := range tr.loki.requests[1:] {
			if gap := p.at.Sub(tr.loki.requests[i].at); gap < 7*time.Second || gap > 40*time.Second {
				t.Errorf("request %d came %s after the one before", i+1, gap)
			}
		}
		if tr.err != nil || len(tr.loki.requests) != 9 {
			t.Errorf("%v, %d requests", tr.err, len(tr.loki.requests))
		}
	})
}

func TestHalvesWhatIsTooLarge(t *testing.T) {
	for name, tooLarge := range map[string]func(int) Answer{
		"413": func(n int) Answer { return textAnswer(413, "request body too large") },
		"grpc": func(n int) Answer {
			return textAnswer(500, fmt.Sprintf("rpc error: code = ResourceExhausted desc = grpc: received message larger than max (%d vs. 30000)", n))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, tr *trial) {
				for i := range 200 {
					size := 1000
					if i == 77 {
						size = 40000
					}
					tr.entry("k", fmt.Sprint(i), fmt.Sprintf("%d ", i)+strings.Repeat("x", size), time.Minute)
				}
				tr.loki.script = func(_ int, p *modelPush) *Answer {
					if p.size <= 30000 {
						return nil
					}
					a := tooLarge(p.size)
					return &a
				}
				tr.start()
				if tr.err != nil || tr.last("k") != "199" || len(tr.loki.stored) != 199 {
					t.Fatalf("%v, last %q, %d stored", tr.err, tr.last("k"), len(tr.loki.stored))
				}
				if len(tr.letters) != 1 || string(tr.letters[0].Reason) != "oversized" || !strings.HasPrefix(string(tr.letters[0].Line), "77 ") {
					t.Errorf("letters %v", tr.reasons())
				}
				if tr.loki.count() > 40 {
					t.Errorf("%d requests", tr.loki.count())
				}
			})
		})
	}
}

func TestSplitsARequestThatIsOverTheBurst(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		for i := range 100 {
			tr.entry("k", fmt.Sprint(i), strings.Repeat("x", 1000), time.Minute)
		}
		tr.loki.script = func(_ int, p *modelPush) *Answer {
			n := 0
			for _, e := range p.entries {
				n += len(e.line)
			}
			if n <= 20000 {
				return nil
			}
			a := textAnswer(429, fmt.Sprintf("ingestion rate limit exceeded for user x (limit: 10485 bytes/sec) while attempting to ingest '%d' lines totaling '%d' bytes, reduce log volume or contact your Loki administrator to see if the limit can be increased", len(p.entries), n))
			return &a
		}
		tr.start()
		if tr.err != nil || len(tr.loki.stored) != 100 || len(tr.letters) != 0 {
			t.Errorf("%v, %d stored, %d letters", tr.err, len(tr.loki.stored), len(tr.letters))
		}
	})
}

// Z30: the limit on streams stops the new stream, and nothing else.
func TestStreamLimitHoldsThatStreamOnly(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.cfg.BatchEntries = 1
		tr.loki.streams = 2
		pr, pw := io.Pipe()
		defer pr.Close()
		go func() {
			for i := range 20 {
				tr.typed("A", "a", fmt.Sprint(i), fmt.Sprint("a", i), time.Minute)
				tr.typed("B", "b", fmt.Sprint(i), fmt.Sprint("b", i), time.Minute)
				if i >= 5 {
					tr.typed("C", "c", fmt.Sprint(i), fmt.Sprint("c", i), time.Minute)
				}
				pw.Write(tr.input.Bytes())
				tr.input.Reset()
				time.Sleep(100 * time.Millisecond)
			}
			pw.Close()
		}()
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		tr.run(ctx, pr)
		if tr.last("a") != "19" || tr.last("b") != "19" || tr.last("c") != "" {
			t.Errorf("last tokens %q %q %q", tr.last("a"), tr.last("b"), tr.last("c"))
		}
		if tr.code() != sysexits.TempFail || !strings.Contains(tr.err.Error(), `event_type="C"`) || tr.total().Unsettled != 15 {
			t.Errorf("%v, %d unsettled", tr.err, tr.total().Unsettled)
		}
	})
}

// The same 5xx for one entry, again and again, while others are stored: the
// entry is found and held, and never a dead letter.
func TestHoldsAnEntryThatTheServerFailsOn(t *testing.T) {
	for _, streams := range []int{1, 3} {
		t.Run(fmt.Sprint(streams, " streams"), func(t *testing.T) {
			bubble(t, func(t *testing.T, tr *trial) {
				pr, pw := io.Pipe()
				defer pr.Close()
				go func() {
					for i := range 600 {
						line := fmt.Sprint("line ", i)
						if i == 123 {
							line = "WHOLE500"
						}
						tr.typed(fmt.Sprint("T", i%streams), fmt.Sprint("k", i%streams), fmt.Sprint(i), line, 10*time.Minute)
						pw.Write(tr.input.Bytes())
						tr.input.Reset()
						if i == 300 {
							time.Sleep(time.Hour)
						}
					}
					pw.Close()
				}()
				tr.run(context.Background(), pr)
				if len(tr.loki.lines()) != 599 || len(tr.letters) != 0 {
					t.Errorf("%d stored, %d letters", len(tr.loki.lines()), len(tr.letters))
				}
				if tr.code() != sysexits.TempFail || tr.total().Unsettled != 1 || !strings.Contains(tr.err.Error(), "something is wrong") {
					t.Errorf("status %d, %d unsettled: %v", tr.code(), tr.total().Unsettled, tr.err)
				}
				if last := tr.last(fmt.Sprint("k", 123%streams)); last != fmt.Sprint(123-streams) {
					t.Errorf("last token of the held entry's key is %q", last)
				}
			})
		})
	}
}

// An outage costs few requests, and everything goes on when it ends.
func TestOutageIsProbedByOneRequestAtATime(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		for i := range 200 {
			tr.typed(fmt.Sprint("T", i%50), "k", fmt.Sprint(i), fmt.Sprint("line ", i), time.Minute)
		}
		end := time.Now().Add(time.Hour)
		tr.loki.script = func(int, *modelPush) *Answer {
			if time.Now().Before(end) {
				return &Answer{Err: errors.New("connection refused")}
			}
			return nil
		}
		tr.start()
		if tr.err != nil || len(tr.loki.stored) != 200 {
			t.Fatalf("%v, %d stored", tr.err, len(tr.loki.stored))
		}
		if tr.took > time.Hour+40*time.Second {
			t.Errorf("took %s", tr.took)
		}
		if n := tr.loki.count(); n > 600 {
			t.Errorf("%d requests in an hour of outage", n)
		}
	})
}

// The property that all else serves: whatever the server answers, no token is
// acknowledged past a record that is not settled, every entry has one fate,
// the account balances and what is good is stored.
func TestNoAcknowledgementPassesAnUnsettledRecord(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomTrial(t, seed) })
		})
	}
}

type sentRecord struct {
	key, token, line string
	good             bool
	index            int
}

func randomTrial(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 99))
	tr := newTrial(t)
	tr.cfg.BatchEntries = 1 + r.IntN(40)
	tr.cfg.BufferBytes = int64(20000 + r.IntN(200000))
	tr.cfg.Breaker = false
	tr.loki.poison = "POISON"
	tr.loki.maxLine = 2000
	if seed%4 == 0 {
		tr.cfg.HourLabel = ""
	}
	var sent []sentRecord
	pr, pw := io.Pipe()
	defer pr.Close()
	n := 300 + r.IntN(300)
	writing := make(chan struct{})
	go func() {
		r := rand.New(rand.NewPCG(seed, 11)) // r is not for two goroutines
		defer close(writing)
		defer pw.Close()
		for i := range n {
			s := sentRecord{key: []string{"a", "b", "c", "d", ""}[r.IntN(5)], token: fmt.Sprint(i), line: fmt.Sprint("line ", i, " "), good: true, index: i}
			age := time.Duration(r.IntN(50)) * time.Minute
			switch r.IntN(30) {
			case 0:
				s.line, s.good = s.line+"POISON", false
			case 1:
				s.line, s.good = s.line+strings.Repeat("long", 600), false
			case 2:
				age, s.good = 200*time.Hour, false
			}
			if s.key == "" || r.IntN(5) == 0 {
				s.token = ""
			}
			tr.typed(fmt.Sprint("T", r.IntN(6)), s.key, s.token, s.line, age)
			tr.mu.Lock()
			sent = append(sent, s)
			tr.mu.Unlock()
			if _, err := pw.Write(tr.input.Bytes()); err != nil {
				return
			}
			tr.input.Reset()
			if r.IntN(40) == 0 {
				time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
			}
		}
	}()
	answers := rand.New(rand.NewPCG(seed, 5))
	tr.loki.latency = time.Duration(r.IntN(50)+1) * time.Millisecond
	tr.loki.script = func(_ int, p *modelPush) *Answer {
		tr.loki.mu.Lock()
		n := answers.IntN(20)
		tr.loki.mu.Unlock()
		a := Answer{}
		switch n {
		case 0:
			a = textAnswer(429, "ingestion rate limit exceeded for user x (limit: 100 bytes/sec) while attempting to ingest '9' lines totaling '900' bytes")
		case 1:
			a = textAnswer(500, "empty ring")
		case 2:
			a = textAnswer(503, "busy")
		case 3: // stored, and the reply is lost
			tr.loki.store(p)
			a = Answer{Err: errors.New("connection reset by peer")}
		case 4:
			if len(p.entries) < 2 {
				return nil
			}
			a = textAnswer(413, "request body too large")
		case 5:
			a = textAnswer(401, "no org id")
		case 6: // hangs until the client's own time limit, stored or not
			if r := answersBool(tr, answers); r {
				tr.loki.store(p)
			}
			a = Answer{Status: hang}
		default:
			return nil
		}
		return &a
	}
	ctx := context.Background()
	if seed%3 == 0 { // stopped in the middle
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(20000))*time.Millisecond)
		defer cancel()
		tr.cfg.Grace = time.Duration(r.IntN(2000)) * time.Millisecond
	}
	tr.run(ctx, pr)
	pr.Close()
	<-writing
	checkRandomTrial(t, tr, sent)
}

func answersBool(tr *trial, r *rand.Rand) bool {
	tr.loki.mu.Lock()
	defer tr.loki.mu.Unlock()
	return r.IntN(2) == 0
}

func checkRandomTrial(t *testing.T, tr *trial, sent []sentRecord) {
	storedLines, letters := tr.loki.lines(), map[string]int{}
	for _, l := range tr.letters {
		letters[string(l.Line)]++
	}
	complete := tr.err == nil
	settled := func(s sentRecord) bool { return storedLines[s.line] || letters[s.line] > 0 }
	for _, s := range sent {
		switch {
		case letters[s.line] > 1:
			t.Errorf("record %d has %d dead letters", s.index, letters[s.line])
		case s.good && letters[s.line] > 0 && !lateLetter(tr, s.line):
			t.Errorf("good record %d is a dead letter", s.index)
		case !s.good && storedLines[s.line]:
			t.Errorf("bad record %d is stored", s.index)
		case complete && !settled(s):
			t.Errorf("record %d is neither stored nor a dead letter", s.index)
		}
	}
	last := map[string]int{"a": -1, "b": -1, "c": -1, "d": -1}
	for _, a := range tr.acks {
		var at int
		fmt.Sscan(a.Value, &at)
		if at <= last[a.Key] {
			t.Errorf("acknowledgement of %s goes from %d to %d", a.Key, last[a.Key], at)
		}
		last[a.Key] = at
	}
	for _, s := range sent {
		passed := s.key != "" && s.index <= last[s.key]
		if s.key == "" {
			for _, at := range last {
				passed = passed || s.index < at
			}
		}
		if passed && !settled(s) {
			t.Errorf("record %d of key %q is unsettled and has been passed", s.index, s.key)
		}
	}
	if complete {
		for _, s := range sent {
			if s.token != "" && s.key != "" && last[s.key] < s.index {
				t.Errorf("record %d of key %q was never acknowledged", s.index, s.key)
			}
		}
	}
	if total := tr.total(); complete && total.Read != int64(len(sent)) {
		t.Errorf("%d read of %d", total.Read, len(sent))
	}
}

// lateLetter tells whether a line was refused for lateness, which a repeat of
// a request whose reply was lost may be although it is stored.
func lateLetter(tr *trial, line string) bool {
	for _, l := range tr.letters {
		if string(l.Line) == line {
			return record.Reason(l.Reason) == record.TooFarBehind
		}
	}
	return false
}
