package record

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestAppendString(t *testing.T) {
	for in, want := range map[string]string{
		"":                        `""`,
		"plain":                   `"plain"`,
		`quote " slash \ solid /`: `"quote \" slash \\ solid /"`,
		"\b\f\n\r\t":              `"\b\f\n\r\t"`,
		"\x00\x01\x1f\x7f":        "\"\\u0000\\u0001\\u001f\x7f\"",
		"<>&\u2028\u2029":         "\"<>&\u2028\u2029\"",
		"é€😀":                     `"é€😀"`,
		"a\xffb":                  "\"a\ufffdb\"",
		"\xe2\x82":                "\"\ufffd\ufffd\"",
		"\xed\xa0\x80\n":          "\"\ufffd\ufffd\ufffd\\n\"",
		"12345678\"":              `"12345678\""`,
		"1234567\\":               `"1234567\\"`,
	} {
		if got := string(AppendString([]byte("="), []byte(in))); got != "="+want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	// All lengths around the word size, into buffers of all capacities.
	for n := range 40 {
		for _, c := range []string{"x", `"`, "\x01", "é"} {
			in := strings.Repeat(c, n)
			var want bytes.Buffer
			enc := json.NewEncoder(&want)
			enc.SetEscapeHTML(false)
			_ = enc.Encode(in)
			inner := strings.TrimSpace(want.String())
			twice, err := json.Marshal(inner[1 : len(inner)-1])
			if err != nil {
				t.Fatal(err)
			}
			for room := range 50 {
				dst := append(make([]byte, 0, 2+room), "[]"...)
				if got := string(AppendString(dst, []byte(in))); got+"\n" != "[]"+want.String() {
					t.Fatalf("%q: %s", in, got)
				}
				if got := string(AppendTwice(dst[:2:cap(dst)], []byte(in))); `"`+got[2:]+`"` != string(twice) {
					t.Fatalf("%q twice: %s", in, got)
				}
			}
		}
	}
}
