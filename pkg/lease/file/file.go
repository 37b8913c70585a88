// Package file keeps a lease in a file, on a local disk or on NFS: write,
// rename, pause, read again. See the section on leases of ckpt(1).
package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"sf2loki/pkg/atomicfile"
	"sf2loki/pkg/backoff"
	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/lease"
	"sf2loki/pkg/sysexits"
)

const (
	mode = 0o600

	// abandoned is the age at which a temporary file has no writer any more.
	// One who sleeps that long finds its file gone, and its lease another's.
	abandoned = 10 * time.Minute
)

// Backend is a lease.Backend in a file.
type Backend struct {
	name, path string
	pause      time.Duration
	lockless   bool // as where flock is not there, or local to each host
}

// New returns the lease in the file path, which need not exist. name is what
// messages call it. pause is how long a new holder waits before it reads what
// it wrote again: long enough for a writer that met it to come through.
func New(name, path string, pause time.Duration) *Backend {
	return &Backend{name: name, path: path, pause: pause}
}

// String names the lease.
func (b *Backend) String() string { return b.name }

// Read opens the file anew: that is what makes NFS ask its server.
func (b *Backend) Read(ctx context.Context) (lease.Record, checkpoint.Generation, error) {
	if err := ctx.Err(); err != nil {
		return lease.Record{}, "", err
	}
	r, gen, err := b.read()
	if err != nil {
		err = fmt.Errorf("read the lease %s: %w", b.name, err)
	}
	return r, gen, err
}

func (b *Backend) read() (lease.Record, checkpoint.Generation, error) {
	path, err := atomicfile.Resolve(b.path)
	if err != nil {
		return lease.Record{}, "", classify(err)
	}
	// Without O_NONBLOCK a FIFO of that name would hold us here.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Dir(b.path)); err != nil {
			return lease.Record{}, "", sysexits.Errorf(sysexits.CantCreat, "its directory does not exist")
		}
		return lease.Record{}, "", checkpoint.ErrNotFound
	}
	if err != nil {
		return lease.Record{}, "", classify(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return lease.Record{}, "", classify(err)
	}
	if !info.Mode().IsRegular() {
		return lease.Record{}, "", sysexits.Errorf(sysexits.CantCreat, "not a file")
	}
	data, err := io.ReadAll(io.LimitReader(f, lease.MaxBytes+1))
	if err != nil {
		return lease.Record{}, "", classify(err)
	}
	r, err := lease.Parse(data)
	return r, checkpoint.Generation("=" + string(data)), err
}

// Write renames a new file over the old one, if that still is ifGen. Between
// the look and the rename another may do the same. A lock keeps them apart
// where locks work; but somebody who stopped while having it must not keep
// everybody from leading, so it is not waited for beyond a pause. In any case
// a new holder reads again what it wrote, after a pause. Two who still think
// that they hold the lease are told apart by the epoch, which is a true
// compare-and-swap.
func (b *Backend) Write(ctx context.Context, r lease.Record, ifGen checkpoint.Generation) (checkpoint.Generation, error) {
	gen, err := b.write(ctx, r, ifGen)
	if err != nil {
		return "", fmt.Errorf("write the lease %s: %w", b.name, err)
	}
	return gen, nil
}

func (b *Backend) write(ctx context.Context, r lease.Record, ifGen checkpoint.Generation) (checkpoint.Generation, error) {
	unlock := b.lock(ctx)
	defer unlock()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	before, gen, err := b.read()
	if err != nil && !errors.Is(err, checkpoint.ErrNotFound) && !errors.Is(err, lease.ErrCorrupt) {
		return "", err
	}
	if gen != ifGen {
		return "", checkpoint.ErrConflict
	}
	data := r.Marshal()
	if err := atomicfile.Write(b.path, data, mode); err != nil {
		return "", classify(err)
	}
	mine := checkpoint.Generation("=" + string(data))
	if before.Term == r.Term {
		return mine, nil
	}
	b.sweep()
	unlock()
	return mine, b.confirm(ctx, mine)
}

// sweep clears away what killed writers left. The lock proves nothing here, so
// age has to: by the clock of the file system, which has just dated the lease.
func (b *Backend) sweep() {
	if info, err := os.Stat(b.path); err == nil {
		atomicfile.Sweep(b.path, info.ModTime().Add(-abandoned))
	}
}

// confirm reads again, after a pause, what a new holder wrote.
func (b *Backend) confirm(ctx context.Context, mine checkpoint.Generation) error {
	if err := backoff.Sleep(ctx, b.pause); err != nil {
		return err
	}
	_, now, err := b.read()
	switch {
	case errors.Is(err, checkpoint.ErrNotFound), errors.Is(err, lease.ErrCorrupt), err == nil && now != mine:
		return checkpoint.ErrConflict
	}
	return err
}

// lock takes the lock beside the lease, if it can be had in time.
func (b *Backend) lock(ctx context.Context) (unlock func()) {
	if b.lockless {
		return func() {}
	}
	f, _, err := atomicfile.Open(b.path+".lock", 0, mode)
	if err != nil {
		return func() {}
	}
	deadline := time.Now().Add(b.pause)
	wait := backoff.New(time.Millisecond, 20*time.Millisecond)
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		busy := errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR)
		if !busy || time.Now().After(deadline) || backoff.Sleep(ctx, wait.Next()) != nil {
			return func() { _ = f.Close() } // also when it was not had; a second time does nothing
		}
	}
}

// classify gives an error of the file system its exit status.
func classify(err error) error {
	switch {
	case errors.Is(err, atomicfile.ErrLink):
		return sysexits.Wrap(sysexits.Config, err)
	case errors.Is(err, fs.ErrPermission):
		return sysexits.Wrap(sysexits.NoPerm, err)
	case errors.Is(err, unix.EROFS), errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP),
		errors.Is(err, unix.ENAMETOOLONG), errors.Is(err, fs.ErrNotExist):
		return sysexits.Wrap(sysexits.CantCreat, err)
	}
	return sysexits.Wrap(sysexits.IOErr, err)
}
