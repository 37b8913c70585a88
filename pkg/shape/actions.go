package shape

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// appendHash appends the first 16 hexadecimal digits of the SHA-256 of salt
// and text.
func appendHash(dst, salt, text []byte) []byte {
	at := len(dst)
	dst = append(append(dst, salt...), text...)
	sum := sha256.Sum256(dst[at:])
	return hex.AppendEncode(dst[:at], sum[:8])
}

// appendMask appends what may be seen of text: of an address its domain, of an
// IPv4 address its network, of anything else nothing.
func appendMask(dst, text []byte) []byte {
	if at := bytes.IndexByte(text, '@'); at >= 0 {
		return append(append(dst, "***@"...), text[at+1:]...)
	}
	if isIPv4(text) {
		return append(append(dst, text[:bytes.LastIndexByte(text, '.')]...), ".x"...)
	}
	return append(dst, "***"...)
}

// isIPv4 tells whether text is four numbers up to 255, without leading zeros.
func isIPv4(text []byte) bool {
	for part := 1; ; part++ {
		n, digits := 0, 0
		for digits < len(text) && digits < 4 && text[digits] >= '0' && text[digits] <= '9' {
			n = n*10 + int(text[digits]-'0')
			digits++
		}
		if digits == 0 || n > 255 || digits > 1 && text[0] == '0' {
			return false
		}
		text = text[digits:]
		if part == 4 {
			return len(text) == 0
		}
		if len(text) == 0 || text[0] != '.' {
			return false
		}
		text = text[1:]
	}
}

// compileTemplate turns a replacement into a template of package regexp. Groups
// are \1, \g<1>, \g<name>, $1, ${1} and ${name}; \n, \t and \\ are what they
// are elsewhere, and $$ is one $.
func compileTemplate(text string, re *regexp.Regexp) ([]byte, error) {
	var out []byte
	for text != "" {
		i := strings.IndexAny(text, `\$`)
		if i < 0 {
			return append(out, text...), nil
		}
		out = append(out, text[:i]...)
		lead := text[i]
		text = text[i+1:]
		group, rest := groupAt(lead, text)
		if group == "" {
			literal, size, err := literalAt(lead, text)
			if err != nil {
				return nil, err
			}
			out, text = append(out, literal...), text[size:]
			continue
		}
		if err := checkGroup(group, re); err != nil {
			return nil, err
		}
		out = append(append(append(out, "${"...), group...), '}')
		text = rest
	}
	return out, nil
}

// groupAt is the group that text names behind its lead; empty: it names none.
func groupAt(lead byte, text string) (group, rest string) {
	opening, closing := "{", "}"
	if lead == '\\' {
		opening, closing = "g<", ">"
	}
	if inner, ok := strings.CutPrefix(text, opening); ok {
		if group, rest, ok := strings.Cut(inner, closing); ok {
			return group, rest
		}
	}
	n := 0
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	return text[:n], text[n:]
}

// literalAt is what a lead means that names no group, and how much of the text
// behind it belongs to it. A $ of a template is doubled.
func literalAt(lead byte, text string) (literal string, size int, err error) {
	if lead == '$' {
		if strings.HasPrefix(text, "$") {
			return "$$", 1, nil
		}
		return "$$", 0, nil
	}
	if text == "" {
		return "", 0, fmt.Errorf(`a \ at its end`)
	}
	switch text[0] {
	case '\\':
		return `\`, 1, nil
	case 'n':
		return "\n", 1, nil
	case 't':
		return "\t", 1, nil
	}
	return "", 0, fmt.Errorf(`\%c means nothing; a \ is written \\`, []rune(text)[0])
}

func checkGroup(group string, re *regexp.Regexp) error {
	if n, err := strconv.Atoi(group); err == nil && n <= re.NumSubexp() {
		return nil
	}
	if slices.Contains(re.SubexpNames()[1:], group) {
		return nil
	}
	return fmt.Errorf("the pattern has no group %s", group)
}
