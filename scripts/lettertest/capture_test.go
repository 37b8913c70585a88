package lettertest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"sf2loki/pkg/lokitest"
	"sf2loki/scripts/testbed"
)

// Without a destination nothing is made; what is refused is dropped, counted
// and acknowledged.
func TestD1(t *testing.T) {
	b := newBench(t)
	b.lineLimit(100)
	b.input("in", 3, poison(2))
	r := b.want(0, "loki-push <in >acks")
	if files := b.glob("*"); len(files) != 2 {
		t.Errorf("files %v", files)
	}
	if !strings.Contains(r.Stderr, "discarded_line_too_long=1") || b.acked(b.Read("acks"), "k") != "3" || len(b.stored()) != 2 {
		t.Errorf("acks %s; %v", b.Read("acks"), r)
	}
}

// The flag that says nowhere holds, whatever the shell opened as descriptor 3.
func TestD2(t *testing.T) {
	b := newBench(t)
	b.lineLimit(100)
	b.input("in", 3, poison(2))
	b.want(0, "loki-push --dead-letter-fd -1 3>unused <in >acks")
	if text := b.Read("unused"); text != "" || b.acked(b.Read("acks"), "k") != "3" {
		t.Errorf("written %q, acks %s", text, b.Read("acks"))
	}
}

// One bad entry of eight is one letter. Loki stores the good part of a request
// that it refuses, so proving that the rest is stored sends it once more: seven
// entries twice at most.
func TestD3(t *testing.T) {
	b := newBench(t)
	b.lineLimit(100)
	b.input("in", 8, poison(5))
	b.want(0, "loki-push --spool dead <in >acks")
	if got := origins(b.letters("dead/*.ndjson")); got != "5" {
		t.Errorf("letters %s", got)
	}
	if s := b.srv.Stats(); s.Stored != 7 || s.Received > 8+7 {
		t.Errorf("%d stored of %d received", s.Stored, s.Received)
	}
}

// What is decided stays decided when the server fails in between.
func TestD4(t *testing.T) {
	b := newBench(t)
	b.lineLimit(100)
	b.srv.Script(func(n int, _ lokitest.Request) *lokitest.Answer {
		if n == 1 || n == 2 {
			return &lokitest.Answer{Status: 503}
		}
		return nil
	})
	b.input("in", 8, poison(5))
	b.want(0, "loki-push --spool dead --metrics-file m.prom <in >acks")
	if got := origins(b.letters("dead/*.ndjson")); got != "5" || len(b.stored()) != 7 {
		t.Errorf("letters %s, %d stored", got, len(b.stored()))
	}
	if text := b.Read("m.prom"); !strings.Contains(text, `sf2loki_loki_entries_dropped_total{event_type="Login",instance_name="x",reason="line_too_long",source="test"} 1`) ||
		!strings.Contains(text, `sf2loki_deadletter_entries_written_total{instance_name="x",reason="line_too_long"} 1`) {
		t.Errorf("metrics: %s", text)
	}
}

// A server that refuses everything for one reason stops the run with 78, before
// more than the window is captured; nothing is acknowledged that was not.
func TestD5(t *testing.T) {
	b := newBench(t)
	b.lineLimit(1)
	b.input("in", 10_000, nil)
	r := b.want(78, "loki-push --spool dead <in >acks")
	letters := b.letters("dead/*.ndjson")
	acked, _ := strconv.Atoi(b.acked(b.Read("acks"), "k"))
	if len(letters) > 1000 || acked > len(letters) || !strings.Contains(r.Stderr, "line_too_long") {
		t.Errorf("%d letters, acknowledged to %d: %v", len(letters), acked, r)
	}
}

