package eventlog

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"

	"sf2loki/pkg/shape"
)

// extraColumn takes the cells beyond the header's last.
const extraColumn = "_extra"

// header is the first row of a file, prepared for writing the lines of the
// others: what stands between two values is one piece of bytes.
type header struct {
	names  []string
	before [][]byte // before[i] closes the value before column i and opens that of column i
	size   int      // of all of them
	extra  []byte   // the same for extraColumn

	extraName string
}

// mostColumns is far more than an event type has: each costs memory for as long
// as the file is read, and so does each cell of a row.
const mostColumns = 10_000

// errNoLineFeeds is for a file that is all header.
var errNoLineFeeds = errors.New("a name holds a carriage return, and nothing follows: lines have to end with a line feed")

// swallowed tells whether the header may be a whole file whose lines end with
// carriage returns alone.
func (h *header) swallowed() bool {
	return slices.ContainsFunc(h.names, func(name string) bool { return strings.Contains(name, "\r") })
}

// newHeader takes the column names from a row. Names that repeat get a number
// that no other column bears: CPU_TIME, CPU_TIME_2.
func newHeader(row *Row) *header {
	h := &header{names: uniqueNames(row)}
	for i, name := range h.names {
		b := opening(name, i == 0)
		h.size += len(b)
		h.before = append(h.before, b)
	}
	taken := make(map[string]bool, len(h.names))
	for _, name := range h.names {
		taken[name] = true
	}
	h.extraName, _ = unique(extraColumn, 0, taken)
	h.extra = opening(h.extraName, false)
	return h
}

// columns are the names of all columns, that of cells beyond the header's last
// being the last.
func (h *header) columns() []string { return append(slices.Clip(h.names), h.extraName) }

func opening(name string, first bool) []byte {
	b := []byte(`\",\"`)
	if first {
		b = []byte(`{\"`)
	}
	b = appendTwice(b, []byte(name), false)
	return append(b, `\":\"`...)
}

func uniqueNames(row *Row) []string {
	names := make([]string, row.Len())
	taken := make(map[string]bool, row.Len())
	for i := range names {
		names[i] = strings.ToValidUTF8(string(row.Cell(i)), "\uFFFD")
		taken[names[i]] = true
	}
	seen := make(map[string]int, len(names)) // with the last number that was given
	for i, name := range names {
		if n := seen[name]; n > 0 {
			names[i], seen[name] = unique(name, n, taken)
			taken[names[i]] = true
		}
		seen[names[i]] = max(1, seen[names[i]])
	}
	return names
}

// unique returns name with the first number after n behind it that is not
// taken; for n = 0 name itself will do.
func unique(name string, n int, taken map[string]bool) (string, int) {
	if n == 0 && !taken[name] {
		return name, 0
	}
	for n = max(n, 1) + 1; taken[name+"_"+strconv.Itoa(n)]; n++ {
	}
	return name + "_" + strconv.Itoa(n), n
}

// index returns the place of a column, or -1.
func (h *header) index(name string) int {
	for i, n := range h.names {
		if n == name {
			return i
		}
	}
	return -1
}

// appendRow appends the row as a flat JSON object, escaped as the inside of a
// JSON string, with what rules made of it.
func (h *header) appendRow(dst []byte, row *Row, edits []shape.Edit) []byte {
	if edits == nil {
		return h.appendLine(dst, row)
	}
	return h.appendEdited(dst, row, edits)
}

// appendEdited is appendLine for a row that rules have changed. There is an edit
// for each column, the extra one included.
func (h *header) appendEdited(dst []byte, row *Row, edits []shape.Edit) []byte {
	begin := len(dst)
	for i := range edits {
		before := h.extra
		if i < len(h.before) {
			before = h.before[i]
		} else if len(row.cells) <= len(h.before) {
			break
		}
		if edits[i].Dropped {
			continue
		}
		if i > 0 && len(dst) == begin { // what was to be the first is not there
			dst = append(dst, '{')
			before = before[len(`\",`):]
		}
		dst = append(dst, before...)
		switch {
		case edits[i].Changed:
			dst = appendTwice(dst, edits[i].Text, false)
		case i == len(h.before):
			dst = h.appendExtraCells(dst, row)
		case i < len(row.cells):
			c := row.cells[i]
			dst = appendTwice(dst, row.raw[c.start:c.end], c.flags&cellDoubled != 0)
		}
	}
	if len(dst) == begin {
		return append(dst, `{}`...)
	}
	return append(dst, `\"}`...)
}

// appendLine appends the row as a flat JSON object, escaped as the inside of
// a JSON string. A row that is too short has empty cells at its end; what it
// has beyond the header is joined by commas in the extra column.
func (h *header) appendLine(dst []byte, row *Row) []byte {
	cells := row.cells[:min(len(row.cells), len(h.before))]
	room := h.size + len(row.raw) // for all that is not escaped
	dst = slices.Grow(dst, room)
	out, n := dst[:cap(dst)], len(dst)
	for i, c := range cells {
		n += copy(out[n:], h.before[i])
		if c.flags == 0 {
			n += copy(out[n:], row.raw[c.start:c.end])
			continue
		}
		dst = appendTwice(out[:n], row.raw[c.start:c.end], c.flags&cellDoubled != 0)
		dst = slices.Grow(dst, room)
		out, n = dst[:cap(dst)], len(dst)
	}
	dst = out[:n]
	for _, before := range h.before[len(cells):] {
		dst = append(dst, before...)
	}
	if len(row.cells) > len(h.before) {
		dst = h.appendExtra(dst, row)
	}
	return append(dst, `\"}`...)
}

func (h *header) appendExtra(dst []byte, row *Row) []byte {
	return h.appendExtraCells(append(dst, h.extra...), row)
}

func (h *header) appendExtraCells(dst []byte, row *Row) []byte {
	for i, c := range row.cells[len(h.before):] {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendTwice(dst, row.raw[c.start:c.end], c.flags&cellDoubled != 0)
	}
	return dst
}

// wideRow is a row with more cells than its header: those are one column.
type wideRow struct {
	row *Row
	h   *header
}

func (w *wideRow) Cell(i int) []byte {
	if i != len(w.h.names) {
		return w.row.Cell(i)
	}
	var text []byte
	for n := i; n < w.row.Len(); n++ {
		if n > i {
			text = append(text, ',')
		}
		text = append(text, w.row.Cell(n)...)
	}
	return text
}

// refused tells why the beginning of a body cannot be that of a file: it is a
// page, or an error that came as if it were the file.
func refused(head []byte) string {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	switch {
	case len(head) == 0:
		return ""
	case head[0] == '<':
		return "the body is HTML or XML"
	case head[0] == '{' || head[0] == '[':
		return "the body is JSON"
	}
	return ""
}
