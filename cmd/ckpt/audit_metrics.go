package main

import (
	"sf2loki/pkg/audit"
	"sf2loki/pkg/cli"
)

// observe shows the outcome as metrics: a timer's run leaves it in the metrics
// file, for an alert.
func (a *auditing) observe(r *audit.Report) {
	complete := 0.0
	if r.Verdict == audit.Complete {
		complete = 1
	}
	found := map[audit.Verdict]int{audit.Early: 0, audit.Hole: 0}
	for _, f := range r.Findings {
		found[f.Verdict]++
	}
	a.app.Metrics.Collect(func(s *cli.Samples) {
		s.Gauge("audit_complete", "1 when the last audit found everything.", complete)
		s.Gauge("audit_timestamp_seconds", "When the last audit was made.", cli.Seconds(r.MadeAt))
		for verdict, n := range found {
			s.Gauge("audit_findings", "What the last audit found, by verdict.", float64(n), "verdict", string(verdict))
		}
	})
}
