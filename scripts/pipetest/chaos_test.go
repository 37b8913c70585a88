package pipetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
)

// killable is a pipeline of which each stage tells its process id.
const killable = `
stage() { name=$1; shift; exec sh -c 'echo $$ >"$0.new" && mv "$0.new" "$0.pid" && exec "$@"' "$name" "$@"; }
stage pull sf-pull elf $PULL --resume state.json |
stage push loki-push --url "$LOKI" --spool dead $PUSH |
stage ckpt ckpt commit state.json`

var stages = []string{"pull", "push", "ckpt"}

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

// outcome is what has to become of a source.
type outcome struct{ stored, refused tally }

// Any stage is killed at any moment, again and again. In the end the store
// holds exactly the source, and nothing has become a dead letter but what has
// to. PIPETEST_KILLS and PIPETEST_SEED change how often and when.
func TestKill(t *testing.T) {
	kills, seed := number(t, "PIPETEST_KILLS", 30), number(t, "PIPETEST_SEED", 1)
	sources := []struct {
		name string
		make func(*testing.T, *bench) outcome
	}{{"sparse file", sparseFile}, {"hourly files", hourlyFiles}, {"sparse daily file", dailyFile}, {"poison", poisonedFile}}
	for i, source := range sources {
		t.Run(source.name, func(t *testing.T) {
			t.Parallel()
			c := &chaos{rng: rand.New(rand.NewPCG(uint64(seed), uint64(i)))}
			rounds := 0
			for ; c.kills < (kills+len(sources)-1)/len(sources); rounds++ {
				b := newBench(t)
				c.round(b, c.loki(t), source.make(t, b))
				if t.Failed() {
					t.Fatalf("seed %d, round %d", seed, rounds)
				}
			}
			t.Logf("seed %d: %d kills (%v) in %d rounds, %d entries stored again: %.1f a kill", seed, c.kills, c.by, rounds, c.repeats, float64(c.repeats)/float64(c.kills))
		})
	}
}

// Kills of one pipeline do not disturb another with the same document, nor what
// both of them have stored.
func TestKillBesideAnother(t *testing.T) {
	t.Parallel()
	c := &chaos{rng: rand.New(rand.NewPCG(uint64(number(t, "PIPETEST_SEED", 1)), 100))}
	b := newBench(t)
	org := newOrg(t)
	for n := range 24 {
		h := sftest.Hour{Type: "Login", Start: daysAgo(1).Add(time.Duration(n) * time.Hour), Rows: 40, Awkward: 25}
		org.publish(org.AddHour(h, created(time.Duration(300-10*n)*time.Minute)))
	}
	org.publish(org.AddDay("Login", daysAgo(1), created(time.Hour)))
	srv := c.loki(t)
	b.use(org).set("PULL=--event-type Login", "LOKI="+srv.URL)
	// Each lane pulls the whole day again.
	beside := b.start(`for lane in a b c d e f; do
sf-pull elf --event-type Login --interval Daily --lane $lane --resume state.json |
loki-push --url "$LOKI" --spool dead-daily --batch-entries 10 | ckpt commit state.json || exit; done`)
	c.round(b, srv, outcome{stored: org.want})
	if r := beside.Wait(); r.Status != 0 {
		t.Errorf("the other pipeline: %v", r)
	}
	same(t, "the store", held(srv), org.want)
	if keys := sorted(b.positions()); len(keys) != 7 || len(b.letters("dead-daily")) > 0 {
		t.Errorf("keys %q, %d letters", keys, len(b.letters("dead-daily")))
	}
	t.Logf("%d kills (%v)", c.kills, c.by)
}

// sparseFile is the log of a day of 1,000 rows.
func sparseFile(t *testing.T, b *bench) outcome {
	data := sftest.Hour{Type: "Login", Start: daysAgo(1), Rows: 1000, Span: 24 * time.Hour, Awkward: 20}.CSV()
	b.Write("day.csv", string(data))
	b.set("PULL=--file day.csv")
	return outcome{stored: expected(t, data, nil).folded()}
}

// poisonedFile has rows that are too old and rows that are too long for Loki.
func poisonedFile(t *testing.T, b *bench) outcome {
	data := sftest.Hour{Type: "API", Start: daysAgo(1), Rows: 600, Span: 24 * time.Hour, Edit: func(i int, cells map[string]string) {
		switch {
		case i%40 == 7:
			cells["TIMESTAMP_DERIVED"] = time.Now().AddDate(0, 0, -9).UTC().Format("2006-01-02T15:04:05.000Z")
		case i%97 == 11:
			cells["QUERY"] = strings.Repeat("x", 300<<10)
		}
	}}.CSV()
	b.Write("day.csv", string(data))
	b.set("PULL=--file day.csv", "LOKI_PUSH_MAX_LINE_BYTES=0")
	o := outcome{tally{}, tally{}}
	for e := range expected(t, data, nil) {
		if len(e.line) > 256<<10 || e.nanos < time.Now().AddDate(0, 0, -8).UnixNano() {
			o.refused.add(e)
		} else {
			o.stored.add(e)
		}
	}
	return o
}

// dailyFile is the same from an org.
func dailyFile(t *testing.T, b *bench) outcome {
	org := newOrg(t)
	org.Know(sftest.Hour{Type: "Login", Start: daysAgo(1), Rows: 1000, Span: 24 * time.Hour, Awkward: 20})
	org.publish(org.AddDay("Login", daysAgo(1), created(time.Hour)))
	b.use(org).set("PULL=--event-type Login --interval Daily")
	return outcome{stored: org.want}
}