// Trouble that is not the entries' makes no letter and no acknowledgement.
func TestD6(t *testing.T) {
	for name, tt := range map[string]struct {
		answer lokitest.Answer
		status int
	}{
		"401":              {lokitest.Answer{Status: 401, Body: "no"}, 77},
		"403":              {lokitest.Answer{Status: 403, Body: "no"}, 77},
		"404":              {lokitest.Answer{Status: 404, Body: "404 page not found"}, 78},
		"260":              {lokitest.Answer{Status: 260, Body: "blocked"}, 78},
		"400 of a proxy":   {lokitest.Answer{Status: 400, Body: "<html><body>Bad Request</body></html>"}, 78},
		"302 to a sign-in": {lokitest.Answer{Status: 302}, 78},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.srv.Script(func(int, lokitest.Request) *lokitest.Answer { return &tt.answer })
			b.input("in", 3, nil)
			b.want(tt.status, "loki-push --spool dead --give-up 1s <in >acks")
			if got := b.letters("dead/*"); len(got) != 0 || b.acked(b.Read("acks"), "k") != "" {
				t.Errorf("letters %v, acks %s", got, b.Read("acks"))
			}
		})
	}
}

// tiny is a script with a file system of 64 KiB in ./tiny that is gone when it
// ends.
func tiny(script string) string {
	return `mkdir -p tiny; unshare -m sh -c 'mount -t tmpfs -o size=64k none tiny && ` + script + `'`
}

// Where letters cannot be written the flow goes on and says so, or stops before
// the acknowledgement, as it is told. A directory that is read-only from the start
// ends the run before it reads anything, whatever is to be done later.
func TestD7(t *testing.T) {
	t.Run("read-only", func(t *testing.T) {
		b := newBench(t)
		b.input("in", 1, nil)
		r := b.want(73, tiny("mkdir -m 700 tiny/dead && mount -o remount,ro tiny && loki-push --spool tiny/dead <in >acks"))
		if b.acked(b.Read("acks"), "k") != "" || len(b.stored()) > 0 || !strings.Contains(r.Stderr, "tiny/dead: read-only file system") {
			t.Errorf("%v", r)
		}
	})
	full := tiny("loki-push --breaker=false --metrics-file m.prom --on-dead-letter-error %s --spool tiny/dead <in >acks")
	gone := "mkfifo gone; : <gone & loki-push --breaker=false --metrics-file m.prom --on-dead-letter-error %s 3>gone <in >acks"
	for name, script := range map[string]string{"full disk": full, "reader gone": gone} {
		for action, status := range map[string]int{"drop": 0, "stop": 74} {
			t.Run(name+", "+action, func(t *testing.T) {
				b := newBench(t)
				b.lineLimit(100)
				b.input("in", 200, func(r *rec) { r.line = long(1000) })
				r := b.want(status, fmt.Sprintf(script, action))
				acked := b.acked(b.Read("acks"), "k")
				if action == "drop" && acked != "200" || action == "stop" && acked == "200" {
					t.Errorf("acknowledged to %q: %v", acked, r)
				}
				if !strings.Contains(r.Stderr, "dead letter") || strings.Contains(b.Read("m.prom"), "sf2loki_deadletter_write_errors_total{instance_name=\"x\"} 0") {
					t.Errorf("%v\n%s", r, b.Read("m.prom"))
				}
			})
		}
	}
}

// Killed between capture and acknowledgement, the same entry is captured again
// under the same id, and counted as one.
func TestD8(t *testing.T) {
	b := newBench(t)
	b.lineLimit(100)
	b.input("in", 1, poison(1))
	for range 2 {
		cmd := b.Command(t.Context(), `mkfifo acks 2>/dev/null; exec 4<>acks; { cat in; exec sleep 60; } | exec loki-push --spool dead >acks`)
		before := len(b.letters("dead/*.ndjson"))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		testbed.Eventually(t, "a letter", func() bool { return len(b.letters("dead/*.ndjson")) > before })
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}
	got := b.letters("dead/*.ndjson")
	if len(got) != 2 || got[0].DeadLetter.ID != got[1].DeadLetter.ID || got[0].DeadLetter.ID == "" {
		t.Errorf("letters %+v", got)
	}
	r := b.want(0, "dl-replay list --spool dead")
	if f := strings.Fields(r.Stdout[strings.LastIndex(r.Stdout, "total"):]); f[2] != "2" || f[3] != "1" {
		t.Errorf("want 2 records, 1 of them unique: %v", r)
	}
}

