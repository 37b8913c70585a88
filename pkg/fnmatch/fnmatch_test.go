package fnmatch

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestMatch(t *testing.T) { // Z12
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"*", "/event/a/b", true},
		{"/event/*", "/event/a/b", true},
		{"/event/*", "/data/a", false},
		{"/event/*EventStream", "/event/LoginEventStream", true},
		{"/event/*EventStream", "/event/LoginEventStreams", false},
		{"*Login*Stream", "/event/LoginEventLoginStream", true},
		{"monitoring@*", "monitoring@acme.example", true},
		{"a?c", "abc", true},
		{"a?c", "aäc", true},
		{"a?c", "ac", false},
		{"[abc]", "b", true},
		{"[!abc]", "b", false},
		{"[!abc]", "d", true},
		{"[a-c]x", "bx", true},
		{"[a-c]x", "dx", false},
		{"[!a-c]*", "Apex", true},
		{"[]]", "]", true},
		{"[!]]", "]", false},
		{"[!]]", "a", true},
		{"[!]a]x", "bx", true},
		{"[!]a]x", "]x", false},
		{"[a-]", "-", true},
		{"[-a]", "-", true},
		{"[ä-ü]", "ö", true},
		{"login", "Login", false},
		{"a*b*c", "a-b-b-c-c", true},
		{"a*b*c", "a-b-b-c-d", false},
		{"*[", "[", false},
	} {
		p, err := Compile(c.pattern)
		if err != nil {
			if c.want || !strings.HasSuffix(c.pattern, "[") {
				t.Errorf("%q: %v", c.pattern, err)
			}
			continue
		}
		if got := p.Match(c.name); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.name, got)
		}
	}
}

func TestBadPatterns(t *testing.T) {
	for _, pattern := range []string{"[", "[!", "[]", "[!]", "a[b", "x[]y"} {
		if _, err := Compile(pattern); err == nil {
			t.Errorf("%q is taken", pattern)
		}
	}
}

func TestIsPattern(t *testing.T) {
	for text, want := range map[string]bool{"/event/X__e": false, "*": true, "a?": true, "[x]": true, "": false} {
		if IsPattern(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// FuzzMatch compares with a regular expression of the same meaning.
func FuzzMatch(f *testing.F) {
	f.Add("a*b?[c-e]", "axxbzd")
	f.Add("[!a]*", "b")
	f.Add("[]-a][!]]", "^b")
	f.Add("??*??", "00⃝") // path.Match looks for what follows a * within a character
	f.Fuzz(func(t *testing.T, pattern, name string) {
		p, err := Compile(pattern)
		if err != nil || !utf8.ValidString(pattern) || !utf8.ValidString(name) {
			return
		}
		expr, err := regexp.Compile(expression(pattern))
		if err != nil {
			return // too long a one
		}
		if got, want := p.Match(name), expr.MatchString(name); got != want {
			t.Fatalf("%q matches %q: %v", pattern, name, got)
		}
	})
}

// expression is a pattern that Compile takes as a regular expression.
func expression(pattern string) string {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for rest := []rune(pattern); len(rest) > 0; rest = rest[1:] {
		switch r := rest[0]; r {
		case '*':
			b.WriteString(".*")
		case '?':
			b.WriteByte('.')
		case '[':
			n := utf8.RuneCountInString(string(rest)[:SetEnd(string(rest))])
			b.WriteString(class(rest[1 : n-1]))
			rest = rest[n-1:]
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	b.WriteString(`\z`)
	return b.String()
}

// class is the inside of a set as a class of a regular expression.
func class(set []rune) string {
	not := len(set) > 0 && set[0] == '!'
	if not {
		set = set[1:]
	}
	members := ""
	for len(set) > 0 {
		low, high := set[0], set[0]
		set = set[1:]
		if len(set) > 1 && set[0] == '-' {
			high, set = set[1], set[2:]
		}
		if low <= high {
			members += fmt.Sprintf(`\x{%x}-\x{%x}`, low, high)
		}
	}
	const every = `\x{0}-\x{10ffff}`
	switch {
	case not && members == "":
		return "[" + every + "]"
	case not:
		return "[^" + members + "]"
	case members == "":
		return "[^" + every + "]"
	}
	return "[" + members + "]"
}
