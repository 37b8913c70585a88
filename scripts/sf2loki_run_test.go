package scripts_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A stop is for the head of the pipe; the end of its output carries it on.
func TestStop(t *testing.T) {
	inShells(t, func(t *testing.T, l *lane) {
		s := l.run()
		l.awaitStages(3, `start`)
		s.awaitLog(3, `pid=\d+ msg=started$`)
		await(t, func() string { _, out := l.ask("status"); return out }, 3, `^  (sf-pull|loki-push|ckpt) \d+$`)
		if status, out := l.ask("status"); status != 0 || !regexp.MustCompile(`^prod: running\n  since .*\n  supervisor \d+\n  runs 1\n(  (sf-pull|loki-push|ckpt) \d+\n){3}$`).MatchString(out) {
			t.Errorf("status %d: %s", status, out)
		}
		if status, out := l.ask("run", "prod"); status != 75 || !strings.Contains(out, "prod runs already") {
			t.Errorf("a second one: %d, %s", status, out)
		}
		s.signal(syscall.SIGTERM)
		if status := s.wait(); status != 0 {
			t.Errorf("status %d", status)
		}
		if got := l.stages(); strings.Count(got, " term\n") != 1 || !strings.Contains(got, "sf-pull term\n") || strings.Count(got, " end 0\n") != 3 {
			t.Errorf("stages:\n%s", got)
		}
		if status, out := l.ask("status", "prod"); status != 69 || !strings.Contains(out, "prod: not running\n  last run ended") {
			t.Errorf("afterwards %d: %s", status, out)
		}
	})
}

func TestStopCommand(t *testing.T) {
	inShells(t, func(t *testing.T, l *lane) {
		s := l.run()
		l.awaitStages(3, `start`)
		if status, out := l.ask("stop", "prod"); status != 0 {
			t.Errorf("status %d: %s", status, out)
		}
		if status := s.wait(); status != 0 {
			t.Errorf("the supervisor ended with %d", status)
		}
		if status, out := l.ask("stop", "prod"); status != 0 {
			t.Errorf("once more %d: %s", status, out)
		}
	})
}

// timeout(1), systemd and a closing terminal signal the whole group.
func TestStopOfTheGroup(t *testing.T) {
	inShells(t, func(t *testing.T, l *lane) {
		s := l.run()
		l.awaitStages(3, `start`)
		must(t, syscall.Kill(-s.cmd.Process.Pid, syscall.SIGTERM))
		if status := s.wait(); status != 0 {
			t.Errorf("status %d", status)
		}
		if got := l.stages(); strings.Count(got, "sf-pull term\n") != 1 || strings.Count(got, " end 0\n") != 3 {
			t.Errorf("stages:\n%s", got)
		}
	})
}

// #45: whichever stage ends, and however, the others are stopped and the lane
// starts again.
func TestEachStageEnds(t *testing.T) {
	inShells(t, func(t *testing.T, l *lane) {
		stages := []string{"sf-pull", "loki-push", "ckpt"}
		for _, stage := range stages {
			l.plan(stage, "work")
		}
		l.plan("sf-pull", "exit 75", "work")
		l.plan("loki-push", "work", "exit 70", "work")
		l.plan("ckpt", "work", "work", "exit 76", "work")
		s := l.run()
		s.awaitLog(1, `stage=sf-pull status=75 retry_in=\ds msg="starting again"`)
		s.awaitLog(1, `stage=loki-push status=70 retry_in=\ds msg="starting again"`)
		s.awaitLog(1, `stage=ckpt status=76 retry_in=\ds msg="starting again"`)
		for i, stage := range stages {
			pids := l.awaitStages(4+i, stage+` start (\d+)`)
			pid, err := strconv.Atoi(pids[len(pids)-1][1])
			must(t, err)
			must(t, syscall.Kill(pid, syscall.SIGKILL))
			s.awaitLog(1, `stage=`+stage+` status=137 retry_in=\d+s msg="starting again"`)
			l.awaitStages(3*(5+i), `start`)
		}
		s.signal(syscall.SIGTERM)
		if status := s.wait(); status != 0 {
			t.Errorf("status %d", status)
		}
	})
}

