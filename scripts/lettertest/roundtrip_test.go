package lettertest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
)

// number is what an environment variable says, or otherwise.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// alphabet has what formats and shells like to change.
var alphabet = []rune("abcXYZ019 \t\n\r\x00\x01\x1f\x7f\"\\/<>&'`$%{}[],:;=|\u0085\u00a0é\u2028\u2029\ufeff\ufffd中😀")

func randomText(rng *rand.Rand, most int) string {
	text := make([]rune, rng.IntN(most+1))
	for i := range text {
		text[i] = alphabet[rng.IntN(len(alphabet))]
	}
	return string(text)
}

// Z31: to replay what Loki holds already adds nothing to it, be it by hand or
// not: the entries are what they were, metadata included.
func TestReplayOfWhatIsStored(t *testing.T) {
	b := newBench(t)
	const n = 20
	b.capture(n, func(r *rec) {
		if r.n%2 == 0 {
			r.meta = "m"
		}
	})
	b.want(0, "loki-push <captured >acks")
	before, sent := b.srv.Entries("fake"), b.srv.Stats().Received
	b.want(0, "dl-replay cat --spool dead | loki-push >acks")
	b.want(0, "dl-replay run --spool dead -- loki-push", fmt.Sprint(n, " replayed"))
	if after := b.srv.Entries("fake"); len(before) != n || len(after) != n || b.srv.Stats().Received != sent+2*n {
		t.Errorf("%d entries, then %d; %d were sent again", len(before), len(after), b.srv.Stats().Received-sent)
	}
}

