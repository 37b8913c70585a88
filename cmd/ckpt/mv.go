package main

import (
	"context"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/cli"
)

func newMv(app *cli.App) *ffcli.Command {
	const usage = "ckpt mv FROM TO"
	return &ffcli.Command{
		Name: "mv", ShortUsage: usage, ShortHelp: "move a document to another store", FlagSet: app.FlagSet("ckpt mv"),
		LongHelp: "A tombstone stays in FROM: whoever still commits to it is told where the document is.",
		Exec: func(ctx context.Context, args []string) error {
			if len(args) != 2 {
				return cli.Usagef("mv takes two stores; usage: %s", usage)
			}
			from, err := openForGood(app, args[0])
			if err != nil {
				return err
			}
			to, err := openForGood(app, args[1])
			if err != nil {
				return err
			}
			if from.String() == to.String() {
				return cli.Usagef("%s and %s are the same document", args[0], args[1])
			}
			count, err := checkpoint.Move(ctx, from, to, checkpoint.DefaultRetry)
			if err != nil {
				return err
			}
			app.Log.Info("moved", "from", from.String(), "to", to.String(), "positions", count)
			return nil
		},
	}
}
