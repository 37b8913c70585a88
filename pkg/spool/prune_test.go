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

// D10: three times the room is written; what is kept fits, and what is gone is
// counted.
func TestBudget(t *testing.T) {
	dir := t.TempDir()
	var log logtest.Log
	const fileBytes, budget = 2000, 10000
	w := openWriter(t, Config{Dir: dir, Instance: "a", FileBytes: fileBytes, Bytes: budget, Now: at(testTime), Log: log.Logger(slog.LevelInfo)})
	const records = 100
	for i := range records {
		mustAppend(t, w, sample(i, record.LineTooLong))
		var size int64
		for _, name := range listing(t, dir) {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			size += info.Size()
		}
		if size > budget {
			t.Fatalf("%d bytes after record %d", size, i)
		}
	}
	kept := readAll(t, dir)
	lost := w.Stats().PrunedUnreplayed["line_too_long"]
	if len(kept) == 0 || int64(len(kept))+lost != records {
		t.Errorf("%d kept and %d counted as lost of %d", len(kept), lost, records)
	}
	if last := kept[len(kept)-1]; !strings.Contains(last, fmt.Sprintf(`{"N":%d}`, records-1)) {
		t.Errorf("the last record kept is %s", last)
	}
	if !strings.Contains(log.String(), "nobody had replayed") {
		t.Error("nothing was said")
	}
}

// putFile makes a spool file with n records that was last written so long ago.
func putFile(t *testing.T, dir, name string, age time.Duration, lines ...[]byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	mustWrite(t, path, lines...)
	when := testTime.Add(-age)
	if err := os.Chtimes(path, when, when); err != nil {
		t.Fatal(err)
	}
}

const day = 24 * time.Hour

func TestRetention(t *testing.T) {
	dir := t.TempDir()
	putFile(t, dir, "a-20261120-000001.ndjson", 8*day, sample(1, "too_old"), sample(2, "too_old"))
	fate := entry{line: 1, id: lineID(t, sample(1, "too_old")), fate: Replayed, at: testTime, run: "r"}
	putFile(t, dir, "a-20261120-000001.ndjson.journal", day, fate.append(nil))
	putFile(t, dir, "a-20261120-000002.ndjson.replayed", 9*day, sample(3, "too_old"))
	putFile(t, dir, "a-20261120-000003.ndjson.failed", 9*day, sample(4, "bad_request"))
	putFile(t, dir, "a-20261120-000004.ndjson.journal", 9*day, fate.append(nil)) // its file is gone
	putFile(t, dir, "a-20261128-000005.ndjson", 2*day, sample(5, "too_old"))
	putFile(t, dir, "notes.txt", 90*day)
	putFile(t, dir, "letters.ndjson", 90*day)
	w := openWriter(t, Config{Dir: dir, Instance: "a", Now: at(testTime)})
	w.lookAround()
	wantListing(t, dir, "a-20261128-000005.ndjson", "letters.ndjson", "notes.txt")
	got := w.Stats()
	if fmt.Sprint(got.PrunedUnreplayed) != "map[bad_request:1 too_old:1]" {
		t.Errorf("counted %v", got.PrunedUnreplayed)
	}
	if got.Stock.Pending != 1 || !got.Stock.OldestPending.Equal(testTime) || got.Stock.Files != 1 {
		t.Errorf("stats %+v", got)
	}
}

func lineID(t *testing.T, line []byte) ID {
	t.Helper()
	var l Letter
	if _, err := l.parse(line); err != nil {
		t.Fatal(err)
	}
	return l.ID()
}

// Replayed files go first, however young, and what somebody has in hand stays.
func TestRoomIsMade(t *testing.T) {
	dir := t.TempDir()
	line := sample(1, "too_old")
	putFile(t, dir, "a-20261121-000001.ndjson", 3*day, line)
	putFile(t, dir, "a-20261122-000001.ndjson", 2*day, line)
	putFile(t, dir, "a-20261123-000001.ndjson.replayed", day, line)
	held, err := os.Open(filepath.Join(dir, "a-20261121-000001.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := tryLock(held, unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	size := int64(len(line))
	for _, step := range []struct {
		budget int64
		want   []string
	}{
		{3 * size, []string{"a-20261121-000001.ndjson", "a-20261122-000001.ndjson", "a-20261123-000001.ndjson.replayed"}},
		{2 * size, []string{"a-20261121-000001.ndjson", "a-20261122-000001.ndjson"}},
		{size, []string{"a-20261121-000001.ndjson"}},
		{1, []string{"a-20261121-000001.ndjson"}},
	} {
		w := openWriter(t, Config{Dir: dir, Instance: "a", Bytes: step.budget, Now: at(testTime)})
		w.lookAround()
		wantListing(t, dir, step.want...)
		w.Close()
	}
}

// What a newer release wrote is not ours to remove.
func TestNewerJournalIsNotPruned(t *testing.T) {
	dir := t.TempDir()
	putFile(t, dir, "a-20261110-000001.ndjson", 20*day, sample(1, "too_old"))
	mustWrite(t, filepath.Join(dir, "a-20261110-000001.ndjson.journal"), []byte(`{"v":2,"line":1}`+"\n"))
	w := openWriter(t, Config{Dir: dir, Instance: "a", Now: at(testTime)})
	w.lookAround()
	wantListing(t, dir, "a-20261110-000001.ndjson", "a-20261110-000001.ndjson.journal")
}

func TestPendingIsCounted(t *testing.T) {
	dir := t.TempDir()
	w := openWriter(t, Config{Dir: dir, Instance: "a", Now: at(testTime)})
	mustAppend(t, w, sample(1, "too_old"), sample(2, record.TruncatedCopy), sample(3, "too_new"))
	w.lookAround()
	if got := w.Stats().Stock.Pending; got != 2 {
		t.Errorf("%d pending, want 2: a truncated copy does not wait", got)
	}
	mustAppend(t, w, sample(4, "too_old"))
	w.lookAround()
	if got := w.Stats().Stock.Pending; got != 3 {
		t.Errorf("%d pending after another", got)
	}
}

// When the disk is full, what was replayed goes, and nothing else.
func TestRoomOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	putFile(t, dir, "a-20261128-000001.ndjson", 2*day, sample(1, "too_old"))
	putFile(t, dir, "a-20261129-000001.ndjson.replayed", day, sample(2, "too_old"))
	w := openWriter(t, Config{Dir: dir, Instance: "a", Now: at(testTime)})
	if !w.makeRoom() {
		t.Error("no room was made")
	}
	if w.makeRoom() {
		t.Error("room was made of nothing")
	}
	wantListing(t, dir, "a-20261128-000001.ndjson")
	for err, want := range map[error]bool{unix.ENOSPC: true, unix.EDQUOT: true, unix.EIO: false, nil: false} {
		if full(err) != want {
			t.Errorf("full(%v) is %v", err, !want)
		}
	}
}
