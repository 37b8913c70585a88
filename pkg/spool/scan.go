package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"sf2loki/pkg/sysexits"
)

// maxObject is the longest object that is read, as in package record.
const maxObject = 32 << 20

const tooLong = "longer than any record"

// Damage is a place of a file that holds no record. Torn is the last line of a
// writer that was killed: it was never acknowledged, so it comes again from the
// source. Anything else was changed after it was written. With Err it is the
// whole file, which cannot be read.
type Damage struct {
	Path   string
	Nth    int64 // of the damages of the file, from 1
	Line   int64
	Offset int64
	Torn   bool
	Text   string
	Err    error
}

func (d *Damage) Error() string {
	if d.Err != nil {
		return d.Err.Error()
	}
	return fmt.Sprintf("%s: line %d (byte %d): %s", d.Path, d.Line, d.Offset, d.Text)
}

func (d *Damage) Unwrap() error { return d.Err }

// Code is the exit status that this damage asks for.
func (d *Damage) Code() sysexits.Code {
	switch {
	case d.Err != nil:
		return sysexits.Of(d.Err)
	case d.Torn:
		return sysexits.IOErr
	}
	return sysexits.DataErr
}

// Worse is the one of two that decides how a program ends: a torn end, which
// comes again by itself, gives way. nil is none.
func Worse(a, b *Damage) *Damage {
	if a == nil || a.Torn && b != nil {
		return b
	}
	return a
}

// Verdict is the error of a program that has met d; nil for none.
func (d *Damage) Verdict() error {
	if d == nil {
		return nil
	}
	return sysexits.Wrap(d.Code(), d)
}

// Say tells a person, unless enough was said of the file.
func (d *Damage) Say(log *slog.Logger) {
	if d.Err != nil {
		log.Warn("file cannot be read and is left alone", "file", d.Path, "err", d.Err)
		return
	}
	if WorthTelling(d.Nth) {
		log.Warn("no record here", "file", d.Path, "line", d.Line, "offset", d.Offset, "what", d.Text, "so_far", d.Nth)
	}
}

// WorthTelling tells whether the nth of many that are alike is to be logged:
// the first ten, the hundredth, the thousandth and so on.
func WorthTelling(nth int64) bool {
	if nth <= 10 {
		return true
	}
	for nth%10 == 0 {
		nth /= 10
	}
	return nth == 1
}

// unreadable is the error of a file that cannot be read: it says nothing of
// others. A journal of a newer release does, for it asks for a newer program.
func unreadable(path string, err error) error {
	if sysexits.Of(err) == sysexits.Config {
		return err
	}
	return &Damage{Path: path, Err: err}
}

// Reader reads letters one by one, from a file or as they come. It needs one object of memory
// at a time. Objects may stand one a line, several on a line, or spread over
// lines; what is none is reported and passed over.
type Reader struct {
	r      io.Reader
	path   string
	buf    []byte
	start  int   // of what has not been given out
	offset int64 // in the file, of buf[start]
	line   int64 // of buf[start]
	ended  bool

	damages int64 // so far
}

// NewReader returns a Reader of r; path stands in its errors.
func NewReader(r io.Reader, path string) *Reader {
	return &Reader{r: r, path: path, buf: make([]byte, 0, 64<<10), line: 1}
}

// Next reads the next letter: nil, io.EOF, *Damage (the next call goes on
// behind it), or what reading gave. It returns a letter as soon as the end of
// its line has come.
func (s *Reader) Next(l *Letter) error {
	if err := s.skipSpace(); err != nil {
		return err
	}
	end, err := s.lineEnd(s.start)
	if err != nil {
		return err
	}
	if end < 0 {
		return s.last(l, "the last line is torn")
	}
	if end-s.start > maxObject {
		return s.bad(end, false, tooLong)
	}
	line := s.buf[s.start:end]
	if n, err := l.parse(line); err == nil {
		return s.give(l, n)
	} else if line[0] != '{' || errors.Is(err, errNested) {
		return s.bad(end, false, err.Error())
	}
	return s.nextSpread(l, end)
}

