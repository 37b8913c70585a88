package loki

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Of a stream that the server takes as fast as it can no more is read than what
// keeps it busy, so that memory stays in the cache and little is sent twice
// after a crash.
func TestReadsLittleAhead(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.cfg.StreamRate, tr.cfg.BatchEntries = 0, 10
		for range 1000 {
			tr.entry("k", "v", "line", time.Minute)
		}
		most := int64(0)
		tr.loki.script = func(int, *modelPush) *Answer {
			time.Sleep(5 * time.Millisecond)
			tr.loki.mu.Lock()
			defer tr.loki.mu.Unlock()
			most = max(most, tr.engine.Status().Unsettled)
			return nil
		}
		tr.start()
		if tr.err != nil || len(tr.loki.stored) != 1000 {
			t.Errorf("%v, %d stored", tr.err, len(tr.loki.stored))
		}
		if want := int64((enoughBatches + 1) * tr.cfg.BatchEntries); most > want || most < want/2 {
			t.Errorf("%d entries were read and unsettled, want %d at most", most, want)
		}
		if tr.took > 600*time.Millisecond {
			t.Errorf("took %s: the server had to wait", tr.took)
		}
	})
}

// A stream whose server takes its time, or that is paced, does not keep others
// from being read.
func TestReadsOnBesideASlowStream(t *testing.T) {
	for name, set := range map[string]func(*trial){
		"slow": func(tr *trial) {
			tr.cfg.StreamRate = 0
			tr.loki.script = func(_ int, p *modelPush) *Answer {
				if strings.Contains(p.labels, `"A"`) {
					time.Sleep(time.Minute)
				}
				return nil
			}
		},
		"paced": func(tr *trial) { tr.cfg.StreamRate = 10 },
		"refused for now": func(tr *trial) {
			tr.cfg.StreamRate = 0
			until := time.Now().Add(time.Hour)
			tr.loki.script = func(_ int, p *modelPush) *Answer {
				if strings.Contains(p.labels, `"A"`) && time.Now().Before(until) {
					a := textAnswer(429, "Maximum active stream limit exceeded")
					return &a
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, tr *trial) {
				tr.cfg.BatchEntries = 10
				for range 200 {
					tr.typed("A", "k", "v", "line", time.Minute)
				}
				tr.typed("B", "j", "1", "other", time.Minute)
				set(tr)
				began := time.Now()
				other := time.Duration(-1)
				script := tr.loki.script
				tr.loki.script = func(n int, p *modelPush) *Answer {
					if strings.Contains(p.labels, `"B"`) { // once
						other = time.Since(began)
					}
					if script == nil {
						return nil
					}
					return script(n, p)
				}
				tr.start()
				if tr.err != nil || len(tr.loki.stored) != 201 {
					t.Errorf("%v, %d stored", tr.err, len(tr.loki.stored))
				}
				if other < 0 || other > 10*time.Second {
					t.Errorf("the other stream was sent after %s", other)
				}
			})
		})
	}
}

// Streams that follow each other, as the hours of a file do, are sent at the
// same time.
func TestReadsOnIntoTheNextStream(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.cfg.StreamRate, tr.cfg.BatchEntries = 0, 10
		for hour := range 8 {
			for range 100 {
				tr.typed(fmt.Sprint("hour", hour), "k", "v", "line", time.Minute)
			}
		}
		var now, most atomic.Int64
		tr.loki.script = func(int, *modelPush) *Answer {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(50 * time.Millisecond)
			now.Add(-1)
			return nil
		}
		tr.start()
		if tr.err != nil || len(tr.loki.stored) != 800 {
			t.Errorf("%v, %d stored", tr.err, len(tr.loki.stored))
		}
		if want := 80 * 50 * time.Millisecond / 4; most.Load() != 4 || tr.took > want+want/5 {
			t.Errorf("%d requests at a time, in %s", most.Load(), tr.took)
		}
	})
}
