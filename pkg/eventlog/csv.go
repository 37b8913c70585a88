package eventlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
)

// Sizes of the scanner.
const (
	// DefaultRowLimit is the longest row, in bytes of CSV, that becomes a
	// record. The readers of the record stream take objects of 32 MiB.
	DefaultRowLimit = 32 << 20

	scanBuffer = 64 << 10 // what a Scanner holds while rows are ordinary
	slack      = 8        // bytes after the data that the word-wise search may look at
	keepOfHuge = 16 << 20 // bytes kept of a row over the limit: as base64 they fit into a record
)

// ErrRow is wrapped by what Row.Bad holds.
var ErrRow = errors.New("not a row of the dialect")

var (
	errBareQuote  = fmt.Errorf("%w: quote in an unquoted cell", ErrRow)
	errAfterQuote = fmt.Errorf("%w: text after a closing quote", ErrRow)
	errOpenQuote  = fmt.Errorf("%w: the file ends inside a quoted cell", ErrRow)
	errCutShort   = fmt.Errorf("%w: the file ends before the last cell", ErrRow)
	errHuge       = fmt.Errorf("%w: longer than the limit", ErrRow)
	errWide       = fmt.Errorf("%w: more than %d cells", ErrRow, mostColumns)
)

type cell struct {
	start, end int32
	flags      uint8
}

const (
	cellSpecial uint8 = 1 << iota // holds a backslash, a control character or bytes above 0x7f
	cellDoubled                   // holds doubled quotes
)

// Row is one row of a file. It aliases the buffers of the Scanner that gave it
// and is valid until the next one.
type Row struct {
	Number int64 // from 1; the header and blank lines do not count
	Offset int64 // where it begins in the file
	Size   int64 // its bytes in the file, terminator included
	Bad    error // why it is no row of the dialect; its cells mean nothing then

	raw     []byte // the bytes as they are, terminator included; the first keepOfHuge of a row over the limit
	cells   []cell
	ended   bool // a line feed ended it
	scratch []byte
}

// Raw returns the bytes of the row as they stand in the file, its terminator
// included; of a row over the limit only its beginning.
func (r *Row) Raw() []byte { return r.raw }

// Len returns the number of cells.
func (r *Row) Len() int { return len(r.cells) }

// Cell returns the text of cell i, and nothing when the row is too short to
// have it. It is valid until the Scanner's next row.
func (r *Row) Cell(i int) []byte {
	if i < 0 || i >= len(r.cells) {
		return nil
	}
	c := r.cells[i]
	text := r.raw[c.start:c.end]
	if c.flags&cellDoubled == 0 {
		return text
	}
	begin := len(r.scratch)
	for {
		q := bytes.IndexByte(text, '"')
		if q < 0 {
			break
		}
		r.scratch = append(r.scratch, text[:q+1]...)
		text = text[q+2:]
	}
	r.scratch = append(r.scratch, text...)
	return r.scratch[begin:]
}

// outcome is how an attempt to split a row off the buffer ended.
type outcome uint8

const (
	whole outcome = iota
	more          // the buffer ends inside the row
)

const (
	lo = 0x0101010101010101
	hi = 0x8080808080808080
)

// split takes one row from the front of buf[:end]; buf has slack bytes beyond
// end. With eof nothing follows. It sets the row's raw, cells, ended and Bad.
// Offsets of cells are relative to the row, so the buffer may move meanwhile.
func (r *Row) split(buf []byte, end int, eof bool) outcome {
	r.cells, r.scratch, r.Bad, r.ended = r.cells[:0], r.scratch[:0], nil, false
	i := 0
	for {
		i = r.plainCells(buf, i, end)
		if r.ended {
			break
		}
		if len(r.cells) >= mostColumns {
			var rest edge
			n, ended := rest.scan(buf[i:end])
			if i += n; !ended && !eof {
				return more
			}
			r.cells, r.ended, r.Bad = r.cells[:0], ended, errWide
			if rest.in == inQuoted {
				r.Bad = errOpenQuote
			}
			break
		}
		var c cell
		if i < end && buf[i] == '"' {
			i++
			c.start = int32(i)
			closed := false
			i, closed = quoted(buf, i, end, eof, &c)
			if !closed && !eof {
				return more
			}
			c.end = int32(i)
			if !closed {
				r.cells = append(r.cells, c)
				r.Bad = errOpenQuote
				break
			}
			i++
			if i < end && buf[i] == ',' {
				r.cells = append(r.cells, c)
				i++
				continue
			}
			if after := i; after < end && buf[after] != '\n' && !carriage(buf, after, end) {
				if r.Bad == nil {
					r.Bad = errAfterQuote
				}
				i, _ = bare(buf, i, end, &c)
			} else if after < end && buf[after] == '\r' {
				i++
			}
		} else {
			c.start = int32(i)
			var quote bool
			i, quote = bare(buf, i, end, &c)
			if quote && r.Bad == nil {
				r.Bad = errBareQuote
			}
			c.end = int32(i)
			if i > int(c.start) && buf[i-1] == '\r' && (i == end || buf[i] == '\n') {
				c.end--
			}
		}
		r.cells = append(r.cells, c)
		if i >= end {
			if !eof {
				return more
			}
			break
		}
		i++
		if buf[i-1] == '\n' {
			r.ended = true
			break
		}
	}
	r.raw = buf[:i]
	r.Size = int64(i)
	return whole
}

