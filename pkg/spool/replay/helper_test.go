package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/logtest"
	"sf2loki/pkg/record"
	"sf2loki/pkg/spool"
	"sf2loki/pkg/sysexits"
)

const file = "a-20261130-000001.ndjson"

// prelude is what a command of a test knows to say. Its directory is that of
// the spool.
const prelude = `
all() { cat >/dev/null; }
ack() { # NUMBER DELIVERED REJECTED DROPPED
	printf '{"checkpoint_key":"deadletter:` + file + `","checkpoint_value":"%s","delivered":%d,"rejected":%d,"dropped":%d}\n' "$@"
}
refuse() { # NUMBER REASON
	printf '{"labels":{},"line":"r","reason":"%s","checkpoint_key":"deadletter:` + file + `","checkpoint_value":"%s"}\n' "$2" "$1" >&3
}
refuse_id() { # ID REASON
	printf '{"labels":{},"line":"r","reason":"%s","dead_letter":{"v":1,"id":"%s"}}\n' "$2" "$1" >&3
}
until_replayed() { # NUMBER: that many are entered
	until test "$(grep -c '"fate":"replayed"' ` + file + `.journal)" -ge "$1"; do sleep 0.02; done
}
`

// bench is a spool with what a replay of it takes.
type bench struct {
	t   *testing.T
	dir string
	log logtest.Log
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "spool")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, dir: dir}
}

// capturedFor is dead letter number n, of an event n seconds before noon.
func capturedFor(n int, reason record.Reason) []byte {
	rec := &record.Record{
		Time: now.Add(-time.Duration(n) * time.Second).UnixNano(), HasTime: true,
		Labels: []record.Pair{{Name: []byte("event_type"), Value: []byte("Login")}},
		Line:   fmt.Append(nil, n), Key: []byte("eventlogfile:Login"), Value: []byte("live"),
	}
	return record.AppendLetter(nil, rec, &record.Letter{
		Reason: reason, CapturedAt: now.Add(time.Duration(n) * time.Minute), Status: 400, Stage: "push", RunID: "r1", Org: "prod",
	})
}

// captured are dead letters with these numbers.
func captured(numbers ...int) []byte {
	var out []byte
	for _, n := range numbers {
		out = append(out, capturedFor(n, record.BadRequest)...)
	}
	return out
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bench) write(name string, data []byte) {
	b.t.Helper()
	if err := os.WriteFile(b.path(name), data, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) read(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(b.path(name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

func (b *bench) set() *spool.Set {
	b.t.Helper()
	set, err := spool.Find([]string{b.dir}, nil, b.log.Logger(slog.LevelInfo))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(set.Close)
	return set
}

// config replays all that is new through a shell script.
func (b *bench) config(script string) Config {
	b.t.Helper()
	stderr, err := os.OpenFile(b.path("stderr"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { stderr.Close() })
	return Config{
		Options: Options{
			Selection: spool.Selection{Statuses: []spool.Status{spool.New}},
			MaxAge:    7 * 24 * time.Hour, TS: Keep, MaxAttempts: 3, Order: ByCapture,
			Now: func() time.Time { return now },
		},
		Set: b.set(), Command: []string{"sh", "-c", "cd '" + b.dir + "'\n" + prelude + script}, Stderr: stderr,
		Env:   append(os.Environ(), fmt.Sprint("ID2=", letterOf(b.t, string(capturedFor(2, record.BadRequest))).ID())),
		Grace: time.Minute, RunID: "r2", Program: "test", Log: b.log.Logger(slog.LevelInfo),
	}
}

// run replays, and wants the exit status.
func (b *bench) run(cfg Config, want sysexits.Code) Result {
	b.t.Helper()
	res, err := Run(b.t.Context(), cfg)
	b.wantStatus(err, want)
	return res
}

func (b *bench) wantStatus(err error, want sysexits.Code) {
	b.t.Helper()
	if got := sysexits.Of(err); got != want {
		b.t.Errorf("status %d (%v), want %d; the command said %q; log:\n%s", got, err, want, b.read("stderr"), &b.log)
	}
}

// statuses are what the records are now: the line of each with its status, and
// with the reason if a replay brought it back.
func (b *bench) statuses() string {
	b.t.Helper()
	var got []string
	for _, f := range b.set().Files {
		_, err := f.Read(func(l *spool.Letter, s spool.Status) error {
			text := fmt.Sprintf("%s:%s", l.EntryLine(), s)
			if f.Failed() {
				text += ":" + string(l.Reason())
			}
			if s != spool.Moved {
				got = append(got, text)
			}
			return nil
		}, func(*spool.Damage) {})
		if damage := (*spool.Damage)(nil); err != nil && !errors.As(err, &damage) {
			b.t.Fatal(err)
		}
	}
	slices.Sort(got)
	return strings.Join(got, " ")
}

func (b *bench) wantStatuses(want string) {
	b.t.Helper()
	if got := b.statuses(); got != want {
		b.t.Errorf("records are %q, want %q", got, want)
	}
}

// putRight does what every run does first: it puts right what a killed one left.
func (b *bench) putRight() {
	b.t.Helper()
	for _, files := range b.set().Groups() {
		claim, err := spool.TakeGroup(files, "r3", time.Now, slog.New(slog.DiscardHandler))
		if err != nil {
			b.t.Fatal(err)
		}
		claim.Release()
	}
}

func (b *bench) exists(name string) bool {
	_, err := os.Stat(b.path(name))
	return err == nil
}

// within waits until something has happened in the directory.
func (b *bench) within(what string, happened func() bool) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !happened() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.t.Errorf("%s did not happen", what)
			return
		}
	}
}
