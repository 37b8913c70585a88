package spool

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"sf2loki/pkg/sysexits"
)

// Set is the files that a command works on: those of spool directories, and
// others by name.
type Set struct {
	Files []*File
	dirs  []*dir
	seen  map[fileKey]bool
}

// fileKey is a file or a group, whatever path led to it.
type fileKey struct {
	dir  [2]uint64
	name string
}

// File is one data file: captured records, or a .failed or .replayed one.
type File struct {
	Path string // as a user names it
	dir  *dir
	name string
	base string
	kind kind

	// Through, if it is set, makes what Read reads instead of the file itself and
	// of its journal, for each of them.
	Through func(path string, r io.Reader) io.Reader
}

// Find lists the data files of spool directories, and the files named. Files of
// one instance and day stand in the order in which they were written.
func Find(dirs, paths []string, log *slog.Logger) (*Set, error) {
	set := &Set{seen: map[fileKey]bool{}}
	for _, path := range dirs {
		if err := set.addDir(path, log); err != nil {
			set.Close()
			return nil, err
		}
	}
	for _, path := range paths {
		if err := set.addFile(path); err != nil {
			set.Close()
			return nil, err
		}
	}
	return set, nil
}

func (s *Set) addDir(path string, log *slog.Logger) error {
	d, err := openDir(path, false, log)
	if errors.Is(err, fs.ErrNotExist) {
		return sysexits.Errorf(sysexits.Config, "the spool directory %q does not exist", path)
	}
	if err != nil {
		return err
	}
	s.dirs = append(s.dirs, d)
	names, err := d.names()
	if err != nil {
		return sysexits.Wrap(sysexits.IOErr, err)
	}
	first := len(s.Files)
	for _, name := range names {
		if spoolFile(name) && !strings.HasSuffix(name, journalSuffix) {
			s.add(newFile(d, name))
		}
	}
	slices.SortFunc(s.Files[first:], byAge)
	return nil
}

func (s *Set) addFile(path string) error {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return sysexits.Errorf(sysexits.Usage, "%s: no such file", path)
	}
	if err != nil {
		return openError(path, err)
	}
	if info, err := os.Stat(real); err == nil && info.IsDir() {
		return sysexits.Errorf(sysexits.Usage, "%s: a directory: name it with --spool", path)
	}
	if strings.HasSuffix(real, journalSuffix) {
		return sysexits.Errorf(sysexits.Usage, "%s: a journal: name the file beside it", path)
	}
	f, err := os.Open(filepath.Dir(real))
	if err != nil {
		return openError(path, err)
	}
	d := &dir{f: f, path: filepath.Dir(real)}
	s.dirs = append(s.dirs, d)
	file := newFile(d, filepath.Base(real))
	file.Path = path
	s.add(file)
	return nil
}

// add adds a file, once.
func (s *Set) add(f *File) {
	key := fileKey{f.dir.id(), f.name}
	if !s.seen[key] {
		s.seen[key] = true
		s.Files = append(s.Files, f)
	}
}

// Close closes the directories.
func (s *Set) Close() {
	for _, d := range s.dirs {
		d.close()
	}
}

func newFile(d *dir, name string) *File {
	base, k := splitName(name)
	return &File{Path: d.join(name), dir: d, name: name, base: base, kind: k}
}

// byAge orders files by day, then instance, then number; the captured before
// the failed.
func byAge(a, b *File) int {
	aInstance, aDay, aNumber := stemParts(strings.TrimSuffix(a.base, dataSuffix))
	bInstance, bDay, bNumber := stemParts(strings.TrimSuffix(b.base, dataSuffix))
	return cmp.Or(
		strings.Compare(aDay, bDay),
		strings.Compare(aInstance, bInstance),
		cmp.Compare(aNumber, bNumber),
		strings.Compare(a.name, b.name))
}

// Failed tells a file of records that a replay brought back refused.
func (f *File) Failed() bool { return f.kind.failed }

// Replayed tells a file of which nothing is left to do.
func (f *File) Replayed() bool { return f.kind.replayed }

// State tells files apart that changed, with their journals, from those that
// did not: a text that is the same as long as the file is.
func (f *File) State() string {
	at := fingerprint(f.dir, f.name)
	return fmt.Sprintf("%d-%x-%d-%x-%t", at[0], at[1], at[2], at[3], f.kind.replayed)
}

// Info is what there is to say of a file besides its records.
type Info struct {
	Size  int64
	InUse bool // a writer or a replay holds it
	Gone  bool // removed since it was listed

	Unreadable bool // as the error says
}

// Read calls fn for each record of the file with its status, and damaged for
// each place that holds none. Records that have moved to the .failed file come
// with status Moved. Lines that only move a checkpoint are passed over. A file
// that is still being written is read as far as it is. A file that cannot be
// opened is a *Damage as the error.
func (f *File) Read(fn func(l *Letter, s Status) error, damaged func(*Damage)) (Info, error) {
	data, err := f.open()
	if errors.Is(err, fs.ErrNotExist) {
		return Info{Gone: true}, nil
	}
	if err != nil {
		return Info{Unreadable: true}, unreadable(f.Path, sysexits.Wrap(openCode(err), err))
	}
	defer data.Close()
	var info Info
	if stat, err := data.Stat(); err == nil {
		info.Size = stat.Size()
	}
	if info.InUse, err = inUse(data); err != nil {
		return info, err
	}
	known, err := f.fates()
	if err != nil {
		info.Unreadable = true
		return info, unreadable(f.Path, err)
	}
	return info, f.scan(f.through(f.Path, data), func(l *Letter) error {
		at := place{l.Line, l.ID()}
		l.FateAt = known.of[at].at
		return fn(l, known.status(f.kind, at, info.InUse))
	}, func(d *Damage) {
		if !d.Torn || !info.InUse {
			damaged(d)
		}
	})
}

// open opens the data file for reading; one that has been renamed since it was listed is
// found under its new name.
func (f *File) open() (*os.File, error) {
	data, err := f.dir.open(f.name, unix.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) && !f.kind.replayed {
		if data, err2 := f.dir.open(f.name+replayedSuffix, unix.O_RDONLY); err2 == nil {
			f.name += replayedSuffix
			f.kind.replayed = true
			return data, nil
		}
	}
	return data, err
}

func (f *File) fates() (*fates, error) {
	name := journalOf(f.name)
	j, err := f.dir.open(name, unix.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return newFates(), nil
	}
	if err != nil {
		return nil, sysexits.Wrap(openCode(err), err)
	}
	defer j.Close()
	path := f.dir.join(name)
	return readJournal(f.through(path, j), path)
}

func (f *File) through(path string, r io.Reader) io.Reader {
	if f.Through == nil {
		return r
	}
	return f.Through(path, r)
}

// scan reads the records of an open data file.
func (f *File) scan(data io.Reader, fn func(*Letter) error, damaged func(*Damage)) error {
	s := NewReader(data, f.Path)
	var l Letter
	var d *Damage
	for {
		err := s.Next(&l)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &d):
			damaged(d)
			continue
		case err != nil:
			return err
		}
		if l.carriesNothing() {
			continue
		}
		if err := fn(&l); err != nil {
			return fmt.Errorf("%s: line %d: %w", f.Path, l.Line, err)
		}
	}
}
