package spool

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// takeAll claims the only group of a directory.
func takeAll(t *testing.T, dir string) (*Claim, error) {
	t.Helper()
	set, err := Find([]string{dir}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	groups := set.Groups()
	if len(groups) != 1 {
		t.Fatalf("%d groups in %q", len(groups), listing(t, dir))
	}
	return TakeGroup(groups[0], "run", at(testTime), slog.New(slog.DiscardHandler))
}

func mustTake(t *testing.T, dir string) *Claim {
	t.Helper()
	c, err := takeAll(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// index lists the records of those statuses.
func index(t *testing.T, c *Claim, statuses ...Status) []Item {
	t.Helper()
	sel := Selection{Statuses: statuses}
	items, err := c.Index(func(l *Letter, s Status) bool { return sel.Matches(l, s) }, func(d *Damage) { t.Log(d) })
	if err != nil {
		t.Fatal(err)
	}
	return items
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const capture = "a-20261130-000001.ndjson"

var refusal = &record.Letter{Reason: record.BadRequest, Status: 400, CapturedAt: testTime}

func TestFates(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, filepath.Join(dir, capture), sample(1, "too_old"), sample(2, "too_old"), sample(3, "too_old"))
	c := mustTake(t, dir)
	items := index(t, c, New)
	must(t, c.MarkPending(items))
	if got, want := fmt.Sprint(readAll(t, dir)), `[000001.ndjson:{"N":1}:pending 000001.ndjson:{"N":2}:pending 000001.ndjson:{"N":3}:pending]`; got != want {
		t.Errorf("in hand:\n got %s\nwant %s", got, want)
	}
	must(t, c.Replayed(&items[0]))
	must(t, c.Fail(&items[1], refusal))
	must(t, c.Commit())
	must(t, c.Finish(false))
	c.Release()
	want := `[000001.ndjson:{"N":1}:replayed 000001.ndjson:{"N":2}:moved 000001.ndjson:{"N":3}:new 000001.ndjson.failed:{"N":2}:failed]`
	if got := fmt.Sprint(readAll(t, dir)); got != want {
		t.Errorf("given back:\n got %s\nwant %s", got, want)
	}

	// The rest goes the same way, and the file is whole.
	c = mustTake(t, dir)
	items = index(t, c, New)
	must(t, c.Replayed(&items[0]))
	must(t, c.Commit())
	must(t, c.Finish(false))
	c.Release()
	wantListing(t, dir, capture+".failed", capture+".journal", capture+".replayed")

	// What failed is sent again: one more refusal joins its history in the
	// same file; then it is delivered, and that file is whole, too.
	c = mustTake(t, dir)
	items = index(t, c, Failed)
	must(t, c.Fail(&items[0], refusal))
	must(t, c.Commit())
	must(t, c.Finish(false))
	c.Release()
	want = `[000001.ndjson.failed:{"N":2}:moved 000001.ndjson.failed:{"N":2}:failed 000001.ndjson.replayed:{"N":1}:replayed 000001.ndjson.replayed:{"N":2}:moved 000001.ndjson.replayed:{"N":3}:replayed]`
	if got := fmt.Sprint(readAll(t, dir)); got != want {
		t.Errorf("failed again:\n got %s\nwant %s", got, want)
	}
	c = mustTake(t, dir)
	items = index(t, c, Failed)
	var l Letter
	must(t, items[0].Letter(&l))
	if l.Attempts() != 3 || len(l.History()) != 3 || l.ID() != lineID(t, sample(2, "too_old")) {
		t.Errorf("attempts %d, history %v, id %s", l.Attempts(), l.History(), l.ID())
	}
	if key, value := l.Checkpoint(); key != "eventlogfile:Login" || value != "v" {
		t.Errorf("checkpoint %s %s", key, value)
	}
	must(t, c.Replayed(&items[0]))
	must(t, c.Commit())
	must(t, c.Finish(false))
	c.Release()
	wantListing(t, dir, capture+".failed.journal", capture+".failed.replayed", capture+".journal", capture+".replayed")
}

// A replayed .failed file takes its name back when a record of it is sent once
// more and refused: there is one .failed file at a time.
func TestFailedFileComesBack(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, filepath.Join(dir, capture+".failed.replayed"), sample(1, "too_old"))
	c := mustTake(t, dir)
	items := index(t, c, Replayed)
	must(t, c.Fail(&items[0], refusal))
	must(t, c.Commit())
	must(t, c.Finish(false))
	c.Release()
	wantListing(t, dir, capture+".failed", capture+".failed.journal")
	if got, want := fmt.Sprint(readAll(t, dir)), `[000001.ndjson.failed:{"N":1}:moved 000001.ndjson.failed:{"N":1}:failed]`; got != want {
		t.Errorf("got %s", got)
	}
}

// What root makes beside a service's file belongs to the service.
func TestOwnerIsKept(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, capture)
	mustWrite(t, path, sample(1, "too_old"))
	owner := os.Geteuid()
	if owner == 0 {
		owner = 12345
		must(t, os.Chown(path, owner, owner))
	}
	c := mustTake(t, dir)
	items := index(t, c, New)
	must(t, c.Fail(&items[0], refusal))
	must(t, c.Commit())
	must(t, c.Finish(false))
	c.Release()
	for _, name := range listing(t, dir) {
		var st unix.Stat_t
		must(t, unix.Stat(filepath.Join(dir, name), &st))
		if int(st.Uid) != owner || st.Mode&0o777 != 0o600 {
			t.Errorf("%s belongs to %d with mode %o", name, st.Uid, st.Mode&0o777)
		}
	}
}

func TestDeleteRemovesWhatIsDone(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, filepath.Join(dir, capture), sample(1, "too_old"))
	c := mustTake(t, dir)
	items := index(t, c, New)
	must(t, c.Replayed(&items[0]))
	must(t, c.Commit())
	must(t, c.Finish(true))
	c.Release()
	wantListing(t, dir)
}

