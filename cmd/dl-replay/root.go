package main

import (
	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/cli"
)

func newRoot(app *cli.App) *ffcli.Command {
	return &ffcli.Command{
		Name:       "dl-replay",
		ShortUsage: "dl-replay <list|stats|show|cat> [SELECT] [FILE...]\n       dl-replay run [SELECT] [FILE...] -- COMMAND [ARG...]",
		ShortHelp:  "read dead letters, and replay them",
		FlagSet:    app.FlagSet("dl-replay"),
		Subcommands: []*ffcli.Command{
			newList(app), newStats(app), newShow(app), newCat(app), newRun(app),
		},
	}
}
