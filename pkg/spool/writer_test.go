package spool

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"sf2loki/pkg/logtest"
	"sf2loki/pkg/sysexits"
)

func at(now time.Time) func() time.Time { return func() time.Time { return now } }

// D12: the modes do not depend on the umask.
func TestModesWhateverTheUmask(t *testing.T) {
	for _, mask := range []int{0o000, 0o022, 0o077, 0o777} {
		t.Run(fmt.Sprintf("%03o", mask), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "spool")
			old := syscall.Umask(mask)
			w, err := Open(Config{Dir: dir, Instance: "a", Now: at(testTime)})
			if err == nil {
				err = w.Append([][]byte{sample(1, "too_old")})
				w.Close()
			}
			syscall.Umask(old)
			if err != nil {
				t.Fatal(err)
			}
			for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "a-20261130-000001.ndjson"): 0o600} {
				info, err := os.Stat(path)
				if err != nil {
					t.Fatal(err)
				}
				if got := info.Mode().Perm(); got != want {
					t.Errorf("%s has mode %o, want %o", path, got, want)
				}
			}
		})
	}
}

func TestNoFileBeforeTheFirstRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "parent", "spool")
	w := openWriter(t, Config{Dir: dir, Instance: "a"})
	wantListing(t, dir)
	w.Close()
	if err := w.Append([][]byte{sample(1, "too_old")}); err == nil {
		t.Error("append after close succeeded")
	}
}

func TestRotationBySize(t *testing.T) {
	dir := t.TempDir()
	line := sample(1, "too_old")
	w := openWriter(t, Config{Dir: dir, Instance: "a", FileBytes: int64(2*len(line) + 1), Now: at(testTime)})
	mustAppend(t, w, line, line, line)
	mustAppend(t, w, bytes.Repeat([]byte("x"), 5*len(line))) // larger than a file may be, and without a line feed
	mustAppend(t, w, line)
	wantListing(t, dir, "a-20261130-000001.ndjson", "a-20261130-000002.ndjson", "a-20261130-000003.ndjson", "a-20261130-000004.ndjson")
	for i, want := range []int{2 * len(line), len(line), 5*len(line) + 1, len(line)} {
		info, err := os.Stat(filepath.Join(dir, fmt.Sprintf("a-20261130-%06d.ndjson", i+1)))
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() != int64(want) {
			t.Errorf("file %d has %d bytes, want %d", i+1, info.Size(), want)
		}
	}
	if s := w.Stats(); s.Entries != 5 || s.Bytes != int64(9*len(line)+1) {
		t.Errorf("stats say %d entries, %d bytes", s.Entries, s.Bytes)
	}
}

// A file is given away a minute after its last record, and a quarter of an hour
// after its first at the latest.
func TestFilesCloseByTime(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w, err := Open(Config{Dir: dir, Instance: "a", Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		open := func() bool {
			synctest.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.cur != nil
		}
		mustAppend(t, w, sample(1, "too_old"))
		time.Sleep(59 * time.Second)
		if !open() {
			t.Error("closed before a minute without records")
		}
		time.Sleep(2 * time.Second)
		if open() {
			t.Error("open after a minute without records")
		}
		start := time.Now()
		mustAppend(t, w, sample(2, "too_old"))
		for open() {
			time.Sleep(30 * time.Second)
			if age := time.Since(start); open() && age > 15*time.Minute {
				t.Fatal("open after a quarter of an hour")
			} else if open() {
				mustAppend(t, w, sample(3, "too_old"))
			}
		}
		if age := time.Since(start); age < 15*time.Minute {
			t.Errorf("closed after %s though records kept coming", age)
		}
	})
}

// A number is taken while any file of its stem is there.
func TestNumbersAreNotReused(t *testing.T) {
	for _, suffix := range []string{".ndjson", ".ndjson.journal", ".ndjson.failed", ".ndjson.replayed", ".ndjson.failed.journal"} {
		t.Run(suffix, func(t *testing.T) {
			dir := t.TempDir()
			mustWrite(t, filepath.Join(dir, "a-20261130-000007"+suffix))
			mustWrite(t, filepath.Join(dir, "a-20261129-000009.ndjson"))  // another day's
			mustWrite(t, filepath.Join(dir, "ab-20261130-000010.ndjson")) // another instance's
			w := openWriter(t, Config{Dir: dir, Instance: "a", Now: at(testTime)})
			mustAppend(t, w, sample(1, "too_old"))
			if _, err := os.Stat(filepath.Join(dir, "a-20261130-000008.ndjson")); err != nil {
				t.Errorf("%v; there are %q", err, listing(t, dir))
			}
		})
	}
}

