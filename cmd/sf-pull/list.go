package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/eventlog"
	"sf2loki/pkg/feed"
	"sf2loki/pkg/sysexits"
)

// listFlags are the flags of sf-pull list.
type listFlags struct {
	orgFlags
	categoryFlag
	types, exclude []string
	interval       string
	since, until   time.Time
	lookback       time.Duration
}

func (f *listFlags) register(app *cli.App, fs *flag.FlagSet) {
	f.orgFlags.register(app, fs)
	f.categoryFlag.register(fs)
	jsonFlag(fs)
	f.types = []string{"*"}
	cli.ListVar(fs, &f.types, "event-type", "event types to list, `NAMES` or patterns")
	cli.ListVar(fs, &f.exclude, "exclude", "event types to leave out, `NAMES` or patterns")
	cli.EnumVar(fs, &f.interval, "interval", "both", "which files, `INTERVAL`", eventlog.Hourly, eventlog.Daily, "both")
	cli.TimeVar(fs, &f.since, "since", "list files of events from `TIME` on")
	cli.TimeVar(fs, &f.until, "until", "list files of events before `TIME`")
	cli.DurationVar(fs, &f.lookback, "lookback", 24*time.Hour, "without --since and --until: list files created in the last `TIME`")
}

func newList(app *cli.App) *ffcli.Command {
	fs := app.FlagSet("sf-pull list")
	f := &listFlags{}
	f.register(app, fs)
	return &ffcli.Command{
		Name:       "list",
		ShortUsage: "sf-pull list [flags] > files",
		ShortHelp:  "print the event log files that the org has, one JSON object each",
		FlagSet:    fs,
		Exec: func(ctx context.Context, args []string) error {
			if err := cli.NoOperands(args); err != nil {
				return err
			}
			return f.run(app.WatchStdout(ctx), app)
		},
	}
}

func (f *listFlags) run(ctx context.Context, app *cli.App) error {
	if err := f.categoryFlag.check(); err != nil {
		return err
	}
	types := eventlog.TypeList{Include: f.types, Exclude: append(f.exclude, f.categories...)} // as of sf-pull elf
	if err := types.Check(); err != nil {
		return err
	}
	if err := errors.Join(f.orgFlags.check(), checkWindow(f.since, f.until)); err != nil {
		return err
	}
	client, _, err := f.connect(ctx, app, newOrgMetrics(app).hooks)
	if err != nil {
		return err
	}
	window := feed.Window{Since: f.since, Until: f.until}
	w := bufio.NewWriter(app.Stdout)
	intervals := []string{f.interval}
	if f.interval == "both" {
		intervals = []string{eventlog.Daily, eventlog.Hourly}
	}
	for _, interval := range intervals {
		err := eventlog.List(ctx, client, types, interval, window, client.Now().Add(-f.lookback), w)
		if err != nil && len(intervals) > 1 && interval == eventlog.Hourly && sysexits.Of(err) == sysexits.Config {
			app.Log.Warn("daily files only", "err", err)
			break
		}
		if err != nil {
			return feed.Final(ctx, err)
		}
	}
	return sysexits.Wrap(sysexits.IOErr, w.Flush())
}
