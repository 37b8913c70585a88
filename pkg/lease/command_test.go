package lease_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sf2loki/pkg/lease"
	"sf2loki/pkg/sysexits"
)

func start(t *testing.T, dir, script string) *lease.Group {
	t.Helper()
	c := &lease.Command{Argv: []string{"sh", "-c", "cd '" + dir + "'\n" + script}, Env: append(os.Environ(), "OURS=1")}
	g, err := c.Start("EPOCH=7")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Signal(syscall.SIGKILL); <-g.Gone() })
	return g
}

// ends waits for what a command does at some time.
func ends(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatalf("%s did not end", what)
	}
}

func appears(t *testing.T, path string) {
	t.Helper()
	for range 6000 {
		if _, err := os.Stat(path); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s did not appear", path)
}

// A command that cannot be run has the status that a shell gives it, before
// anybody waits for a lease.
func TestLook(t *testing.T) {
	dir := t.TempDir()
	plain, script := filepath.Join(dir, "plain"), filepath.Join(dir, "script")
	must(t, os.WriteFile(plain, nil, 0o600))
	must(t, os.WriteFile(script, []byte("neither a script nor a program"), 0o600))
	must(t, os.Chmod(script, 0o700))
	for command, want := range map[string]sysexits.Code{
		"sh": 0, "no-such-command": 127, filepath.Join(dir, "nosuch"): 127, plain: 126, dir: 126, script: 0,
	} {
		c := &lease.Command{Argv: []string{command}}
		path, err := c.Look()
		if got := sysexits.Of(err); got != want || err == nil && filepath.Base(path) != filepath.Base(command) {
			t.Errorf("%s: found %q, status %d, %v; want %d", command, path, got, err, want)
		}
		if _, err := c.Start("X=1"); want != 0 && sysexits.Of(err) != want {
			t.Errorf("start %s: %v", command, err)
		}
	}
	_, err := (&lease.Command{Argv: []string{script}}).Start("X=1")
	if got := sysexits.Of(err); got != 126 || !strings.Contains(err.Error(), script) {
		t.Errorf("what is no program: status %d, %v", got, err)
	}
	t.Chdir(dir)
	t.Setenv("PATH", ".")
	if _, err := (&lease.Command{Argv: []string{"script"}}).Look(); err != nil {
		t.Errorf("the current directory in the path: %v", err)
	}
}

// A command has our environment and one variable more, a process group of its
// own, and its own status.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	g := start(t, dir, `echo "$OURS $EPOCH" >said; cut -d' ' -f5 /proc/$$/stat >group; echo $$ >pid; exit 3`)
	ends(t, "the command", g.Exited())
	ends(t, "its group", g.Gone())
	if g.Status() != 3 {
		t.Errorf("status %d", g.Status())
	}
	text := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		return strings.TrimSpace(string(data))
	}
	if text("said") != "1 7" {
		t.Errorf("it said %q", text("said"))
	}
	if text("group") != text("pid") {
		t.Errorf("process %s is of the group %s", text("pid"), text("group"))
	}
	g = start(t, dir, "kill -KILL $$")
	ends(t, "the command", g.Exited())
	if g.Status() != 128+int(syscall.SIGKILL) {
		t.Errorf("killed: status %d", g.Status())
	}
}

// The end of the command is not that of its group: whoever it left behind is
// waited for, though its parent has gone.
func TestLeftBehind(t *testing.T) {
	dir := t.TempDir()
	g := start(t, dir, "(until test -e go; do sleep 0.02; done; : >done) & exit 4")
	ends(t, "the command", g.Exited())
	select {
	case <-g.Gone():
		t.Error("the group has gone before its last process")
	default:
	}
	must(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	ends(t, "its group", g.Gone())
	if _, err := os.Stat(filepath.Join(dir, "done")); err != nil || g.Status() != 4 {
		t.Errorf("status %d; the last one did not end in peace: %v", g.Status(), err)
	}
}

// A signal reaches all of the group, those that are stopped too.
func TestSignalReachesAll(t *testing.T) {
	dir := t.TempDir()
	g := start(t, dir, `
		(trap ': >inner; exit' TERM; : >ready; while :; do sleep 0.02; done) &
		until test -e ready; do sleep 0.02; done
		trap 'wait; exit 5' TERM
		: >armed
		kill -STOP $$
		while :; do sleep 0.02; done`)
	appears(t, filepath.Join(dir, "armed"))
	g.Signal(syscall.SIGTERM)
	ends(t, "its group", g.Gone())
	if g.Status() != 5 {
		t.Errorf("status %d", g.Status())
	}
	appears(t, filepath.Join(dir, "inner"))
}
