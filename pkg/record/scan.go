package record

import (
	"bytes"
	"fmt"
	"io"

	"sf2loki/pkg/sysexits"
)

const (
	// DefaultLimit bounds the text of one object, in bytes.
	DefaultLimit = 32 << 20

	bufferSize = 64 << 10
	// Buffers that one huge object has grown beyond this are given back.
	keepSize = 1 << 20
	// pad is how far a word may be read beyond the last byte.
	pad = 8
)

// MaxDepth is how deeply values may nest, as in encoding/json.
const MaxDepth = 10000

// scanner frames and checks the objects of a stream in one pass. It parses
// only what a line feed follows: JSON has none inside a token, so each token
// lies in the buffer as a whole, and the line feed is the sentinel that ends
// every inner loop.
//
// Positions inside an object count from its first byte, which is win[0], so
// they hold when the object moves. What was handed out as a slice holds too:
// an object moves into another buffer, never inside its own.
type scanner struct {
	src      io.Reader
	buf      []byte // buf[pos:end] is read and not yet consumed; pad bytes more follow
	pos, end int
	feed     int   // index of the last line feed in buf[:end], or -1
	base     int64 // bytes of the input before buf[0]
	line     int64 // lines of the input before buf[pos]
	limit    int
	failed   error // ended for good

	spare   []byte // a second buffer, for an object that does not fit the first
	retired []byte // the buffer that parts of the current object still lie in

	win   []byte // buf[pos:]
	stop  int    // index in win of the last line feed
	lines int64  // line feeds met inside the object

	text  []byte // unescaped strings; at least as long as buf, so never full
	used  int
	fixed []byte // strings that were not UTF-8
	stack []byte // the brackets open inside a skipped value
}

func newScanner(src io.Reader) scanner {
	return scanner{src: src, limit: DefaultLimit, feed: -1}
}

// begin goes to the next object and makes sure that its first line is there.
// It returns io.EOF where the input ends between objects.
func (s *scanner) begin() error {
	if s.failed != nil {
		return s.failed
	}
	s.recycle()
	for {
		for s.pos < s.end {
			switch s.buf[s.pos] {
			case '\n':
				s.line++
				s.pos++
			case ' ', '\t', '\r':
				s.pos++
			case '{':
				return s.open()
			default:
				return s.noObject()
			}
		}
		if _, err := s.fill(false); err != nil {
			return s.fail(err)
		}
	}
}

// noObject is the error for what stands at pos, where an object should begin.
func (s *scanner) noObject() error {
	for s.buf[s.pos] == mark[0] && s.end-s.pos < len(mark) {
		if _, err := s.fill(false); err != nil {
			break
		}
	}
	s.win = s.buf[s.pos:]
	if bytes.HasPrefix(s.buf[s.pos:s.end], []byte(mark)) {
		return s.syntax(0, "begins a byte order mark, which the stream has none of: write UTF-8 without it")
	}
	return s.syntax(0, "is not the beginning of a JSON object")
}

// mark is what some editors and shells begin a file with.
const mark = "\xef\xbb\xbf"

// recycle takes back the buffers of the last object.
func (s *scanner) recycle() {
	s.used, s.fixed, s.lines = 0, s.fixed[:0], 0
	if s.retired != nil {
		s.spare, s.retired = s.retired, nil
	}
	if len(s.buf) > keepSize && s.end-s.pos < bufferSize {
		old := s.buf[s.pos:s.end]
		s.buf, s.spare, s.text, s.fixed = make([]byte, bufferSize+pad), nil, nil, nil
		copy(s.buf, old)
		s.shift()
	}
}

// open prepares the object at pos for the parser.
func (s *scanner) open() error {
	for s.feed < s.pos {
		if s.end-s.pos > s.limit {
			return s.tooLong()
		}
		if _, err := s.fill(false); err != nil {
			return s.cut(err)
		}
	}
	s.window()
	return nil
}

// more reads on inside an object, to the next line feed at least.
func (s *scanner) more() error {
	for found := false; !found; {
		if s.end-s.pos > s.limit {
			return s.tooLong()
		}
		var err error
		if found, err = s.fill(true); err != nil {
			return s.cut(err)
		}
	}
	s.window()
	return nil
}

func (s *scanner) window() {
	s.win, s.stop = s.buf[s.pos:], s.feed-s.pos
	if len(s.text) < len(s.buf)+pad {
		s.text, s.used = make([]byte, len(s.buf)+pad), 0
	}
}

