package eventlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/feed"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sftest"
	"sf2loki/pkg/sysexits"
)

func TestPull(t *testing.T) {
	b := newBench(t)
	id := b.org.AddHour(login(10, 30))
	b.org.AddHour(sftest.Hour{Type: "Logout", Start: hourOf(10), Rows: 5})
	if err := b.pull("login"); err != nil { // as the org spells it, whatever was typed
		t.Fatal(err)
	}
	b.wantRows(30)
	first, last := b.rows()[0], b.lines[len(b.lines)-1]
	if first.Labels["source"] != "eventlogfile" || first.Labels["event_type"] != "Login" || first.Metadata["level"] == "" {
		t.Errorf("record %+v", first)
	}
	if first.Key != "eventlogfile:Login" || !strings.HasPrefix(first.Origin, id+":") {
		t.Errorf("key %q, origin %q", first.Key, first.Origin)
	}
	length := len(b.org.LogFileBody(id))
	want := fmt.Sprintf(`{"v":1,"org":%q,"created":"2026-07-02T14:07:21.000Z","id":%q,"len":%d,"order":1,"rows":1}`, b.org.ID, id, length)
	if first.Value != want {
		t.Errorf("token %s, want %s", first.Value, want)
	}
	if want := fmt.Sprintf(`{"v":1,"org":%q,"created":"2026-07-02T14:07:21.000Z","id":%q}`, b.org.ID, id); last.Value != want {
		t.Errorf("last token %s, want %s", last.Value, want)
	}
	if a := last.Account; a == nil || a.Rows != 30 || a.Origin != id || a.Interval != Hourly || a.Bytes != int64(length) || a.LogDate != "2026-07-02T10:00:00Z" {
		t.Errorf("account %+v", a)
	}
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(0)
}

func TestSettle(t *testing.T) { // #66
	b := newBench(t)
	b.org.AddHour(login(10, 5), created(now.Add(-6*time.Minute)))
	b.org.AddHour(login(11, 7), created(now.Add(-time.Minute)))
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(5)
	b.org.SetSkew(-10 * time.Minute) // #21-2: it is Salesforce's clock that counts
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(0)
	b.org.SetSkew(10 * time.Minute)
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(7)
}

