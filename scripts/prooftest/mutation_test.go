package prooftest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/scripts/testbed"
)

// mutation is a bug: in a file of the source, old becomes new.
type mutation struct {
	name, program, file string
	old, new            string
	caught              string // by what
}

var mutations = []mutation{
	{"a row is left out, and counted as written", "sf-pull", "pkg/eventlog/emit.go",
		"	e.count.Written++\n	e.count.Newest",
		"	if row.Number == 7 {\n		e.block = e.block[:begin]\n	}\n	e.count.Written++\n	e.count.Newest",
		"audit: hole: rows missing"},
	{"a row is read and has no fate", "sf-pull", "pkg/eventlog/emit.go",
		"		e.count.Read++\n",
		"		e.count.Read++\n		if n == 7 {\n			continue\n		}\n",
		"account: 70"},
	{"an acknowledgement passes what is not settled", "loki-push", "pkg/loki/settle.go",
		"if !n.settled || n.seq > barrier {",
		"if n.seq > barrier {",
		"audit: hole"},
	{"an entry is settled twice", "loki-push", "pkg/loki/finish.go",
		"		a.Delivered++\n",
		"		a.Delivered++\n		if a.Delivered == 3 {\n			a.Delivered++\n			a.Unsettled--\n		}\n",
		"account: 70"},
	{"a dead letter is lost", "loki-push", "cmd/loki-push/letters.go",
		"err := w.Append(letters)",
		"err := w.Append(letters[1:])",
		"audit: hole"},
	{"a server in trouble counts as one that has stored", "loki-push", "pkg/loki/client.go",
		"answer.Status = resp.StatusCode\n",
		"answer.Status = resp.StatusCode\n	if answer.Status == 503 {\n		answer.Status = 204\n		return answer\n	}\n",
		"audit: hole: fewer in Loki"},
	{"a position stays behind", "ckpt", "pkg/checkpoint/committer.go",
		"	c.staged[p.Key] = p\n	return superseded",
		"	if !superseded {\n		c.staged[p.Key] = p\n	}\n	return superseded",
		"position"},
	{"an acknowledgement that another overtook has no fate", "ckpt", "pkg/checkpoint/job.go",
		"			t.Superseded++\n",
		"",
		"account: 70"},
	{"the ledger is not written", "ckpt", "pkg/checkpoint/job.go",
		"	return j.cfg.Ledger.Flush()",
		"	return nil",
		"audit: hole: not pulled"},
}

// Each planted bug is caught by an account, the audit, or a second run. The
// same without a bug finds nothing. PROOFTEST_ALL plants all of them, else some
// of those that build fast.
func TestMutations(t *testing.T) {
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		if got := newBench(t).trial(); got != "" {
			t.Errorf("caught without a bug: %s", got)
		}
	})
	var building sync.Mutex // one build at a time
	for i, m := range mutations {
		if os.Getenv("PROOFTEST_ALL") == "" && (m.program == "ckpt" || i%2 == 1) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			building.Lock()
			dir := m.build(t)
			building.Unlock()
			for i, v := range b.Env {
				if strings.HasPrefix(v, "PATH=") {
					b.Env[i] = "PATH=" + dir + ":" + strings.TrimPrefix(v, "PATH=")
				}
			}
			if got := b.trial(); !strings.Contains(got, m.caught) {
				t.Errorf("caught by %q, want %q", got, m.caught)
			}
		})
	}
}

// build builds the program with its bug and returns the directory of it.
func (m *mutation) build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	path, err := filepath.Abs(filepath.Join(testbed.Root, m.file))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		t.Fatalf("%s has %d times\n%s\nthe code has moved: plant the bug where it is now", m.file, n, m.old)
	}
	changed := filepath.Join(dir, "changed.go")
	if err := os.WriteFile(changed, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := testbed.Build(filepath.Join(dir, "bin"), "-overlay", list, "sf2loki/cmd/"+m.program); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "bin")
}

// trial pulls a few files through a Loki that has trouble and a kill, then to
// the end, and says what is wrong with that; nothing when all is well.
func (b *bench) trial() (caught string) {
	b.Set("SF_PULL_LOG_LEVEL=error", "LOKI_PUSH_LOG_LEVEL=error", "CKPT_LOG_LEVEL=error",
		"LOKI_PUSH_BATCH_ENTRIES=20", "LOKI_PUSH_FLUSH_INTERVAL=50ms")
	b.hour("Login", 4, 150, nil)
	b.hour("Login", 5, 120, nil)
	b.hour("API", 4, 80, tooOld(10))
	script := fmt.Sprintf(pull, "")
	b.killed(script)
	for _, again := range []bool{false, true} {
		r := b.Run(strings.Replace(script, "sf-pull elf", "sf-pull elf --report pull.report", 1))
		switch {
		case strings.Contains(r.Stderr, "does not balance") && r.Status == 70:
			return "account: 70"
		case r.Status != 0:
			return r.String()
		}
		if again && !strings.Contains(b.Read("pull.report"), `"status":0,"read":0,`) {
			caught = "position: " + b.Read("pull.report")
		}
	}
	for _, kind := range strings.Split(b.audit("").kinds(), ", ") {
		if kind != "hole: dead letters wait" {
			caught += "audit: " + kind + " "
		}
	}
	return caught
}

// killed runs the pipeline until Loki is in trouble, and kills all of it.
func (b *bench) killed(script string) {
	b.T.Helper()
	killIt := make(chan struct{})
	trouble := killIt
	var mu sync.Mutex
	var first time.Time
	b.srv.Script(func(n int, _ lokitest.Request) *lokitest.Answer {
		if n <= 3 {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case first.IsZero():
			first = time.Now()
		case trouble != nil && time.Since(first) > 2*time.Second: // a program that waits is still there
			close(trouble)
			trouble = nil
		}
		return &lokitest.Answer{Status: 503, Body: "starting"}
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir, cmd.Env = b.Dir, b.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Start(); err != nil {
		b.T.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	select {
	case <-killIt:
	case <-ended: // of itself, as some bugs have it
	}
	cancel()
	<-ended
	b.srv.Script(nil)
}