func TestRestartByStatus(t *testing.T) {
	in(t, these("dash"), func(t *testing.T, l *lane) {
		quick, loud := []int{0, 1, 2, 69, 70, 74, 75, 76, 126, 127, 143}, []int{65, 73, 77, 78}
		var plan []string
		for _, status := range append(quick, loud...) {
			plan = append(plan, fmt.Sprint("exit ", status))
		}
		l.plan("sf-pull", append(plan, "exit 64")...)
		l.configure("prod", "SF2LOKI_SECOND=0.00001", "SF2LOKI_RETRY_MAX=1", "SF2LOKI_LOUD_MAX=300")
		s := l.run()
		if status := s.wait(); status != 64 {
			t.Errorf("status %d, want 64: never again", status)
		}
		for _, status := range quick {
			if !regexp.MustCompile(fmt.Sprintf(`level=warn .*status=%d retry_in=1s msg="starting again"`, status)).MatchString(s.log()) {
				t.Errorf("no quick restart after %d", status)
			}
		}
		for _, status := range loud {
			found := regexp.MustCompile(fmt.Sprintf(`level=error .*status=%d retry_in=(\d+)s msg="needs`, status)).FindStringSubmatch(s.log())
			if found == nil || atoi(found[1]) < 300 || atoi(found[1]) > 375 {
				t.Errorf("after %d: %v, want 300 to 375 s", status, found)
			}
		}
		if n := strings.Count(l.stages(), "sf-pull start"); n != len(quick)+len(loud)+1 {
			t.Errorf("%d runs", n)
		}
	})
}

func atoi(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

func TestRetriesGrow(t *testing.T) {
	in(t, these("busybox"), func(t *testing.T, l *lane) {
		plan := append(repeated("exit 75", 11), repeated("exit 77", 6)...)
		l.plan("sf-pull", append(plan, "exit 64")...)
		l.configure("prod", "SF2LOKI_SECOND=0.00001", "SF2LOKI_GOOD=999999")
		s := l.run()
		s.wait()
		least := []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 600, 1200, 2400, 3600, 3600}
		found := s.awaitLog(len(least), `retry_in=(\d+)s`)
		for i, f := range found {
			if got := atoi(f[1]); got < least[i] || got > least[i]+least[i]/4 {
				t.Errorf("retry %d after %d s, want %d and up to a quarter more", i, got, least[i])
			}
		}
	})
}

func repeated(text string, n int) []string {
	return strings.Split(strings.TrimSuffix(strings.Repeat(text+"\n", n), "\n"), "\n")
}

// After ten good minutes a failure is the first one again.
func TestRetriesBeginAnew(t *testing.T) {
	in(t, these("bash"), func(t *testing.T, l *lane) {
		l.plan("sf-pull", "exit 75", "exit 75", "exit 75", "exit 77", "exit 77", "work", "exit 77", "exit 64")
		l.configure("prod", "SF2LOKI_SECOND=0.001")
		s := l.run()
		pids := l.awaitStages(6, `sf-pull start (\d+)`)
		s.awaitLog(6, `stage=sf-pull pid=\d+ msg=started`)
		s.awaitLog(1, `(?s)pid=`+pids[5][1]+` msg=started.*msg="running well"`)
		must(t, syscall.Kill(atoi(pids[5][1]), syscall.SIGKILL))
		s.wait()
		found := s.awaitLog(7, `status=(\d+) retry_in=(\d+)s`)
		if got := atoi(found[5][2]); found[5][1] != "137" || got != 1 {
			t.Errorf("after good minutes %v, want 1 s", found[5])
		}
		if got := atoi(found[6][2]); got < 300 || got > 375 {
			t.Errorf("after good minutes %v, want 300 s", found[6])
		}
	})
}

