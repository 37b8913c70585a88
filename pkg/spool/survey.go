package spool

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"sf2loki/pkg/record"
)

// Stock is what lies in spool directories, and what of it waits for a replay. Truncated
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
	var total Stock
	for _, path := range s.dirs {
		d, err := openDir(path, false, s.log)
		if err != nil {
			return Stock{}, err
		}
		if s.seen[path] == nil {
			s.seen[path] = newSurvey(s.log)
		}
		found, err := s.seen[path].take(d, func() error { return nil })
		d.close()
		if err != nil {
			return Stock{}, err
		}
		total.add(found)
	}
	return total, nil
}

func (s *Stock) add(other Stock) {
	s.Files += other.Files
	s.Bytes += other.Bytes
	s.Pending += other.Pending
	s.OldestPending = older(s.OldestPending, other.OldestPending)
	s.OldestEvent = older(s.OldestEvent, other.OldestEvent)
}

// older is the older of two times; the zero one is none.
func older(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
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
	at      [4]int64 // sizes and times of change of file and journal
	waiting Stock    // without the files
}

func newSurvey(log *slog.Logger) *survey { return &survey{log: log, seen: map[string]surveyed{}} }

// take looks at the directory, and reads the files that changed. One that cannot be read is named each time,
// and hides nothing of the others. goOn may end it with an error.
func (s *survey) take(d *dir, goOn func() error) (total Stock, err error) {
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
				return Stock{}, err
			}
			got.at = at
		}
		seen[name] = got
		total.add(got.waiting)
	}
	s.seen = seen
	files, err := d.stored()
	total.Files, total.Bytes = int64(len(files)), totalSize(files)
	return total, err
}

func fingerprint(d *dir, name string) (at [4]int64) {
	for i, name := range []string{name, journalOf(name)} {
		if info, err := d.stat(name); err == nil {
			at[2*i], at[2*i+1] = info.Size, info.Mtim.Nano()
		}
	}
	return at
}

func surveyFile(f *File, goOn func() error) (Stock, error) {
	var got Stock
	_, err := f.Read(func(l *Letter, s Status) error {
		if s.final() || l.Reason() == record.TruncatedCopy {
			return goOn()
		}
		one := Stock{Pending: 1}
		if at, ok := l.Captured(); ok {
			one.OldestPending = time.Unix(0, at).UTC()
		}
		if at, ok := l.Time(); ok && l.HasLine() {
			one.OldestEvent = time.Unix(0, at).UTC()
		}
		got.add(one)
		return goOn()
	}, func(*Damage) {})
	return got, err
}
