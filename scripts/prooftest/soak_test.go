package prooftest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
)

// gauge is what a process uses at a moment.
type gauge struct{ rss, fds int64 }

// look reads what the process with an id uses.
func look(pid int) (gauge, bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return gauge{}, false
	}
	var g gauge
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			g.rss = kb << 10
		}
	}
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	g.fds = int64(len(names))
	return g, err == nil && g.rss > 0
}

// A pipeline that follows an org for long, with faults all the time, needs no
// more memory and no more descriptors at the end than near the beginning, and
// nothing is missing. SOAK says how long; without it there is a look only.
func TestSoak(t *testing.T) {
	length := 4 * time.Second
	if text := os.Getenv("SOAK"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	b := newBenchWith(t, lokitest.Config{Latency: 2 * time.Millisecond, Forget: true, Limits: lokitest.Plain})
	b.Set("SF_PULL_LOG_LEVEL=error", "LOKI_PUSH_LOG_LEVEL=error", "CKPT_LOG_LEVEL=error")
	b.faults(rand.New(rand.NewPCG(uint64(number(t, "PROOFTEST_SEED", 1)), 7)))
	cmd := exec.Command("sh", "-c", strings.NewReplacer("--event-type API", "--event-type API --follow --poll 1s --settle 0s --report pull.report",
		"--on-dead-letter-error", "--stream-bytes-per-second 0 --report push.report --on-dead-letter-error").Replace(traced))
	var errs strings.Builder
	cmd.Dir, cmd.Env, cmd.Stderr = b.Dir, b.Env, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); <-ended })
	pids := map[string]int{}
	for _, stage := range stages {
		pids[stage] = b.pid(stage, cmd.Process.Pid, ended)
	}
	seen, rows := b.soak(length, pids, ended)
	signal(pids["pull"], syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(3 * time.Minute):
		t.Fatal("the pipeline does not end")
	}
	if status := cmd.ProcessState.ExitCode(); status != 0 {
		t.Errorf("status %d: %.2000s", status, errs.String())
	}
	for _, stage := range stages {
		judge(t, stage, seen[stage], length)
	}
	stats := b.srv.Stats()
	t.Logf("%d rows offered, %d stored, %d requests, %.1f MB/s offered", rows.rows, stats.Stored, stats.Requests, float64(rows.bytes)/1e6/length.Seconds())
	b.whole(rows.rows)
}

// whole pulls what is left and holds the accounts of both runs against what was
// offered.
func (b *bench) whole(rows int64) {
	b.T.Helper()
	b.OK(strings.Replace(traced, "--event-type API", "--event-type API --settle 0s --report rest.report", 1))
	read := field(b.T, b.Read("pull.report"), "read") + field(b.T, b.Read("rest.report"), "read")
	stored := int64(b.srv.Stats().Stored)
	if read < rows || stored < rows {
		b.T.Errorf("%d rows were offered, %d read, %d stored", rows, read, stored)
	}
}

// field is a number of the account of a whole run.
func field(t *testing.T, report, name string) int64 {
	t.Helper()
	for line := range strings.Lines(report) {
		if _, rest, ok := strings.Cut(line, `"`+name+`":`); ok && strings.Contains(line, `"scope":"run"`) {
			digits := strings.FieldsFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
			n, err := strconv.ParseInt(digits[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no %s in %q", name, report)
	return 0
}

// faults has Loki and the org fail now and then.
func (b *bench) faults(rng *rand.Rand) {
	seed := rng.Uint64()
	var n atomic.Uint64
	b.srv.Script(func(int, lokitest.Request) *lokitest.Answer {
		r := rand.New(rand.NewPCG(seed, n.Add(1)))
		switch r.IntN(200) {
		case 0:
			return &lokitest.Answer{Reset: true, Store: true}
		case 1:
			return &lokitest.Answer{Reset: true}
		case 2:
			return &lokitest.Answer{Status: 503, Body: "starting"}
		case 3:
			return &lokitest.Answer{Delay: 200 * time.Millisecond, Store: true}
		}
		return nil
	})
}

// offered is what the org has had.
type offered struct{ rows, bytes int64 }

// soak offers files until the time is over, and looks at the processes.
func (b *bench) soak(length time.Duration, pids map[string]int, ended <-chan struct{}) (map[string][]gauge, offered) {
	b.T.Helper()
	seen := map[string][]gauge{}
	var all offered
	var old []string
	last := time.Now().UTC().Truncate(time.Hour).Add(-3 * time.Hour)
	end := time.After(length)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for round := 0; ; round++ {
		for i, eventType := range []string{"Login", "API"} {
			start := last.Add(-time.Duration((round+i)%20) * time.Hour).Add(time.Duration(round/20) * time.Second) // another one each time
			h := sftest.Hour{Type: eventType, Start: start, Rows: 3000}
			id := b.org.AddHour(h, func(f *sftest.LogFile) { f.Created = time.Now().Add(-time.Second) })
			all.rows += int64(h.Rows)
			all.bytes += int64(len(b.org.LogFileBody(id)))
			old = append(old, id)
		}
		if round%20 == 7 {
			b.org.ExpireTokens()
			b.org.Fault("/query", sftest.Fault{Status: 503})
			b.org.Fault("/LogFile", sftest.Fault{CutAfter: 10000})
		}
		for len(old) > 400 { // what was pulled long ago
			b.org.Delete("EventLogFile", old[0])
			old = old[1:]
		}
		b.org.ResetRequests()
		for stage, pid := range pids {
			if g, ok := look(pid); ok {
				seen[stage] = append(seen[stage], g)
			}
		}
		select {
		case <-tick.C:
		case <-end:
			return seen, all
		case <-ended:
			b.T.Error("the pipeline has ended by itself")
			return seen, all
		}
	}
}

// judge compares the last third of a run with the second one.
func judge(t *testing.T, stage string, seen []gauge, length time.Duration) {
	t.Helper()
	if len(seen) < 3 {
		t.Fatalf("%s was not seen", stage)
	}
	third := len(seen) / 3
	most := func(gauges []gauge) (g gauge) {
		for _, one := range gauges {
			g.rss, g.fds = max(g.rss, one.rss), max(g.fds, one.fds)
		}
		return g
	}
	before, after := most(seen[third:2*third]), most(seen[2*third:])
	sorted := slices.SortedFunc(slices.Values(seen), func(a, b gauge) int { return int(a.rss - b.rss) })
	t.Logf("%s: RSS %d MB, most %d MB; middle %d MB, end %d MB; descriptors %d, %d", stage,
		sorted[len(sorted)/2].rss>>20, sorted[len(sorted)-1].rss>>20, before.rss>>20, after.rss>>20, before.fds, after.fds)
	if length < time.Minute {
		return // too short to tell
	}
	if after.rss > before.rss+before.rss/4+8<<20 {
		t.Errorf("%s: memory grows: %d MB, then %d MB", stage, before.rss>>20, after.rss>>20)
	}
	if after.fds > before.fds+4 {
		t.Errorf("%s: descriptors grow: %d, then %d", stage, before.fds, after.fds)
	}
}
