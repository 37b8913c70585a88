package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// FaultKind is what is wrong with a place of a file.
type FaultKind string

// The kinds of faults. The first three may cost a record; the others are there
// to be known.
const (
	FaultTorn    FaultKind = "torn"    // the file ends inside a record
	FaultDamage  FaultKind = "damage"  // a place holds no record
	FaultRecord  FaultKind = "record"  // what is there is no record that loki-push takes
	FaultEdited  FaultKind = "edited"  // the id is not that of the content
	FaultReason  FaultKind = "reason"  // no reason, or none of the closed set
	FaultJournal FaultKind = "journal" // lines of the journal that are no entries, or for no record
	FaultMoved   FaultKind = "moved"   // the journal says that a record moved, and it is not there
	FaultName    FaultKind = "name"    // the name says that nothing is left to do, and something is
	FaultMode    FaultKind = "mode"    // others may read the file

	FaultUnreadable FaultKind = "unreadable" // told by the error of Verify
)

// Serious tells a fault of which a record may be lost.
func (k FaultKind) Serious() bool {
	switch k {
	case FaultTorn, FaultDamage, FaultRecord:
		return true
	}
	return false
}

// Code is the exit status that a fault asks for: 0 for what is not serious.
func (k FaultKind) Code() sysexits.Code {
	switch {
	case k == FaultTorn:
		return sysexits.IOErr
	case k.Serious():
		return sysexits.DataErr
	}
	return sysexits.OK
}

// Fault is something that is not as it should be.
type Fault struct {
	File   string    `json:"file"`
	Line   int64     `json:"line,omitempty"`
	Offset int64     `json:"offset"`
	Kind   FaultKind `json:"kind"`
	Text   string    `json:"text"`
}

// Verify reads a file with its journal and tells fn of all that is wrong. It
// returns how many records there are.
func (f *File) Verify(fn func(Fault) error) (records int64, err error) {
	data, err := f.open()
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, unreadable(f.Path, sysexits.Wrap(openCode(err), err))
	}
	defer data.Close()
	live, err := inUse(data)
	if err != nil {
		return 0, err
	}
	v := &verifier{f: f, fn: fn, live: live}
	if v.known, err = f.fates(); err != nil {
		return 0, unreadable(f.Path, err)
	}
	v.entries = len(v.known.of)
	if info, err := data.Stat(); err == nil && info.Mode().Perm()&0o077 != 0 {
		v.fault(0, 0, FaultMode, fmt.Sprintf("mode %04o: others may look", info.Mode().Perm()))
	}
	if err := v.records(data); err != nil {
		return v.n, err
	}
	v.journal()
	return v.n, v.err
}

// verifier looks at one file.
type verifier struct {
	f       *File
	fn      func(Fault) error
	live    bool
	known   *fates
	entries int // of the journal for which no record was seen
	n       int64
	left    int64
	err     error // of fn
	check   checker
}

// checker reads records one by one as loki-push would. Making a reader for each
// would cost more than reading.
type checker struct {
	r   *record.Reader
	in  bytes.Buffer
	rec record.Record
}

// read returns the record, and what keeps it from being one.
func (c *checker) read(raw []byte) (rec *record.Record, wrong string) {
	if c.r == nil {
		c.r = record.NewReader(&c.in)
	}
	c.in.Write(raw)
	c.in.WriteByte('\n')
	err := c.r.Read(&c.rec)
	var invalid *record.InvalidError
	switch {
	case err == nil:
		return &c.rec, ""
	case errors.As(err, &invalid):
		return &c.rec, invalid.Text
	}
	c.r = nil // it does not go on after this
	c.in.Reset()
	return &record.Record{}, err.Error()
}

func (v *verifier) fault(line, offset int64, kind FaultKind, text string) {
	if v.err == nil {
		v.err = v.fn(Fault{v.f.Path, line, offset, kind, text})
	}
}

func (v *verifier) records(data io.Reader) error {
	return v.f.scan(data, func(l *Letter) error {
		v.n++
		at := place{l.Line, l.ID()}
		if _, ok := v.known.of[at]; ok {
			v.entries--
		}
		if !v.known.status(v.f.kind, at, v.live).final() {
			v.left++
		}
		v.content(l)
		return v.err
	}, func(d *Damage) {
		switch {
		case !d.Torn:
			v.fault(d.Line, d.Offset, FaultDamage, d.Text)
		case !v.live:
			v.fault(d.Line, d.Offset, FaultTorn, d.Text)
		}
	})
}

// content checks one record by itself.
func (v *verifier) content(l *Letter) {
	reason := l.Reason()
	if _, ok := Explain(reason); !ok {
		v.fault(l.Line, l.Offset, FaultReason, fmt.Sprintf("the reason is %q", reason))
	}
	rec, wrong := v.check.read(l.Raw)
	if wrong != "" && reason != record.InvalidRecord {
		v.fault(l.Line, l.Offset, FaultRecord, wrong)
		return
	}
	id, ok := text(member(l.deadLetter, "id"))
	if ok && wrong == "" && string(id) != record.ID(rec) {
		v.fault(l.Line, l.Offset, FaultEdited, "the content is not the one that was captured: the id is of another")
	}
}

func (v *verifier) journal() {
	if v.known.bad > 0 {
		v.fault(0, 0, FaultJournal, fmt.Sprintf("%d lines of the journal are no entries", v.known.bad))
	}
	if v.entries > 0 {
		v.fault(0, 0, FaultJournal, fmt.Sprintf("%d entries of the journal are for records that are not there", v.entries))
	}
	if v.f.kind.replayed && v.left > 0 {
		v.fault(0, 0, FaultName, fmt.Sprintf("%d records wait in a file that is named for having none", v.left))
	}
	v.moves()
}

// moves looks for the records that went to the .failed file.
func (v *verifier) moves() {
	if v.live || len(v.known.moved) == 0 {
		return
	}
	failed := newFile(v.f.dir, v.f.base+failedSuffix)
	data, err := failed.open()
	if errors.Is(err, fs.ErrNotExist) {
		v.fault(0, 0, FaultMoved, fmt.Sprintf("%d records moved to a .failed file that is not there: it was pruned, or removed by hand", len(v.known.moved)))
		return
	}
	if err == nil {
		defer data.Close()
		err = failed.scan(data, func(l *Letter) error {
			delete(v.known.moved, move{l.ID(), l.Offset + int64(len(l.Raw)) + 1})
			return nil
		}, func(*Damage) {})
	}
	switch {
	case err != nil:
		v.fault(0, 0, FaultMoved, err.Error())
	case len(v.known.moved) > 0:
		v.fault(0, 0, FaultMoved, fmt.Sprintf("%d records moved to %s and are not there as they were", len(v.known.moved), failed.Path))
	}
}
