package pipetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
)

// unlinked counts the files without a name that a process has open.
func unlinked(pid int) (n int) {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasSuffix(to, " (deleted)") {
			n++
		}
	}
	return n
}

// #53, #104: a backlog of files that Loki does not take is neither downloaded
// ahead nor kept in memory, and an event beside it is pulled, pushed and
// committed to the same document meanwhile.
func TestBacklogBesideEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Limit = 3 * time.Minute
	org := newOrg(t)
	types := []string{"API", "Login", "Logout", "URI"}
	const hours, rows, atOnce = 6, 200, 2
	for _, name := range types {
		for n := range hours {
			h := sftest.Hour{Type: name, Start: hoursAgo(20 - n), Rows: rows}
			org.publish(org.AddHour(h, created(time.Duration(300-10*n)*time.Minute)))
		}
	}
	bus := org.NewBus(sftest.BusConfig{})
	bus.DefineSamples()
	const topic = "/event/Order_Shipped__e"
	bus.Publish(topic, sftest.Sample(topic, 1, time.Now()))

	srv := loki(t, lokitest.Config{})
	open, waits := make(chan struct{}), make(chan struct{}, 1000)
	srv.Script(func(_ int, r lokitest.Request) *lokitest.Answer {
		for _, s := range r.Streams {
			if strings.Contains(s.Labels, `source="eventlogfile"`) {
				waits <- struct{}{}
				<-open
			}
		}
		return nil
	})
	released := false
	release := func() {
		if !released {
			released = true
			close(open)
		}
	}
	defer release()
	b.use(org).set("LOKI="+srv.URL, "SF_PULL_ENDPOINT=http://"+bus.Addr, "PUSH=--buffer-bytes 128KiB",
		fmt.Sprintf("PULL=--event-type %s --concurrency %d", strings.Join(types, ","), atOnce))
	bulk := b.start(killable)
	select {
	case <-waits:
	case <-bulk.Done:
		t.Fatalf("ended too early: %v", bulk.Wait())
	}

	b.OK(`sf-pull pubsub --topic ` + topic + ` --max-events 1 --resume state.json | loki-push --url "$LOKI" --spool dead-live | ckpt commit state.json`)
	if b.positions()["pubsub:"+topic] == "" || b.positions()["eventlogfile:Login"] != "" {
		t.Errorf("positions %v", b.positions())
	}
	if got := srv.Stats().Stored; got != 1 {
		t.Errorf("%d entries are stored beside the backlog, want the event", got)
	}
	if n := len(org.Requests("/LogFile")); n < 1 || n > len(types)*hours/2 {
		t.Errorf("%d of %d files were downloaded while none was stored", n, len(types)*hours)
	}
	if n := unlinked(bulk.pid("pull")); n > atOnce {
		t.Errorf("%d files lie on disk", n)
	}
	for _, name := range stages {
		if kb := peak(t, bulk.pid(name)); kb > 96<<10 {
			t.Errorf("%s has %d KiB", name, kb)
		}
	}

	release()
	if end := bulk.Wait(); end.Status != 0 {
		t.Errorf("the backlog: %v", end)
	}
	got := held(srv)
	for e := range got {
		if !strings.Contains(e.labels, "eventlogfile") {
			delete(got, e)
		}
	}
	same(t, "the backlog", got, org.want)
}