func TestHoldBack(t *testing.T) { // C2
	b := newBench(t)
	first := b.org.AddHour(login(10, 5))
	b.org.AddHour(login(11, 7))
	b.org.AddHour(sftest.Hour{Type: "API", Start: hourOf(10), Rows: 3})
	b.org.Fault(first+"/LogFile", sftest.Fault{Status: 500, Times: -1})
	wantCode(t, b.pull("Login", "API"), sysexits.TempFail)
	b.wantRows(3)                                                                                                                           // the other type is not held back
	if why := b.last.Stats().Totals().Failing["the pass over event log files"]; !strings.Contains(why, "1 of 2 event types are not done") { // #17, peers 49
		t.Errorf("failing because of %q", why)
	}
	token := b.doc["eventlogfile:Login"]
	if !strings.Contains(token, `"failing":{"id":"`+first+`","since":"2026-07-03T12:00:00Z"}`) {
		t.Errorf("token %s", token)
	}
	b.org.ClearFaults()
	if err := b.pull("Login", "API"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(12)
	if f := b.last.Stats().Totals().Failing; len(f) != 0 {
		t.Errorf("failing are %v", f)
	}
	if !strings.HasPrefix(b.rows()[0].Origin, first) || strings.Contains(b.doc["eventlogfile:Login"], "failing") {
		t.Errorf("origin %s, token %s", b.rows()[0].Origin, b.doc["eventlogfile:Login"])
	}
}

func TestPatience(t *testing.T) { // C2: from the first failure, across runs
	b := newBench(t)
	first := b.org.AddHour(login(10, 5))
	b.org.AddHour(login(11, 7))
	b.org.Fault(first+"/LogFile", sftest.Fault{Status: 503, Times: -1})
	wantCode(t, b.pull("Login"), sysexits.TempFail)
	b.org.SetSkew(23 * time.Hour)
	wantCode(t, b.pull("Login"), sysexits.TempFail)
	b.wantRows(0)
	b.org.SetSkew(25 * time.Hour)
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(7)
	gaps := b.gaps()
	if len(gaps) != 1 || gaps[0].Gap.ID != first || gaps[0].Letter.Status != 503 || gaps[0].Key != "eventlogfile:Login" {
		t.Fatalf("gaps %+v", gaps)
	}
	want := "sf-pull elf --interval Hourly --event-type Login --since 2026-07-02T10:00:00Z --until 2026-07-02T11:00:00Z"
	if gaps[0].Gap.Command != want || !strings.Contains(gaps[0].Letter.Detail, first) {
		t.Errorf("command %q, detail %q", gaps[0].Gap.Command, gaps[0].Letter.Detail)
	}
}

func TestNetworkIsNoGap(t *testing.T) {
	b := newBench(t)
	first := b.org.AddHour(login(10, 5))
	b.org.Fault(first+"/LogFile", sftest.Fault{Reset: true, Times: -1})
	wantCode(t, b.pull("Login"), sysexits.TempFail)
	b.org.SetSkew(100 * time.Hour)
	wantCode(t, b.pull("Login"), sysexits.TempFail)
	if len(b.gaps()) != 0 {
		t.Fatal("a connection that cannot be made became a gap")
	}
}

func TestPurged(t *testing.T) {
	b := newBench(t)
	b.letters = []line{}
	first := b.org.AddHour(login(10, 5))
	b.org.AddHour(login(11, 7))
	b.org.Purge(first)
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(7)
	if len(b.letters) != 1 || b.letters[0].Gap.ID != first || len(b.gaps()) != 0 {
		t.Fatalf("letters %+v", b.letters)
	}
}

func TestIncomplete(t *testing.T) {
	for name, change := range map[string]func(*sftest.LogFile){
		"shorter than LogFileLength": func(f *sftest.LogFile) { f.Length = int64(len(f.Body)) + 500 },
		"open last record":           func(f *sftest.LogFile) { f.Body = f.Body[:len(f.Body)-4]; f.Length = 0 },
		"cut at a comma":             func(f *sftest.LogFile) { f.Body = f.Body[:bytes.LastIndexByte(f.Body, ',')+1]; f.Length = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.org.AddHour(login(10, 20), change)
			b.org.AddHour(login(11, 7))
			wantCode(t, b.pull("Login"), sysexits.TempFail)
			b.wantRows(0)
			b.org.SetSkew(25 * time.Hour)
			if err := b.pull("Login"); err != nil {
				t.Fatal(err)
			}
			if n := len(b.rows()); n < 19+7 || len(b.gaps()) != 1 {
				t.Fatalf("%d rows, %d gaps", n, len(b.gaps()))
			}
			if err := b.pull("Login"); err != nil || len(b.rows()) != 0 {
				t.Fatalf("once more: %v, %d rows", err, len(b.rows()))
			}
		})
	}
}

func TestLongerThanSaid(t *testing.T) {
	b := newBench(t)
	b.org.AddHour(login(10, 20), func(f *sftest.LogFile) { f.Length = 100 })
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(20)
}

