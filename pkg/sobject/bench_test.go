package sobject

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sf2loki/pkg/outlet"
	"sf2loki/pkg/record"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sftest"
	"sf2loki/pkg/sftest/soql"
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
}

// bench is an org, its clock, the state that a pipeline would keep, and what
// came out.
type bench struct {
	tries  int // of the client; 0: 1
	t      *testing.T
	org    *sftest.Org
	doc    map[string]string
	config func(*Config)
	http   *http.Client
	api    func(API) API
	now    time.Time

	mu    sync.Mutex
	limit int // records to take before the reader goes away; 0: all
	raw   []byte
	log   bytes.Buffer
	last  *Source
}

var errFull = sysexits.Wrap(sysexits.IOErr, errors.New("the reader has gone"))

// start is the org's time at the beginning of a test.
var start = time.Date(2026, 7, 3, 12, 0, 0, 0, time.UTC)

func newBench(t *testing.T, change ...func(*sftest.Config)) *bench {
	t.Helper()
	b := &bench{t: t, doc: map[string]string{}, now: start}
	cfg := sftest.Config{Now: b.clock}
	for _, c := range change {
		c(&cfg)
	}
	b.org = sftest.NewOrg(cfg)
	t.Cleanup(b.org.Close)
	fields := func(names ...string) []soql.Field {
		out := []soql.Field{{Name: "Id", Type: soql.ID}}
		for _, n := range names {
			f := soql.Field{Name: n}
			if strings.HasSuffix(n, "Time") || strings.HasSuffix(n, "Date") || n == "Timestamp" || n == "SystemModstamp" {
				f.Type = soql.Time
			}
			out = append(out, f)
		}
		return out
	}
	b.org.Define(sftest.Table{Object: soql.Object{Name: "LoginHistory", Fields: fields("UserId", "LoginTime", "Status", "Note", "CreatedDate")}, KeyPrefix: "0Ya"})
	b.org.Define(sftest.Table{Object: soql.Object{Name: "SetupAuditTrail", Fields: fields("Action", "CreatedDate")}, KeyPrefix: "0Ym"})
	b.org.Define(sftest.Table{Object: soql.Object{Name: "RestApiEventLog", Fields: fields("Timestamp", "Uri")}, KeyPrefix: "0eL"})
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

// ago is a time in the org.
func (b *bench) ago(d time.Duration) time.Time { return b.org.Now().Add(-d) }

func (b *bench) client() *salesforce.Client {
	b.t.Helper()
	c, err := salesforce.New(salesforce.Config{
		LoginURL: b.org.URL, Auth: salesforce.ClientCredentials, ClientID: b.org.ClientID,
		ClientSecret: func() (string, error) { return b.org.ClientSecret, nil },
		Retry:        salesforce.Retry{Attempts: max(b.tries, 1), Min: time.Nanosecond, Max: time.Nanosecond}, Now: b.clock, HTTP: b.http,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// open is a new process.
func (b *bench) open(objects ...string) *Source {
	b.t.Helper()
	sh, err := shape.New(shape.Config{Metadata: []string{"UserId"}})
	if err != nil {
		b.t.Fatal(err)
	}
	client := b.client()
	id, err := client.OrgID(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	cfg := Config{
		API: client, OrgID: id, Lookback: 24 * time.Hour, Settle: 5 * time.Minute, Overlap: 10 * time.Minute,
		Poll: 5 * time.Minute, Concurrency: 2, Shape: sh,
		Resume: func(key string) (string, bool) { v, ok := b.doc[key]; return v, ok },
		Output: outlet.Output{Records: b.take, RunID: "run", Instance: "test", Now: time.Now},
		Log:    slog.New(slog.NewTextHandler(&locked{b: b}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if b.api != nil {
		cfg.API = b.api(client)
	}
	for _, text := range objects {
		list, err := ParseObjects(text, time.ParseDuration)
		if err != nil {
			b.t.Fatal(err)
		}
		cfg.Objects = append(cfg.Objects, list...)
	}
	if b.config != nil {
		b.config(&cfg)
	}
	b.last = New(cfg)
	return b.last
}

// locked is the log, which several goroutines write.
type locked struct{ b *bench }

func (l *locked) Write(p []byte) (int, error) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	return l.b.log.Write(p)
}

// pull runs a pass in a process of its own and commits what it says, as the
// rest of a pipeline would.
func (b *bench) pull(objects ...string) ([]line, error) {
	b.t.Helper()
	return b.run(b.open(objects...).Pull)
}

// must is pull that goes well; it gives the rows only.
func (b *bench) must(objects ...string) []line {
	b.t.Helper()
	lines, err := b.pull(objects...)
	if err != nil {
		b.t.Fatalf("%v\n%s", err, b.log.String())
	}
	return entries(lines)
}

// cycle is one more cycle of all objects in the process that is open.
func (b *bench) cycle(s *Source) ([]line, error) {
	b.t.Helper()
	return b.run(func(ctx context.Context) error {
		if s.series == nil {
			if err := s.prepare(ctx); err != nil {
				return err
			}
		}
		return s.once(ctx)
	})
}

func (b *bench) mustCycle(s *Source) []line {
	b.t.Helper()
	lines, err := b.cycle(s)
	if err != nil {
		b.t.Fatalf("%v\n%s", err, b.log.String())
	}
	return entries(lines)
}

func (b *bench) run(f func(context.Context) error) ([]line, error) {
	b.t.Helper()
	b.raw = nil
	err := f(context.Background())
	lines := b.parse(b.raw)
	for _, l := range lines {
		if l.Key != "" && l.Value != "" {
			b.doc[l.Key] = l.Value
		}
	}
	b.balance()
	return lines, err
}

// balance holds every run to the guarantee that nothing is lost silently.
func (b *bench) balance() {
	b.t.Helper()
	for _, c := range b.last.Stats().Totals().Types {
		if c.Read != c.Written+c.Filtered+c.SampledOut+c.SkippedDuplicate+c.DeadLettered {
			b.t.Errorf("the account of %s does not balance: %+v", c.EventType, c)
		}
	}
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
	for raw := range bytes.SplitSeq(bytes.TrimSpace(text), []byte("\n")) {
		if len(raw) == 0 {
			continue
		}
		var l line
		if err := json.Unmarshal(raw, &l); err != nil {
			b.t.Fatalf("%s: %v", raw, err)
		}
		out = append(out, l)
	}
	return out
}

func entries(lines []line) []line {
	return slices.DeleteFunc(slices.Clone(lines), func(l line) bool { return l.Only })
}

func origins(lines []line) []string {
	var out []string
	for _, l := range lines {
		out = append(out, l.Origin)
	}
	return out
}

// logins adds rows to LoginHistory, one every step from a time on.
func (b *bench) logins(n int, from time.Time, step time.Duration) []string {
	rows := make([]sftest.Row, n)
	for i := range rows {
		rows[i] = sftest.Row{"UserId": "005xx000001Sv6AAAS", "LoginTime": from.Add(time.Duration(i) * step), "Status": "Success"}
	}
	return b.org.Insert("LoginHistory", rows...)
}

// events adds rows to the Big Object LoginEvent, with identifiers that rise
// from first on, or fall.
func (b *bench) events(n, first int, falling bool, from time.Time, step time.Duration) []string {
	rows := make([]sftest.Row, n)
	ids := make([]string, n)
	for i := range rows {
		number := first + i
		if falling {
			number = first + n - 1 - i
		}
		ids[i] = eventID(number)
		rows[i] = sftest.Row{"EventDate": from.Add(time.Duration(i) * step), "EventIdentifier": ids[i], "Username": "ada@example.com", "Status": "Success"}
	}
	b.org.Insert("LoginEvent", rows...)
	return ids
}

func eventID(n int) string { return fmt.Sprintf("5f1c3b60-0000-4000-8000-%012x", n) }

// sameSet compares without order; every id may be there once.
func sameSet(t *testing.T, got, want []string) {
	t.Helper()
	a, b := slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(a, b) {
		t.Errorf("%d rows, %d different; want %d", len(a), len(slices.Compact(slices.Clone(a))), len(b))
	}
}

// inOrder wants the times of lines to rise.
func inOrder(t *testing.T, lines []line) {
	t.Helper()
	for i := 1; i < len(lines); i++ {
		if lines[i].TS < lines[i-1].TS {
			t.Fatalf("row %d is of %s, after one of %s", i, lines[i].TS, lines[i-1].TS)
		}
	}
}

func (b *bench) queries(match string) []string {
	var out []string
	for _, r := range b.org.Requests("/query?") {
		if strings.Contains(r.Query, match) {
			out = append(out, r.Query)
		}
	}
	return out
}
