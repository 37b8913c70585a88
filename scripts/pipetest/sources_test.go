package pipetest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
	"sf2loki/scripts/testbed"
)

// sourced is a pipeline of any source, of which each stage tells its process id.
var sourced = strings.Replace(killable, "sf-pull elf", "sf-pull", 1)

// feedSource is something that is pulled to its end: by itself, or when it has
// no end as soon as all positions are stored.
type feedSource struct {
	pull    string // the subcommand and its flags
	whole   string // flags for one run that ends with the last record
	again   string // flags that have a second run read nothing twice
	records int

	// begun is for a source without an end. Called before a run, it gives what
	// tells whether the run has asked for all there is.
	begun func() func() bool
}

// Streams, files, objects and debug logs go through the whole pipe into a store of
// another project, while stages are killed at random: nothing is missing,
// repeats are the same to the byte, and a second run pulls nothing new.
// PIPETEST_KILLS and PIPETEST_SEED change how often and when.
func TestKillOfSources(t *testing.T) {
	kills, seed := number(t, "PIPETEST_KILLS", 12), number(t, "PIPETEST_SEED", 1)
	var allKills, allRepeats atomic.Int64
	t.Cleanup(func() {
		t.Logf("seed %d: %d kills, %d entries stored again: %.1f a kill", seed, allKills.Load(), allRepeats.Load(), float64(allRepeats.Load())/float64(allKills.Load()))
	})
	for i, source := range []struct {
		name string
		make func(*testing.T, *bench) *feedSource
	}{{"pubsub", eventTopics}, {"objects", objectRows}, {"apexlog", debugLogs}, {"elf", logFiles}} {
		t.Run(source.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(seed), uint64(1000+i)))
			done, repeats := 0, 0
			for round := 0; done < (kills+3)/4 && !t.Failed(); round++ {
				b := newBench(t)
				b.Limit = 3 * time.Minute
				c := &siege{bench: b, rng: rng, feedSource: source.make(t, b), vl: newVLTenant(t)}
				c.gate = newGate(t, c.vl.URL)
				c.run()
				done, repeats = done+c.kills, repeats+c.repeats
				if t.Failed() {
					t.Logf("seed %d, round %d", seed, round)
				}
			}
			t.Logf("seed %d: %d kills, %d entries stored again: %.1f a kill", seed, done, repeats, float64(repeats)/float64(done))
			allKills.Add(int64(done))
			allRepeats.Add(int64(repeats))
		})
	}
}

// eventTopics are events of several topics.
func eventTopics(t *testing.T, b *bench) *feedSource {
	org := newOrg(t)
	bus := org.NewBus(sftest.BusConfig{MaxBatch: 17})
	bus.DefineSamples()
	topics := []string{"/event/LoginEventStream", "/event/Order_Shipped__e", "/data/AccountChangeEvent"}
	const each = 300
	for n := range each {
		for _, topic := range topics {
			bus.Publish(topic, sftest.Sample(topic, n, time.Now().Add(time.Duration(n-each-10)*time.Minute)))
		}
	}
	b.use(org).set("SF_PULL_ENDPOINT=http://" + bus.Addr)
	s := &feedSource{pull: "pubsub", records: each * len(topics)}
	for _, topic := range topics {
		s.pull += " --topic " + topic
	}
	s.whole = "--max-events " + strconv.Itoa(s.records)
	s.begun = func() func() bool {
		opened := len(bus.Calls("Subscribe "))
		return func() bool {
			dry := slices.ContainsFunc(topics, func(topic string) bool { return bus.Credit(topic) == 0 })
			return !dry && len(bus.Calls("Subscribe ")) >= opened+len(topics)
		}
	}
	return s
}

// objectRows are rows of ordinary objects and of a Big Object; many share a
// time.
func objectRows(t *testing.T, b *bench) *feedSource {
	org := newOrg(t)
	org.DefineObjects()
	at := func(n int) time.Time {
		return time.Now().Add(-5 * time.Hour).Add(time.Duration(n/7) * 90 * time.Second)
	}
	const each = 400
	for n := range each {
		org.Insert("LoginHistory", sftest.Row{"UserId": org.UserID, "LoginTime": at(n), "Status": "Success", "SourceIp": "192.0.2.1"})
		org.Insert("RestApiEventLog", sftest.Row{"Timestamp": at(n), "Uri": fmt.Sprintf("/services/%d", n), "Method": "GET", "StatusCode": 200 + n%400})
		org.Insert("LoginEvent", sftest.Row{"EventDate": at(n), "EventIdentifier": fmt.Sprintf("5f1c3b60-0000-4000-8000-%012d", n), "Status": "Success"})
	}
	b.use(org)
	return &feedSource{pull: "objects --object LoginHistory,RestApiEventLog,LoginEvent", again: "--overlap 0s", records: 3 * each}
}

