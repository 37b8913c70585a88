package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/spool"
	"sf2loki/pkg/spool/replay"
)

// runMetrics count what replays did. A run is short: the textfile keeps them.
type runMetrics struct {
	replayed *prometheus.CounterVec
	failed   *prometheus.CounterVec
}

func (m *runMetrics) declare(app *cli.App) {
	m.replayed = app.Metrics.Counter("deadletter_replayed_total", "Dead letters that a replay delivered.")
	m.failed = app.Metrics.Counter("deadletter_replay_failed_total", "Dead letters that came back refused from a replay, by reason.", "reason")
	for _, e := range spool.Reasons() {
		m.failed.WithLabelValues(string(e.Reason))
	}
}

func (m *runMetrics) add(res *replay.Result) {
	m.replayed.WithLabelValues().Add(float64(res.Replayed))
	for reason, n := range res.FailedFor {
		m.failed.WithLabelValues(reason).Add(float64(n))
	}
}
