package replay

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/spool"
	"sf2loki/pkg/sysexits"
)

// What becomes of three records, told by all that a command can say of them.
func TestFates(t *testing.T) {
	tests := []struct {
		name     string
		script   string
		status   int
		statuses string
		warning  string // if there is one
	}{
		{"delivered", "all; ack 3 3 0 0", 0, "1:replayed 2:replayed 3:replayed", ""},
		{"delivered one by one", "all; ack 1 1 0 0; ack 2 1 0 0; ack 3 1 0 0", 0, "1:replayed 2:replayed 3:replayed", ""},
		{"delivered and told twice", "all; ack 3 3 0 0; ack 3 0 0 0", 0, "1:replayed 2:replayed 3:replayed", ""},
		{"delivered in another order", "all; ack 3 1 0 0; ack 2 2 0 0", 0, "1:replayed 2:replayed 3:replayed", ""},
		{"run lines among the acks", `all; echo '{"run":{"program":"p","run_id":"r"}}'; ack 3 3 0 0`, 0, "1:replayed 2:replayed 3:replayed", ""},
		{"refused", "all; refuse 2 too_old; ack 3 2 1 0", 65, "1:replayed 2:failed:too_old 3:replayed", ""},
		{"refused, and told before", "all; ack 3 2 1 0; refuse 2 too_old", 65, "1:replayed 2:failed:too_old 3:replayed", ""},
		{"refused, and nothing else told", "all; refuse 2 too_old", 65, "1:new 2:failed:too_old 3:new", ""},
		{"refused after it was called delivered", "all; ack 3 3 0 0; until_replayed 3; refuse 2 too_old", 65, "1:replayed 2:failed:too_old 3:replayed", ""},
		{"cut in two, and both refused", "all; refuse 2 oversized; refuse 2 oversized; ack 3 2 2 0", 65, "1:replayed 2:failed:oversized 3:replayed", ""},
		{"refused without its number", `all; refuse_id "$ID2" too_old; ack 3 2 1 0`, 65, "1:replayed 2:failed:too_old 3:replayed", ""},
		{"refused under a number that is none", `all; refuse 4 too_old; ack 3 3 0 0`, 0, "1:replayed 2:replayed 3:replayed r:failed:too_old", "none of the records sent"},
		{"none of those sent came back", "all; refuse_id beef too_old; ack 3 3 0 0", 0, "1:replayed 2:replayed 3:replayed r:failed:too_old", "none of the records sent"},
		{"captured where nobody looks", "all; ack 3 2 1 0", 75, "1:new 2:new 3:new", ""},
		{"dropped", "all; ack 3 2 0 1", 75, "1:new 2:new 3:new", ""},
		{"not counted", "all; ack 3 0 0 0", 75, "1:new 2:new 3:new", ""},
		{"not told", "all", 75, "1:new 2:new 3:new", ""},
		{"not read", "", 75, "1:new 2:new 3:new", ""},
		{"told in part", "all; ack 2 2 0 0", 75, "1:replayed 2:replayed 3:new", ""},
		{"not sent on for want of budget", "all; refuse 2 budget; ack 3 2 1 0", 75, "1:replayed 2:new 3:replayed", ""},
		{"delivered without its end", "all; refuse 2 truncated_copy; ack 3 3 0 0", 0,
			"1:replayed 2:failed:truncated_copy 2:replayed 3:replayed", ""},
		{"delivered without its end, and told before", "all; ack 3 3 0 0; until_replayed 3; refuse 2 truncated_copy", 0,
			"1:replayed 2:failed:truncated_copy 2:replayed 3:replayed", ""},
		{"acks of something else", `all; echo '{"checkpoint_key":"pubsub:/x","checkpoint_value":"3","delivered":3}'`, 75, "1:new 2:new 3:new", "something that was not sent"},
		{"acks of no number", "all; ack last 3 0 0", 75, "1:new 2:new 3:new", "something that was not sent"},
		{"a record among the acks", `all; echo '{"ts":"2026-11-30T11:00:00Z","labels":{},"line":"x"}'; ack 3 3 0 0`, 0,
			"1:replayed 2:replayed 3:replayed", "is no acknowledgement"},
		{"no way back into the acks", "all; ack 1 1 0 0; echo stop; yes | head -n 100000; ack 3 2 0 0; exit 5", 5, "1:replayed 2:new 3:new", "is no acknowledgement"},
		{"a dead letter that is none", `all; echo '{"line":}' >&3; refuse 2 too_old; ack 3 2 1 0`, 65, "1:replayed 2:failed:too_old 3:replayed", "cannot be read"},
		{"ended with a status", "all; ack 1 1 0 0; exit 69", 69, "1:replayed 2:new 3:new", ""},
		{"killed", "all; ack 1 1 0 0; kill -9 $$", 137, "1:replayed 2:new 3:new", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.write(file, captured(1, 2, 3))
			res, err := Run(t.Context(), b.config(tt.script))
			b.wantStatus(err, sysexits.Code(tt.status))
			b.wantStatuses(tt.statuses)
			if log := b.log.String(); !strings.Contains(log, tt.warning) || tt.warning == "" && log != "" {
				t.Errorf("want a warning %q, log:\n%s", tt.warning, log)
			}
			if res.Replayed+res.Failed+res.Returned != res.Send || res.Send != 3 {
				t.Errorf("%d sent: %d replayed, %d failed, %d returned", res.Send, res.Replayed, res.Failed, res.Returned)
			}
			for status, n := range map[string]int64{":replayed": res.Replayed, ":new": res.Returned, ":failed": res.Failed + res.Stray + copies(tt.statuses)} {
				if got := strings.Count(tt.statuses, status); int64(got) != n {
					t.Errorf("%d told as%s, want %d", n, status, got)
				}
			}
			b.putRight() // nothing, after a run that was not killed
			b.wantStatuses(tt.statuses)
			// A file keeps its name until nothing of it is left to do.
			if left := strings.Contains(tt.statuses, ":new"); b.exists(file) != left || b.exists(file+".replayed") == left {
				t.Errorf("with records left %t, %s is there %t, %[2]s.replayed %[4]t", left, file, b.exists(file), b.exists(file+".replayed"))
			}
		})
	}
}

