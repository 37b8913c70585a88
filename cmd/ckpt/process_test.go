package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sf2loki/pkg/checkpoint"
)

// process is a running ckpt commit.
type process struct {
	cmd    *exec.Cmd
	acks   io.WriteCloser
	stderr bytes.Buffer
}

// ckpt returns a command that runs this program, which the test binary is
// when it is called so.
func ckpt(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	cmd.Args = append([]string{"ckpt"}, args...)
	return cmd
}

func startCommit(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{cmd: ckpt(t, append([]string{"commit"}, args...)...)}
	var err error
	p.acks, err = p.cmd.StdinPipe()
	must(t, err)
	p.cmd.Stderr = &p.stderr
	must(t, p.cmd.Start())
	return p
}

// send writes one acknowledgement; false when the process has gone.
func (p *process) send(key string, value int) bool {
	_, err := fmt.Fprintf(p.acks, `{"checkpoint_key":%q,"checkpoint_value":"%d"}`+"\n", key, value)
	return err == nil
}

// end closes the input and returns the exit status.
func (p *process) end() int {
	_ = p.acks.Close() // the process may have gone before
	_ = p.cmd.Wait()   // the status says it all
	return p.cmd.ProcessState.ExitCode()
}

// position reads key from the document at path, which has to be whole.
func position(t *testing.T, path, key string) int {
	t.Helper()
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return 0
	}
	must(t, err)
	doc, err := checkpoint.ParseDocument(data)
	if err != nil {
		t.Fatalf("torn document %q: %v", data, err)
	}
	text, ok := doc.Get(key)
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("no %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A committer that is killed at any moment leaves a whole document that never
// goes back, and other keys as they were.
func TestKilledAtRandomWrites(t *testing.T) {
	const rounds = 200
	path := filepath.Join(t.TempDir(), "state.json")
	must(t, os.WriteFile(path, []byte(`{"other":"42"}`), 0o600))
	rng := rand.New(rand.NewPCG(1, 2))
	sent, stored, died := 0, 0, 0
	for range rounds {
		p := startCommit(t, "--write-interval=0", "--log-level=warn", path)
		first := sent + 1
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			for position(t, path, "k") < first { // it writes now
				time.Sleep(100 * time.Microsecond)
			}
			time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
			_ = p.cmd.Process.Kill()
		}()
		for p.send("k", sent+1) {
			sent++
			position(t, path, "k") // whole at every moment; and this keeps the pace
		}
		<-killed
		if p.end() == -1 {
			died++
		}
		now := position(t, path, "k")
		if now < stored || now < first || now > sent+1 {
			t.Fatalf("stored is %d, after %d; sent were %d to %d", now, stored, first, sent)
		}
		stored = now
		if got := position(t, path, "other"); got != 42 {
			t.Fatalf("the other key is %d", got)
		}
	}
	if died != rounds {
		t.Errorf("%d of %d were killed", died, rounds)
	}
	p := startCommit(t, path)
	p.send("k", sent+1)
	if status := p.end(); status != 0 {
		t.Fatalf("status %d: %s", status, p.stderr.String())
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	must(t, err)
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	t.Logf("%d writes sent, %d the last one stored", sent, stored)
}

// Lanes share a document: their keys merge, and none is lost.
func TestLanesShareADocument(t *testing.T) {
	const lanes, each = 3, 100
	path := filepath.Join(t.TempDir(), "state.json")
	processes := make([]*process, lanes)
	for i := range processes {
		processes[i] = startCommit(t, "--write-interval=0", path)
	}
	for n := range each {
		for i, p := range processes {
			if !p.send(fmt.Sprintf("lane%d", i), n+1) {
				t.Fatalf("lane %d ended: %s", i, p.stderr.String())
			}
		}
	}
	for i, p := range processes {
		if status := p.end(); status != 0 {
			t.Errorf("lane %d: status %d: %s", i, status, p.stderr.String())
		}
		if got := position(t, path, fmt.Sprintf("lane%d", i)); got != each {
			t.Errorf("lane %d is at %d, want %d", i, got, each)
		}
	}
}

// #49: of two writers of one key, one is told, and the other goes on.
func TestTwoWritersOfOneKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	first := startCommit(t, "--write-interval=0", path)
	second := startCommit(t, "--write-interval=0", path)
	first.send("mine", 1)
	second.send("yours", 1)
	await(t, "second process", func() bool { return position(t, path, "yours") == 1 && position(t, path, "mine") == 1 })
	first.send("k", 1)
	await(t, "first write", func() bool { return position(t, path, "k") == 1 })
	second.send("k", 5)
	if status := second.end(); status != 76 {
		t.Errorf("the second writer ended with %d: %s", status, second.stderr.String())
	}
	if text := second.stderr.String(); !strings.Contains(text, "another writer moved k to") {
		t.Errorf("it said %q", text)
	}
	first.send("k", 2)
	if status := first.end(); status != 0 {
		t.Errorf("the first writer ended with %d: %s", status, first.stderr.String())
	}
	if got := position(t, path, "k"); got != 2 {
		t.Errorf("stored is %d, want 2", got)
	}
}

