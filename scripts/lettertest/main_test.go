// Package lettertest proves, with the programs as they are installed and real
// shells, what is promised of dead letters. The names of its tests, D1 to D34,
// are those of the requirements.
package lettertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/record"
)

const root = "../.."

var binDir string

func TestMain(m *testing.M) {
	status := func() int {
		dir, err := os.MkdirTemp("", "lettertest-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binDir = dir
		return m.Run()
	}()
	os.Exit(status)
}

var built = sync.OnceValue(func() error {
	cmd := exec.Command("go", "build", "-o", binDir+"/", "./cmd/sf-pull", "./cmd/loki-push", "./cmd/dl-replay", "./cmd/ckpt")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return nil
})

// bench is a directory, a Loki, and the programs in PATH.
type bench struct {
	t   *testing.T
	dir string
	srv *lokitest.Server
	env []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	if err := built(); err != nil {
		t.Fatal(err)
	}
	srv := lokitest.NewServer(lokitest.Config{Limits: lokitest.Plain})
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	return &bench{t: t, dir: dir, srv: srv, env: []string{
		"PATH=" + binDir + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + dir, "TMPDIR=" + dir, "LC_ALL=C",
		"LOKI_PUSH_URL=" + srv.URL, "LOKI_PUSH_FLUSH_INTERVAL=50ms", "LOKI_PUSH_STREAM_BYTES_PER_SECOND=0", "LOKI_PUSH_INSTANCE=x",
		"SF_PULL_LOG_LEVEL=warn", "LOKI_PUSH_LOG_LEVEL=info", "DL_REPLAY_LOG_LEVEL=warn",
	}}
}

// limit changes the limits of the Loki.
func (b *bench) limit(change func(*lokitest.Limits)) { b.srv.SetLimits("fake", change) }

// lineLimit makes lines that are longer poison.
func (b *bench) lineLimit(n int) { b.limit(func(l *lokitest.Limits) { l.MaxLineSize = n }) }

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bench) write(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) read(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(b.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Fatal(err)
	}
	return string(data)
}

// glob are the files of a pattern, by name.
func (b *bench) glob(pattern string) []string {
	b.t.Helper()
	found, err := filepath.Glob(b.path(pattern))
	if err != nil {
		b.t.Fatal(err)
	}
	slices.Sort(found)
	return found
}

// result is how a script ended.
type result struct {
	script         string
	status         int
	stdout, stderr string
	took           time.Duration
}

func (r *result) String() string {
	return fmt.Sprintf("%s\nstatus %d after %v\nstdout: %.2000s\nstderr: %.3000s", r.script, r.status, r.took.Round(time.Millisecond), r.stdout, r.stderr)
}

func (b *bench) command(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir, cmd.Env = b.dir, b.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

func (b *bench) run(script string) *result {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := b.command(ctx, script)
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	begun := time.Now()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.t.Fatalf("%s: %v", script, err)
	}
	r := &result{script: script, status: cmd.ProcessState.ExitCode(), stdout: out.String(), stderr: said.String(), took: time.Since(begun)}
	return r
}

// want runs a script that ends with a status and prints some texts.
func (b *bench) want(status int, script string, texts ...string) *result {
	b.t.Helper()
	r := b.run(script)
	if r.status != status {
		b.t.Errorf("want status %d: %v", status, r)
	}
	for _, text := range texts {
		if !strings.Contains(r.stdout, text) {
			b.t.Errorf("want %q: %v", text, r)
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
	b.t.Helper()
	var text strings.Builder
	for i := 1; i <= n; i++ {
		r := rec{n: i, line: fmt.Sprintf(`{"N":%d}`, i)}
		if change != nil {
			change(&r)
		}
		text.WriteString(r.text())
	}
	b.write(name, text.String())
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
	b.t.Helper()
	for line := range strings.Lines(text) {
		var l letter
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			b.t.Fatalf("%.200s: %v", line, err)
		}
		if l.Reason != "" {
			all = append(all, l)
		}
	}
	return all
}

// letters are those of files, in the order of their names.
func (b *bench) letters(pattern string) (all []letter) {
	b.t.Helper()
	for _, path := range b.glob(pattern) {
		data, err := os.ReadFile(path)
		if err != nil {
			b.t.Fatal(err)
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
	b.t.Helper()
	last := ""
	for line := range strings.Lines(text) {
		var a struct {
			Key   string `json:"checkpoint_key"`
			Value string `json:"checkpoint_value"`
		}
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			b.t.Fatalf("%.200s: %v", line, err)
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
	b.t.Helper()
	b.input("captured", n, change)
	b.limit(func(l *lokitest.Limits) { l.MaxLineSize = 1 })
	b.want(0, "loki-push --breaker=false --spool dead <captured >/dev/null")
	b.limit(func(l *lokitest.Limits) { l.MaxLineSize = 256 << 10 })
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline:
			t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}
