package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"

	"sf2loki/pkg/record"
)

var (
	errJSON   = errors.New("not a JSON object")
	errNested = errors.New("nested too deeply")
)

// scanObject checks the JSON object at the beginning of b and calls member,
// when there is one, with the texts of each name (quotes and all) and value. It
// returns the length of the object.
func scanObject(b []byte, depth int, member func(name, value []byte)) (int, error) {
	if len(b) == 0 || b[0] != '{' {
		return 0, errJSON
	}
	if depth >= record.MaxDepth {
		return 0, errNested
	}
	i := skipSpace(b, 1)
	if i < len(b) && b[i] == '}' {
		return i + 1, nil
	}
	for {
		name := i
		nameEnd := scanString(b, name)
		if nameEnd < 0 {
			return 0, errJSON
		}
		i = skipSpace(b, nameEnd)
		if i >= len(b) || b[i] != ':' {
			return 0, errJSON
		}
		value := skipSpace(b, i+1)
		end, err := scanValue(b, value, depth)
		if err != nil {
			return 0, err
		}
		if member != nil {
			member(b[name:nameEnd], b[value:end])
		}
		more := false
		if i, more = afterElement(b, end, '}'); i < 0 {
			return 0, errJSON
		}
		if !more {
			return i, nil
		}
	}
}

// scanArray checks the array at b[i:] and returns the index behind it.
func scanArray(b []byte, i, depth int) (int, error) {
	if depth >= record.MaxDepth {
		return 0, errNested
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == ']' {
		return i + 1, nil
	}
	for {
		end, err := scanValue(b, i, depth)
		if err != nil {
			return 0, err
		}
		more := false
		if i, more = afterElement(b, end, ']'); i < 0 {
			return 0, errJSON
		}
		if !more {
			return i, nil
		}
	}
}

// afterElement finds the comma, and behind it the next element, or the end.
func afterElement(b []byte, i int, end byte) (next int, more bool) {
	i = skipSpace(b, i)
	switch {
	case i >= len(b):
		return -1, false
	case b[i] == ',':
		return skipSpace(b, i+1), true
	case b[i] == end:
		return i + 1, false
	}
	return -1, false
}

// scanValue checks the value at b[i:] and returns the index behind it.
func scanValue(b []byte, i, depth int) (int, error) {
	if i >= len(b) {
		return 0, errJSON
	}
	end := -1
	switch c := b[i]; {
	case c == '"':
		end = scanString(b, i)
	case c == '{':
		n, err := scanObject(b[i:], depth+1, nil)
		return i + n, err
	case c == '[':
		return scanArray(b, i, depth+1)
	case c == 't':
		end = scanWord(b, i, "true")
	case c == 'f':
		end = scanWord(b, i, "false")
	case c == 'n':
		end = scanWord(b, i, "null")
	default:
		end = scanNumber(b, i)
	}
	if end < 0 {
		return 0, errJSON
	}
	return end, nil
}

func scanWord(b []byte, i int, word string) int {
	if len(b)-i >= len(word) && string(b[i:i+len(word)]) == word {
		return i + len(word)
	}
	return -1
}

func scanNumber(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	start := i
	i = digitsEnd(b, i)
	if i == start || b[start] == '0' && i-start > 1 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		start = i + 1
		if i = digitsEnd(b, start); i == start {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if start = i + 1; start < len(b) && (b[start] == '+' || b[start] == '-') {
			start++
		}
		if i = digitsEnd(b, start); i == start {
			return -1
		}
	}
	return i
}

func digitsEnd(b []byte, i int) int {
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	return i
}

// scanString checks the string at b[i:] and returns the index behind its
// closing quote, or -1.
func scanString(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	for i = skipWords(b, i+1); i < len(b); i = skipWords(b, i) {
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return -1
		case c != '\\':
			i++
			continue
		}
		n := escapeLen(b[i+1:])
		if n < 0 {
			return -1
		}
		i += 1 + n
	}
	return -1
}

const (
	ones = 0x0101010101010101
	tops = 0x8080808080808080
)

// skipWords passes over the inside of a string, eight bytes at a time, as far
// as they stand for themselves or are escaped quotes, of which a line that is
// JSON has many. It returns the index of the byte or escape to look at.
func skipWords(b []byte, i int) int {
	escaped := uint64(0) // marks the first byte if a backslash stands before it
	for ; len(b)-i >= 8; i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		quotes := zeros(x ^ ones*'"')
		slashes := zeros(x^ones*'\\') &^ escaped
		after := slashes<<8 | escaped
		if stop := zeros(x&(ones*0xe0)) | slashes&after | (quotes ^ after); stop != 0 {
			first := stop & -stop
			i += bits.TrailingZeros64(first) >> 3
			escaped = after & first
			break
		}
		escaped = slashes >> 56
	}
	if escaped != 0 {
		return i - 1
	}
	return i
}

// zeros marks, in the top bit of each of eight bytes, those that are zero.
func zeros(x uint64) uint64 { return ^((x&^tops + ^uint64(tops)) | x) & tops }

// escapeLen is the length of what follows a backslash, -1 for what may not.
func escapeLen(b []byte) int {
	if len(b) == 0 {
		return -1
	}
	switch b[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 1
	case 'u':
		if len(b) >= 5 && hexDigits(b[1:5]) {
			return 5
		}
	}
	return -1
}

func hexDigits(b []byte) bool {
	for _, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return true
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// text is the string that a checked JSON string stands for; anything else is
// not ok. It may alias its argument.
func text(value []byte) (s []byte, ok bool) {
	if len(value) < 2 || value[0] != '"' {
		return nil, false
	}
	inside := value[1 : len(value)-1]
	if bytes.IndexByte(inside, '\\') < 0 {
		return inside, true
	}
	return unescape(make([]byte, 0, len(inside)), inside), true
}

// unescape appends what the inside of a checked JSON string stands for.
func unescape(dst, s []byte) []byte {
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:i]...)
		c := s[i+1]
		s = s[i+2:]
		if c != 'u' {
			dst = append(dst, plain(c))
			continue
		}
		r := hexRune(s)
		s = s[4:]
		if utf16.IsSurrogate(r) {
			low := rune(0)
			if len(s) >= 6 && s[0] == '\\' && s[1] == 'u' {
				low = hexRune(s[2:])
			}
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				s = s[6:]
			}
		}
		dst = utf8.AppendRune(dst, r)
	}
}

func plain(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

func hexRune(s []byte) (r rune) {
	for _, c := range s[:4] {
		r <<= 4
		switch {
		case c <= '9':
			r |= rune(c - '0')
		default:
			r |= rune(c|0x20-'a') + 10
		}
	}
	return r
}

// eachMember calls fn for the members of an object that has been checked; names
// come unquoted.
func eachMember(object []byte, fn func(name, value []byte)) {
	if len(object) == 0 || object[0] != '{' {
		return
	}
	// The error is impossible: the object has been checked.
	_, _ = scanObject(object, 0, func(name, value []byte) {
		if plain, ok := text(name); ok {
			fn(plain, value)
		}
	})
}

// member is the text of one member's value: the last of that name, as in every
// other reader of JSON here.
func member(object []byte, name string) (value []byte) {
	eachMember(object, func(n, v []byte) {
		if string(n) == name {
			value = v
		}
	})
	return value
}
