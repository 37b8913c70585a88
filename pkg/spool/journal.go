package spool

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// Status is what became of a record.
type Status string

// The statuses. A record is pending while a replay that is alive has it in
// hand; when the replay dies it is what it was before.
const (
	New       Status = "new"
	Pending   Status = "pending"
	Replayed  Status = "replayed"
	Failed    Status = "failed"
	Discarded Status = "discarded"

	// Moved is a record that failed and goes on, with the history of its
	// refusals, in the group's .failed file, where it is counted.
	Moved Status = "moved"
)

// Statuses are those that can be asked for.
var Statuses = []Status{New, Pending, Replayed, Failed, Discarded}

// journalVersion is the version of the entries that this release writes, and
// the newest that it reads.
const journalVersion = 1

// entry is one line of a journal: the fate of the record that begins on Line,
// if that is the record of that ID. Fate failed says that it moved.
type entry struct {
	line int64
	id   ID
	fate Status
	at   time.Time
	run  string

	because string // why somebody discarded it

	// end, of fate failed, is where in the .failed file the record ends. One
	// that ends where no entry says so is what a killed run had written and
	// not yet entered.
	end int64
}

func (e *entry) append(dst []byte) []byte {
	dst = append(dst, `{"v":`...)
	dst = strconv.AppendInt(dst, journalVersion, 10)
	dst = append(dst, `,"line":`...)
	dst = strconv.AppendInt(dst, e.line, 10)
	dst = append(dst, `,"id":"`...)
	dst = append(dst, e.id.String()...)
	dst = append(dst, `","fate":"`...)
	dst = append(dst, e.fate...)
	dst = append(dst, `","at":"`...)
	dst = record.AppendTime(dst, e.at.UnixNano())
	dst = append(dst, `","run":`...)
	dst = record.AppendString(dst, []byte(e.run))
	if e.because != "" {
		dst = append(dst, `,"because":`...)
		dst = record.AppendString(dst, []byte(e.because))
	}
	if e.end > 0 {
		dst = append(dst, `,"end":`...)
		dst = strconv.AppendInt(dst, e.end, 10)
	}
	return append(dst, '}', '\n')
}

// place names a record of a file. The id belongs to it: when the file was
// edited, an entry for what used to stand on that line says nothing.
type place struct {
	line int64
	id   ID
}

// fate is the last word on a record, when it was said, and whether a replay
// claimed it since.
type fate struct {
	status  Status
	at      int64
	claimed bool
}

// move is where in the .failed file a record went.
type move struct {
	id  ID
	end int64
}

// fates is what a journal says.
type fates struct {
	of    map[place]fate
	moved map[move]bool
	size  int64 // of the journal, as far as it is whole
	bad   int   // lines that are no entries
}

func newFates() *fates {
	return &fates{of: map[place]fate{}, moved: map[move]bool{}}
}

// readJournal reads a journal; one that is not there says nothing.
func readJournal(r io.Reader, path string) (*fates, error) {
	got := newFates()
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return got, nil // a last line without its end was never counted
		case errors.Is(err, bufio.ErrBufferFull):
			return got, sysexits.Errorf(sysexits.DataErr, "%s: a line is longer than any entry: not a journal", path)
		case err != nil:
			return got, sysexits.Wrap(sysexits.IOErr, fmt.Errorf("read %s: %w", path, err))
		}
		got.size += int64(len(line))
		if err := got.add(bytes.TrimSpace(line), path); err != nil {
			return got, err
		}
	}
}

func (f *fates) add(line []byte, path string) error {
	n, err := scanObject(line, 0, nil)
	if err != nil || n != len(line) {
		f.bad++
		return nil
	}
	if v, err := strconv.Atoi(string(member(line, "v"))); err != nil || v < 1 {
		f.bad++
		return nil
	} else if v > journalVersion {
		return sysexits.Errorf(sysexits.Config,
			"%s: version %d: written by a newer release than this one", path, v)
	}
	number, err := strconv.ParseInt(string(member(line, "line")), 10, 64)
	status := Status(asText(member(line, "fate")))
	if err != nil || !slices.Contains(Statuses, status) {
		f.bad++
		return nil
	}
	at := place{number, ParseID([]byte(asText(member(line, "id"))))}
	if status == Pending { // does not undo what was: the claimant may die
		was := f.of[at]
		was.claimed = true
		f.of[at] = was
		return nil
	}
	// An entry without a time is as good as any.
	when, _ := record.ParseTime([]byte(asText(member(line, "at"))))
	f.of[at] = fate{status: status, at: when}
	if end, err := strconv.ParseInt(string(member(line, "end")), 10, 64); err == nil {
		f.moved[move{at.id, end}] = true
	}
	return nil
}

// status is what a record of a file of kind k is, by its journal. live tells
// whether somebody has the file in hand.
func (f *fates) status(k kind, at place, live bool) Status {
	got := f.of[at]
	switch {
	case got.status == Failed:
		return Moved
	case got.claimed && live:
		return Pending
	case got.status != "":
		return got.status
	case k.replayed:
		return Replayed
	case k.failed:
		return Failed
	}
	return New
}

// final tells a status of which nothing is left to do.
func (s Status) final() bool { return s == Replayed || s == Discarded || s == Moved }

// journal is a journal open for writing.
type journal struct {
	f     *os.File
	noted []byte // entries that count after the next commit
}

// claim writes entries that mean nothing once this process is gone, so nobody
// waits for the disk.
func (j *journal) claim(entries []byte) error { return j.write(entries) }

func (j *journal) note(e entry) { j.noted = e.append(j.noted) }

// commit makes what was noted durable.
func (j *journal) commit() error {
	if len(j.noted) == 0 {
		return nil
	}
	if err := j.write(j.noted); err != nil {
		return err
	}
	j.noted = j.noted[:0]
	if err := j.f.Sync(); err != nil {
		return sysexits.Wrap(sysexits.IOErr, err)
	}
	return nil
}

func (j *journal) write(entries []byte) error {
	if _, err := j.f.Write(entries); err != nil {
		return sysexits.Wrap(sysexits.IOErr, err)
	}
	return nil
}
