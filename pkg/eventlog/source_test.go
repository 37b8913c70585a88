package eventlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
	Payload  []byte            `json:"payload_base64"`
	Gap      *gap              `json:"gap"`
	Letter   *struct {
		Detail string `json:"detail"`
		Status int    `json:"status"`
	} `json:"dead_letter"`
}

// bench is an org, the state that a pipeline would keep, and what came out.
type bench struct {
	t      *testing.T
	org    *sftest.Org
	doc    map[string]string
	config func(*Config)
	retry  salesforce.Retry

	mu      sync.Mutex
	limit   int // records to take before the reader goes away; 0: all
	lines   []line
	raw     []byte
	letters []line // nil unless letters have a place of their own
	log     bytes.Buffer
	last    *Source
}

var errFull = sysexits.Wrap(sysexits.IOErr, errors.New("the reader has gone"))

// now is the org's time at the beginning of a test.
var now = time.Date(2026, 7, 3, 12, 0, 0, 0, time.UTC)

func newBench(t *testing.T, change ...func(*sftest.Config)) *bench {
	t.Helper()
	cfg := sftest.Config{Now: func() time.Time { return now }}
	for _, c := range change {
		c(&cfg)
	}
	org := sftest.NewOrg(cfg)
	t.Cleanup(org.Close)
	return &bench{t: t, org: org, doc: map[string]string{}, retry: salesforce.Retry{Attempts: 1}}
}

