package spool

import (
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// Sweep says which files of a directory Prune removes: those of which nothing
// is left to do, and with Unreplayed the others, too.
type Sweep struct {
	OlderThan  time.Duration // last written longer ago; 0 for any
	Bytes      int64         // only until no more than this is left; 0 without such an end
	Unreplayed bool
	DryRun     bool
	Now        func() time.Time
	Log        *slog.Logger
}

// Swept is a file that was removed, or would be.
type Swept struct {
	File    string                  `json:"file"`
	Bytes   int64                   `json:"bytes"`
	Records int64                   `json:"records"`
	Lost    map[record.Reason]int64 `json:"unreplayed"` // by reason; truncated copies among them
	Kinds   []Removed               `json:"-"`
}

// Removed counts the records of one kind, without those that have moved to the
// .failed file.
type Removed struct {
	Kind
	Records int64
	Lost    int64 // of these; the entries of truncated copies are in Loki
}

// Waiting is how many records nobody had replayed.
func (s *Swept) Waiting() (n int64) {
	for _, lost := range s.Lost {
		n += lost
	}
	return n
}

// Prune removes files of a spool directory, the least worth first, and tells fn
// of each. Files that somebody has in hand stay; inUse is how many of those
// would have gone.
func Prune(path string, s Sweep, fn func(Swept) error) (inUse int, err error) {
	d, err := openDir(path, false, s.Log)
	if err != nil {
		return 0, err
	}
	defer d.close()
	files, err := d.stored()
	if err != nil {
		return 0, sysexits.Wrap(sysexits.IOErr, err)
	}
	slices.SortFunc(files, leastWorth)
	left := totalSize(files)
	for _, f := range files {
		switch {
		case s.Bytes > 0 && left <= s.Bytes:
			return inUse, nil
		case !f.replayed && !f.orphan && !s.Unreplayed:
			continue
		case s.OlderThan > 0 && s.Now().Sub(f.changed) <= s.OlderThan:
			continue
		}
		got, err := d.sweep(f, s)
		if err != nil {
			return inUse, sysexits.Wrap(sysexits.IOErr, err)
		}
		if !got.gone {
			inUse++
			continue
		}
		left -= f.size
		if err := fn(Swept{File: d.join(f.name), Bytes: f.size, Records: got.records, Lost: got.lost, Kinds: got.kinds}); err != nil {
			return inUse, err
		}
	}
	return inUse, nil
}

// sweep removes one file, or finds out what would be lost.
func (d *dir) sweep(f stored, s Sweep) (removal, error) {
	if !s.DryRun {
		return d.removeStored(f, s.Log)
	}
	if f.orphan {
		return removal{gone: true}, nil
	}
	data, err := d.open(f.name, unix.O_RDONLY)
	if err != nil {
		return removal{}, ignoreGone(err)
	}
	defer data.Close()
	if used, err := inUse(data); used || err != nil {
		return removal{}, err
	}
	got, err := d.countLost(f, data)
	got.gone = true
	return got, err
}
