// Package fnmatch matches names against patterns of the shell's kind, as
// fnmatch(3) without flags does: * stands for any characters, / among them, ?
// for one, [a-c] for one of a set, [!a-c] for one that is not in it.
package fnmatch

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Pattern is a pattern that was found to be one.
type Pattern struct{ text string }

// Compile checks a pattern. A set that does not end is refused: whoever wrote
// it meant something else.
func Compile(text string) (Pattern, error) {
	for rest := text; rest != ""; {
		if rest[0] != '[' {
			rest = rest[1:]
			continue
		}
		end := SetEnd(rest)
		if end < 0 {
			return Pattern{}, fmt.Errorf("pattern %q: a set that begins with [ has no ]", text)
		}
		rest = rest[end:]
	}
	return Pattern{text}, nil
}

// IsPattern tells whether text has a character that stands for others.
func IsPattern(text string) bool { return strings.ContainsAny(text, "*?[") }

func (p Pattern) String() string { return p.text }

// Match reports whether the whole name fits the pattern. Case matters.
func (p Pattern) Match(name string) bool {
	pattern := p.text
	// Where to go on after the last *, when what follows it does not fit.
	var starPattern, starName string
	starred := false
	for name != "" || pattern != "" {
		if pattern != "" && pattern[0] == '*' {
			pattern = pattern[1:]
			starPattern, starName, starred = pattern, name, true
			continue
		}
		if rest, size, ok := one(pattern, name); ok {
			pattern, name = rest, name[size:]
			continue
		}
		if !starred || starName == "" {
			return false
		}
		_, size := utf8.DecodeRuneInString(starName)
		starName = starName[size:]
		pattern, name = starPattern, starName
	}
	return true
}

// one matches one character of name with the beginning of pattern.
func one(pattern, name string) (rest string, size int, ok bool) {
	if pattern == "" || name == "" {
		return "", 0, false
	}
	r, size := utf8.DecodeRuneInString(name)
	switch pattern[0] {
	case '?':
		return pattern[1:], size, true
	case '[':
		end := SetEnd(pattern)
		return pattern[end:], size, inSet(pattern[1:end-1], r)
	}
	want, n := utf8.DecodeRuneInString(pattern)
	return pattern[n:], size, want == r && name[:size] == pattern[:n]
}

// SetEnd tells how long the set is that pattern begins with, which begins with
// [; -1: it has no end. A ] that is its first member does not end it.
func SetEnd(pattern string) int {
	at := 1
	if at < len(pattern) && pattern[at] == '!' {
		at++
	}
	if at >= len(pattern) {
		return -1
	}
	end := strings.IndexByte(pattern[at+1:], ']')
	if end < 0 {
		return -1
	}
	return at + 1 + end + 1
}

// inSet tells whether r is in the set whose inside is given.
func inSet(set string, r rune) bool {
	set, not := strings.CutPrefix(set, "!")
	for set != "" {
		low, n := utf8.DecodeRuneInString(set)
		set = set[n:]
		high := low
		if len(set) > 1 && set[0] == '-' {
			high, n = utf8.DecodeRuneInString(set[1:])
			set = set[1+n:]
		}
		if low <= r && r <= high {
			return !not
		}
	}
	return not
}
