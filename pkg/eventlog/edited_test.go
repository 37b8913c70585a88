package eventlog

import (
	"encoding/json"
	"io"
	"maps"
	"strings"
	"testing"

	"sf2loki/pkg/shape"
)

// FuzzEdited compares a row that rules have changed with the row as it was.
func FuzzEdited(f *testing.F) {
	f.Add("\"A\",\"B\",\"C\"\n\"1\",\"a\"\"b\",\"\\\"\n\"x\"\n\"1\",\"2\",\"3\",\"4\",\"5\"\n", uint8(0), uint8(1))
	f.Add("\"A\"\n\"1\"\n", uint8(0), uint8(0))
	f.Add("\"A\",\"A\"\n\"é\",\"\xff\"\n,\n", uint8(1), uint8(7))
	f.Fuzz(func(t *testing.T, text string, masked, dropped uint8) {
		s := NewScanner(strings.NewReader(text), 0)
		first, err := s.Header()
		if err != nil || first.Bad != nil {
			return
		}
		h := newHeader(first)
		names := h.columns()
		edits := make([]shape.Edit, len(names))
		mask, drop := int(masked)%len(names), int(dropped)%len(names)
		edits[mask] = shape.Edit{Changed: true, Text: []byte(`"***\`)}
		edits[drop] = shape.Edit{Changed: true, Dropped: true}
		for {
			row, err := s.Next()
			if err == io.EOF {
				return
			}
			if row.Bad != nil {
				continue
			}
			want := members(t, h.appendRow(nil, row, nil))
			if _, ok := want[names[mask]]; ok {
				want[names[mask]] = `"***\`
			}
			delete(want, names[drop])
			if got := members(t, h.appendRow(nil, row, edits)); !maps.Equal(got, want) {
				t.Fatalf("%q becomes %q, want %q", row.Raw(), got, want)
			}
			if none := members(t, h.appendRow(nil, row, make([]shape.Edit, len(names)))); !maps.Equal(none, members(t, h.appendRow(nil, row, nil))) {
				t.Fatalf("%q becomes %q without a rule", row.Raw(), none)
			}
		}
	})
}

// members are those of a line that is escaped as the inside of a string.
func members(t *testing.T, escaped []byte) map[string]string {
	t.Helper()
	var line string
	if err := json.Unmarshal([]byte(`"`+string(escaped)+`"`), &line); err != nil {
		t.Fatalf("%s: %v", escaped, err)
	}
	var m map[string]string
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return m
}
