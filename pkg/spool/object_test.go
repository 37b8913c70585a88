package spool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// pieces are what objects go wrong with: escapes that begin and end anywhere in
// a word, quotes, numbers, words and brackets.
var pieces = []string{
	`"`, `\"`, `\\`, `\`, `\n`, `\u00e9`, `\ud83d\ude00`, `\u12`, `\x`, "a", "bc", "defghijk", "é", "😀", "\x01", "\x1f", "\x7f", "\xff", " ", "\t", "/",
	`"a":`, `"b" : `, ",", ":", "{", "}", "[", "]", "0", "-", "1", "01", "12.5", "1e9", "1E+", "-0.0e-1", ".5", "2.", "true", "false", "null", "nul", "{}", "[]", `""`, `"\""`,
}

func randomObject(rng *rand.Rand) []byte {
	var b bytes.Buffer
	b.WriteString("{")
	if rng.IntN(2) == 0 { // nearly right: the inside of a string, or a value
		b.WriteString(`"k":`)
		quoted := rng.IntN(3) > 0
		if quoted {
			b.WriteString(`"` + strings.Repeat("x", rng.IntN(9)))
		}
		for range rng.IntN(12) {
			if p := pieces[rng.IntN(len(pieces))]; !quoted || p != `"` || rng.IntN(20) == 0 {
				b.WriteString(p)
			}
		}
		if quoted {
			b.WriteString(`"`)
		}
	} else {
		for range rng.IntN(12) {
			b.WriteString(pieces[rng.IntN(len(pieces))])
		}
	}
	b.WriteString("}")
	return b.Bytes()
}

// sameAsStandard tells what is wrong about what scanObject makes of a text.
func sameAsStandard(text []byte) string {
	n, err := scanObject(text, 0, nil)
	dec := json.NewDecoder(bytes.NewReader(text))
	var whole json.RawMessage
	stdErr := dec.Decode(&whole)
	object := len(text) > 0 && text[0] == '{'
	switch {
	case err == nil && (stdErr != nil || !object):
		return fmt.Sprintf("%q: taken, and is %v", text, stdErr)
	case err == nil && n != len(whole):
		return fmt.Sprintf("%q: %d bytes, want %d", text, n, len(whole))
	case err != nil && stdErr == nil && object:
		return fmt.Sprintf("%q: %v, and is right", text, err)
	}
	return ""
}

// An object is one exactly when the standard library says so.
func TestScanObject(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	taken := 0
	for range 200_000 {
		text := randomObject(rng)
		if wrong := sameAsStandard(text); wrong != "" {
			t.Fatal(wrong)
		}
		if _, err := scanObject(text, 0, nil); err == nil {
			taken++
		}
	}
	if taken < 20_000 {
		t.Errorf("only %d were objects", taken)
	}
}