// plainCells takes the quoted cells at i that hold nothing special, eight bytes
// at a time: nearly all there are. It stops at the first cell of another kind,
// and behind the line feed that ends the row.
func (r *Row) plainCells(buf []byte, i, end int) int {
	cells := r.cells
	for i < end && buf[i] == '"' && len(cells) < mostColumns {
		j := i + 1
		m := uint64(0)
		for j < end {
			if m = special(binary.LittleEndian.Uint64(buf[j:])); m != 0 {
				j += bits.TrailingZeros64(m) / 8
				break
			}
			j += 8
		}
		if j+1 >= end || buf[j] != '"' {
			break
		}
		next := buf[j+1]
		if next != ',' && next != '\n' {
			break
		}
		cells = append(cells, cell{start: int32(i + 1), end: int32(j)})
		i = j + 2
		if next == '\n' {
			r.ended = true
			break
		}
	}
	r.cells = cells
	return i
}

// special has the top bit of each byte of w set that is a quote, a backslash,
// below 0x20 or above 0x7f. Borrows make bytes above the lowest that is set
// unreliable, never that one.
func special(w uint64) uint64 {
	q := w ^ lo*'"'
	b := w ^ lo*'\\'
	return ((q-lo)&^q | (b-lo)&^b | (w - lo*0x20) | w) & hi
}

// carriage reports whether buf[i] is the carriage return of a line end.
func carriage(buf []byte, i, end int) bool {
	return buf[i] == '\r' && (i+1 == end || buf[i+1] == '\n')
}

// quoted finds the quote that closes the cell which begins at i, eight bytes
// at a time as long as nothing needs a closer look.
func quoted(buf []byte, i, end int, eof bool, c *cell) (int, bool) {
	for i < end {
		if c.flags&cellSpecial == 0 {
			m := special(binary.LittleEndian.Uint64(buf[i:]))
			if m == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(m) / 8
			if i >= end {
				break
			}
			if buf[i] != '"' {
				c.flags |= cellSpecial
				i++
				continue
			}
		} else {
			q := bytes.IndexByte(buf[i:end], '"')
			if q < 0 {
				return end, false
			}
			i += q
		}
		if i+1 < end && buf[i+1] == '"' {
			c.flags |= cellDoubled
			i += 2
			continue
		}
		return i, i+1 < end || eof
	}
	return end, false
}

// bare finds the comma or line feed that ends an unquoted cell, and tells
// whether there was a quote before it.
func bare(buf []byte, i, end int, c *cell) (int, bool) {
	quote := false
	for ; i < end; i++ {
		switch b := buf[i]; {
		case b == ',' || b == '\n':
			return i, quote
		case b == '"':
			quote = true
		case b < 0x20 || b == '\\' || b > 0x7f:
			c.flags |= cellSpecial
		}
	}
	return end, quote
}

// Scanner splits a file into rows. It holds one row at a time in a buffer that
// slides over the file and grows only for a row that needs it.
type Scanner struct {
	r     io.Reader
	limit int

	buf        []byte
	begin, end int // what is read and not yet given out
	offset     int64
	number     int64
	eof        bool
	err        error
	row        Row
}

// NewScanner returns a Scanner that reads from r. A row of more than limit
// bytes is Bad; 0 is DefaultRowLimit.
func NewScanner(r io.Reader, limit int) *Scanner {
	if limit <= 0 {
		limit = DefaultRowLimit
	}
	return &Scanner{r: r, limit: limit, buf: make([]byte, scanBuffer)}
}

// Header reads the first row, without the byte order mark that some writers
// put before it. io.EOF means that the file holds nothing.
func (s *Scanner) Header() (*Row, error) {
	for s.end-s.begin < 3 && !s.eof {
		s.fill()
	}
	if bytes.HasPrefix(s.buf[s.begin:s.end], []byte("\xef\xbb\xbf")) {
		s.begin += 3
		s.offset += 3
	}
	row, err := s.Next()
	if err != nil {
		return nil, err
	}
	s.number = 0
	row.Number = 0
	return row, nil
}

// Next returns the next row, io.EOF after the last one. A stretch of the file
// that is no row is returned with Bad set; the row after it begins behind the
// next line feed outside quotes.
func (s *Scanner) Next() (*Row, error) {
	for {
		if s.blank() {
			continue
		}
		if s.begin == s.end && s.eof {
			if s.err != nil {
				return nil, s.err
			}
			return nil, io.EOF
		}
		s.row.Offset = s.offset
		if s.row.split(s.buf[s.begin:], s.end-s.begin, s.eof && s.err == nil) == whole {
			s.take()
			if int(s.row.Size) > s.limit {
				s.row.Bad = errHuge
				s.row.raw = s.row.raw[:min(len(s.row.raw), keepOfHuge)]
			}
			return &s.row, nil
		}
		if s.err != nil {
			return nil, s.err
		}
		if s.end-s.begin > s.limit {
			return s.skip()
		}
		s.fill()
	}
}

