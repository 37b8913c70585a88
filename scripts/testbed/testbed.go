// Package testbed is what the tests of whole pipelines share: the programs as
// they are installed, directories in which scripts run with them in PATH, and
// how those scripts ended.
package testbed

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

// Root is the top of the source tree, seen from a package of tests.
const Root = "../.."

var (
	scratch string
	closers struct {
		sync.Mutex
		list []func()
	}
)

// Main runs the tests of a package and returns its status. What they share is
// gone afterwards.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "testbed-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	scratch = dir
	defer func() {
		for _, f := range closers.list {
			f()
		}
	}()
	return m.Run()
}

// AtExit has f called when all tests of the package are done.
func AtExit(f func()) {
	closers.Lock()
	defer closers.Unlock()
	closers.list = append(closers.list, f)
}

// Build builds programs into dir; args are flags of go build and packages, by
// their import paths. Git is not asked: it may not be there, or refuse a tree
// that belongs to somebody else.
func Build(dir string, args ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-trimpath", "-buildvcs=false", "-o", dir + "/"}, args...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %v: %w\n%s", args, err, out)
	}
	return nil
}

// Programs builds the programs once and returns their directory.
var Programs = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(scratch, "bin")
	return dir, Build(dir, "sf2loki/cmd/...")
})

// Bin is the directory of the programs.
func Bin(t testing.TB) string {
	t.Helper()
	dir, err := Programs()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Bed is a directory to run scripts in, with the programs in PATH.
type Bed struct {
	T     *testing.T
	Dir   string
	Shell string
	Env   []string
	Limit time.Duration // how long a script may take
}

// New makes a bed, which is gone with the test.
func New(t *testing.T) *Bed {
	t.Helper()
	dir := t.TempDir()
	return &Bed{T: t, Dir: dir, Shell: "sh", Limit: 2 * time.Minute, Env: []string{
		"PATH=" + Bin(t) + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + dir, "TMPDIR=" + dir, "LC_ALL=C",
	}}
}

// Set adds variables to the environment of scripts.
func (b *Bed) Set(pairs ...string) { b.Env = append(b.Env, pairs...) }

// Path is that of a file of the directory, or an absolute one as it is.
func (b *Bed) Path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(b.Dir, name)
}

// Write makes a file and returns its path.
func (b *Bed) Write(name, text string) string {
	b.T.Helper()
	if err := os.WriteFile(b.Path(name), []byte(text), 0o600); err != nil {
		b.T.Fatal(err)
	}
	return b.Path(name)
}

// Read is what a file holds, nothing when it is not there.
func (b *Bed) Read(name string) string {
	b.T.Helper()
	data, err := os.ReadFile(b.Path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.T.Fatal(err)
	}
	return string(data)
}

// Command is a script in a process group of its own, which ends with ctx.
func (b *Bed) Command(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, b.Shell, "-c", script)
	cmd.Dir, cmd.Env = b.Dir, b.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// Result is how a script ended.
type Result struct {
	Script         string
	Status         int // 128 and more: the shell itself was killed
	Stdout, Stderr string
	Took           time.Duration
	Late           bool // it was killed, for it took too long
}

func (r *Result) String() string {
	return fmt.Sprintf("%s\nstatus %d after %v\nstdout: %.3000s\nstderr: %.4000s", r.Script, r.Status, r.Took.Round(time.Millisecond), r.Stdout, r.Stderr)
}

// Running is a script that runs.
type Running struct {
	Cmd    *exec.Cmd
	Done   chan struct{}
	result Result
	cancel context.CancelFunc
}

// Start begins a script.
func (b *Bed) Start(script string) *Running {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), b.Limit)
	r := &Running{Cmd: b.Command(ctx, script), Done: make(chan struct{}), cancel: cancel}
	r.result.Script = b.Shell + ": " + script
	var out, said strings.Builder
	r.Cmd.Stdout, r.Cmd.Stderr = &out, &said
	begun := time.Now()
	if err := r.Cmd.Start(); err != nil {
		cancel()
		b.T.Fatal(err)
	}
	go func() {
		defer close(r.Done)
		err := r.Cmd.Wait()
		r.result.Took = time.Since(begun)
		r.result.Stdout, r.result.Stderr = out.String(), said.String()
		r.result.Status = r.Cmd.ProcessState.ExitCode()
		if ws, ok := r.Cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			r.result.Status = 128 + int(ws.Signal())
		}
		if r.result.Late = ctx.Err() != nil || errors.Is(err, exec.ErrWaitDelay); r.result.Late {
			r.result.Stderr += fmt.Sprintf("\n(not done after %v: %v)", b.Limit, err)
		}
	}()
	return r
}

// Wait waits for the end of the script.
func (r *Running) Wait() *Result {
	<-r.Done
	r.cancel()
	return &r.result
}

// Run runs a script to its end, in time.
func (b *Bed) Run(script string) *Result {
	b.T.Helper()
	r := b.Start(script).Wait()
	if r.Late {
		b.T.Errorf("%v", r)
	}
	return r
}

// OK runs a script that has to end with 0.
func (b *Bed) OK(script string) *Result {
	b.T.Helper()
	r := b.Run(script)
	if r.Status != 0 {
		b.T.Fatalf("%v", r)
	}
	return r
}

// Eventually waits for a condition.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
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
