package main

import (
	"fmt"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/pubsub"
	"sf2loki/pkg/tally"
)

// watched tells whether somebody sees how far the run is. Records on the same
// terminal would run through that line.
func watched(app *cli.App) bool { return app.HasProgress() && !app.StdoutIsTerminal() }

// watch shows how far the run is until stop is called. bytes are those that are
// done and those there are, as eventlog.Progress tells them; nil: it is not known
// how much there is.
func watch(app *cli.App, totals func() tally.Totals, counted func(*tally.Count) string, bytes func() (done, total int64)) (stop func()) {
	if !watched(app) {
		return func() {}
	}
	pace := cli.NewPace()
	return app.KeepProgress(func() string {
		done, total := int64(0), int64(0)
		if bytes != nil {
			done, total = bytes()
		}
		return progressText(totals(), counted, done, total, pace)
	})
}

func rowsAndFiles(sum *tally.Count) string {
	return fmt.Sprintf("%d rows, %d files", sum.Read, sum.Files)
}
func rowsAndQueries(sum *tally.Count) string {
	return fmt.Sprintf("%d rows, %d queries", sum.Read, sum.Queries)
}

// eventsAndTopics is for a source of topics.
func eventsAndTopics(stats *pubsub.Stats) func(*tally.Count) string {
	return func(sum *tally.Count) string {
		topics, open := stats.Totals().Topics, 0
		for _, t := range topics {
			if t.Up {
				open++
			}
		}
		return fmt.Sprintf("%d events, %d of %d topics open", sum.Read, open, len(topics))
	}
}

// progressText tells what is done, and when the bytes of all files are known,
// the part of them and the time that the rest takes.
func progressText(t tally.Totals, counted func(*tally.Count) string, done, total int64, pace *cli.Pace) string {
	var sum tally.Count
	for _, c := range t.Types {
		sum.Add(&c)
	}
	text := counted(&sum)
	if n := len(t.Waiting); n > 0 {
		text += fmt.Sprintf("; %d event types wait", n)
	}
	rows := int64(0) // of all files, as far as can be told
	if total > 0 {
		text += fmt.Sprintf("; %.1f of %.1f MB", float64(done)/1e6, float64(total)/1e6)
	}
	if done > 0 {
		rows = int64(float64(sum.Read) * float64(total) / float64(done))
	}
	return text + "; " + pace.Text(sum.Read, rows)
}
