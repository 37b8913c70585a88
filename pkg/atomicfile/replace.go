package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Replace puts data at path as Write does, but a symbolic link there is
// replaced, not followed, and what was there does not matter, except for the
// mode of a file of the process's own user, which stays. Pipes, terminals and
// descriptors (/dev/stdout, /dev/fd/3) are written to as they are.
func Replace(path string, data []byte, mode os.FileMode) error {
	out, err := openStream(path)
	if err != nil {
		return err
	}
	if out != nil {
		_, err := out.Write(data)
		return errors.Join(err, out.Close())
	}
	dir, err := Resolve(filepath.Dir(path))
	if err != nil {
		return err
	}
	target := filepath.Join(dir, filepath.Base(path))
	info, err := os.Lstat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.Mode().IsRegular() && own(info):
		mode = info.Mode().Perm()
	case info.Mode()&fs.ModeSymlink == 0 && !info.Mode().IsRegular():
		return fmt.Errorf("replace %s: %w", path, ErrNotRegular)
	}
	return put(target, data, mode, nil)
}

func own(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// openStream opens what path names if that is no place for a file: a descriptor
// of this process, whatever it is of, a FIFO or a character device. It returns
// nil for all else.
func openStream(path string) (*os.File, error) {
	for range maxLinks {
		if fd, ok := descriptor(path); ok {
			again, err := syscall.Dup(fd) // keeps the position, as a new opening would not
			if err != nil {
				return nil, &fs.PathError{Op: "open", Path: path, Err: err}
			}
			syscall.CloseOnExec(again)
			return os.NewFile(uintptr(again), path), nil
		}
		info, err := os.Lstat(path)
		if err != nil {
			return nil, nil // for who replaces it to say
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			if info.Mode()&(fs.ModeNamedPipe|fs.ModeCharDevice) == 0 {
				return nil, nil
			}
			return os.OpenFile(path, os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		}
		target, err := follow(path, info)
		if err != nil {
			return nil, nil
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return nil, nil
}

// descriptor tells which of the process's descriptors path is the name of.
func descriptor(path string) (int, bool) {
	fd, err := strconv.Atoi(filepath.Base(path))
	if err != nil || fd < 0 {
		return 0, false
	}
	dir, err := Resolve(filepath.Dir(path))
	if err != nil {
		return 0, false
	}
	return fd, dir == fmt.Sprintf("/proc/%d/fd", os.Getpid())
}
