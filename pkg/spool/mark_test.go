package spool

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/record"
)

func markAll(t *testing.T, dir string, m Mark) int64 {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	set, err := Find([]string{dir}, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	var marked int64
	for _, files := range set.Groups() {
		c, err := TakeGroup(files, "hand", func() time.Time { return testTime }, log)
		if err != nil {
			t.Fatal(err)
		}
		n, err := c.Mark(m, func(d *Damage) { t.Error(d) })
		if err == nil {
			err = c.Finish(false)
		}
		c.Release()
		if err != nil {
			t.Fatal(err)
		}
		marked += n
	}
	return marked
}

func wantRecords(t *testing.T, dir, want string) {
	t.Helper()
	if got := strings.Join(readAll(t, dir), " "); got != want {
		t.Errorf("records %q, want %q", got, want)
	}
}

func is(statuses ...Status) func(*Letter, Status) bool {
	sel := Selection{Statuses: statuses}
	return sel.Matches
}

// Discarded records are final, so a file of nothing else is done with; asked
// for again, they are new and the file has its old name.
func TestMark(t *testing.T) {
	dir := t.TempDir()
	const name = "a-20261130-000001.ndjson"
	mustWrite(t, filepath.Join(dir, name), sample(1, record.TooOld), sample(2, record.TooNew))
	tooOld := func(l *Letter, s Status) bool { return s == New && l.Reason() == record.TooOld }
	if n := markAll(t, dir, Mark{To: Discarded, Because: "gone\nfor good", Take: tooOld}); n != 1 {
		t.Errorf("%d marked", n)
	}
	wantRecords(t, dir, `000001.ndjson:{"N":1}:discarded 000001.ndjson:{"N":2}:new`)
	wantListing(t, dir, name, name+".journal")
	journal, _ := os.ReadFile(filepath.Join(dir, name+".journal"))
	if !strings.Contains(string(journal), `"because":"gone\nfor good"`) {
		t.Errorf("journal %s", journal)
	}
	if n := markAll(t, dir, Mark{To: Discarded, Take: is(New)}); n != 1 {
		t.Errorf("%d marked", n)
	}
	wantListing(t, dir, name+".journal", name+".replayed")
	wantRecords(t, dir, `000001.ndjson.replayed:{"N":1}:discarded 000001.ndjson.replayed:{"N":2}:discarded`)
	if n := markAll(t, dir, Mark{To: New, Take: is(Discarded)}); n != 2 {
		t.Errorf("%d marked", n)
	}
	wantListing(t, dir, name, name+".journal")
	wantRecords(t, dir, `000001.ndjson:{"N":1}:new 000001.ndjson:{"N":2}:new`)
}

// Of a file that is done with by its name alone, only what was asked for is
// new again.
func TestMarkKeepsWhatTheNameSaid(t *testing.T) {
	dir := t.TempDir()
	const name = "a-20261130-000001.ndjson"
	mustWrite(t, filepath.Join(dir, name+".replayed"), sample(1, record.TooOld), sample(2, record.TooNew))
	wantRecords(t, dir, `000001.ndjson.replayed:{"N":1}:replayed 000001.ndjson.replayed:{"N":2}:replayed`)
	second := func(l *Letter, s Status) bool { return l.Reason() == record.TooNew }
	if n := markAll(t, dir, Mark{To: New, Take: second}); n != 1 {
		t.Errorf("%d marked", n)
	}
	wantListing(t, dir, name, name+".journal")
	wantRecords(t, dir, `000001.ndjson:{"N":1}:replayed 000001.ndjson:{"N":2}:new`)
	if n := markAll(t, dir, Mark{To: New, Take: func(*Letter, Status) bool { return false }}); n != 0 {
		t.Errorf("%d marked", n)
	}
}

// Cut short before the records are new, a requeue has done nothing.
func TestMarkCutShort(t *testing.T) {
	dir := t.TempDir()
	const name = "a-20261130-000001.ndjson"
	mustWrite(t, filepath.Join(dir, name+".replayed"), sample(1, record.TooOld))
	if n := markAll(t, dir, Mark{To: New, Take: is(Replayed)}); n != 1 {
		t.Errorf("%d marked", n)
	}
	// As if the last entry had not reached the disk.
	path := filepath.Join(dir, name+".journal")
	journal, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole := strings.SplitAfter(string(journal), "\n")
	mustWrite(t, path, []byte(strings.Join(whole[:len(whole)-2], "")))
	wantRecords(t, dir, `000001.ndjson:{"N":1}:replayed`)
}