// debugLogs are debug logs with bodies of many lines.
func debugLogs(t *testing.T, b *bench) *feedSource {
	org := newOrg(t)
	org.DefineObjects()
	const all = 150
	for n := range all {
		body := strings.Repeat(fmt.Sprintf("12:00:00.0 (%d)|USER_DEBUG|[%d]|DEBUG|\"a\"\t\u00e9\n", n, n), 1+n%40)
		org.AddApexLog(sftest.ApexLog{Start: time.Now().Add(-5 * time.Hour).Add(time.Duration(n/3) * time.Minute).Truncate(time.Second), Body: body})
	}
	b.use(org)
	return &feedSource{pull: "apexlog", again: "--overlap 0s", records: all}
}

// logFiles are hourly files of two types, with rows that are hard to read and a
// late second file of an hour.
func logFiles(t *testing.T, b *bench) *feedSource {
	org := newOrg(t)
	for n := range 4 {
		for i, name := range []string{"Login", "API"} {
			h := sftest.Hour{Type: name, Start: hoursAgo(6 - n), Rows: 120, Awkward: 25, Seed: uint64(1 + 2*n + i)}
			org.publish(org.AddHour(h, created(time.Duration(60-10*n)*time.Minute)))
		}
	}
	late := sftest.Hour{Type: "Login", Start: hoursAgo(6), Rows: 180, Awkward: 25, Seed: 1}
	org.publish(org.AddHour(late, created(15*time.Minute)))
	b.use(org)
	return &feedSource{pull: "elf --event-type Login,API", records: 8*120 + 60}
}

// gate stands before a store and knows of each request.
type gate struct {
	*httptest.Server
	came atomic.Int64
	hook atomic.Pointer[func(n int64)]
}

func newGate(t *testing.T, store string) *gate {
	t.Helper()
	to, err := url.Parse(store)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := g.came.Add(1)
		if hook := g.hook.Load(); hook != nil {
			(*hook)(n)
		}
		proxy.ServeHTTP(w, r)
	}))
	proxy.ErrorLog = log.New(io.Discard, "", 0) // clients that were killed
	t.Cleanup(g.Close)
	return g
}

// siege pulls a source into a store with a few kills.
type siege struct {
	*bench
	*feedSource
	rng  *rand.Rand
	vl   *vlTenant
	gate *gate

	kills, repeats int
}

func (c *siege) run() {
	want, last := c.reference()
	if len(want) != c.records || want.total() != c.records {
		c.T.Fatalf("the source has %d records, of which %d differ; want %d", want.total(), len(want), c.records)
	}
	c.Shell = shells[c.rng.IntN(2)]
	c.set("LOKI="+c.gate.URL+"/insert/loki/api/v1/push", fmt.Sprintf("PUSH=--tenant %s --batch-entries %d --buffer-bytes %dKiB --in-flight %d",
		c.vl.ID, []int{1000, 17, 5}[c.rng.IntN(3)], []int{24 << 10, 100, 400}[c.rng.IntN(3)], 1+c.rng.IntN(4)))
	for armed := 2 + c.rng.IntN(3); armed > 0; armed-- {
		c.attempt("", c.kill)
	}
	end := c.toTheEnd("", last)
	if end.Status != 0 {
		c.T.Fatalf("nobody killed: %v", end)
	}
	got := c.vl.held(c.T)
	same(c.T, "the store", got.folded(), want)
	c.repeats = got.total() - len(want)
	if letters := c.letters("dead"); len(letters) > 0 {
		c.T.Errorf("%d dead letters", len(letters))
	}
	before := c.gate.came.Load()
	if end = c.toTheEnd(c.again, last); end.Status != 0 {
		c.T.Errorf("the second run: %v", end)
	}
	if n := c.gate.came.Load() - before; n != 0 {
		c.T.Errorf("the second run pushed %d times", n)
	}
}

// reference is what one run without a fault writes, and the last position of
// each key.
func (c *siege) reference() (tally, map[string]string) {
	c.T.Helper()
	c.OK("sf-pull " + c.pull + " " + c.whole + " >reference.ndjson 2>/dev/null")
	want, last := tally{}, map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(c.Read("reference.ndjson")))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var r struct {
			Nanos  int64             `json:"ts_unix_nano"`
			Labels map[string]string `json:"labels"`
			Meta   map[string]string `json:"structured_metadata"`
			Line   *string           `json:"line"`
			Key    string            `json:"checkpoint_key"`
			Value  string            `json:"checkpoint_value"`
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			c.T.Fatal(err)
		}
		if r.Value != "" {
			last[r.Key] = r.Value
		}
		if r.Line != nil {
			r.Labels["event_hour"] = time.Unix(0, r.Nanos).UTC().Format("2006-01-02T15")
			want.add(entry{r.Nanos, pairs(r.Labels), pairs(r.Meta), *r.Line})
		}
	}
	return want, last
}

