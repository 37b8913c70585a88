package pipetest

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sf2loki/scripts/testbed"
)

// demo is a bench on which scripts/demo runs as it does from a shell.
func demo(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	goBinary, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE", "GOPATH", "GOFLAGS").Output()
	if err != nil {
		t.Fatal(err)
	}
	for i, value := range strings.Split(strings.TrimSuffix(string(out), "\n"), "\n") {
		b.set([]string{"GOCACHE=", "GOMODCACHE=", "GOPATH=", "GOFLAGS="}[i] + value)
	}
	script, err := filepath.Abs(testbed.Root + "/scripts/demo")
	if err != nil {
		t.Fatal(err)
	}
	return b.set("DEMO="+script, "HOME="+t.TempDir(), "PATH="+testbed.Bin(t)+":"+filepath.Dir(goBinary)+":/usr/local/bin:/usr/bin:/bin")
}

// alone fails when a process of the script is left.
func (r *running) alone(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(-r.Cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("processes are left: %v", err)
	}
}

func TestDemo(t *testing.T) {
	for _, shell := range []string{"dash", "bash", "busybox sh"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			b := demo(t)
			r := b.start(shell + ` "$DEMO"`)
			end := r.Wait()
			if end.Status != 0 || !strings.HasSuffix(end.Stdout, "\nEverything has arrived.\n") || end.Stderr != "" {
				t.Errorf("%v", end)
			}
			r.alone(t)
			if left, err := filepath.Glob(b.Dir + "/*"); err != nil || len(left) > 0 {
				t.Errorf("left behind: %q, %v", left, err)
			}
		})
	}
}

// A demo that is stopped leaves nothing running either.
func TestDemoStopped(t *testing.T) {
	t.Parallel()
	b := demo(t)
	r := b.start(`exec sh "$DEMO" kept`)
	testbed.Eventually(t, "a first pull", func() bool { return b.Read("kept/push.json") != "" })
	if err := r.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if end := r.Wait(); end.Status != 143 {
		t.Errorf("%v", end)
	}
	r.alone(t)
	if b.Read("kept/state.json") == "" {
		t.Error("what was to be kept is gone")
	}
}
