package eventlog

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/outlet"
	"sf2loki/pkg/shape"
	"sf2loki/pkg/sysexits"
	"sf2loki/pkg/tally"
)

// pullFiles reads files with the stored positions doc and returns what came out.
func pullFiles(t *testing.T, doc map[string]string, change func(*FilesConfig), paths ...string) ([]line, error) {
	t.Helper()
	sh, err := shape.New(shape.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cfg := FilesConfig{
		Paths: paths, TmpDir: t.TempDir(), Shape: sh, Log: slog.New(slog.DiscardHandler),
		Resume: func(key string) (string, bool) { v, ok := doc[key]; return v, ok },
		Output: outlet.Output{Records: func(b []byte) error { out.Write(b); return nil }, Now: time.Now},
	}
	if change != nil {
		change(&cfg)
	}
	f := NewFiles(cfg)
	if err := f.Check(); err != nil {
		return nil, err
	}
	err = f.Pull(context.Background())
	b := &bench{t: t}
	lines := b.parse(out.Bytes())
	for _, l := range lines {
		if l.Key != "" && doc != nil {
			doc[l.Key] = l.Value
		}
	}
	for _, c := range f.Stats().Totals().Types {
		if c.Read != c.Written+c.DeadLettered {
			t.Errorf("the account does not balance: %+v", c)
		}
	}
	return lines, err
}

func entries(lines []line) []line {
	return slices.DeleteFunc(slices.Clone(lines), func(l line) bool { return l.Only || l.Reason != "" })
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.csv")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFixtureRecords holds every line of every fixture against the cells that
// the standard reader finds, in the order of the header.
func TestFixtureRecords(t *testing.T) {
	for _, m := range manifest(t) {
		t.Run(m.File, func(t *testing.T) {
			path := filepath.Join("testdata", m.File)
			lines, err := pullFiles(t, nil, nil, path)
			if m.File == "Report_truncated.csv" {
				wantCode(t, err, sysexits.DataErr)
				m.Rows--
			} else if err != nil {
				t.Fatal(err)
			}
			rows := entries(lines)
			if len(rows) != m.Rows {
				t.Fatalf("%d records, want %d", len(rows), m.Rows)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want := wantedLines(t, data)
			for i, r := range rows {
				if r.Labels["event_type"] != m.Type {
					t.Errorf("event type %q", r.Labels["event_type"])
				}
				if !slices.Contains(want, r.Line) {
					t.Fatalf("record %d is no row of the file: %s", i, r.Line)
				}
				if i > 0 && r.TS < rows[i-1].TS {
					t.Errorf("record %d is out of order", i)
				}
			}
		})
	}
}

// wantedLines makes the lines of a file in another way.
func wantedLines(t *testing.T, data []byte) []string {
	t.Helper()
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	// The standard reader turns CRLF in cells into LF: hide it from it.
	const mark = "\x1a"
	inCell := false
	var hidden []byte
	for i, c := range data {
		if c == '"' {
			inCell = !inCell
		}
		if c == '\r' && inCell && data[i+1] == '\n' {
			hidden = append(hidden, mark...)
			continue
		}
		hidden = append(hidden, c)
	}
	r := csv.NewReader(bytes.NewReader(hidden))
	r.FieldsPerRecord = -1
	names, err := r.Read()
	if err == io.EOF {
		return nil
	}
	seen := map[string]bool{}
	for i, n := range names {
		if seen[n] {
			names[i] = n + "_2"
		}
		seen[n] = true
	}
	var out []string
	for {
		cells, err := r.Read()
		if err != nil {
			return out
		}
		var b strings.Builder
		for i, n := range names {
			text := ""
			if i < len(cells) {
				text = cells[i]
			}
			appendMember(t, &b, n, text, mark)
		}
		if len(cells) > len(names) {
			appendMember(t, &b, "_extra", strings.Join(cells[len(names):], ","), mark)
		}
		out = append(out, b.String()+"}")
	}
}

func appendMember(t *testing.T, b *strings.Builder, name, text, mark string) {
	t.Helper()
	b.WriteString(map[bool]string{true: "{", false: ","}[b.Len() == 0])
	// Each bad byte becomes a character of its own.
	var valid strings.Builder
	for _, r := range strings.ReplaceAll(text, mark, "\r") {
		valid.WriteRune(r)
	}
	for i, s := range []string{name, valid.String()} {
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(s); err != nil {
			t.Fatal(err)
		}
		b.WriteString(strings.TrimSpace(buf.String()))
		if i == 0 {
			b.WriteString(":")
		}
	}
}

func TestRowTimes(t *testing.T) {
	const head = "EVENT_TYPE,TIMESTAMP,TIMESTAMP_DERIVED\n"
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"derived wins", "\"A\",\"20260701100000.1\",\"2026-07-01T11:00:00.5Z\"\n", []string{"2026-07-01T11:00:00.500000000Z"}},
		{"variable fraction", "\"A\",\"20260701100000.13\",\"\"\n\"A\",\"20260701100000\",\"\"\n\"A\",\"20260701100001.123456789\",\"x\"\n",
			[]string{"2026-07-01T10:00:00.000000000Z", "2026-07-01T10:00:00.130000000Z", "2026-07-01T10:00:01.123456789Z"}},
		{"offset", "\"A\",\"\",\"2026-07-01T11:00:00.5+02:00\"\n", []string{"2026-07-01T09:00:00.500000000Z"}},
		{"the row before", "\"A\",\"20260701100000\",\"\"\n\"A\",\"\",\"\"\n\"A\",\"20260732100000\",\"\"\n",
			[]string{"2026-07-01T10:00:00.000000000Z", "2026-07-01T10:00:00.000000000Z", "2026-07-01T10:00:00.000000000Z"}},
		{"the first row", "\"A\",\"\",\"\"\n\"A\",\"20260701100000\",\"\"\n", []string{"2026-07-01T10:00:00.000000000Z", "2026-07-01T10:00:00.000000000Z"}},
		{"leap day", "\"A\",\"20280229235959.999\",\"\"\n\"A\",\"20270229000000\",\"\"\n", []string{"2028-02-29T23:59:59.999000000Z", "2028-02-29T23:59:59.999000000Z"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines, err := pullFiles(t, nil, nil, write(t, head+tt.in))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, l := range entries(lines) {
				got = append(got, l.TS)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("times %q, want %q", got, tt.want)
			}
		})
	}
}

// Rows without a time have the same one each time they are read. #20 Z11
func TestNoTimesAtAll(t *testing.T) {
	path := write(t, "EVENT_TYPE,X\n\"A\",\"1\"\n\"A\",\"2\"\n")
	at := time.Date(2026, 7, 1, 8, 0, 0, 123456789, time.UTC)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		lines, err := pullFiles(t, nil, nil, path)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range entries(lines) {
			if l.TS != "2026-07-01T08:00:00.123456789Z" {
				t.Errorf("time %s", l.TS)
			}
		}
	}
	_, err := pullFiles(t, nil, func(c *FilesConfig) { c.Stdin = strings.NewReader("A\n\"1\"\n") }, Stdin)
	wantCode(t, err, sysexits.DataErr)
}

