package loki

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/record"
)

// The kinds of poison that only the server can tell: its limits differ from
// those that are judged here.
const (
	poisonLong  = "long"  // over the server's line limit
	poisonOld   = "old"   // over the server's age limit
	poisonLate  = "late"  // behind the stream's newest
	poisonOther = "other" // for a reason that no text explains
	poisonMeta  = "meta"  // metadata that the server does not allow
)

var poisonReason = map[string]record.Reason{
	poisonLong: record.LineTooLong, poisonOld: record.TooOld, poisonLate: record.TooFarBehind,
	poisonOther: record.BadRequest, poisonMeta: record.MetadataDisallowed,
}

// Exactly the bad entries of a batch of a thousand become dead letters, each
// with its reason, in few requests.
func TestIsolatesPoison(t *testing.T) {
	for _, tc := range []struct {
		kinds []string
		n     int
		most  int // requests
	}{
		{[]string{poisonLong}, 1, 2}, {[]string{poisonLong}, 10, 2}, {[]string{poisonLong}, 500, 2}, {[]string{poisonLong}, 1000, 1},
		{[]string{poisonOld}, 1, 3}, {[]string{poisonOld}, 10, 3}, {[]string{poisonOld}, 500, 3},
		{[]string{poisonLate}, 1, 2}, {[]string{poisonLate}, 10, 2}, {[]string{poisonLate}, 500, 2}, {[]string{poisonLate}, 1000, 1},
		{[]string{poisonMeta}, 10, 2},
		{[]string{poisonOther}, 1, 16}, {[]string{poisonOther}, 10, 110}, {[]string{poisonOther}, 500, 2000},
		{[]string{poisonLong, poisonOld}, 10, 3}, {[]string{poisonLong, poisonOld}, 500, 3},
		{[]string{poisonLong, poisonLate, poisonMeta}, 10, 3}, {[]string{poisonLong, poisonLate, poisonMeta}, 500, 3},
		{[]string{poisonLong, poisonLate, poisonMeta, poisonOther}, 10, 60},
		{[]string{poisonLong, poisonOld, poisonMeta, poisonOther}, 10, 60},
		{[]string{poisonLong, poisonLate, poisonMeta, poisonOther}, 500, 700},
		{[]string{poisonLong, poisonOld, poisonMeta, poisonOther}, 500, 700},
	} {
		t.Run(fmt.Sprint(tc.n, " ", tc.kinds), func(t *testing.T) {
			bubble(t, func(t *testing.T, tr *trial) {
				want := writePoison(tr, tc.kinds, tc.n)
				tr.start()
				if tr.err != nil {
					t.Fatal(tr.err)
				}
				n := tr.loki.count() - 1 // without the one that made the stream's newest
				t.Logf("%d requests for %d bad entries of %v", n, tc.n, tc.kinds)
				if n > tc.most {
					t.Errorf("%d requests, at most %d should do", n, tc.most)
				}
				checkPoison(t, tr, want)
			})
		})
	}
}

