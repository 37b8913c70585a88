package record

import (
	"bytes"
	"iter"
	"unicode/utf8"
)

// What is in this file works on JSON that a scanner has checked, or that this
// package wrote.

// members yields the name, unescaped, and the value of each member of obj.
func members(obj []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for p := blank(obj, 1); obj[p] != '}'; {
			end := valueEnd(obj, p)
			name := obj[p+1 : end-1]
			if bytes.IndexByte(name, '\\') >= 0 || !utf8.Valid(name) {
				s, _ := unquote(obj[p:end])
				name = []byte(s)
			}
			p = blank(obj, blank(obj, end)+1) // behind the colon
			end = valueEnd(obj, p)
			if !yield(name, obj[p:end:end]) {
				return
			}
			if p = blank(obj, end); obj[p] == ',' {
				p = blank(obj, p+1)
			}
		}
	}
}

// elements yields the values of an array.
func elements(array []byte) iter.Seq[[]byte] {
	return func(yield func(value []byte) bool) {
		for p := blank(array, 1); array[p] != ']'; {
			end := valueEnd(array, p)
			if !yield(array[p:end:end]) {
				return
			}
			if p = blank(array, end); array[p] == ',' {
				p = blank(array, p+1)
			}
		}
	}
}

// blank skips white space.
func blank(b []byte, p int) int {
	for b[p] <= ' ' {
		p++
	}
	return p
}

// valueEnd returns the position behind the value that begins at p.
func valueEnd(b []byte, p int) int {
	depth := 0
	for {
		switch b[p] {
		case '"':
			p = stringEnd(b, p)
		case '{', '[':
			depth++
			p++
			continue
		case '}', ']':
			depth--
			p++
		case ' ', '\t', '\n', '\r', ',', ':':
			p++
			continue
		default:
			for p < len(b) && !delimits(b[p]) {
				p++
			}
		}
		if depth == 0 {
			return p
		}
	}
}

// stringEnd returns the position behind the string that begins at p.
func stringEnd(b []byte, p int) int {
	for p++; ; p++ {
		p += bytes.IndexByte(b[p:], '"')
		slashes := 0
		for b[p-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return p + 1
		}
	}
}

func delimits(c byte) bool {
	return c <= ' ' || c == ',' || c == '}' || c == ']' || c == ':'
}

// appendCompact appends value without the white space that means nothing, and
// with U+FFFD for what is not UTF-8.
func appendCompact(dst, value []byte) []byte {
	if !utf8.Valid(value) {
		value = appendValid(nil, value)
	}
	for p := 0; p < len(value); {
		switch c := value[p]; {
		case c == '"':
			end := stringEnd(value, p)
			dst = append(dst, value[p:end]...)
			p = end
		case c <= ' ':
			p++
		default:
			dst = append(dst, c)
			p++
		}
	}
	return dst
}

// unquote returns the text of a JSON string; null is an empty one.
func unquote(value []byte) (string, bool) {
	switch value[0] {
	case 'n':
		return "", true
	case '"':
	default:
		return "", false
	}
	s := scanner{win: make([]byte, len(value)+pad), text: make([]byte, len(value)+2*pad)}
	copy(s.win, value)
	text, _, err := s.str(1)
	return string(text), err == nil
}
