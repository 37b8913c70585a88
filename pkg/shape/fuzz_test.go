package shape

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// Rules are refused, or turn every row into one of the same
// fields, less those that they drop.
func FuzzTransforms(f *testing.F) {
	for _, s := range []string{
		"eventlogfile:\n- {action: hash, fields: [A]}\n- {action: mask, fields: [B]}\n- {action: drop_field, fields: [C]}\n", "eventlogfile: [{action: drop_row, match: {A: 'x*', B: '[!y]'}}]",
		"eventlogfile: [{name: r, action: regex_replace, fields: [A, B], pattern: '(?P<n>a+)(b)?', replacement: '\\g<n>-$2\\\\\\t'}]", "eventlogfile: [{action: regex_replace, fields: [A], pattern: '('}]",
		"eventlogfile: [{action: regex_replace, fields: [A], pattern: a, replacement: '\\1'}]", "eventlogfile: [{action: regex_replace, fields: [A], pattern: a, replacement: '\\'}]", "eventlogfile: [{action: mask, fields: [A], replacement: x}]",
		"eventlogfile: [{action: nothing}]", "eventlogfile: [{fields: [A]}]", "eventlogfile: [{action: mask, fields: ['']}]", "eventlogfile: [{action: drop_row}]", "eventlogfile: [{action: drop_row, match: {A: '[a'}}]",
		"nowhere: []", "eventlogfile: 7", "eventlogfile: [{action: mask, felds: [A]}]", "", "---\n---\n", "{}\n---\n{}", "a: &a [*a]", "eventlogfile: [{name: x, action: mask, fields: [A]}, {name: x, action: mask, fields: [B]}]", "\x00", "\t",
		"\"a\nb\": []",
	} {
		f.Add(s, "xaab", "joe@example.com")
	}
	f.Add("eventlogfile: [{action: mask, fields: [A, B]}]", "10.0.0.255", "010.0.0.1")
	f.Fuzz(func(t *testing.T, rules, a, b string) {
		tr, err := ParseTransforms([]byte(rules), "eventlogfile", []byte("salt"))
		if err != nil {
			return
		}
		s, err := New(Config{Transforms: tr})
		if err != nil {
			t.Fatal(err)
		}
		c := s.Columns([]string{"A", "B", "C"})
		if !c.Take(cells{a, b, "c"}) {
			if !strings.Contains(rules, "drop_row") {
				t.Fatalf("%q drops a row", rules)
			}
			return
		}
		line, _ := json.Marshal(map[string]string{"A": a, "B": b, "C": "c"})
		var was, is map[string]string
		if err := json.Unmarshal(line, &was); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(c.AppendLine(nil, line), &is); err != nil {
			t.Fatalf("%q makes %s of %s: %v", rules, c.AppendLine(nil, line), line, err)
		}
		for name := range was {
			if _, ok := is[name]; ok == tr.drops(name) || ok && !tr.Active() && is[name] != was[name] {
				t.Fatalf("%q makes %v of %v", rules, is, was)
			}
		}
		if len(is) > len(was) {
			t.Fatalf("%q makes %v of %v", rules, is, was)
		}
	})
}

// A template has what its text says: one without groups and escapes is itself.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"plain", "$1-$2", "${n}\\g<n>", "\\1\\2", "$$", "$x", "\\\\\\n\\t", "\\", "\\q", "${", "\\g<", "$99999999999999999999", "${01}", "é$é\\é"} {
		f.Add(s, "aab")
	}
	re := regexp.MustCompile(`(?P<n>a+)(b)?`)
	f.Fuzz(func(t *testing.T, text, row string) {
		template, err := compileTemplate(text, re)
		if err != nil {
			return
		}
		m := re.FindStringSubmatchIndex(row)
		if m == nil {
			return
		}
		out := re.ExpandString(nil, string(template), row, m)
		if !strings.ContainsAny(text, `\$`) && string(out) != text {
			t.Fatalf("%q is written %q", text, out)
		}
		if utf8.ValidString(text) && utf8.ValidString(row) && !utf8.Valid(out) || bytes.Count(out, []byte{'\\'}) > strings.Count(text, `\`)+strings.Count(row, `\`) {
			t.Fatalf("%q is written %q", text, out)
		}
	})
}
