// Package fdio deals with the descriptors that a program of a pipeline was
// started with: which were passed on purpose, how stages that share one write
// whole lines to it, and when the reader of a pipe has gone. The rules stand
// in sf2loki-pipeline(7).
package fdio

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrReaderGone says that nobody reads the pipe that a program writes to. The
// program then ends with status 74, quietly, as any tool in front of head(1).
var ErrReaderGone = errors.New("the reader of standard output has gone")

// Inherited returns the descriptor fd if whoever started the program passed it
// for writing; nil and no error if not. Go's runtime opens descriptors of its
// own from 3 upwards, all close-on-exec, as an inherited one never is; the
// read end of make's job server and systemd's sockets are not for writing
// lines either. The descriptor becomes close-on-exec, so that no child keeps a
// pipe open: a second call finds nothing.
func Inherited(fd int) (*os.File, error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if errors.Is(err, unix.EBADF) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at descriptor %d: %w", fd, err)
	}
	if flags&unix.FD_CLOEXEC != 0 {
		return nil, nil
	}
	mode, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return nil, fmt.Errorf("look at descriptor %d: %w", fd, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("look at descriptor %d: %w", fd, err)
	}
	if mode&unix.O_ACCMODE == unix.O_RDONLY || st.Mode&unix.S_IFMT == unix.S_IFSOCK {
		return nil, nil
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), fmt.Sprintf("descriptor %d", fd)), nil
}

// ReaderGone returns a channel that is closed once nobody can read what is
// written to f, also while nothing is being written. It needs no other
// goroutine to run and ends with ctx. For a regular file it never closes.
func ReaderGone(ctx context.Context, f *os.File) <-chan struct{} {
	gone := make(chan struct{})
	fd, err := number(f)
	if err != nil {
		return gone
	}
	wakeR, wakeW, err := os.Pipe()
	if err != nil {
		return gone
	}
	stop := context.AfterFunc(ctx, func() { wakeW.Close() })
	go func() {
		defer wakeR.Close()
		defer func() {
			if stop() {
				wakeW.Close()
			}
		}()
		if waitGone(fd, int(wakeR.Fd())) {
			close(gone)
		}
	}()
	return gone
}

// waitGone waits until fd has no reader (true) or wake is closed (false).
func waitGone(fd, wake int) bool {
	fds := []unix.PollFd{{Fd: int32(fd)}, {Fd: int32(wake), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		case err != nil || fds[1].Revents != 0:
			return false
		case fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0:
			return true
		case fds[0].Revents != 0: // POLLNVAL: f was closed
			return false
		}
	}
}

// number returns the descriptor of f without making it blocking, as Fd would.
func number(f *os.File) (int, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	err = conn.Control(func(n uintptr) { fd = int(n) })
	return fd, err
}

// WriteUntil does what writes, and gives up on it when stop is closed before it
// has ended: it is left behind, ended is false, and nothing may be written to the
// same place again.
func WriteUntil(stop <-chan struct{}, write func() error) (ended bool, err error) {
	done := make(chan error, 1)
	go func() { done <- write() }()
	select {
	case err := <-done:
		return true, err
	case <-stop:
	}
	select {
	case err := <-done: // both had come
		return true, err
	default:
		return false, nil
	}
}
