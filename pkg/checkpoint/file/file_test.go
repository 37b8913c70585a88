package file_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/checkpointtest"
	"sf2loki/pkg/checkpoint/file"
	"sf2loki/pkg/sysexits"
)

func TestConformance(t *testing.T) {
	checkpointtest.Run(t, func(t *testing.T) func() checkpoint.Store {
		path := filepath.Join(t.TempDir(), "state.json")
		return func() checkpoint.Store { return file.New(path, path) }
	})
}

// Both names of one file exclude each other, the file made through the link included.
func TestConformanceOfTwoNames(t *testing.T) {
	checkpointtest.Run(t, func(t *testing.T) func() checkpoint.Store {
		dir := t.TempDir()
		link := filepath.Join(dir, "link.json")
		must(t, os.Mkdir(filepath.Join(dir, "real"), 0o755))
		must(t, os.Symlink("real/state.json", link))
		names := make(chan string, 2)
		names <- link
		names <- filepath.Join(dir, "real", "state.json")
		return func() checkpoint.Store {
			name := <-names
			names <- name
			return file.New(name, name)
		}
	})
}

func TestLinkStaysLink(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link.json")
	must(t, os.Symlink("state.json", link))
	write(t, link, "{}", "")
	info, err := os.Lstat(link)
	must(t, err)
	if info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link was replaced by a file")
	}
	if _, err := os.Stat(filepath.Join(dir, "state.json.lock")); err != nil {
		t.Errorf("the lock is not beside the real file: %v", err)
	}
}

// Z22: a document stays as readable as it was, whoever wrote last.
func TestModeAndOwnerStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	must(t, os.WriteFile(path, []byte("{}"), 0o600))
	must(t, os.Chmod(path, 0o664)) // past the umask
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = 12345, 54321
		must(t, os.Chown(path, uid, gid))
	}
	_, gen, err := file.New(path, path).Get(t.Context())
	must(t, err)
	write(t, path, `{"a":"1"}`, gen)
	info, err := os.Stat(path)
	must(t, err)
	st := info.Sys().(*syscall.Stat_t)
	if info.Mode().Perm() != 0o664 || int(st.Uid) != uid || int(st.Gid) != gid {
		t.Errorf("mode %v, owner %d:%d; want -rw-rw-r--, %d:%d", info.Mode(), st.Uid, st.Gid, uid, gid)
	}
}

func TestWhatIsNoStore(t *testing.T) {
	dir := t.TempDir()
	sub := filepath.Join(dir, "sub")
	must(t, os.Mkdir(sub, 0o755))
	fifo := filepath.Join(dir, "fifo")
	must(t, unix.Mkfifo(fifo, 0o600))
	plain := filepath.Join(dir, "plain")
	must(t, os.WriteFile(plain, []byte("{}"), 0o600))
	loop := filepath.Join(dir, "loop")
	must(t, os.Symlink("loop", loop))
	huge := filepath.Join(dir, "huge")
	must(t, os.WriteFile(huge, nil, 0o600))
	must(t, os.Truncate(huge, 65<<20))
	tests := []struct {
		path string
		code sysexits.Code
		text string
	}{
		{sub, sysexits.CantCreat, "is a directory"},
		{fifo, sysexits.CantCreat, "is a FIFO"},
		{os.DevNull, sysexits.CantCreat, "is a device"},
		{filepath.Join(dir, "none", "state.json"), sysexits.CantCreat, "does not exist"},
		{filepath.Join(plain, "state.json"), sysexits.CantCreat, "not a directory"},
		{loop, sysexits.CantCreat, "too many levels of symbolic links"},
		{huge, sysexits.Config, "larger than"},
		{filepath.Join(dir, strings.Repeat("x", 300)), sysexits.CantCreat, "file name too long"},
	}
	for _, test := range tests {
		store := file.New(test.path, test.path)
		_, _, getErr := store.Get(t.Context())
		_, putErr := store.Put(t.Context(), []byte("{}"), "")
		for call, err := range map[string]error{"Get": getErr, "Put": putErr, "Prepare": store.Prepare(t.Context())} {
			if sysexits.Of(err) != test.code || !strings.Contains(err.Error(), test.text) {
				t.Errorf("%s of %.60s: %v (%d); want %q (%d)", call, test.path, err, sysexits.Of(err), test.text, test.code)
			}
		}
	}
}

func TestLockHeldByAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	lock, err := os.Create(path + ".lock")
	must(t, err)
	must(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	store := file.New(path, path)

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := store.Put(ctx, []byte("{}"), ""); sysexits.Of(err) != sysexits.TempFail {
		t.Errorf("wrote under another's lock: %v", err)
	}
	if _, _, err := store.Get(t.Context()); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("reading needs no lock, but: %v", err)
	}
	must(t, lock.Close())
	write(t, path, "{}", "")
}

// A writer that was killed leaves a temporary file; the next run clears it
// away and nothing else.
func TestPrepareSweeps(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	for _, name := range []string{".state.json.123456", ".state.json.bak", ".other.json.1", "state.json.1"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	must(t, file.New(path, path).Prepare(t.Context()))
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := ".other.json.1 .state.json.bak state.json.1 state.json.lock"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("left are %s; want %s", got, want)
	}
}

func TestScratchLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	scratch, remove, err := file.New(path, path).Scratch(t.Context())
	must(t, err)
	_, err = scratch.Put(t.Context(), []byte("{}"), "")
	must(t, err)
	must(t, remove(t.Context()))
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 0 {
		t.Errorf("left: %v", entries)
	}
}

func write(t *testing.T, path, text string, gen checkpoint.Generation) {
	t.Helper()
	_, err := file.New(path, path).Put(t.Context(), []byte(text), gen)
	must(t, err)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
