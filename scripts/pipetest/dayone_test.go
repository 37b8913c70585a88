package pipetest

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
	"sf2loki/scripts/testbed"
)

// live is the pipeline of the manual, with no flag but those that it needs.
const live = `sf-pull elf --event-type Login --resume state.json $PULL |
loki-push --url "$LOKI" --spool dead |
ckpt commit state.json`

// day is an org, a Loki with its own rules, and a directory.
type day struct {
	*bench
	org *testOrg
	srv *lokitest.Server
}

func newDay(t *testing.T) *day {
	d := &day{newBench(t), newOrg(t), loki(t, lokitest.Config{})}
	d.use(d.org).set("LOKI=" + d.srv.URL)
	return d
}

// hour publishes rows of Login.
func (d *day) hour(ago, rows, overlap int, madeAgo time.Duration) {
	d.T.Helper()
	d.org.publish(d.org.AddHour(sftest.Hour{Type: "Login", Start: hoursAgo(ago), Rows: rows, Overlap: overlap, Awkward: 25}, created(madeAgo)))
}

// stored fails unless each row is stored once and nothing was refused.
func (d *day) stored() {
	d.T.Helper()
	same(d.T, "Loki", held(d.srv), d.org.want)
	if letters := d.letters("dead"); len(letters) > 0 {
		d.T.Errorf("%d dead letters, the first: %.600v", len(letters), letters[0])
	}
	if s := d.srv.Stats(); len(s.Discarded) > 0 {
		d.T.Errorf("refused: %v", s.Discarded)
	}
}

// The first day with default flags: everything that comes out of order, late
// or again is stored once.
func TestDayOne(t *testing.T) {
	for name, test := range map[string]func(*day){
		"hour 10 after hour 11, in one pass":   hourAfterHour,
		"hour 10 after hour 11, in two passes": hourAfterHourInTwo,
		"a second file three hours late":       lateSecondFile,
		"a daily file whose replies are lost":  lostReplies,
		"a regenerated daily file":             regenerated,
		"a backfill beside the live lane":      backfill,
		"hourly beside daily":                  hourlyBesideDaily,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newDay(t))
		})
	}
}

func hourAfterHour(d *day) {
	d.hour(5, 300, 0, 50*time.Minute)
	d.hour(6, 300, 0, 40*time.Minute)
	d.OK(live)
	d.stored()
}

func hourAfterHourInTwo(d *day) {
	d.hour(5, 300, 0, 50*time.Minute)
	d.OK(live)
	d.hour(6, 300, 0, 40*time.Minute)
	d.OK(live)
	d.stored()
}

func lateSecondFile(d *day) {
	d.hour(8, 200, 0, 4*time.Hour)
	d.hour(7, 200, 0, 3*time.Hour)
	d.hour(6, 200, 0, 2*time.Hour)
	d.OK(live)
	d.hour(8, 320, 20, time.Hour) // the rows after the 200th, and 20 of them again
	d.OK(live)
	d.stored()
}

// sparse are 1,000 rows of a whole day.
func sparse(ago, rows int) sftest.Hour {
	return sftest.Hour{Type: "Login", Start: daysAgo(ago), Rows: rows, Span: 24 * time.Hour, Awkward: 25}
}

func lostReplies(d *day) {
	d.org.Know(sparse(1, 1000))
	d.org.publish(d.org.AddDay("Login", daysAgo(1), created(time.Hour)))
	d.srv.Script(func(n int, _ lokitest.Request) *lokitest.Answer {
		if n%5 == 2 {
			return &lokitest.Answer{Store: true, Reset: true}
		}
		return nil
	})
	d.set("PULL=--interval Daily").OK(live)
	d.stored()
	if s := d.srv.Stats(); s.Duplicates == 0 {
		d.T.Errorf("nothing came again: %+v", s)
	}
}

func regenerated(d *day) {
	d.set("PULL=--interval Daily")
	d.org.Know(sparse(1, 1000))
	d.org.publish(d.org.AddDay("Login", daysAgo(1), created(2*time.Hour)))
	d.OK(live)
	d.stored()
	d.org.Know(sparse(1, 1300))
	d.org.publish(d.org.AddDay("Login", daysAgo(1), created(time.Hour)))
	d.OK(live)
	d.stored()
}

// backfill runs both at a time, over some of the same files, and each once
// more alone.
func backfill(d *day) {
	for n := 4; n < 60; n += 3 {
		d.hour(n, 60, 0, time.Duration(n)*time.Hour-2*time.Hour)
	}
	window := strings.NewReplacer("$PULL", "--since "+hoursAgo(66).Format(time.RFC3339)+" --until "+hoursAgo(3).Format(time.RFC3339), "--spool dead", "--spool dead-backfill").Replace(live)
	beside, first := d.start(window), d.start(live)
	for _, r := range []*testbed.Result{beside.Wait(), first.Wait()} {
		if r.Status != 0 {
			d.T.Fatalf("%v", r)
		}
	}
	d.stored()
	before := d.positions()
	if len(before) != 2 || before["eventlogfile:Login"] == "" {
		d.T.Fatalf("positions: %v", before)
	}
	d.hour(3, 60, 0, 30*time.Minute)
	d.OK(live)
	d.stored()
	moved := d.positions()
	for key, value := range before {
		if (moved[key] == value) == (key == "eventlogfile:Login") {
			d.T.Errorf("%s: from %s to %s", key, value, moved[key])
		}
	}
	d.OK(window) // it was done, and moves nothing
	if after := d.positions(); !maps.Equal(after, moved) {
		d.T.Errorf("positions: %v, before the backfill %v", after, moved)
	}
	if letters := d.letters("dead-backfill"); len(letters) > 0 {
		d.T.Errorf("%d dead letters of the backfill", len(letters))
	}
	d.stored()
}

// hourlyBesideDaily pulls the same rows twice on one document.
func hourlyBesideDaily(d *day) {
	for n := range 24 {
		h := sftest.Hour{Type: "Login", Start: daysAgo(1).Add(time.Duration(n) * time.Hour), Rows: 40, Awkward: 25}
		d.org.publish(d.org.AddHour(h, created(time.Duration(300-10*n)*time.Minute)))
	}
	d.org.publish(d.org.AddDay("Login", daysAgo(1), created(time.Hour)))
	daily := strings.NewReplacer("$PULL", "--interval Daily", "--spool dead", "--spool dead-daily").Replace(live)
	for round := range 2 {
		one, other := d.start(daily), d.start(live)
		for _, r := range []*testbed.Result{one.Wait(), other.Wait()} {
			if r.Status != 0 {
				d.T.Fatalf("round %d: %v", round, r)
			}
		}
	}
	d.stored()
	keys := fmt.Sprint(sorted(d.positions()))
	if want := "[eventlogfile:Daily:Login eventlogfile:Login]"; keys != want {
		d.T.Errorf("keys %s, want %s", keys, want)
	}
	if letters := d.letters("dead-daily"); len(letters) > 0 {
		d.T.Errorf("%d dead letters of the daily lane", len(letters))
	}
}