func (b *bench) client() *salesforce.Client {
	b.t.Helper()
	c, err := salesforce.New(salesforce.Config{
		LoginURL: b.org.URL, Auth: salesforce.ClientCredentials, ClientID: b.org.ClientID,
		ClientSecret: func() (string, error) { return b.org.ClientSecret, nil },
		Retry:        b.retry, Now: func() time.Time { return now },
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// pull runs a pass and commits what it says, as the rest of a pipeline would.
func (b *bench) pull(types ...string) error {
	return b.pullContext(context.Background(), types...)
}

func (b *bench) pullContext(ctx context.Context, types ...string) error {
	b.t.Helper()
	sh, err := shape.New(shape.Config{})
	if err != nil {
		b.t.Fatal(err)
	}
	client := b.client()
	id, err := client.OrgID(ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	cfg := Config{
		API: known{client}, OrgID: id, Types: TypeList{Include: types}, Interval: Hourly,
		Lookback: 100 * 24 * time.Hour, Settle: 5 * time.Minute, Patience: 24 * time.Hour, Poll: time.Hour,
		Concurrency: 3, TmpDir: b.t.TempDir(), Command: "sf-pull elf", Shape: sh,
		Resume: func(key string) (string, bool) { v, ok := b.doc[key]; return v, ok },
		Output: Output{Records: b.take, RunID: "run", Instance: "test", Now: time.Now},
		Log:    slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if b.letters != nil {
		cfg.Output.Letter = func(text []byte) error {
			b.letters = append(b.letters, b.parse(text)...)
			return nil
		}
	}
	if b.config != nil {
		b.config(&cfg)
	}
	b.raw, b.lines = nil, nil
	b.last = New(cfg)
	err = b.last.Pull(ctx)
	b.lines = b.parse(b.raw)
	for _, l := range b.lines {
		if l.Key != "" && l.Value != "" && l.Reason == "" {
			b.doc[l.Key] = l.Value
		}
	}
	b.balance()
	return err
}

// known is an org that tells which event types it knows.
type known struct{ API }

func (k known) Get(ctx context.Context, path string) ([]byte, error) {
	if path != "sobjects/EventLogFile/describe" {
		return k.API.Get(ctx, path)
	}
	var values []map[string]string
	for _, name := range sftest.Types() {
		values = append(values, map[string]string{"value": name})
	}
	return json.Marshal(map[string]any{"fields": []any{
		map[string]any{"name": "Id"}, map[string]any{"name": "EventType", "picklistValues": values},
	}})
}

// take is standard output.
func (b *bench) take(text []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
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

func (b *bench) parse(text []byte) []line {
	b.t.Helper()
	var out []line
	for raw := range bytes.Lines(text) {
		var l line
		if err := json.Unmarshal(raw, &l); err != nil {
			b.t.Fatalf("%v in %s", err, raw)
		}
		out = append(out, l)
	}
	return out
}

// balance holds the account of the run together.
func (b *bench) balance() {
	b.t.Helper()
	for _, c := range b.last.Stats().Totals().Types {
		if c.Read != c.Written+c.Filtered+c.SampledOut+c.SkippedDuplicate+c.DeadLettered {
			b.t.Errorf("the account does not balance: %+v", c)
		}
	}
}

// rows are the records with an entry.
func (b *bench) rows() []line {
	return slices.DeleteFunc(slices.Clone(b.lines), func(l line) bool { return l.Only || l.Reason != "" })
}

func (b *bench) gaps() []line {
	return slices.DeleteFunc(slices.Clone(b.lines), func(l line) bool { return l.Reason != "source_gap" })
}

func (b *bench) downloads() int { return len(b.org.Requests("/LogFile")) }

func (b *bench) wantRows(n int) {
	b.t.Helper()
	if got := len(b.rows()); got != n {
		b.t.Fatalf("%d rows, want %d\n%s", got, n, &b.log)
	}
}

func wantCode(t *testing.T, err error, code sysexits.Code) {
	t.Helper()
	if got := sysexits.Of(err); got != code {
		t.Fatalf("status %d, want %d: %v", got, code, err)
	}
}

func hourOf(h int) time.Time { return time.Date(2026, 7, 2, h, 0, 0, 0, time.UTC) }

func login(h, rows int) sftest.Hour { return sftest.Hour{Type: "Login", Start: hourOf(h), Rows: rows} }

func created(t time.Time) func(*sftest.LogFile) {
	return func(f *sftest.LogFile) { f.Created = t }
}

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
	b.org.SetSkew(10 * time.Minute) // #21-2: it is Salesforce's clock that counts
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
	b.wantRows(3) // the other type is not held back
	token := b.doc["eventlogfile:Login"]
	if !strings.Contains(token, `"failing":{"id":"`+first+`","since":"2026-07-03T12:00:00Z"}`) {
		t.Errorf("token %s", token)
	}
	b.org.ClearFaults()
	if err := b.pull("Login", "API"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(12)
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
		"page":           {HTML: true, Times: -1},
		"empty":          {Status: 200, Body: "", Times: -1},
		"array":          {Status: 200, Body: "[]", Times: -1},
		"cut":            {Status: 200, Body: `{"totalSize":1,"done":tr`, Times: -1},
		"without an Id":  {Status: 200, Body: `{"totalSize":1,"done":true,"records":[{"EventType":"Login"}]}`, Times: -1},
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
}

func TestStoredPositions(t *testing.T) { // #103
	for text, rows := range map[string]int{
		`2026-07-02T15:00:00Z`:          7, // a bare time begins there
		`2026-07-02T15:00:00.000+0000`:  7,
		`2026-07-02`:                    12,
		`"x"`:                           12, // no position: lookback
		`[1]`:                           12,
		`{"last_created":"None"}`:       12,
		`{"last_created":5}`:            12,
		`{`:                             12,
		``:                              12,
		`null`:                          12,
		`{"v":1,"created":"yesterday"}`: 12,
		`{"v":0,"created":"2026-07-02T15:00:00.000Z"}`:                                                        12,
		`{"ids": [["0AT1", "2026-06-30T01:00:00.000+0000"]], "last_created": "2026-07-02T15:00:00.000+0000"}`: 7,
	} {
		t.Run(text, func(t *testing.T) {
			b := newBench(t)
			b.org.AddHour(login(10, 5))
			b.org.AddHour(login(11, 7))
			b.org.AddHour(sftest.Hour{Type: "API", Start: hourOf(10), Rows: 3})
			b.doc["eventlogfile:Login"] = text
			if err := b.pull("Login", "API"); err != nil {
				t.Fatal(err)
			}
			b.wantRows(rows + 3)
			if bad := rows == 12 && text != "2026-07-02"; bad != (b.last.Stats().Totals().LoadErrors == 1) {
				t.Errorf("%d load errors", b.last.Stats().Totals().LoadErrors)
			}
		})
	}
}

func TestDaemonPosition(t *testing.T) {
	b := newBench(t)
	at := now.Add(-2 * time.Hour)
	var ids []string
	for h := range 4 {
		ids = append(ids, b.org.AddHour(login(h, 1), created(at)))
	}
	b.config = func(c *Config) { c.PageSize = 2 }
	stamp := at.Format("2006-01-02T15:04:05.000+0000")
	b.doc["eventlogfile:Login"] = fmt.Sprintf(`{"ids": [[%q, %q], [%q, %q], %q], "last_created": %q}`, ids[0], stamp, ids[1], stamp, ids[3], stamp)
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(1)
	if b.rows()[0].Origin != ids[2]+":1" {
		t.Errorf("origin %s", b.rows()[0].Origin)
	}
}

func TestForeignAndNewerPositions(t *testing.T) {
	for _, text := range []string{
		`{"v":1,"org":"00Dxx0000009999EAA","created":"2026-07-02T15:00:00.000Z"}`,
		`{"v":2,"anything":true}`,
	} {
		b := newBench(t)
		b.org.AddHour(login(10, 5))
		b.org.AddHour(sftest.Hour{Type: "API", Start: hourOf(10), Rows: 3})
		b.doc["eventlogfile:Login"] = text
		wantCode(t, b.pull("*"), sysexits.Config)
		if len(b.lines) != 0 {
			t.Errorf("%s: records were written", text)
		}
	}
}

func TestStoredIDIsNoCode(t *testing.T) { // #150
	b := newBench(t)
	b.org.AddHour(login(10, 5))
	b.doc["eventlogfile:Login"] = `{"v":1,"created":"2026-07-02T14:07:21.000Z","id":"0AT' OR Id > '"}`
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(5)
	if q := b.org.Requests("FROM EventLogFile"); len(q) == 0 || strings.Contains(q[0].Line(), "OR Id") {
		t.Errorf("queries %v", q)
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
func TestNewTypeAfterAnOutage(t *testing.T) {
	b := newBench(t)
	b.config = func(c *Config) { c.Lookback = 24 * time.Hour }
	b.org.AddHour(login(23, 5), created(now.Add(-time.Hour)))
	if err := b.pull("*"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(5)
	b.org.AddHour(sftest.Hour{Type: "LoginAs", Start: now.Add(5 * time.Hour), Rows: 2}, created(now.Add(8*time.Hour)))
	b.org.SetSkew(72 * time.Hour)
	if err := b.pull("*"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(2)
}

// A program that runs seldom begins where it first looked.
func TestFirstStartIsNoted(t *testing.T) {
	b := newBench(t)
	b.config = func(c *Config) { c.Lookback = 24 * time.Hour }
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.org.AddHour(login(23, 5), created(now.Add(time.Hour)))
	b.org.SetSkew(72 * time.Hour)
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(5)
}

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

func TestWindow(t *testing.T) {
	b := newBench(t)
	for h := 8; h < 14; h++ {
		b.org.AddHour(login(h, h), created(now.Add(-time.Duration(30-h)*time.Hour)))
	}
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	live := b.doc["eventlogfile:Login"]
	b.config = func(c *Config) { c.Window = Window{hourOf(9), hourOf(11)} }
	for _, want := range []int{9 + 10, 0} {
		if err := b.pull("Login"); err != nil {
			t.Fatal(err)
		}
		b.wantRows(want)
	}
	if b.doc["eventlogfile:Login"] != live || b.doc["window=2026-07-02T09:00:00Z/2026-07-02T11:00:00Z:eventlogfile:Login"] == "" {
		t.Errorf("keys %v", b.doc)
	}
}

func TestSince(t *testing.T) { // a position wins over --since
	b := newBench(t)
	b.org.AddHour(login(9, 9), created(now.Add(-9*time.Hour)))
	b.org.AddHour(login(10, 10), created(now.Add(-8*time.Hour)))
	b.config = func(c *Config) { c.Window.Since = hourOf(10) }
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(10)
	b.org.AddHour(login(8, 8), created(now.Add(-7*time.Hour)))
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(8)
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
func TestResume(t *testing.T) {
	b := newBench(t)
	b.org.AddHour(login(10, 40))
	b.org.AddHour(login(11, 40), func(f *sftest.LogFile) { f.Body = reversed(f.Body) })
	b.org.AddHour(login(12, 3))
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	want := b.rows()
	if len(want) != 83 || !slices.IsSortedFunc(want[:80], func(a, b line) int { return strings.Compare(a.TS, b.TS) }) {
		t.Fatalf("%d rows, or not in order", len(want))
	}
	for kill := 1; kill <= len(b.lines)+1; kill += 3 {
		clear(b.doc)
		var got []line
		for b.limit = kill; ; {
			err := b.pull("Login")
			got = append(got, b.rows()...)
			if err == nil {
				break
			}
			wantCode(t, err, sysexits.IOErr)
			b.limit += 7
		}
		b.limit = 0
		if !slices.EqualFunc(got, want, func(a, b line) bool {
			return a.Line == b.Line && a.TS == b.TS && a.Value == b.Value && a.Origin == b.Origin
		}) {
			t.Fatalf("killed after %d records: %d rows, want %d", kill, len(got), len(want))
		}
	}
}

// reversed turns the rows of a file around.
func reversed(csv []byte) []byte {
	rows := slices.Collect(bytes.Lines(csv))
	slices.Reverse(rows[1:])
	return bytes.Join(rows, nil)
}

// A file that was begun and has changed starts again; one that is gone is a gap.
func TestBegunFileChanges(t *testing.T) {
	b := newBench(t)
	id := b.org.AddHour(login(10, 5))
	token := func(id string, length int) string {
		return fmt.Sprintf(`{"v":1,"created":"2026-07-02T14:07:21.000Z","id":%q,"len":%d,"order":1,"rows":2}`, id, length)
	}
	length := len(b.org.LogFileBody(id))
	for text, want := range map[string]int{
		token(id, length):   3,
		token(id, length-1): 5,
		strings.Replace(token(id, length), `"order":1`, `"order":99`, 1): 5,
	} {
		b.doc["eventlogfile:Login"] = text
		if err := b.pull("Login"); err != nil {
			t.Fatal(err)
		}
		b.wantRows(want)
	}
	b.doc["eventlogfile:Login"] = token(sftest.ID18("0ATxx0000000000"), length)
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(5)
	if g := b.gaps(); len(g) != 1 || g[0].Gap.Rows != 2 {
		t.Errorf("gaps %+v", g)
	}
}

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

func TestStopDuringDownload(t *testing.T) { // #142
	b := newBench(t)
	b.org.AddHour(login(10, 5))
	b.org.AddHour(login(11, 5))
	b.org.Fault("/LogFile", sftest.Fault{StallAfter: 500, Times: -1})
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := errors.New("asked to stop")
	go func() {
		for b.downloads() == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel(stop)
	}()
	if err := b.pullContext(ctx, "Login"); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if b.downloads() != 1 || strings.Contains(b.doc["eventlogfile:Login"], "failing") {
		t.Errorf("%d downloads, token %s", b.downloads(), b.doc["eventlogfile:Login"])
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
