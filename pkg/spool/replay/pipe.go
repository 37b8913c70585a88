package replay

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// letterPipe is the pipe on which dead letters come. It can tell how much the
// command has written to it, read or not: a dead letter is written before the
// acknowledgement that covers it, so with that one in hand this says how far to
// read before the acknowledgement may be applied.
type letterPipe struct {
	conn syscall.RawConn

	mu   sync.Mutex
	read int64
}

func newLetterPipe(f *os.File) (*letterPipe, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &letterPipe{conn: conn}, nil
}

// Read takes what is there under the lock; waiting it does without.
func (p *letterPipe) Read(b []byte) (n int, err error) {
	waitErr := p.conn.Read(func(fd uintptr) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for {
			n, err = unix.Read(int(fd), b)
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		p.read += int64(max(0, n))
		return !errors.Is(err, unix.EAGAIN)
	})
	switch {
	case waitErr != nil:
		return 0, waitErr
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// written is how many bytes have been written so far.
func (p *letterPipe) written() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	total := p.read
	// Once the pipe is closed everything has been read.
	_ = p.conn.Control(func(fd uintptr) {
		if waiting, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
			total += int64(waiting)
		}
	})
	return total
}
