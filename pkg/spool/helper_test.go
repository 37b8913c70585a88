package spool

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/record"
)

var testTime = time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.UTC)

// sample is a dead letter with the number i in its line.
func sample(i int, reason record.Reason) []byte {
	rec := &record.Record{
		Time: testTime.UnixNano() + int64(i), HasTime: true,
		Labels: []record.Pair{{Name: []byte("source"), Value: []byte("eventlogfile")}, {Name: []byte("event_type"), Value: []byte("Login")}},
		Line:   fmt.Appendf(nil, `{"N":%d}`, i),
		Key:    []byte("eventlogfile:Login"), Value: []byte("v"),
	}
	return record.AppendLetter(nil, rec, &record.Letter{Reason: reason, CapturedAt: testTime, Status: 400, Stage: "push", RunID: "r1"})
}

func openWriter(t *testing.T, cfg Config) *Writer {
	t.Helper()
	w, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func mustAppend(t *testing.T, w *Writer, lines ...[]byte) {
	t.Helper()
	if err := w.Append(lines); err != nil {
		t.Fatal(err)
	}
}

// listing is the names in a directory.
func listing(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func wantListing(t *testing.T, dir string, want ...string) {
	t.Helper()
	if got := listing(t, dir); !slices.Equal(got, want) {
		t.Errorf("directory holds %q, want %q", got, want)
	}
}

func mustWrite(t *testing.T, path string, data ...[]byte) {
	t.Helper()
	if err := os.WriteFile(path, bytes.Join(data, nil), 0o600); err != nil {
		t.Fatal(err)
	}
}

// readAll reads the records of a spool directory and the files named: the
// number in each line with its status.
func readAll(t *testing.T, dir string) []string {
	t.Helper()
	set, err := Find([]string{dir}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	var got []string
	for _, f := range set.Files {
		_, err := f.Read(func(l *Letter, s Status) error {
			got = append(got, fmt.Sprintf("%s:%s:%s", strings.TrimPrefix(filepath.Base(f.Path), "a-20261130-"), l.EntryLine(), s))
			return nil
		}, func(d *Damage) { got = append(got, fmt.Sprintf("damage:%d:%d:%v", d.Line, d.Offset, d.Torn)) })
		if err != nil {
			t.Fatal(err)
		}
	}
	return got
}
