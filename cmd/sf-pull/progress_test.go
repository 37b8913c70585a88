package main

import (
	"testing"
	"testing/synctest"
	"time"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/tally"
)

func TestProgressText(t *testing.T) {
	for want, test := range map[string]struct {
		read, done, total int64
		waiting           map[string]string
	}{
		"0 rows, 1 files; 0/s":                                          {},
		"0 rows, 1 files; 0.0 of 2.5 MB; 0/s":                           {total: 2.5e6},
		"600 rows, 1 files; 60/s":                                       {read: 600},
		"600 rows, 1 files; 1.5 of 6.0 MB; 60/s, 30s left":              {read: 600, done: 1.5e6, total: 6e6},
		"600 rows, 1 files; 2 event types wait; 6.0 of 6.0 MB; 60/s":    {read: 600, done: 6e6, total: 6e6, waiting: map[string]string{"A": "", "B": ""}},
		"300000 rows, 1 files; 500.0 of 9000.0 MB; 30000/s, 2m50s left": {read: 300000, done: 500e6, total: 9000e6},
	} {
		synctest.Test(t, func(t *testing.T) {
			pace := cli.NewPace()
			time.Sleep(10 * time.Second)
			totals := tally.Totals{Types: []tally.Count{{Read: test.read, Files: 1}}, Waiting: test.waiting}
			if got := progressText(totals, rowsAndFiles, test.done, test.total, pace); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}
