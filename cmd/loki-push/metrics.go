package main

import (
	"maps"
	"slices"
	"time"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/loki"
	"sf2loki/pkg/spool"
)

// watch shows the engine to metrics, status and readiness.
func (p *push) watch(letters *destination) {
	e := p.engine
	took := p.app.Metrics.Histogram("loki_push_duration_seconds", "Time of requests that were stored.",
		[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}).WithLabelValues()
	e.OnPush(func(d time.Duration) { took.Observe(d.Seconds()) })
	p.app.OnReady(e.Ready)
	p.app.OnUSR1(func() any { return e.Status() })
	p.app.Report(p.report)
	p.app.Metrics.Collect(func(s *cli.Samples) {
		collectEngine(s, e.Status())
		for _, a := range withNone(e.Accounts()) {
			collectAccount(s, &a)
		}
		s.Gauge("deadletter_spool_limit_bytes", "Bytes that the spool may have; 0: there is none.", float64(letters.limit))
		if letters.spool != nil {
			collectSpool(s, letters.spool.Stats())
		} else {
			collectSpool(s, spool.Stats{})
		}
	})
}

func collectEngine(s *cli.Samples, st loki.Status) {
	s.Counter("loki_push_total", "Requests by outcome.", float64(st.Stored), "outcome", "success")
	s.Counter("loki_push_total", "Requests by outcome.", float64(st.Retried), "outcome", "retried")
	s.Counter("loki_bytes_pushed_total", "Bytes of requests, compressed.", float64(st.BytesPushed))
	s.Gauge("last_push_success_timestamp_seconds", "When Loki last stored something.", cli.Seconds(st.LastStored))
	s.Gauge("queue_depth", "Entries that are read and not settled.", float64(st.Unsettled))
	s.Gauge("buffered_bytes", "Memory of what is read and not settled.", float64(st.BufferedBytes))
	s.Gauge("loki_streams", "Streams that are not idle.", float64(st.Streams))
	s.Gauge("loki_streams_held", "Streams that something holds.", float64(len(st.Holds)))
	s.Counter("acks_total", "Acknowledgements written.", float64(st.Acks))
	s.Gauge("egress_budget_used_bytes", "Bytes of the daily budget that are used.", float64(st.DailyBytes))
	paused := 0.0
	if !st.PausedUntil.IsZero() {
		paused = 1
	}
	s.Gauge("egress_paused", "1 while the daily budget lets nothing pass.", paused)
	for _, r := range spool.Reasons() {
		s.Counter("deadletter_entries_written_total", "Dead letters written.", float64(st.Letters[string(r.Reason)]), "reason", string(r.Reason))
	}
	s.Counter("deadletter_bytes_written_total", "Bytes of dead letters written.", float64(st.LetterBytes))
	s.Counter("deadletter_write_errors_total", "Dead letters that could not be written.", float64(st.CaptureErrors))
}

// withNone makes sure that there is an account without source and event type:
// its series are there from the start, at zero.
func withNone(all []loki.SourceAccount) []loki.SourceAccount {
	if len(all) > 0 && all[0].Source == "" && all[0].EventType == "" {
		return all
	}
	return append(all, loki.SourceAccount{})
}

// collectAccount tells of one source and event type.
func collectAccount(s *cli.Samples, a *loki.SourceAccount) {
	by := []string{"source", a.Source, "event_type", a.EventType}
	s.Counter("loki_entries_delivered_total", "Entries that Loki stored.", float64(a.Delivered), by...)
	s.Counter("lines_truncated_total", "Lines that were cut.", float64(a.Truncated), by...)
	for _, r := range spool.Reasons() {
		s.Counter("loki_entries_dropped_total", "Entries that will not reach Loki, captured or not.",
			float64(a.Refused[r.Reason]), append(by, "reason", string(r.Reason))...)
	}
	s.Histogram("ingest_lag_seconds", "Age of entries when they were stored.", loki.LagBuckets[:], a.Lag.Buckets[:], a.Lag.Sum, by...)
}

func collectSpool(s *cli.Samples, st spool.Stats) {
	s.Gauge("deadletter_pending_entries", "Dead letters in the spool that wait for a replay.", float64(st.Stock.Pending))
	s.Gauge("deadletter_oldest_pending_timestamp_seconds", "Capture of the oldest of them; 0: there is none.", cli.Seconds(st.Stock.OldestPending))
	s.Gauge("deadletter_oldest_pending_event_timestamp_seconds", "Time of the oldest entry that waits; 0: there is none.", cli.Seconds(st.Stock.OldestEvent))
	s.Gauge("deadletter_spool_bytes", "Bytes of the spool.", float64(st.Stock.Bytes))
	s.Gauge("deadletter_spool_files", "Files of the spool.", float64(st.Stock.Files))
	for _, r := range spool.Reasons() {
		s.Counter("deadletter_pruned_unreplayed_total", "Dead letters removed from the spool before a replay.",
			float64(st.PrunedUnreplayed[string(r.Reason)]), "reason", string(r.Reason))
	}
}

// report is the account of the run.
func (p *push) report() []cli.ReportRow {
	var rows []cli.ReportRow
	for _, a := range p.engine.Accounts() {
		row := cli.ReportRow{
			Source: a.Source, EventType: a.EventType, In: cli.Count{Name: "read", N: a.Read},
			Out: []cli.Count{{Name: "delivered", N: a.Delivered}, {Name: "dead_lettered", N: a.DeadLettered}},
		}
		discarded := "discarded_"
		if p.dryRun {
			row.Out[0].Name, row.Out[1].Name = "would_be_delivered", "dead_lettered"
			discarded = "would_be_refused_"
		}
		for _, reason := range slices.Sorted(maps.Keys(a.Discarded)) {
			row.Out = append(row.Out, cli.Count{Name: discarded + string(reason), N: a.Discarded[reason], Loss: true})
		}
		row.Out = append(row.Out,
			cli.Count{Name: "dropped_budget", N: a.DroppedBudget, Loss: true}, cli.Count{Name: "unsettled", N: a.Unsettled, Loss: true, Now: true})
		row.Info = []cli.Count{{Name: "truncated", N: a.Truncated}}
		rows = append(rows, row)
	}
	if rows == nil {
		rows = []cli.ReportRow{{In: cli.Count{Name: "read"}, Out: []cli.Count{{Name: "delivered"}, {Name: "dead_lettered"}}}}
	}
	if p.dryRun {
		rows[0].Info = append(rows[0].Info, cli.Count{Name: "streams", N: p.engine.Status().StreamsSeen})
	}
	return rows
}
