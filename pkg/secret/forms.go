package secret

import (
	"html"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// window bounds how long one character can be in any form, in bytes.
	window = 64
	// levels is how often a character may have been escaped.
	levels = 3
)

// form is one way to read what stands at a place: a character, and how many
// bytes of the text it takes.
type form struct {
	char string
	n    int
}

// escapes are the bytes that an escaped character begins with.
const escapes = `\%&+`

// formsAt adds to list all ways to read what stands in text at i: as it is, and
// with one level of escapes after the other taken away.
func formsAt(list []form, text string, i int) []form {
	text = text[i:min(len(text), i+window)]
	list = appendForm(list, form{text[:1], 1})
	if strings.IndexByte(escapes, text[0]) < 0 {
		return list
	}
	ends := make([]int, len(text)) // where in the text each byte's character ends
	for i := range ends {
		ends[i] = i + 1
	}
	for range levels {
		char, n := unescape(text)
		if n == 1 && strings.IndexByte(escapes, char[0]) < 0 {
			break
		}
		list = appendForm(list, form{char, ends[n-1]})
		text, ends = unescapeAll(text, ends)
	}
	return list
}

// appendForm adds f, and what it may stand for: forms of the web have a plus
// for each space.
func appendForm(list []form, f form) []form {
	for _, old := range list {
		if old == f {
			return list
		}
	}
	list = append(list, f)
	if f.char == "+" {
		list = append(list, form{" ", f.n})
	}
	return list
}

// unescapeAll takes one level of escapes away.
func unescapeAll(text string, ends []int) (string, []int) {
	var b strings.Builder
	var to []int
	for i := 0; i < len(text); {
		char, n := unescape(text[i:])
		b.WriteString(char)
		for range len(char) {
			to = append(to, ends[i+n-1])
		}
		i += n
	}
	return b.String(), to
}

// unescape reads the character that text begins with, and tells how many bytes
// it takes.
func unescape(text string) (char string, n int) {
	switch text[0] {
	case '\\':
		return unescapeBackslash(text)
	case '%':
		if b, ok := hexByte(text, 1); ok {
			return b, 3
		}
	case '&':
		return unescapeEntity(text)
	}
	return text[:1], 1
}

// unescapeEntity knows those of HTML, and thereby those of XML.
func unescapeEntity(text string) (char string, n int) {
	for n = 1; n < min(len(text), 16) && (alphanumeric(text[n]) || text[n] == '#'); n++ {
	}
	if n < len(text) && text[n] == ';' {
		if char := html.UnescapeString(text[:n+1]); char[0] != '&' || char == "&" {
			return char, n + 1
		}
	}
	return text[:1], 1
}

// unescapeBackslash knows the escapes of JSON, and those of Go's and other
// languages' quotes.
func unescapeBackslash(text string) (char string, n int) {
	if len(text) < 2 {
		return text[:1], 1
	}
	switch c := text[1]; {
	case c == 'x':
		if b, ok := hexByte(text, 2); ok {
			return b, 4
		}
	case c == 'u':
		r, ok := hexRune(text)
		if !ok {
			break
		}
		if low, ok := hexRune(text[6:]); ok && utf16.IsSurrogate(r) {
			if whole := utf16.DecodeRune(r, low); whole != utf8.RuneError {
				return string(whole), 12
			}
		}
		return string(r), 6
	case strings.IndexByte(controls, c) >= 0:
		i := strings.IndexByte(controls, c)
		return "\b\f\n\r\t"[i : i+1], 2
	case c > ' ' && c < utf8.RuneSelf && !alphanumeric(c):
		return text[1:2], 2
	}
	return text[:1], 1
}

// controls are the letters that stand for control characters.
const controls = "bfnrt"

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

func hexByte(text string, at int) (string, bool) {
	if len(text) < at+2 {
		return "", false
	}
	v, err := strconv.ParseUint(text[at:at+2], 16, 8)
	return string([]byte{byte(v)}), err == nil
}

func hexRune(text string) (rune, bool) {
	if len(text) < 6 || text[:2] != `\u` {
		return 0, false
	}
	v, err := strconv.ParseUint(text[2:6], 16, 16)
	return rune(v), err == nil
}
