package feed

import (
	"bytes"
	"errors"
	"unicode/utf16"
	"unicode/utf8"

	"sf2loki/pkg/record"
)

// Row is one record of a query's answer, by its members at the top. What it
// gives is valid until the next Parse.
type Row struct {
	Names  [][]byte // without attributes, in the order of the answer
	values [][]byte // JSON text
	text   []byte   // of the last cell that had to be unescaped
}

var errRow = errors.New("a record of the answer is no JSON object")

var attributes = []byte("attributes")

// Parse takes a record apart. raw must not change while the row is in use.
func (r *Row) Parse(raw []byte) error {
	r.Names, r.values = r.Names[:0], r.values[:0]
	s := scan{raw, 0}
	if !s.take('{') {
		return errRow
	}
	if s.take('}') {
		return s.end()
	}
	for {
		name, ok := s.value()
		if !ok || len(name) < 2 || name[0] != '"' || !s.take(':') {
			return errRow
		}
		value, ok := s.value()
		if !ok {
			return errRow
		}
		if name = name[1 : len(name)-1]; !bytes.Equal(name, attributes) {
			r.Names, r.values = append(r.Names, name), append(r.values, value)
		}
		if s.take(',') {
			continue
		}
		if s.take('}') {
			return s.end()
		}
		return errRow
	}
}

// Index is the number of the column of that name, -1 if there is none.
func (r *Row) Index(name string) int {
	for i, n := range r.Names {
		if string(n) == name {
			return i
		}
	}
	return -1
}

// Raw is the JSON text of a column, nil if there is none.
func (r *Row) Raw(i int) []byte {
	if i < 0 || i >= len(r.values) {
		return nil
	}
	return r.values[i]
}

// Cell is the text of a column: of a string what it says, nothing for null,
// else its JSON.
func (r *Row) Cell(i int) []byte {
	v := r.Raw(i)
	switch {
	case len(v) == 0 || v[0] == 'n':
		return nil
	case v[0] != '"':
		return v
	}
	v = v[1 : len(v)-1]
	if bytes.IndexByte(v, '\\') < 0 {
		return v
	}
	// A fresh slice: the cells of one row are looked at together.
	return appendUnescaped(make([]byte, 0, len(v)), v)
}

// Count is a number of an answer as a count of bytes, say: 0 when it can be none.
func Count(n float64) int64 {
	if n >= 0 && n < 1<<63 {
		return int64(n)
	}
	return 0
}

// Text is the Cell of the column of that name.
func (r *Row) Text(name string) []byte { return r.Cell(r.Index(name)) }

// AppendLine appends the row as a flat JSON object: the fields in the order of
// the answer, compact and without escapes that JSON does not oblige to, numbers
// as they came.
func (r *Row) AppendLine(dst []byte) []byte {
	dst = append(dst, '{')
	for i, name := range r.Names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), name...), '"', ':')
		dst = r.appendValue(dst, r.values[i])
	}
	return append(dst, '}')
}

func (r *Row) appendValue(dst, v []byte) []byte {
	for i := 0; i < len(v); {
		switch c := v[i]; c {
		case '"':
			n := stringLen(v[i:])
			dst = r.appendString(dst, v[i+1:i+n-1])
			i += n
		case ' ', '\t', '\r', '\n':
			i++
		default:
			dst = append(dst, c)
			i++
		}
	}
	return dst
}

func (r *Row) appendString(dst, inside []byte) []byte {
	if bytes.IndexByte(inside, '\\') >= 0 {
		r.text = appendUnescaped(r.text[:0], inside)
		inside = r.text
	}
	return record.AppendString(dst, inside)
}

// scan goes through JSON text.
type scan struct {
	text []byte
	at   int
}

func (s *scan) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// take takes c if it is next.
func (s *scan) take(c byte) bool {
	s.space()
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *scan) end() error {
	s.space()
	if s.at != len(s.text) {
		return errRow
	}
	return nil
}

// value takes one value whole.
func (s *scan) value() ([]byte, bool) {
	s.space()
	from, depth := s.at, 0
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case '"':
			n := stringLen(s.text[s.at:])
			if n == 0 {
				return nil, false
			}
			s.at += n
		case '{', '[':
			depth++
			s.at++
			continue
		case '}', ']':
			if depth == 0 {
				return nil, false
			}
			depth--
			s.at++
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return nil, false
			}
			s.at++
			continue
		default:
			s.literal()
		}
		if depth == 0 {
			return s.text[from:s.at], true
		}
	}
	return nil, false
}

// literal takes a number, true, false or null.
func (s *scan) literal() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ',', ':', '}', ']', '{', '[', '"', ' ', '\t', '\r', '\n':
			return
		}
		s.at++
	}
}

// stringLen is the length of the string literal that s begins with, quotes
// included; 0 when it does not end.
func stringLen(s []byte) int {
	for i := 1; i < len(s); {
		n := bytes.IndexByte(s[i:], '"')
		if n < 0 {
			return 0
		}
		i += n
		back := 0
		for s[i-1-back] == '\\' {
			back++
		}
		i++
		if back%2 == 0 {
			return i
		}
	}
	return 0
}

// appendUnescaped appends what the inside of a string literal says.
func appendUnescaped(dst, s []byte) []byte {
	for len(s) > 0 {
		i := bytes.IndexByte(s, '\\')
		if i < 0 || i+1 >= len(s) {
			return append(dst, s...)
		}
		dst = append(dst, s[:i]...)
		c := s[i+1]
		s = s[i+2:]
		switch c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			var r rune
			r, s = unescapeRune(s)
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// unescapeRune reads the digits behind \u, and the other half of a pair.
func unescapeRune(s []byte) (rune, []byte) {
	r, ok := hex4(s)
	if !ok {
		return utf8.RuneError, s
	}
	s = s[4:]
	if !utf16.IsSurrogate(r) {
		return r, s
	}
	if len(s) >= 6 && s[0] == '\\' && s[1] == 'u' {
		if low, ok := hex4(s[2:]); ok {
			if whole := utf16.DecodeRune(r, low); whole != utf8.RuneError {
				return whole, s[6:]
			}
		}
	}
	return utf8.RuneError, s
}

func hex4(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range s[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
