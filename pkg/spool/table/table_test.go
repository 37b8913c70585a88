package table

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"sf2loki/pkg/spool"
)

// letterText is a letter in which everything is said.
const letterText = `{"ts":"2026-07-01T20:00:00.123456789Z","labels":{"source":"eventlogfile","event_type":"Login"},
"structured_metadata":{"level":"info"},"line":"{\"A\":\"<\u2028é\\u0000'\"}","checkpoint_key":"eventlogfile:Login","checkpoint_value":"v",
"origin":"0AT000000000001:12","reason":"too_old","truncated":false,"captured_at":"2026-07-30T12:00:00.000001Z","maybe_stored":true,
"dead_letter":{"v":1,"id":"5e884898da28047151d0e56f8dc62927","status":400,"detail":"too old","stage":"push","attempts":2,
"first_captured_at":"2026-07-29T12:00:00Z","errors":[{"at":"2026-07-30T12:00:00Z","reason":"too_old","status":400}],
"run_id":"01a2","instance":"host-a","org":"prod","tenant":"7"}}`

// bareText is one in which hardly anything is.
const bareText = `{"reason":"decode_error","payload_base64":"AAEC","schema_id":"s1","labels":null}`

func letterOf(t *testing.T, text string) *spool.Letter {
	t.Helper()
	l := &spool.Letter{}
	if err := spool.NewReader(strings.NewReader(strings.ReplaceAll(text, "\n", "")+"\n"), "test").Next(l); err != nil {
		t.Fatal(err)
	}
	return l
}

func rows(t *testing.T) []Row {
	t.Helper()
	whole := letterOf(t, letterText)
	whole.FateAt = 1_785_412_800_000_001_000
	return []Row{RowOf("dead/a.ndjson", whole, spool.Failed), RowOf("b\xff", letterOf(t, bareText), spool.New)}
}

func TestRowOf(t *testing.T) {
	all := rows(t)
	got, err := json.Marshal(all[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"ID":"5e884898da28047151d0e56f8dc62927"`, `"RunID":"01a2"`, `"Org":"prod"`, `"Entity":"Login"`, `"SourceFile":"0AT000000000001"`,
		`"TSUnixNano":1782936000123456789`, `"EventTime":1782936000123456`, `"RejectedAt":1785412800000001`, `"FirstAt":1785326400000000`,
		`"HTTPStatus":400`, `"Attempts":2`, `"MaybeStored":true`, `"Status":"failed"`, `"ReplayedAt":1785412800000001`,
		`"Labels":"{\"source\":\"eventlogfile\",\"event_type\":\"Login\"}"`, `"File":"dead/a.ndjson"`, `"FileLine":1`,
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if want := "{\"A\":\"<\u2028é\\u0000'\"}"; *all[0].Line != want {
		t.Errorf("line %q, want %q", *all[0].Line, want)
	}
	bare := all[1]
	if bare.Line != nil || bare.Labels != nil || bare.Entity != nil || bare.EventTime != 0 || bare.ReplayedAt != 0 || *bare.Payload != "AAEC" || bare.File != "b\uFFFD" {
		t.Errorf("%+v", bare)
	}
	for origin, want := range map[string]string{"0AT:12": "0AT", "/var/a:b.csv:3": "/var/a:b.csv", "0AT": "0AT", ":3": ":3", "a:b": "a:b"} {
		if got := sourceFile(&origin); *got != want {
			t.Errorf("source file of %q is %q", origin, *got)
		}
	}
}

func write(t *testing.T, path, format string, all []Row) {
	t.Helper()
	f, err := Create(path, format, "test")
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if err := f.Write(&all[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
}

func TestParquet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.parquet")
	all := rows(t)
	write(t, path, Parquet, all)
	got, err := parquet.ReadFile[Row](path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, all) {
		t.Errorf("got %+v, want %+v", got, all)
	}
}

// The columns of an SQLite file are those of a Parquet file.
func TestColumns(t *testing.T) {
	var want, got []string
	for _, f := range parquet.SchemaOf(Row{}).Fields() {
		want = append(want, f.Name())
	}
	for _, c := range columns {
		got = append(got, c.Name)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("columns %q, want %q", got, want)
	}
}

// A program that has nothing of ours reads the SQLite file.
func TestSQLite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out ?#%41.db")
	write(t, path, SQLite, rows(t))
	script := `
import json, sqlite3, sys
db = sqlite3.connect("file:" + sys.argv[1].replace("%", "%25").replace("?", "%3f").replace("#", "%23") + "?mode=ro", uri=True)
assert db.execute("pragma integrity_check").fetchone() == ("ok",)
for row in db.execute("select entity, ts_unix_nano, event_time, replayed_at, attempts, labels->>'source', line, payload_base64 from dead_letters order by file_line, attempts desc"):
    print(json.dumps(row))
`
	out, err := exec.Command("python3", "-c", script, path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := `["Login", 1782936000123456789, "2026-07-01T20:00:00.123456Z", "2026-07-30T12:00:00.000001Z", 2, "eventlogfile", "{\"A\":\"<\u2028\u00e9\\u0000'\"}", null]
[null, null, null, null, 0, null, null, "AAEC"]
`
	if string(out) != want {
		t.Errorf("got  %swant %s", out, want)
	}
}

// What is not whole does not appear, and leaves nothing behind; what was there
// stays until then.
func TestAtomic(t *testing.T) {
	for _, format := range []string{Parquet, SQLite} {
		dir := t.TempDir()
		path := filepath.Join(dir, "out")
		if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Create(path, format, "test")
		if err != nil {
			t.Fatal(err)
		}
		row := rows(t)[0]
		if err := f.Write(&row); err != nil {
			t.Fatal(err)
		}
		f.Abort()
		if data, err := os.ReadFile(path); string(data) != "before" {
			t.Errorf("%s: %q, %v", format, data, err)
		}
		if entries, _ := os.ReadDir(dir); len(entries) != 1 {
			t.Errorf("%s: %v", format, entries)
		}
		write(t, path, format, []Row{row})
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 || info.Size() < 1000 {
			t.Errorf("%s: %v, %v", format, info, err)
		}
		if entries, _ := os.ReadDir(dir); len(entries) != 1 {
			t.Errorf("%s: %v", format, entries)
		}
	}
	if _, err := Create(filepath.Join(t.TempDir(), "x"), "csv", "test"); err == nil {
		t.Error("csv is taken")
	}
}

// Many rows are several row groups, so that memory stays what it is.
func TestRowGroups(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.parquet")
	row := rows(t)[0]
	all := make([]Row, 0, 40)
	for i := range cap(all) {
		line := fmt.Sprint(i, strings.Repeat("x", 1<<20))
		row.Line = &line
		all = append(all, row)
	}
	write(t, path, Parquet, all)
	data, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	info, _ := data.Stat()
	f, err := parquet.OpenFile(data, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(f.RowGroups()); n < 3 || f.NumRows() != int64(len(all)) {
		t.Errorf("%d rows in %d groups", f.NumRows(), n)
	}
}