// #48: a committer that was stopped and comes back does not take a key back.
func TestPausedCommitter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	paused := startCommit(t, "--write-interval=0", path)
	paused.send("k", 1)
	await(t, "first write", func() bool { return position(t, path, "k") == 1 })
	await(t, "end of the first write", func() bool { return unlocked(t, path) })
	must(t, paused.cmd.Process.Signal(syscall.SIGSTOP))
	await(t, "standstill", func() bool { return standsStill(t, paused.cmd.Process.Pid) })
	paused.send("k", 5)
	other := startCommit(t, path)
	other.send("k", 9)
	if status := other.end(); status != 0 {
		t.Fatalf("status %d: %s", status, other.stderr.String())
	}
	must(t, paused.cmd.Process.Signal(syscall.SIGCONT))
	if status := paused.end(); status != 76 {
		t.Errorf("status %d: %s", status, paused.stderr.String())
	}
	if got := position(t, path, "k"); got != 9 {
		t.Errorf("stored is %d, want 9", got)
	}
}

// standsStill reports whether SIGSTOP has reached every thread of the process
// pid, or it has ended.
func standsStill(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	must(t, err)
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		_, state, _ := strings.Cut(string(stat), ") ")
		if err == nil && !strings.HasPrefix(state, "T") && !strings.HasPrefix(state, "Z") {
			return false
		}
	}
	return true
}

// unlocked reports whether nobody holds the lock of the document at path.
func unlocked(t *testing.T, path string) bool {
	t.Helper()
	f, err := os.Open(path + ".lock")
	must(t, err)
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

// What the kernel refuses once is tried again; what it refuses always ends
// the run, with the old document whole.
func TestSystemCallsFail(t *testing.T) {
	const once, always = ":when=1", ""
	tests := []struct {
		call, fault, when string
		status            int
	}{
		{"fsync", "EIO", once, 0},
		{"fsync", "EIO", always, 74},
		{"fsync", "ENOSPC", always, 74},
		{"renameat", "EIO", once, 0},
		{"renameat", "ENOSPC", always, 74},
		{"renameat", "EACCES", always, 77},
		{"renameat", "EROFS", always, 73},
		{"flock", "ENOLCK", always, 74},
		{"fchmod", "EPERM", always, 77},
	}
	for _, test := range tests {
		t.Run(test.call+" "+test.fault+test.when, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.json")
			must(t, os.WriteFile(path, []byte(`{"k":"1"}`), 0o600))
			retry := "--retry-for=300ms"
			if test.status == 0 {
				retry = "--retry-for=30s" // each thread fails once
			}
			p := &process{cmd: ckpt(t, "commit", retry, path)}
			strace, err := exec.LookPath("strace")
			must(t, err)
			p.cmd.Args = append([]string{"strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + test.call,
				"-e", "inject=" + test.call + ":error=" + test.fault + test.when, "-a", "1"}, named(t, p.cmd)...)
			p.cmd.Path = strace
			p.cmd.Stdin = strings.NewReader(`{"checkpoint_key":"k","checkpoint_value":"2"}` + "\n")
			p.cmd.Stderr = &p.stderr
			_ = p.cmd.Run() // the status says it all
			if status := p.cmd.ProcessState.ExitCode(); status != test.status {
				t.Errorf("status %d, want %d: %s", status, test.status, p.stderr.String())
			}
			want := 1
			if test.status == 0 {
				want = 2
			}
			// An fsync of the directory fails after the rename: the new document is there.
			if got := position(t, path, "k"); got != want && (test.call != "fsync" || got != 2) {
				t.Errorf("stored is %d, want %d", got, want)
			}
		})
	}
}

// named returns the words that run cmd under another program: a link to this
// binary has the name by which it knows what to be.
func named(t *testing.T, cmd *exec.Cmd) []string {
	t.Helper()
	link := filepath.Join(t.TempDir(), "ckpt")
	must(t, os.Symlink(cmd.Path, link))
	return append([]string{link}, cmd.Args[1:]...)
}