func TestBadRowsInPlace(t *testing.T) {
	path := write(t, "EVENT_TYPE,TIMESTAMP,X\n"+
		"\"A\",\"20260701100005\",\"late\"\n"+
		"\"A\",\"20260701100000\",say \"hi\"\n"+
		"\"A\",\"20260701100001\",\"\xff\x00\"\n"+
		"\"B\",\"20260701100002\",\"other type\"\n")
	lines, err := pullFiles(t, nil, nil, path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range lines {
		got = append(got, l.Reason+l.Line+string(l.Payload))
	}
	want := []string{
		"{\"EVENT_TYPE\":\"A\",\"TIMESTAMP\":\"20260701100001\",\"X\":\"\uFFFD\\u0000\"}",
		`{"EVENT_TYPE":"B","TIMESTAMP":"20260701100002","X":"other type"}`,
		`{"EVENT_TYPE":"A","TIMESTAMP":"20260701100005","X":"late"}`,
		"decode_error\"A\",\"20260701100000\",say \"hi\"\n",
		"",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if l := lines[3]; l.TS != "2026-07-01T10:00:05.000000000Z" || !strings.Contains(l.Letter.Detail, "row 2 at byte") || l.Labels["event_type"] != "A" {
		t.Errorf("letter %+v", l)
	}
	if lines[1].Labels["event_type"] != "B" {
		t.Errorf("labels %v", lines[1].Labels)
	}
}

func TestHugeRow(t *testing.T) { // #41
	cell := strings.Repeat("x\n", 300_000)
	path := write(t, "EVENT_TYPE,TIMESTAMP,X\n\"A\",\"20260701100001\",\""+cell+"\"\n\"A\",\"20260701100000\",\"\"\n")
	for _, limit := range []int{0, 100_000} {
		lines, err := pullFiles(t, nil, func(c *FilesConfig) { c.RowLimit = limit }, path)
		if err != nil {
			t.Fatal(err)
		}
		rows := entries(lines)
		if limit == 0 && (len(rows) != 2 || len(rows[1].Line) < len(cell)) || limit > 0 && (len(rows) != 1 || len(lines) != 3 || lines[0].Reason != "decode_error") {
			t.Errorf("limit %d: %d records of %d", limit, len(rows), len(lines))
		}
	}
}

// TestSortedResume reads a large file that is out of order, in runs that spill,
// from each of several places on.
func TestSortedResume(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	text.WriteString("EVENT_TYPE,TIMESTAMP,N\n")
	const n = 5000
	for i := range n {
		text.WriteString("\"A\",\"202607011000" + string([]byte{byte('0' + rng.IntN(6)), byte('0' + rng.IntN(10))}) + "\",\"" + strings.Repeat("y", rng.IntN(30)) + "\"\n")
		_ = i
	}
	path := write(t, text.String())
	sorter := newSorter(t.TempDir(), DefaultRowLimit)
	sorter.entries = 64
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	b := body{file, int64(text.Len())}
	v, err := look(context.Background(), b, DefaultRowLimit, nil)
	if err != nil || v.sorted || v.rows != n {
		t.Fatalf("%+v %v", v, err)
	}
	seq, err := sorter.sequence(context.Background(), b, v.header, v.first)
	if err != nil {
		t.Fatal(err)
	}
	defer seq.close()
	lastTime, lastNumber, count := int64(0), int64(0), 0
	for {
		row, at, _, err := seq.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if at < lastTime || at == lastTime && row.Number <= lastNumber {
			t.Fatalf("row %d at %d after row %d at %d", row.Number, at, lastNumber, lastTime)
		}
		if want := text.String()[row.Offset : row.Offset+row.Size]; string(row.Raw()) != want {
			t.Fatalf("row %d is %q, want %q", row.Number, row.Raw(), want)
		}
		lastTime, lastNumber = at, row.Number
		count++
	}
	if count != n {
		t.Fatalf("%d rows", count)
	}
}

func TestFilePosition(t *testing.T) {
	path := write(t, "EVENT_TYPE,TIMESTAMP\n\"A\",\"20260701100000\"\n\"A\",\"20260701100001\"\n")
	doc := map[string]string{}
	lines, err := pullFiles(t, doc, nil, path)
	if err != nil || len(entries(lines)) != 2 {
		t.Fatal(err)
	}
	if lines, _ = pullFiles(t, doc, nil, path); len(entries(lines)) != 0 || lines[0].Account.ResumedAfter != 2 {
		t.Errorf("read again: %+v", lines)
	}
	key := "file:" + path
	doc[key] = strings.Replace(doc[key], `"rows":2`, `"rows":1`, 1)
	if lines, _ = pullFiles(t, doc, nil, path); len(entries(lines)) != 1 {
		t.Errorf("%d records behind the first row", len(entries(lines)))
	}
	if err := os.WriteFile(path, []byte("EVENT_TYPE,TIMESTAMP\n\"A\",\"20260701100000\"\n\"A\",\"20260701100002\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if lines, _ = pullFiles(t, doc, nil, path); len(entries(lines)) != 2 {
		t.Errorf("%d records of a file that has changed", len(entries(lines)))
	}
	doc[key] = `nonsense`
	if lines, _ = pullFiles(t, doc, nil, path); len(entries(lines)) != 2 {
		t.Errorf("%d records with a position that is none", len(entries(lines)))
	}
	doc[key] = `{"v":7}`
	_, err = pullFiles(t, doc, nil, path)
	wantCode(t, err, sysexits.Config)
}

func TestFileMisuse(t *testing.T) {
	good := write(t, "A,TIMESTAMP\n\"1\",\"20260701100000\"\n")
	for _, tt := range []struct {
		name string
		code sysexits.Code
		path []string
	}{
		{"missing", sysexits.Config, []string{good, filepath.Join(t.TempDir(), "none.csv")}},
		{"directory", sysexits.Config, []string{t.TempDir()}},
		{"twice", sysexits.Usage, []string{good, good}},
		{"page", sysexits.DataErr, []string{write(t, "<html></html>")}},
		{"JSON", sysexits.DataErr, []string{write(t, `[{"errorCode":"X"}]`)}},
		{"broken header", sysexits.DataErr, []string{write(t, "A,B\"C\n\"1\",\"2\"\n")}},
		{"empty", sysexits.OK, []string{write(t, "")}},
		{"empty pipe", sysexits.DataErr, []string{Stdin}},
		{"open", sysexits.DataErr, []string{write(t, "A,TIMESTAMP\n\"1\",\"20260701100000\"\n\"2\",\"2026")}},
	} {
		_, err := pullFiles(t, nil, func(cfg *FilesConfig) { cfg.Stdin = strings.NewReader("") }, tt.path...)
		if got := sysexits.Of(err); got != tt.code {
			t.Errorf("%s: status %d, want %d: %v", tt.name, got, tt.code, err)
		}
	}
}

// A row costs no memory once the buffers have grown.
func TestNoAllocations(t *testing.T) {
	data, err := os.ReadFile("testdata/RestApi.csv")
	if err != nil {
		t.Fatal(err)
	}
	head, rows, _ := bytes.Cut(data, []byte("\n"))
	sh, _ := shape.New(shape.Config{Metadata: []string{"USER_ID"}})
	e := newEmitter(&outlet.Output{Records: func([]byte) error { return nil }, Now: time.Now}, tally.New(), sh, newSorter(t.TempDir(), DefaultRowLimit))
	run := func(times int) float64 {
		text := append(append([]byte(nil), head...), '\n')
		text = append(text, bytes.Repeat(rows, times)...)
		b := body{bytes.NewReader(text), int64(len(text))}
		return testing.AllocsPerRun(3, func() {
			v, err := look(context.Background(), b, DefaultRowLimit, nil)
			if err != nil {
				t.Fatal(err)
			}
			v.sorted = true
			p := &parcel{key: []byte("k"), name: "n", eventType: "RestApi", body: b, token: fileToken(b.size, v.sum)}
			if err := e.file(context.Background(), p, v); err != nil {
				t.Fatal(err)
			}
		})
	}
	few, many := run(10), run(110) // 400 and 4400 rows
	if perRow := (many - few) / 4000; perRow > 0.01 {
		t.Errorf("%.3f allocations per row", perRow)
	}
}
