package main

import (
	"context"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/cli"
)

func newExport(app *cli.App) *ffcli.Command {
	const usage = "ckpt export STORE > document"
	return &ffcli.Command{
		Name: "export", ShortUsage: usage, ShortHelp: "print the document", FlagSet: app.FlagSet("ckpt export"),
		LongHelp: "Reserved keys are left out: they belong to the store.",
		Exec: func(ctx context.Context, args []string) error {
			store, _, err := storeAnd(app, args, 0, 0, usage)
			if err != nil {
				return err
			}
			doc, found, err := checkpoint.Load(ctx, store)
			if err != nil {
				return err
			}
			if !found {
				app.Log.Warn("there is no document yet", "store", store.String())
			}
			var out checkpoint.Document
			for key, value := range doc.Positions() {
				out.Set(key, value)
			}
			_, err = app.Stdout.Write(out.Bytes())
			return err
		},
	}
}
