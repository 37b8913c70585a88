package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"sf2loki/pkg/sysexits"
)

const (
	dirMode  = 0o700
	fileMode = 0o600
)

// dir is an open directory. Names are looked up in it and never followed, so
// that nobody can put another directory or a link in our way.
type dir struct {
	f    *os.File
	path string
}

// openDir opens a directory, and makes it when create is set.
func openDir(path string, create bool, log *slog.Logger) (*dir, error) {
	path = filepath.Clean(path)
	made := false
	if create {
		var err error
		if made, err = makeDir(path); err != nil {
			return nil, sysexits.Wrap(sysexits.CantCreat, fmt.Errorf("make the spool directory: %w", err))
		}
	}
	f, err := openDirectory(path)
	if err != nil {
		return nil, err
	}
	d := &dir{f: f, path: path}
	if made {
		if err := f.Chmod(dirMode); err != nil { // whatever the umask
			f.Close()
			return nil, sysexits.Wrap(sysexits.CantCreat, fmt.Errorf("make the spool directory: %w", err))
		}
	}
	if err := d.check(log); err != nil {
		f.Close()
		return nil, err
	}
	return d, nil
}

// makeDir makes a directory with its parents, each durable before the next, and
// tells whether it had to.
func makeDir(path string) (made bool, err error) {
	if _, err := os.Lstat(path); err == nil {
		return false, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	parent := filepath.Dir(path)
	if parent != path {
		if _, err := makeDir(parent); err != nil {
			return false, err
		}
	}
	if err := os.Mkdir(path, dirMode); err != nil {
		if errors.Is(err, fs.ErrExist) { // another process was faster
			return false, nil
		}
		return false, err
	}
	return true, syncPath(parent)
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// openDirectory follows a link only when root or we ourselves have put it there.
func openDirectory(path string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	fd, err := unix.Open(path, flags|unix.O_NOFOLLOW, 0)
	if err == nil {
		return os.NewFile(uintptr(fd), path), nil
	}
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return nil, openError(path, err)
	}
	if st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return nil, sysexits.Errorf(sysexits.Config,
			"the spool directory %q is a symbolic link of user %d: name the directory itself", path, st.Uid)
	}
	if fd, err = unix.Open(path, flags, 0); err != nil {
		return nil, openError(path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

func openError(path string, err error) error {
	return sysexits.Wrap(openCode(err), &fs.PathError{Op: "open", Path: path, Err: err})
}

// openCode is the exit status for something that cannot be opened.
func openCode(err error) sysexits.Code {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return sysexits.NoPerm
	case errors.Is(err, unix.EIO):
		return sysexits.IOErr
	}
	return sysexits.CantCreat
}

// check refuses a directory in which anybody could swap the files, and warns of
// one that lets others look. A group that may write is how shared volumes are
// made, so that is a warning.
func (d *dir) check(log *slog.Logger) error {
	info, err := d.f.Stat()
	if err != nil {
		return openError(d.path, err)
	}
	mode := info.Mode()
	sticky := mode&fs.ModeSticky != 0
	switch {
	case mode&0o002 != 0 && !sticky:
		return sysexits.Errorf(sysexits.Config,
			"anybody may write to the spool directory %q: chmod 700 it", d.path)
	case mode&0o077 != 0:
		log.Warn("spool directory is open to others", "dir", d.path, "mode", mode.Perm().String())
	}
	return nil
}

func (d *dir) close() error { return d.f.Close() }

func (d *dir) sync() error {
	if err := d.f.Sync(); err != nil {
		return fmt.Errorf("sync directory %s: %w", d.path, err)
	}
	return nil
}

func (d *dir) fd() int { return int(d.f.Fd()) }

// id tells directories apart, whatever they are called.
func (d *dir) id() [2]uint64 {
	var st unix.Stat_t
	if unix.Fstat(d.fd(), &st) != nil {
		return [2]uint64{}
	}
	return [2]uint64{st.Dev, st.Ino}
}

func (d *dir) join(name string) string { return filepath.Join(d.path, name) }

// open opens a regular file of the directory; a link or a pipe that somebody
// put there is an error, and does not hang us.
func (d *dir) open(name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(d.fd(), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, fileMode)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: d.join(name), Err: err}
	}
	f := os.NewFile(uintptr(fd), d.join(name))
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: d.join(name), Err: errors.New("not a regular file")}
	}
	if err == nil && flags&unix.O_CREAT != 0 && info.Size() == 0 {
		err = f.Chmod(fileMode) // whatever the umask
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// names reads the directory afresh.
func (d *dir) names() ([]string, error) {
	again, err := d.reopen()
	if err != nil {
		return nil, err
	}
	defer again.Close()
	names, err := again.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("read directory %s: %w", d.path, err)
	}
	return names, nil
}

// reopen gives the directory a file position of its own.
func (d *dir) reopen() (*os.File, error) {
	fd, err := unix.Openat(d.fd(), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: d.path, Err: err}
	}
	return os.NewFile(uintptr(fd), d.path), nil
}

func (d *dir) stat(name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(d.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return st, &fs.PathError{Op: "stat", Path: d.join(name), Err: err}
	}
	return st, nil
}

func (d *dir) exists(name string) bool {
	_, err := d.stat(name)
	return err == nil
}

func (d *dir) remove(name string) error {
	if err := unix.Unlinkat(d.fd(), name, 0); err != nil {
		return &fs.PathError{Op: "remove", Path: d.join(name), Err: err}
	}
	return nil
}

// rename never replaces: a name that is taken is fs.ErrExist.
func (d *dir) rename(from, to string) error {
	err := unix.Renameat2(d.fd(), from, d.fd(), to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // not every file system knows how
		if err = unix.Linkat(d.fd(), from, d.fd(), to, 0); err == nil {
			err = unix.Unlinkat(d.fd(), from, 0)
		}
	}
	if err != nil {
		return &fs.PathError{Op: "rename", Path: d.join(from), Err: err}
	}
	return nil
}

// same reports whether the name still is that open file.
func (d *dir) same(name string, f *os.File) bool {
	var open unix.Stat_t
	if unix.Fstat(int(f.Fd()), &open) != nil {
		return false
	}
	named, err := d.stat(name)
	return err == nil && named.Dev == open.Dev && named.Ino == open.Ino
}

// errLocked is what lock returns for a file that somebody else holds.
var errLocked = errors.New("in use by another process")

const (
	lockPatience = 500 * time.Millisecond
	lockPause    = 5 * time.Millisecond
)

// lock takes the file for this process alone. Whoever lists a spool holds a
// shared lock for a moment to see whether a file is in use, so a first refusal
// is not yet the answer.
func lock(f *os.File) error {
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(lockPause) {
		err := tryLock(f, unix.LOCK_EX)
		if !errors.Is(err, errLocked) || time.Now().After(deadline) {
			return err
		}
	}
}

func tryLock(f *os.File, how int) error {
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return errLocked
	case errors.Is(err, unix.EINTR):
		return tryLock(f, how)
	}
	return sysexits.Wrap(sysexits.CantCreat, fmt.Errorf(
		"lock %s: %w (the spool needs a file system that has flock)", f.Name(), err))
}

// inUse reports whether somebody holds the file's lock.
func inUse(f *os.File) (bool, error) {
	err := tryLock(f, unix.LOCK_SH)
	if errors.Is(err, errLocked) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, unix.Flock(int(f.Fd()), unix.LOCK_UN)
}
