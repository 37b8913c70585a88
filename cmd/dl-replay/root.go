package main

import (
	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/cli"
)

func newRoot(app *cli.App) *ffcli.Command {
	stock := newStock(app)
	return &ffcli.Command{
		Name:       "dl-replay",
		ShortUsage: "dl-replay <list|stats|show|cat|verify|requeue> [SELECT] [FILE...]\n       dl-replay run [SELECT] [FILE...] -- COMMAND [ARG...]\n       dl-replay discard SELECT --because TEXT [FILE...]\n       dl-replay prune --spool DIR\n       dl-replay export --format parquet|sqlite --output FILE [SELECT] [FILE...]",
		ShortHelp:  "read dead letters, and replay them",
		FlagSet:    app.FlagSet("dl-replay"),
		Subcommands: []*ffcli.Command{
			newList(app, stock), newStats(app, stock), newShow(app, stock), newCat(app, stock), newRun(app, stock),
			newPrune(app, stock), newVerify(app, stock), newRequeue(app, stock), newDiscard(app, stock),
			newExport(app, stock),
		},
	}
}
