package fdio

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// LineWriter writes whole lines to a descriptor that other processes may write
// to as well, as the stages of a pipeline share descriptor 3. It is safe for
// concurrent use.
//
// Each write happens under a POSIX record lock (F_SETLKW) on the whole file.
// That kind belongs to the process and the inode: it excludes stages that
// inherited one open file, which share a single open file description and
// which a lock of the description (F_OFD_SETLKW, flock) would not exclude, as
// well as stages that opened the file one by one. Linux grants it on pipes
// too, so that lines longer than PIPE_BUF stay whole. Where a file cannot be
// locked the lines are written without.
type LineWriter struct {
	mu      sync.Mutex
	f       *os.File
	fd      int
	regular bool
}

// NewLineWriter returns a LineWriter to f, which it does not close.
func NewLineWriter(f *os.File) *LineWriter {
	w := &LineWriter{f: f, fd: -1}
	if fd, err := number(f); err == nil {
		w.fd = fd
	}
	if info, err := f.Stat(); err == nil {
		w.regular = info.Mode().IsRegular()
	}
	return w
}

// Write writes lines, which must end with a line feed, at the end of the file.
// When it returns nil they are durable: in a regular file after fsync, in a
// pipe after the whole write, from where its reader answers for them. After an
// error a regular file is as long as it was before.
func (w *LineWriter) Write(lines []byte) error {
	if len(lines) == 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.lock(unix.F_WRLCK); err != nil {
		return fmt.Errorf("lock %s: %w", w.f.Name(), err)
	}
	err := w.append(lines)
	return errors.Join(err, w.lock(unix.F_UNLCK))
}

func (w *LineWriter) append(lines []byte) error {
	if !w.regular {
		return w.writeAll(lines)
	}
	// Another stage may have opened the same file without O_APPEND: what it
	// wrote lies beyond our own offset.
	end, err := w.f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if err := w.writeAll(lines); err != nil {
		return errors.Join(err, w.f.Truncate(end))
	}
	return w.f.Sync()
}

// writeAll is Write of a descriptor that may be non-blocking although Go's
// poller does not know it: another holder of the open file can make it so.
func (w *LineWriter) writeAll(lines []byte) error {
	for len(lines) > 0 {
		n, err := w.f.Write(lines)
		lines = lines[n:]
		if errors.Is(err, unix.EAGAIN) {
			err = w.waitWritable()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *LineWriter) waitWritable() error {
	fds := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLOUT}}
	_, err := unix.Poll(fds, -1)
	if errors.Is(err, unix.EINTR) {
		return nil
	}
	return err
}

func (w *LineWriter) lock(kind int16) error {
	lk := unix.Flock_t{Type: kind, Whence: io.SeekStart}
	for {
		err := unix.FcntlFlock(uintptr(w.fd), unix.F_SETLKW, &lk)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EBADF),
			errors.Is(err, unix.ENOLCK), errors.Is(err, unix.ENOTSUP):
			return nil // this kind of file has no locks
		default:
			return err
		}
	}
}
