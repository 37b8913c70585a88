package fnmatch

import (
	"path"
	"strings"
	"testing"
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

// FuzzMatch compares with path.Match where the two mean the same.
func FuzzMatch(f *testing.F) {
	f.Add("a*b?[c-e]", "axxbzd")
	f.Add("[!a]*", "b")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		p, err := Compile(pattern)
		if err != nil {
			return
		}
		got := p.Match(name)
		if strings.ContainsAny(pattern, `\^/[`) || strings.Contains(name, "/") {
			return
		}
		if want, err := path.Match(pattern, name); err == nil && got != want {
			t.Fatalf("%q matches %q: %v", pattern, name, got)
		}
	})
}
