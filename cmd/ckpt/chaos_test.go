package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/checkpointtest"
	"sf2loki/pkg/cli"
	"sf2loki/pkg/lease/leasetest"
)

var (
	blows = flag.Int("blows", 4, "how often contenders for a lease are killed, stopped or cut off")
	seed  = flag.Uint64("seed", 1, "of the choice of blows")
)

// worker is the command under the lease in these tests: it counts in the
// document, as ckpt commit would, and logs each commit that was accepted.
func worker() {
	if err := count(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(76)
	}
}

func count(id, store, log string) error {
	ctx := context.Background()
	epoch, err := strconv.ParseUint(os.Getenv("CKPT_EPOCH"), 10, 64)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	fmt.Fprintf(f, "start %s %d %d\n", id, epoch, os.Getpid())
	s, err := openStore(cli.NewApp("ckpt"), store)
	if err != nil {
		return err
	}
	c, err := checkpoint.NewCommitter(ctx, s, epoch, checkpoint.DefaultRetry)
	if err != nil {
		return err
	}
	text, _ := c.Document().Get("k")
	n, _ := strconv.Atoi(text)
	for pace := time.NewTicker(5 * time.Millisecond); ; <-pace.C {
		n++
		c.Stage(checkpoint.Position{Key: "k", Value: strconv.Itoa(n)})
		if _, err := c.Write(ctx, func() error { return nil }); err != nil {
			return err
		}
		fmt.Fprintf(f, "commit %s %d %d\n", id, epoch, n)
	}
}

// arena is three contenders and what they contend for.
type arena struct {
	t               *testing.T
	rng             *rand.Rand
	lease, document string // as the contenders name them
	log             string
	env             func(id string) []string
	runs            map[string]*exec.Cmd
	cut             map[string]bool
	last            string // blow
	mu              sync.Mutex
	read            func() (int, bool)
	remove          func() // the lease
	onCut           func(id string, cut bool)
}

const (
	chaosTTL   = 1500 * time.Millisecond
	chaosRenew = 200 * time.Millisecond
)

func (a *arena) start(id string) {
	a.t.Helper()
	self, err := os.Executable()
	must(a.t, err)
	program := filepath.Join(filepath.Dir(a.log), "ckpt-worker")
	if err := os.Symlink(self, program); err != nil && !errors.Is(err, os.ErrExist) {
		a.t.Fatal(err)
	}
	cmd := ckpt(a.t, "lease", a.lease, "--fence", a.document, "--id", id, "--log-level", "error",
		"--ttl", chaosTTL.String(), "--renew", chaosRenew.String(), "--", program, id, a.document, a.log)
	cmd.Env = append(os.Environ(), a.env(id)...)
	stderr, err := os.OpenFile(a.log+"."+id, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(a.t, err)
	defer stderr.Close()
	cmd.Stderr = stderr
	must(a.t, cmd.Start())
	a.runs[id] = cmd
}

// entry is a line of the log.
type entry struct {
	what, id string
	epoch    uint64
	n        int // a process id or a count
}

func (a *arena) entries() []entry {
	a.t.Helper()
	data, err := os.ReadFile(a.log)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	must(a.t, err)
	var all []entry
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		var e entry
		if _, err := fmt.Sscan(lines.Text(), &e.what, &e.id, &e.epoch, &e.n); err != nil {
			continue // the last line, cut off by a kill
		}
		all = append(all, e)
	}
	return all
}

// leader is who committed last, and the process that did.
func (a *arena) leader() (id string, pid, commits int) {
	pids := map[string]int{}
	for _, e := range a.entries() {
		if e.what == "start" {
			pids[e.id] = e.n
			continue
		}
		id, commits = e.id, commits+1
	}
	return id, pids[id], commits
}

// progress waits until somebody other than those has committed.
func (a *arena) progress(than ...string) {
	a.t.Helper()
	_, _, before := a.leader()
	defer func() {
		if a.t.Failed() {
			a.explain()
		}
	}()
	await(a.t, "progress after "+a.last, func() bool {
		a.restartEnded()
		id, _, now := a.leader()
		return now > before+3 && !slices.Contains(than, id)
	})
}

// explain shows what everybody said last, and what they do.
func (a *arena) explain() {
	for id, cmd := range a.runs {
		said, _ := os.ReadFile(a.log + "." + id)
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		a.t.Logf("%s: %.60s\n%s", id, stat, said[max(0, len(said)-2000):])
	}
	all := a.entries()
	a.t.Logf("the log ends with %+v", all[max(0, len(all)-5):])
}

