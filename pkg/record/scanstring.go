package record

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	ones = 0x0101010101010101
	tops = 0x8080808080808080
)

// special marks, in the top bit of each byte, the quotes, backslashes and
// control characters among eight bytes. Marks above the lowest may be false.
func special(x uint64) uint64 {
	quote, slash := x^ones*'"', x^ones*'\\'
	return ((quote-ones)&^quote | (slash-ones)&^slash | (x-ones*' ')&^x) & tops
}

// Most strings that hold backslashes are JSON themselves, and most of their
// backslashes stand in joints: \":\" or \",\" between two strings. A joint is
// taken in one step.
const (
	jointColon = '\\' | '"'<<8 | ':'<<16 | '\\'<<24 | '"'<<32
	jointComma = '\\' | '"'<<8 | ','<<16 | '\\'<<24 | '"'<<32
	jointMask  = 1<<40 - 1
	jointSize  = 5
)

// joint tells whether eight bytes begin with a joint.
func joint(x uint64) bool {
	x &= jointMask
	return x == jointColon || x == jointComma
}

// str reads the string whose opening quote is before p. The result lies in
// the input where it needs no change.
func (s *scanner) str(p int) ([]byte, int, error) {
	start, seen := p, uint64(0)
	for {
		x := binary.LittleEndian.Uint64(s.win[p:])
		seen |= x
		m := special(x)
		if m == 0 {
			p += 8
			continue
		}
		p += bits.TrailingZeros64(m) >> 3
		switch s.win[p] {
		case '"':
			v := s.win[start:p:p]
			if seen&tops != 0 {
				v = s.fix(v)
			}
			return v, p + 1, nil
		case '\\':
			return s.unescape(start, p, seen)
		}
		return nil, p, s.syntax(p, "is raw inside a string")
	}
}

// unescape is str for a string with its first backslash at p.
func (s *scanner) unescape(start, p int, seen uint64) ([]byte, int, error) {
	win, out, from := s.win, s.text, s.used
	n := from + copy(out[from:], win[start:p])
	for {
		switch c := win[p]; c {
		case '"':
			s.used = n
			v := out[from:n:n]
			if seen&tops != 0 {
				v = s.fix(v)
			}
			return v, p + 1, nil
		case '\\':
			if joint(binary.LittleEndian.Uint64(win[p:])) {
				out[n], out[n+1], out[n+2] = '"', win[p+2], '"'
				n += 3
				p += jointSize
				break
			}
			if e := unescaped[win[p+1]]; e != 0 {
				out[n] = e
				n++
				p += 2
				break
			}
			width, size := s.unicode(p, out[n:])
			if width == 0 {
				return nil, p, s.syntax(p+1, "after a backslash")
			}
			n += size
			p += width
		default:
			return nil, p, s.syntax(p, "is raw inside a string")
		}
		for {
			x := binary.LittleEndian.Uint64(win[p:])
			binary.LittleEndian.PutUint64(out[n:], x)
			seen |= x
			if m := special(x); m != 0 {
				i := bits.TrailingZeros64(m) >> 3
				p += i
				n += i
				break
			}
			p += 8
			n += 8
		}
	}
}

// skipString goes behind the string whose opening quote is before p.
func (s *scanner) skipString(p int) (int, error) {
	for {
		m := special(binary.LittleEndian.Uint64(s.win[p:]))
		if m == 0 {
			p += 8
			continue
		}
		p += bits.TrailingZeros64(m) >> 3
		switch s.win[p] {
		case '"':
			return p + 1, nil
		case '\\':
			if joint(binary.LittleEndian.Uint64(s.win[p:])) {
				p += jointSize
				continue
			}
			if unescaped[s.win[p+1]] != 0 {
				p += 2
				continue
			}
			if _, ok := hex4(s.win, p); !ok {
				return p, s.syntax(p+1, "after a backslash")
			}
			p += 6
		default:
			return p, s.syntax(p, "is raw inside a string")
		}
	}
}

// unescaped holds what a backslash and one letter stand for.
var unescaped = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// unicode decodes the escape at p into out, a pair of surrogates as one. It
// returns the bytes taken and written; no bytes taken is a fault.
func (s *scanner) unicode(p int, out []byte) (width, size int) {
	r, ok := hex4(s.win, p)
	if !ok {
		return 0, 0
	}
	width = 6
	if utf16.IsSurrogate(r) {
		low, _ := hex4(s.win, p+6)
		if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
			width = 12
		}
	}
	return width, utf8.EncodeRune(out, r)
}

// hex4 reads the escape \uXXXX at p. A window always ends in bytes enough, and
// a line feed among them stops it.
func hex4(win []byte, p int) (rune, bool) {
	if win[p] != '\\' || win[p+1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range win[p+2 : p+6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// fix replaces what is not UTF-8.
func (s *scanner) fix(v []byte) []byte {
	if utf8.Valid(v) {
		return v
	}
	from := len(s.fixed)
	s.fixed = appendValid(s.fixed, v)
	return s.fixed[from:len(s.fixed):len(s.fixed)]
}

// appendValid appends s with U+FFFD for each byte that is not UTF-8.
func appendValid(dst, s []byte) []byte {
	for len(s) > 0 {
		r, size := utf8.DecodeRune(s)
		dst = utf8.AppendRune(dst, r)
		s = s[size:]
	}
	return dst
}