// writePoison writes a thousand records of one stream, n of them bad, and
// returns the reason of each bad line.
func writePoison(tr *trial, kinds []string, n int) map[string]record.Reason {
	tr.cfg.Breaker = false
	tr.cfg.HourLabel, tr.cfg.Window = "", 24*time.Hour // wider than the server's
	tr.cfg.StreamRate, tr.cfg.BatchEntries, tr.cfg.BatchBytes = 0, 1000, 2<<20
	tr.loki.maxLine, tr.loki.poison = 1000, "POISON"
	tr.loki.maxAge = 20 * time.Hour
	r := rand.New(rand.NewPCG(uint64(n), uint64(len(kinds))))
	bad := map[int]string{}
	for len(bad) < n {
		if i := r.IntN(1000); bad[i] == "" {
			bad[i] = kinds[len(bad)%len(kinds)]
		}
	}
	labels := []record.Pair{{Name: []byte("source"), Value: []byte("s")}, {Name: []byte("event_type"), Value: []byte("T")}}
	want := map[string]record.Reason{}
	now := time.Now()
	tr.loki.newest[`{event_type="T",source="s"}`] = now.Add(-2 * time.Minute).UnixNano()
	tr.loki.requests = append(tr.loki.requests, &modelPush{}) // counted as the one before
	for i := range 1000 {
		at := now.Add(-time.Minute)
		line := fmt.Sprintf("line %d ", i)
		var md []record.Pair
		switch bad[i] {
		case poisonLong:
			line += strings.Repeat("x", 1200)
		case poisonOld:
			at = now.Add(-20*time.Hour - 30*time.Minute - time.Duration(r.IntN(3000))*time.Millisecond)
		case poisonLate:
			at = now.Add(-2 * time.Hour)
		case poisonOther:
			line += "POISON"
		case poisonMeta:
			tr.loki.noMeta = true
			md = []record.Pair{{Name: []byte("a"), Value: []byte("b")}}
		}
		if bad[i] != "" {
			want[line] = poisonReason[bad[i]]
		}
		tr.write(&record.Record{
			Time: at.UnixNano() + int64(i), HasTime: true, Labels: labels, Metadata: md, Line: []byte(line),
			Key: []byte("k"), Value: fmt.Append(nil, i),
		})
	}
	return want
}

func checkPoison(t *testing.T, tr *trial, want map[string]record.Reason) {
	t.Helper()
	if len(tr.letters) != len(want) {
		t.Errorf("%d dead letters, want %d: %v", len(tr.letters), len(want), tr.reasons())
	}
	for _, l := range tr.letters {
		if reason, ok := want[string(l.Line)]; !ok || reason != record.Reason(l.Reason) {
			t.Errorf("dead letter %q of reason %s, want %q", cutText(string(l.Line), 40), l.Reason, reason)
		}
	}
	if got := len(tr.loki.lines()); got != 1000-len(want) {
		t.Errorf("%d lines stored, want %d", got, 1000-len(want))
	}
	if tr.last("k") != "999" {
		t.Errorf("last token %q", tr.last("k"))
	}
	sum := tally{}
	for _, a := range tr.acks {
		sum.add(tally{a.Delivered, a.Rejected, a.Dropped})
	}
	if sum != (tally{int64(1000 - len(want)), int64(len(want)), 0}) {
		t.Errorf("acknowledgements count %+v", sum)
	}
}

// Z2: after one half was decided, trouble with the other half repeats neither
// dead letters nor counts, and sends nothing again that is decided.
func TestAPartlyIsolatedBatchIsNotStartedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.loki.poison = "POISON"
		for i, line := range []string{"POISON", "a", "b", "c"} {
			tr.entry("k", fmt.Sprint(i), line, time.Minute)
		}
		busy := 0
		poisonSent := 0
		tr.loki.script = func(_ int, p *modelPush) *Answer {
			if strings.Contains(p.entries[0].line, "POISON") {
				poisonSent++
				return nil
			}
			if busy++; busy <= 2 {
				a := textAnswer(503, "busy")
				return &a
			}
			return nil
		}
		tr.start()
		if tr.err != nil || len(tr.letters) != 1 || len(tr.loki.stored) != 3 || tr.last("k") != "3" {
			t.Errorf("%v, letters %v, %d stored, last %q", tr.err, tr.reasons(), len(tr.loki.stored), tr.last("k"))
		}
		if a := tr.total(); a.DeadLettered != 1 || a.Delivered != 3 {
			t.Errorf("account %+v", a)
		}
		// all of them, the first half, the poison alone, and once more when
		// something else had been stored
		if poisonSent != 4 {
			t.Errorf("the bad entry was sent %d times", poisonSent)
		}
	})
}