func (a *arena) setCut(id string, cut bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cut[id] = cut
	if a.onCut != nil {
		a.onCut(id, cut)
	}
}

// kill ends the contender id and starts it anew.
func (a *arena) kill(id string, pids ...int) {
	a.t.Helper()
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have gone
	}
	_ = a.runs[id].Process.Kill()
	_ = a.runs[id].Wait()
	a.start(id)
}

// blow hits the present leader, or now and then a standby.
func (a *arena) blow(kinds []string) string {
	a.t.Helper()
	id, pid, _ := a.leader()
	kind := kinds[a.rng.IntN(len(kinds))]
	own := a.runs[id].Process.Pid
	a.last = kind + " " + id
	switch kind {
	case "kill all":
		a.kill(id, -pid)
		a.progress()
	case "kill ckpt":
		a.kill(id)
		a.progress()
	case "kill command":
		_ = syscall.Kill(-pid, syscall.SIGKILL) // its contender ends with 137, or stands by
		a.progress()
	case "stop all", "stop ckpt":
		// Stopped past the ttl, awake while another leads.
		_ = syscall.Kill(own, syscall.SIGSTOP)
		if kind == "stop all" {
			_ = syscall.Kill(-pid, syscall.SIGSTOP)
			// Only one that stands still takes no lock any more.
			await(a.t, "standstill", func() bool { return standsStill(a.t, own) && standsStill(a.t, pid) })
			if a.locked() {
				_ = syscall.Kill(-pid, syscall.SIGCONT)
			}
		}
		a.progress(id)
		_ = syscall.Kill(own, syscall.SIGCONT)
		_ = syscall.Kill(-pid, syscall.SIGCONT)
		a.progress()
	case "stop standby":
		other := a.standby(id)
		_ = syscall.Kill(other, syscall.SIGSTOP)
		a.progress()
		_ = syscall.Kill(other, syscall.SIGCONT)
	case "cut":
		a.setCut(id, true)
		a.progress(id)
		a.setCut(id, false)
		a.progress()
	case "remove":
		a.remove()
		a.progress()
	}
	a.restartEnded()
	return a.last
}

// locked reports whether a stopped process has the lock of the document, so
// that nobody could write it.
func (a *arena) locked() bool {
	if strings.Contains(a.document, "://") {
		return false
	}
	return !unlocked(a.t, a.document)
}

func (a *arena) standby(leader string) int {
	for id, cmd := range a.runs {
		if id != leader {
			return cmd.Process.Pid
		}
	}
	return 0
}

// restartEnded is the supervisor: a contender whose command was fenced ends
// with its status.
func (a *arena) restartEnded() {
	for id, cmd := range a.runs {
		var status syscall.WaitStatus
		if pid, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WNOHANG, nil); err == nil && pid == 0 {
			continue
		}
		_ = cmd.Wait()
		a.start(id)
	}
}

