package spool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// ErrInUse says that a writer or another replay has a group in hand.
var ErrInUse = errLocked

// Claim is a group of files in the hands of this process: nobody else writes,
// replays or prunes them until it is released.
type Claim struct {
	dir   *dir
	base  string
	path  string // of base, as a user names it
	files []*claimed
	run   string
	now   func() time.Time
	log   *slog.Logger
}

// claimed is one data file of a claim.
type claimed struct {
	file    *File
	wanted  bool // the user asked for this one
	data    *os.File
	known   *fates
	journal *journal // nil until there is something to note
	size    int64    // as far as this process knows it
	records int64
	left    int64 // records that still have something coming
	damaged bool  // a place that nobody can read
	grown   bool  // records were appended that may not be on the disk yet
	taken   bool  // this run takes on some of its records
}

// Item is a record of a claim, as much of it as is kept in memory.
type Item struct {
	file   *claimed
	line   int64
	offset int64
	size   int64
	id     ID
	done   bool  // it had come to its end before
	copied int64 // where in the .failed file a copy of it ends

	Time     int64 // of the entry; 0 when it has none
	Captured int64
}

// Groups puts the files of a set together that must be claimed together.
func (s *Set) Groups() [][]*File {
	var groups [][]*File
	at := map[fileKey]int{}
	for _, f := range s.Files {
		k := fileKey{f.dir.id(), f.base}
		i, ok := at[k]
		if !ok {
			i = len(groups)
			at[k] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], f)
	}
	return groups
}

// TakeGroup claims a group: ErrInUse when somebody has it, *Damage when a file
// of it cannot be read. What a killed run left half done is put right first. A
// journal of a newer release is an error, and nothing has been touched.
func TakeGroup(files []*File, run string, now func() time.Time, log *slog.Logger) (*Claim, error) {
	first := files[0]
	c := &Claim{dir: first.dir, base: first.base, run: run, now: now, log: log}
	c.path, _ = splitName(first.Path)
	for _, name := range []string{
		c.base, c.base + replayedSuffix,
		c.base + failedSuffix, c.base + failedSuffix + replayedSuffix,
	} {
		if err := c.take(name, files); err != nil {
			c.Release()
			return nil, err
		}
	}
	for _, f := range c.files {
		if err := f.readJournal(c); err != nil {
			c.Release()
			return nil, err
		}
	}
	if err := c.recover(); err != nil {
		c.Release()
		return nil, err
	}
	return c, nil
}

// take opens and locks one data file, if it is there.
func (c *Claim) take(name string, asked []*File) error {
	f, err := c.dir.open(name, unix.O_RDWR|unix.O_APPEND)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return unreadable(c.dir.join(name), sysexits.Wrap(openCode(err), err))
	}
	if err := lock(f); err != nil {
		f.Close()
		return err
	}
	if !c.dir.same(name, f) { // renamed or removed while we waited
		f.Close()
		return ErrInUse
	}
	if c.dir.same(name+replayedSuffix, f) {
		// A rename by link and unlink that was cut in the middle.
		defer f.Close()
		return c.dir.remove(name)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return sysexits.Wrap(sysexits.IOErr, err)
	}
	got := &claimed{file: newFile(c.dir, name), data: f, size: info.Size()}
	for _, a := range asked {
		if a.name == name || a.name+replayedSuffix == name {
			got.wanted = true
			got.file.Path = a.Path + name[len(a.name):]
		}
	}
	c.files = append(c.files, got)
	return nil
}

func (f *claimed) readJournal(c *Claim) error {
	known, err := f.file.fates()
	if err != nil {
		return unreadable(f.file.Path, err)
	}
	f.known = known
	if known.bad > 0 {
		c.log.Warn("lines of a journal are no entries: they are ignored", "file", f.file.Path, "lines", known.bad)
	}
	return nil
}

// Path names the group.
func (c *Claim) Path() string { return c.path }

// InUse reports whether a group is in somebody's hands, without claiming it.
func InUse(files []*File) (bool, error) {
	for _, f := range files {
		data, err := f.open()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, sysexits.Wrap(openCode(err), err)
		}
		used, err := inUse(data)
		data.Close()
		if used || err != nil {
			return used, err
		}
	}
	return false, nil
}

// failedFile is the file that takes what is refused again, nil while there is
// none.
func (c *Claim) failedFile() *claimed {
	for _, f := range c.files {
		if f.file.kind.failed {
			return f
		}
	}
	return nil
}

// each reads the records of a claimed file. Nobody is alive who could have one
// in hand, so what was claimed is what it was before.
func (f *claimed) each(fn func(*Letter, Status) error, damaged func(*Damage)) error {
	return f.file.scan(io.NewSectionReader(f.data, 0, f.size), func(l *Letter) error {
		return fn(l, f.known.status(f.file.kind, place{l.Line, l.ID()}, false))
	}, damaged)
}