// nextSpread reads an object that does not end on the line on which it begins.
// A line that begins another object says that this one is broken.
func (s *Reader) nextSpread(l *Letter, end int) error {
	first := end
	for {
		if n, whole := extent(s.buf[s.start:end]); whole {
			got, err := l.parse(s.buf[s.start : s.start+n])
			if err != nil || got != n {
				return s.bad(first, false, errJSON.Error())
			}
			return s.give(l, n)
		}
		next, err := s.lineEnd(end + 1)
		if err != nil {
			return err
		}
		if next < 0 && end+1 >= len(s.buf) || end+1 < len(s.buf) && s.buf[end+1] == '{' {
			return s.bad(first, false, errJSON.Error())
		}
		if next < 0 {
			return s.last(l, "the last record is torn")
		}
		if next-s.start > maxObject {
			return s.bad(first, false, tooLong)
		}
		end = next
	}
}

// last reads what stands behind the last line feed. An object that is whole
// there was written with an editor, most likely, and is a record.
func (s *Reader) last(l *Letter, torn string) error {
	n, err := l.parse(s.buf[s.start:])
	if err != nil {
		return s.bad(len(s.buf), true, torn)
	}
	return s.give(l, n)
}

// extent finds where the object at the beginning of b ends, by its braces alone.
func extent(b []byte) (n int, whole bool) {
	depth, inside := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inside && c == '\\':
			i++
		case c == '"':
			inside = !inside
		case inside:
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return i + 1, true
			}
		}
	}
	return 0, false
}

func (s *Reader) give(l *Letter, n int) error {
	l.Line, l.Offset = s.line, s.offset
	s.pass(n)
	return nil
}

// damage is one that begins here.
func (s *Reader) damage(text string) *Damage {
	s.damages++
	return &Damage{Path: s.path, Nth: s.damages, Line: s.line, Offset: s.offset, Text: text}
}

// bad reports what stands before index end, and goes on behind it.
func (s *Reader) bad(end int, torn bool, text string) error {
	d := s.damage(text)
	d.Torn = torn
	s.pass(end - s.start)
	return d
}

func (s *Reader) pass(n int) {
	s.line += int64(bytes.Count(s.buf[s.start:s.start+n], []byte{'\n'}))
	s.start += n
	s.offset += int64(n)
}

func (s *Reader) skipSpace() error {
	for {
		n := skipSpace(s.buf[s.start:], 0)
		s.pass(n)
		if s.start < len(s.buf) {
			return nil
		}
		if err := s.fill(); err != nil {
			return err
		}
	}
}

// lineEnd is the index of the first line feed from index from on, or -1 when
// the input ends without one.
func (s *Reader) lineEnd(from int) (int, error) {
	for {
		if from <= len(s.buf) {
			if i := bytes.IndexByte(s.buf[from:], '\n'); i >= 0 {
				return from + i, nil
			}
		}
		seen := len(s.buf) - s.start
		if seen > maxObject {
			return s.overlong()
		}
		from = max(from, len(s.buf)) - s.start
		err := s.fill()
		from += s.start
		if errors.Is(err, io.EOF) {
			return -1, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// overlong passes over a line that is longer than any record.
func (s *Reader) overlong() (int, error) {
	d := s.damage(tooLong)
	for {
		if i := bytes.IndexByte(s.buf[s.start:], '\n'); i >= 0 {
			s.pass(i)
			return 0, d
		}
		s.pass(len(s.buf) - s.start)
		if err := s.fill(); errors.Is(err, io.EOF) {
			return 0, d
		} else if err != nil {
			return 0, err
		}
	}
}

// fill reads more, moving what is left to the front of a buffer that is full.
func (s *Reader) fill() error {
	if s.ended {
		return io.EOF
	}
	if len(s.buf) == cap(s.buf) {
		left := s.buf[s.start:]
		if len(left) > cap(s.buf)/2 {
			s.buf = append(make([]byte, 0, 2*cap(s.buf)), left...)
		} else {
			s.buf = s.buf[:copy(s.buf[:cap(s.buf)], left)]
		}
		s.start = 0
	}
	n, err := s.r.Read(s.buf[len(s.buf):cap(s.buf)])
	s.buf = s.buf[:len(s.buf)+n]
	if errors.Is(err, io.EOF) {
		s.ended = true
		if n > 0 {
			return nil
		}
		return io.EOF
	}
	if err != nil {
		return sysexits.Wrap(sysexits.IOErr, fmt.Errorf("read %s: %w", s.path, err))
	}
	return nil
}
