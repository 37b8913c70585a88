package apexlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sf2loki/pkg/feed"
	"sf2loki/pkg/outlet"
	"sf2loki/pkg/record"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sftest"
	"sf2loki/pkg/shape"
	"sf2loki/pkg/sysexits"
)

// line is a record as a test looks at it.
type line struct {
	TS       string            `json:"ts"`
	Labels   map[string]string `json:"labels"`
	Metadata map[string]string `json:"structured_metadata"`
	Line     string            `json:"line"`
	Key      string            `json:"checkpoint_key"`
	Value    string            `json:"checkpoint_value"`
	Origin   string            `json:"origin"`
	Only     bool              `json:"checkpoint_only"`
	Account  *record.Account   `json:"account"`
	Reason   string            `json:"reason"`
	Gap      *gap              `json:"gap"`
}

// bench is an org, its clock, the state that a pipeline would keep, and what
// came out.
type bench struct {
	t      *testing.T
	org    *sftest.Org
	doc    map[string]string
	config func(*Config)

	mu    sync.Mutex
	now   time.Time
	limit int // records to take before the reader goes away; 0: all
	raw   []byte
	log   bytes.Buffer
	last  *Source
}

var errFull = sysexits.Wrap(sysexits.IOErr, errors.New("the reader has gone"))

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, doc: map[string]string{}, now: time.Date(2026, 7, 3, 12, 0, 0, 0, time.UTC)}
	b.org = sftest.NewOrg(sftest.Config{Now: b.clock})
	t.Cleanup(b.org.Close)
	b.org.DefineObjects()
	b.org.AddTraceFlag("", b.now.Add(24*time.Hour))
	return b
}

