package loki

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sf2loki/pkg/record"
)

// #88: of two that share one budget, each goes on when the next day begins.
func TestTwoWaitForTheNextDay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "day")
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(23*time.Hour + 59*time.Minute) // a minute before midnight
		midnight := nextDay(time.Now())
		server := newModelLoki()
		done := make(chan *trial)
		for n := range 2 {
			tr := newTrial(t)
			tr.loki = server
			tr.cfg.Egress = EgressConfig{DailyBytes: 100, File: file}
			tr.cfg.BatchEntries = 1
			for i := range 8 {
				tr.typed(fmt.Sprint("T", n), "k", fmt.Sprint(i), strings.Repeat("x", 10), time.Minute)
			}
			go func() {
				tr.start()
				done <- tr
			}()
		}
		for range 2 {
			tr := <-done
			if tr.err != nil || tr.last("k") != "7" {
				t.Errorf("%v, last %q", tr.err, tr.last("k"))
			}
		}
		before := 0
		for _, p := range server.requests {
			if p.at.Before(midnight) {
				before++
			}
		}
		if before != 10 || len(server.stored) != 16 {
			t.Errorf("%d requests before midnight, %d entries stored", before, len(server.stored))
		}
		if late := time.Since(midnight); late > 2*time.Second {
			t.Errorf("they went on %s after midnight", late)
		}
	})
}

func TestAPausedEngineIsNotReady(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.cfg.Egress = EgressConfig{DailyBytes: 10}
		tr.entry("k", "1", "0123456789", time.Minute)
		tr.typed("Other", "k", "2", "0123456789", time.Minute)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		answer := make(chan error, 1)
		go func() {
			time.Sleep(30 * time.Minute)
			tr.mu.Lock()
			defer tr.mu.Unlock()
			answer <- tr.engine.Ready()
		}()
		tr.run(ctx, &tr.input)
		if ready := <-answer; ready == nil || !strings.Contains(ready.Error(), "daily budget") {
			t.Errorf("ready says %v", ready)
		}
		if tr.code() != 75 || tr.total().Unsettled != 1 {
			t.Errorf("%v, %+v", tr.err, tr.total())
		}
	})
}

func TestRatesOfTheWholeProcess(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.cfg.Egress = EgressConfig{LinesPerSecond: 100, BytesPerSecond: 1 << 20}
		tr.cfg.BatchEntries = 50
		for i := range 1000 {
			tr.typed(fmt.Sprint("T", i%3), "k", fmt.Sprint(i), "line", time.Minute)
		}
		tr.start()
		if tr.err != nil || tr.took < 8*time.Second || tr.took > 11*time.Second {
			t.Errorf("%v after %s", tr.err, tr.took)
		}
	})
}

func TestDroppedForTheBudget(t *testing.T) {
	for _, capture := range []bool{false, true} {
		bubble(t, func(t *testing.T, tr *trial) {
			tr.cfg.Egress = EgressConfig{DailyBytes: 25, Drop: true}
			tr.cfg.CaptureBudget = capture
			tr.cfg.BatchEntries = 1
			for i := range 5 {
				tr.entry("k", fmt.Sprint(i), "0123456789", time.Minute)
			}
			tr.start()
			a := tr.total()
			if tr.err != nil || a.Delivered != 2 || tr.last("k") != "4" {
				t.Errorf("%v, %+v, last %q", tr.err, a, tr.last("k"))
			}
			if capture && (a.DeadLettered != 3 || tr.reasons()[record.Budget] != 3) || !capture && a.DroppedBudget != 3 {
				t.Errorf("capture %t: %+v, letters %v", capture, a, tr.reasons())
			}
		})
	}
}

// What is not stored is not counted twice when it is tried again.
func TestARetryCostsNoBudget(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		tr.cfg.Egress = EgressConfig{DailyBytes: 25}
		tr.entry("k", "1", "0123456789", time.Minute)
		lost := Answer{Err: errors.New("connection reset")}
		tr.loki.script = script(lost, lost, lost, lost)
		tr.start()
		if tr.err != nil || tr.took > time.Hour || tr.engine.daily.used() != 10 {
			t.Errorf("%v after %s, %d bytes used", tr.err, tr.took, tr.engine.daily.used())
		}
	})
}
