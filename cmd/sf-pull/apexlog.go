package main

import (
	"context"
	"flag"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/apexlog"
	"sf2loki/pkg/cli"
	"sf2loki/pkg/tally"
)

// apexlogFlags are the flags of sf-pull apexlog.
type apexlogFlags struct {
	feedFlags
	users    []string
	maxBody  int64
	patience time.Duration
}

// longestLog is what Salesforce makes a debug log of at most.
const longestLog = 20 << 20

func (f *apexlogFlags) register(app *cli.App, fs *flag.FlagSet) {
	f.registerFeed(app, fs, margins{poll: time.Minute, settle: 15 * time.Minute, overlap: 15 * time.Minute})
	cli.ListVar(fs, &f.users, "traced-user", "pull the logs of these `USERS` only, ids or usernames")
	cli.SizeVar(fs, &f.maxBody, "max-body", 5<<20, "longest body that becomes a line, `SIZE`")
	cli.DurationVar(fs, &f.patience, "download-max-age", 24*time.Hour, "give a body up `TIME` after it could first not be downloaded")
}

func newApexLog(app *cli.App) *ffcli.Command {
	return newPull(app, "apexlog", "sf-pull apexlog [--traced-user ID|USERNAME]... [flags] > records", "pull Apex debug logs", &apexlogFlags{})
}

func (f *apexlogFlags) check(args []string, _ map[string]bool) error {
	if err := f.checkFeed(args); err != nil {
		return err
	}
	if f.maxBody < 0 || f.maxBody > longestLog {
		return cli.Usagef("--max-body: it may be up to %s", cli.FormatSize(longestLog))
	}
	return apexlog.CheckUsers(f.users)
}

func (f *apexlogFlags) run(ctx context.Context, p *pull) error {
	cfg := apexlog.Config{
		Users: f.users, Window: f.window(), Lookback: f.lookback, Settle: f.settle, Overlap: f.overlap,
		Patience: f.patience, MaxBody: f.maxBody, Follow: f.follow, Poll: f.poll,
		KeyPrefix: f.keyPrefix(), Command: f.command("apexlog"), Log: p.app.Log,
	}
	rules, err := f.config(p.app, apexlog.SourceLabel)
	if err != nil {
		return err
	}
	if f.plan == "static" {
		return f.printPlan(p.app, apexlog.StaticPlan(&cfg), f.maxAge, nil)
	}
	r, err := p.prepare(ctx, apexlog.SourceLabel, rules)
	if err != nil {
		return err
	}
	cfg.API, cfg.OrgID, cfg.Resume, cfg.Shape, cfg.Output = r.client, r.orgID, r.resume, r.shape, r.output
	source := apexlog.New(cfg)
	if f.plan != "" {
		plan, err := source.Plan(ctx, f.maxAge)
		return f.printPlan(p.app, plan, f.maxAge, err)
	}
	observe(p.app, apexlog.SourceLabel, source.Stats(), func(s *cli.Samples, t tally.Totals) {
		collectRows(s, apexlog.SourceLabel, t)
		collectBodies(s, t)
	})
	defer watch(p.app, source.Stats().Totals, rowsAndQueries, nil)()
	return source.Pull(ctx)
}
