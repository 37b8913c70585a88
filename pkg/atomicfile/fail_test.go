package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What cannot be written says why, and leaves nothing behind.
func TestFailures(t *testing.T) {
	dir := t.TempDir()
	loop, plain, none := filepath.Join(dir, "loop"), filepath.Join(dir, "plain"), filepath.Join(dir, "none")
	if err := errors.Join(os.Symlink("loop", loop), os.WriteFile(plain, []byte("old"), 0o640)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		loop:                      syscall.ELOOP.Error(),
		filepath.Join(none, "x"):  syscall.ENOENT.Error(),
		filepath.Join(plain, "x"): syscall.ENOTDIR.Error(),
		filepath.Join(dir, strings.Repeat("x", 250)): syscall.ENAMETOOLONG.Error(),
	} {
		err := Write(path, []byte("new"), 0o600)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", path, err, want)
		}
		Sweep(path, time.Now()) // has nothing to say
	}
	check(t, plain, "old", 0o640)
	if err := SyncDir(none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the names in a directory that is not there: %v", err)
	}
}
