package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sf2loki/pkg/atomicfile"
	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// LedgerVersion is that of the lines that this release writes, and the newest
// that it reads.
const LedgerVersion = 1

const (
	// ledgerBuffer is how much waits in memory for the next write.
	ledgerBuffer = 1 << 20
	ledgerMode   = 0o600
)

// Ledger is a file to which settled accounts are appended, one line each:
// what a file, page or log held and what became of it. Several processes may
// share one.
type Ledger struct {
	f   *os.File
	now func() time.Time

	mu  sync.Mutex
	buf []byte
}

// OpenLedger opens the ledger at path, or makes it.
func OpenLedger(path string, now func() time.Time) (*Ledger, error) {
	f, created, err := atomicfile.Open(path, os.O_APPEND, ledgerMode)
	if errors.Is(err, atomicfile.ErrNotRegular) {
		return nil, sysexits.Errorf(sysexits.CantCreat, "the ledger %s is not a file", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", ledgerStatus(err))
	}
	l := &Ledger{f: f, now: now}
	if err := l.examine(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if created {
		if err := atomicfile.SyncDir(filepath.Dir(path)); err != nil {
			return nil, errors.Join(fmt.Errorf("open the ledger: %w", ledgerStatus(err)), f.Close())
		}
	}
	return l, nil
}

func ledgerStatus(err error) error {
	switch {
	case errors.Is(err, atomicfile.ErrLink):
		return sysexits.Wrap(sysexits.Config, err)
	case errors.Is(err, fs.ErrPermission):
		return sysexits.Wrap(sysexits.NoPerm, err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EROFS),
		errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENXIO):
		return sysexits.Wrap(sysexits.CantCreat, err)
	}
	return sysexits.Wrap(sysexits.IOErr, err)
}

// examine refuses what is no ledger, or one of a newer release.
func (l *Ledger) examine() error {
	info, err := l.f.Stat()
	if err != nil {
		return ledgerStatus(err)
	}
	end, err := l.whole(info.Size())
	if err != nil || end == 0 {
		return err
	}
	start, err := l.whole(end - 1)
	if err != nil {
		return err
	}
	line := make([]byte, end-start)
	if _, err := l.f.ReadAt(line, start); err != nil {
		return ledgerStatus(err)
	}
	var head struct {
		Version int64 `json:"v"`
	}
	if err := json.Unmarshal(line, &head); err != nil || head.Version < 1 {
		return sysexits.Errorf(sysexits.Config, "%s is not a ledger: its last line is %.60q", l.f.Name(), line)
	}
	if head.Version > LedgerVersion {
		return sysexits.Errorf(sysexits.Config, "the ledger %s has version %d, newer than this release knows", l.f.Name(), head.Version)
	}
	return nil
}

// whole returns the end of the last whole line in the first size bytes.
func (l *Ledger) whole(size int64) (int64, error) {
	const step = 64 << 10
	buf := make([]byte, step)
	for end := size; end > 0; {
		start := max(0, end-step)
		n, err := l.f.ReadAt(buf[:end-start], start)
		if err != nil && err != io.EOF {
			return 0, ledgerStatus(err)
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return start + int64(i) + 1, nil
		}
		end = start
	}
	return 0, nil
}

// Add appends the account of key, a JSON object, at the latest when Flush is
// called.
func (l *Ledger) Add(runID, key string, account []byte) error {
	return l.add(runID, key, `"account":`, account)
}

// AddLoss appends how many entries of key, up to a position and its time, were
// refused and captured nowhere since its last account in this run. A later line
// of the key and run, of either kind, takes its place.
func (l *Ledger) AddLoss(runID, key, position string, dropped, at int64) error {
	loss := strconv.AppendInt([]byte(`{"dropped":`), dropped, 10)
	if at != 0 {
		loss = append(record.AppendTime(append(loss, `,"ts":"`...), at), '"')
	}
	loss = record.AppendString(append(loss, `,"checkpoint_value":`...), []byte(position))
	return l.add(runID, key, `"loss":`, append(loss, '}'))
}

func (l *Ledger) add(runID, key, member string, value []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, `{"v":`...)
	l.buf = strconv.AppendInt(l.buf, LedgerVersion, 10)
	l.buf = record.AppendTime(append(l.buf, `,"at":"`...), l.now().UnixNano())
	l.buf = record.AppendString(append(l.buf, `","run_id":`...), []byte(runID))
	l.buf = record.AppendString(append(l.buf, `,"checkpoint_key":`...), []byte(key))
	l.buf = append(append(append(l.buf, ','), member...), value...)
	l.buf = append(l.buf, '}', '\n')
	if len(l.buf) < ledgerBuffer {
		return nil
	}
	return l.flush()
}

// Flush makes everything that was added durable.
func (l *Ledger) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flush()
}

func (l *Ledger) flush() error {
	if len(l.buf) == 0 {
		return nil
	}
	if err := l.append(l.buf); err != nil {
		return fmt.Errorf("write the ledger: %w", ledgerStatus(err))
	}
	l.buf = l.buf[:0]
	return nil
}

// append writes whole lines under the file's lock. What a killed writer left
// of its last line is cut off first: its account was never settled, so it
// comes again.
func (l *Ledger) append(lines []byte) error {
	fd := int(l.f.Fd())
	if err := flock(fd, unix.LOCK_EX); err != nil {
		return err
	}
	defer func() { _ = flock(fd, unix.LOCK_UN) }()
	info, err := l.f.Stat()
	if err != nil {
		return err
	}
	end, err := l.whole(info.Size())
	if err != nil {
		return err
	}
	if end < info.Size() {
		if err := l.f.Truncate(end); err != nil {
			return err
		}
	}
	if _, err := l.f.Write(lines); err != nil {
		return errors.Join(err, l.f.Truncate(end))
	}
	return l.f.Sync()
}

func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); err != unix.EINTR {
			return err
		}
	}
}

// Close closes the file. What was added and not flushed is lost.
func (l *Ledger) Close() error { return l.f.Close() }
