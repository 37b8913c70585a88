package eventlog

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// parsed is a row as a test looks at it.
type parsed struct {
	cells []string
	bad   error
	raw   string
}

func scanAll(t testing.TB, r io.Reader, limit int) ([]string, []parsed) {
	t.Helper()
	s := NewScanner(r, limit)
	first, err := s.Header()
	if err == io.EOF {
		return nil, nil
	}
	if err != nil {
		t.Fatal(err)
	}
	names := cellsOf(first)
	var rows []parsed
	for {
		row, err := s.Next()
		if err == io.EOF {
			return names, rows
		}
		if err != nil {
			t.Fatal(err)
		}
		if row.Number != int64(len(rows)+1) {
			t.Fatalf("row %d has number %d", len(rows)+1, row.Number)
		}
		p := parsed{bad: row.Bad, raw: string(row.Raw())}
		if row.Bad == nil {
			p.cells = cellsOf(row)
		}
		rows = append(rows, p)
	}
}

func cellsOf(row *Row) []string {
	out := make([]string, row.Len())
	for i := range out {
		out[i] = string(row.Cell(i))
	}
	return out
}

func TestScanner(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []parsed
	}{
		{"quoted", "a,b\n\"1\",\"2\"\n", []parsed{{cells: []string{"1", "2"}, raw: "\"1\",\"2\"\n"}}},
		{"no line feed at the end", "a,b\n\"1\",\"2\"", []parsed{{cells: []string{"1", "2"}, raw: `"1","2"`}}},
		{"line feed in a cell", "a\n\"x\ny\"\n", []parsed{{cells: []string{"x\ny"}, raw: "\"x\ny\"\n"}}},
		{"carriage return kept in a cell", "a\r\n\"x\r\ny\"\r\n", []parsed{{cells: []string{"x\r\ny"}, raw: "\"x\r\ny\"\r\n"}}},
		{"doubled quotes", "a,b\n\"\"\"x\"\"\",\"\"\"\"\n", []parsed{{cells: []string{`"x"`, `"`}, raw: "\"\"\"x\"\"\",\"\"\"\"\n"}}},
		{"unquoted", "a,b\nx,\ny,z\r\n", []parsed{{cells: []string{"x", ""}, raw: "x,\n"}, {cells: []string{"y", "z"}, raw: "y,z\r\n"}}},
		{"lone carriage return", "a\nx\ry\n", []parsed{{cells: []string{"x\ry"}, raw: "x\ry\n"}}},
		{"byte order mark", "\ufeffa\n\"1\"\n", []parsed{{cells: []string{"1"}, raw: "\"1\"\n"}}},
		{"blank lines", "\na\n\n\"1\"\n\r\n\n", []parsed{{cells: []string{"1"}, raw: "\"1\"\n"}}},
		{"NUL", "a\n\"x\x00y\"\n", []parsed{{cells: []string{"x\x00y"}, raw: "\"x\x00y\"\n"}}},
		{"short and long", "a,b\n\"1\"\n\"1\",\"2\",\"3\"\n", []parsed{{cells: []string{"1"}, raw: "\"1\"\n"}, {cells: []string{"1", "2", "3"}, raw: "\"1\",\"2\",\"3\"\n"}}},
		{"bare quote", "a,b\nx\"y,\"z\nz\"\n\"1\",\"2\"\n",
			[]parsed{{bad: errBareQuote, raw: "x\"y,\"z\nz\"\n"}, {cells: []string{"1", "2"}, raw: "\"1\",\"2\"\n"}}},
		{"text after a quote", "a,b\n\"say \"hi\", ok\",\"2\"\n\"1\",\"2\"\n",
			[]parsed{{bad: errAfterQuote, raw: "\"say \"hi\", ok\",\"2\"\n"}, {cells: []string{"1", "2"}, raw: "\"1\",\"2\"\n"}}},
		{"quote never closed", "a,b\n\"1\",\"2\n\"1\",\"2\"\n\"3\",\"4\"\n",
			[]parsed{{bad: errAfterQuote, raw: "\"1\",\"2\n\"1\",\"2\"\n"}, {cells: []string{"3", "4"}, raw: "\"3\",\"4\"\n"}}},
		{"open at the end", "a,b\n\"1\",\"2\"\n\"3\",\"4", []parsed{{cells: []string{"1", "2"}, raw: "\"1\",\"2\"\n"}, {bad: errOpenQuote, raw: `"3","4`}}},
		{"carriage return at the end", "a\n\"1\"\r", []parsed{{cells: []string{"1"}, raw: "\"1\"\r"}}},
		{"header only", "a,b\n", nil},
		{"empty", "", nil},
		{"mark only", "\ufeff", nil},
		{"long plain", "a\n\"" + strings.Repeat("x", 300000) + "\"\n", []parsed{{cells: []string{strings.Repeat("x", 300000)}, raw: "\"" + strings.Repeat("x", 300000) + "\"\n"}}},
	} {
		for name, wrap := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "with the end": iotest.DataErrReader,
		} {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				_, rows := scanAll(t, wrap(strings.NewReader(tt.in)), 0)
				if len(rows) != len(tt.want) {
					t.Fatalf("%d rows, want %d: %v", len(rows), len(tt.want), rows)
				}
				for i, want := range tt.want {
					if got := rows[i]; got.bad != want.bad || got.raw != want.raw || !slices.Equal(got.cells, want.cells) {
						t.Errorf("row %d is %v, want %v", i, got, want)
					}
				}
			})
		}
	}
}

