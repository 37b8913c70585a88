package prooftest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
	"sf2loki/scripts/testbed"
)

// traced is the pipeline, of which each stage tells its process id. TRACE_PUSH
// and TRACE_CKPT may hold a tracer that injects failures of system calls.
const traced = `set -f
stage() { name=$1; shift; exec sh -c 'echo $$ >"$0.new" && mv "$0.new" "$0.pid" && exec "$@"' "$name" "$@"; }
stage pull sf-pull elf --event-type Login --event-type API --resume state.json |
stage push $TRACE_PUSH loki-push --spool dead --on-dead-letter-error stop |
stage ckpt $TRACE_CKPT ckpt commit state.json --ledger state.ledger`

// number is what an environment variable says, or otherwise.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// Whatever goes wrong, in the end all has arrived, and an audit says so.
// PROOFTEST_ROUNDS and PROOFTEST_SEED change how often and what.
func TestTrouble(t *testing.T) {
	rounds, seed := number(t, "PROOFTEST_ROUNDS", 3), number(t, "PROOFTEST_SEED", 1)
	for round := range rounds {
		t.Run(fmt.Sprintf("seed %d round %d", seed, round), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(seed), uint64(round)))
			b := newBenchWith(t, lokitest.Config{Latency: time.Duration(10+rng.IntN(30)) * time.Millisecond})
			b.Set("SF_PULL_LOG_LEVEL=error", "LOKI_PUSH_LOG_LEVEL=error", "CKPT_LOG_LEVEL=error",
				"LOKI_PUSH_BATCH_ENTRIES="+strconv.Itoa(10+rng.IntN(60)), "LOKI_PUSH_FLUSH_INTERVAL=50ms")
			var log []string
			for back := 3; back < 9; back++ {
				b.hour("Login", back, 60+rng.IntN(60), nil)
				b.hour("API", back, 60+rng.IntN(60), tooOld(10))
				what, r := b.troubled(rng)
				log = append(log, fmt.Sprintf("%s: status %d", what, r.Status))
				if strings.Contains(r.Stderr, "does not balance") || strings.Contains(r.Stderr, "panic:") || strings.Contains(r.Stderr, "goroutine ") {
					t.Fatalf("%v: %v", log, r)
				}
				if text := b.Read("state.json"); text != "" && !json.Valid([]byte(text)) {
					t.Fatalf("%v: the document is torn: %q", log, text)
				}
			}
			b.OK(traced)
			t.Logf("%s", strings.Join(log, "; "))
			f := b.audit("")
			if got := f.kinds(); got != "hole: dead letters wait" {
				t.Fatalf("%v: %+v", log, f)
			}
			b.fill(f, "")
		})
	}
}

// trouble is something that goes wrong in a run.
type trouble struct {
	name   string
	before func(b *bench, rng *rand.Rand) (env []string)
	during func(b *bench, rng *rand.Rand, pid func(stage string) int)
}

var stages = []string{"pull", "push", "ckpt"}

