package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/record"
	"sf2loki/pkg/spool"
)

// TestPipelines runs the real programs against a simulated Loki.
func TestPipelines(t *testing.T) {
	bin := t.TempDir()
	build := exec.Command("go", "build", "-buildvcs=false", "-o", bin, "sf2loki/cmd/loki-push", "sf2loki/cmd/ckpt", "sf2loki/cmd/dl-replay")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, test := range map[string]func(*world){
		"round trip":           roundTrip,
		"behind the stream":    behindTheStream,
		"acks not committed":   acksAreNotCommitted,
		"another tenant":       anotherTenant,
		"killed at any moment": killedAtAnyMoment,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newWorld(t, bin))
		})
	}
}

// world is a spool, a Loki, and the real programs on the path.
type world struct {
	t   *testing.T
	srv *lokitest.Server
	dir string
	env []string
}

func newWorld(t *testing.T, bin string) *world {
	t.Helper()
	srv := lokitest.NewServer(lokitest.Config{Limits: lokitest.Plain})
	t.Cleanup(srv.Close)
	return &world{t: t, srv: srv, dir: t.TempDir(), env: append(os.Environ(),
		"PATH="+bin+":"+os.Getenv("PATH"), "LOKI_PUSH_URL="+srv.URL, "LOKI_PUSH_FLUSH_INTERVAL=50ms",
		"LOKI_PUSH_SPOOL=elsewhere")} // which a replay overrides
}

// shell runs a script and returns its status, what it printed and what it said.
func (w *world) shell(script string) (status int, stdout, stderr string) {
	w.t.Helper()
	cmd := w.command(script)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), said.String()
}

func (w *world) command(script string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir, cmd.Env = w.dir, w.env
	return cmd
}

// want runs a script that ends with that status and prints that text.
func (w *world) want(status int, text, script string) {
	w.t.Helper()
	got, out, said := w.shell(script)
	if got != status || !strings.Contains(out, text) {
		w.t.Errorf("%s:\nstatus %d, want %d; stdout %q, want %q; stderr:\n%s", script, got, status, out, text, said)
	}
}

