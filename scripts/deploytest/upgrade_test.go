package deploytest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
	"sf2loki/scripts/testbed"
)

const leased = `ckpt lease lease.json --fence state.json --ttl 30s --renew 5s -- sh -c '
	sf-pull elf --event-type "*" --resume state.json |
		loki-push --breaker=false --spool dead |
		ckpt commit state.json --ledger ledger'`

// A release, the next one, and the first again work on one state: positions,
// ledger, lease, dead letters, and journals of replays that were cut short.
func TestUpgradeAndRollback(t *testing.T) {
	b := newBench(t)
	steps := []string{"v1.0.0", "v1.1.0", "v1.0.0", "v1.1.0"}
	for i, release := range steps {
		b.publish(8-i, 40)
		b.loki.SetLimits("fake", func(l *lokitest.Limits) { l.MaxLineSize = 700 })
		b.sh(0, b.programs(release), leased)
		b.loki.SetLimits("fake", func(l *lokitest.Limits) { l.MaxLineSize = 256 << 10 })
		if out := b.sh(0, b.programs(release), "ckpt --version; dl-replay run --spool dead --limit 2 -- loki-push"); !strings.Contains(out, release) || !strings.Contains(out, "2 replayed") {
			t.Errorf("%s: %s", release, out)
		}
	}
	if b.stored() == b.rows {
		t.Error("no dead letter is left for the end")
	}
	out := b.sh(0, b.programs("v1.0.0"), "dl-replay run --spool dead -- loki-push; dl-replay run --spool dead -- loki-push; dl-replay list --spool dead --status new --json; ckpt get state.json eventlogfile:Login >token")
	if got := b.stored(); got != b.rows {
		t.Errorf("%d entries of %d rows: %s", got, b.rows, out)
	}
	var lease struct{ Epoch uint64 }
	must(t, json.Unmarshal([]byte(read(t, b.Path("lease.json"))), &lease))
	if lease.Epoch != uint64(len(steps)) {
		t.Errorf("epoch %d after %d terms: %s", lease.Epoch, len(steps), read(t, b.Path("lease.json")))
	}
	if n := strings.Count(read(t, b.Path("ledger")), `"account":`); n < len(steps) {
		t.Errorf("%d accounts in the ledger", n)
	}
}

// Stages of both releases work in one pipe.
func TestStagesOfBothReleases(t *testing.T) {
	b := newBench(t)
	dir, err := releases()
	must(t, err)
	for i := range 8 {
		b.publish(10-i, 20)
		stage := func(bit int, name string) string {
			return filepath.Join(dir, []string{"v1.0.0", "v1.1.0"}[i>>bit&1], name)
		}
		b.sh(0, b.programs("v1.0.0"), fmt.Sprintf("%s elf --event-type '*' --resume state.json | %s --spool dead | %s commit state.json",
			stage(0, "sf-pull"), stage(1, "loki-push"), stage(2, "ckpt")))
		if got := b.stored(); got != b.rows {
			t.Errorf("%d entries of %d rows in pipe %d", got, b.rows, i)
		}
	}
}

