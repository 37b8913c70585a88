package eventlog

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/outlet"
	"sf2loki/pkg/shape"
	"sf2loki/pkg/tally"
)

// lookClosely is look, row by row and cell by cell.
func lookClosely(text string, fallback *int64) (survey, error) {
	v := survey{sorted: true, sum: crc32.Checksum([]byte(text), castagnoli)}
	s := NewScanner(strings.NewReader(text), 0)
	first, err := s.Header()
	if err != nil {
		return survey{sorted: true}, nil
	}
	if first.Bad != nil {
		return v, first.Bad
	}
	v.header = newHeader(first)
	last := int64(0)
	if fallback != nil {
		last = *fallback
	}
	c := v.header.clock(last)
	for {
		row, err := v.header.next(s)
		if err != nil && v.rows == 0 && v.header.swallowed() {
			return v, errNoLineFeeds
		}
		if err != nil {
			return v, nil
		}
		v.rows++
		t, own := c.read(row)
		if own && !v.timed {
			v.first, v.timed = t, true
			if fallback == nil {
				last = t
			}
		}
		v.sorted = v.sorted && t >= last
		last = t
		if row.Bad == errOpenQuote || row.Bad == errCutShort {
			v.torn = &torn{row: row.Number, offset: row.Offset, err: row.Bad}
		}
	}
}

// checkLook compares look with what a close look finds, and holds the records of
// the file to their order.
func checkLook(t *testing.T, text string, fallback *int64) {
	t.Helper()
	want, wantErr := lookClosely(text, fallback)
	b := body{strings.NewReader(text), int64(len(text))}
	got, err := look(context.Background(), b, DefaultRowLimit, fallback)
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("%q: %v, want %v", text, err, wantErr)
	}
	if err != nil {
		return
	}
	same := got.rows == want.rows && got.first == want.first && got.timed == want.timed && got.sum == want.sum &&
		(got.torn == nil) == (want.torn == nil) && (got.torn == nil || *got.torn == *want.torn)
	if !same {
		t.Fatalf("%q: %+v, want %+v", text, got, want)
	}
	if got.rows == 0 || !got.timed {
		return
	}
	checkOrder(t, text, b, got)
}

