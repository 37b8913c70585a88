// Package lettertest proves, with the programs as they are installed and real
// shells, what is promised of dead letters. The names of its tests, D1 to D34,
// are those of the requirements.
package lettertest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/record"
	"sf2loki/scripts/testbed"
)

func TestMain(m *testing.M) { os.Exit(testbed.Main(m)) }

// bench is a directory to run scripts in, and a Loki.
type bench struct {
	*testbed.Bed
	srv *lokitest.Server
}

func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	b := &bench{testbed.New(t), lokitest.NewServer(lokitest.Config{Limits: lokitest.Plain})}
	t.Cleanup(b.srv.Close)
	b.Set(
		"LOKI_PUSH_URL="+b.srv.URL, "LOKI_PUSH_FLUSH_INTERVAL=50ms", "LOKI_PUSH_STREAM_BYTES_PER_SECOND=0", "LOKI_PUSH_INSTANCE=x",
		"SF_PULL_LOG_LEVEL=warn", "LOKI_PUSH_LOG_LEVEL=info", "DL_REPLAY_LOG_LEVEL=warn",
	)
	return b
}

// limit changes the limits of the Loki.
func (b *bench) limit(change func(*lokitest.Limits)) { b.srv.SetLimits("fake", change) }

// lineLimit makes lines that are longer poison.
func (b *bench) lineLimit(n int) { b.limit(func(l *lokitest.Limits) { l.MaxLineSize = n }) }

// glob are the files of a pattern, by name.
func (b *bench) glob(pattern string) []string {
	b.T.Helper()
	found, err := filepath.Glob(b.Path(pattern))
	if err != nil {
		b.T.Fatal(err)
	}
	slices.Sort(found)
	return found
}

// want runs a script that ends with a status and prints some texts.
func (b *bench) want(status int, script string, texts ...string) *testbed.Result {
	b.T.Helper()
	r := b.Run(script)
	if r.Status != status {
		b.T.Errorf("want status %d: %v", status, r)
	}
	for _, text := range texts {
		if !strings.Contains(r.Stdout, text) {
			b.T.Errorf("want %q: %v", text, r)
		}
	}
	return r
}

// rec is a record of the source, with its number as its token.
type rec struct {
	n    int
	ago  time.Duration
	line string
	typ  string
	key  string
	meta string
}

// epoch is one moment for the whole run: the same record is the same entry.
var epoch = time.Now().Add(-10 * time.Minute).Truncate(time.Second)

func (r rec) text() string {
	if r.typ == "" {
		r.typ = "Login"
	}
	if r.key == "" {
		r.key = "k"
	}
	out := &record.Record{
		Time: epoch.Add(-r.ago).UnixNano() + int64(r.n), HasTime: true, Line: []byte(r.line),
		Labels: []record.Pair{{Name: []byte("source"), Value: []byte("test")}, {Name: []byte("event_type"), Value: []byte(r.typ)}},
		Key:    []byte(r.key), Value: fmt.Append(nil, r.n), Origin: fmt.Appendf(nil, "0AT:%d", r.n),
	}
	if r.meta != "" {
		out.Metadata = []record.Pair{{Name: []byte("meta"), Value: []byte(r.meta)}}
	}
	return string(record.AppendRecord(nil, out))
}

// input writes n records from number 1; change makes them what a test needs.
func (b *bench) input(name string, n int, change func(*rec)) {
	b.T.Helper()
	var text strings.Builder
	for i := 1; i <= n; i++ {
		r := rec{n: i, line: fmt.Sprintf(`{"N":%d}`, i)}
		if change != nil {
			change(&r)
		}
		text.WriteString(r.text())
	}
	b.Write(name, text.String())
}

// long is a line of so many bytes.
func long(n int) string { return strings.Repeat("x", n) }

// poison makes some records too long for lineLimit(100).
func poison(numbers ...int) func(*rec) {
	return func(r *rec) {
		if slices.Contains(numbers, r.n) {
			r.line = fmt.Sprint(r.n, long(150))
		}
	}
}

// letter is what the tests look at of a dead letter.
type letter struct {
	Origin, Reason, Line string
	Payload              string `json:"payload_base64"`
	SchemaID             string `json:"schema_id"`
	DeadLetter           struct {
		ID, Detail string
		Attempts   int
		Errors     []json.RawMessage
	} `json:"dead_letter"`
}

func (b *bench) parse(text string) (all []letter) {
	b.T.Helper()
	for line := range strings.Lines(text) {
		var l letter
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			b.T.Fatalf("%.200s: %v", line, err)
		}
		if l.Reason != "" {
			all = append(all, l)
		}
	}
	return all
}

// letters are those of files, in the order of their names.
func (b *bench) letters(pattern string) (all []letter) {
	b.T.Helper()
	for _, path := range b.glob(pattern) {
		data, err := os.ReadFile(path)
		if err != nil {
			b.T.Fatal(err)
		}
		all = append(all, b.parse(string(data))...)
	}
	return all
}

// origins are where letters came from: one word each.
func origins(all []letter) string {
	var words []string
	for _, l := range all {
		words = append(words, strings.TrimPrefix(l.Origin, "0AT:"))
	}
	return strings.Join(words, " ")
}

// acked is the last token of a key in acknowledgements.
func (b *bench) acked(text, key string) string {
	b.T.Helper()
	last := ""
	for line := range strings.Lines(text) {
		var a struct {
			Key   string `json:"checkpoint_key"`
			Value string `json:"checkpoint_value"`
		}
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			b.T.Fatalf("%.200s: %v", line, err)
		}
		if a.Key == key {
			last = a.Value
		}
	}
	return last
}

// stored are the lines that Loki holds, and how often.
func (b *bench) stored() map[string]int {
	lines := map[string]int{}
	for _, e := range b.srv.Entries("fake") {
		lines[e.Line]++
	}
	return lines
}

// capture makes letters of records by having Loki refuse their lines. Those
// that change leaves alone are refused as well.
func (b *bench) capture(n int, change func(*rec)) {
	b.T.Helper()
	b.input("captured", n, change)
	b.limit(func(l *lokitest.Limits) { l.MaxLineSize = 1 })
	b.want(0, "loki-push --breaker=false --spool dead <captured >/dev/null")
	b.limit(func(l *lokitest.Limits) { l.MaxLineSize = 256 << 10 })
}
