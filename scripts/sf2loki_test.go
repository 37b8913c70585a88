// Package scripts_test runs the scripts in the shells that they are written
// for.
package scripts_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sf2loki/scripts/testbed"
)

// TestMain makes this binary a stage of a pipeline when it is called by the
// name of one.
func TestMain(m *testing.M) {
	switch name := filepath.Base(os.Args[0]); name {
	case "sf-pull", "loki-push", "ckpt":
		os.Exit(fakeStage(name))
	}
	os.Exit(testbed.Main(m))
}

// fakeCommands are what programs do beside being a stage.
var fakeCommands = []string{"check-plans", "list", "export", "--dry-run", "doctor", "probe", "completion"}

// fakeStage is one run of a stage. The first line of the file plan/NAME says
// what it does; the last one stays for all runs to come.
func fakeStage(name string) int {
	dir := os.Getenv(map[string]string{"sf-pull": "SF_PULL_", "loki-push": "LOKI_PUSH_", "ckpt": "CKPT_"}[name] + "FAKE_DIR")
	if path, err := exec.LookPath(name); dir == "" && err == nil { // called without a lane's settings
		dir = filepath.Dir(filepath.Dir(path))
	}
	term := make(chan os.Signal, 8)
	signal.Notify(term, syscall.SIGTERM, syscall.SIGHUP)
	note := func(text string) {
		f, err := os.OpenFile(filepath.Join(dir, "log"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
		if err == nil {
			fmt.Fprintf(f, "%s %s\n", name, text)
			f.Close()
		}
	}
	if len(os.Args) > 1 && (os.Args[len(os.Args)-1] == "--plan=static" || slices.Contains(fakeCommands, os.Args[1])) {
		return fakeCommand(dir, name, note)
	}
	what, argument, _ := strings.Cut(nextPlan(dir, name), " ")
	note(fmt.Sprintf("start %d %s", os.Getpid(), strings.Join(os.Args[1:], " ")))
	status := 0
	if name != "sf-pull" && (what == "exit" || what == "child") {
		_, _ = os.Stdin.Read(make([]byte, 1)) // the whole pipeline has begun
	}
	switch what {
	case "exit":
		fmt.Sscan(argument, &status)
	case "child": // leaves a process behind, which holds what it inherited
		var pid int
		fmt.Sscan(argument, &status)
		if p, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{}); err == nil {
			pid = p.Pid
		}
		note(fmt.Sprintf("child %d", pid))
	case "stubborn": // only KILL ends it
		for range term {
		}
	case "environment":
		for _, pair := range os.Environ() {
			note("env " + pair)
		}
		if name != "sf-pull" {
			_, _ = io.Copy(io.Discard, os.Stdin) // who ends first stops the others
		}
		status = 64
	case "hang": // does not follow the end of its input, but a signal
		io.Copy(io.Discard, os.Stdin)
		<-term
		note("term")
		status = 75
	default:
		status = work(name, term, note)
	}
	note(fmt.Sprintf("end %d", status))
	return status
}

// work is a stage that does as it should.
func work(name string, term chan os.Signal, note func(string)) int {
	if name != "sf-pull" {
		go func() {
			for range term {
				note("term")
			}
		}()
		if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
			return 74
		}
		return 0
	}
	signal.Ignore(syscall.SIGPIPE)
	tick := time.NewTicker(2 * time.Millisecond)
	for {
		select {
		case <-term:
			note("term")
			return 0
		case <-tick.C:
			if _, err := os.Stdout.WriteString("{}\n"); err != nil {
				return 74
			}
		}
	}
}

// fakeCommand is what a stage's program does beside being a stage.
func fakeCommand(dir, name string, note func(string)) int {
	note(strings.Join(os.Args[1:], " "))
	status := 0
	if text, err := os.ReadFile(filepath.Join(dir, "plan", name+" "+os.Args[1])); err == nil {
		_, _ = fmt.Sscan(string(text), &status)
		fmt.Fprintf(os.Stderr, "%s: status %d was asked for\n", name, status)
	}
	return status
}

func nextPlan(dir, name string) string {
	path := filepath.Join(dir, "plan", name)
	text, err := os.ReadFile(path)
	if err != nil {
		return "work"
	}
	first, rest, more := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if more {
		os.WriteFile(path, []byte(rest), 0o600)
	}
	return first
}

var shells = map[string][]string{"dash": {"dash"}, "bash --posix": {"bash", "--posix"}, "bash": {"bash"}, "busybox": {"busybox", "sh"}}

// long reports whether everything is to be tried in every shell, and often.
func long() bool { return os.Getenv("SUPERVISOR_LONG") != "" }

// often is how many times something is done.
func often(short, all int) int {
	if long() {
		return all
	}
	return short
}

// these are the names of the shells to use, all of them in the long form.
func these(names ...string) []string {
	if long() {
		return slices.Sorted(maps.Keys(shells))
	}
	return names
}

// inShells runs test in each shell, on a lane of its own: for what shells do
// each in their own way, as signals, waits and what is read.
func inShells(t *testing.T, test func(t *testing.T, l *lane)) {
	in(t, these("dash", "bash", "busybox"), test)
}

// in runs test in the shells of that name, on a lane of its own.
func in(t *testing.T, names []string, test func(t *testing.T, l *lane)) {
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newLane(t, shells[name]))
		})
	}
}