func (b *bench) clock() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bench) advance(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

func (b *bench) ago(d time.Duration) time.Time { return b.org.Now().Add(-d).Truncate(time.Second) }

// add adds logs of one second.
func (b *bench) add(n int, at time.Time) []string {
	var ids []string
	for i := range n {
		ids = append(ids, b.org.AddApexLog(sftest.ApexLog{Start: at, Body: fmt.Sprintf("62.0 APEX_CODE,FINEST\n%s|USER_INFO|%d\nüber", at, i)}))
	}
	return ids
}

// open is a new process.
func (b *bench) open() *Source {
	b.t.Helper()
	sh, err := shape.New(shape.Config{})
	if err != nil {
		b.t.Fatal(err)
	}
	client, err := salesforce.New(salesforce.Config{
		LoginURL: b.org.URL, Auth: salesforce.ClientCredentials, ClientID: b.org.ClientID,
		ClientSecret: func() (string, error) { return b.org.ClientSecret, nil },
		Retry:        salesforce.Retry{Attempts: 2, Min: time.Nanosecond, Max: time.Nanosecond}, Now: b.clock,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	id, err := client.OrgID(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	cfg := Config{
		API: client, OrgID: id, Lookback: 24 * time.Hour, Settle: 15 * time.Minute, Overlap: 15 * time.Minute, Patience: 24 * time.Hour,
		MaxBody: 5 << 20, Poll: time.Minute, Command: "sf-pull apexlog", Shape: sh,
		Resume: func(key string) (string, bool) { v, ok := b.doc[key]; return v, ok },
		Output: outlet.Output{Records: b.take, RunID: "run", Now: time.Now},
		Log:    slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if b.config != nil {
		b.config(&cfg)
	}
	b.last = New(cfg)
	return b.last
}

// pull runs a pass in a process of its own.
func (b *bench) pull() ([]line, error) { return b.run(b.open().Pull) }

// cycle is one more cycle in the process that is open.
func (b *bench) cycle(s *Source) ([]line, error) {
	return b.run(func(ctx context.Context) error {
		if s.Track == nil {
			if err := s.prepare(ctx); err != nil {
				return err
			}
		}
		err := s.cycle(ctx)
		s.note(ctx, err)
		return err
	})
}

func (b *bench) run(f func(context.Context) error) ([]line, error) {
	b.t.Helper()
	b.raw = nil
	err := f(context.Background())
	var lines []line
	for raw := range bytes.SplitSeq(bytes.TrimSpace(b.raw), []byte("\n")) {
		var l line
		if len(raw) == 0 {
			continue
		}
		if err := json.Unmarshal(raw, &l); err != nil {
			b.t.Fatalf("%s: %v", raw, err)
		}
		lines = append(lines, l)
		if l.Value != "" {
			b.doc[l.Key] = l.Value
		}
	}
	for _, c := range b.last.Stats().Totals().Types {
		if c.Read != c.Written+c.Filtered+c.SampledOut+c.SkippedDuplicate+c.DeadLettered {
			b.t.Errorf("the account does not balance: %+v", c)
		}
	}
	return lines, err
}

func (b *bench) must(lines []line, err error) []line {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("%v\n%s", err, b.log.String())
	}
	return entries(lines)
}

// take is standard output.
func (b *bench) take(text []byte) error {
	b.raw = append(b.raw, text...)
	if n := bytes.Count(b.raw, []byte("\n")); b.limit > 0 && n >= b.limit {
		rest := b.raw
		for range b.limit {
			rest = rest[bytes.IndexByte(rest, '\n')+1:]
		}
		b.raw = b.raw[:len(b.raw)-len(rest)]
		return errFull
	}
	return nil
}

func entries(lines []line) []line {
	return slices.DeleteFunc(slices.Clone(lines), func(l line) bool { return l.Only || l.Reason != "" })
}

func gaps(lines []line) []line {
	return slices.DeleteFunc(slices.Clone(lines), func(l line) bool { return l.Reason != "source_gap" })
}

func origins(lines []line) []string {
	var out []string
	for _, l := range lines {
		out = append(out, l.Origin)
	}
	return out
}

func sameSet(t *testing.T, got, want []string) {
	t.Helper()
	a, b := slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(a, b) {
		t.Errorf("%d logs, want %d", len(a), len(b))
	}
}

func (b *bench) bodies() int { return len(b.org.Requests("/Body")) }

func TestLog(t *testing.T) {
	b := newBench(t)
	ids := b.add(1, b.ago(time.Hour))
	got := b.must(b.pull())
	if len(got) != 1 || got[0].Line != "62.0 APEX_CODE,FINEST\n2026-07-03 11:00:00 +0000 UTC|USER_INFO|0\nüber" {
		t.Fatalf("%+v", got)
	}
	l := got[0]
	if l.TS != "2026-07-03T11:00:00.000000000Z" || l.Origin != ids[0] || l.Key != "apexlog" ||
		l.Value != `{"v":1,"org":"`+b.org.ID+`","ts":"2026-07-03T11:00:00.000Z","id":"`+ids[0]+`"}` {
		t.Errorf("%+v", l)
	}
	if fmt.Sprint(l.Labels) != "map[event_type:ApexLog source:apexlog]" || l.Metadata["level"] != "info" || l.Metadata["LogUserId"] != b.org.UserID || l.Metadata["DurationMilliseconds"] != "231" {
		t.Errorf("labels %v, metadata %v", l.Labels, l.Metadata)
	}
	if again := b.must(b.pull()); len(again) != 1 || again[0].Line != l.Line || again[0].TS != l.TS {
		t.Errorf("then %+v", again)
	}
}

func TestTies(t *testing.T) { // #39 #112 #150
	b := newBench(t)
	b.config = func(c *Config) { c.Users = []string{b.org.UserID[:15], b.org.Username} }
	ids := append(b.add(450, b.ago(time.Hour)), b.add(3, b.ago(30*time.Minute))...)
	b.org.AddApexLog(sftest.ApexLog{Start: b.ago(time.Hour), User: "005xx000009Zz9ZAAQ", Body: "another's"})
	sameSet(t, origins(b.must(b.pull())), ids)
	queries := b.org.Requests("FROM ApexLog")
	if len(queries) != 3 || !strings.Contains(queries[1].Query, "WHERE (StartTime > 2026-07-03T11:00:00.000Z OR (StartTime = 2026-07-03T11:00:00.000Z AND Id > '07L") ||
		!strings.Contains(queries[1].Query, "')) AND LogUserId IN ('005") || !strings.Contains(queries[1].Query, "ORDER BY StartTime ASC, Id ASC LIMIT 200") {
		t.Errorf("queries are %+v", queries)
	}
	b.doc["apexlog"] = `{"ids": [], "last_ts": "2026-07-03T11:00:00.000+0000"}`
	sameSet(t, origins(b.must(b.pull())), ids)
	b.doc["apexlog"] = `{"v":1,"ts":"2026-07-03T11:29:00.000Z","id":"07L'"}`
	b.config = func(c *Config) { c.Overlap = 0 }
	sameSet(t, origins(b.must(b.pull())), ids[450:])
	if !strings.Contains(b.log.String(), "no id of a row") {
		t.Error("nothing is said of a bad id")
	}
}

// A long transaction's log appears at its end, whatever the clocks say.
func TestLateLogs(t *testing.T) {
	for _, skew := range []time.Duration{0, 10 * time.Minute, -10 * time.Minute} {
		t.Run(skew.String(), func(t *testing.T) { lateLogs(t, skew) })
	}
}

func lateLogs(t *testing.T, skew time.Duration) {
	b := newBench(t)
	b.org.SetSkew(skew)
	s := b.open()
	var want, got []string
	for i := range 60 {
		at := b.ago(0)
		want = append(want, b.org.AddApexLog(sftest.ApexLog{Start: at, Body: "x", Visible: at.Add(time.Duration(i*7%29) * time.Minute)}))
		b.advance(time.Minute)
		if i%2 == 0 {
			got = append(got, origins(b.must(b.cycle(s)))...)
		}
	}
	for range 40 {
		b.advance(2 * time.Minute)
		got = append(got, origins(b.must(b.cycle(s)))...)
	}
	sameSet(t, got, want)
}

func TestTooLong(t *testing.T) {
	b := newBench(t)
	b.config = func(c *Config) { c.MaxBody = 100 }
	b.org.AddApexLog(sftest.ApexLog{Start: b.ago(3 * time.Hour), Body: strings.Repeat("x", 101)})
	b.org.AddApexLog(sftest.ApexLog{Start: b.ago(2 * time.Hour), Body: strings.Repeat("x", 101), Length: 50}) // more than is listed
	b.org.AddApexLog(sftest.ApexLog{Start: b.ago(time.Hour), Body: strings.Repeat("x", 100)})
	got := b.must(b.pull())
	if len(got) != 3 || b.bodies() != 2 || b.last.Stats().Totals().BodiesSkipped["size"] != 2 {
		t.Fatalf("%d logs, %d bodies, %v", len(got), b.bodies(), b.last.Stats().Totals().BodiesSkipped)
	}
	for _, l := range got[:2] {
		if l.Metadata["body_skipped"] != "true" || l.Metadata["body_skip_reason"] != "size" || !strings.HasPrefix(l.Line, `{"Id":"07L`) || !json.Valid([]byte(l.Line)) {
			t.Errorf("%+v", l)
		}
	}
	if got[2].Line != strings.Repeat("x", 100) || got[2].Metadata["body_skipped"] != "" {
		t.Errorf("%+v", got[2])
	}
}

func TestBodyFails(t *testing.T) { // #93
	b := newBench(t)
	ids := b.add(3, b.ago(time.Hour))
	b.org.Fault(ids[1]+"/Body", sftest.Fault{Fixture: "err_500_unknown.json"})
	if got := b.must(b.pull()); !slices.Equal(origins(got), ids) {
		t.Fatalf("after one failure: %v", origins(got))
	}
	b.doc = map[string]string{}
	b.org.Fault(ids[1]+"/Body", sftest.Fault{CutAfter: 10})
	if got := b.must(b.pull()); !slices.Equal(origins(got), ids) {
		t.Fatalf("after a body that broke off: %v", origins(got))
	}
	b.doc = map[string]string{}
	b.org.Fault(ids[1]+"/Body", sftest.Fault{Fixture: "err_500_unknown.json", Times: -1})
	before := len(b.org.Requests(ids[2] + "/Body"))
	for hour := range 25 {
		lines, err := b.pull()
		got := entries(lines)
		if hour < 24 {
			if sysexits.Of(err) != sysexits.TempFail || len(got) != 1 || got[0].Origin != ids[0] || len(gaps(lines)) != 0 {
				t.Fatalf("hour %d: %d logs, %v", hour, len(got), err)
			}
			if !strings.Contains(b.doc["apexlog"], `"failing":{"id":"`+ids[1]+`","since":"2026-07-03T12:00:00Z"}`) {
				t.Fatalf("hour %d: position %s", hour, b.doc["apexlog"])
			}
			if why := b.last.Stats().Totals().Failing["the pass over debug logs"]; why == "" { // #17, peers 49
				t.Error("nothing says that it fails")
			}
			if len(b.org.Requests(ids[2]+"/Body")) != before {
				t.Fatal("a later log has been asked for")
			}
			b.advance(time.Hour)
			continue
		}
		if err != nil || len(got) != 3 || got[1].Metadata["body_skip_reason"] != "download_error" {
			t.Fatalf("at the end of patience: %+v, %v", got, err)
		}
		g := gaps(lines)
		if len(g) != 1 || g[0].Gap == nil || g[0].Gap.ID != ids[1] || g[0].Gap.Command != "sf-pull apexlog --since 2026-07-03T11:00:00Z --until 2026-07-03T11:00:01Z" {
			t.Fatalf("gaps are %+v", g)
		}
		if strings.Contains(b.doc["apexlog"], "failing") {
			t.Errorf("position %s", b.doc["apexlog"])
		}
	}
}

func TestBodyGone(t *testing.T) { // #93: 404 is told at once
	b := newBench(t)
	ids := b.add(1, b.ago(3*time.Hour))
	ids = append(ids, b.org.AddApexLog(sftest.ApexLog{Start: b.ago(2 * time.Hour), Body: "x", Gone: true}))
	ids = append(ids, b.add(1, b.ago(time.Hour))...)
	lines, err := b.pull()
	got := b.must(lines, err)
	if !slices.Equal(origins(got), ids) || got[1].Metadata["body_skip_reason"] != "gone" || len(gaps(lines)) != 1 {
		t.Errorf("%+v", lines)
	}
	if n := b.last.Stats().Totals().DownloadErrors["HTTP 404"]; n != 1 {
		t.Errorf("%d counted", n)
	}
}

func TestFailingLogVanishes(t *testing.T) { // what is listed no more is told too
	b := newBench(t)
	ids := b.add(2, b.ago(time.Hour))
	b.org.Fault(ids[0]+"/Body", sftest.Fault{Fixture: "err_500_unknown.json", Times: -1})
	if _, err := b.pull(); err == nil {
		t.Fatal("no error")
	}
	b.org.Delete("ApexLog", ids[0])
	lines, err := b.pull()
	if got := b.must(lines, err); len(got) != 1 || len(gaps(lines)) != 1 || gaps(lines)[0].Gap.ID != ids[0] {
		t.Errorf("%+v", lines)
	}
	if lines, err := b.pull(); err != nil || len(gaps(lines)) != 0 {
		t.Errorf("told again: %+v, %v", lines, err)
	}
}

func TestLimits(t *testing.T) { // #113
	b := newBench(t)
	ids := b.add(3, b.ago(time.Hour))
	b.org.Fault(ids[1]+"/Body", sftest.Fault{Fixture: "err_403_request_limit.json"})
	lines, err := b.pull()
	if sysexits.Of(err) != sysexits.TempFail || !slices.Equal(origins(entries(lines)), ids[:1]) || len(b.org.Requests(ids[2]+"/Body")) != 0 {
		t.Errorf("%d logs, %v", len(entries(lines)), err)
	}
	if strings.Contains(b.doc["apexlog"], "failing") {
		t.Error("a limit is held against the log")
	}
	s := b.open()
	b.org.Fault("FROM ApexLog", sftest.Fault{Fixture: "err_500_unknown.json", Times: 6})
	for range 3 {
		if _, err := b.cycle(s); err == nil {
			t.Error("no error")
		}
	}
	if warn, loud := strings.Count(b.log.String(), "level=WARN msg=\"logs wait"), strings.Count(b.log.String(), "level=ERROR msg=\"logs wait"); warn != 2 || loud != 1 {
		t.Errorf("%d warnings, %d errors", warn, loud)
	}
	if n := s.Stats().Totals().PollErrors[EventType]; n != 3 {
		t.Errorf("%d errors counted", n)
	}
	b.must(b.cycle(s))
}

func TestNobodyIsTraced(t *testing.T) {
	b := newBench(t)
	for _, r := range []int{0, 1} {
		s := b.open()
		for range 3 {
			b.must(b.cycle(s))
		}
		if n := strings.Count(b.log.String(), "no trace flag is active"); n != r {
			t.Errorf("said %d times, want %d", n, r)
		}
		b.advance(25 * time.Hour) // the flag ends
	}
}

func TestUsers(t *testing.T) {
	for _, bad := range [][]string{{"O'Brien"}, {""}, {"00Dxx0000001gPL"}, {"a b@x"}, {"005'"}, make([]string, 200)} {
		if sysexits.Of(CheckUsers(bad)) != sysexits.Usage {
			t.Errorf("%q is accepted", bad)
		}
	}
	b := newBench(t)
	b.config = func(c *Config) { c.Users = []string{"o'brien@acme.example"} }
	lines, err := b.pull()
	if CheckUsers([]string{"o'brien@acme.example"}) != nil || sysexits.Of(err) != sysexits.Config || len(lines) != 0 {
		t.Errorf("%v", err)
	}
}

func TestKillAndResume(t *testing.T) {
	for seed := range uint64(4) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		b := newBench(t)
		b.config = func(c *Config) { c.Overlap = []time.Duration{0, 15 * time.Minute}[seed%2] }
		var want []string
		got := map[string]string{}
		for round := range 30 {
			if round < 12 {
				want = append(want, b.add(rnd.IntN(20), b.ago(time.Duration(rnd.IntN(3))*time.Minute))...)
			}
			if b.limit = 0; rnd.IntN(2) > 0 && round < 25 {
				b.limit = 1 + rnd.IntN(20)
			}
			if rnd.IntN(3) == 0 && round < 20 {
				b.org.Fault("/Body", sftest.Fault{Fixture: "err_503_server_unavailable.json", Times: 2, Skip: rnd.IntN(5)})
			}
			lines, err := b.pull()
			if round >= 26 && err != nil {
				t.Fatal(err)
			}
			for _, l := range entries(lines) {
				if was, ok := got[l.Origin]; ok && was != l.TS+l.Line {
					t.Fatalf("a repeat differs: %q, then %q", was, l.Line)
				}
				got[l.Origin] = l.TS + l.Line
			}
			b.advance(time.Duration(rnd.IntN(5)) * time.Minute)
		}
		missing := 0
		for _, id := range want {
			if got[id] == "" {
				missing++
			}
		}
		if missing > 0 || len(got) != len(want) {
			t.Errorf("seed %d: %d of %d logs are missing, %d came", seed, missing, len(want), len(got))
		}
	}
}

func TestWindow(t *testing.T) {
	b := newBench(t)
	var ids []string
	for h := range 5 {
		ids = append(ids, b.add(1, b.ago(time.Duration(6-h)*time.Hour))...) // at 6:00, 7:00 ...
	}
	b.config = func(c *Config) {
		c.Window = feed.Window{Since: time.Date(2026, 7, 3, 7, 0, 0, 0, time.UTC), Until: time.Date(2026, 7, 3, 9, 0, 0, 0, time.UTC)}
	}
	got := b.must(b.pull())
	if !slices.Equal(origins(got), ids[1:3]) || got[0].Key != "window=2026-07-03T07:00:00Z/2026-07-03T09:00:00Z:apexlog" {
		t.Errorf("%+v", got)
	}
	if again := b.must(b.pull()); len(again) != 0 {
		t.Errorf("%d logs again", len(again))
	}
	plan, err := b.open().Plan(context.Background(), time.Hour)
	if err != nil || plan.Total.Rows != 0 {
		t.Errorf("%+v, %v", plan, err)
	}
	b.config, b.doc = nil, map[string]string{}
	plan, err = b.open().Plan(context.Background(), 4*time.Hour)
	if err != nil || plan.Total.Rows != 5 || plan.Total.OldRows != 2 || plan.Total.APICalls != 7 || plan.Total.Streams != 5 {
		t.Errorf("%+v, %v", plan, err)
	}
}

func TestShortListing(t *testing.T) { // peers 7
	for _, short := range []int{1, 5, -3} {
		b := newBench(t)
		ids := b.add(5, b.ago(time.Hour))
		b.org.Fault("FROM ApexLog", sftest.Fault{Short: short})
		sameSet(t, origins(b.must(b.pull())), ids)
		b.org.Fault("FROM ApexLog", sftest.Fault{Short: short, Times: -1})
		if _, err := b.pull(); sysexits.Of(err) != sysexits.TempFail {
			t.Errorf("the end is %v", err)
		}
	}
}
