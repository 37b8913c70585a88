package main

import (
	"sync/atomic"
	"time"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/cli"
)

// writeStats counts what was stored.
type writeStats struct {
	writes atomic.Int64
	last   atomic.Int64 // seconds since the epoch
}

// written notes what the committer has stored.
func (c *commit) written(stored []checkpoint.Position) {
	now := time.Now()
	for _, p := range stored {
		c.marks.Note(p, now)
	}
	c.stats.writes.Add(1)
	c.stats.last.Store(now.Unix())
}

// observe shows the job's counts as metrics and in the status snapshot.
func (c *commit) observe(store checkpoint.Store, job *checkpoint.Job) {
	c.app.Metrics.Collect(func(s *cli.Samples) {
		s.Counter("checkpoint_writes_total", "Writes of positions to the store.", float64(c.stats.writes.Load()))
		s.Gauge("last_checkpoint_timestamp_seconds", "When positions were stored last in this run.", float64(c.stats.last.Load()))
		for _, t := range job.Totals() {
			sampleTotals(s, t)
		}
		for _, w := range c.marks.All() {
			sampleWatermark(s, w)
		}
	})
	c.app.OnUSR1(func() any {
		return map[string]any{
			"store": store.String(), "writes": c.stats.writes.Load(),
			"accounts": job.Totals(), "positions": positions(c.marks.All()),
		}
	})
}

// shownPosition is how the status shows how far a key has come.
type shownPosition struct {
	Org       string    `json:"org,omitempty"`
	Lane      string    `json:"lane,omitempty"`
	Source    string    `json:"source"`
	Object    string    `json:"object,omitempty"`
	Time      time.Time `json:"time,omitzero"`
	Committed time.Time `json:"committed,omitzero"`
}

func positions(marks []checkpoint.Watermark) []shownPosition {
	all := make([]shownPosition, 0, len(marks))
	for _, m := range marks {
		all = append(all, shownPosition{m.Key.Org, m.Key.Lane, m.Key.Source, m.Key.Object, m.Time, m.Committed})
	}
	return all
}

func sampleTotals(s *cli.Samples, t checkpoint.Totals) {
	const name, help = "checkpoint_acks_total", "Acknowledgements by what became of them."
	for _, o := range []struct {
		outcome string
		n       int64
	}{{"written", t.Written}, {"superseded", t.Superseded}, {"refused", t.Refused}} {
		s.Counter(name, help, float64(o.n), "source", t.Source, "event_type", t.Object, "outcome", o.outcome)
	}
	s.Counter("checkpoint_acks_read_total", "Acknowledgements read.", float64(t.Acks), "source", t.Source, "event_type", t.Object)
}

func sampleWatermark(s *cli.Samples, w checkpoint.Watermark) {
	labels := make([]string, 0, 8)
	for _, l := range [][2]string{{"org", w.Key.Org}, {"lane", w.Key.Lane}} {
		if l[1] != "" {
			labels = append(labels, l[0], l[1])
		}
	}
	if w.Key.Source == checkpoint.SourcePubsub {
		s.Gauge("last_replay_commit_timestamp_seconds", "When the topic's position was stored last in this run.",
			cli.Seconds(w.Committed), append(labels, "topic", w.Key.Object)...)
	}
	if w.Time.IsZero() {
		return
	}
	s.Gauge("watermark_timestamp_seconds", "Time that the position has reached; 0: none yet.",
		cli.Seconds(w.Time), append(labels, "source", w.Key.Source, "object", w.Key.Object)...)
}