// D4: the bad entry is isolated, then the rest meets 503 twice.
func TestARestInTroubleKeepsTheDeadLetterSingle(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.loki.maxLine = 100
		for i := range 8 {
			line := fmt.Sprint("line ", i)
			if i == 4 {
				line += strings.Repeat("x", 100)
			}
			tr.entry("k", fmt.Sprint(i), line, time.Minute)
		}
		tr.loki.script = script(Answer{}, textAnswer(503, "busy"), textAnswer(503, "busy"))
		tr.start()
		if tr.err != nil || len(tr.letters) != 1 || len(tr.loki.lines()) != 7 || tr.loki.count() != 4 {
			t.Errorf("%v, letters %v, %d stored, %d requests", tr.err, tr.reasons(), len(tr.loki.lines()), tr.loki.count())
		}
	})
}

// Z5, D3: Loki stores the good part of a request that it answers with 400; the
// letters are the bad part only, and repeats fold.
func TestTheGoodPartIsDelivered(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.loki.maxAge = time.Hour
		tr.entry("k", "0", "too old", 2*time.Hour)
		tr.cfg.HourLabel, tr.cfg.Window = "", 24*time.Hour
		tr.entry("k", "1", "good", time.Minute)
		tr.entry("k", "2", "good too", time.Minute)
		tr.start()
		if tr.err != nil || tr.reasons()[record.TooOld] != 1 || len(tr.letters) != 1 || len(tr.loki.stored) != 2 {
			t.Errorf("%v, letters %v, %d stored", tr.err, tr.reasons(), len(tr.loki.stored))
		}
		if info, err := record.ParseLetter(&tr.letters[0]); err != nil || info.Status != 400 || info.Tenant != "7" || info.RunID != "own" {
			t.Errorf("letter says %+v, %v", info, err)
		}
	})
}

// Z29: a thousand rows behind the stream's newest entry are a thousand letters
// in a handful of requests, and rows among them that fit are stored.
func TestLateRowsCostFewRequests(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.cfg.HourLabel, tr.cfg.Window = "", 100*time.Hour // what Loki says decides
		tr.cfg.Breaker = true                               // lateness never trips it
		tr.entry("k", "new", "newest", time.Minute)
		for i := range 1000 {
			age := 3 * time.Hour
			if i%100 == 0 {
				age = 10 * time.Minute
			}
			tr.entry("k", fmt.Sprint(i), fmt.Sprint("line ", i), age)
		}
		tr.cfg.BatchEntries = 1001
		tr.loki.newest[`{event_type="Login",source="eventlogfile"}`] = time.Now().Add(-time.Minute).UnixNano()
		tr.start()
		if tr.err != nil || tr.reasons()[record.TooFarBehind] != 990 || len(tr.loki.stored) != 11 || tr.last("k") != "999" {
			t.Errorf("%v, letters %v, %d stored, last %q", tr.err, tr.reasons(), len(tr.loki.stored), tr.last("k"))
		}
		if tr.loki.count() > 20 {
			t.Errorf("%d requests", tr.loki.count())
		}
		for _, l := range tr.letters {
			if !strings.Contains(string(l.Raw), `"maybe_stored":true`) {
				t.Fatalf("a letter for lateness does not say maybe_stored: %s", l.Raw)
			}
		}
	})
}

// Z33: a metadata name that Loki answers with 500 is found here, before it
// takes a whole request with it.
func TestAMetadataNameIsJudgedHere(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.entry("k", "0", "before", time.Minute)
		tr.write(&record.Record{
			Time: time.Now().UnixNano(), HasTime: true, Labels: []record.Pair{{Name: []byte("a"), Value: []byte("b")}},
			Metadata: []record.Pair{{Name: []byte(""), Value: []byte("x")}}, Line: []byte("bad"), Key: []byte("k"), Value: []byte("1"),
		})
		tr.entry("k", "2", "after", time.Minute)
		tr.start()
		if tr.err != nil || tr.reasons()[record.InvalidMetadata] != 1 || len(tr.loki.stored) != 2 || tr.last("k") != "2" || tr.loki.count() > 2 {
			t.Errorf("%v, letters %v, %d stored, last %q", tr.err, tr.reasons(), len(tr.loki.stored), tr.last("k"))
		}
	})
}