// A file that was edited since, or that holds a place nobody can read, is not
// done with.
func TestFileThatStays(t *testing.T) {
	tests := []struct {
		name string
		data [][]byte
		edit func(path string)
		want string
	}{
		{"torn end", [][]byte{sample(1, "too_old"), []byte(`{"ts`)}, nil, capture + ".replayed"},
		{"damage", [][]byte{sample(1, "too_old"), []byte("what\n")}, nil, capture},
		{"grown", [][]byte{sample(1, "too_old")}, func(path string) {
			f, _ := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			f.Write(sample(2, "too_old"))
			f.Close()
		}, capture},
		{"renamed", [][]byte{sample(1, "too_old")}, func(path string) { os.Rename(path, path+".mine") }, capture + ".mine"},
		{"name taken", [][]byte{sample(1, "too_old")}, func(path string) { os.WriteFile(path+".replayed", nil, 0o600) }, capture},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, capture)
			mustWrite(t, path, tt.data...)
			c := mustTake(t, dir)
			items := index(t, c, New)
			if tt.edit != nil {
				tt.edit(path)
			}
			must(t, c.Replayed(&items[0]))
			must(t, c.Commit())
			must(t, c.Finish(false))
			c.Release()
			if _, err := os.Stat(filepath.Join(dir, tt.want)); err != nil {
				t.Errorf("%v; there are %q", err, listing(t, dir))
			}
		})
	}
}

// An entry whose id is not that line's says nothing: the file was edited.
func TestEditedFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, capture)
	mustWrite(t, path, sample(1, "too_old"), sample(2, "too_old"), sample(3, "too_old"))
	c := mustTake(t, dir)
	items := index(t, c, New)
	must(t, c.Replayed(&items[1]))
	must(t, c.Commit())
	c.Release()
	mustWrite(t, path, sample(2, "too_old"), sample(3, "too_old")) // the first line was taken out
	if got, want := fmt.Sprint(readAll(t, dir)), `[000001.ndjson:{"N":2}:new 000001.ndjson:{"N":3}:new]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNewerJournal(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, filepath.Join(dir, capture), sample(1, "too_old"))
	mustWrite(t, filepath.Join(dir, capture+".journal"), []byte(`{"v":2,"line":1,"fate":"sold"}`+"\n"+`{"v":1,"li`))
	_, err := takeAll(t, dir)
	if sysexits.Of(err) != sysexits.Config || !strings.Contains(fmt.Sprint(err), "newer release") {
		t.Errorf("claim gave %v", err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, capture+".journal")); len(got) < 40 {
		t.Errorf("the journal is now %q", got)
	}
}

