package tasktest

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// readmeBlocks are the commands below a heading of the README.
func readmeBlocks(t *testing.T, heading string) []string {
	t.Helper()
	_, text, ok := strings.Cut(read(t, "README.md"), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("no heading %q", heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	var blocks []string
	for _, m := range regexp.MustCompile(`(?m)(?:^    .*\n)+`).FindAllString(text, -1) {
		blocks = append(blocks, regexp.MustCompile(`(?m)^    `).ReplaceAllString(m, ""))
	}
	return blocks
}

// A newcomer with nothing but the README: data in a log store, then a dead
// letter found, repaired and replayed. The programs are built already; the
// servers of the first step are those of the harness, at other addresses.
func TestReadme(t *testing.T) {
	b := newBench(t)
	begun := time.Now()
	blocks := readmeBlocks(t, "First data, first dead letter")
	if len(blocks) != 5 {
		t.Fatalf("%d blocks: %q", len(blocks), blocks)
	}
	want := "make build\ngo build -o bin/ ./pkg/sftest/cmd/sftest ./pkg/lokitest/cmd/lokitest\n" +
		"export PATH=\"$PWD/bin:$PATH\"\nsftest --dir org --poison &\nlokitest --listen 127.0.0.1:3100 &\n"
	if blocks[0] != want {
		t.Fatalf("the first step is %q", blocks[0])
	}
	b.serve(1, "sftest", "--dir", "org", "--poison")
	b.loki("http://127.0.0.1:3100")
	session := blocks[1]
	step := func(block string, texts ...string) string {
		t.Helper()
		return b.in("bash", 0, session+block, texts...).Stdout
	}
	step("", "PASS  login:")
	out := step(blocks[2], `{"event_type":"Login"}`)
	if n := strings.Count(out, `"event_type"`); n != 6 {
		t.Errorf("%d event types: %s", n, out)
	}
	step(blocks[3], "line_too_long  24", "too_new        48", "too_old        48", "shorten it on the way", `","value":307200}`)
	step(blocks[4], "24 to send: 24 replayed", "96 to send: 96 replayed", ".replayed")
	if n := b.stored("http://127.0.0.1:3100", "", `{source="eventlogfile"}`); n != b.rows("") {
		t.Errorf("%d stored of %d", n, b.rows(""))
	}
	pull, _, _ := strings.Cut(blocks[2], "curl ")
	step("export SF_PULL_REPORT=again\n" + pull)
	if n := b.account("again", "written"); n != 0 {
		t.Errorf("%d rows came again", n)
	}
	t.Logf("from started servers to the end: %v", time.Since(begun).Round(time.Millisecond))
}

func TestReadmeIsShort(t *testing.T) {
	if n := strings.Count(read(t, "README.md"), "\n"); n >= 120 {
		t.Errorf("%d lines", n)
	}
	for i, line := range strings.Split(read(t, "README.md"), "\n") {
		if len(line) > 125 {
			t.Errorf("line %d has %d bytes", i+1, len(line))
		}
	}
	for _, name := range []string{"sf-pull(1)", "loki-push(1)", "ckpt(1)", "dl-replay(1)", "sf2loki(8)"} {
		if !strings.Contains(read(t, "README.md"), name) {
			t.Errorf("no word of %s", name)
		}
	}
}