func TestScannerLimit(t *testing.T) { // #41
	huge := strings.Repeat("y\"\"\n", 100000)
	in := "a,b\n\"1\",\"2\"\n\"" + huge + "\",\"z\"\n\"3\",\"4\"\n"
	_, rows := scanAll(t, strings.NewReader(in), 150000)
	if len(rows) != 3 || rows[1].bad != errHuge || rows[2].cells[1] != "4" {
		t.Fatalf("rows: %d", len(rows))
	}
	_, rows = scanAll(t, strings.NewReader(in), 0)
	if len(rows) != 3 || rows[1].cells[0] != strings.Repeat("y\"\n", 100000) {
		t.Fatal("a long cell did not come through")
	}
	_, rows = scanAll(t, strings.NewReader(in[:strings.LastIndex(in, "\n\"3")-10]), 150000)
	if len(rows) != 2 || rows[1].bad != errOpenQuote {
		t.Fatal("an endless row over the limit is not known as open")
	}
}

// The cells of a row are bounded: a row of nothing but commas takes no more
// memory than its bytes.
func TestScannerCells(t *testing.T) {
	for name, one := range map[string]string{"quoted": `"",`, "bare": ",", "with quotes inside": "\"\"\"\n\",", "stray quotes": `x",`} {
		t.Run(name, func(t *testing.T) {
			most := strings.Repeat(one, mostColumns-1)
			in := "a,b\n" + most + "\n" + strings.Repeat(one, 5*mostColumns) + "\n\"3\",\"4\"\n" + most + one + `"open`
			s := NewScanner(strings.NewReader(in), 0)
			var bad []error
			for {
				row, err := s.Next()
				if err == io.EOF {
					break
				}
				bad = append(bad, row.Bad)
				if cap(row.cells) > 2*mostColumns {
					t.Fatalf("row %d has room for %d cells", row.Number, cap(row.cells))
				}
			}
			first := error(nil)
			if name == "stray quotes" {
				first = errBareQuote
			}
			if want := []error{nil, first, errWide, nil, errOpenQuote}; !slices.Equal(bad, want) {
				t.Errorf("%v, want %v", bad, want)
			}
		})
	}
}

func TestScannerReadError(t *testing.T) {
	s := NewScanner(io.MultiReader(strings.NewReader("a,b\n\"1\",\"2\"\n\"3"), iotest.ErrReader(os.ErrDeadlineExceeded)), 0)
	if _, err := s.Header(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the read error became %v", err)
	}
}

// manifestEntry is what is known of a fixture.
type manifestEntry struct {
	File   string   `json:"file"`
	Type   string   `json:"event_type"`
	Rows   int      `json:"rows"`
	Header []string `json:"header"`
}

func manifest(t testing.TB) []manifestEntry {
	t.Helper()
	data, err := os.ReadFile("testdata/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []manifestEntry
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestFixtures(t *testing.T) {
	for _, m := range manifest(t) {
		t.Run(m.File, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", m.File))
			if err != nil {
				t.Fatal(err)
			}
			names, rows := scanAll(t, bytes.NewReader(data), 0)
			if m.File == "Report_truncated.csv" {
				if last := rows[len(rows)-1]; len(last.cells) >= len(names) || strings.HasSuffix(last.raw, "\n") {
					t.Fatalf("the cut row is %v", last)
				}
			}
			if len(rows) != m.Rows || !slices.Equal(names, m.Header) {
				t.Fatalf("%d rows, want %d; columns %q", len(rows), m.Rows, names)
			}
			compareWithStandard(t, data, append([]parsed{{cells: names}}, rows...))
		})
	}
}

// compareWithStandard holds rows against what encoding/csv reads, which turns
// CRLF inside cells into LF.
func compareWithStandard(t testing.TB, data []byte, rows []parsed) {
	t.Helper()
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	r.FieldsPerRecord = -1
	for i := 0; ; i++ {
		want, err := r.Read()
		if err != nil {
			return
		}
		if i >= len(rows) {
			t.Fatalf("the standard reader has a row %d: %q", i, want)
		}
		got := slices.Clone(rows[i].cells)
		for j := range got {
			got[j] = strings.ReplaceAll(got[j], "\r\n", "\n")
		}
		if !slices.Equal(got, want) {
			t.Fatalf("row %d is %q, the standard reader has %q", i, got, want)
		}
	}
}

func FuzzScanner(f *testing.F) {
	for _, m := range manifest(f) {
		if data, err := os.ReadFile(filepath.Join("testdata", m.File)); err == nil && len(data) < 20000 {
			f.Add(data)
		}
	}
	f.Add([]byte("a\n\"\r\n\"\"x\",y\"\n\xff\x00\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := NewScanner(bytes.NewReader(data), 0)
		var rows []parsed
		size := int64(0)
		for next := s.Header; ; next = s.Next {
			row, err := next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if row.Offset < size || !bytes.Equal(data[row.Offset:row.Offset+row.Size], row.Raw()) {
				t.Fatalf("row at %d is not what stands there", row.Offset)
			}
			size = row.Offset + row.Size
			var e edge
			if n, _ := e.scan(data[row.Offset:]); int64(n) != row.Size {
				t.Fatalf("row at %d has %d bytes, passed over it has %d", row.Offset, row.Size, n)
			}
			if row.Bad != nil {
				break // the standard reader has no way on
			}
			rows = append(rows, parsed{cells: cellsOf(row)})
		}
		compareWithStandard(t, data, rows)
	})
}