// checkOrder writes the file: the rows come in the order of their times, all of
// them, whether it seemed to be in order or not.
func checkOrder(t *testing.T, text string, b body, v survey) {
	t.Helper()
	sh, err := shape.New(shape.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	output := &outlet.Output{Records: func(lines []byte) error { out.Write(lines); return nil }, Now: time.Now}
	e := newEmitter(output, tally.New(), sh, newSorter(os.TempDir(), DefaultRowLimit)) // whose files have no names
	p := &parcel{key: []byte("k"), name: "x", eventType: "T", body: b, token: []byte(`{"rows":`), otherwise: 1}
	if err := e.file(context.Background(), p, v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	lines := (&bench{t: t}).parse(out.Bytes())
	lines = lines[:len(lines)-1] // the account
	if int64(len(lines)) < v.rows {
		t.Fatalf("%q: %d of %d rows", text, len(lines), v.rows)
	}
	rest := lines[int64(len(lines))-v.rows:] // without what was written before a disorder was found
	if !slices.IsSortedFunc(rest, func(a, b line) int { return strings.Compare(a.TS, b.TS) }) {
		t.Fatalf("%q: not in order\n%s", text, out.Bytes())
	}
}

// stamped is a file whose rows have two times, the one that counts last.
func stamped(rows ...string) string {
	var b strings.Builder
	b.WriteString(`"EVENT_TYPE","TIMESTAMP","A","TIMESTAMP_DERIVED","B"` + "\n")
	for _, r := range rows {
		b.WriteString(r)
		b.WriteString("\n")
	}
	return b.String()
}

func row2(stamp, derived int, a, b string) string {
	d := ""
	if derived >= 0 {
		d = fmt.Sprintf("2026-07-01T10:00:%02d.000Z", derived)
	}
	return fmt.Sprintf(`"Login","202607011000%02d.000","%s","%s","%s"`, stamp, a, d, b)
}

func TestLook(t *testing.T) {
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	early := int64(math.MinInt64)
	for _, text := range []string{
		"", "\n", "\r0", `"A"`, stamped(),
		stamped(row2(1, 1, "x", "y"), row2(2, 2, "x", ""), row2(3, 3, "", "")),
		stamped(row2(1, 1, "x", "y"), row2(3, 3, "x", "y"), row2(2, 2, "x", "y")),
		stamped(row2(1, 1, "x", "y"), row2(2, 9, "x", "y"), row2(3, 3, "x", "y")),   // only one of the times is in order
		stamped(row2(1, 1, "x", "y"), row2(9, 2, "x", "y"), row2(3, 3, "x", "y")),   // only the other is
		stamped(row2(1, -1, "x", "y"), row2(2, -1, "x", "y"), row2(3, -1, "", "y")), // there is but one
		stamped(row2(1, 1, "a line\nfeed", "y"), row2(2, 2, `a ""quote""`, `b""`), row2(3, 3, "x,", ",")),
		stamped(row2(1, 1, "x", "y"), row2(2, 2, "x", "y"), `"Login","20260701100003.000","open`),
		stamped(row2(1, 1, "x", "y"), row2(2, 2, "x", "y"), `"Login","20260701100003.000"`),
		stamped(row2(1, 1, "x", "y"), row2(2, 2, "x", "y")) + `"Login","20260701100003.000","x","",""`,
		stamped(row2(1, 1, "x", "y"), row2(2, 2, "x", "y")) + `"Login","20260701100003.000"`,
		stamped(row2(1, 1, "x", "y"), `"Login","20260701100002.000","a" bad","","b"`, row2(0, 0, "x", "y")),
		stamped(row2(1, 1, "x", "y"), `"a"z","b""`, `","c"`, row2(2, 2, "x", "y")),
		stamped(row2(1, 1, "x", "y"), `"Login","soon","x","later","y"`, "", row2(2, 2, "x", "y")),
		strings.ReplaceAll(stamped(row2(1, 1, "x", "y"), row2(2, 2, "x", ""), row2(3, 3, "x", "y")), "\n", "\r\n"),
		stamped(row2(1, 1, "x", "y"), `Login,20260701100002.000,x,,y`, `"x","",""`, row2(2, 2, "x", "y")),
	} {
		checkLook(t, text, nil)
		checkLook(t, text, &noon)
		checkLook(t, text, &early)
	}
	names, err := filepath.Glob("testdata/*.csv")
	if err != nil || len(names) < 5 {
		t.Fatal(err, names)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		checkLook(t, string(data), nil)
	}
}

func FuzzLook(f *testing.F) {
	f.Add(stamped(row2(1, 1, "x", "y"), row2(2, 2, `""`, ""), row2(3, 3, "", "y")))
	f.Add(stamped(row2(1, 1, "x", "y"), row2(2, 9, "x", "y"), row2(3, 3, "x\n", "y"), `"a"z","b""`, `","c"`))
	f.Fuzz(func(t *testing.T, text string) { checkLook(t, text, nil) })
}

func TestLookAtBrokenFiles(t *testing.T) {
	whole := stamped(row2(1, 1, "x", "y"), row2(2, 9, "x", "y"), row2(3, 3, "x\n", "y"), `"a"z","b""`, `","c"`, row2(4, 10, "", ""))
	const alphabet = "\",\n\rx0"
	for n := range 600 {
		r := rand.New(rand.NewPCG(1, uint64(n)))
		b := []byte(whole)
		for range 1 + r.IntN(4) {
			i, c := r.IntN(len(b)), alphabet[r.IntN(len(alphabet))]
			switch r.IntN(3) {
			case 0:
				b[i] = c
			case 1:
				b = slices.Delete(b, i, i+1)
			default:
				b = slices.Insert(b, i, c)
			}
		}
		checkLook(t, string(b), nil)
	}
}

// A file whose stamps are in order and whose times are not begins again at its
// first row, also when a position lies in it.
func TestDisorder(t *testing.T) {
	var rows []string
	for i := range 50 {
		derived := i
		if i == 40 {
			derived = 5
		}
		rows = append(rows, row2(i, derived, "x", "y"))
	}
	path := write(t, stamped(rows...))
	doc := map[string]string{}
	lines, err := pullFiles(t, doc, nil, path)
	if err != nil {
		t.Fatal(err)
	}
	all := entries(lines)
	if len(all) != 40+50 {
		t.Fatalf("%d records", len(all))
	}
	last := all[40:]
	if !slices.IsSortedFunc(last, func(a, b line) int { return strings.Compare(a.TS, b.TS) }) || !strings.Contains(last[6].Line, "100040.000") {
		t.Errorf("the order of the rows: %+v", last[:8])
	}
	for _, at := range []int{3, 39, 45, 89} { // killed after that record, and begun again
		doc[all[at].Key] = all[at].Value
		again, err := pullFiles(t, doc, nil, path)
		if err != nil {
			t.Fatal(err)
		}
		if rest := entries(again); len(rest) < 50 || !strings.HasSuffix(rest[len(rest)-50].Origin, ":1") {
			t.Errorf("after record %d: %d records", at, len(rest))
		}
	}
}

// Every line break of a file is tried as the end of what has been read so far.
func TestGlanceAtBufferEnds(t *testing.T) {
	text := stamped(row2(1, 1, "x", "y"), row2(2, 2, "a\nb", ""), row2(3, 3, `q""q`, "y"), row2(4, 4, "", ""))
	for size := 1; size < len(text); size++ {
		s := NewScanner(io.MultiReader(strings.NewReader(text[:size]), strings.NewReader(text[size:])), 0)
		if _, err := s.Header(); err != nil {
			t.Fatal(err)
		}
		rows := 0
		for {
			if _, ok := s.glance(); ok {
				rows++
				continue
			}
			if _, err := s.Next(); err != nil {
				break
			}
			rows++
		}
		if rows != 4 {
			t.Errorf("cut at %d: %d rows", size, rows)
		}
	}
}
