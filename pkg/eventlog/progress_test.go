package eventlog

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sf2loki/pkg/sftest"
)

// Who watches is told of all bytes before the first, and sees them done in the
// end; what is behind the position is no part of it.
func TestProgress(t *testing.T) {
	b := newBench(t)
	b.config = func(c *Config) { c.Watched = true }
	size := int64(0)
	for hour := range 3 {
		for _, eventType := range []string{"Login", "API"} {
			size += int64(len(b.org.LogFileBody(b.org.AddHour(sftest.Hour{Type: eventType, Start: now.Add(time.Duration(hour-30) * time.Hour), Rows: 700}))))
		}
	}
	b.org.AddHour(sftest.Hour{Type: "URI", Start: now.Add(-30 * time.Hour), Rows: 5}) // nobody asked for it
	check := func(want int64) {
		t.Helper()
		if done, total := b.last.Progress().Bytes(); done != want || total != want {
			t.Errorf("%d of %d bytes, want %d of them", done, total, want)
		}
	}
	if err := b.pull("Login", "API"); err != nil {
		t.Fatal(err)
	}
	check(size)
	next := b.org.AddHour(sftest.Hour{Type: "Login", Start: now.Add(-20 * time.Hour), Rows: 9})
	if err := b.pull("Login", "API"); err != nil {
		t.Fatal(err)
	}
	check(int64(len(b.org.LogFileBody(next))))
}

// Nobody watches: no query is spent on it.
func TestProgressCostsNothingUnwatched(t *testing.T) {
	queries := map[bool]int{}
	for _, watched := range []bool{true, false} {
		b := newBench(t)
		b.config = func(c *Config) { c.Watched = watched }
		b.org.AddHour(sftest.Hour{Type: "Login", Start: now.Add(-30 * time.Hour), Rows: 5})
		if err := b.pull("Login"); err != nil {
			t.Fatal(err)
		}
		queries[watched] = len(b.org.Requests("/query"))
	}
	if queries[true] != queries[false]+1 {
		t.Errorf("queries when watched and not: %v", queries)
	}
}

// A file on disk is read once, sorted or not.
func TestProgressOfFiles(t *testing.T) {
	for name, text := range map[string]string{
		"in order":     "EVENT_TYPE,TIMESTAMP\nLogin,20260702100000.000\nLogin,20260702100001.000\n",
		"out of order": "EVENT_TYPE,TIMESTAMP\nLogin,20260702100001.000\nLogin,20260702100000.000\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.csv")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var f *Files
			_, err := pullFiles(t, map[string]string{}, func(c *FilesConfig) { f = NewFiles(*c) }, path)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Check(); err != nil {
				t.Fatal(err)
			}
			if done, total := f.Progress().Bytes(); done != 0 || total != int64(len(text)) {
				t.Errorf("before: %d of %d bytes of %d", done, total, len(text))
			}
			if err := f.Pull(context.Background()); err != nil {
				t.Fatal(err)
			}
			if done, total := f.Progress().Bytes(); done != total || total != int64(len(text)) {
				t.Errorf("%d of %d bytes of %d", done, total, len(text))
			}
		})
	}
}