// glance passes over the next row without splitting it, when its end is plain to
// see, and returns it without its terminator. It is not in the row.
//
// The first line feed ends the row when a closing quote with something before it
// that is neither quote nor comma, and any number of empty cells behind it, is
// all that stands before it: whether that quote closes a cell, or is a stray one
// in a cell without quotes, no cell is open behind it.
func (s *Scanner) glance() ([]byte, bool) {
	rest := s.buf[s.begin:s.end]
	n := bytes.IndexByte(rest, '\n')
	if n < 4 || n >= s.limit || rest[0] != '"' {
		return nil, false
	}
	end := n
	if rest[end-1] == '\r' {
		end--
	}
	last := end
	for last > 4 && rest[last-1] == '"' && rest[last-2] == '"' && rest[last-3] == ',' {
		last -= 3
	}
	if rest[last-1] != '"' || rest[last-2] == '"' || rest[last-2] == ',' {
		return nil, false
	}
	s.begin += n + 1
	s.offset += int64(n) + 1
	s.number++
	return rest[:end], true
}

// quotedCell is cell i of a row of plain quoted cells; nil when they are not
// that plain.
func quotedCell(row []byte, i int) []byte {
	for {
		if len(row) < 2 || row[0] != '"' {
			return nil
		}
		end := bytes.IndexByte(row[1:], '"') + 1
		if end == 0 || end+1 < len(row) && row[end+1] != ',' {
			return nil
		}
		if i == 0 {
			return row[1:end]
		}
		i--
		row = row[min(end+2, len(row)):]
	}
}

// take moves behind the row that was split off.
func (s *Scanner) take() {
	s.begin += int(s.row.Size)
	s.offset += s.row.Size
	s.number++
	s.row.Number = s.number
}

// blank passes over an empty line, and reports whether there was one. Every
// cell of the dialect is quoted, so an empty line holds no cell.
func (s *Scanner) blank() bool {
	for s.end-s.begin < 2 && !s.eof {
		s.fill()
	}
	n := 0
	switch rest := s.buf[s.begin:s.end]; {
	case len(rest) > 0 && rest[0] == '\n':
		n = 1
	case len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n':
		n = 2
	case len(rest) == 1 && rest[0] == '\r':
		n = 1
	default:
		return false
	}
	s.begin += n
	s.offset += int64(n)
	return true
}

// fill reads until the buffer is full or the file has ended; a full buffer
// grows first. Rows are split anew after it, which costs little because each
// growth doubles.
func (s *Scanner) fill() {
	kept := s.end - s.begin
	switch {
	case kept+slack >= len(s.buf):
		grown := make([]byte, 2*len(s.buf))
		copy(grown, s.buf[s.begin:s.end])
		s.buf = grown
	case len(s.buf) > 1<<20 && kept < scanBuffer/2:
		shrunk := make([]byte, scanBuffer) // after a row that needed much
		copy(shrunk, s.buf[s.begin:s.end])
		s.buf = shrunk
	default:
		copy(s.buf, s.buf[s.begin:s.end])
	}
	s.begin, s.end = 0, kept
	for s.end < len(s.buf)-slack {
		n, err := s.r.Read(s.buf[s.end : len(s.buf)-slack])
		s.end += n
		if err != nil {
			s.eof = true
			if err != io.EOF {
				s.err = err
			}
			return
		}
	}
}

// skip passes over a row that is longer than the limit and returns it with
// its first bytes only.
func (s *Scanner) skip() (*Row, error) {
	head := append([]byte(nil), s.buf[s.begin:min(s.end, s.begin+keepOfHuge)]...)
	var state edge
	size := int64(0)
	for {
		n, done := state.scan(s.buf[s.begin:s.end])
		size += int64(n)
		s.begin += n
		if done || s.eof {
			break
		}
		s.fill()
	}
	if s.err != nil {
		return nil, s.err
	}
	s.row.raw, s.row.cells = head, s.row.cells[:0]
	s.row.Size, s.row.Bad = size, errHuge
	if state.in == inQuoted {
		s.row.Bad = errOpenQuote
	}
	s.offset += size
	s.number++
	s.row.Number = s.number
	return &s.row, nil
}

// edge finds the end of a row byte by byte, with the same rules as split.
type edge struct{ in place }

type place uint8

const (
	atCell place = iota
	inBare
	inQuoted
	atQuote
)

// scan returns how many bytes of b belong to the row, and whether it ended.
func (e *edge) scan(b []byte) (int, bool) {
	for i, c := range b {
		switch {
		case e.in == inQuoted:
			if c == '"' {
				e.in = atQuote
			}
		case c == '"' && (e.in == atCell || e.in == atQuote):
			e.in = inQuoted
		case c == ',':
			e.in = atCell
		case c == '\n':
			return i + 1, true
		default:
			e.in = inBare
		}
	}
	return len(b), false
}
