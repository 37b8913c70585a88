package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"sf2loki/pkg/atomicfile"
	"sf2loki/pkg/backoff"
	"sf2loki/pkg/sysexits"
)

// lock takes the lock beside path, which stays there for good: removing it
// would let two writers hold two different ones.
func (s *Store) lock(ctx context.Context, path string) (unlock func(), err error) {
	name := path + lockSuffix
	deadline := time.Now().Add(s.patience)
	wait := backoff.New(time.Millisecond, 50*time.Millisecond)
	for {
		f, err := tryLock(name)
		if err != nil {
			return nil, classify(fmt.Errorf("lock %s: %w", name, err))
		}
		if f != nil {
			return func() { _ = f.Close() }, nil // closing releases it, and nothing was written
		}
		if time.Now().After(deadline) {
			return nil, sysexits.Errorf(sysexits.TempFail,
				"%s is held by another process since %s at least; a running sf2loki daemon holds it until it stops", name, s.patience)
		}
		if err := backoff.Sleep(ctx, wait.Next()); err != nil {
			return nil, sysexits.Wrap(sysexits.TempFail, err)
		}
	}
}

// tryLock returns nil, nil when another process has the lock.
func tryLock(name string) (*os.File, error) {
	f, err := openLock(name)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil && sameFile(f, name) {
		return f, nil
	}
	_ = f.Close()
	if err != nil && !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
		return nil, err
	}
	return nil, nil
}

// openLock opens the lock file for writing, which NFS asks for, or at least
// for reading when it is another user's.
func openLock(name string) (*os.File, error) {
	f, _, err := atomicfile.Open(name, 0, newMode)
	if errors.Is(err, os.ErrPermission) {
		if f, e := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0); e == nil {
			return f, nil
		}
	}
	return f, err
}

// sameFile reports whether name still leads to f: somebody may have removed
// the file between the opening and the lock.
func sameFile(f *os.File, name string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(name)
	return err == nil && os.SameFile(a, b)
}
