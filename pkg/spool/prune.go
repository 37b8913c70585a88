package spool

import (
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
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
	slices.SortFunc(files, leastWorth)
	total := totalSize(files)
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
	w.stats.Stock.Files, w.stats.Stock.Bytes = kept, total
	return errors.Join(failures...)
}

func totalSize(files []stored) (total int64) {
	for _, s := range files {
		total += s.size
	}
	return total
}

// leastWorth has what was replayed first, then the oldest.
func leastWorth(a, b stored) int {
	return cmp.Or(-cmpBool(a.replayed || a.orphan, b.replayed || b.orphan),
		a.changed.Compare(b.changed), strings.Compare(a.name, b.name))
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
	got, err := w.dir.removeStored(s, w.cfg.Log)
	if got.counted {
		w.mourn(w.dir.join(s.name), got.lost, old)
	}
	return got.gone, err
}

// removal is what became of a file that was to be removed.
type removal struct {
	gone    bool
	counted bool // it was there, and its records were counted
	records int64
	lost    map[record.Reason]int64 // records that had something left to do
	kinds   []Removed
}

func (d *dir) removeStored(s stored, log *slog.Logger) (removal, error) {
	if s.orphan {
		return removal{gone: true}, ignoreGone(d.remove(s.name))
	}
	f, err := d.open(s.name, unix.O_RDWR)
	if err != nil {
		return removal{gone: errors.Is(err, fs.ErrNotExist)}, ignoreGone(err)
	}
	defer f.Close()
	if err := tryLock(f, unix.LOCK_EX); errors.Is(err, errLocked) {
		return removal{}, nil
	} else if err != nil {
		return removal{}, err
	}
	if !d.same(s.name, f) {
		return removal{}, nil
	}
	got, err := d.countLost(s, f)
	if sysexits.Of(err) == sysexits.Config {
		return removal{}, err // a newer release's: not ours to judge
	}
	if err != nil {
		log.Warn("records of a spool file that is removed cannot be counted", "file", d.join(s.name), "err", err)
	}
	if err := d.remove(s.name); err != nil {
		return removal{}, ignoreGone(err)
	}
	got.gone, got.counted = true, true
	return got, ignoreGone(d.remove(journalOf(s.name)))
}

// countLost counts the records of a file that nobody has in hand, and those of
// them that have something left to do.
func (d *dir) countLost(s stored, f *os.File) (removal, error) {
	got := removal{lost: map[record.Reason]int64{}}
	var kinds Kinds
	file := newFile(d, s.name)
	known, err := file.fates()
	if err != nil {
		return got, err
	}
	return got, file.scan(f, func(l *Letter) error {
		got.records++
		status := known.status(file.kind, place{l.Line, l.ID()}, false)
		if status == Moved {
			return nil
		}
		n, kind, isNew := kinds.Number(l.Kind())
		if isNew {
			got.kinds = append(got.kinds, Removed{Kind: kind})
		}
		got.kinds[n].Records++
		if !status.final() {
			got.lost[l.Reason()]++
			if l.Reason() != record.TruncatedCopy {
				got.kinds[n].Lost++
			}
		}
		return nil
	}, func(*Damage) {})
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
	if err := w.countWaiting(w.stopping); err != nil && !errors.Is(err, errStopping) {
		w.cfg.Log.Warn("spool could not be counted", "dir", w.dir.path, "err", err)
	}
}

// countWaiting notes what waits in the directory.
func (w *Writer) countWaiting(goOn func() error) error {
	found, err := w.survey.take(w.dir, goOn)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.Stock = found
	return nil
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