// Index reads the files that were asked for. take decides which of the records
// this run takes on; the others are left as they are.
func (c *Claim) Index(take func(l *Letter, s Status) bool, damaged func(*Damage)) ([]Item, error) {
	var items []Item
	for _, f := range c.files {
		f.records, f.left = 0, 0
		err := f.each(func(l *Letter, s Status) error {
			f.records++
			if !s.final() {
				f.left++
			}
			if f.wanted && take(l, s) {
				f.taken = true
				item := Item{file: f, line: l.Line, offset: l.Offset, size: int64(len(l.Raw)), id: l.ID(), done: s.final()}
				item.Time, _ = l.Time()
				item.Captured, _ = l.Captured()
				items = append(items, item)
			}
			return nil
		}, func(d *Damage) {
			f.damaged = f.damaged || !d.Torn
			if f.wanted && !f.file.kind.replayed {
				damaged(d)
			}
		})
		if err != nil {
			return nil, err
		}
		f.known = &fates{size: f.known.size} // the rest may be large, and has been asked all
	}
	return items, nil
}

// Letter reads the item's record again.
func (it *Item) Letter(l *Letter) error {
	raw := make([]byte, it.size)
	if _, err := it.file.data.ReadAt(raw, it.offset); err != nil {
		return sysexits.Wrap(sysexits.IOErr, fmt.Errorf("read %s: %w", it.file.file.Path, err))
	}
	if _, err := l.parse(raw); err != nil {
		return sysexits.Errorf(sysexits.IOErr, "%s: line %d: changed while it was being replayed", it.file.file.Path, it.line)
	}
	l.Line, l.Offset = it.line, it.offset
	return nil
}

// Size is the length of the record in bytes.
func (it *Item) Size() int64 { return it.size }

// ID is the record's.
func (it *Item) ID() ID { return it.id }

// FailedPath names the file that takes what is refused again.
func (c *Claim) FailedPath() string { return c.path + failedSuffix }

// Base is the name of the group: that of its capture file.
func (c *Claim) Base() string { return c.base }

// MarkPending enters for others to see that the items are in hand.
func (c *Claim) MarkPending(items []Item) error {
	byFile := map[*claimed][]byte{}
	for i := range items {
		it := &items[i]
		e := c.entry(it, Pending)
		byFile[it.file] = e.append(byFile[it.file])
	}
	for f, entries := range byFile {
		if err := f.openJournal(c); err != nil {
			return err
		}
		if err := f.journal.claim(entries); err != nil {
			return err
		}
	}
	return nil
}

func (c *Claim) entry(it *Item, fate Status) entry {
	return entry{line: it.line, id: it.id, fate: fate, at: c.now(), run: c.run}
}

// Replayed notes that the item was delivered.
func (c *Claim) Replayed(it *Item) error {
	e := c.entry(it, Replayed)
	e.end = it.copied
	return c.settle(it, &e)
}

// Fail moves the item to the .failed file, with the refusal added to its
// history.
func (c *Claim) Fail(it *Item, refusal *record.Letter) error {
	end, err := c.appendFailed(it, refusal)
	if err != nil {
		return err
	}
	e := c.entry(it, Failed)
	e.end = end
	return c.settle(it, &e)
}

func (c *Claim) settle(it *Item, e *entry) error {
	if !it.done {
		it.done = true
		it.file.left--
	}
	return it.file.note(c, e)
}

// KeepCopy keeps a copy of the item, uncut, beside what was delivered of it.
func (c *Claim) KeepCopy(it *Item, refusal *record.Letter) error {
	var err error
	it.copied, err = c.appendFailed(it, refusal)
	return err
}

func (c *Claim) appendFailed(it *Item, refusal *record.Letter) (end int64, err error) {
	var l Letter
	if err := it.Letter(&l); err != nil {
		return 0, err
	}
	return c.appendLine(record.AppendLetter(nil, l.Record(), refusal))
}

// KeepStray keeps a dead letter that belongs to none of the items.
func (c *Claim) KeepStray(raw []byte) error {
	_, err := c.appendLine(append(appendCompact(nil, raw), '\n'))
	return err
}

func (c *Claim) appendLine(line []byte) (end int64, err error) {
	failed := c.failedFile()
	switch {
	case failed == nil:
		failed, err = c.createFailed()
	case failed.file.kind.replayed:
		err = c.reopen(failed)
	}
	if err != nil {
		return 0, err
	}
	if _, err := failed.data.Write(line); err != nil {
		if terr := failed.data.Truncate(failed.size); terr != nil {
			c.log.Warn("file may end inside a record", "file", failed.file.Path, "err", terr)
		}
		return 0, sysexits.Wrap(sysexits.IOErr, err)
	}
	failed.size += int64(len(line))
	failed.records++
	failed.left++
	failed.grown = true
	return failed.size, nil
}

