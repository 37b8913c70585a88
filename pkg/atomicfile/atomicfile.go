// Package atomicfile replaces a file so that a reader, or a crash at any
// moment, finds either the old content or the new one, whole.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Write puts data at path: a temporary file in the same directory, fsync,
// rename, fsync of the directory. When it returns nil the new content survives
// a power cut. An existing file keeps its mode and owner, a new one gets mode
// whatever the umask; a symbolic link is followed as Resolve does, not replaced.
func Write(path string, data []byte, mode os.FileMode) error {
	target, old, err := resolve(path)
	if err != nil {
		return err
	}
	return put(target, data, mode, old)
}

func put(target string, data []byte, mode os.FileMode, old fs.FileInfo) error {
	dir := filepath.Dir(target)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(target)+".*")
	if err != nil {
		return err
	}
	if err := fill(tmp, data, mode, old); err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	if err := os.Rename(tmp.Name(), target); err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return SyncDir(dir)
}

// resolve follows symbolic links and returns the file that is there now, if
// there is one.
func resolve(path string) (string, fs.FileInfo, error) {
	target, err := Resolve(path)
	if err != nil {
		return "", nil, err
	}
	old, err := os.Lstat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return target, nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	if !old.Mode().IsRegular() {
		return "", nil, fmt.Errorf("replace %s: %w", path, ErrNotRegular)
	}
	return target, old, nil
}

func fill(tmp *os.File, data []byte, mode os.FileMode, old fs.FileInfo) error {
	err := func() error {
		if _, err := tmp.Write(data); err != nil {
			return err
		}
		if old != nil {
			mode = old.Mode().Perm()
			if err := keepOwner(tmp, old); err != nil {
				return err
			}
		}
		if err := tmp.Chmod(mode); err != nil {
			return err
		}
		return tmp.Sync()
	}()
	return errors.Join(err, tmp.Close())
}

// keepOwner gives tmp the owner of old. Only root may do so for a stranger's
// file; for anyone else the new owner is the writer, as with any new file.
func keepOwner(tmp *os.File, old fs.FileInfo) error {
	st, ok := old.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	err := tmp.Chown(int(st.Uid), int(st.Gid))
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// Sweep removes the temporary files that writers of path who were killed have
// left. Those that changed after before are not touched: somebody may be
// writing one now. What cannot be removed stays for the next time.
func Sweep(path string, before time.Time) {
	target, _, err := resolve(path)
	if err != nil {
		return
	}
	dir, prefix := filepath.Dir(target), "."+filepath.Base(target)+"."
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // the directory may be written but not listed
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), prefix)
		if !ok || rest == "" || strings.Trim(rest, "0123456789") != "" {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && !info.ModTime().After(before) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// SyncDir makes the names in dir durable: what was created, renamed or removed.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