// lane is one configured lane with fake stages.
type lane struct {
	t     *testing.T
	shell []string
	dir   string
	env   []string // more of the environment

	headGrace string
}

func newLane(t *testing.T, shell []string) *lane {
	t.Helper()
	l := &lane{t: t, shell: shell, dir: t.TempDir(), headGrace: "1000"} // nobody is told early on a slow machine
	for _, d := range []string{"bin", "plan", "conf"} {
		must(t, os.Mkdir(filepath.Join(l.dir, d), 0o755))
	}
	self, err := os.Executable()
	must(t, err)
	for _, name := range []string{"sf-pull", "loki-push", "ckpt"} {
		must(t, os.Symlink(self, filepath.Join(l.dir, "bin", name)))
	}
	l.configure("prod", "SF2LOKI_SECOND=0.02")
	return l
}

// configure writes a lane's file.
func (l *lane) configure(name string, lines ...string) {
	l.t.Helper()
	text := strings.Join(append([]string{
		"# a lane", "", "SF2LOKI_SOURCE=elf", "SF2LOKI_STATE=" + l.dir + "/" + name + ".json", "SF2LOKI_RUN_DIR=" + l.dir + "/run",
		"SF_PULL_FAKE_DIR=" + l.dir, "LOKI_PUSH_FAKE_DIR=" + l.dir, "CKPT_FAKE_DIR=" + l.dir, "LOKI_PUSH_URL=http://127.0.0.1:1",
		"LOKI_PUSH_SPOOL=" + l.dir + "/spool-" + name, "SF2LOKI_HEAD_GRACE=" + l.headGrace,
	}, lines...), "\n") + "\n"
	must(l.t, os.WriteFile(filepath.Join(l.dir, "conf", name+".conf"), []byte(text), 0o600))
}

// soon has stages told that do not follow.
func (l *lane) soon() {
	l.headGrace = "5"
	l.configure("prod", "SF2LOKI_SECOND=0.02")
}

// plan says what the runs of a stage do, in turn.
func (l *lane) plan(stage string, lines ...string) {
	l.t.Helper()
	must(l.t, os.WriteFile(filepath.Join(l.dir, "plan", stage), []byte(strings.Join(lines, "\n")), 0o600))
}

func (l *lane) command(args ...string) *exec.Cmd {
	l.t.Helper()
	script, err := filepath.Abs("sf2loki")
	must(l.t, err)
	argv := append(append(append([]string{}, l.shell...), script), args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "PATH="+l.dir+"/bin:"+os.Getenv("PATH"), "SF2LOKI_CONF_DIR="+l.dir+"/conf")
	cmd.Env = append(cmd.Env, l.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// ask runs a command to its end.
func (l *lane) ask(args ...string) (status int, output string) {
	l.t.Helper()
	cmd := l.command(args...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		l.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// supervisor is a running `sf2loki run`.
type supervisor struct {
	*lane
	cmd  *exec.Cmd
	done chan struct{}

	mu  sync.Mutex
	err bytes.Buffer
}

func (l *lane) run(lanes ...string) *supervisor {
	l.t.Helper()
	if len(lanes) == 0 {
		lanes = []string{"prod"}
	}
	s := &supervisor{lane: l, cmd: l.command(append([]string{"run"}, lanes...)...), done: make(chan struct{})}
	s.cmd.Stderr = s
	must(l.t, s.cmd.Start())
	go func() { defer close(s.done); _ = s.cmd.Wait() }()
	l.t.Cleanup(func() {
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		<-s.done
		if l.t.Failed() {
			l.t.Logf("supervisor:\n%s\nstages:\n%s", s.log(), l.stages())
		}
	})
	return s
}

// Write takes in standard error.
func (s *supervisor) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err.Write(p)
}

func (s *supervisor) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err.String()
}

// wait returns the supervisor's exit status.
func (s *supervisor) wait() int {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(30 * time.Second):
		s.t.Fatal("the supervisor has not ended")
	}
	return s.cmd.ProcessState.ExitCode()
}

func (s *supervisor) signal(sig syscall.Signal) {
	s.t.Helper()
	must(s.t, s.cmd.Process.Signal(sig))
}

// stages is what the fake stages noted.
func (l *lane) stages() string {
	text, err := os.ReadFile(filepath.Join(l.dir, "log"))
	if err != nil && !os.IsNotExist(err) {
		l.t.Fatal(err)
	}
	return string(text)
}

// awaitStages waits until n lines of the stages' notes match.
func (l *lane) awaitStages(n int, pattern string) [][]string {
	l.t.Helper()
	return await(l.t, l.stages, n, pattern)
}

// awaitLog waits until n lines of the supervisor's log match.
func (s *supervisor) awaitLog(n int, pattern string) [][]string {
	s.t.Helper()
	return await(s.t, s.log, n, pattern)
}

func await(t *testing.T, text func() string, n int, pattern string) [][]string {
	t.Helper()
	re := regexp.MustCompile("(?m)" + pattern)
	for deadline := time.Now().Add(30 * time.Second); ; {
		found := re.FindAllStringSubmatch(text(), -1)
		if len(found) >= n {
			return found
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d lines like %s in:\n%s", len(found), n, pattern, text())
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
