package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

var (
	// ErrLink is a symbolic link of somebody else than root or the process's
	// own user: it may have been put there to have another file written.
	ErrLink = errors.New("symbolic link of another user")
	// ErrNotRegular is a directory, a FIFO, a device or a socket.
	ErrNotRegular = errors.New("not a regular file")
)

// maxLinks is the kernel's own bound.
const maxLinks = 40

// Resolve returns path without symbolic links, as far as it can be seen. Only
// links of root and of the process's own user are followed.
func Resolve(path string) (string, error) {
	done, rest := start(path), parts(path)
	for links := 0; len(rest) > 0; {
		next := filepath.Join(done, rest[0])
		rest = rest[1:]
		info, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) { // whoever opens it will say
			return filepath.Join(append([]string{next}, rest...)...), nil
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
		}
		target, err := follow(next, info)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			done = "/"
		}
		rest = append(parts(target), rest...)
	}
	return done, nil
}

func start(path string) string {
	if filepath.IsAbs(path) {
		return "/"
	}
	return "."
}

// parts keeps "..": the directory before it may turn out to be a link.
func parts(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// follow returns where the link leads if whoever made it may be trusted.
func follow(link string, info fs.FileInfo) (string, error) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return "", fmt.Errorf("%s: %w (%d): name the file itself", link, ErrLink, st.Uid)
	}
	return os.Readlink(link)
}

// Open opens or makes the regular file at path for reading and writing, without
// ever waiting. A new one gets mode whatever the umask; created tells of it.
func Open(path string, flags int, mode os.FileMode) (f *os.File, created bool, err error) {
	target, err := Resolve(path)
	if err != nil {
		return nil, false, err
	}
	flags |= os.O_RDWR | syscall.O_NOFOLLOW | syscall.O_NONBLOCK | syscall.O_CLOEXEC
	f, err = os.OpenFile(target, flags|os.O_CREATE|os.O_EXCL, mode)
	if created = err == nil; created {
		err = f.Chmod(mode)
	} else if errors.Is(err, fs.ErrExist) {
		f, err = os.OpenFile(target, flags|os.O_CREATE, mode)
	}
	if err == nil {
		err = regular(f)
	}
	if err != nil && f != nil {
		err = errors.Join(err, f.Close())
		f = nil
	}
	return f, created, err
}

func regular(f *os.File) error {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: ErrNotRegular}
	}
	return err
}