func copies(statuses string) int64 { return int64(strings.Count(statuses, ":truncated_copy")) }

// What was refused keeps its history, its own checkpoint and its id, and says
// for what it was refused now; asked for, it is sent again.
func TestFailedIsSentAgain(t *testing.T) {
	b := newBench(t)
	b.write(file, captured(1, 2))
	res := b.run(b.config("all; refuse 2 too_old; ack 2 1 1 0"), 65)
	if len(res.FailedFiles) != 1 || res.FailedFiles[0] != b.path(file+".failed") || res.FailedFor["too_old"] != 1 {
		t.Errorf("failed for %v, in %v", res.FailedFor, res.FailedFiles)
	}
	l := letterOf(t, strings.TrimSpace(b.read(file+".failed")))
	if key, value := l.Checkpoint(); l.Attempts() != 2 || key != "eventlogfile:Login" || value != "live" || l.ID() != letterOf(t, string(captured(2))).ID() {
		t.Errorf("attempts %d, checkpoint %s %s, id %s", l.Attempts(), key, value, l.ID())
	}

	b.run(b.config("exit 1"), 0) // nothing is new, so nothing is started
	again := b.config("cat >got; ack 1 1 0 0")
	again.Selection.Statuses = []spool.Status{spool.Failed}
	if res := b.run(again, 0); res.Replayed != 1 {
		t.Errorf("%d replayed", res.Replayed)
	}
	if got := b.read("got"); strings.Count(got, `"checkpoint_value":`) != 1 || !strings.Contains(got, `"line":"2"`) {
		t.Errorf("sent %s", got)
	}
	if !b.exists(file + ".failed.replayed") {
		t.Error("the file of what was refused is not done with")
	}
}

