package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/record"
	"sf2loki/pkg/spool"
	"sf2loki/pkg/spool/table"
)

const asProgram = "DL_ICEBERG_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		cli.Main("dl-iceberg", newRoot)
	}
	os.Exit(m.Run())
}

// bench is a spool, a catalogue and a table.
type bench struct {
	t   *testing.T
	dir string
}

func newBench(t *testing.T) *bench { return &bench{t, t.TempDir()} }

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bench) cmd(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = b.dir
	return cmd
}

// iceberg is the program itself.
func (b *bench) iceberg(args ...string) *exec.Cmd {
	cmd := b.cmd(os.Args[0], append([]string{"--spool", "dead", "--catalog", "cat.db", "--warehouse", "lake", "--json"}, args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

func (b *bench) output(cmd *exec.Cmd) string {
	b.t.Helper()
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("%v: %v\n%s", cmd.Args, err, &said)
	}
	return string(out)
}

func (b *bench) appendLetters() result {
	b.t.Helper()
	var res result
	if err := json.Unmarshal([]byte(b.output(b.iceberg())), &res); err != nil {
		b.t.Fatal(err)
	}
	return res
}

var reasons = []record.Reason{record.TooOld, record.LineTooLong, record.BadRequest}

// awkward are lines that formats like to change.
var awkward = []string{`{"A":1}`, "", "<>&'\"\\", "\u2028\u00e9\U0001F600", "tab\there\nand there", `{"Q":"\u0000"}`}

// capture writes letters into a file of their own.
func (b *bench) capture(from, n int) {
	b.t.Helper()
	w, err := spool.Open(spool.Config{Dir: b.path("dead"), Instance: "a", Retention: -1, Bytes: 1 << 30})
	if err != nil {
		b.t.Fatal(err)
	}
	defer w.Close()
	at := time.Date(2026, 11, 1, 12, 0, 0, 123456789, time.UTC)
	var lines [][]byte
	for i := from; i < from+n; i++ {
		pair := func(name, value string) record.Pair { return record.Pair{Name: []byte(name), Value: []byte(value)} }
		rec := &record.Record{
			Time: at.UnixNano() + int64(i), HasTime: true, Line: []byte(awkward[i%len(awkward)]),
			Labels:   []record.Pair{pair("source", "eventlogfile"), pair("event_type", []string{"Login", "API"}[i%2])},
			Metadata: []record.Pair{pair("level", "info")}, Origin: fmt.Appendf(nil, "0AT%012d:%d", i/100, i),
		}
		lines = append(lines, record.AppendLetter(nil, rec, &record.Letter{
			Reason: reasons[i%3], CapturedAt: at.Add(time.Hour), Status: 400, Stage: "push", RunID: "r1", Org: "prod", Detail: "it's \"bad\"",
		}))
	}
	if err := w.Append(lines); err != nil {
		b.t.Fatal(err)
	}
}

// settle gives the first records of the first file their ends.
func (b *bench) settle(n int) {
	b.t.Helper()
	set := b.find()
	defer set.Close()
	claim, err := spool.TakeGroup(set.Groups()[0], "r2", time.Now, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	defer claim.Release()
	items, err := claim.Index(func(*spool.Letter, spool.Status) bool { return true }, func(d *spool.Damage) { b.t.Error(d) })
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range items[:n] {
		if err := claim.Replayed(&items[i]); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := claim.Commit(); err != nil {
		b.t.Fatal(err)
	}
	if err := claim.Finish(false); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) find() *spool.Set {
	b.t.Helper()
	set, err := spool.Find([]string{b.path("dead")}, nil, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return set
}

var tools = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("testdata/tools")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
})

// metadata is the file that the catalogue names.
func (b *bench) metadata() string {
	b.t.Helper()
	db, err := sql.Open("sqlite", b.path("cat.db"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer db.Close()
	var location string
	if err := db.QueryRow("select metadata_location from iceberg_tables").Scan(&location); err != nil {
		b.t.Fatal(err)
	}
	return strings.TrimPrefix(location, "file://")
}

// duck runs a query in DuckDB; the table is its relation iceberg.
func (b *bench) duck(query string) []string {
	b.t.Helper()
	dir, err := tools()
	if err != nil {
		b.t.Fatal(err)
	}
	script, err := filepath.Abs("testdata/query.mjs")
	if err != nil {
		b.t.Fatal(err)
	}
	args := []string{script}
	if strings.Contains(query, "iceberg") {
		args = append(args, "--iceberg", b.metadata())
	}
	cmd := b.cmd("node", append(args, query)...)
	cmd.Env = append(os.Environ(), "DUCKDB_TOOLS="+dir)
	return strings.Split(strings.TrimSpace(b.output(cmd)), "\n")
}

func (b *bench) want(query string, want ...string) {
	b.t.Helper()
	if got := b.duck(query); !slices.Equal(got, want) {
		b.t.Errorf("%s\ngives %q, want %q", query, got, want)
	}
}

// latest are the letters of the table as they are now.
const latest = "(select * from iceberg where (file, appended_at) in (select (file, max(appended_at)) from iceberg group by file))"

func TestAppend(t *testing.T) {
	b := newBench(t)
	b.capture(0, 300)
	b.capture(300, 100)
	if res := b.appendLetters(); res.Files != 2 || res.Records != 400 || res.Snapshot == 0 {
		t.Errorf("first: %+v", res)
	}
	if res := b.appendLetters(); res.Files != 0 || res.Records != 0 {
		t.Errorf("again: %+v", res)
	}
	b.want("select count(*), count(distinct id), count(distinct file) from iceberg", `["400","400","2"]`)
	b.settle(5)
	if res := b.appendLetters(); res.Files != 1 || res.Records != 300 {
		t.Errorf("after a change: %+v", res)
	}
	b.want("select replay_status, count(*), count(replayed_at) from "+latest+" group by all order by 1", `["new","395","0"]`, `["replayed","5","5"]`)
	b.settle(300)
	b.appendLetters()
	b.want("select replay_status, count(*) from "+latest+" group by all order by 1", `["new","100"]`, `["replayed","300"]`)
}

// Writers that meet append each letter once.
func TestConcurrentAppend(t *testing.T) {
	b := newBench(t)
	b.capture(0, 200)
	for round := range 2 {
		var all sync.WaitGroup
		var mu sync.Mutex
		var records int64
		for range 4 {
			all.Go(func() {
				out, err := b.iceberg("--log-level", "warn").Output()
				var res result
				if err == nil {
					err = json.Unmarshal(out, &res)
				}
				mu.Lock()
				defer mu.Unlock()
				if records += res.Records; err != nil {
					t.Errorf("%v: %s", err, out)
				}
			})
		}
		all.Wait()
		if records != 200-100*int64(round) {
			t.Errorf("round %d: %d records appended", round, records)
		}
		if round == 0 {
			b.capture(200, 100)
		}
	}
	b.want("select count(*), count(distinct id) from iceberg", `["300","300"]`)
}

// A file that is being written is left for later.
func TestInUse(t *testing.T) {
	b := newBench(t)
	b.capture(0, 10)
	w, err := spool.Open(spool.Config{Dir: b.path("dead"), Instance: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append([][]byte{[]byte(`{"reason":"too_old","labels":{},"line":"x"}`)}); err != nil {
		t.Fatal(err)
	}
	if res := b.appendLetters(); res.Records != 10 || res.InUse != 1 {
		t.Errorf("%+v", res)
	}
	w.Close()
	if res := b.appendLetters(); res.Records != 1 || res.InUse != 0 {
		t.Errorf("%+v", res)
	}
}

// An independent reader finds the same in all formats, and in the letters
// themselves.
func TestFormatsAgree(t *testing.T) {
	b := newBench(t)
	b.capture(0, 600)
	b.settle(7)
	b.appendLetters()
	set := b.find()
	defer set.Close()
	for _, format := range []string{table.Parquet, table.SQLite} {
		f, err := table.Create(b.path("letters."+format), format, "test")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range set.Files {
			_, err := file.Read(func(l *spool.Letter, s spool.Status) error {
				row := table.RowOf(file.Path, l, s)
				return f.Write(&row)
			}, func(d *spool.Damage) { t.Error(d) })
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	const line = "select epoch_us(event_time), ts_unix_nano, labels->>'event_type', structured_metadata->>'level', reason, line, detail, origin from %s order by ts_unix_nano"
	want := b.duck(`select epoch_us(ts), ts_unix_nano, labels->>'event_type', structured_metadata->>'level', reason, line, dead_letter->>'detail', origin
from read_ndjson('dead/*.ndjson', columns={ts: 'TIMESTAMPTZ', ts_unix_nano: 'BIGINT', labels: 'JSON', structured_metadata: 'JSON', reason: 'VARCHAR', line: 'VARCHAR', dead_letter: 'JSON', origin: 'VARCHAR'})
order by ts_unix_nano`)
	if len(want) != 600 {
		t.Fatalf("%d records in the letters", len(want))
	}
	for _, relation := range []string{"'letters.parquet'", "iceberg"} {
		if got := b.duck(fmt.Sprintf(line, relation)); !slices.Equal(got, want) {
			t.Errorf("%s: %d rows, the first %s, want %s", relation, len(got), got[0], want[0])
		}
		b.want("select replay_status, count(*), count(replayed_at), min(rejected_at)::varchar from "+relation+" group by all order by 1",
			`["new","593","0","2026-11-01 13:00:00.123456+00"]`, `["replayed","7","7","2026-11-01 13:00:00.123456+00"]`)
	}
	script := `
import json, sqlite3
for row in sqlite3.connect("letters.sqlite").execute("""select ts_unix_nano/1000, ts_unix_nano, labels->>'event_type', structured_metadata->>'level',
		reason, line, detail, origin from dead_letters order by ts_unix_nano"""):
    print(json.dumps([str(row[0]), str(row[1]), *row[2:]], ensure_ascii=False, separators=(",", ":")))
`
	var got, plain []string
	for text := range strings.Lines(b.output(b.cmd("python3", "-X", "utf8", "-c", script))) {
		got = append(got, normal(t, text))
	}
	for _, text := range want {
		plain = append(plain, normal(t, text))
	}
	if !slices.Equal(got, plain) {
		t.Errorf("sqlite: %d rows, the first %s, want %s", len(got), got[0], plain[0])
	}
}

// normal writes JSON in one way.
func normal(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
