package sftest

import (
	"bytes"
	"encoding/csv"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

var hour = time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)

func parse(t *testing.T, data []byte) [][]string {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestEveryTypeIsWellFormed(t *testing.T) {
	for _, name := range Types() {
		h := Hour{Type: name, Start: hour, Rows: 30, Awkward: 3}
		rows := parse(t, h.CSV())
		if len(rows) != 31 || !slices.Equal(rows[0], h.Header()) {
			t.Errorf("%s: %d rows, header %q", name, len(rows), rows[0])
			continue
		}
		at := slices.Index(rows[0], "TIMESTAMP")
		for _, r := range rows[1:] {
			stamp, err := time.Parse("20060102150405", r[at])
			if err != nil || stamp.Before(hour) || !stamp.Before(hour.Add(time.Hour)) {
				t.Errorf("%s: TIMESTAMP %q, %v", name, r[at], err)
			}
			if r[slices.Index(rows[0], "EVENT_TYPE")] != name {
				t.Errorf("%s: EVENT_TYPE %q", name, r[0])
			}
		}
	}
}

func TestRowsAreTheSameEachTime(t *testing.T) {
	h := Hour{Type: "API", Start: hour, Rows: 50, Step: time.Minute, Awkward: 5}
	all := h.CSV()
	if !bytes.Equal(all, h.CSV()) {
		t.Error("the same hour has other rows")
	}
	var tail bytes.Buffer
	h.Write(&tail, 20, 50)
	rows, late := parse(t, all), parse(t, tail.Bytes())
	for i, r := range late[1:] {
		if !slices.Equal(r, rows[21+i]) {
			t.Fatalf("row %d of the rest differs: %q, %q", i, r, rows[21+i])
		}
	}
	if other := (Hour{Type: "API", Start: hour, Rows: 50, Step: time.Minute, Seed: 7}).CSV(); bytes.Equal(all, other) {
		t.Error("another seed has the same rows")
	}
	distinct := map[string]bool{}
	for _, r := range rows[1:] {
		distinct[strings.Join(r, "\x00")] = true
	}
	if len(distinct) != 50 {
		t.Errorf("%d distinct rows, want 50", len(distinct))
	}
}

func TestHeaderVariants(t *testing.T) {
	h := Hour{Type: "Login", Start: hour, Rows: 2, Drop: []string{"TIMESTAMP_DERIVED"}, Add: []string{"ZZ_NEW"}, Dup: "CPU_TIME", CRLF: true,
		Edit: func(i int, cells map[string]string) { cells["URI"] = "edited" }}
	data := h.CSV()
	if n := bytes.Count(data, []byte("\"\r\n")); n != 3 {
		t.Errorf("%d CRLF, want 3", n)
	}
	rows := parse(t, data)
	if slices.Contains(rows[0], "TIMESTAMP_DERIVED") || !slices.Equal(rows[0][len(rows[0])-2:], []string{"ZZ_NEW", "CPU_TIME"}) {
		t.Errorf("header %q", rows[0])
	}
	if rows[1][slices.Index(rows[0], "URI")] != "edited" || rows[2][slices.Index(rows[0], "ZZ_NEW")] != "unknown-1" {
		t.Errorf("row %q", rows[1])
	}
}

// Rows are nearly in order, not wholly: a reader that relies on it fails.
func TestRowsAreNotStrictlyInOrder(t *testing.T) {
	h := Hour{Type: "Login", Start: hour, Rows: 600}
	back := 0
	for i := 1; i < h.Rows; i++ {
		if h.When(i).Before(h.When(i - 1)) {
			back++
		}
	}
	if back == 0 || back > h.Rows/2 {
		t.Errorf("%d of %d rows go back in time", back, h.Rows)
	}
}

func BenchmarkHour(b *testing.B) {
	h := Hour{Type: "RestApi", Start: hour, Rows: 1000}
	b.SetBytes(int64(len(h.CSV())))
	for b.Loop() {
		h.Write(io.Discard, 0, h.Rows)
	}
}