// enter starts the contenders and waits until one leads.
func (a *arena) enter() {
	t := a.t
	a.runs, a.cut = map[string]*exec.Cmd{}, map[string]bool{}
	a.rng = rand.New(rand.NewPCG(*seed, 7))
	for _, id := range []string{"a", "b", "c"} {
		a.start(id)
	}
	t.Cleanup(func() {
		_, pid, _ := a.leader()
		for _, cmd := range a.runs {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		if pid > 0 {
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		}
	})
	await(t, "leader", func() bool { id, _, _ := a.leader(); return id != "" })
}

func (a *arena) fight(kinds []string) {
	a.enter()
	stop := make(chan struct{})
	watched := make(chan struct{})
	go a.watch(stop, watched)
	defer func() {
		close(stop)
		<-watched
	}()
	var done []string
	for range *blows {
		done = append(done, a.blow(kinds))
	}
	a.judge(done)
}

// watch reads the position all the time: it never moves back.
func (a *arena) watch(stop, watched chan struct{}) {
	defer close(watched)
	pace := time.NewTicker(3 * time.Millisecond)
	defer pace.Stop()
	last := 0
	for {
		select {
		case <-stop:
			return
		case <-pace.C:
		}
		if n, ok := a.read(); ok && n < last {
			a.t.Errorf("the position moved back from %d to %d", last, n)
		} else if ok {
			last = n
		}
	}
}

// judge reads the log: no count was accepted twice, and in the order of the
// counts every epoch is the last one or a higher one, of one contender.
func (a *arena) judge(done []string) {
	t := a.t
	var commits []entry
	starts := map[uint64]string{}
	for _, e := range a.entries() {
		if e.what == "commit" {
			commits = append(commits, e)
			continue
		}
		if other, twice := starts[e.epoch]; twice {
			t.Errorf("epoch %d was led by %s and %s", e.epoch, other, e.id)
		}
		starts[e.epoch] = e.id
	}
	slices.SortStableFunc(commits, func(x, y entry) int { return x.n - y.n })
	for i := 1; i < len(commits); i++ {
		was, is := commits[i-1], commits[i]
		if is.n == was.n || is.epoch < was.epoch || is.epoch == was.epoch && is.id != was.id {
			t.Errorf("after %+v came %+v", was, is)
		}
	}
	t.Logf("%d blows, %d terms, %d commits: %s", len(done), len(starts), len(commits), strings.Join(done, ", "))
}

// A leader that is killed with everything below it is followed within the ttl
// and two seconds, and what it had committed stays. A machine that has no time
// for us may be late, but not always.
func TestFailover(t *testing.T) {
	const enough, most = 3, 30
	a := fileArena(t)
	a.enter()
	best := time.Hour
	for round := range most {
		id, pid, _ := a.leader()
		a.progress()
		start := time.Now()
		must(t, a.runs[id].Process.Kill())
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		stored := position(t, a.document, "k")
		a.progress() // everybody that led is dead, whoever leads now is new
		best = min(best, time.Since(start))
		if now := position(t, a.document, "k"); now <= stored {
			t.Errorf("the position was %d and is %d", stored, now)
		}
		a.restartEnded()
		if round >= enough-1 && best <= chaosTTL+2*time.Second {
			break
		}
	}
	if best > chaosTTL+2*time.Second {
		t.Errorf("the next leader's first commits took %v at best", best)
	}
	t.Logf("%v after the kill at best", best)
	a.judge(nil)
}

func fileArena(t *testing.T) *arena {
	dir := t.TempDir()
	a := &arena{t: t, lease: filepath.Join(dir, "lease"), document: filepath.Join(dir, "state.json"), log: filepath.Join(dir, "log"),
		env: func(string) []string { return nil }}
	a.read = func() (int, bool) { return position(t, a.document, "k"), true }
	a.remove = func() { must(t, os.RemoveAll(a.lease)) } // it may have been removed just now
	return a
}

func TestContendersFile(t *testing.T) {
	fileArena(t).fight([]string{"kill all", "kill ckpt", "kill command", "stop all", "stop ckpt", "stop standby", "remove"})
}

func TestContendersObject(t *testing.T) {
	cloud := checkpointtest.NewS3(t)
	dir := t.TempDir()
	query := "?endpoint=" + url.QueryEscape(cloud.URL)
	a := &arena{t: t, lease: "s3://bucket/lease" + query, document: "s3://bucket/state.json" + query, log: filepath.Join(dir, "log"),
		env: func(id string) []string {
			return []string{"AWS_ACCESS_KEY_ID=contender-" + id, "AWS_SECRET_ACCESS_KEY=x", "AWS_CONFIG_FILE=/dev/null",
				"AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_EC2_METADATA_DISABLED=true"}
		}}
	cloud.Break(func(r *http.Request) checkpointtest.Trouble {
		_, rest, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=contender-")
		id, _, _ := strings.Cut(rest, "/")
		a.mu.Lock()
		defer a.mu.Unlock()
		return checkpointtest.Trouble{Cut: a.cut[id]}
	})
	a.read = func() (int, bool) {
		text, ok := cloud.Object("bucket/state.json")
		if !ok {
			return 0, false
		}
		doc, err := checkpoint.ParseDocument([]byte(text))
		if err != nil {
			t.Errorf("torn: %q", text)
			return 0, false
		}
		k, _ := doc.Get("k")
		n, _ := strconv.Atoi(k)
		return n, true
	}
	a.fight([]string{"kill all", "kill ckpt", "kill command", "stop all", "stop ckpt", "stop standby", "cut"})
}

func TestContendersKubernetes(t *testing.T) {
	server := leasetest.NewAPIServer(t)
	a := fileArena(t)
	a.lease = "k8s://lanes/emea"
	a.remove = func() { server.Remove("lanes/emea") }
	a.env = func(id string) []string {
		path := a.log + "." + id + ".kubeconfig"
		must(t, os.WriteFile(path, server.Config(id), 0o600))
		return []string{"KUBECONFIG=" + path}
	}
	server.Break(func(_ http.ResponseWriter, r *http.Request) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.cut[leasetest.Asks(r)] {
			panic(http.ErrAbortHandler)
		}
		return false
	})
	a.fight([]string{"kill all", "kill ckpt", "kill command", "stop all", "stop ckpt", "stop standby", "remove", "cut"})
}
