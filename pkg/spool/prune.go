package spool

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// stored is a data file with its journal, or a journal that was left alone, as
// the disk has it at this moment.
type stored struct {
	name     string
	size     int64 // both together
	changed  time.Time
	replayed bool
	orphan   bool
}

// stored looks at the whole directory: what an operator removed by hand must
// not count.
func (d *dir) stored() ([]stored, error) {
	names, err := d.names()
	if err != nil {
		return nil, err
	}
	var files []stored
	for _, name := range names {
		if !spoolFile(name) {
			continue
		}
		s := stored{name: name}
		data, isJournal := strings.CutSuffix(name, journalSuffix)
		if isJournal {
			if d.exists(data) || d.exists(data+replayedSuffix) {
				continue // counted with its file
			}
			s.orphan = true
		}
		_, k := splitName(data)
		s.replayed = k.replayed
		info, err := d.stat(name)
		if err != nil || info.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		s.size, s.changed = info.Size, time.Unix(info.Mtim.Unix())
		if !isJournal {
			if info, err := d.stat(journalOf(name)); err == nil {
				s.size += info.Size
			}
		}
		files = append(files, s)
	}
	return files, nil
}

// prune removes what is older than the retention, and then the oldest of what
// is closed until there is room for so many bytes. What has been replayed goes
// first.
func (w *Writer) prune(room int64) error {
	files, err := w.dir.stored()
	if err != nil {
		return err
	}
	slices.SortFunc(files, func(a, b stored) int {
		return cmp.Or(-cmpBool(a.replayed || a.orphan, b.replayed || b.orphan),
			a.changed.Compare(b.changed), strings.Compare(a.name, b.name))
	})
	var total int64
	for _, s := range files {
		total += s.size
	}
	kept := int64(len(files))
	now := w.cfg.Now()
	var failures []error
	for _, s := range files {
		old := w.cfg.Retention > 0 && now.Sub(s.changed) > w.cfg.Retention
		full := total > max(0, w.cfg.Bytes-room)
		if !old && !full {
			continue
		}
		gone, err := w.removeStored(s, old)
		if err != nil {
			failures = append(failures, err)
		}
		if gone {
			total -= s.size
			kept--
		}
	}
	w.stats.SpoolFiles, w.stats.SpoolBytes = kept, total
	return errors.Join(failures...)
}

// makeRoom removes what was replayed, to the last file, when the disk is full:
// it is worth less than a dead letter. It tells whether that made any room.
func (w *Writer) makeRoom() bool {
	files, err := w.dir.stored()
	if err != nil {
		return false
	}
	made := false
	for _, s := range files {
		if !s.replayed {
			continue
		}
		gone, err := w.removeStored(s, false)
		if err != nil {
			w.cfg.Log.Warn("spool file could not be removed", "file", w.dir.join(s.name), "err", err)
		}
		made = made || gone
	}
	return made
}

func cmpBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// removeStored removes a file that nobody has in hand, and tells whether it is
// gone.
func (w *Writer) removeStored(s stored, old bool) (bool, error) {
	if s.orphan {
		return true, ignoreGone(w.dir.remove(s.name))
	}
	f, err := w.dir.open(s.name, unix.O_RDWR)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist), ignoreGone(err)
	}
	defer f.Close()
	if err := tryLock(f, unix.LOCK_EX); errors.Is(err, errLocked) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if !w.dir.same(s.name, f) {
		return false, nil
	}
	lost := map[record.Reason]int64{}
	file := newFile(w.dir, s.name)
	known, err := file.fates()
	if sysexits.Of(err) == sysexits.Config {
		return false, err // a newer release's: not ours to judge
	}
	if err == nil {
		err = file.scan(f, func(l *Letter) error {
			if !known.status(file.kind, place{l.Line, l.ID()}, false).final() {
				lost[l.Reason()]++
			}
			return nil
		}, func(*Damage) {})
	}
	if err != nil {
		w.cfg.Log.Warn("records of a spool file that is removed cannot be counted", "file", file.Path, "err", err)
	}
	if err := w.dir.remove(s.name); err != nil {
		return false, ignoreGone(err)
	}
	w.mourn(file.Path, lost, old)
	return true, ignoreGone(w.dir.remove(journalOf(s.name)))
}