// D18, D19: what a writer or another replay has in hand is not taken, and what
// is taken nobody else gets.
func TestOneHolderAtATime(t *testing.T) {
	dir := t.TempDir()
	w := openWriter(t, Config{Dir: dir, Instance: "a", Now: at(testTime)})
	mustAppend(t, w, sample(1, "too_old"))
	if _, err := takeAll(t, dir); !errors.Is(err, ErrInUse) {
		t.Fatalf("a file being written: %v", err)
	}
	w.Close()
	c := mustTake(t, dir)
	if _, err := takeAll(t, dir); !errors.Is(err, ErrInUse) {
		t.Fatalf("a file being replayed: %v", err)
	}
	items := index(t, c, New)
	must(t, c.Fail(&items[0], refusal))
	must(t, c.Commit())
	must(t, c.Finish(true)) // removes the captured one; the .failed one is still ours
	if _, err := takeAll(t, dir); !errors.Is(err, ErrInUse) {
		t.Fatalf("a .failed file being made: %v", err)
	}
	c.Release()
	mustTake(t, dir).Release()
}

// A rename by link and unlink that was cut in the middle is finished.
func TestHalfARename(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, capture)
	mustWrite(t, path, sample(1, "too_old"))
	must(t, os.Link(path, path+".replayed"))
	mustTake(t, dir).Release()
	wantListing(t, dir, capture+".replayed")
}

// The last line of a .failed file that only lacks its line feed, as an editor
// leaves it, is kept.
func TestLineFeedIsAdded(t *testing.T) {
	dir := t.TempDir()
	line := sample(1, "too_old")
	mustWrite(t, filepath.Join(dir, capture+".failed"), line[:len(line)-1])
	c := mustTake(t, dir)
	if items := index(t, c, Failed); len(items) != 1 {
		t.Errorf("%d records", len(items))
	}
	c.Release()
}

// crashed is what a test knows of a run: what it did, and how much of each file
// had reached the disk for sure when it was killed.
type crashed struct {
	t      *testing.T
	rnd    *rand.Rand
	dir    string
	synced map[string]int64
	fates  map[int]Status // of records whose fate was committed
	noted  map[int]Status // of those that this run noted
	sent   map[int]bool   // whether any run noted that it was delivered
}

func (k *crashed) size(name string) int64 {
	info, err := os.Stat(filepath.Join(k.dir, name))
	if err != nil {
		return 0
	}
	return info.Size()
}

func (k *crashed) sync(names ...string) {
	for _, name := range names {
		k.synced[name] = k.size(name)
	}
}

// lose cuts each file at any place behind what had been synced: so much had the
// kernel written back when the power failed.
func (k *crashed) lose() {
	for _, name := range []string{capture + ".journal", capture + ".failed", capture + ".failed.journal"} {
		size := k.size(name)
		if slack := size - k.synced[name]; slack > 0 {
			must(k.t, os.Truncate(filepath.Join(k.dir, name), k.synced[name]+k.rnd.Int64N(slack+1)))
		}
	}
}

// Whatever is cut when a replay is killed, between any two of its steps: what
// was committed stays, every record is in one place, and none is lost.
func TestKilledReplay(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			k := &crashed{
				t: t, rnd: rand.New(rand.NewPCG(seed, 1)), dir: t.TempDir(),
				synced: map[string]int64{}, fates: map[int]Status{}, sent: map[int]bool{},
			}
			const records = 12
			var lines [][]byte
			for i := range records {
				lines = append(lines, sample(i, "too_old"))
			}
			if k.rnd.IntN(2) == 0 { // the same entry captured twice has one id
				lines[records-1] = sample(0, "too_old")
			}
			mustWrite(t, filepath.Join(k.dir, capture), lines...)
			for range 3 {
				k.runAndKill()
				k.check(lines)
			}
		})
	}
}