// What is sent is a run of records: each as it was captured, under the
// checkpoint of the replay, with the labels that were asked for.
func TestWhatIsSent(t *testing.T) {
	b := newBench(t)
	b.write(file, captured(1, 2))
	b.write("b-20261130-000001.ndjson", captured(3))
	cfg := b.config("cat >got; ack 2 2 0 0; exit 3")
	cfg.StreamLabels = []record.Pair{{Name: []byte("replay"), Value: []byte("r2")}, {Name: []byte("event_type"), Value: []byte("never")}}
	b.run(cfg, 3)
	want := []string{
		`run test r2 -`,
		`deadletter:` + file + ` 1 1 event_type=Login,replay=r2`,
		`deadletter:` + file + ` 2 2 event_type=Login,replay=r2`,
		`deadletter:b-20261130-000001.ndjson 3 3 event_type=Login,replay=r2`,
		`run test r2 0`,
	}
	if got := b.sent(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("sent\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// sent is what the command put into the file got.
func (b *bench) sent() []string {
	b.t.Helper()
	var lines []string
	r := record.NewReader(bufio.NewReader(strings.NewReader(b.read("got"))))
	for {
		var rec record.Record
		if err := r.Read(&rec); err != nil {
			return lines
		}
		if rec.Run != nil {
			run, err := record.ParseRun(rec.Run)
			if err != nil {
				b.t.Fatal(err)
			}
			status := "-"
			if run.Status != nil {
				status = fmt.Sprint(*run.Status)
			}
			lines = append(lines, fmt.Sprintf("run %s %s %s", run.Program, run.RunID, status))
			continue
		}
		var labels []string
		for _, p := range rec.Labels {
			labels = append(labels, fmt.Sprintf("%s=%s", p.Name, p.Value))
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %s", rec.Key, rec.Value, rec.Line, strings.Join(labels, ",")))
	}
}

// Files of one name in two directories are two files.
func TestSameNameTwice(t *testing.T) {
	b, other := newBench(t), newBench(t)
	b.write(file, captured(1))
	other.write(file, captured(2))
	cfg := b.config("cat >got; ack 1 1 0 0")
	set, err := spool.Find([]string{b.dir, other.dir}, nil, cfg.Log)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	cfg.Set = set
	b.run(cfg, 75)
	b.wantStatuses("1:replayed")
	other.wantStatuses("2:new")
	if got := strings.Join(b.sent(), "\n"); !strings.Contains(got, "deadletter:"+other.path(file)+" 2 2") {
		t.Errorf("sent\n%s", got)
	}
}

// What a replay had in hand when it was killed is what it was before, what it
// had made durable stays, and only the rest is sent.
func TestResume(t *testing.T) {
	b := newBench(t)
	b.write(file, captured(1, 2, 3, 4))
	s := b.settler()
	s.take(event{ack: &ack{Ack: record.Ack{Key: "deadletter:" + file, Value: "2", Delivered: 2}}})
	if err := s.apply(); err != nil {
		t.Fatal(err)
	}
	b.wantStatuses("1:replayed 2:replayed 3:pending 4:pending")
	s.release() // as the kernel does after a kill
	b.wantStatuses("1:replayed 2:replayed 3:new 4:new")
	if res := b.run(b.config("cat >got; ack 2 2 0 0"), 0); res.Replayed != 2 {
		t.Errorf("%d replayed", res.Replayed)
	}
	if got := b.sent(); len(got) != 4 || !strings.Contains(got[1], " 1 3 ") || !strings.Contains(got[2], " 2 4 ") {
		t.Errorf("sent %q", got)
	}
	b.wantStatuses("1:replayed 2:replayed 3:replayed 4:replayed")
}

// A file that a writer or another replay has in hand is left alone; the others
// are sent all the same.
func TestInUse(t *testing.T) {
	b := newBench(t)
	w, err := spool.Open(spool.Config{Dir: b.dir, Instance: "z", Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Append([][]byte{captured(4), captured(5)}); err != nil {
		t.Fatal(err)
	}
	b.write(file, captured(1, 2, 3))
	res := b.run(b.config("all; ack 3 3 0 0"), 75)
	if res.Send != 3 || res.Replayed != 3 || res.InUse != 2 {
		t.Errorf("%d to send, %d replayed, %d in use", res.Send, res.Replayed, res.InUse)
	}
	b.wantStatuses("1:replayed 2:replayed 3:replayed 4:new 5:new")
	other := b.settler() // the writer has gone, but somebody else replays
	_ = w.Close()
	if len(other.items) != 0 {
		t.Errorf("%d records taken from the writer", len(other.items))
	}
	other = b.settler()
	if res := b.run(b.config("all"), 75); res.InUse != 2 || res.Send != 0 {
		t.Errorf("beside another: %d to send, %d in use", res.Send, res.InUse)
	}
	other.release()
}

// More files than may be open at once are left for another run, which is said.
// Those of which nothing is left to send need not be open.
func TestMoreFilesThanDescriptors(t *testing.T) {
	b := newBench(t)
	script := "all\n"
	for i := range 10 {
		name := fmt.Sprintf("a-20261130-%06d.ndjson", i+1)
		b.write(name, captured(i))
		b.write(fmt.Sprintf("a-20261129-%06d.ndjson.replayed", i+1), captured(i))
		script += fmt.Sprintf("echo '{\"checkpoint_key\":\"deadletter:%s\",\"checkpoint_value\":\"%d\",\"delivered\":1}'\n", name, i+1)
	}
	cfg := b.config(script)
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 64, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	res, err := Run(t.Context(), cfg)
	if serr := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); serr != nil {
		t.Fatal(serr)
	}
	b.wantStatus(err, 75)
	if res.Send != 8 || res.Replayed != 8 || res.InUse != 2 || !strings.Contains(fmt.Sprint(err), "more files than can be open") {
		t.Errorf("%d to send, %d replayed, %d in use: %v", res.Send, res.Replayed, res.InUse, err)
	}
}

// Of files that hold no records, and of such that cannot be read, the rest is
// sent, and the end says so.
func TestDamage(t *testing.T) {
	tests := []struct {
		name   string
		spoil  func(b *bench)
		status int
		stays  bool // the file is not done with
	}{
		{"a line that is none", func(b *bench) { b.write(file, append(captured(1), "what\n"...)) }, 65, true},
		{"a torn end", func(b *bench) { b.write(file, append(captured(1), `{"ts`...)) }, 74, false},
		{"a file that is none", func(b *bench) {
			b.write(file, captured(1))
			if err := os.Mkdir(b.path("b-20261130-000001.ndjson"), 0o700); err != nil {
				b.t.Fatal(err)
			}
		}, 73, false},
		{"a journal of a newer release", func(b *bench) {
			b.write(file, captured(1))
			b.write(file+".journal", []byte(`{"v":2}`+"\n"))
		}, 78, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			tt.spoil(b)
			res := b.run(b.config("all; ack 1 1 0 0"), sysexits.Code(tt.status))
			if want := int64(1); tt.status != 78 && res.Replayed != want {
				t.Errorf("%d replayed", res.Replayed)
			}
			if b.exists(file) != tt.stays {
				t.Errorf("the file is there: %t", b.exists(file))
			}
		})
	}
}

// After a failure of our own nothing counts any more, and files keep their names.
func TestOwnFailure(t *testing.T) {
	tests := []struct {
		name   string
		script string
		spoil  func(b *bench)
		status int
	}{
		{"no file for what is refused", "all; refuse 1 too_old; ack 2 1 1 0", func(b *bench) {
			if err := os.Mkdir(b.path(file+".failed"), 0o700); err != nil {
				b.t.Fatal(err)
			}
		}, 73},
		{"no file for what did not belong", "all; refuse_id beef too_old; ack 2 2 0 0", func(b *bench) {
			if err := os.Mkdir(b.path(file+".failed"), 0o700); err != nil {
				b.t.Fatal(err)
			}
		}, 73},
		{"no journal", "all; ack 2 2 0 0", func(b *bench) {
			if err := os.Mkdir(b.path(file+".journal"), 0o700); err != nil {
				b.t.Fatal(err)
			}
		}, 73},
		{"changed meanwhile", "all; ack 2 2 0 0", func(b *bench) {
			b.write(file, []byte(strings.Repeat("x", len(captured(1, 2)))))
		}, 74},
		{"cut off meanwhile", "all; ack 2 2 0 0", func(b *bench) { b.write(file, nil) }, 74},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.write(file, captured(1, 2))
			cfg := b.config(tt.script)
			cfg.Watch = func(func() Result) { tt.spoil(b) } // between the plan and the sending
			res := b.run(cfg, sysexits.Code(tt.status))
			if b.exists(file+".replayed") || res.Failed != 0 {
				t.Errorf("%d failed; done with: %t", res.Failed, b.exists(file+".replayed"))
			}
		})
	}
}

// Asked to stop, a replay sends no more, waits for what was sent, and gives the
// rest back; that is a good end.
func TestStop(t *testing.T) {
	b := newBench(t)
	b.write(file, captured(1, 2, 3))
	cfg := b.config(`read -r run; read -r first; : >started; all; ack 1 1 0 0`)
	cfg.Rate = 0.001
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		b.within("the first record", func() bool { return b.exists("started") })
		cancel()
	}()
	res, err := Run(ctx, cfg)
	b.wantStatus(err, 0)
	if !res.Stopped || res.Replayed != 1 || res.Returned != 2 {
		t.Errorf("stopped %t, %d replayed, %d returned", res.Stopped, res.Replayed, res.Returned)
	}
	b.wantStatuses("1:replayed 2:new 3:new")
}

// Stopped before it began, a replay starts nothing and changes nothing.
func TestStoppedBefore(t *testing.T) {
	b := newBench(t)
	b.write(file, captured(1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	res, err := Run(ctx, b.config(": >started"))
	b.wantStatus(err, 0)
	if b.exists("started") || !res.Stopped || b.exists(file+".journal") {
		t.Errorf("stopped %t; started %t; journal %t", res.Stopped, b.exists("started"), b.exists(file+".journal"))
	}
}

// A command that does not end when its input does is told to after the grace,
// and killed with all that it started when it does not listen.
func TestOverdue(t *testing.T) {
	tests := []struct {
		name, script, want string
		patience           time.Duration
	}{
		{"listens", "trap 'exit 7' TERM; : >started; while :; do sleep 0.02; done", "status 7", time.Minute},
		{"does not", "trap '' TERM; : >started; (while :; do sleep 0.02; done)", "SIGKILL", 10 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.write(file, captured(1))
			cfg := b.config(tt.script)
			cfg.Grace, cfg.patience = 10*time.Millisecond, tt.patience
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				b.within("the command", func() bool { return b.exists("started") })
				cancel()
			}()
			_, err := Run(ctx, cfg)
			b.wantStatus(err, 75)
			if text := fmt.Sprint(err); !strings.Contains(text, "--grace") || !strings.Contains(text, tt.want) {
				t.Errorf("the end is %v", err)
			}
			b.wantStatuses("1:new")
		})
	}
}

// A process that the command left behind, with its pipes open, does not keep
// the replay from its end.
func TestLeftBehind(t *testing.T) {
	b := newBench(t)
	b.write(file, captured(1))
	b.write("alive", nil)
	t.Cleanup(func() { os.Remove(b.path("alive")) })
	cfg := b.config("(while test -e alive; do sleep 0.05; done) & all; ack 1 1 0 0; until_replayed 1")
	cfg.patience = 10 * time.Millisecond
	b.run(cfg, 0)
	b.wantStatuses("1:replayed")
	if !b.exists("alive") {
		t.Error("the test proves nothing: nobody was left")
	}
}

// A command that cannot be started ends like one that a shell cannot start.
func TestStartErrors(t *testing.T) {
	b := newBench(t)
	b.write(file, captured(1))
	b.write("plain.txt", []byte("x"))
	b.write("empty", nil)
	if err := os.Chmod(b.path("empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]int{"nosuch-command": 127, b.path("nosuch"): 127, b.path("plain.txt"): 126, b.path("empty"): 126, b.path("plain.txt/x"): 75} {
		cfg := b.config("")
		cfg.Command = []string{command}
		b.run(cfg, sysexits.Code(want))
	}
	b.wantStatuses("1:new")
}

// Records are sent no faster than asked for, and each as soon as its time has come.
func TestRate(t *testing.T) {
	b := newBench(t)
	b.write(file, captured(1, 2, 3, 4, 5))
	cfg := b.config("all; ack 5 5 0 0")
	cfg.Rate = 50
	began := time.Now()
	b.run(cfg, 0)
	// The first two may go at once.
	if took := time.Since(began); took < 3*time.Second/50 {
		t.Errorf("5 records in %s", took)
	}
}

// Files of which nothing is sent are given back before the command starts, and
// named for what they are.
func TestLimit(t *testing.T) {
	b := newBench(t)
	b.write(file, captured(1, 2))
	b.write("b-20261130-000001.ndjson", captured(3))
	cfg := b.config("all; ack 1 1 0 0")
	cfg.Limit = 1
	cfg.Watch = func(func() Result) {
		other := b.settler()
		if len(other.groups) != 1 || other.items[0].Captured != now.Add(3*time.Minute).UnixNano() {
			t.Errorf("another run takes %d groups", len(other.groups))
		}
		other.release()
	}
	if res := b.run(cfg, 0); res.Send != 1 || res.Replayed != 1 {
		t.Errorf("%d to send, %d replayed", res.Send, res.Replayed)
	}
	b.wantStatuses("1:replayed 2:new 3:new")
}

// What is too old, or was refused too often, is left alone: only the first is
// an error, for only that has cures that the next run lacks.
func TestLeftAlone(t *testing.T) {
	b := newBench(t)
	b.write(file, captured(1, 2))
	b.write("b-20261130-000001.ndjson", capturedFor(3, record.TruncatedCopy))
	cfg := b.config("exit 1")
	cfg.MaxAge = 500 * time.Millisecond
	res, err := Run(t.Context(), cfg)
	b.wantStatus(err, 65)
	if hint, ok := err.(interface{ Hint() string }); !ok || !strings.Contains(hint.Hint(), "--ts now") {
		t.Errorf("no cure is named: %v", err)
	}
	if want := (Counts{TooOld: 2, Unsent: 1}); res.Counts != want {
		t.Errorf("counts %+v, want %+v", res.Counts, want)
	}
	cfg = b.config("exit 1")
	cfg.MaxAttempts = 1
	if res := b.run(cfg, 0); res.Spent != 2 || res.Send != 0 {
		t.Errorf("%d out of attempts, %d to send", res.Spent, res.Send)
	}
}

// Done with, files are removed when that was asked for.
func TestDelete(t *testing.T) {
	b := newBench(t)
	b.write(file, captured(1))
	b.write("b-20261130-000001.ndjson", captured(2))
	cfg := b.config("all; ack 1 1 0 0")
	cfg.Delete = true
	b.run(cfg, 75)
	left, err := filepath.Glob(b.path("*-20261130-*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 2 || left[0] != b.path("b-20261130-000001.ndjson") {
		t.Errorf("there are %q", left)
	}
}

// While it runs, a replay tells how far it is.
func TestWatch(t *testing.T) {
	b := newBench(t)
	b.write(file, captured(1, 2, 3))
	cfg := b.config("all; refuse 1 too_old; ack 2 1 1 0; until test -e seen; do sleep 0.02; done; ack 3 1 0 0")
	cfg.Watch = func(snapshot func() Result) {
		if got := snapshot(); got.Send != 3 || got.Replayed != 0 {
			t.Errorf("at first: %+v", got)
		}
		go func() {
			b.within("two fates", func() bool { return snapshot().Replayed == 1 && snapshot().FailedFor["too_old"] == 1 })
			b.write("seen", nil)
		}()
	}
	b.run(cfg, 65)
}
