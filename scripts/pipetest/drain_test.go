package pipetest

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/scripts/testbed"
)

// idle starts a pipeline that follows an org, and waits until all is pushed,
// committed and nothing happens any more.
func (d *day) idle(shell string) *running {
	d.T.Helper()
	d.Shell = shell
	d.hour(5, 200, 0, time.Hour)
	d.set("PULL=--event-type Login --follow")
	r := d.start(killable)
	testbed.Eventually(d.T, "everything is committed", func() bool {
		return strings.Contains(d.Read("state.json"), "eventlogfile:Login") && !strings.Contains(d.Read("state.json"), `\"rows\"`)
	})
	return r
}

// TERM to the head of the pipe stops it, and the rest drains.
func TestDrainFromTheHead(t *testing.T) {
	for _, shell := range shells {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			d := newDay(t)
			r := d.idle(shell)
			asked := time.Now()
			if !r.signal("pull", syscall.SIGTERM) {
				t.Fatalf("sf-pull is not there: %v", r.Wait())
			}
			end := r.Wait()
			if end.Status != 0 {
				t.Errorf("want 0: %v", end)
			}
			t.Logf("drained in %v", time.Since(asked).Round(time.Millisecond))
			d.stored()
		})
	}
}

// The same while a great deal is still on its way, and while Loki is slow: what
// has been read is pushed and committed, and the next run goes on from there.
func TestDrainUnderLoad(t *testing.T) {
	t.Parallel()
	d := newDay(t)
	slow := loki(t, lokitest.Config{Latency: 20 * time.Millisecond})
	for n := 12; n > 3; n-- {
		d.hour(n, 800, 0, time.Duration(n)*10*time.Minute)
	}
	d.set("LOKI="+slow.URL, "PULL=--event-type Login", "PUSH=--batch-entries 100 --buffer-bytes 256KiB")
	r := d.start(killable)
	testbed.Eventually(t, "Loki has something", func() bool { return slow.Stats().Stored > 500 })
	if !r.signal("pull", syscall.SIGTERM) {
		t.Fatalf("sf-pull was done too early: %v", r.Wait())
	}
	if end := r.Wait(); end.Status != 0 {
		t.Errorf("want 0: %v", end)
	}
	first := slow.Stats()
	d.OK(killable)
	same(t, "Loki", held(slow), d.org.want)
	if again := slow.Stats().Received - len(d.org.want); again != 0 || first.Stored == len(d.org.want) {
		t.Errorf("%d entries were sent again; %d of %d had been stored", again, first.Stored, len(d.org.want))
	}
}

// A signal to the whole group, as of a terminal, loses nothing either.
func TestDrainOfTheGroup(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			d := newDay(t)
			r := d.idle("dash")
			for _, name := range stages {
				if !r.signal(name, sig) && name == "pull" {
					t.Errorf("%s is not there", name)
				}
			}
			if end := r.Wait(); end.Status != 0 {
				t.Errorf("want 0: %v", end)
			}
			d.stored()
		})
	}
}

// A reader that is gone ends all that stand before it within a second, also
// when they have nothing to write.
func TestVanishedReader(t *testing.T) {
	for _, tt := range []struct {
		killed string
		status int
	}{{"ckpt", 137}, {"push", 75}} {
		t.Run(tt.killed, func(t *testing.T) {
			t.Parallel()
			d := newDay(t)
			r := d.idle("dash")
			gone := time.Now()
			if !r.kill(tt.killed) {
				t.Fatalf("%s is not there: %v", tt.killed, r.Wait())
			}
			end := r.Wait()
			took := time.Since(gone)
			if end.Status != tt.status || took > 1500*time.Millisecond { // half a second for a busy machine
				t.Errorf("want %d within a second, took %v: %v", tt.status, took, end)
			}
			t.Logf("ended in %v", took.Round(time.Millisecond))
			for line := range strings.Lines(end.Stderr) {
				if strings.HasPrefix(line, "sf-pull: ") || strings.HasPrefix(line, "loki-push: ") && tt.killed == "ckpt" {
					t.Errorf("a vanished reader is no news: %s", line)
				}
			}
		})
	}
}