// close ends the object before p and returns its text. Of a line beyond the
// limit nothing is taken, so that what a stream yields does not depend on the
// pieces in which it arrives.
func (s *scanner) close(p int) ([]byte, error) {
	end := p
	if s.win[p] != '\n' {
		end += bytes.IndexByte(s.win[p:s.stop+1], '\n')
	}
	if end > s.limit {
		return nil, s.tooLong()
	}
	s.pos += p
	s.line += s.lines
	return s.win[:p:p], nil
}

// fill reads once, and tells whether a line feed came. With live set, slices
// of the object at pos are in use.
func (s *scanner) fill(live bool) (bool, error) {
	if s.pos == s.end {
		s.shift()
	}
	if s.end+pad >= len(s.buf) {
		s.room(live)
	}
	for range 100 {
		n, err := s.src.Read(s.buf[s.end : len(s.buf)-pad])
		if n > 0 {
			i := bytes.LastIndexByte(s.buf[s.end:s.end+n], '\n')
			if i >= 0 {
				s.feed = s.end + i
			}
			s.end += n
			return i >= 0, nil // an error comes again
		}
		if err != nil {
			return false, err
		}
	}
	return false, io.ErrNoProgress
}

// room makes room behind end.
func (s *scanner) room(live bool) {
	size := len(s.buf)
	switch {
	case size == 0:
		size = bufferSize + pad
	case s.pos < size/2:
		size = max(min(2*size, s.limit+bufferSize), size+bufferSize)
	case !live:
		copy(s.buf, s.buf[s.pos:s.end])
		s.shift()
		return
	}
	next := s.spare
	s.spare = nil
	if len(next) < size {
		next = make([]byte, size)
	}
	copy(next, s.buf[s.pos:s.end])
	if live {
		s.retired = s.buf
	}
	s.buf = next
	s.shift()
}

// shift accounts for a move of buf[pos:end] to the buffer's beginning.
func (s *scanner) shift() {
	s.base += int64(s.pos)
	s.feed = max(s.feed-s.pos, -1)
	s.end -= s.pos
	s.pos = 0
}

// fail keeps an error of the source that came between objects.
func (s *scanner) fail(err error) error {
	if err != io.EOF {
		err = sysexits.Wrap(sysexits.IOErr, fmt.Errorf("read input: %w", err))
	}
	s.failed = err
	return err
}

// cut is fail inside an object.
func (s *scanner) cut(err error) error {
	if err != io.EOF {
		return s.fail(err)
	}
	s.failed = torn(s.line+1, s.base+int64(s.pos))
	return s.failed
}

func (s *scanner) tooLong() error {
	s.win = s.buf[s.pos:]
	return s.syntax(0, fmt.Sprintf("begins an object of more than %d bytes", s.limit))
}

// syntax is the error for the byte at p.
func (s *scanner) syntax(p int, text string) error {
	line, offset := s.where(p)
	s.failed = &SyntaxError{line, offset, fmt.Sprintf("%q %s", s.win[p], text)}
	return s.failed
}

func (s *scanner) where(p int) (line, offset int64) {
	return s.line + 1 + int64(bytes.Count(s.win[:p], []byte{'\n'})), s.base + int64(s.pos+p)
}

// space returns the position of the next byte that is not white space.
func (s *scanner) space(p int) (int, error) {
	for {
		switch s.win[p] {
		case ' ', '\t', '\r':
		case '\n':
			if p == s.stop {
				if err := s.more(); err != nil {
					return p, err
				}
			}
			s.lines++
		default:
			return p, nil
		}
		p++
	}
}

// key reads a member's name, which begins at p, and goes to its value.
func (s *scanner) key(p int) ([]byte, int, error) {
	if s.win[p] != '"' {
		return nil, p, s.syntax(p, "where a name in quotes should begin")
	}
	name, p, err := s.str(p + 1)
	if err != nil {
		return nil, p, err
	}
	if s.win[p] == ':' && s.win[p+1] > ' ' { // as most writers have it
		return name, p + 1, nil
	}
	p, err = s.colon(p)
	return name, p, err
}

func (s *scanner) colon(p int) (int, error) {
	p, err := s.space(p)
	if err != nil {
		return p, err
	}
	if s.win[p] != ':' {
		return p, s.syntax(p, "after a name, not a colon")
	}
	return s.space(p + 1)
}

// comma goes behind a member's value: to the next name, or behind the brace
// that ends the object.
func (s *scanner) comma(p int) (next int, more bool, err error) {
	if s.win[p] == ',' && s.win[p+1] == '"' { // as most writers have it
		return p + 1, true, nil
	}
	if p, err = s.space(p); err != nil {
		return p, false, err
	}
	switch s.win[p] {
	case ',':
		p, err = s.space(p + 1)
		return p, true, err
	case '}':
		return p + 1, false, nil
	}
	return p, false, s.syntax(p, "after a member of an object")
}
