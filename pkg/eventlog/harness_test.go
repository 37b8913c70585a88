package eventlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

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
		API: client, OrgID: id, Types: TypeList{Include: types}, Interval: Hourly,
		Lookback: 100 * 24 * time.Hour, Settle: 5 * time.Minute, Patience: 24 * time.Hour, Poll: time.Hour,
		Concurrency: 3, TmpDir: b.t.TempDir(), Command: "sf-pull elf", Shape: sh,
		Resume: func(key string) (string, bool) { v, ok := b.doc[key]; return v, ok },
		Output: outlet.Output{Records: b.take, RunID: "run", Instance: "test", Now: time.Now},
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
