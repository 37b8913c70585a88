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
func AppendEscaped(dst, s []byte) []byte {
	from := len(dst)
	out, n, seen := dst[:cap(dst)], from, uint64(0)
	for len(s) >= 8 {
		if len(out)-n < len(s)+8 {
			out = grow(out, n, len(s))
		}
		x := binary.LittleEndian.Uint64(s)
		binary.LittleEndian.PutUint64(out[n:], x)
		seen |= x
		m := special(x)
		if m == 0 {
			n += 8
			s = s[8:]
			continue
		}
		i := bits.TrailingZeros64(m) >> 3
		n += i
		n += escape(out[n:], s[i])
		s = s[i+1:]
	}
	for i, c := range s {
		if len(out)-n < len(s)-i+8 {
			out = grow(out, n, len(s)-i)
		}
		seen |= uint64(c)
		if c < ' ' || c == '"' || c == '\\' {
			n += escape(out[n:], c)
			continue
		}
		out[n] = c
		n++
	}
	if seen&tops != 0 && !utf8.Valid(out[from:n]) {
		return append(out[:from], appendValid(nil, out[from:n])...)
	}
	return out[:n]
}

// grow returns out with room behind its first n bytes for some bytes more, and
// a good deal of escapes among them.
func grow(out []byte, n, more int) []byte {
	out = slices.Grow(out[:n], more+more/4+64)
	return out[:cap(out)]
}

// escape writes c, escaped, to out, which has room for six bytes.
func escape(out []byte, c byte) int {
	if e := escapes[c]; e != 0 {
		out[0], out[1] = '\\', e
		return 2
	}
	return copy(out, []byte{'\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15]})
}

const hexDigits = "0123456789abcdef"

// escapes holds the letter that stands for a byte behind a backslash.
var escapes = [256]byte{
	'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't',
}
