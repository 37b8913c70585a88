package record

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// AppendString appends s as a JSON string with its quotes.
func AppendString(dst, s []byte) []byte {
	return append(AppendEscaped(append(dst, '"'), s), '"')
}

// AppendEscaped appends s as the inside of a JSON string. What is not UTF-8
// becomes U+FFFD; what JSON does not oblige to escape stays as it is.
func AppendEscaped(dst, s []byte) []byte { return appendEscaped(dst, s, &once) }

// AppendTwice appends s escaped as the inside of a JSON string that stands
// inside another: the value of a line. It is AppendEscaped, twice.
func AppendTwice(dst, s []byte) []byte { return appendEscaped(dst, s, &twice) }

// appendEscaped looks at eight bytes at a time, or what is left, and copies them
// before it knows whether all of them stay.
func appendEscaped(dst, s []byte, escapes *escapeTable) []byte {
	from := len(dst)
	out, n, seen := dst[:cap(dst)], from, uint64(0)
	for len(s) > 0 {
		if len(out)-n < len(s)+8 {
			out = grow(out, n, len(s))
		}
		x, size := word(s)
		binary.LittleEndian.PutUint64(out[n:], x)
		seen |= x
		if i := bits.TrailingZeros64(special(x)) >> 3; i < size {
			n += i
			n += escapes.put(out[n:], s[i])
			s = s[i+1:]
			continue
		}
		n += size
		s = s[size:]
	}
	if seen&tops != 0 && !utf8.Valid(out[from:n]) {
		return append(out[:from], appendValid(nil, out[from:n])...)
	}
	return out[:n]
}

// word is the first bytes of s, eight if there are so many, and how many.
func word(s []byte) (uint64, int) {
	n := len(s)
	switch {
	case n >= 8:
		return binary.LittleEndian.Uint64(s), 8
	case n >= 4: // twice four, which overlap
		return uint64(binary.LittleEndian.Uint32(s)) | uint64(binary.LittleEndian.Uint32(s[n-4:]))<<(8*(n-4)), n
	case n >= 2:
		return uint64(binary.LittleEndian.Uint16(s)) | uint64(binary.LittleEndian.Uint16(s[n-2:]))<<(8*(n-2)), n
	}
	return uint64(s[0]), n
}

// grow returns out with room behind its first n bytes for some bytes more, and
// a good deal of escapes among them.
func grow(out []byte, n, more int) []byte {
	out = slices.Grow(out[:n], more+more/4+64)
	return out[:cap(out)]
}

// escapeTable holds what is written for each byte.
type escapeTable [256]struct {
	text uint64 // eight bytes, of which size count
	size int
}

var once, twice = newEscapes(1), newEscapes(2)

// put writes what stands for c to out, which has room for eight bytes.
func (t *escapeTable) put(out []byte, c byte) int {
	e := &t[c]
	binary.LittleEndian.PutUint64(out, e.text)
	return e.size
}

func newEscapes(times int) (t escapeTable) {
	for c := range t {
		text := []byte{byte(c)}
		for range times {
			var escaped []byte
			for _, b := range text {
				escaped = appendEscape(escaped, b)
			}
			text = escaped
		}
		var word [8]byte
		t[c].size = copy(word[:], text)
		t[c].text = binary.LittleEndian.Uint64(word[:])
	}
	return t
}

func appendEscape(dst []byte, c byte) []byte {
	switch letter := letters[c]; {
	case letter != 0:
		return append(dst, '\\', letter)
	case c < ' ':
		return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
	}
	return append(dst, c)
}

const hexDigits = "0123456789abcdef"

// letters holds the letter that stands for a byte behind a backslash.
var letters = [256]byte{
	'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't',
}