// Ten thousand generated entries go through capture, cat, jq and push, and are
// stored as they were: labels, metadata, line and nanoseconds. The jq is that of
// the machine, or LETTERTEST_JQ, which is newer.
func TestRoundTrip(t *testing.T) {
	b := newBench(t)
	rng := rand.New(rand.NewPCG(uint64(number(t, "LETTERTEST_SEED", 1)), 0))
	type entry struct {
		nanos           int64
		line, meta, typ string
	}
	want := map[entry]int{}
	var in strings.Builder
	const records = 10_000
	for i := 1; i <= records; i++ {
		r := rec{n: i, line: randomText(rng, 60), typ: []string{"Login", "API", `odd"\` + "\u2028é"}[rng.IntN(3)], ago: time.Duration(rng.IntN(3000)) * time.Second}
		if rng.IntN(2) == 0 {
			// Loki itself makes a space of U+FFFD in a piece of metadata.
			r.meta = "m" + strings.ReplaceAll(randomText(rng, 20), "\ufffd", "?")
		}
		in.WriteString(r.text())
		want[entry{epoch.Add(-r.ago).UnixNano() + int64(i), r.line, r.meta, r.typ}]++
	}
	b.Write("in", in.String())
	// An empty line is shorter than any limit, so the server refuses by count.
	b.limit(func(l *lokitest.Limits) { l.MaxLabelNames = 0 })
	b.want(0, "loki-push --breaker=false --hour-label none --spool dead --spool-bytes 1GiB <in >acks")
	if n := len(b.letters("dead/*.ndjson")); n != records {
		t.Fatalf("%d captured", n)
	}
	b.limit(func(l *lokitest.Limits) { l.MaxLabelNames = 15 })
	jq := "jq"
	if other := os.Getenv("LETTERTEST_JQ"); other != "" {
		jq = "env HOME='" + os.Getenv("HOME") + "' " + other
		// 1.6 rounds integers, 1.7 hands them on.
		b.want(0, "echo 1782936000123456789 | "+jq+" -c .", "1782936000123456789\n")
	}
	b.want(0, "dl-replay cat --spool dead | "+jq+" -c . >edited && loki-push --hour-label none <edited >acks")
	got := map[entry]int{}
	for _, e := range b.srv.Entries("fake") {
		key := entry{nanos: e.Nanos, line: e.Line}
		for _, l := range e.Labels {
			if l.Name == "event_type" {
				key.typ = l.Value
			}
		}
		for _, m := range e.Metadata {
			if m.Name == "meta" {
				key.meta = m.Value
			} else {
				t.Fatalf("metadata that nobody gave: %v", m)
			}
		}
		got[key]++
	}
	wrong := 0
	for e, n := range want {
		if got[e] != n {
			if wrong++; wrong <= 3 {
				t.Errorf("%d of %d: %+q", got[e], n, fmt.Sprint(e))
				for other := range got {
					if other.nanos == e.nanos {
						t.Errorf("in its place: %+q", fmt.Sprint(other))
					}
				}
			}
		}
	}
	if wrong > 0 || len(got) != len(want) {
		t.Errorf("%d wrong; %d entries, want %d", wrong, len(got), len(want))
	}
}

// Killed at random points, dl-replay or its loki-push, again and again: every
// record ends once, what was acknowledged is not sent again, and the document
// of positions is what it was. LETTERTEST_KILLS and LETTERTEST_SEED change how
// often and when.
func TestKill(t *testing.T) {
	b := newBench(t)
	kills, seed := number(t, "LETTERTEST_KILLS", 12), number(t, "LETTERTEST_SEED", 1)
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	b.want(0, "ckpt set --raw state.json k 7")
	state := b.Read("state.json")
	const records, bad = 600, 30
	done := 0
	for round := 0; done < kills; round++ {
		spool := fmt.Sprint("dead", round)
		b.lineLimit(1)
		b.input("in", records, func(r *rec) {
			r.n += round * records
			r.line = fmt.Sprintf(`{"N":%d}`, r.n)
			if r.n%(records/bad) == 0 {
				r.line += long(100)
			}
		})
		b.want(0, "loki-push --breaker=false --spool-file-bytes 64kB --spool "+spool+" <in >acks")
		b.lineLimit(100)
		done += b.killedRound(rng, spool, kills-done)
		b.settled(spool, records, bad)
		if t.Failed() {
			t.Fatalf("seed %d, round %d", seed, round)
		}
	}
	if b.Read("state.json") != state {
		t.Error("a position moved")
	}
	t.Logf("%d kills", done)
}

// killedRound replays a spool until nothing is left, killing as it goes, and
// returns how often.
func (b *bench) killedRound(rng *rand.Rand, spool string, most int) (kills int) {
	b.T.Helper()
	script := `exec dl-replay run --spool ` + spool + ` -- sh -c 'echo $$ >push.pid; exec loki-push --batch-entries 20 --max-lines-per-second 1500'`
	for tries := 0; ; tries++ {
		if tries > 400 {
			b.T.Fatal("it never ends")
		}
		_ = os.Remove(b.Path("push.pid"))
		cmd := b.Command(b.T.Context(), script)
		if err := cmd.Start(); err != nil {
			b.T.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		if kills < most && tries < 25 {
			select {
			case <-ended:
			case <-time.After(time.Duration(5+rng.IntN(250)) * time.Millisecond):
				if b.kill(rng, cmd.Process.Pid) {
					kills++
				}
			}
		}
		<-ended
		if status := cmd.ProcessState.ExitCode(); status == 0 {
			return kills
		}
	}
}

// kill kills dl-replay or its command.
func (b *bench) kill(rng *rand.Rand, replay int) bool {
	pid := replay
	if rng.IntN(2) == 0 {
		n, err := strconv.Atoi(strings.TrimSpace(b.Read("push.pid")))
		if err != nil {
			return false
		}
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", n))
		if err != nil || !strings.HasPrefix(string(name), "loki-push") {
			return false
		}
		pid = n
	}
	return syscall.Kill(pid, syscall.SIGKILL) == nil
}

// settled fails unless every record of a spool has come to one end.
func (b *bench) settled(spool string, records, bad int) {
	b.T.Helper()
	r := b.want(0, "dl-replay list --json --spool "+spool+" | jq -s -c '[.[].statuses | to_entries[]] | group_by(.key) | map({(.[0].key): map(.value) | add}) | add'")
	if want := fmt.Sprintf(`{"failed":%d,"replayed":%d}`, bad, records-bad); strings.TrimSpace(r.Stdout) != want {
		b.T.Errorf("want %s: %v", want, r)
	}
	failed := map[string]int{}
	for _, l := range b.letters(filepath.Join(spool, "*.failed")) {
		failed[l.Origin]++
	}
	if len(failed) != bad {
		b.T.Errorf("%d different records failed", len(failed))
	}
	for line, n := range b.stored() {
		if n != 1 {
			b.T.Errorf("%s is stored %d times", line, n)
		}
	}
	b.want(0, "dl-replay verify --spool "+spool, " 0 faults")
}
