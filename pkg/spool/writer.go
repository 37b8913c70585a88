package spool

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sf2loki/pkg/sysexits"
)

// Writer captures dead letters. It is safe for concurrent use.
type Writer struct {
	cfg    Config
	dir    *dir
	stop   chan struct{}
	upkeep sync.WaitGroup
	survey *survey

	mu     sync.Mutex
	cur    *segment // nil while no file is open
	closed bool
	stats  Stats
}

// segment is the file being written.
type segment struct {
	f       *os.File
	name    string
	size    int64 // what is in it for sure
	first   time.Time
	expires *time.Timer
}

// Open opens a spool directory for writing, and makes it when it is not there.
// No file is made before the first record comes.
func Open(cfg Config) (*Writer, error) {
	cfg.setDefaults()
	cfg.Instance = cleanInstance(cfg.Instance)
	d, err := openDir(cfg.Dir, true, cfg.Log)
	if err != nil {
		return nil, err
	}
	if err := d.probe(); err != nil {
		d.close()
		return nil, err
	}
	w := &Writer{cfg: cfg, dir: d, stop: make(chan struct{}), survey: newSurvey(cfg.Log)}
	w.stats.PrunedUnreplayed = map[string]int64{}
	w.upkeep.Go(w.keepUp)
	return w, nil
}

// probe finds out at the start, without leaving a trace, whether files can be
// made and locked here. A full disk is not a reason to refuse: it may have room
// by the time that there is something to write.
func (d *dir) probe() error {
	fd, err := unix.Openat(d.fd(), ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, fileMode)
	switch {
	case err == nil:
		f := os.NewFile(uintptr(fd), d.path)
		defer f.Close()
		return tryLock(f, unix.LOCK_EX)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS):
		return sysexits.Wrap(sysexits.CantCreat, fmt.Errorf("write to the spool directory %s: %w", d.path, err))
	}
	return nil
}

// Append captures dead letters, whole lines each. When it returns nil they are
// on the disk. After an error none of them counts as captured, though some may be.
func (w *Writer) Append(lines [][]byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errors.New("write to spool: closed")
	}
	for len(lines) > 0 {
		n, err := w.appendSome(lines)
		if full(err) && w.makeRoom() {
			n, err = w.appendSome(lines)
		}
		if err != nil {
			w.stats.WriteErrors++
			return sysexits.Wrap(sysexits.IOErr, fmt.Errorf("write to spool: %w", err))
		}
		lines = lines[n:]
	}
	return nil
}

