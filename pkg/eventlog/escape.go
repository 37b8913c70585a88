package eventlog

import "unicode/utf8"

// The text of a cell stands inside a JSON string (the line) that itself stands
// inside a JSON string (the record), so everything is escaped twice, in one
// pass over the cell.
const hexDigits = "0123456789abcdef"

// plain marks the bytes that need no escape and are a whole character.
var plain = func() (t [256]bool) {
	for c := 0x20; c < 0x80; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// appendTwice appends text escaped twice. Each byte that is no UTF-8 becomes
// U+FFFD. With doubled, two quotes in a row are one.
func appendTwice(dst, text []byte, doubled bool) []byte {
	for i := 0; i < len(text); {
		start := i
		for i < len(text) && plain[text[i]] {
			i++
		}
		dst = append(dst, text[start:i]...)
		if i == len(text) {
			break
		}
		if c := text[i]; c < utf8.RuneSelf {
			dst = appendSpecial(dst, c)
			i++
			if c == '"' && doubled {
				i++
			}
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, "\uFFFD"...)
		} else {
			dst = append(dst, text[i:i+size]...)
		}
		i += size
	}
	return dst
}

func appendSpecial(dst []byte, c byte) []byte {
	switch c {
	case '"':
		return append(dst, `\\\"`...)
	case '\\':
		return append(dst, `\\\\`...)
	case '\n':
		return append(dst, `\\n`...)
	case '\r':
		return append(dst, `\\r`...)
	case '\t':
		return append(dst, `\\t`...)
	}
	return append(dst, '\\', '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}
