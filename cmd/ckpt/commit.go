package main

import (
	"context"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/cli"
	"sf2loki/pkg/record"
)

type commit struct {
	app *cli.App

	ledger     string
	interval   time.Duration
	grace      time.Duration
	retryFor   time.Duration
	allowEmpty bool
	epoch      uint64

	marks checkpoint.Watermarks
	stats writeStats
}

func newCommit(app *cli.App) *ffcli.Command {
	c := &commit{app: app}
	fs := app.FlagSet("ckpt commit")
	fs.StringVar(&c.ledger, "ledger", "", "append the settled accounts to `FILE` before a position moves")
	c.interval = -1
	fs.Func("write-interval", "write at most once in this `TIME` (200ms for files, 1s for s3 and azblob, 2s for gs)", func(text string) (err error) {
		c.interval, err = cli.ParseDuration(text)
		return err
	})
	cli.DurationVar(fs, &c.grace, "grace", 30*time.Second, "after a signal go on for at most this `TIME`")
	cli.DurationVar(fs, &c.retryFor, "retry-for", checkpoint.DefaultRetry.For, "give up on a store that fails for this `TIME`")
	fs.BoolVar(&c.allowEmpty, "allow-empty", false, "input without anything is no failure")
	epochVar(fs, &c.epoch)
	return &ffcli.Command{
		Name: "commit", ShortUsage: "ckpt commit STORE [flags] < acks",
		ShortHelp: "turn acknowledgements into positions", FlagSet: fs, Exec: c.exec,
	}
}

func (c *commit) exec(ctx context.Context, args []string) error {
	c.app.Account(commitRow(&checkpoint.Totals{}))
	store, _, err := storeAnd(c.app, args, 0, 0, "ckpt commit STORE [flags] < acks")
	if err != nil {
		return err
	}
	if c.app.StdinIsTerminal() {
		return cli.Usagef("acknowledgements are read from standard input, which is a terminal")
	}
	if c.interval < 0 {
		c.interval = writeInterval(args[0])
	}
	retry := checkpoint.DefaultRetry
	retry.For = c.retryFor
	committer, err := checkpoint.NewCommitter(ctx, store, c.epoch, retry)
	if err != nil {
		return err
	}
	c.marks.Start(committer.Document())
	ledger, err := c.openLedger()
	if err != nil {
		return err
	}
	job := checkpoint.NewJob(checkpoint.JobConfig{
		Acks: record.NewAckReader(c.app.Stdin), Committer: committer, Ledger: ledger,
		Interval: c.interval, AllowEmpty: c.allowEmpty, Log: c.app.Log,
		OnRun: c.app.SetRunID, OnWrite: c.written,
	})
	c.observe(store, job)
	c.app.Report(func() []cli.ReportRow { return rows(job.Totals()) })
	drain, stop := c.app.Drain(ctx, c.grace)
	defer stop()
	return job.Run(drain)
}

func (c *commit) openLedger() (*checkpoint.Ledger, error) {
	if c.ledger == "" {
		return nil, nil
	}
	return checkpoint.OpenLedger(c.ledger, time.Now)
}

// rows is the account of the run.
func rows(totals []checkpoint.Totals) []cli.ReportRow {
	rows := make([]cli.ReportRow, 0, len(totals))
	for _, t := range totals {
		rows = append(rows, commitRow(&t))
	}
	if len(rows) == 0 {
		rows = append(rows, commitRow(&checkpoint.Totals{}))
	}
	return rows
}

func commitRow(t *checkpoint.Totals) cli.ReportRow {
	return cli.ReportRow{
		Source: t.Source, EventType: t.Object,
		In: cli.Count{Name: "acks", N: t.Acks},
		Out: []cli.Count{
			{Name: "written", N: t.Written}, {Name: "superseded", N: t.Superseded},
			{Name: "refused", N: t.Refused, Loss: true},
		},
		Info: []cli.Count{
			{Name: "delivered", N: t.Delivered}, {Name: "rejected", N: t.Rejected},
			{Name: "dropped", N: t.Dropped}, {Name: "accounts", N: t.Settled},
		},
	}
}
