package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/sysexits"
)

type counting struct {
	app          *cli.App
	server       serverFlags
	selector     string
	since, until time.Time
}

const countUsage = "loki-push count --url URL --since TIME --until TIME [--selector SELECTOR]"

func newCount(app *cli.App) *ffcli.Command {
	c := &counting{app: app}
	fs := app.FlagSet("loki-push count")
	c.server.register(app, fs)
	fs.StringVar(&c.selector, "selector", `{source="eventlogfile"}`, "count the entries of these streams, a LogQL `SELECTOR`")
	cli.TimeVar(fs, &c.since, "since", "count from the hour of `TIME`")
	cli.TimeVar(fs, &c.until, "until", "count before `TIME`")
	return &ffcli.Command{
		Name: "count", ShortUsage: countUsage,
		ShortHelp: "print how many entries Loki holds, by hour and event type", FlagSet: fs, Exec: c.exec,
	}
}

func (c *counting) exec(ctx context.Context, args []string) error {
	switch {
	case len(args) > 0:
		return cli.Usagef("count takes no operands")
	case c.server.url == "":
		return cli.Usagef("--url is required")
	case c.since.IsZero() || c.until.IsZero() || !c.since.Before(c.until):
		return cli.Usagef("--since and --until are required, and --since must be before --until")
	}
	client, err := c.server.client(c.app, 1)
	if err != nil {
		return err
	}
	defer client.Close()
	enc := json.NewEncoder(c.app.Stdout)
	for hour := c.since.UTC().Truncate(time.Hour); hour.Before(c.until); hour = hour.Add(time.Hour) {
		counts, err := client.Count(ctx, c.selector, hour)
		if err != nil {
			return err
		}
		for _, n := range counts {
			if err := enc.Encode(n); err != nil {
				return sysexits.Wrap(sysexits.IOErr, err)
			}
		}
	}
	return nil
}
