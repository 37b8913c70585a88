package main

import (
	"sync"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/spool"
)

// stock is what the metrics say of the spools that a command was given, looked
// at on the disk whenever somebody asks: a run of a timer leaves the same
// numbers as the program that writes the spool.
type stock struct {
	app *cli.App

	mu     sync.Mutex
	survey *spool.Survey
	last   spool.Stock
}

func newStock(app *cli.App) *stock {
	s := &stock{app: app}
	app.Metrics.Collect(s.collect)
	return s
}

// watch says which directories are meant.
func (s *stock) watch(dirs []string) {
	if len(dirs) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.survey = spool.NewSurvey(dirs, s.app.Log)
}

func (s *stock) collect(out *cli.Samples) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.survey != nil {
		got, err := s.survey.Take()
		if err != nil {
			s.app.Log.Warn("spool could not be counted", "err", err)
		} else {
			s.last = got
		}
	}
	out.Gauge("deadletter_pending_entries", "Dead letters in the spool that wait for a replay.", float64(s.last.Pending))
	out.Gauge("deadletter_oldest_pending_timestamp_seconds", "Capture of the oldest of them; 0: there is none.", cli.Seconds(s.last.OldestPending))
	out.Gauge("deadletter_oldest_pending_event_timestamp_seconds", "Time of the oldest entry that waits; 0: there is none.", cli.Seconds(s.last.OldestEvent))
	out.Gauge("deadletter_spool_bytes", "Bytes of the spool.", float64(s.last.Bytes))
	out.Gauge("deadletter_spool_files", "Files of the spool.", float64(s.last.Files))
}
