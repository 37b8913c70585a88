package lettertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
	"sf2loki/scripts/testbed"
)

// What comes back from a spool through jq is what went in, to the byte and the
// nanosecond.
func TestD14(t *testing.T) {
	b := newBench(t)
	lines := []string{`<>&`, "\x00\u2028\t\"\\", "😀é", `{"a":"\u0000 \ud83d"}`, "plain"}
	b.capture(len(lines), func(r *rec) {
		r.line = lines[r.n-1]
		if r.n%2 == 0 {
			r.meta = `a"b` + "\u2028"
		}
	})
	b.want(0, "dl-replay cat --spool dead | jq -c . | loki-push >acks")
	got := b.srv.Entries("fake")
	for i, e := range got {
		if e.Line != lines[i] || e.Nanos != epoch.UnixNano()+int64(i+1) || len(e.Metadata) != i%2 {
			t.Errorf("entry %d is %q at %d with %v", i, e.Line, e.Nanos, e.Metadata)
		}
	}
	if len(got) != len(lines) {
		t.Errorf("%d entries", len(got))
	}
	if b.acked(b.Read("acks"), "k") != "" {
		t.Errorf("acknowledged under its own key: %s", b.Read("acks"))
	}
}

// Killed after forty acknowledgements, the next run sends the sixty that are
// left, and what was in flight at most.
func TestD15(t *testing.T) {
	b := newBench(t)
	b.capture(100, nil)
	begin := len(b.srv.Requests())
	cmd := b.Command(context.Background(), "exec dl-replay run --spool dead -- loki-push --batch-entries 10 --max-lines-per-second 60 --in-flight 1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	journal := filepath.Base(b.glob("dead/*.ndjson")[0]) + ".journal"
	testbed.Eventually(t, "forty fates", func() bool { return strings.Count(b.Read("dead/"+journal), `"replayed"`) >= 40 })
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	done := strings.Count(b.Read("dead/"+journal), `"replayed"`)
	r := b.want(0, "dl-replay run --spool dead -- loki-push --batch-entries 10")
	if want := fmt.Sprintf("%d to send: %d replayed", 100-done, 100-done); !strings.Contains(r.Stdout, want) {
		t.Errorf("want %s: %v", want, r)
	}
	sent := 0
	for _, req := range b.srv.Requests()[begin:] {
		for _, s := range req.Streams {
			sent += len(s.Entries)
		}
	}
	if len(b.stored()) != 100 || sent > 100+20 {
		t.Errorf("%d stored, %d sent", len(b.stored()), sent)
	}
}

// What is refused again moves aside with both refusals, is not sent again, and
// becomes new by requeue until it was refused often enough.
func TestD16(t *testing.T) {
	b := newBench(t)
	b.capture(10, poison(3, 5, 8))
	b.lineLimit(100)
	b.want(65, "dl-replay run --spool dead -- loki-push", "7 replayed, 3 failed")
	failed := b.letters("dead/*.failed")
	if origins(failed) != "3 5 8" || len(failed[0].DeadLetter.Errors) != 2 || failed[0].DeadLetter.Attempts != 2 {
		t.Errorf("failed %+v", failed)
	}
	b.want(0, "dl-replay run --spool dead -- loki-push", "0 to send")
	b.want(0, "dl-replay requeue --spool dead", "3 records are new now")
	b.want(65, "dl-replay run --spool dead -- loki-push", "3 to send: 0 replayed, 3 failed")
	b.want(0, "dl-replay requeue --spool dead", "3 records")
	b.want(0, "dl-replay run --spool dead -- loki-push", "0 to send", "3 out of attempts")
	b.lineLimit(1000)
	b.want(0, "dl-replay run --spool dead --max-attempts 0 -- loki-push", "3 to send: 3 replayed")
	if len(b.stored()) != 10 {
		t.Errorf("%d stored", len(b.stored()))
	}
}

// The acknowledgements of a replay never reach a document of positions.
func TestD17(t *testing.T) {
	b := newBench(t)
	b.capture(4, nil)
	b.want(0, "ckpt set --raw state.json k 7")
	before := b.Read("state.json")
	b.want(0, `dl-replay run --spool dead -- sh -c 'loki-push | tee acks'`)
	b.want(65, "ckpt commit state.json <acks")
	b.want(0, "cat dead/*.replayed | loki-push | ckpt commit state.json; exit 0")
	if after := b.Read("state.json"); after != before || before == "" {
		t.Errorf("the document was %q and is %q", before, after)
	}
}

// A replay while the lane writes into the same spool leaves the open file
// alone; a later one takes it.
func TestD18(t *testing.T) {
	b := newBench(t)
	b.capture(5, nil)
	b.lineLimit(100)
	b.input("in", 4, func(r *rec) { r.n += 100; r.line = fmt.Sprint(r.n, long(150)) })
	cmd := b.Command(t.Context(), `{ cat in; until test -e go; do sleep 0.05; done; } | loki-push --instance lane --spool dead >acks`)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, "letters of the lane", func() bool { return len(b.letters("dead/lane-*.ndjson")) == 4 })
	b.want(75, "dl-replay run --spool dead -- loki-push", "5 to send: 5 replayed", "4 in use")
	b.Write("go", "")
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	b.lineLimit(1000)
	b.want(0, "dl-replay run --spool dead -- loki-push", "4 to send: 4 replayed")
	if len(b.stored()) != 9 || b.acked(b.Read("acks"), "k") != "104" {
		t.Errorf("%d stored, acks %s", len(b.stored()), b.Read("acks"))
	}
}

// Of two replays at once the second leaves what the first has; nothing is sent
// twice.
func TestD19(t *testing.T) {
	b := newBench(t)
	b.capture(30, nil)
	before := b.srv.Stats().Received
	r := b.want(0, `for i in 1 2 3; do { dl-replay run --spool dead -- loki-push --batch-entries 5 --max-lines-per-second 40; echo "status $?"; } & done; wait`)
	if n := strings.Count(r.Stdout, "30 to send: 30 replayed"); n != 1 || strings.Count(r.Stdout, "status 0") < 1 || regexp.MustCompile(`status (1|2|6\d|7[0-4])`).MatchString(r.Stdout) {
		t.Errorf("%v", r)
	}
	if n := b.srv.Stats().Received - before; n != 30 {
		t.Errorf("%d sent", n)
	}
}

// What is too old stays new, without using an attempt, and is named with its
// cures (65); clamp delivers it under the present time.
func TestD20(t *testing.T) {
	b := newBench(t)
	b.lineLimit(1)
	b.limit(func(l *lokitest.Limits) { l.RejectOldAge = 0 })
	b.input("in", 3, func(r *rec) {
		if r.n == 2 {
			r.ago = 8 * 24 * time.Hour
		}
	})
	b.want(0, "loki-push --max-age 0 --spool dead <in >acks")
	b.limit(func(l *lokitest.Limits) { l.RejectOldAge, l.MaxLineSize = 7*24*time.Hour, 1000 })
	preview := regexp.MustCompile(` +`).ReplaceAllString(b.want(0, "dl-replay run --spool dead --dry-run").Stdout, " ")
	for _, text := range []string{"to send 2\n", "left alone: too old 1\n", "beyond --max-age now 1\n", "beyond --max-age tomorrow 1\n", "reason line_too_long 2\n", "event type Login 2\n"} {
		if !strings.Contains(preview, text) {
			t.Errorf("no %q in %s", text, preview)
		}
	}
	r := b.Run("dl-replay run --spool dead -- loki-push")
	if r.Status != 65 || !strings.Contains(r.Stdout, "2 to send: 2 replayed") || !strings.Contains(r.Stderr, "--ts clamp") {
		t.Errorf("%v", r)
	}
	b.want(0, "dl-replay list --spool dead --json", `"statuses":{"new":1,"replayed":2}`)
	b.want(0, "dl-replay show --spool dead --status new", "once")
	b.want(0, "dl-replay run --spool dead --ts clamp -- loki-push", "1 to send: 1 replayed")
	late := b.srv.Entries("fake")
	slices.SortFunc(late, func(a, b lokitest.Entry) int { return int(b.Nanos - a.Nanos) })
	if len(late) != 3 || time.Since(time.Unix(0, late[0].Nanos)) > time.Minute || !strings.Contains(fmt.Sprint(late[0].Metadata), "event_time") {
		t.Errorf("entries %v", late)
	}
}

// Two hours behind its stream a letter fails without the hour label (it may be
// stored all the same, and says so); with it, in a stream of its own, or under
// the present time, it is delivered.
func TestD21(t *testing.T) {
	b := newBench(t)
	b.Write("live", rec{n: 1, ago: -9 * time.Minute, line: "live"}.text())
	b.want(0, "loki-push --hour-label none <live >/dev/null")
	b.capture(1, func(r *rec) { r.ago, r.line = 2*time.Hour, "late" })
	b.want(65, "dl-replay run --spool dead -- loki-push --hour-label none", "1 failed")
	b.want(0, "dl-replay show --spool dead --status failed", "too_far_behind", "may be in the store")
	b.want(0, "dl-replay run --spool dead --status failed --stream-label replay=r1 -- loki-push --hour-label none", "1 replayed")
	b.want(0, "dl-replay run --spool dead --status replayed -- loki-push", "1 replayed")
	b.want(0, "dl-replay run --spool dead --status replayed --ts now -- loki-push --hour-label none", "1 replayed")
	if b.stored()["late"] != 3 {
		t.Errorf("stored %v", b.stored())
	}
}

// No faster than it is asked for.
func TestD24(t *testing.T) {
	b := newBench(t)
	b.capture(500, nil)
	if r := b.want(0, "dl-replay run --spool dead --rate 100/s -- loki-push", "500 replayed"); r.Took < 4500*time.Millisecond {
		t.Errorf("done after %v", r.Took)
	}
}

// Any of the values of one kind, all of the kinds.
func TestD25(t *testing.T) {
	b := newBench(t)
	b.lineLimit(20)
	b.input("in", 12, func(r *rec) {
		r.typ = []string{"Login", "API", "URI"}[r.n%3]
		if r.line = fmt.Sprint(r.n, " short"); r.n > 6 {
			r.line = fmt.Sprint(r.n, " ", long(30))
		}
		r.ago = time.Duration(r.n) * time.Minute
	})
	b.want(0, "loki-push --breaker=false --org prod --spool dead --max-line-bytes 25 <in >acks; loki-push --breaker=false --spool other <in >/dev/null")
	all := b.letters("other/*.ndjson")
	first := all[0].DeadLetter.ID
	for flags, want := range map[string]string{
		"":                                        "7 8 9 10 11 12",
		"--event-type Login":                      "9 12",
		"--event-type Login,API":                  "7 9 10 12",
		"--event-type Login --event-type API":     "7 9 10 12",
		"--event-type Login,API --grep '^1'":      "10 12",
		"--grep '^7' --grep '^8'":                 "7 8",
		"--reason too_old":                        "",
		"--id " + first[:8]:                       origins(all[:1]),
		"--match event_type=URI":                  "8 11",
		"--match origin=0AT:9 --event-type Login": "9",
		"--match origin=0AT:9 --event-type API":   "",
		"--since 1h":                              "7 8 9 10 11 12",
		"--until 1h":                              "",
		"--event-since " + epoch.Add(-10*time.Minute).UTC().Format(time.RFC3339): "7 8 9 10",
		"--event-until " + epoch.Add(-10*time.Minute).UTC().Format(time.RFC3339): "11 12",
	} {
		r := b.want(0, "dl-replay cat --spool other "+flags)
		got := strings.Fields(origins(b.parse(r.Stdout)))
		slices.SortFunc(got, func(a, b string) int { return len(a)*1000 - len(b)*1000 + strings.Compare(a, b) })
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", flags, got, want)
		}
	}
	for flags, want := range map[string]int{"--reason line_too_long --limit 2": 2, "--event-type Login --limit 5": 2, "--limit 6": 6} {
		if got := b.parse(b.want(0, "dl-replay cat --spool other "+flags).Stdout); len(got) != want {
			t.Errorf("%s: %d letters, want %d", flags, len(got), want)
		}
	}
}

// An event that cannot be decoded is a letter with its payload and schema; the
// position passes it, and a replay leaves it alone until it is asked for.
func TestD27(t *testing.T) {
	b := newBench(t)
	org := sftest.NewOrg(sftest.Config{})
	t.Cleanup(org.Close)
	bus := org.NewBus(sftest.BusConfig{Keepalive: 50 * time.Millisecond})
	bus.DefineSamples()
	b.Write("key.pem", org.PrivateKeyPEM())
	b.Env = append(b.Env, "SF_PULL_LOGIN_URL="+org.URL, "SF_PULL_CLIENT_ID="+org.ClientID, "SF_PULL_USERNAME="+org.Username,
		"SF_PULL_PRIVATE_KEY_FILE="+b.Path("key.pem"), "SF_PULL_ENDPOINT=http://"+bus.Addr, "SF_PULL_IDLE_EXIT=1s")
	const topic = "/event/LoginEventStream"
	for n := range 3 {
		if n == 1 {
			bus.Publish(topic, sftest.Event{ID: "e1", Payload: []byte{1, 2, 3}})
		}
		bus.Publish(topic, sftest.Sample(topic, n, time.Now().Add(time.Duration(n-60)*time.Second)))
	}
	pull := "sf-pull pubsub --topic " + topic + " --resume state.json | loki-push --spool dead | ckpt commit state.json"
	b.want(0, pull)
	got := b.letters("dead/*.ndjson")
	if len(got) != 1 || got[0].Reason != "decode_error" || got[0].Payload != "AQID" || got[0].SchemaID == "" || len(b.stored()) != 3 {
		t.Errorf("letters %+v, %d stored", got, len(b.stored()))
	}
	before := b.Read("state.json")
	b.want(0, pull)
	if len(b.letters("dead/*.ndjson")) != 1 || before == "" {
		t.Errorf("the position did not pass it: %s", before)
	}
	b.want(0, "dl-replay run --spool dead -- loki-push", "0 to send", "1 sent only when asked for")
	b.want(0, "dl-replay show --spool dead --reason decode_error", "payload     AQID", "schema      ")
}

// A file that cannot be had to the end of patience is a letter that names the
// command that fetches it; later files pass.
func TestD28(t *testing.T) {
	b := newBench(t)
	org := sftest.NewOrg(sftest.Config{})
	t.Cleanup(org.Close)
	b.Write("key.pem", org.PrivateKeyPEM())
	b.Env = append(b.Env, "SF_PULL_LOGIN_URL="+org.URL, "SF_PULL_CLIENT_ID="+org.ClientID, "SF_PULL_USERNAME="+org.Username,
		"SF_PULL_PRIVATE_KEY_FILE="+b.Path("key.pem"))
	hour := func(ago int) string {
		at := time.Now().UTC().Truncate(time.Hour).Add(-time.Duration(ago) * time.Hour)
		return org.AddHour(sftest.Hour{Type: "Login", Start: at, Rows: 5}, func(f *sftest.LogFile) { f.Created = at.Add(time.Hour) })
	}
	bad := hour(8)
	hour(6)
	org.Fault("EventLogFile/"+bad+"/LogFile", sftest.Fault{HTML: true, Times: -1})
	pull := "sf-pull elf --event-type Login --resume state.json --download-max-age 1s | loki-push --spool dead | ckpt commit state.json"
	for range 3 {
		if b.Run(pull); len(b.letters("dead/*.ndjson")) > 0 {
			break
		}
		time.Sleep(1100 * time.Millisecond) // patience is counted in whole time, not in passes
	}
	got := b.letters("dead/*.ndjson")
	if len(got) != 1 || got[0].Reason != "source_gap" || !strings.Contains(got[0].DeadLetter.Detail, bad) {
		t.Fatalf("letters %+v", got)
	}
	b.want(0, pull)
	if len(b.stored()) != 5 {
		t.Errorf("%d stored", len(b.stored()))
	}
	r := b.want(0, "dl-replay show --spool dead", "source_gap", bad)
	command := regexp.MustCompile(`sf-pull elf [^\n"]*`).FindString(r.Stdout)
	if command == "" {
		t.Fatalf("no command: %v", r)
	}
	org.ClearFaults()
	b.want(0, command+" | loki-push >acks")
	if len(b.stored()) != 10 {
		t.Errorf("%d stored after %s", len(b.stored()), command)
	}
}

// A list of 100,000 records needs the memory of a few of them, and less than
// three seconds of processors, of which it uses two. LETTERTEST_LINE makes the
// lines longer: 10000 is a spool of a gigabyte.
func TestD34(t *testing.T) {
	b := newBench(t)
	line := number(t, "LETTERTEST_LINE", 300)
	const files = 10
	b.want(0, "mkdir -m 700 dead")
	one := strings.TrimSuffix(rec{n: 1, line: strings.Repeat(`{"QUERY":"é"},`, line/15)}.text(), "}\n") +
		`,"reason":"too_old","captured_at":"2026-11-30T12:00:00Z","dead_letter":{"v":1,"id":"%032x","attempts":1}}` + "\n"
	var size int64
	for file := range files {
		f, err := os.Create(b.Path(fmt.Sprintf("dead/a-20261130-%06d.ndjson", file+1)))
		if err != nil {
			t.Fatal(err)
		}
		w := bufio.NewWriter(f)
		for i := range 100_000 / files {
			n, _ := fmt.Fprintf(w, one, file*100_000+i)
			size += int64(n)
		}
		if err := errors.Join(w.Flush(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	b.Write("measure.py", measure)
	for _, command := range []string{"list", "stats"} {
		r := b.want(0, "python3 measure.py dl-replay "+command+" --spool dead", "100000")
		peak, processor := b.used()
		if peak > 64<<10 || processor > 3 {
			t.Errorf("%s: %d KiB, %.2f s of processors", command, peak, processor)
		}
		t.Logf("%s of %d MB: %d KiB, %.2f s of processors, %v", command, size/1_000_000, peak, processor, r.Took)
	}
}
