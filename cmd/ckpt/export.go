package main

import (
	"context"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/cli"
)

const exportUsage = "ckpt export STORE [--daemon] > document"

type exporter struct {
	app      *cli.App
	daemon   bool
	interval string
}

func newExport(app *cli.App) *ffcli.Command {
	e := &exporter{app: app}
	fs := app.FlagSet("ckpt export")
	fs.BoolVar(&e.daemon, "daemon", false, "print what the sf2loki daemon understands, and report the rest")
	cli.EnumVar(fs, &e.interval, "interval", "Hourly", "with --daemon: the daemon reads `INTERVAL` files", "Hourly", "Daily")
	return &ffcli.Command{
		Name: "export", ShortUsage: exportUsage, ShortHelp: "print the document", FlagSet: fs,
		LongHelp: "Reserved keys are left out: they belong to the store.", Exec: e.exec,
	}
}

func (e *exporter) exec(ctx context.Context, args []string) error {
	store, _, err := storeAnd(e.app, args, 0, 0, exportUsage)
	if err != nil {
		return err
	}
	doc, err := loadAny(ctx, e.app, store)
	if err != nil {
		return err
	}
	var out checkpoint.Document
	if e.daemon {
		out = e.forDaemon(doc)
	} else {
		for key, value := range doc.Positions() {
			out.Set(key, value)
		}
	}
	_, err = e.app.Stdout.Write(out.Bytes())
	return err
}

// forDaemon converts, and tells what is different or left out.
func (e *exporter) forDaemon(doc checkpoint.Document) checkpoint.Document {
	out, done := checkpoint.ForDaemon(doc, e.interval == "Daily")
	left := 0
	for _, c := range done {
		switch {
		case c.To == "":
			left++
			e.app.Log.Warn("left out", "key", c.From, "reason", c.Note)
		case c.Note != "":
			e.app.Log.Warn("converted in part", "from", c.From, "to", c.To, "reason", c.Note)
		case c.From != c.To:
			e.app.Log.Info("mapped", "from", c.From, "to", c.To)
		}
	}
	e.app.Log.Info("exported", "positions", len(done)-left, "left_out", left)
	return out
}