// attempt runs the pipeline once and calls f while it runs.
func (c *siege) attempt(flags string, f func(*running)) *testbed.Result {
	for _, name := range stages {
		_ = os.Remove(c.Path(name + ".pid"))
	}
	r := c.start("set -f; PULL='" + c.pull + " " + flags + "'" + sourced)
	f(r)
	c.gate.hook.Store(nil)
	end := r.Wait()
	if strings.Contains(end.Stderr, "(not done after") {
		c.T.Fatal(end)
	}
	return end
}

// kill ends a stage at some moment, or while the store is asked to store.
func (c *siege) kill(r *running) {
	stage := stages[c.rng.IntN(len(stages))]
	now := make(chan struct{}, 1)
	at := c.gate.came.Load() + 1 + int64(c.rng.IntN(6))
	hook := func(n int64) {
		if n == at {
			now <- struct{}{}
		}
	}
	c.gate.hook.Store(&hook)
	timer := time.NewTimer(time.Duration(50+c.rng.IntN(500)) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-now:
	case <-timer.C:
	case <-r.Done:
	}
	if r.kill(stage) {
		c.kills++
	}
}

// toTheEnd runs the pipeline until there is nothing more to come.
func (c *siege) toTheEnd(flags string, last map[string]string) *testbed.Result {
	if c.begun == nil {
		return c.attempt(flags, func(*running) {})
	}
	idle := c.begun()
	return c.attempt(flags, func(r *running) {
		r.until("every topic is read", idle)
		r.until("all positions are stored", func() bool { return maps.Equal(c.positions(), last) })
		r.signal("pull", syscall.SIGTERM)
	})
}

// until waits for a condition, no longer than the script runs.
func (r *running) until(what string, condition func() bool) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-r.Done:
			r.b.T.Fatalf("never: %s: %v", what, r.Wait())
		}
	}
}

// A Loki that stands still: no more is asked of the event bus than the pipe
// holds, no process grows, and when Loki recovers everything arrives.
func TestSlowLokiStopsEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Limit = 3 * time.Minute
	org := newOrg(t)
	bus := org.NewBus(sftest.BusConfig{ZeroCredit: time.Second})
	bus.DefineSamples()
	const topic, all, size = "/event/Order_Shipped__e", 800, 10_000
	for n := range all {
		e := sftest.Sample(topic, n, time.Now().Add(time.Duration(n-all)*time.Second))
		e.Value["Notes__c"] = strings.Repeat("x", size)
		e.Value["Order_Number__c"] = strconv.Itoa(n)
		bus.Publish(topic, e)
	}
	srv := loki(t, lokitest.Config{})
	var shut atomic.Bool
	open := make(chan struct{})
	shut.Store(true)
	srv.Script(func(int, lokitest.Request) *lokitest.Answer {
		if shut.Load() {
			<-open
		}
		return nil
	})
	b.use(org).set("SF_PULL_ENDPOINT=http://"+bus.Addr, "LOKI="+srv.URL, "PUSH=--buffer-bytes 1MiB", "PULL=pubsub --topic "+topic)
	r := b.start(sourced)
	// The bus ends a stream a while after its credit is used up.
	r.until("the credit is used up", func() bool { return len(bus.Calls("End ")) > 0 })
	fetches := bus.Calls("Fetch ")
	if asked := requested(t, fetches); asked > 500 {
		t.Errorf("%d events were asked for while none was stored", asked)
	}
	for _, name := range stages {
		if kb := peak(t, r.pid(name)); kb > 64<<10 {
			t.Errorf("%s has %d KiB", name, kb)
		}
	}
	if now := bus.Calls("Fetch "); len(now) != len(fetches) || len(bus.Calls("Subscribe ")) != 1 || bus.Credit(topic) != 0 {
		t.Errorf("asked for more: %q, %q", now[len(fetches):], bus.Calls("Subscribe "))
	}
	shut.Store(false)
	close(open)
	r.until("everything is stored", func() bool { return len(held(srv)) == all })
	for _, name := range stages {
		if kb := peak(t, r.pid(name)); kb > 64<<10 {
			t.Errorf("%s had %d KiB", name, kb)
		}
	}
	r.signal("pull", syscall.SIGTERM)
	if end := r.Wait(); end.Status != 0 {
		t.Errorf("%v", end)
	}
}

// requested is how many events the calls have asked for, the first of a stream
// not counted.
func requested(t *testing.T, fetches []string) (sum int) {
	t.Helper()
	for _, call := range fetches {
		n, err := strconv.Atoi(call[strings.LastIndexByte(call, ' ')+1:])
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// peak is the most memory that a process has had, in KiB.
func peak(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if f := strings.Fields(string(line)); len(f) > 1 && f[0] == "VmHWM:" {
			kb, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return kb
		}
	}
	t.Fatal("no VmHWM")
	return 0
}
