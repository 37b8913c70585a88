package eventlog

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math"
)

// body is the whole of one file, at rest.
type body struct {
	io.ReaderAt
	size int64
}

func (b body) reader() io.Reader { return io.NewSectionReader(b, 0, b.size) }

// survey is what one look at a whole file tells.
type survey struct {
	header *header // nil when the file is empty
	rows   int64
	sorted bool  // the rows seem to be in time order as they stand
	first  int64 // the time of the first row that has one
	timed  bool  // some row has one
	torn   *torn // the end is missing
	sum    uint32
}

// torn says where a file that is not whole breaks off.
type torn struct {
	row, offset int64
	err         error
}

func (t *torn) String() string {
	return fmt.Sprintf("it breaks off in row %d, at byte %d", t.row, t.offset)
}

// castagnoli is the checksum that processors compute themselves.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum computes the sum of what is read through it.
type checksum struct {
	r   io.Reader
	sum hash.Hash32
}

func (c *checksum) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.sum.Write(p[:n])
	return n, err
}

// checkEvery is after how many rows a loop over a file asks whether to go on.
const checkEvery = 1 << 12

// look reads a file once, to know how it is to be read. fallback is the time
// of rows before the first that has one; nil when that of this first one will
// be taken.
//
// Of rows whose end is plain to see only the time stamp is looked at, which is
// enough to tell nearly all files that are in order from those that are not: who
// reads the rows as they stand watches the order by the times that count.
func look(ctx context.Context, b body, limit int, fallback *int64) (survey, error) {
	v := survey{sorted: true}
	sum := &checksum{b.reader(), crc32.New(castagnoli)}
	s := NewScanner(sum, limit)
	first, err := s.Header()
	if err == io.EOF {
		return v, nil
	}
	if err != nil {
		return v, err
	}
	if first.Bad != nil {
		return v, fmt.Errorf("the header: %w", first.Bad)
	}
	v.header = newHeader(first)
	last := int64(0)
	if fallback != nil {
		last = *fallback
	}
	c := v.header.clock(last)
	for {
		if v.timed && c.stamp >= 0 {
			if t, ok := glanceAt(s, c.stamp); ok {
				if v.rows++; v.rows%checkEvery == 0 && ctx.Err() != nil {
					return v, context.Cause(ctx)
				}
				v.sorted = v.sorted && t >= last
				last, c.last = t, t
				continue
			}
		}
		row, err := v.header.next(s)
		if err == io.EOF {
			if v.rows == 0 && v.header.swallowed() {
				return v, fmt.Errorf("the header: %w", errNoLineFeeds)
			}
			v.sum = sum.sum.Sum32()
			return v, nil
		}
		if err != nil {
			return v, err
		}
		if v.rows++; v.rows%checkEvery == 0 && ctx.Err() != nil {
			return v, context.Cause(ctx)
		}
		t, own := c.read(row)
		if own && !v.timed {
			v.first, v.timed = t, true
			if fallback == nil {
				last = t
			}
		}
		if t < last {
			v.sorted = false
		}
		last = t
		if row.Bad == errOpenQuote || row.Bad == errCutShort {
			v.torn = &torn{row: row.Number, offset: row.Offset, err: row.Bad}
		}
	}
}

// glanceAt takes the time stamp of the next row, if it is plain to see.
func glanceAt(s *Scanner, column int) (int64, bool) {
	mark := *s
	row, ok := s.glance()
	if !ok {
		return 0, false
	}
	t, ok := parseStamp(quotedCell(row, column))
	if !ok {
		s.begin, s.offset, s.number = mark.begin, mark.offset, mark.number
	}
	return t, ok
}

// next is the next row under the header. The last of a file is cut short when
// neither a line feed nor all its cells are there, or nothing is behind a comma.
func (h *header) next(s *Scanner) (*Row, error) {
	row, err := s.Next()
	if err == nil {
		h.judge(row)
	}
	return row, err
}

func (h *header) judge(row *Row) {
	if row.ended || row.Bad != nil {
		return
	}
	if len(row.cells) < len(h.names) || row.raw[len(row.raw)-1] == ',' {
		row.Bad = errCutShort
	}
}

// sequence gives the rows of a file in time order.
type sequence interface {
	// next returns a row, its time, and whether the time is the row's own.
	next() (row *Row, t int64, own bool, err error)
	close()
}

// asItStands reads a file whose rows are in order, and watches that they are.
type asItStands struct {
	s     *Scanner
	h     *header
	clock clock
	any   bool // order does not matter
	last  int64
}

// errDisorder is a row that is older than the one before it, in a file that
// seemed to be in order.
var errDisorder = errors.New("the rows are not in order")

func newAsItStands(b body, h *header, limit int, fallback int64) (*asItStands, error) {
	s := NewScanner(b.reader(), limit)
	if _, err := s.Header(); err != nil {
		return nil, err
	}
	return &asItStands{s: s, h: h, clock: h.clock(fallback), last: math.MinInt64}, nil
}

func (a *asItStands) next() (*Row, int64, bool, error) {
	row, err := a.h.next(a.s)
	if err != nil {
		return nil, 0, false, err
	}
	t, own := a.clock.read(row)
	if t < a.last && !a.any {
		return nil, 0, false, errDisorder
	}
	a.last = t
	return row, t, own, nil
}

func (a *asItStands) close() {}