// A torn last line is named with its place, and costs nothing else.
func TestD9(t *testing.T) {
	b := newBench(t)
	b.capture(3, nil)
	file := b.glob("dead/*.ndjson")[0]
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(whole[:100]); err != nil {
		t.Fatal(err)
	}
	f.Close()
	place := fmt.Sprintf("line 4 (byte %d)", len(whole))
	for _, script := range []string{"dl-replay list --spool dead", "dl-replay cat --spool dead", "dl-replay run --spool dead -- loki-push"} {
		if r := b.want(74, script); !strings.Contains(r.Stderr, file[len(b.Dir)+1:]+": "+place) {
			t.Errorf("want %s: %v", place, r)
		}
	}
	if len(b.stored()) != 3 {
		t.Errorf("stored %v", b.stored())
	}
}

// Thirty megabytes into ten: what is kept fits, the oldest is gone, and what is
// gone is counted.
func TestD10(t *testing.T) {
	b := newBench(t)
	b.lineLimit(1000)
	const records = 1500
	b.input("in", records, func(r *rec) { r.line = fmt.Sprint(r.n, long(20_000)) })
	b.want(0, `loki-push --breaker=false --spool dead --spool-bytes 10MiB --spool-file-bytes 1MiB --metrics-file m.prom <in >acks`)
	size := int64(0)
	for _, path := range b.glob("dead/*") {
		if info, err := os.Stat(path); err == nil {
			size += info.Size()
		}
	}
	kept := b.letters("dead/*.ndjson")
	if size > 11<<20 || size < 8<<20 || kept[len(kept)-1].Origin != fmt.Sprintf("0AT:%d", records) {
		t.Errorf("%d bytes, the last is %s", size, kept[len(kept)-1].Origin)
	}
	if want := fmt.Sprintf(`sf2loki_deadletter_pruned_unreplayed_total{instance_name="x",reason="line_too_long"} %d`, records-len(kept)); !strings.Contains(b.Read("m.prom"), want+"\n") {
		t.Errorf("want %s in %s", want, b.Read("m.prom"))
	}
}

// Two writers of one directory never share a file.
func TestD11(t *testing.T) {
	b := newBench(t)
	b.lineLimit(100)
	b.input("in", 400, func(r *rec) { r.line = fmt.Sprint(r.n, long(150)) })
	b.want(0, `for i in 1 2; do loki-push --breaker=false --batch-entries 5 --instance same --spool dead --spool-file-bytes 20kB <in >acks$i & done; wait`)
	seen := map[string]int{}
	for _, l := range b.letters("dead/*.ndjson") {
		seen[l.Origin]++
	}
	for origin, n := range seen {
		if n != 2 {
			t.Errorf("%s is there %d times", origin, n)
		}
	}
	if len(seen) != 400 {
		t.Errorf("%d different letters", len(seen))
	}
}

// The modes do not depend on the umask.
func TestD12(t *testing.T) {
	for _, mask := range []string{"000", "077"} {
		t.Run(mask, func(t *testing.T) {
			b := newBench(t)
			b.lineLimit(100)
			b.input("in", 1, poison(1))
			b.want(0, "umask "+mask+"; loki-push --spool dead <in >acks; stat -c %a dead dead/*", "700\n600\n")
		})
	}
}

// Lines that are cut are shipped cut; the whole one is captured, and a replay
// leaves it alone until it is asked for.
func TestD30(t *testing.T) {
	b := newBench(t)
	b.input("in", 3, func(r *rec) {
		if r.n == 2 {
			r.line = long(5000)
		}
	})
	b.want(0, "loki-push --max-line-bytes 500 --spool dead <in >acks")
	got := b.letters("dead/*.ndjson")
	if len(got) != 1 || got[0].Reason != "truncated_copy" || got[0].Line != long(5000) {
		t.Errorf("letters %.300v", got)
	}
	cut := ""
	for line := range b.stored() {
		if strings.HasPrefix(line, "xxx") {
			cut = line
		}
	}
	if len(cut) == 0 || len(cut) > 600 || !strings.HasSuffix(cut, "truncated, original 5000 bytes]") && !strings.Contains(cut, "original 5000 bytes") {
		t.Errorf("shipped %q", cut)
	}
	b.want(0, "dl-replay run --spool dead -- loki-push", "0 to send", "1 sent only when asked for")
	b.want(0, "dl-replay run --spool dead --reason truncated_copy -- loki-push", "1 to send: 1 replayed")
	if b.stored()[long(5000)] != 1 {
		t.Error("the whole line is not stored")
	}
}

