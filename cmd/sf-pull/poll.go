package main

import (
	"flag"
	"time"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/feed"
)

// pollFlags are the flags of what is asked again and again: files, rows, logs.
type pollFlags struct {
	follow       bool
	poll         time.Duration
	settle       time.Duration
	lookback     time.Duration
	since, until time.Time
	maxAge       time.Duration
}

// margins are the defaults that differ from source to source.
type margins struct{ poll, settle, overlap time.Duration }

func (f *pollFlags) register(fs *flag.FlagSet, m margins) {
	fs.BoolVar(&f.follow, "follow", false, "go on until stopped, with a pass every --poll")
	cli.DurationVar(fs, &f.poll, "poll", m.poll, "`TIME` between two passes")
	cli.DurationVar(fs, &f.settle, "settle", m.settle, "leave what is younger than `TIME` for the next pass")
	cli.DurationVar(fs, &f.lookback, "lookback", 24*time.Hour, "begin `TIME` ago where there is no position")
	cli.TimeVar(fs, &f.since, "since", "begin with events at `TIME` where there is no position")
	cli.TimeVar(fs, &f.until, "until", "end before events at `TIME`: a window with positions of its own")
	cli.DurationVar(fs, &f.maxAge, "max-age", 7*24*time.Hour, "--plan counts what is older than this `AGE` apart")
}

func (f *pollFlags) check() error {
	switch {
	case f.poll <= 0:
		return cli.Usagef("--poll: it must be more than 0")
	case f.follow && !f.until.IsZero():
		return cli.Usagef("--follow does not go with --until: a window has an end")
	}
	return checkWindow(f.since, f.until)
}

func checkWindow(since, until time.Time) error {
	if !since.IsZero() && !until.IsZero() && !since.Before(until) {
		return cli.Usagef("--since must be before --until")
	}
	if time.Until(since) > 24*time.Hour {
		return cli.Usagef("--since lies in the future: nothing would be pulled until then")
	}
	return nil
}

// feedFlags are the flags that objects and apexlog share.
type feedFlags struct {
	pullFlags
	pollFlags
	overlap time.Duration
}

func (f *feedFlags) registerFeed(app *cli.App, fs *flag.FlagSet, m margins) {
	f.pullFlags.register(app, fs)
	f.pollFlags.register(fs, m)
	cli.DurationVar(fs, &f.overlap, "overlap", m.overlap, "read `TIME` before the position again, for what became visible late")
}

func (f *feedFlags) checkFeed(args []string) error {
	if err := cli.NoOperands(args); err != nil {
		return err
	}
	if err := f.pullFlags.check(); err != nil {
		return err
	}
	return f.pollFlags.check()
}

func (f *pollFlags) window() feed.Window { return feed.Window{Since: f.since, Until: f.until} }
