package pipetest

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/scripts/testbed"
)

const fixtures = testbed.Root + "/pkg/eventlog/testdata"

// Every file of the fixtures arrives row by row and byte by byte, in a
// simulated Loki and in a store of another project.
func TestFixtureFiles(t *testing.T) {
	paths, err := filepath.Glob(fixtures + "/*.csv")
	if err != nil || len(paths) < 40 {
		t.Fatalf("%d fixtures, %v", len(paths), err)
	}
	counts := manifestRows(t)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".csv"), func(t *testing.T) {
			t.Parallel()
			fixtureFile(t, path, counts[filepath.Base(path)])
		})
	}
}

// manifestRows tells how many rows each file has, by whoever made them.
func manifestRows(t *testing.T) map[string]int {
	t.Helper()
	data, err := os.ReadFile(fixtures + "/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		File string
		Rows int
	}
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, f := range list {
		counts[f.File] = f.Rows
	}
	return counts
}

func fixtureFile(t *testing.T, path string, rows int) {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	status, torn := 0, 0
	if strings.Contains(path, "truncated") {
		status, torn = 65, 1 // what is whole is delivered, and the file is not taken for whole
	}
	want := expected(t, data, nil)
	if want.total() != rows-torn {
		t.Fatalf("the reference finds %d rows, the manifest has %d", want.total(), rows)
	}
	b := newBench(t)
	if err := os.CopyFS(b.Dir, os.DirFS(filepath.Dir(path))); err != nil {
		t.Fatal(err)
	}
	srv := loki(t, lokitest.Config{Limits: anyAge})
	b.set("LOKI_PUSH_MAX_AGE=0", "FILE="+filepath.Base(path))
	b.pipe(status, `sf-pull elf --file "$FILE" | loki-push --url `+srv.URL+` --spool dead | ckpt commit state.json`)
	same(t, "lokitest", held(srv), want.folded())
	if letters := b.letters("dead"); len(letters) != torn || torn > 0 && letters[0].Reason != "decode_error" {
		t.Errorf("%d dead letters: %.300v", len(letters), letters)
	}

	for _, encoding := range []string{"protobuf", "json"} {
		vl := newVLTenant(t)
		b.pipe(status, `sf-pull elf --file "$FILE" | loki-push --encoding `+encoding+` --url `+vl.URL+`/insert/loki/api/v1/push --tenant `+vl.ID+` | ckpt commit `+encoding+`.json`)
		same(t, "VictoriaLogs, "+encoding, vl.held(t), want)
	}

	// The position is behind the file: nothing is left to send.
	before := srv.Stats().Received
	b.pipe(status, `sf-pull elf --file "$FILE" --resume state.json | loki-push --url `+srv.URL+` | ckpt commit state.json`)
	if again := srv.Stats().Received - before; again != 0 {
		t.Errorf("%d rows were sent again", again)
	}
}

// letter is what the tests look at of a dead letter.
type letter struct {
	TS                 time.Time
	Reason, Line       string
	Labels             map[string]string
	StructuredMetadata map[string]string `json:"structured_metadata"`
}

// letters are all dead letters in a spool.
func (b *bench) letters(spool string) []letter {
	b.T.Helper()
	paths, err := filepath.Glob(b.Path(spool) + "/*.ndjson")
	if err != nil {
		b.T.Fatal(err)
	}
	var all []letter
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			b.T.Fatal(err)
		}
		all = append(all, parseLetters(b.T, string(data))...)
	}
	return all
}

func parseLetters(t *testing.T, text string) []letter {
	t.Helper()
	var all []letter
	for line := range strings.Lines(text) {
		var l letter
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%.200s: %v", line, err)
		}
		all = append(all, l)
	}
	return all
}

// positions is the checkpoint document.
func (b *bench) positions() map[string]string {
	b.T.Helper()
	doc := map[string]string{}
	if text := b.Read("state.json"); text != "" {
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			b.T.Fatal(err)
		}
	}
	maps.DeleteFunc(doc, func(key, _ string) bool { return strings.HasPrefix(key, "__") })
	return doc
}

// pipe runs a pipeline that has to end with the status.
func (b *bench) pipe(status int, script string) *testbed.Result {
	b.T.Helper()
	r := b.Run(script)
	if r.Status != status {
		b.T.Fatalf("want status %d: %v", status, r)
	}
	return r
}