// Stages that do not follow are told, and in the end killed.
func TestStagesThatDoNotFollow(t *testing.T) {
	inShells(t, func(t *testing.T, l *lane) {
		l.soon()
		l.plan("loki-push", "hang")
		l.plan("ckpt", "stubborn")
		s := l.run()
		l.awaitStages(3, `start`)
		s.signal(syscall.SIGTERM)
		if status := s.wait(); status != 75 {
			t.Errorf("status %d, want 75", status)
		}
		s.awaitLog(1, `sending TERM to every stage`)
		s.awaitLog(1, `sending KILL to every stage`)
		l.awaitStages(1, `loki-push term`)
	})
}

func TestHeadThatDoesNotFollow(t *testing.T) {
	in(t, these("busybox"), func(t *testing.T, l *lane) {
		l.soon()
		l.plan("sf-pull", "stubborn")
		s := l.run()
		l.awaitStages(3, `start`)
		s.signal(syscall.SIGTERM)
		if status := s.wait(); status != 75 {
			t.Errorf("status %d, want 75", status)
		}
	})
}

// A lane starts again only after every process of its last run has ended,
// those included that a stage left behind.
func TestNothingStartsBesideTheLastRun(t *testing.T) {
	inShells(t, func(t *testing.T, l *lane) {
		l.soon()
		l.plan("loki-push", "child 75", "work")
		s := l.run()
		child := atoi(l.awaitStages(1, `loki-push child (\d+)`)[0][1])
		s.awaitLog(3, `msg=ended`)
		s.awaitLog(1, `sending KILL to every stage`) // long after all three have ended
		if n := strings.Count(l.stages(), "loki-push start"); n != 1 {
			t.Errorf("%d runs while a process of the first is left", n)
		}
		must(t, syscall.Kill(child, syscall.SIGKILL))
		l.awaitStages(2, `loki-push start`)
		s.signal(syscall.SIGTERM)
		s.wait()
	})
}

// What a killed supervisor leaves behind is stopped before anything starts.
func TestSupervisorKilled(t *testing.T) {
	inShells(t, func(t *testing.T, l *lane) {
		first := l.run()
		l.awaitStages(3, `start`)
		first.awaitLog(3, `pid=\d+ msg=started$`)
		await(t, func() string { _, out := l.ask("status"); return out }, 3, `^  (sf-pull|loki-push|ckpt) \d+$`)
		must(t, first.cmd.Process.Kill())
		await(t, func() string { _, out := l.ask("status"); return out }, 1, `^prod: not running$`)
		second := l.run()
		l.awaitStages(6, `start`)
		got := l.stages()
		if restart, end := strings.LastIndex(got, "sf-pull start"), strings.LastIndex(got, " end 0"); end > restart || strings.Count(got, " end 0") != 3 {
			t.Errorf("started beside the stages of the first:\n%s", got)
		}
		second.awaitLog(1, `stages of an earlier run are still there`)
		second.signal(syscall.SIGTERM)
		if status := second.wait(); status != 0 {
			t.Errorf("status %d", status)
		}
	})
}

// A source that comes to its end lets the rest drain, however long that takes.
func TestSourceEnds(t *testing.T) {
	inShells(t, func(t *testing.T, l *lane) {
		l.plan("sf-pull", "exit 0", "exit 64")
		l.plan("loki-push", "hang", "work")
		s := l.run()
		pid := atoi(l.awaitStages(1, `loki-push start (\d+)`)[0][1])
		s.awaitLog(1, `stage=sf-pull status=0 msg=ended`)
		must(t, syscall.Kill(pid, syscall.SIGTERM)) // it has drained
		if status := s.wait(); status != 64 {
			t.Errorf("status %d", status)
		}
		if strings.Contains(s.log(), "sending") {
			t.Error("the drain was cut short")
		}
	})
}