// A body without an end must not fill the disk.
func TestMuchLongerThanSaid(t *testing.T) {
	r := newBounded(zeros{}, 1000)
	n, err := io.Copy(io.Discard, r)
	if n != 2*1000+mostExcess || err == nil || !strings.Contains(err.Error(), "much longer than the 1000 bytes") {
		t.Errorf("%d bytes, %v", n, err)
	}
	if v := feed.Judge(err); v != feed.Later {
		t.Errorf("judged as %v: the file is to be asked for again", v)
	}
	for _, length := range []int64{0, 5, math.MaxInt64} {
		if n, err := io.Copy(io.Discard, newBounded(strings.NewReader("0123456789"), length)); n != 10 || err != nil {
			t.Errorf("length %d: %d bytes, %v", length, n, err)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestBodyBreaksOff(t *testing.T) {
	b := newBench(t)
	b.retry = salesforce.Retry{Attempts: 2, Min: time.Millisecond, Max: time.Millisecond}
	id := b.org.AddHour(login(10, 20))
	b.org.Fault(id+"/LogFile", sftest.Fault{CutAfter: 900})
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(20)
}

func TestNotAFile(t *testing.T) { // #94
	for name, fault := range map[string]sftest.Fault{
		"page":       {HTML: true, Times: -1},
		"JSON error": {Status: 200, Body: `[{"errorCode":"X","message":"y"}]`, ContentType: "application/octetstream", Times: -1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.org.AddHour(login(10, 5))
			b.org.Fault("/LogFile", fault)
			wantCode(t, b.pull("Login"), sysexits.TempFail)
			b.wantRows(0)
			b.org.ClearFaults()
			if err := b.pull("Login"); err != nil {
				t.Fatal(err)
			}
			b.wantRows(5)
		})
	}
}

func TestNotAListing(t *testing.T) { // #94
	for name, fault := range map[string]sftest.Fault{
		"page":          {HTML: true, Times: -1},
		"empty":         {Status: 200, Body: "", Times: -1},
		"array":         {Status: 200, Body: "[]", Times: -1},
		"cut":           {Status: 200, Body: `{"totalSize":1,"done":tr`, Times: -1},
		"without an Id": {Status: 200, Body: `{"totalSize":1,"done":true,"records":[{"EventType":"Login"}]}`, Times: -1},
		"none of five":  {Status: 200, Body: `{"totalSize":5,"done":true,"records":[]}`, Times: -1},
		"one short":     {Short: 1, Times: -1},
		"tells of more": {Short: -9, Times: -1},
		"of the future": {Status: 200, Body: `{"totalSize":1,"done":true,"records":[{"Id":"0ATxx0000000001AAA","EventType":"Login",` +
			`"CreatedDate":"2099-01-01T00:00:00.000+0000"}]}`, Times: -1},
		"of another type": {Status: 200, Body: `{"totalSize":1,"done":true,"records":[{"Id":"0ATxx0000000001AAA","EventType":"API",` +
			`"CreatedDate":"2026-07-01T00:00:00.000+0000"}]}`, Times: -1},
		"without a date": {Status: 200, Body: `{"totalSize":1,"done":true,"records":[{"Id":"0ATxx0000000001AAA","CreatedDate":null}]}`, Times: -1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.org.AddHour(login(10, 5))
			b.org.Fault("/query?", fault)
			wantCode(t, b.pull("Login"), sysexits.TempFail)
			if b.last.Stats().Totals().PollErrors["Login"] != 1 {
				t.Error("the failure is not counted")
			}
			b.org.ClearFaults()
			if err := b.pull("Login"); err != nil {
				t.Fatal(err)
			}
			b.wantRows(5)
		})
	}
}

func TestTies(t *testing.T) { // #21-1, and #38 for files
	b := newBench(t)
	at := now.Add(-time.Hour)
	for i := range 60 {
		b.org.AddLogFile(sftest.LogFile{EventType: "Login", LogDate: hourOf(i % 24), Created: at, Body: sftest.Hour{Type: "Login", Start: hourOf(i % 24), Rows: 1, Seed: uint64(i)}.CSV()})
	}
	b.config = func(c *Config) { c.PageSize = 20 }
	for i, want := range []int{60, 0, 0} {
		if err := b.pull("Login"); err != nil {
			t.Fatal(err)
		}
		b.wantRows(want)
		if b.downloads() != 60 {
			t.Fatalf("pass %d: %d downloads", i, b.downloads())
		}
	}
	for _, q := range b.org.Requests("FROM EventLogFile WHERE EventType") { // peers 2, 3: one key, whole, and one interval
		if line := q.Line(); !strings.Contains(line, "Interval = 'Hourly' AND ") || !strings.Contains(line, " ORDER BY CreatedDate ASC, Id ASC") {
			t.Errorf("a listing is asked for by %s", line)
		}
	}
	if n := len(b.org.Requests("FROM EventLogFile WHERE EventType")); n < 5 {
		t.Errorf("%d listings", n)
	}
}

// A file is known by when it was made, however long after its events: on the
// first run and behind a position.
func TestFilesTwoDaysLate(t *testing.T) { // peers 11
	b := newBench(t)
	late := func(rows int, made time.Duration) {
		b.org.AddHour(sftest.Hour{Type: "Login", Start: now.Add(-made - 44*time.Hour).Truncate(time.Hour), Rows: rows}, created(now.Add(-made)))
	}
	late(3, 2*time.Hour)
	for _, want := range []int{3, 4, 0} {
		if err := b.pull("Login"); err != nil {
			t.Fatal(err)
		}
		b.wantRows(want)
		if want == 3 {
			b.org.AddHour(login(11, 1), created(now.Add(-3*time.Hour))) // what the position has passed
			late(4, time.Hour)
		}
	}
}

func TestTypes(t *testing.T) { // #134, #150
	for _, tt := range []struct {
		include, exclude []string
		code             sysexits.Code
	}{
		{nil, nil, sysexits.Usage},
		{[]string{"O'Brien"}, nil, sysexits.Usage},
		{[]string{"Login"}, []string{"log*"}, sysexits.Usage},
		{[]string{"Login", "*"}, []string{"URI"}, sysexits.OK},
		{[]string{"Lightning*"}, nil, sysexits.OK},
		{[]string{"1x"}, nil, sysexits.Usage},
	} {
		wantCode(t, TypeList{Include: tt.include, Exclude: tt.exclude}.Check(), tt.code)
	}
	b := newBench(t)
	b.org.AddHour(login(10, 5))
	err := b.pull("Lgoin")
	wantCode(t, err, sysexits.Config)
	var hint interface{ Hint() string }
	if !errors.As(err, &hint) || hint.Hint() != "did you mean Login?" || len(b.lines) != 0 {
		t.Errorf("%v", err)
	}
}

func TestWildcard(t *testing.T) { // #134, C18
	b := newBench(t)
	b.org.AddHour(login(10, 5))
	b.org.AddHour(sftest.Hour{Type: "API", Start: hourOf(10), Rows: 3})
	b.org.AddHour(sftest.Hour{Type: "URI", Start: hourOf(10), Rows: 2})
	b.config = func(c *Config) { c.Types.Exclude = []string{"uri"} }
	if err := b.pull("*", "Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(8)
	if q := b.org.Requests("GROUP BY"); len(q) != 1 || !strings.Contains(q[0].Line(), "Interval = 'Hourly'") {
		t.Errorf("queries %v", q)
	}
	if b.doc["eventlogfile:*"] == "" {
		t.Error("the pass over all types is not noted")
	}
}

// A type that has its first file while nothing runs is not overlooked.
// A program that runs seldom begins where it first looked.
func TestDailyAndSequences(t *testing.T) { // late hourly files and regenerated daily ones
	b := newBench(t)
	b.org.AddHour(login(10, 20), created(now.Add(-10*time.Hour)))
	b.org.AddHour(login(10, 30), created(now.Add(-8*time.Hour)))
	b.org.AddDay("Login", hourOf(0), created(now.Add(-6*time.Hour)))
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(30)
	hourly := b.rows()
	b.config = func(c *Config) { c.Interval = Daily }
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(30)
	for _, got := range b.rows() { // the same entries, which Loki folds
		same := func(l line) bool { return l.TS == got.TS && l.Line == got.Line }
		if got.Key != "eventlogfile:Daily:Login" || !slices.ContainsFunc(hourly, same) {
			t.Errorf("%+v", got)
		}
	}
	b.org.AddDay("Login", hourOf(0), created(now.Add(-time.Hour)))
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(30)
}

func TestNoHourly(t *testing.T) {
	b := newBench(t, func(c *sftest.Config) { c.NoHourly = true })
	b.org.Know(login(10, 20))
	b.org.AddDay("Login", hourOf(0))
	err := b.pull("Login")
	wantCode(t, err, sysexits.Config)
	var hint interface{ Hint() string }
	if !errors.As(err, &hint) || !strings.Contains(hint.Hint(), "--interval Daily") {
		t.Errorf("no cure: %v", err)
	}
	b.config = func(c *Config) { c.Interval = Daily }
	for _, types := range [][]string{{"Login"}, {"*"}} {
		clear(b.doc)
		if err := b.pull(types...); err != nil {
			t.Fatal(err)
		}
		b.wantRows(20)
	}
}

func TestLimits(t *testing.T) {
	b := newBench(t)
	b.org.AddHour(login(10, 5))
	b.org.AddHour(login(11, 5))
	b.org.AddHour(login(12, 5))
	b.org.Fault("/LogFile", sftest.Fault{Skip: 1, Fixture: "err_403_request_limit.json", Times: -1})
	wantCode(t, b.pull("Login", "API"), sysexits.TempFail)
	b.wantRows(5)
	if b.downloads() != 2 || strings.Contains(b.doc["eventlogfile:Login"], "failing") {
		t.Errorf("%d downloads, token %s", b.downloads(), b.doc["eventlogfile:Login"])
	}
	b.org.ClearFaults()
	if err := b.pull("Login", "API"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(10)
}

func TestPermission(t *testing.T) {
	b := newBench(t)
	b.org.AddHour(login(10, 5))
	b.org.Fault("/query?", sftest.Fault{Fixture: "err_403_forbidden_elf.json", Times: -1})
	wantCode(t, b.pull("Login"), sysexits.NoPerm)
}

// TestResume kills the pipeline after each number of records, in files that are
// in order and files that are not, and goes on from the last position.
// reversed turns the rows of a file around.
// A file that was begun and has changed starts again; one that is gone is a gap.
func TestFollow(t *testing.T) {
	b := newBench(t)
	b.org.AddHour(login(10, 5))
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := errors.New("asked to stop")
	passes := 0
	b.config = func(c *Config) {
		c.Follow, c.Poll = true, time.Millisecond
		records := c.Output.Records
		c.Output.Records = func(text []byte) error {
			if bytes.Contains(text, []byte(`"account"`)) {
				if passes++; passes == 3 {
					cancel(stop)
				}
				b.org.AddHour(login(10+passes, 5), created(now.Add(-time.Duration(60-passes)*time.Minute)))
			}
			return records(text)
		}
	}
	if err := b.pullContext(ctx, "Login"); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	b.wantRows(15)
}

// stopping asks a program to stop as soon as a download has begun.
type stopping struct {
	API
	stop func()
}

func (s stopping) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	r, err := s.API.Open(ctx, path)
	s.stop()
	return r, err
}

func TestStopDuringDownload(t *testing.T) { // #142
	b := newBench(t)
	b.org.AddHour(login(10, 50))
	b.org.AddHour(login(11, 5))
	b.org.Fault("/LogFile", sftest.Fault{StallAfter: 2000, Times: -1})
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := errors.New("asked to stop")
	b.config = func(c *Config) { c.API = stopping{c.API, func() { cancel(stop) }} }
	if err := b.pullContext(ctx, "Login"); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if b.downloads() != 1 || strings.Contains(b.doc["eventlogfile:Login"], "failing") {
		t.Errorf("%d downloads, token %s", b.downloads(), b.doc["eventlogfile:Login"])
	}
}

// Rows without a time have that of their file's hour, each time. #20 Z11
func TestNoTimesInAFile(t *testing.T) {
	b := newBench(t)
	hour := login(10, 3)
	hour.Drop = []string{"TIMESTAMP", "TIMESTAMP_DERIVED"}
	b.org.AddHour(hour)
	for range 2 {
		clear(b.doc)
		if err := b.pull("Login"); err != nil {
			t.Fatal(err)
		}
		b.wantRows(3)
		for _, l := range b.rows() {
			if l.TS != "2026-07-02T10:00:00.000000000Z" {
				t.Errorf("time %s", l.TS)
			}
		}
		if n := b.last.Stats().Totals().Types[0].Fallbacks; n != 3 {
			t.Errorf("%d fallbacks", n)
		}
	}
}

func TestParseFile(t *testing.T) { // C17
	f, err := parseFile([]byte(`{"attributes":{"type":"EventLogFile"},"Id":"0AT000000000001AAA","EventType":"Login","Interval":"Hourly",
		"LogDate":"2026-07-01T10:00:00.000+0000","CreatedDate":"2026-07-01T14:00:00.000+0000","LogFileLength":12899.0,"Sequence":2.0}`))
	if err != nil || f.Length != 12899 || f.Sequence != 2 || !f.LogDate.Equal(time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v %v", f, err)
	}
}

func TestTempDirGone(t *testing.T) {
	b := newBench(t)
	b.org.AddHour(login(10, 5))
	b.config = func(c *Config) { c.TmpDir = t.TempDir() + "/none" }
	wantCode(t, b.pull("Login"), sysexits.CantCreat)
}

func TestNoTemporaryFileIsLeft(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	b.org.AddHour(login(10, 5))
	b.config = func(c *Config) {
		c.TmpDir = dir
		c.Output.Records = func([]byte) error {
			if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
				t.Errorf("%v %v", list, err)
			}
			return nil
		}
	}
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
}

func TestUntilNext(t *testing.T) {
	s := New(Config{Poll: time.Hour})
	limit := &salesforce.Error{Kind: salesforce.KindLimitTotal}
	for _, tt := range []struct {
		err         error
		took        time.Duration
		least, most time.Duration
	}{
		{nil, 0, 54 * time.Minute, 66 * time.Minute},
		{nil, 30 * time.Minute, 24 * time.Minute, 36 * time.Minute},
		{nil, 3 * time.Hour, 0, 0},
		{feed.ErrLeft, 0, 270 * time.Second, 330 * time.Second},
		{limit, 30 * time.Minute, 54 * time.Minute, 66 * time.Minute}, // quiet, whatever the pass took
	} {
		for range 20 {
			if got := s.untilNext(tt.err, tt.took); got < tt.least || got > tt.most {
				t.Errorf("after %v and %v: %v", tt.err, tt.took, got)
			}
		}
	}
}
