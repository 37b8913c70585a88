package spool

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sf2loki/pkg/logtest"
	"sf2loki/pkg/record"
)

// sweepDir holds a file that was replayed and one that was not, both two days
// old, the same an hour old, one in somebody's hands, and a journal alone.
func sweepDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for i, suffix := range []string{".replayed", "", ".replayed", ""} {
		path := filepath.Join(dir, fmt.Sprintf("a-20261130-00000%d.ndjson%s", i+1, suffix))
		mustWrite(t, path, sample(2*i, record.TooOld), sample(2*i+1, record.TooNew))
		at := testTime.Add(-time.Hour)
		if i < 2 {
			at = testTime.Add(-48 * time.Hour)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	held := filepath.Join(dir, "a-20261130-000005.ndjson.replayed")
	mustWrite(t, held, sample(9, record.TooOld))
	f, err := os.Open(held)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	alone := filepath.Join(dir, "a-20261130-000006.ndjson.journal")
	mustWrite(t, alone, []byte("{}\n"))
	if err := os.Chtimes(alone, testTime, testTime); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, filepath.Join(dir, "notes"), []byte("not ours"))
	return dir
}

func TestPrune(t *testing.T) {
	tests := []struct {
		name  string
		sweep Sweep
		gone  string // numbers, in the order in which they went
		lost  int64
	}{
		{"what is done with", Sweep{}, "1 3 6", 0},
		{"what is done with and old", Sweep{OlderThan: 24 * time.Hour}, "1", 0},
		{"all that is old", Sweep{OlderThan: 24 * time.Hour, Unreplayed: true}, "1 2", 2},
		{"all", Sweep{Unreplayed: true}, "1 3 6 2 4", 4},
		{"nothing: there is room", Sweep{Bytes: 1 << 30, Unreplayed: true}, "", 0},
		{"until there is room", Sweep{Bytes: 2500}, "1 3 6", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := sweepDir(t)
			for _, dry := range []bool{true, false} {
				tt.sweep.Now, tt.sweep.Log, tt.sweep.DryRun = func() time.Time { return testTime }, slog.New(slog.DiscardHandler), dry
				var gone []string
				var lost int64
				before := len(listing(t, dir))
				inUse, err := Prune(dir, tt.sweep, func(s Swept) error {
					gone = append(gone, strings.TrimLeft(filepath.Base(s.File)[len("a-20261130-"):][:6], "0"))
					lost += s.Waiting()
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if names := strings.Join(gone, " "); lost != tt.lost || names != tt.gone {
					t.Errorf("dry %v: gone %q, lost %d; want %q, %d", dry, names, lost, tt.gone, tt.lost)
				}
				if wantUse := tt.name == "all" || tt.name == "what is done with" || tt.name == "until there is room"; (inUse > 0) != wantUse {
					t.Errorf("%d in use", inUse)
				}
				if after := len(listing(t, dir)); dry && after != before || !dry && before-after != len(gone) {
					t.Errorf("dry %v: %d files, then %d", dry, before, after)
				}
			}
		})
	}
}

// What is gone says nothing of the rest: a count is of what is on the disk.
func TestSurvey(t *testing.T) {
	dir := t.TempDir()
	first := filepath.Join(dir, "a-20261130-000001.ndjson")
	mustWrite(t, first, sample(1, record.TooOld), sample(2, record.TruncatedCopy))
	mustWrite(t, filepath.Join(dir, "a-20261130-000002.ndjson.replayed"), sample(3, record.TooOld))
	s := NewSurvey([]string{dir}, slog.New(slog.DiscardHandler))
	got, err := s.Take()
	if err != nil || got.Pending != 1 || got.Files != 2 || got.Bytes == 0 || !got.OldestPending.Equal(testTime) || got.OldestEvent.UnixNano() != testTime.UnixNano()+1 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Take(); err != nil || got.Pending != 0 || !got.OldestPending.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
}

// A file that cannot be read hides none of the others, neither from a survey nor
// from a writer, and is counted as soon as it can be read.
func TestSurveyOfWhatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	planted := filepath.Join(dir, "a-20261130-000001.ndjson")
	mustWrite(t, filepath.Join(dir, "a-20261130-000002.ndjson"), sample(1, record.TooOld))
	if err := os.Mkdir(planted, 0o700); err != nil {
		t.Fatal(err)
	}
	log := new(logtest.Log)
	s := NewSurvey([]string{dir}, log.Logger(slog.LevelInfo))
	if got, err := s.Take(); err != nil || got.Pending != 1 || !strings.Contains(log.String(), "file cannot be read") {
		t.Errorf("%+v, %v", got, err)
	}
	w := openWriter(t, Config{Dir: dir, Instance: "b", Now: func() time.Time { return testTime }})
	mustAppend(t, w, sample(2, record.TooOld))
	w.Close()
	if st := w.Stats(); st.Stock.Pending != 2 {
		t.Errorf("%+v", st)
	}
	if err := os.Remove(planted); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, planted, sample(3, record.TooOld))
	if got, err := s.Take(); err != nil || got.Pending != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A run that is shorter than a look around leaves the right numbers.
func TestStatsAfterClose(t *testing.T) {
	w := openWriter(t, Config{Dir: t.TempDir(), Instance: "a", Now: func() time.Time { return testTime }})
	mustAppend(t, w, sample(1, record.TooOld), sample(2, record.TooOld))
	w.Close()
	if st := w.Stats(); st.Stock.Pending != 2 || st.Stock.Files != 1 || st.Stock.Bytes != st.Bytes || !st.Stock.OldestPending.Equal(testTime) {
		t.Errorf("%+v", st)
	}
}
