package main

import (
	"context"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/loki"
)

type probe struct {
	app       *cli.App
	server    serverFlags
	labels    []string
	hourLabel string
	asJSON    bool
	sharding  bool
}

func newProbe(app *cli.App) *ffcli.Command {
	p := &probe{app: app}
	fs := app.FlagSet("loki-push probe")
	p.server.register(app, fs)
	cli.RepeatVar(fs, &p.labels, "label", "add the label `NAME=VALUE`")
	fs.StringVar(&p.hourLabel, "hour-label", "event_hour", "`NAME` of the label with the entry's hour, or none")
	fs.BoolVar(&p.asJSON, "json", false, "print one JSON object a line")
	fs.BoolVar(&p.sharding, "sharding", false, "find out whether the server shards fast streams; sends up to 8 MiB")
	return &ffcli.Command{
		Name: "probe", ShortUsage: "loki-push probe --url URL [--sharding] [--json]",
		ShortHelp: "send one entry and say what is wrong", FlagSet: fs, Exec: p.exec,
	}
}

func (p *probe) exec(ctx context.Context, args []string) error {
	if len(args) > 0 {
		return cli.Usagef("probe takes no operands")
	}
	if p.server.url == "" {
		return cli.Usagef("--url is required")
	}
	labels, err := parseLabels(p.labels)
	if err != nil {
		return err
	}
	client, err := p.server.client(p.app, 1)
	if err != nil {
		return err
	}
	defer client.Close()
	cfg := loki.ProbeConfig{Push: client, Endpoint: client.Endpoint(), Labels: labels, Sharding: p.sharding}
	if p.hourLabel != "none" {
		cfg.HourLabel = p.hourLabel
	}
	findings := loki.Probe(ctx, cfg)
	for _, f := range findings {
		if err := p.app.PrintFinding(p.asJSON, f.Check, string(f.Level), f.Detail, f.Cure, f.Code); err != nil {
			return err
		}
	}
	return loki.ProbeResult(findings)
}