func (w *world) capture(recs []record.Record, tenant string) {
	w.t.Helper()
	sp, err := spool.Open(spool.Config{Dir: filepath.Join(w.dir, "dead"), Instance: "a"})
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range recs {
		l := &record.Letter{Reason: record.BadRequest, CapturedAt: time.Now(), Stage: "push", Tenant: tenant}
		if err := sp.Append([][]byte{record.AppendLetter(nil, &recs[i], l)}); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := sp.Close(); err != nil {
		w.t.Fatal(err)
	}
}

func pairs(namesAndValues ...string) []record.Pair {
	list := []record.Pair{}
	for i := 0; i < len(namesAndValues); i += 2 {
		list = append(list, record.Pair{Name: []byte(namesAndValues[i]), Value: []byte(namesAndValues[i+1])})
	}
	return list
}

func entry(at time.Time, line string) record.Record {
	return record.Record{Time: at.UnixNano(), HasTime: true, Labels: pairs("source", "eventlogfile", "event_type", "Login"), Line: []byte(line)}
}

// D14: what comes back from a spool, through jq even, is what went in.
func roundTrip(w *world) {
	t := w.t
	at := time.Now().Add(-time.Hour).Truncate(time.Microsecond).Add(789)
	lines := []string{`<>&`, "\x00\u2028\t\"\\", "", "😀é", `{"a":"\u0000"}`}
	var recs []record.Record
	for i, line := range lines {
		rec := entry(at.Add(time.Duration(i)), line)
		rec.Labels = pairs("source", "eventlogfile", "event_type", "Login", "odd", `"q"`+"\u2028")
		switch i % 3 {
		case 0:
			rec.Metadata = pairs("USER", `a"b`)
		case 1:
			rec.Metadata = pairs()
		}
		recs = append(recs, rec)
	}
	w.capture(recs, "")
	w.want(0, "5 replayed", `dl-replay run --spool dead -- sh -c 'jq . | loki-push'`)
	got := w.srv.Entries("fake")
	if len(got) != len(lines) {
		t.Fatalf("%d entries", len(got))
	}
	for i, e := range got {
		if e.Line != lines[i] || e.Nanos != recs[i].Time {
			t.Errorf("entry %d is %q at %d, want %q at %d", i, e.Line, e.Nanos, lines[i], recs[i].Time)
		}
		if want := min(1, len(recs[i].Metadata)); len(e.Metadata) != want {
			t.Errorf("entry %d has metadata %v", i, e.Metadata)
		}
	}
}

// D21: a record behind its stream by two hours comes back with the hour label,
// with a label of its own, or under the present time; else it fails again.
func behindTheStream(w *world) {
	t := w.t
	push := func(rec record.Record) {
		in := record.AppendRecord(nil, &rec)
		if err := os.WriteFile(filepath.Join(w.dir, "live"), in, 0o600); err != nil {
			t.Fatal(err)
		}
		w.want(0, "", "loki-push --hour-label none <live >/dev/null")
	}
	push(entry(time.Now(), "live"))
	w.capture([]record.Record{entry(time.Now().Add(-2*time.Hour), "late")}, "")
	w.want(65, "1 failed", "dl-replay run --spool dead -- loki-push --hour-label none")
	w.want(0, "too_far_behind:1", "dl-replay list --spool dead")
	w.want(0, "1 replayed", "dl-replay run --spool dead --status failed --stream-label replay=r1 -- loki-push --hour-label none")
	w.want(0, "1 replayed", "dl-replay run --spool dead --status replayed -- loki-push")
	w.want(0, "1 replayed", "dl-replay run --spool dead --status replayed --ts now -- loki-push --hour-label none")
	late := 0
	for _, e := range w.srv.Entries("fake") {
		if e.Line == "late" {
			late++
		}
	}
	if late != 3 {
		t.Errorf("%d entries, want one each way", late)
	}
}

// D17: the acknowledgements of a replay never reach a document of positions.
func acksAreNotCommitted(w *world) {
	t := w.t
	w.capture([]record.Record{entry(time.Now(), "x")}, "")
	w.want(0, "", "ckpt set --raw state.json k v")
	before, _ := os.ReadFile(filepath.Join(w.dir, "state.json"))
	w.want(0, "1 replayed", `dl-replay run --spool dead -- sh -c 'loki-push | tee acks'`)
	w.want(65, "", "ckpt commit state.json <acks")
	if after, _ := os.ReadFile(filepath.Join(w.dir, "state.json")); !bytes.Equal(before, after) || len(before) == 0 {
		t.Errorf("the document was %q and is %q", before, after)
	}
}

// Another tenant's records are not pushed, and stay.
func anotherTenant(w *world) {
	w.capture([]record.Record{entry(time.Now(), "x")}, "7")
	w.want(78, "1 returned", "dl-replay run --spool dead -- loki-push --tenant 8")
	w.want(0, "1 replayed", "dl-replay run --spool dead -- loki-push --tenant 7")
}

// D15: killed at any moment and started again until it is done, a replay
// delivers every record, and repeats fold.
func killedAtAnyMoment(w *world) {
	t := w.t
	const records = 3000
	var recs []record.Record
	start := time.Now().Add(-time.Hour)
	for i := range records {
		recs = append(recs, entry(start.Add(time.Duration(i)*time.Microsecond), fmt.Sprint(i)))
	}
	for part := range 3 {
		w.capture(recs[part*1000:(part+1)*1000], "")
	}
	const script = `exec dl-replay run --spool dead -- loki-push --batch-entries 20`
	kills := 0
	for kills < 12 {
		cmd := w.command(script)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		select {
		case <-done:
		case <-time.After(time.Duration(20+rand.IntN(150)) * time.Millisecond):
			cmd.Process.Kill()
			<-done
		}
		kills++
	}
	w.want(0, "", `until dl-replay run --spool dead -- loki-push; do test $? = 75 || exit 1; done`)
	seen := map[string]int{}
	for _, e := range w.srv.Entries("fake") {
		seen[e.Line]++
	}
	if len(seen) != records {
		t.Errorf("%d of %d records arrived", len(seen), records)
	}
	for line, n := range seen {
		if n != 1 {
			t.Errorf("record %s is stored %d times", line, n)
		}
	}
	_, out, _ := w.shell("dl-replay stats --spool dead --by status")
	if !strings.Contains(out, "replayed  3000") {
		t.Errorf("statuses:\n%s", out)
	}
}
