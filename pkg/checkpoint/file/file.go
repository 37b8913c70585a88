// Package file keeps a checkpoint document in a local file: a lock for the
// moment of each write, a new file renamed over the old one, everything
// fsynced. See the section on stores of ckpt(1).
package file

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sf2loki/pkg/atomicfile"
	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/sysexits"
)

const (
	// newMode is for a document that is not there yet, and for its lock.
	newMode = 0o600
	// lockPatience is how long a write waits for the lock. Others hold it for
	// milliseconds, except the daemon, which holds it as long as it runs.
	lockPatience = 10 * time.Second
	// lockSuffix is also the daemon's, so that either notices the other.
	lockSuffix = ".lock"
)

// Store is a checkpoint.Store in a file.
type Store struct {
	name     string // as the user wrote it
	path     string
	patience time.Duration
}

// New returns the store in the file path, which need not exist. name is what
// messages call it.
func New(name, path string) *Store {
	return &Store{name: name, path: path, patience: lockPatience}
}

// String names the store.
func (s *Store) String() string { return s.name }

// Get reads the document. It takes no lock: a reader finds the old or the new
// content, whole.
func (s *Store) Get(ctx context.Context) ([]byte, checkpoint.Generation, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	path, err := s.target()
	if err != nil {
		return nil, "", err
	}
	return read(path)
}

// Put replaces the document under the lock, if it still is ifGen.
func (s *Store) Put(ctx context.Context, data []byte, ifGen checkpoint.Generation) (checkpoint.Generation, error) {
	path, err := s.target()
	if err != nil {
		return "", err
	}
	unlock, err := s.lock(ctx, path)
	if err != nil {
		return "", err
	}
	defer unlock()
	_, gen, err := read(path)
	if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		return "", err
	}
	if gen != ifGen {
		return "", checkpoint.ErrConflict
	}
	if err := atomicfile.Write(path, data, newMode); err != nil {
		return "", classify(fmt.Errorf("write %s: %w", path, err))
	}
	return generation(data), nil
}

// Prepare tells whether a write would work, and clears away what a killed
// writer left.
func (s *Store) Prepare(ctx context.Context) error {
	path, err := s.target()
	if err != nil {
		return err
	}
	if _, _, err := read(path); err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		return err
	}
	if err := writable(filepath.Dir(path)); err != nil {
		return err
	}
	unlock, err := s.lock(ctx, path)
	if err != nil {
		return err
	}
	defer unlock()
	atomicfile.Sweep(path, time.Now()) // nobody is writing one: we have the lock
	return nil
}

// target is the file behind symbolic links, even when it does not exist yet:
// the lock beside it must be one and the same for all its names.
func (s *Store) target() (string, error) {
	path, err := atomicfile.Resolve(s.path)
	if err != nil {
		return "", classify(err)
	}
	if _, err := os.Lstat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
		return "", sysexits.Errorf(sysexits.CantCreat, "the directory %s does not exist", filepath.Dir(path))
	}
	return path, nil
}

func read(path string) ([]byte, checkpoint.Generation, error) {
	// Without O_NONBLOCK a FIFO of that name would hold us here.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", checkpoint.ErrNotFound
	}
	if err != nil {
		return nil, "", classify(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, "", classify(err)
	}
	if !info.Mode().IsRegular() {
		return nil, "", sysexits.Errorf(sysexits.CantCreat, "%s is %s, not a file", path, kind(info.Mode()))
	}
	data, err := io.ReadAll(io.LimitReader(f, checkpoint.MaxBytes+1))
	if err != nil {
		return nil, "", classify(err)
	}
	if len(data) > checkpoint.MaxBytes {
		return nil, "", sysexits.Errorf(sysexits.Config, "%s is larger than %d bytes: that is no checkpoint document", path, checkpoint.MaxBytes)
	}
	return data, generation(data), nil
}

func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	}
	return "a device or socket"
}

// generation is a hash of the content: equal content needs no other name, as
// whoever compares it would decide the same.
func generation(data []byte) checkpoint.Generation {
	sum := sha256.Sum256(data)
	return checkpoint.Generation(hex.EncodeToString(sum[:16]))
}

func writable(dir string) error {
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return classify(fmt.Errorf("write into the directory %s: %w", dir, err))
	}
	return nil
}

// classify gives an error of the file system its exit status.
func classify(err error) error {
	switch {
	case errors.Is(err, atomicfile.ErrLink):
		return sysexits.Wrap(sysexits.Config, err)
	case errors.Is(err, fs.ErrPermission):
		return sysexits.Wrap(sysexits.NoPerm, err)
	case errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTDIR),
		errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, fs.ErrNotExist):
		return sysexits.Wrap(sysexits.CantCreat, err)
	}
	return sysexits.Wrap(sysexits.IOErr, err)
}
