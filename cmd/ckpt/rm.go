package main

import (
	"context"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/cli"
)

func newRm(app *cli.App) *ffcli.Command {
	const usage = "ckpt rm STORE KEY..."
	guard := guard{app: app}
	fs := app.FlagSet("ckpt rm")
	guard.flags(fs)
	return &ffcli.Command{
		Name: "rm", ShortUsage: usage, ShortHelp: "remove keys: their sources begin anew", FlagSet: fs,
		Exec: func(ctx context.Context, args []string) error {
			store, keys, err := storeAnd(app, args, 1, -1, usage)
			if err != nil {
				return err
			}
			for _, key := range keys {
				if err := checkKey(key); err != nil {
					return err
				}
			}
			return guard.update(ctx, store, func(doc *checkpoint.Document) error {
				for _, key := range keys {
					if !doc.Delete(key) {
						return noKey(store, key)
					}
					doc.ClearRecordTime(key)
				}
				return nil
			})
		},
	}
}
