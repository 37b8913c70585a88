package file

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sf2loki/pkg/checkpoint"
	docfile "sf2loki/pkg/checkpoint/file"
	"sf2loki/pkg/lease"
	"sf2loki/pkg/sysexits"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func record(holder, term string, count uint64) lease.Record {
	return lease.Record{Holder: holder, Epoch: 1, TTL: time.Minute, Renewed: time.Now(), Term: term, Count: count}
}

func TestWriteAndRead(t *testing.T) {
	b := New("lease", filepath.Join(t.TempDir(), "lease"), time.Millisecond)
	if _, _, err := b.Read(t.Context()); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Fatalf("nothing there: %v", err)
	}
	gen, err := b.Write(t.Context(), record("a", "1", 1), "")
	must(t, err)
	r, now, err := b.Read(t.Context())
	if err != nil || r.Holder != "a" || now != gen {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := b.Write(t.Context(), record("b", "2", 1), ""); !errors.Is(err, checkpoint.ErrConflict) {
		t.Errorf("a second first: %v", err)
	}
	next, err := b.Write(t.Context(), record("a", "1", 2), gen)
	must(t, err)
	if _, err := b.Write(t.Context(), record("b", "2", 2), gen); !errors.Is(err, checkpoint.ErrConflict) {
		t.Errorf("an old generation: %v", err)
	}
	must(t, os.WriteFile(b.path, []byte(`{"holder":`), 0o600))
	_, gen, err = b.Read(t.Context())
	if !errors.Is(err, lease.ErrCorrupt) || gen == "" || gen == next {
		t.Errorf("half a lease: %q, %v", gen, err)
	}
	_, err = b.Write(t.Context(), record("b", "2", 3), gen)
	must(t, err)
}

// What writers that were killed left goes when somebody begins to lead.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	b := New("lease", filepath.Join(dir, "lease"), time.Millisecond)
	old := time.Now().Add(-time.Hour)
	for name, age := range map[string]time.Time{".lease.123": old, ".lease.456": time.Now(), ".lease.x1": old, ".other.123": old, "lease.123": old} {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, nil, 0o600))
		must(t, os.Chtimes(path, age, age))
	}
	gen, err := b.Write(t.Context(), record("a", "1", 1), "")
	must(t, err)
	left, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if want := []string{".lease.456", ".lease.x1", ".other.123", "lease", "lease.123", "lease.lock"}; !slices.Equal(names, want) {
		t.Errorf("left are %v, want %v", names, want)
	}
	must(t, os.WriteFile(filepath.Join(dir, ".lease.789"), nil, 0o600))
	must(t, os.Chtimes(filepath.Join(dir, ".lease.789"), old, old))
	_, err = b.Write(t.Context(), record("a", "1", 2), gen)
	must(t, err)
	if _, err := os.Stat(filepath.Join(dir, ".lease.789")); err != nil {
		t.Error("a renewal looks through the directory")
	}
}

// Somebody who stopped while having the lock keeps nobody from leading.
func TestLockThatStays(t *testing.T) {
	b := New("lease", filepath.Join(t.TempDir(), "lease"), 10*time.Millisecond)
	f, err := os.Create(b.path + ".lock")
	must(t, err)
	defer f.Close()
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	_, err = b.Write(t.Context(), record("a", "1", 1), "")
	must(t, err)
}

// NFS rules: without locks two may both think that they took the lease, but
// who is overwritten while pausing learns it, and commits of one are accepted.
func TestOverwrittenWhilePausing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lease")
	b := New("lease", path, 50*time.Millisecond)
	b.lockless = true
	done := make(chan error)
	go func() {
		_, err := b.Write(context.Background(), record("a", "1", 1), "")
		done <- err
	}()
	for {
		if r, _, err := b.Read(t.Context()); err == nil && r.Holder == "a" {
			break
		}
	}
	must(t, os.WriteFile(path+".b", record("b", "2", 1).Marshal(), 0o600))
	must(t, os.Rename(path+".b", path))
	if err := <-done; !errors.Is(err, checkpoint.ErrConflict) {
		t.Errorf("the one who was overwritten: %v", err)
	}
}

// Many contenders without locks, round after round: epochs only grow, and no
// two terms have the same.
func TestContendersWithoutLocks(t *testing.T) {
	dir := t.TempDir()
	document := docfile.New("document", filepath.Join(dir, "document"))
	var mu sync.Mutex
	seen := map[uint64]string{}
	var wg sync.WaitGroup
	for _, id := range []string{"a", "b", "c", "d"} {
		wg.Go(func() {
			b := New("lease", filepath.Join(dir, "lease"), 5*time.Millisecond)
			b.lockless = true
			for range 5 {
				e := lease.New(lease.Config{Backend: b, Fences: []checkpoint.Store{document}, ID: id,
					TTL: 600 * time.Millisecond, Renew: 50 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})
				term, err := e.Acquire(context.Background(), 30*time.Second)
				if err != nil {
					t.Errorf("%s: %v", id, err)
					return
				}
				mu.Lock()
				if other, twice := seen[term.Epoch()]; twice {
					t.Errorf("%s and %s both lead in epoch %d", other, id, term.Epoch())
				}
				seen[term.Epoch()] = id
				mu.Unlock()
				if err := term.End(context.Background()); err != nil && !errors.Is(err, lease.ErrLost) {
					t.Errorf("%s: %v", id, err)
				}
			}
		})
	}
	wg.Wait()
}

// What cannot be a lease says why, and with a status that tells what to do.
func TestWhatIsNoLease(t *testing.T) {
	dir := t.TempDir()
	fifo, plain, loop := filepath.Join(dir, "fifo"), filepath.Join(dir, "plain"), filepath.Join(dir, "loop")
	must(t, unix.Mkfifo(fifo, 0o600))
	must(t, os.WriteFile(plain, nil, 0o600))
	must(t, os.Symlink("loop", loop))
	for path, want := range map[string]string{
		dir:                           "not a file",
		fifo:                          "not a file",
		loop:                          "too many levels of symbolic links",
		filepath.Join(plain, "lease"): "not a directory",
		filepath.Join(dir, "no", "x"): "its directory does not exist",
		filepath.Join(dir, strings.Repeat("x", 300)): "file name too long",
	} {
		b := New("the lease", path, time.Millisecond)
		_, _, readErr := b.Read(t.Context())
		_, writeErr := b.Write(t.Context(), record("a", "1", 1), "")
		for call, err := range map[string]error{"read": readErr, "write": writeErr} {
			if sysexits.Of(err) != sysexits.CantCreat || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "the lease") {
				t.Errorf("%s %.60s: status %d, %v; want %q", call, path, sysexits.Of(err), err, want)
			}
		}
	}
}