// One lane never stops another.
func TestLanesAreApart(t *testing.T) {
	inShells(t, func(t *testing.T, l *lane) {
		l.configure("bad", "SF2LOKI_SECOND=0.01", "LOKI_PUSH_FAKE_DIR2=x")
		must(t, os.MkdirAll(l.dir+"/bad/plan", 0o755))
		text := strings.ReplaceAll(read(t, l.dir+"/conf/bad.conf"), "FAKE_DIR="+l.dir, "FAKE_DIR="+l.dir+"/bad")
		must(t, os.WriteFile(l.dir+"/conf/bad.conf", []byte(text), 0o600))
		must(t, os.WriteFile(l.dir+"/bad/plan/sf-pull", []byte("exit 64"), 0o600))
		s := l.run("prod", "bad")
		s.awaitLog(1, `lane=bad status=64 msg=ended`)
		l.awaitStages(3, `start`)
		s.awaitLog(3, `pid=\d+ msg=started$`)
		await(t, func() string { _, out := l.ask("status"); return out }, 3, `^  (sf-pull|loki-push|ckpt) \d+$`)
		await(t, func() string { _, out := l.ask("status", "bad"); return out }, 1, `^bad: not running`)
		if status, out := l.ask("status"); status != 69 || !strings.Contains(out, "bad: not running") || !strings.Contains(out, "prod: running") {
			t.Errorf("status %d: %s", status, out)
		}
		s.signal(syscall.SIGTERM)
		if status := s.wait(); status != 64 {
			t.Errorf("status %d, want that of the lane that failed", status)
		}
		if got := l.stages(); strings.Count(got, " end 0\n") != 3 {
			t.Errorf("stages:\n%s", got)
		}
	})
}

// A lane of several that was told to stop stays stopped, however it ended.
func TestStopOfOneLane(t *testing.T) {
	inShells(t, func(t *testing.T, l *lane) {
		l.soon()
		l.plan("ckpt", "stubborn")
		l.configure("other")
		text := strings.ReplaceAll(read(t, l.dir+"/conf/other.conf"), "CKPT_FAKE_DIR="+l.dir, "CKPT_FAKE_DIR="+l.dir+"/other")
		must(t, os.Mkdir(l.dir+"/other", 0o755))
		must(t, os.WriteFile(l.dir+"/other/log", nil, 0o600))
		must(t, os.WriteFile(l.dir+"/conf/other.conf", []byte(text), 0o600))
		s := l.run("prod", "other")
		l.awaitStages(5, `start`)
		await(t, func() string { return read(t, l.dir+"/other/log") }, 1, `start`)
		s.awaitLog(6, `stage=\S+ pid=\d+ msg=started$`)
		for _, name := range []string{"prod", "other"} {
			if status, out := l.ask("stop", name); status != 0 {
				t.Errorf("stop %s: %d, %s", name, status, out)
			}
		}
		if status := s.wait(); status != 75 {
			t.Errorf("status %d, want that of the lane with a stage that had to be killed", status)
		}
		if n := strings.Count(s.log(), "stage=ckpt pid="); n != 2 {
			t.Errorf("%d runs of two lanes", n)
		}
	})
}

// A lane that cannot make its run directory returns when that can be made.
func TestLaneOfSeveralReturns(t *testing.T) {
	in(t, these("dash"), func(t *testing.T, l *lane) {
		l.configure("other")
		text := strings.ReplaceAll(read(t, l.dir+"/conf/other.conf"), "RUN_DIR="+l.dir+"/run", "RUN_DIR="+l.dir+"/later")
		must(t, os.WriteFile(l.dir+"/conf/other.conf", []byte(text), 0o600))
		must(t, os.WriteFile(l.dir+"/later", nil, 0o600))
		s := l.run("prod", "other")
		s.awaitLog(1, `other cannot be made or written`)
		must(t, os.Remove(l.dir+"/later"))
		s.awaitLog(1, `lane=other pid=\d+ msg=started`)
		s.signal(syscall.SIGTERM)
		if status := s.wait(); status != 0 {
			t.Errorf("status %d", status)
		}
	})
}

