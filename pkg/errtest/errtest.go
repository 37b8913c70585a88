// Package errtest judges the errors that parsers make of foreign input.
package errtest

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// maxText is more than a parser has to say, with a quoted piece of its input.
const maxText = 2000

// OneLine fails unless the text of err is one line that a terminal may show,
// and bounded whatever the input was.
func OneLine(t testing.TB, err error) {
	t.Helper()
	text := err.Error()
	control := strings.IndexFunc(text, unicode.IsControl)
	if text == "" || len(text) > maxText || control >= 0 || !utf8.ValidString(text) {
		t.Fatalf("an error of %d bytes, control character at %d: %.200q", len(text), control, text)
	}
}
