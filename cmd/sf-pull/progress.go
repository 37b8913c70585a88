package main

import (
	"fmt"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/eventlog"
	"sf2loki/pkg/tally"
)

// watched tells whether somebody sees how far the run is. Records on the same
// terminal would run through that line.
func watched(app *cli.App) bool { return app.HasProgress() && !app.StdoutIsTerminal() }

// watch shows how far the run is until stop is called.
func watch(app *cli.App, totals func() tally.Totals, files *eventlog.Progress) (stop func()) {
	if !watched(app) {
		return func() {}
	}
	pace := cli.NewPace()
	return app.KeepProgress(func() string {
		done, total := files.Bytes()
		return progressText(totals(), done, total, pace)
	})
}

// progressText tells the rows that are done, and when the bytes of all files
// are known, the part of them and the time that the rest takes.
func progressText(t tally.Totals, done, total int64, pace *cli.Pace) string {
	var sum tally.Count
	for _, c := range t.Types {
		sum.Add(&c)
	}
	text := fmt.Sprintf("%d rows, %d files", sum.Read, sum.Files)
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