// New programs are put in the place of those that run, as dpkg does it: the
// lane goes on with those that it has, and takes the new ones when it starts
// again. And back.
func TestUpgradeUnderLane(t *testing.T) {
	b := newBench(t)
	all, err := releases()
	must(t, err)
	installed := b.Path("bin")
	install := func(release string) {
		t.Helper()
		for _, name := range []string{"sf-pull", "loki-push", "ckpt"} {
			data := read(t, filepath.Join(all, release, name))
			write(t, filepath.Join(installed, name+".dpkg-new"), data, 0o755)
			must(t, os.Rename(filepath.Join(installed, name+".dpkg-new"), filepath.Join(installed, name)))
		}
	}
	install("v1.0.0")
	write(t, b.Path("conf/prod.conf"), strings.Join([]string{
		"SF2LOKI_SOURCE=elf", "SF2LOKI_STATE=" + b.Path("prod.json"), "SF2LOKI_RUN_DIR=" + b.Path("run"),
		"SF_PULL_EVENT_TYPE=*", "SF_PULL_POLL=1s", "LOKI_PUSH_SPOOL=" + b.Path("dead"), "",
	}, "\n"), 0o644)
	supervisor, err := filepath.Abs(root + "/scripts/sf2loki")
	must(t, err)
	cmd := exec.Command("dash", supervisor, "run", "prod")
	cmd.Env = append([]string{b.programs(installed), "SF2LOKI_CONF_DIR=" + b.Path("conf")}, b.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said, err := os.Create(b.Path("said"))
	must(t, err)
	defer said.Close()
	cmd.Stderr = said
	must(t, cmd.Start())
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	hour := 10
	more := func(what string) {
		t.Helper()
		b.publish(hour, 25)
		hour--
		testbed.Eventually(t, what, func() bool { return b.stored() == b.rows })
	}
	more("entries of the first release")
	for _, release := range []string{"v1.1.0", "v1.0.0"} {
		before, _ := stages(t, installed)
		install(release)
		more("entries while " + release + " is put in place")
		if after, replaced := stages(t, installed); !slices.Equal(after, before) || len(after) != 3 || !replaced {
			t.Fatalf("the stages were %v and are %v", before, after)
		}
		must(t, syscall.Kill(before[1], syscall.SIGKILL))
		testbed.Eventually(t, "new start", func() bool {
			now, replaced := stages(t, installed)
			return len(now) == 3 && !replaced
		})
		more("entries of " + release)
	}
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait() // the status says it all
	if status := cmd.ProcessState.ExitCode(); status != 0 {
		t.Errorf("status %d: %s", status, read(t, b.Path("said")))
	}
}

// stages are the processes that run programs of a directory, head first, also
// when others have taken their place since.
func stages(t *testing.T, dir string) (pids []int, replaced bool) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	must(t, err)
	found := map[string]int{}
	for _, link := range links {
		exe, err := os.Readlink(link)
		name, inside := strings.CutPrefix(exe, dir+"/")
		if err != nil || !inside {
			continue
		}
		name, deleted := strings.CutSuffix(name, " (deleted)")
		replaced = replaced || deleted
		found[name], _ = strconv.Atoi(strings.Split(link, "/")[2])
	}
	for _, name := range []string{"sf-pull", "loki-push", "ckpt"} {
		if pid, ok := found[name]; ok {
			pids = append(pids, pid)
		}
	}
	return pids, replaced
}

// What a later release has written is refused with 78, and left as it is.
func TestLaterFormats(t *testing.T) {
	const token = `{"eventlogfile:Login":"{\"v\":2,\"new\":true}","pubsub:/event/LoginEventStream":"{\"v\":2}"}`
	for name, test := range map[string]struct{ file, text, command string }{
		"token of files":  {"state.json", token, "sf-pull elf --event-type Login --resume state.json >/dev/null"},
		"token of events": {"state.json", token, "sf-pull pubsub --topic /event/LoginEventStream --resume state.json >/dev/null"},
		"ledger":          {"ledger", `{"v":2,"at":"2026-07-01T10:05:00.000000000Z"}` + "\n", "echo '{\"checkpoint_key\":\"k\",\"checkpoint_value\":\"1\"}' | ckpt commit other.json --ledger ledger"},
		"lease":           {"lease.json", `{"v":2,"holder":"a"}`, "ckpt lease lease.json --fence other.json --wait 0 -- true"},
		"journal": {"journal", `{"v":2,"line":1,"fate":"other"}` + "\n", `
			echo '{"ts":"2026-07-01T20:00:00Z","labels":{"a":"b"},"line":"x"}' | loki-push --spool dead >/dev/null 2>&1
			mv journal "$(ls dead/*.ndjson).journal"
			dl-replay run --spool dead --force -- loki-push
			status=$?
			cat dead/*.journal >journal
			exit $status`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			write(t, b.Path(test.file), test.text, 0o600)
			bus := b.org.NewBus(sftest.BusConfig{})
			bus.DefineSamples()
			b.Env = append(b.Env, "SF_PULL_ENDPOINT=http://"+bus.Addr)
			out := b.sh(78, b.programs("v1.0.0"), test.command)
			if text := read(t, b.Path(test.file)); text != test.text {
				t.Errorf("%s is now %s", test.file, text)
			}
			if _, err := os.Stat(b.Path("other.json")); !os.IsNotExist(err) {
				t.Error("other.json was written")
			}
			if !strings.Contains(out, "version 2") && !strings.Contains(out, "newer") {
				t.Errorf("it said %s", out)
			}
		})
	}
}
