package eventlog

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestAppendTwice(t *testing.T) {
	for in, want := range map[string]string{
		"plain":           `plain`,
		`a"b`:             `a\\\"b`,
		`a\b`:             `a\\\\b`,
		"a\nb\r\t":        `a\\nb\\r\\t`,
		"\x00\x1f\x7f":    "\\\\u0000\\\\u001f\x7f",
		"é\u2028山<>&":     "é\u2028山<>&",
		"\xff\xc3":        "\uFFFD\uFFFD",
		"\xed\xa0\x80":    "\uFFFD\uFFFD\uFFFD",
		"ends in \\":      `ends in \\\\`,
		"\uFFFD as it is": "\uFFFD as it is",
	} {
		if got := string(appendTwice(nil, []byte(in), false)); got != want {
			t.Errorf("%q becomes %s, want %s", in, got, want)
		}
	}
}

// FuzzLine reads back what is written for a row of any two cells.
func FuzzLine(f *testing.F) {
	f.Add([]byte("a\"b\\"), []byte("\n\x00\xff"))
	f.Add([]byte(`"""`), []byte("é\u2028"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		quote := func(cell []byte) string { return `"` + strings.ReplaceAll(string(cell), `"`, `""`) + `"` }
		s := NewScanner(strings.NewReader("A,\"B\"\"\\\"\n"+quote(a)+","+quote(b)+"\n"), 0)
		first, err := s.Header()
		if err != nil {
			t.Fatal(err)
		}
		h := newHeader(first)
		row, err := s.Next()
		if err != nil || row.Bad != nil {
			t.Fatal(err, row.Bad)
		}
		if !bytes.Equal(row.Cell(0), a) || !bytes.Equal(row.Cell(1), b) {
			t.Fatalf("cells %q %q", row.Cell(0), row.Cell(1))
		}
		var line string
		if err := json.Unmarshal(append(append([]byte{'"'}, h.appendLine(nil, row)...), '"'), &line); err != nil {
			t.Fatal(err)
		}
		var got map[string]string
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		valid := func(b []byte) string {
			var out strings.Builder
			for _, r := range string(b) {
				out.WriteRune(r)
			}
			return out.String()
		}
		if got["A"] != valid(a) || got[`B"\`] != valid(b) || len(got) != 2 {
			t.Fatalf("%q and %q became %q", a, b, got)
		}
	})
}
