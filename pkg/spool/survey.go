package spool

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"sf2loki/pkg/record"
)

// Stock is what lies in spool directories and waits for a replay. Truncated
// copies do not wait: their entries are in Loki, and they are replayed only
// when asked for.
type Stock struct {
	Files, Bytes  int64 // journals included
	Pending       int64
	OldestPending time.Time // capture of the oldest; zero when nothing waits
	OldestEvent   time.Time // time of the oldest entry that waits
}

// Survey looks at spool directories as they are on the disk. It remembers what
// it saw, so that the next look reads only the files that changed since.
type Survey struct {
	dirs []string
	log  *slog.Logger
	seen map[string]*survey
}

// NewSurvey returns a Survey of the directories.
func NewSurvey(dirs []string, log *slog.Logger) *Survey {
	return &Survey{dirs: dirs, log: log, seen: map[string]*survey{}}
}

// Take looks once. It is not safe for concurrent use.
func (s *Survey) Take() (Stock, error) {
	var total waiting
	var stock Stock
	for _, path := range s.dirs {
		d, err := openDir(path, false, s.log)
		if err != nil {
			return Stock{}, err
		}
		if s.seen[path] == nil {
			s.seen[path] = newSurvey(s.log)
		}
		found, err := s.seen[path].take(d, func() error { return nil })
		if err == nil {
			var files []stored
			files, err = d.stored()
			stock.Files += int64(len(files))
			stock.Bytes += totalSize(files)
		}
		d.close()
		if err != nil {
			return Stock{}, err
		}
		total.add(found)
	}
	stock.Pending = total.pending
	stock.OldestPending, stock.OldestEvent = instantOf(total.captured), instantOf(total.event)
	return stock, nil
}

func instantOf(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// waiting counts records; the times are of the oldest, 0 for none.
type waiting struct {
	pending         int64
	captured, event int64
}

func (w *waiting) add(other waiting) {
	w.pending += other.pending
	w.captured = older(w.captured, other.captured)
	w.event = older(w.event, other.event)
}

func older(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// survey remembers what waits in each file of a directory.
type survey struct {
	log  *slog.Logger
	mu   sync.Mutex
	seen map[string]surveyed
}

type surveyed struct {
	at [4]int64 // sizes and times of change of file and journal
	waiting
}

func newSurvey(log *slog.Logger) *survey { return &survey{log: log, seen: map[string]surveyed{}} }

// take reads the files that changed. One that cannot be read is named each time,
// and hides nothing of the others. goOn may end it with an error.
func (s *survey) take(d *dir, goOn func() error) (total waiting, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names, err := d.names()
	if err != nil {
		return total, err
	}
	seen := map[string]surveyed{}
	for _, name := range names {
		_, k := splitName(name)
		if !spoolFile(name) || k.replayed || strings.HasSuffix(name, journalSuffix) {
			continue
		}
		got, ok := s.seen[name]
		if at := fingerprint(d, name); !ok || got.at != at {
			var unread *Damage
			if got.waiting, err = surveyFile(newFile(d, name), goOn); errors.As(err, &unread) {
				unread.Say(s.log)
				continue
			} else if err != nil {
				return waiting{}, err
			}
			got.at = at
		}
		seen[name] = got
		total.add(got.waiting)
	}
	s.seen = seen
	return total, nil
}

func fingerprint(d *dir, name string) (at [4]int64) {
	for i, name := range []string{name, journalOf(name)} {
		if info, err := d.stat(name); err == nil {
			at[2*i], at[2*i+1] = info.Size, info.Mtim.Nano()
		}
	}
	return at
}

func surveyFile(f *File, goOn func() error) (waiting, error) {
	var got waiting
	_, err := f.Read(func(l *Letter, s Status) error {
		if s.final() || l.Reason() == record.TruncatedCopy {
			return goOn()
		}
		one := waiting{pending: 1}
		one.captured, _ = l.Captured()
		if l.HasLine() {
			one.event, _ = l.Time()
		}
		got.add(one)
		return goOn()
	}, func(*Damage) {})
	return got, err
}
