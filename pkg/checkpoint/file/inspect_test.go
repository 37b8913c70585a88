package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/file"
	"sf2loki/pkg/sysexits"
)

// A look at a document tells what is wrong, and changes nothing.
func TestInspect(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	lock := path + ".lock"
	const fine = "directory PASS, file PASS, lock PASS, file system PASS"
	for _, step := range []struct {
		name  string
		spoil func() error
		want  string
	}{
		{"nothing there", func() error { return nil }, fine},
		{"all there", func() error {
			return errors.Join(os.WriteFile(path, []byte("{}"), 0o600), os.WriteFile(lock, nil, 0o600))
		}, fine},
		{"a FIFO for a lock", func() error { return errors.Join(os.Remove(lock), unix.Mkfifo(lock, 0o600)) },
			"directory PASS, file PASS, lock FAIL, file system PASS"},
		{"a directory for a lock", func() error { return errors.Join(os.Remove(lock), os.Mkdir(lock, 0o700)) },
			"directory PASS, file PASS, lock FAIL, file system PASS"},
		{"a directory for a file", func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
			"directory PASS, file FAIL, lock FAIL, file system PASS"},
	} {
		must(t, step.spoil())
		before, err := os.ReadDir(dir)
		must(t, err)
		if got := levels(t, path); got != step.want {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
		if after, err := os.ReadDir(dir); err != nil || len(after) != len(before) {
			t.Errorf("%s: a look has changed something: %v, %v", step.name, after, err)
		}
	}
	if got := levels(t, filepath.Join(dir, "none", "state.json")); got != "directory FAIL" {
		t.Errorf("no directory: %s", got)
	}
}

func levels(t *testing.T, path string) string {
	var found []string
	for _, f := range file.New(path, path).Inspect(t.Context()) {
		found = append(found, f.Check+" "+string(f.Level))
		if f.Level == checkpoint.Fail && (f.Code == 0 || f.Cure == "") {
			t.Errorf("%s: status %d, cure %q", f.Check, f.Code, f.Cure)
		}
	}
	return strings.Join(found, ", ")
}

// A doctor has nowhere to write beside a document whose directory is not
// there, and clears away what it could not write.
func TestScratchOfNothing(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "none", "state.json")
	if _, _, err := file.New(missing, missing).Scratch(t.Context()); sysexits.Of(err) != sysexits.CantCreat {
		t.Errorf("no directory: %v", err)
	}
	path := filepath.Join(dir, "state.json")
	scratch, remove, err := file.New(path, path).Scratch(t.Context())
	must(t, err)
	if !strings.HasPrefix(scratch.String(), filepath.Join(dir, ".state.json.doctor-")) {
		t.Errorf("the scratch is %s", scratch)
	}
	must(t, remove(t.Context()))
}

// A lock that another process holds is waited for as long as the writer has
// time, and no longer; what is written under it comes first.
func TestLockIsWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	lock, err := os.Create(path + ".lock")
	must(t, err)
	must(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	written := make(chan error, 1)
	go func() {
		_, err := file.New(path, path).Put(t.Context(), []byte("{}"), "")
		written <- err
	}()
	select {
	case err := <-written:
		t.Errorf("written under the lock of another: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	must(t, os.WriteFile(path, []byte(`{"a":"1"}`), 0o600))
	must(t, lock.Close())
	if err := <-written; !errors.Is(err, checkpoint.ErrConflict) {
		t.Errorf("over what was written meanwhile: %v", err)
	}
}