func (k *crashed) runAndKill() {
	c := mustTake(k.t, k.dir)
	defer c.Release()
	k.sync(capture+".journal", capture+".failed", capture+".failed.journal") // recovery commits
	items := index(k.t, c, New)
	k.noted = map[int]Status{}
	for steps := k.rnd.IntN(12); steps > 0 && len(items) > 0; steps-- {
		n := 1 + k.rnd.IntN(min(3, len(items)))
		now := items[:n]
		items = items[n:]
		must(k.t, c.MarkPending(now))
		for i := range now {
			k.noteOne(c, &now[i])
		}
		switch k.rnd.IntN(4) {
		case 0: // killed in the middle of a commit
			if failed := c.failedFile(); failed != nil {
				must(k.t, failed.data.Sync())
				k.sync(capture + ".failed")
			}
			for _, f := range c.files {
				if f.journal != nil {
					must(k.t, f.journal.write(f.journal.noted))
				}
			}
			k.lose()
			return
		case 1, 2:
			must(k.t, c.Commit())
			k.sync(capture+".journal", capture+".failed", capture+".failed.journal")
			for line, fate := range k.noted {
				k.fates[line] = fate
			}
		}
	}
	k.lose()
}

func (k *crashed) noteOne(c *Claim, it *Item) {
	switch k.rnd.IntN(3) {
	case 0:
		must(k.t, c.Replayed(it))
		k.noted[int(it.line)], k.sent[int(it.line)] = Replayed, true
	case 1:
		must(k.t, c.Fail(it, refusal))
		k.noted[int(it.line)] = Moved
	case 2:
		must(k.t, c.KeepCopy(it, &record.Letter{Reason: record.TruncatedCopy}))
		must(k.t, c.Replayed(it))
		k.noted[int(it.line)], k.sent[int(it.line)] = Replayed, true
	}
}

// check looks at what the next run finds, once it has put things right.
func (k *crashed) check(lines [][]byte) {
	k.t.Helper()
	mustTake(k.t, k.dir).Release()
	set, err := Find([]string{k.dir}, nil, slog.New(slog.DiscardHandler))
	must(k.t, err)
	defer set.Close()
	moved, copies, kept, seen := map[ID]int{}, map[ID]int{}, map[ID]int{}, 0
	for _, f := range set.Files {
		_, err := f.Read(func(l *Letter, s Status) error {
			switch {
			case f.Failed():
				if l.Reason() == record.TruncatedCopy {
					kept[l.ID()]++
				} else {
					copies[l.ID()]++
				}
				return nil
			case s == Moved:
				moved[l.ID()]++
			case s == Replayed && !k.sent[int(l.Line)]:
				k.t.Errorf("line %d is replayed, and nobody said so", l.Line)
			}
			if want, ok := k.fates[int(l.Line)]; ok && s != want {
				k.t.Errorf("line %d is %s, committed was %s", l.Line, s, want)
			}
			seen++
			return nil
		}, func(d *Damage) { k.t.Errorf("damage: %v", d) })
		must(k.t, err)
	}
	if seen != len(lines) {
		k.t.Errorf("%d records, want %d", seen, len(lines))
	}
	for id, n := range moved { // a copy that a killed run kept may stand for one
		if n > copies[id]+kept[id] {
			k.t.Errorf("%s: %d moved, %d in .failed", id, n, copies[id]+kept[id])
		}
	}
	for id, n := range copies {
		if n > moved[id] {
			k.t.Errorf("%s: %d in .failed, %d moved", id, n, moved[id])
		}
	}
}

// Where the file system has no flock, that is said and nothing is taken.
func TestLockErrors(t *testing.T) {
	f, err := os.Open(os.DevNull)
	must(t, err)
	f.Close()
	if err := tryLock(f, unix.LOCK_EX); sysexits.Of(err) != sysexits.CantCreat {
		t.Errorf("status %d: %v", sysexits.Of(err), err)
	}
}
