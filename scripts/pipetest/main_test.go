// Package pipetest drives whole pipelines: real shells, the four programs as
// they are installed, a simulated org and a simulated Loki in the test's
// process, and VictoriaLogs as a store that is not of this project.
package pipetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// root is the top of the source tree.
const root = "../.."

// closers end what the whole package shares.
var closers struct {
	sync.Mutex
	list []func()
}

func atExit(f func()) {
	closers.Lock()
	defer closers.Unlock()
	closers.list = append(closers.list, f)
}

func TestMain(m *testing.M) {
	status := m.Run()
	for _, f := range closers.list {
		f()
	}
	os.Exit(status)
}

// bin is the directory of the programs, built once.
var bin = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "pipetest-bin-")
	if err != nil {
		return "", err
	}
	atExit(func() { os.RemoveAll(dir) })
	cmd := exec.Command("go", "build", "-trimpath", "-o", dir+"/", "./cmd/...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return dir, nil
})

func binDir(t *testing.T) string {
	t.Helper()
	dir, err := bin()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// bench is a directory to run scripts in, with the programs in PATH.
type bench struct {
	t     *testing.T
	dir   string
	shell string
	env   []string
	// limit is how long a script may take.
	limit time.Duration
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	return &bench{t: t, dir: dir, shell: "dash", limit: time.Minute, env: []string{
		"PATH=" + binDir(t) + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + dir, "TMPDIR=" + dir, "LC_ALL=C",
	}}
}

// set adds variables to the environment of scripts.
func (b *bench) set(pairs ...string) *bench {
	b.env = append(b.env, pairs...)
	return b
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bench) write(name, text string) string {
	b.t.Helper()
	if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return b.path(name)
}

func (b *bench) read(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(b.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Fatal(err)
	}
	return string(data)
}

// result is how a script ended.
type result struct {
	script         string
	status         int // 128 and more: the shell itself was killed
	stdout, stderr string
	took           time.Duration
}

func (r *result) String() string {
	return fmt.Sprintf("%s\nstatus %d after %v\nstdout: %.2000s\nstderr: %.4000s", r.script, r.status, r.took.Round(time.Millisecond), r.stdout, r.stderr)
}

// running is a script that runs.
type running struct {
	b      *bench
	cmd    *exec.Cmd
	result result
	out    strings.Builder
	err    strings.Builder
	begun  time.Time
	cancel context.CancelFunc
	done   chan struct{}
}

// start begins a script in its own process group.
func (b *bench) start(script string) *running {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), b.limit)
	r := &running{b: b, cancel: cancel, begun: time.Now(), done: make(chan struct{})}
	r.cmd = exec.CommandContext(ctx, b.shell, "-c", script)
	r.cmd.Dir, r.cmd.Env = b.dir, b.env
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.err
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.cmd.Cancel = func() error { return syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL) }
	r.cmd.WaitDelay = 5 * time.Second
	r.result.script = b.shell + ": " + script
	if err := r.cmd.Start(); err != nil {
		cancel()
		b.t.Fatal(err)
	}
	go func() {
		defer close(r.done)
		err := r.cmd.Wait()
		r.result.took = time.Since(r.begun)
		r.result.stdout, r.result.stderr = r.out.String(), r.err.String()
		state := r.cmd.ProcessState
		r.result.status = state.ExitCode()
		if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			r.result.status = 128 + int(ws.Signal())
		}
		if ctx.Err() != nil || errors.Is(err, exec.ErrWaitDelay) {
			r.result.stderr += fmt.Sprintf("\n(not done after %v: %v)", b.limit, err)
		}
	}()
	return r
}

// wait waits for the end of the script.
func (r *running) wait() *result {
	<-r.done
	r.cancel()
	return &r.result
}

// run runs a script to its end.
func (b *bench) run(script string) *result {
	b.t.Helper()
	return b.start(script).wait()
}

// ok runs a script that has to end with 0.
func (b *bench) ok(script string) *result {
	b.t.Helper()
	r := b.run(script)
	if r.status != 0 {
		b.t.Fatalf("%v", r)
	}
	return r
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline:
			t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}
