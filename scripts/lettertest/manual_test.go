package lettertest

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"sf2loki/pkg/lokitest"
	"sf2loki/scripts/testbed"
)

// blocks are the literal texts of a section of the manual.
func blocks(t *testing.T, section string) []string {
	t.Helper()
	page, err := os.ReadFile(testbed.Root + "/man/sf2loki-deadletter.5")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(page), "\n.S"+section+"\n")
	text = regexp.MustCompile(`(?s)\n\.S[hs] .*`).ReplaceAllString(text, "")
	var found []string
	for _, part := range strings.Split(text, ".Bd -literal")[1:] {
		_, block, _ := strings.Cut(part, "\n")
		block, _, closed := strings.Cut(block, "\n.Ed")
		ok = ok && closed
		found = append(found, strings.ReplaceAll(block, `\e`, `\`))
	}
	if !ok || len(found) == 0 {
		t.Fatalf("nothing in %s", section)
	}
	return found
}

// The runbook, as it is printed: letters whose query is too long are mended,
// one that cannot be is left over, looked at, and decided on.
func TestRunbook(t *testing.T) {
	b := newBench(t)
	b.lineLimit(25_000)
	b.Env = append(b.Env, "SPOOL=dead", "URL="+b.srv.URL)
	b.input("in", 6, func(r *rec) {
		fields := map[string]string{"QUERY": long(30_000), "N": fmt.Sprint(r.n)}
		if r.n == 4 {
			fields = map[string]string{"QUERY": "short", "BODY": long(30_000)}
		}
		if r.n == 6 {
			r.typ, fields = "Test", map[string]string{"BODY": long(30_000)}
		}
		line, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		r.line = string(line)
	})
	b.want(0, "loki-push --max-line-bytes 1MiB --breaker=false --in-flight 1 --spool dead <in >acks") // one at a time: letters in the order of the streams
	b.limit(func(l *lokitest.Limits) { l.DiscoverServiceName = nil })
	all := blocks(t, "h RUNBOOK")
	statuses := []int{0, 0, 0, 65, 0, 0}
	if len(all) != len(statuses) {
		t.Fatalf("%d steps, want %d", len(all), len(statuses))
	}
	texts := []string{"line_too_long", "to send", "1 to send: 1 replayed", "5 to send: 3 replayed, 2 failed", "1 records are discarded now", "0 faults"}
	for i, step := range all {
		// Loki takes lines of 256 KiB again only where the runbook says so: not here.
		b.want(statuses[i], step, texts[i])
	}
	b.want(0, "dl-replay stats --spool dead --by status", "replayed   4 ", "failed     1 ", "discarded  1 ")
	if len(b.stored()) != 4 {
		t.Errorf("%d stored", len(b.stored()))
	}
}

// The connector of the manual: its records are stored, what it cannot read is
// a letter that a replay leaves alone, and its position passes both.
func TestConnector(t *testing.T) {
	b := newBench(t)
	b.Write("connector", blocks(t, "s A connector of one's own")[0]+"\n")
	if n := strings.Count(b.Read("connector"), "\n"); n > 24 {
		t.Errorf("%d lines", n)
	}
	at := epoch.UTC().Format("2006-01-02T15:04:05+00:00")
	b.Write("lines", at+" first\n"+"yesterday it rained\n"+at+" second é\n\xff\xfe\n")
	b.Write("go.sh", `{ python3 connector <lines | loki-push | ckpt commit state.json; } 3>>letters`)
	b.want(0, "chmod +x connector; sh go.sh")
	if got := b.stored(); got["first"] != 1 || got["second é"] != 1 || len(got) != 2 {
		t.Errorf("stored %v", got)
	}
	got := b.letters("letters")
	if len(got) != 2 || got[0].Origin != "stdin:2" || got[1].Payload != "//4K" || got[0].Reason != "decode_error" {
		t.Errorf("letters %+v", got)
	}
	b.want(0, "ckpt get state.json demo:lines", "4")
	b.want(0, "dl-replay run letters -- loki-push", "0 to send", "2 sent only when asked for")
	b.want(0, "dl-replay list letters", "decode_error:2")
	b.want(0, "dl-replay verify letters")
}