var troubles = []trouble{
	{"a stage is killed", nil, func(_ *bench, rng *rand.Rand, pid func(string) int) {
		signal(pid(stages[rng.IntN(3)]), syscall.SIGKILL)
	}},
	{"a stage stands still", nil, func(_ *bench, rng *rand.Rand, pid func(string) int) {
		p := pid(stages[rng.IntN(3)])
		if signal(p, syscall.SIGSTOP) {
			<-time.After(time.Duration(rng.IntN(400)) * time.Millisecond)
			signal(p, syscall.SIGCONT)
		}
	}},
	{"a stage is asked to stop", nil, func(_ *bench, rng *rand.Rand, pid func(string) int) {
		signal(pid(stages[rng.IntN(3)]), syscall.SIGTERM)
	}},
	{"the session expires", nil, func(b *bench, _ *rand.Rand, _ func(string) int) { b.org.ExpireTokens() }},
	{"the clock of the org steps", func(b *bench, rng *rand.Rand) []string {
		b.org.SetSkew(time.Duration(rng.IntN(40)-20) * time.Minute)
		return nil
	}, nil},
	{"Salesforce fails", func(b *bench, rng *rand.Rand) []string {
		match := []string{"/query", "/LogFile", "/oauth2/token"}[rng.IntN(3)]
		b.org.Fault(match, []sftest.Fault{
			{Status: 500, Times: 2}, {HTML: true}, {Reset: true, Times: 2}, {CutAfter: 200 + rng.IntN(4000)},
			{Trickle: 5 * time.Millisecond, Times: 3}, {Status: 503, Skip: rng.IntN(3)}, {Latency: 300 * time.Millisecond, Times: 4},
		}[rng.IntN(7)])
		return nil
	}, nil},
	{"Loki fails, and replies are lost", func(b *bench, rng *rand.Rand) []string {
		from, n := rng.IntN(8), 1+rng.IntN(3)
		answer := []lokitest.Answer{
			{Reset: true}, {Reset: true, Store: true}, {Status: 503, Body: "starting"}, {Status: 429, Body: "slow down"},
			{Status: 500, Body: "rpc error", Store: true}, {Status: 200, Body: "<html>gateway", Header: http.Header{"Content-Type": {"text/html"}}},
		}[rng.IntN(6)]
		var mu sync.Mutex
		first := -1
		b.srv.Script(func(i int, _ lokitest.Request) *lokitest.Answer {
			mu.Lock()
			defer mu.Unlock()
			if first < 0 {
				first = i
			}
			if i < first+from || i >= first+from+n {
				return nil
			}
			return &answer
		})
		return nil
	}, nil},
	{"an fsync fails", func(_ *bench, rng *rand.Rand) []string {
		return []string{inject(rng, "fsync:error=EIO:when=%d", 2)}
	}, nil},
	{"the disk is full", func(_ *bench, rng *rand.Rand) []string {
		return []string{inject(rng, "write:error=ENOSPC:when=%d+", 12)}
	}, nil},
	{"a rename fails", func(_ *bench, rng *rand.Rand) []string {
		return []string{inject(rng, "/^rename:error=ENOSPC:when=%d", 2)}
	}, nil},
}

// inject has system calls of a stage fail from a random one on.
func inject(rng *rand.Rand, what string, most int) string {
	stage := []string{"TRACE_PUSH", "TRACE_CKPT"}[rng.IntN(2)]
	what = fmt.Sprintf(what, 1+rng.IntN(most))
	call, _, _ := strings.Cut(what, ":")
	return stage + "=strace -f -qq -o /dev/null -e trace=" + call + " -e inject=" + what
}

func signal(pid int, sig syscall.Signal) bool { return pid > 0 && syscall.Kill(pid, sig) == nil }

// troubled runs the pipeline with one or two troubles.
func (b *bench) troubled(rng *rand.Rand) (what string, r *testbed.Result) {
	b.T.Helper()
	var env, names []string
	var during []func(*bench, *rand.Rand, func(string) int)
	for range 1 + rng.IntN(2) {
		tr := troubles[rng.IntN(len(troubles))]
		names = append(names, tr.name)
		if tr.before != nil {
			env = append(env, tr.before(b, rng)...)
		}
		if tr.during != nil {
			during = append(during, tr.during)
		}
	}
	for _, name := range stages {
		_ = os.Remove(b.Path(name + ".pid"))
	}
	bed := *b.Bed
	bed.Env = append(b.Env[:len(b.Env):len(b.Env)], env...)
	run := bed.Start(traced)
	for _, f := range during {
		select {
		case <-time.After(time.Duration(rng.IntN(500)) * time.Millisecond):
			f(b, rng, func(stage string) int { return b.pid(stage, run.Cmd.Process.Pid, run.Done) })
		case <-run.Done:
		}
	}
	r = run.Wait()
	if r.Late {
		b.T.Fatalf("%v: %v", names, r)
	}
	b.srv.Script(nil)
	b.org.ClearFaults()
	b.org.SetSkew(0)
	return strings.Join(names, " and "), r
}

// pid waits for the process id of a stage; 0 when the pipeline has ended, or
// the process is not the pipeline's any more.
func (b *bench) pid(stage string, group int, ended <-chan struct{}) int {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if data, err := os.ReadFile(b.Path(stage + ".pid")); err == nil {
			pid, _ := strconv.Atoi(strings.TrimSpace(string(data)))
			if pgid, err := syscall.Getpgid(pid); err == nil && pgid == group {
				return pid
			}
			return 0
		}
		select {
		case <-tick.C:
		case <-ended:
			return 0
		}
	}
}