// A torn tail is never appended to: each process opens a file of its own.
func TestTornTailIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	torn := filepath.Join(dir, "a-20261130-000001.ndjson")
	mustWrite(t, torn, sample(1, "too_old"), []byte(`{"line":"ha`))
	before, _ := os.ReadFile(torn)
	w := openWriter(t, Config{Dir: dir, Instance: "a", Now: at(testTime)})
	mustAppend(t, w, sample(2, "too_old"))
	after, _ := os.ReadFile(torn)
	if !bytes.Equal(before, after) {
		t.Errorf("the torn file is now %q", after)
	}
	wantListing(t, dir, "a-20261130-000001.ndjson", "a-20261130-000002.ndjson")
}

// D11: writers that share a directory and a name never share a file.
func TestWritersShareADirectory(t *testing.T) {
	dir := t.TempDir()
	const writers, records = 6, 40
	var wg sync.WaitGroup
	for range writers {
		w := openWriter(t, Config{Dir: dir, Instance: "a", FileBytes: 2000, Now: at(testTime)})
		wg.Go(func() {
			for i := range records {
				if err := w.Append([][]byte{sample(i, "too_old")}); err != nil {
					t.Error(err)
				}
			}
			w.Close()
		})
	}
	wg.Wait()
	got := readAll(t, dir)
	if len(got) != writers*records {
		t.Errorf("%d records, want %d", len(got), writers*records)
	}
	for _, r := range got {
		if !strings.HasSuffix(r, ":new") {
			t.Fatalf("record %s", r)
		}
	}
}

func TestFileMovedAwayIsNotWrittenOn(t *testing.T) {
	for _, how := range []string{"removed", "renamed", "replaced"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			var log logtest.Log
			w := openWriter(t, Config{Dir: dir, Instance: "a", Now: at(testTime), Log: log.Logger(slog.LevelInfo)})
			mustAppend(t, w, sample(1, "too_old"))
			path := filepath.Join(dir, "a-20261130-000001.ndjson")
			switch how {
			case "removed":
				os.Remove(path)
			case "renamed":
				os.Rename(path, filepath.Join(dir, "elsewhere"))
			case "replaced":
				os.Remove(path)
				mustWrite(t, path)
			}
			mustAppend(t, w, sample(2, "too_old"))
			found := false
			for _, r := range readAll(t, dir) {
				found = found || strings.Contains(r, `{"N":2}`)
			}
			if !found {
				t.Errorf("the record is gone; there are %q", listing(t, dir))
			}
			if !strings.Contains(log.String(), "no longer where it was") {
				t.Errorf("nothing was said: %s", log.String())
			}
		})
	}
}

// Links and pipes that somebody planted are neither followed nor waited for.
func TestPlantedNames(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	victim := filepath.Join(outside, "victim")
	mustWrite(t, victim, []byte("precious\n"))
	for n, plant := range []func(string) error{
		func(p string) error { return os.Symlink(victim, p) },
		func(p string) error { return os.Symlink(filepath.Join(outside, "new"), p) },
		func(p string) error { return unix.Mkfifo(p, 0o666) },
	} {
		if err := plant(filepath.Join(dir, fmt.Sprintf("a-20261130-%06d.ndjson", n+1))); err != nil {
			t.Fatal(err)
		}
	}
	w := openWriter(t, Config{Dir: dir, Instance: "a", Bytes: 1, Now: at(testTime)})
	mustAppend(t, w, sample(1, "too_old"))
	if got, _ := os.ReadFile(victim); string(got) != "precious\n" {
		t.Errorf("the file behind the link is now %q", got)
	}
	wantListing(t, outside, "victim")
	if _, err := os.Stat(filepath.Join(dir, "a-20261130-000004.ndjson")); err != nil {
		t.Error(err)
	}
}