// A batch of nothing but poison is acknowledged, every key to its end.
func TestD32(t *testing.T) {
	b := newBench(t)
	b.lineLimit(100)
	b.input("in", 40, func(r *rec) {
		r.line, r.key = fmt.Sprint(r.n, long(150)), []string{"a", "b"}[r.n%2]
	})
	b.want(0, "loki-push --spool dead <in >acks")
	if a, k := b.acked(b.Read("acks"), "a"), b.acked(b.Read("acks"), "b"); a != "40" || k != "39" || len(b.letters("dead/*.ndjson")) != 40 {
		t.Errorf("acknowledged to %s and %s", a, k)
	}
}

// Trouble that does not end is never a letter.
func TestD33(t *testing.T) {
	b := newBench(t)
	b.srv.Script(func(int, lokitest.Request) *lokitest.Answer { return &lokitest.Answer{Status: 503} })
	b.input("in", 5, nil)
	b.want(69, "loki-push --spool dead --give-up 2s <in >acks")
	if got := b.letters("dead/*"); len(got) != 0 || b.acked(b.Read("acks"), "k") != "" {
		t.Errorf("letters %v, acks %s", got, b.Read("acks"))
	}
}

// Two stages and a third program write letters to one descriptor: no line is
// torn. The lines are longer than what a pipe takes at once.
func TestSharedDescriptor(t *testing.T) {
	b := newBench(t)
	b.lineLimit(100)
	const each = 60
	for i := range 3 {
		b.input(fmt.Sprint("in", i), each, func(r *rec) { r.line = fmt.Sprint(i, " ", r.n, long(50_000+1000*r.n)) })
	}
	for _, target := range []string{"3>>letters", "3>pipe"} {
		script := `mkfifo pipe; { sleep 0.3; cat; } <pipe >from-pipe & reader=$!
{ for i in 0 1 2; do loki-push --breaker=false --batch-entries 3 <in$i >acks$i & all="$all $!"; done; wait $all; } ` + target + `
case "` + target + `" in *pipe) ;; *) : >pipe ;; esac; wait $reader; rm pipe`
		b.want(0, script)
	}
	for _, name := range []string{"letters", "from-pipe"} {
		seen := map[string]int{}
		for _, l := range b.parse(b.Read(name)) {
			seen[l.Line[:8]+strconv.Itoa(len(l.Line))]++
		}
		if len(seen) != 3*each {
			t.Errorf("%s: %d different letters", name, len(seen))
		}
	}
}

// Lines of 256 KiB against the budget that a spool has without a flag: what is
// gone is counted and loud, and the newest are kept.
func TestDefaultBudget(t *testing.T) {
	b := newBench(t)
	b.lineLimit(1000)
	const records = 300
	var text strings.Builder
	for i := 1; i <= records; i++ {
		text.WriteString(rec{n: i, line: fmt.Sprint(i, long(256<<10))}.text())
	}
	b.Write("in", text.String())
	r := b.want(0, "loki-push --breaker=false --max-line-bytes 1MiB --spool dead --metrics-file m.prom <in >acks")
	kept := b.letters("dead/*.ndjson")
	want := fmt.Sprintf(`sf2loki_deadletter_pruned_unreplayed_total{instance_name="x",reason="line_too_long"} %d`, records-len(kept))
	if len(kept) < 200 || len(kept) == records || !strings.Contains(b.Read("m.prom"), want+"\n") || !strings.Contains(r.Stderr, "nobody had replayed") {
		t.Errorf("%d kept: %v", len(kept), r)
	}
	// With the room that every shipped unit gives, all are kept.
	b.want(0, "loki-push --breaker=false --max-line-bytes 1MiB --spool roomy --spool-bytes 1GiB <in >acks")
	if n := len(b.letters("roomy/*.ndjson")); n != records {
		t.Errorf("%d kept in 1 GiB", n)
	}
}