// All lanes are told to stop in the moment in which the supervisor of one is
// killed: its stages are stopped all the same.
func TestStoppedWhileALaneIsKilled(t *testing.T) {
	inShells(t, func(t *testing.T, l *lane) {
		l.configure("other", "SF2LOKI_SECOND=0.02")
		s := l.run("prod", "other")
		lane := atoi(s.awaitLog(1, `lane=other pid=(\d+) msg=started`)[0][1])
		var stages []int
		for _, m := range s.awaitLog(6, `stage=\S+ pid=(\d+) msg=started`) {
			stages = append(stages, atoi(m[1]))
		}
		s.awaitStages(6, `start`)
		s.signal(syscall.SIGSTOP) // so that it sees both at once
		must(t, syscall.Kill(lane, syscall.SIGKILL))
		s.signal(syscall.SIGTERM)
		s.signal(syscall.SIGCONT)
		if status := s.wait(); status != 75 {
			t.Errorf("status %d", status)
		}
		for _, pid := range stages {
			if syscall.Kill(pid, 0) == nil {
				t.Errorf("process %d is left", pid)
			}
		}
	})
}

// An audit or a check that is told to stop does so at once, ends what it has
// started, and clears up.
func TestAuditStopped(t *testing.T) {
	inShells(t, func(t *testing.T, l *lane) {
		must(t, os.Remove(l.dir+"/bin/sf-pull"))
		must(t, os.WriteFile(l.dir+"/bin/sf-pull", []byte("#!/bin/sh\necho asked $$ >>"+l.dir+"/log\nexec sleep 60\n"), 0o755))
		must(t, os.WriteFile(l.dir+"/prod.ledger", nil, 0o600))
		must(t, os.Mkdir(l.dir+"/tmp", 0o755))
		l.env = []string{"TMPDIR=" + l.dir + "/tmp"}
		for n, args := range [][]string{{"audit", "--days-ago", "2"}, {"check"}} {
			cmd := l.command(args...)
			must(t, cmd.Start())
			t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
			pid := atoi(l.awaitStages(n+1, `^asked (\d+)$`)[n][1])
			must(t, cmd.Process.Signal(syscall.SIGTERM))
			_ = cmd.Wait()
			if status := cmd.ProcessState.ExitCode(); status != 75 {
				t.Errorf("%v: status %d", args, status)
			}
			if left, _ := os.ReadDir(l.dir + "/tmp"); len(left) != 0 {
				t.Errorf("%v left behind %v", args, left)
			}
			await(t, func() string { return fmt.Sprint(syscall.Kill(pid, 0)) }, 1, `^no such process$`)
		}
	})
}

// A hole is filled by a job, which ends like any other: the head first.
func TestFillStopped(t *testing.T) {
	inShells(t, func(t *testing.T, l *lane) {
		must(t, os.WriteFile(l.dir+"/prod.ledger", nil, 0o600))
		args := []string{"audit", "prod", "--fill", "--since", "2026-01-01", "--until", "2026-01-02", "--event-type", "Login"}
		cmd := l.command(args...)
		must(t, cmd.Start())
		t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		l.awaitStages(1, `^sf-pull start \d+ elf --since 2026-01-01 --until 2026-01-02 --event-type Login$`)
		l.awaitStages(1, `^loki-push start \d+ $`)
		l.awaitStages(1, `^ckpt start \d+ commit `+l.dir+`/prod.ledger.fill.json$`)
		if status, out := l.ask(args...); status != 75 || !strings.Contains(out, "prod, fill, runs already") {
			t.Errorf("a second one: %d, %s", status, out)
		}
		must(t, cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait()
		if status := cmd.ProcessState.ExitCode(); status != 75 {
			t.Errorf("status %d", status)
		}
		if got := l.stages(); strings.Count(got, " term\n") != 1 || !strings.Contains(got, "sf-pull term\n") || strings.Count(got, " end 0\n") != 3 {
			t.Errorf("stages:\n%s", got)
		}
	})
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}