func TestDirectoriesThatAreRefused(t *testing.T) {
	type test struct {
		name string
		make func(t *testing.T, path string)
		code sysexits.Code
		warn string
	}
	tests := []test{
		{"fine", func(t *testing.T, path string) { os.Mkdir(path, 0o700) }, sysexits.OK, ""},
		{"others may read", func(t *testing.T, path string) { mkdir(t, path, 0o755) }, sysexits.OK, "open to others"},
		{"the group may write", func(t *testing.T, path string) { mkdir(t, path, 0o770) }, sysexits.OK, "open to others"},
		{"anybody may write", func(t *testing.T, path string) { mkdir(t, path, 0o777) }, sysexits.Config, ""},
		{"sticky", func(t *testing.T, path string) { mkdir(t, path, 0o777|os.ModeSticky) }, sysexits.OK, "open to others"},
		{"a file", func(t *testing.T, path string) { mustWrite(t, path) }, sysexits.CantCreat, ""},
		{"our link", func(t *testing.T, path string) { link(t, path, os.Geteuid()) }, sysexits.OK, ""},
		{"a link to nowhere", func(t *testing.T, path string) { os.Symlink("nowhere", path) }, sysexits.CantCreat, ""},
	}
	if os.Geteuid() == 0 { // nobody else can make one
		tests = append(tests, test{"a stranger's link", func(t *testing.T, path string) { link(t, path, 12345) }, sysexits.Config, ""})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "spool")
			tt.make(t, path)
			var log logtest.Log
			w, err := Open(Config{Dir: path + "/", Log: log.Logger(slog.LevelInfo)})
			if got := sysexits.Of(err); got != tt.code {
				t.Errorf("status %d (%v), want %d", got, err, tt.code)
			}
			if !strings.Contains(log.String(), tt.warn) || tt.warn == "" && log.String() != "" {
				t.Errorf("log is %q, want %q", log.String(), tt.warn)
			}
			if w != nil {
				w.Close()
			}
		})
	}
}

func mkdir(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, path string, uid int) {
	t.Helper()
	target := filepath.Join(t.TempDir(), "real")
	mkdir(t, target, 0o700)
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	if uid != os.Geteuid() {
		if err := os.Lchown(path, uid, -1); err != nil {
			t.Fatal(err)
		}
	}
}

// A file system that is read-only or full is the caller's to judge, and must
// leave no torn record behind.
func TestFullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "small")
	mkdir(t, dir, 0o700)
	w := openWriter(t, Config{Dir: dir, Instance: "a", Now: at(testTime)})
	mustAppend(t, w, sample(1, "too_old"))
	// A limit on the size of files cuts a write short just as a full disk does.
	var old unix.Rlimit
	size := int64(len(sample(1, "too_old")))
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	limited := unix.Rlimit{Cur: uint64(size + 10), Max: old.Max}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limited); err != nil {
		t.Fatal(err)
	}
	err := w.Append([][]byte{sample(2, "too_old")})
	if e := unix.Setrlimit(unix.RLIMIT_FSIZE, &old); e != nil {
		t.Fatal(e)
	}
	if !errors.Is(err, unix.EFBIG) || sysexits.Of(err) != sysexits.IOErr {
		t.Fatalf("append gave %v", err)
	}
	if s := w.Stats(); s.WriteErrors != 1 || s.Entries != 1 {
		t.Errorf("stats: %+v", s)
	}
	mustAppend(t, w, sample(3, "too_old"))
	want := []string{`000001.ndjson:{"N":1}:new`, `000002.ndjson:{"N":3}:new`}
	if got := readAll(t, dir); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("spool holds %q, want %q", got, want)
	}
}

func TestClockThatGoesBack(t *testing.T) {
	dir := t.TempDir()
	var back atomic.Int64
	w := openWriter(t, Config{Dir: dir, Instance: "a", Now: func() time.Time { return testTime.Add(-time.Duration(back.Load())) }})
	mustAppend(t, w, sample(1, "too_old"))
	back.Store(int64(48 * time.Hour))
	mustAppend(t, w, sample(2, "too_old"))
	mustAppend(t, w, sample(3, "too_old"))
	wantListing(t, dir, "a-20261128-000001.ndjson", "a-20261130-000001.ndjson")
	if got := readAll(t, dir); len(got) != 3 {
		t.Errorf("spool holds %q", got)
	}
}

func TestInstanceNames(t *testing.T) {
	for name, want := range map[string]string{
		"":                       "sf2loki",
		"host-a.example":         "host-a.example",
		"../../etc/passwd":       "_._.._etc_passwd",
		"-rf":                    "_rf",
		"h\x00st\n":              "h_st_",
		"höst":                   "h_st",
		strings.Repeat("x", 300): strings.Repeat("x", 120),
	} {
		if got := cleanInstance(name); got != want {
			t.Errorf("cleanInstance(%q) = %q, want %q", name, got, want)
		}
	}
}