func full(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// appendSome writes as many lines as the current file takes, at least one.
func (w *Writer) appendSome(lines [][]byte) (int, error) {
	if w.cur != nil && w.cur.size+lineSize(lines[0]) > w.cfg.FileBytes {
		w.closeSegment()
	}
	for tries := 0; ; tries++ {
		n, size, err := w.appendTo(lines)
		if err != nil {
			return 0, err
		}
		if w.dir.same(w.cur.name, w.cur.f) {
			w.cur.size += size
			w.stats.Entries += int64(n)
			w.stats.Bytes += size
			w.touch()
			return n, nil
		}
		// Somebody moved or removed the file under our hands: what we wrote
		// may be gone, so it is written once more.
		w.cfg.Log.Warn("spool file is no longer where it was", "file", w.dir.join(w.cur.name))
		w.closeSegment()
		if tries == 3 {
			return 0, errors.New("the file was moved away again and again")
		}
	}
}

func (w *Writer) appendTo(lines [][]byte) (n int, size int64, err error) {
	if w.cur == nil {
		if err := w.newSegment(lineSize(lines[0])); err != nil {
			return 0, 0, err
		}
	}
	out := bufio.NewWriterSize(w.cur.f, 64<<10) // keeps its first error until Flush
	for n < len(lines) && (n == 0 || w.cur.size+size+lineSize(lines[n]) <= w.cfg.FileBytes) {
		_, _ = out.Write(lines[n])
		if !ended(lines[n]) {
			_ = out.WriteByte('\n')
		}
		size += lineSize(lines[n])
		n++
	}
	if err := out.Flush(); err != nil {
		w.undo()
		return 0, 0, err
	}
	if err := w.cur.f.Sync(); err != nil {
		w.undo()
		return 0, 0, err
	}
	return n, size, nil
}

// undo takes back what a failed write left. The file is closed: after a failed
// fsync nobody knows what the kernel still holds of it, and a torn line is
// never appended to.
func (w *Writer) undo() {
	seg := w.cur
	if err := seg.f.Truncate(seg.size); err != nil {
		w.cfg.Log.Warn("spool file may end inside a record", "file", w.dir.join(seg.name), "err", err)
	} else if seg.size == 0 && w.dir.same(seg.name, seg.f) {
		if err := w.dir.remove(seg.name); err != nil {
			w.cfg.Log.Warn("empty spool file stays", "err", err)
		}
	}
	w.closeSegment()
}

// newSegment opens the next file: a new one always, for a torn tail that an
// earlier process left must not be written after.
func (w *Writer) newSegment(first int64) error {
	now := w.cfg.Now()
	room := max(first, w.cfg.FileBytes)
	if err := w.prune(room); err != nil {
		w.cfg.Log.Warn("spool could not be pruned", "dir", w.dir.path, "err", err)
	}
	name, f, err := w.create(now)
	if err != nil {
		return err
	}
	if err := w.dir.sync(); err != nil {
		f.Close()
		return err
	}
	seg := &segment{f: f, name: name, first: now}
	seg.expires = time.AfterFunc(w.cfg.FileIdle, func() { w.expire(seg) })
	w.cur = seg
	return nil
}

// create makes and locks a file under the next free number.
func (w *Writer) create(now time.Time) (string, *os.File, error) {
	number, err := w.nextNumber(now)
	if err != nil {
		return "", nil, err
	}
	for ; ; number++ {
		name := fileName(w.cfg.Instance, now, number)
		f, err := w.dir.open(name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_APPEND)
		if errors.Is(err, fs.ErrExist) { // another writer of our name took it
			continue
		}
		if err != nil {
			return "", nil, err
		}
		err = lock(f)
		if err == nil && w.dir.same(name, f) {
			return name, f, nil
		}
		f.Close()
		if err != nil && !errors.Is(err, errLocked) {
			return "", nil, errors.Join(err, w.dir.remove(name))
		}
	}
}

func (w *Writer) nextNumber(now time.Time) (int, error) {
	names, err := w.dir.names()
	if err != nil {
		return 0, err
	}
	last := 0
	for _, name := range names {
		if n, ok := numberOf(name, w.cfg.Instance, now); ok {
			last = max(last, n)
		}
	}
	return last + 1, nil
}

// touch puts off the closing of the file that has just been written.
func (w *Writer) touch() {
	age := w.cfg.Now().Sub(w.cur.first)
	left := min(w.cfg.FileIdle, w.cfg.FileAge-age)
	if left <= 0 || age < 0 || w.cur.size >= w.cfg.FileBytes {
		w.closeSegment()
		return
	}
	w.cur.expires.Reset(left)
}

func (w *Writer) expire(seg *segment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cur == seg {
		w.closeSegment()
	}
}

// closeSegment gives the file, and with it the lock, away: what was appended is
// on the disk already.
func (w *Writer) closeSegment() {
	w.cur.expires.Stop()
	if err := w.cur.f.Close(); err != nil {
		w.cfg.Log.Warn("spool file was not closed cleanly", "err", err)
	}
	w.cur = nil
}

// keepUp prunes by age and counts what waits, at the start and every minute.
func (w *Writer) keepUp() {
	ticker := time.NewTicker(upkeepEvery)
	defer ticker.Stop()
	for {
		w.lookAround()
		select {
		case <-w.stop:
			return
		case <-ticker.C:
		}
	}
}

// Stats tells what happened so far.
func (w *Writer) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	stats := w.stats
	stats.PrunedUnreplayed = maps.Clone(w.stats.PrunedUnreplayed)
	return stats
}

// Close closes the file and the directory.
func (w *Writer) Close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	if w.cur != nil {
		w.closeSegment()
	}
	close(w.stop)
	w.mu.Unlock()
	w.upkeep.Wait()
	// A run that is shorter than the next look leaves the right numbers, too.
	if err := w.countWaiting(func() error { return nil }); err != nil {
		w.cfg.Log.Warn("spool could not be counted", "dir", w.dir.path, "err", err)
	}
	return w.dir.close()
}

func ended(line []byte) bool { return len(line) > 0 && line[len(line)-1] == '\n' }

func lineSize(line []byte) int64 {
	if ended(line) {
		return int64(len(line))
	}
	return int64(len(line)) + 1
}