// mourn counts what was removed before it was replayed, and says so. The entry
// of a truncated copy is in Loki, all but its end, so that is no alarm.
func (w *Writer) mourn(path string, lost map[record.Reason]int64, old bool) {
	why := "no room"
	if old {
		why = "age"
	}
	var records, loud int64
	for reason, n := range lost {
		w.stats.PrunedUnreplayed[string(reason)] += n
		records += n
		if reason != record.TruncatedCopy {
			loud += n
		}
	}
	if loud > 0 {
		w.cfg.Log.Warn("dead letters were removed that nobody had replayed",
			"file", path, "records", records, "why", why, "reasons", slices.Sorted(maps.Keys(lost)))
		return
	}
	w.cfg.Log.Info("spool file removed", "file", path, "records", records, "why", why)
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// survey remembers what waits in each file, so that only those that changed are
// read again.
type survey struct {
	mu   sync.Mutex
	seen map[string]surveyed
}

type surveyed struct {
	at      [4]int64 // sizes and times of change of file and journal
	pending int64
	oldest  int64 // capture time; 0 for none
}

// lookAround prunes by age and counts what waits for a replay.
func (w *Writer) lookAround() {
	w.mu.Lock()
	var open int64
	if w.cur != nil {
		open = max(0, w.cfg.FileBytes-w.cur.size)
	}
	err := w.prune(open)
	w.mu.Unlock()
	if err != nil {
		w.cfg.Log.Warn("spool could not be pruned", "dir", w.dir.path, "err", err)
	}
	pending, oldest, err := w.survey.take(w.dir, w.stopping)
	if errors.Is(err, errStopping) {
		return
	}
	if err != nil {
		w.cfg.Log.Warn("spool could not be counted", "dir", w.dir.path, "err", err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.Pending, w.stats.OldestPending = pending, time.Time{}
	if oldest != 0 {
		w.stats.OldestPending = time.Unix(0, oldest).UTC()
	}
}

// errStopping ends a look around that nobody waits for any more.
var errStopping = errors.New("stopping")

func (w *Writer) stopping() error {
	select {
	case <-w.stop:
		return errStopping
	default:
		return nil
	}
}

func (s *survey) take(d *dir, goOn func() error) (pending, oldest int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names, err := d.names()
	if err != nil {
		return 0, 0, err
	}
	seen := map[string]surveyed{}
	for _, name := range names {
		_, k := splitName(name)
		if !spoolFile(name) || k.replayed || strings.HasSuffix(name, journalSuffix) {
			continue
		}
		got, ok := s.seen[name]
		if at := fingerprint(d, name); !ok || got.at != at {
			if got, err = surveyFile(newFile(d, name), goOn); err != nil {
				return 0, 0, err
			}
			got.at = at
		}
		seen[name] = got
		pending += got.pending
		if got.oldest != 0 && (oldest == 0 || got.oldest < oldest) {
			oldest = got.oldest
		}
	}
	s.seen = seen
	return pending, oldest, nil
}

func fingerprint(d *dir, name string) (at [4]int64) {
	for i, name := range []string{name, journalOf(name)} {
		if info, err := d.stat(name); err == nil {
			at[2*i], at[2*i+1] = info.Size, info.Mtim.Nano()
		}
	}
	return at
}

// surveyFile counts what waits. Truncated copies do not: their entries are in
// Loki, and they are replayed only when asked for.
func surveyFile(f *File, goOn func() error) (surveyed, error) {
	var got surveyed
	_, err := f.Read(func(l *Letter, s Status) error {
		if s.final() || l.Reason() == record.TruncatedCopy {
			return goOn()
		}
		got.pending++
		if at, ok := l.Captured(); ok && (got.oldest == 0 || at < got.oldest) {
			got.oldest = at
		}
		return goOn()
	}, func(*Damage) {})
	return got, err
}