func (c *Claim) createFailed() (*claimed, error) {
	name := c.base + failedSuffix
	// The journal of an earlier .failed file, pruned since, says nothing about
	// this one.
	if err := ignoreGone(c.dir.remove(journalOf(name))); err != nil {
		return nil, sysexits.Wrap(sysexits.IOErr, err)
	}
	data, err := c.dir.open(name, unix.O_RDWR|unix.O_APPEND|unix.O_CREAT|unix.O_EXCL)
	if err == nil {
		c.giveAway(data)
		err = lock(data)
	}
	if err == nil {
		err = c.dir.sync()
	}
	if err != nil {
		return nil, sysexits.Wrap(sysexits.CantCreat, fmt.Errorf("make %s: %w", c.dir.join(name), err))
	}
	f := &claimed{file: newFile(c.dir, name), data: data, known: newFates()}
	f.file.Path = c.path + failedSuffix
	c.files = append(c.files, f)
	return f, nil
}

// giveAway gives a new file to the owner of the group, when root replays what
// belongs to a service: that must be able to go on with it.
func (c *Claim) giveAway(f *os.File) {
	var like unix.Stat_t
	if os.Geteuid() != 0 || len(c.files) == 0 || unix.Fstat(int(c.files[0].data.Fd()), &like) != nil {
		return
	}
	if err := f.Chown(int(like.Uid), int(like.Gid)); err != nil {
		c.log.Warn("file belongs to root now", "err", err)
	}
}

// reopen takes back the name that said that nothing was left to do.
func (c *Claim) reopen(f *claimed) error {
	name, _ := strings.CutSuffix(f.file.name, replayedSuffix)
	if err := c.dir.rename(f.file.name, name); err != nil {
		return sysexits.Wrap(sysexits.IOErr, err)
	}
	f.file.name, f.file.kind.replayed = name, false
	f.file.Path, _ = strings.CutSuffix(f.file.Path, replayedSuffix)
	return c.dir.sync()
}

func (f *claimed) note(c *Claim, e *entry) error {
	if err := f.openJournal(c); err != nil {
		return err
	}
	if e.run == "" {
		e.at, e.run = c.now(), c.run
	}
	f.journal.note(*e)
	return nil
}

// openJournal opens the journal, and cuts off a torn line that a killed run left.
func (f *claimed) openJournal(c *Claim) error {
	if f.journal != nil {
		return nil
	}
	name := journalOf(f.file.name)
	existed := c.dir.exists(name)
	j, err := c.dir.open(name, unix.O_RDWR|unix.O_APPEND|unix.O_CREAT)
	if err == nil && existed {
		err = j.Truncate(f.known.size)
	} else if err == nil {
		c.giveAway(j)
		err = c.dir.sync()
	}
	if err != nil {
		return sysexits.Wrap(sysexits.CantCreat, fmt.Errorf("open journal of %s: %w", f.file.Path, err))
	}
	f.journal = &journal{f: j}
	return nil
}

// Commit makes everything noted durable: first the records that moved, then the
// entries that say so. Only then does any of it count.
func (c *Claim) Commit() error {
	if failed := c.failedFile(); failed != nil && failed.grown {
		if err := failed.data.Sync(); err != nil {
			return sysexits.Wrap(sysexits.IOErr, err)
		}
		failed.grown = false
	}
	for _, f := range c.files {
		if f.journal == nil {
			continue
		}
		if err := f.journal.commit(); err != nil {
			return err
		}
	}
	return nil
}

// Finish gives the files of which nothing is left to do their new name, or
// removes them with their journals.
func (c *Claim) Finish(remove bool) error {
	for _, f := range c.files {
		if !f.wanted || !f.whole() {
			continue
		}
		if err := c.finish(f, remove); err != nil {
			return sysexits.Wrap(sysexits.IOErr, err)
		}
	}
	return nil
}

// whole reports whether every record of the file has come to its end.
func (f *claimed) whole() bool {
	info, err := f.data.Stat()
	return err == nil && info.Size() == f.size && f.records > 0 && f.left <= 0 && !f.damaged
}

func (c *Claim) finish(f *claimed, remove bool) error {
	switch {
	case !c.dir.same(f.file.name, f.data):
		return nil // moved away by hand
	case f.file.kind.replayed && !f.taken:
		return nil // of an earlier run
	case remove:
		if err := c.dir.remove(f.file.name); err != nil {
			return err
		}
		if err := c.dir.sync(); err != nil {
			return err
		}
		return ignoreGone(c.dir.remove(journalOf(f.file.name)))
	case f.file.kind.replayed:
		return nil
	}
	err := c.dir.rename(f.file.name, f.file.name+replayedSuffix)
	if errors.Is(err, fs.ErrExist) {
		c.log.Info("file keeps its name: the new one is taken", "file", f.file.Path)
		return nil
	}
	if err != nil {
		return err
	}
	f.file.name += replayedSuffix
	f.file.kind.replayed = true
	return c.dir.sync()
}

// Release gives the group back.
func (c *Claim) Release() {
	for _, f := range c.files {
		if f.journal != nil {
			f.journal.f.Close()
		}
		f.data.Close()
	}
}