// hourlyFiles are of several types and hours, with late ones.
func hourlyFiles(t *testing.T, b *bench) outcome {
	org := newOrg(t)
	for n := 6; n > 3; n-- {
		for i, eventType := range []string{"Login", "API", "URI"} {
			h := sftest.Hour{Type: eventType, Start: hoursAgo(n), Rows: 80, Awkward: 20}
			org.publish(org.AddHour(h, created(time.Duration(n*10)*time.Minute)))
			if i == 0 {
				h.Rows, h.Overlap = 120, 5
				org.publish(org.AddHour(h, created(time.Duration(40-n)*time.Minute)))
			}
		}
	}
	b.use(org).set("PULL=--event-type *")
	return outcome{stored: org.want}
}

// chaos kills stages and counts.
type chaos struct {
	rng     *rand.Rand
	kills   int
	by      [3]int
	repeats int
}

// loki is a slow one, with Loki's own rules.
func (c *chaos) loki(t *testing.T) *lokitest.Server {
	t.Helper()
	return loki(t, lokitest.Config{Latency: time.Duration(5+c.rng.IntN(30)) * time.Millisecond})
}

// round pulls a source with a few kills.
func (c *chaos) round(b *bench, srv *lokitest.Server, want outcome) {
	b.Shell = shells[c.rng.IntN(2)]
	// With little room in loki-push, sf-pull is held up by a slow Loki too.
	b.set("LOKI="+srv.URL, fmt.Sprintf("PUSH=--batch-entries %d --buffer-bytes %dKiB --in-flight %d",
		[]int{1000, 17, 5}[c.rng.IntN(3)], []int{24 << 10, 100, 400}[c.rng.IntN(3)], 1+c.rng.IntN(4)))
	armed := 4 + c.rng.IntN(8)
	for run := 0; ; run++ {
		for _, name := range stages {
			_ = os.Remove(b.Path(name + ".pid"))
		}
		r := b.start("set -f" + killable)
		if run < armed {
			c.kill(r, srv)
		}
		end := r.Wait()
		srv.Script(nil)
		if strings.Contains(end.Stderr, "(not done after") {
			b.T.Errorf("run %d: %v", run, end)
			return
		}
		if end.Status == 0 {
			break
		}
		if run > armed {
			b.T.Errorf("run %d, and nobody killed: %v", run, end)
			return
		}
	}
	// Nothing may be missing once a status was 0, also when a kill came too late
	// to matter.
	same(b.T, "the store", held(srv), want.stored)
	same(b.T, "dead letters", captured(b), want.refused)
	c.repeats += srv.Stats().Duplicates
}

// captured are the entries of all dead letters, each once.
func captured(b *bench) tally {
	got := tally{}
	for _, l := range b.letters("dead") {
		labels := maps.Clone(l.Labels)
		labels["event_hour"] = l.TS.UTC().Format("2006-01-02T15") // a letter is as the record came in
		got.add(entry{l.TS.UnixNano(), pairs(labels), pairs(l.StructuredMetadata), l.Line})
	}
	return got.folded()
}

// kill ends one stage of a running pipeline: at some time, or while Loki is
// asked to store something.
func (c *chaos) kill(r *running, srv *lokitest.Server) {
	stage := c.rng.IntN(len(stages))
	if c.rng.IntN(2) == 0 {
		timer := time.NewTimer(time.Duration(c.rng.IntN(250)) * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
			c.count(stage, r.kill(stages[stage]))
		case <-r.Done:
		}
		return
	}
	at, store, reset := int64(c.rng.IntN(8)), c.rng.IntN(2) == 0, c.rng.IntN(2) == 0
	var seen atomic.Int64
	hit := make(chan bool, 1)
	srv.Script(func(int, lokitest.Request) *lokitest.Answer {
		if seen.Add(1) != at+1 {
			return nil
		}
		hit <- r.kill(stages[stage])
		if !reset {
			return nil
		}
		return &lokitest.Answer{Store: store, Reset: true}
	})
	select {
	case did := <-hit:
		c.count(stage, did)
	case <-r.Done:
	}
}

func (c *chaos) count(stage int, did bool) {
	if did {
		c.kills++
		c.by[stage]++
	}
}

// kill kills a stage, if it is still there. It waits for one that has not
// begun.
func (r *running) kill(name string) bool {
	return r.signal(name, syscall.SIGKILL)
}

func (r *running) signal(name string, sig syscall.Signal) bool {
	pid := r.pid(name)
	return pid != 0 && r.alive(pid) && syscall.Kill(pid, sig) == nil
}

// pid waits until a stage has told its process id.
func (r *running) pid(name string) int {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		data, err := os.ReadFile(r.b.Path(name + ".pid"))
		if err == nil {
			pid, _ := strconv.Atoi(strings.TrimSpace(string(data)))
			return pid
		}
		select {
		case <-tick.C:
		case <-r.Done:
			return 0
		}
	}
}

// alive tells whether a process of this pipeline runs under the id.
func (r *running) alive(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, ok := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	return ok && len(fields) > 2 && fields[0] != "Z" && fields[2] == strconv.Itoa(r.Cmd.Process.Pid)
}
