package main

import (
	"context"
	"flag"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/cli"
)

func newRoot(app *cli.App) *ffcli.Command {
	return &ffcli.Command{
		Name:       "ckpt",
		ShortUsage: "ckpt COMMAND STORE [flags]",
		ShortHelp:  "keep the positions of pipelines",
		LongHelp: "STORE is a path, or a URL: file:///PATH, s3://BUCKET/KEY, gs://BUCKET/OBJECT,\n" +
			"azblob://CONTAINER/BLOB; a LEASE may also be k8s://NAMESPACE/NAME.",
		FlagSet: app.FlagSet("ckpt"),
		Subcommands: []*ffcli.Command{
			newCommit(app), newGet(app), newSet(app), newList(app), newRm(app),
			newExport(app), newImport(app), newMv(app), newLease(app), newDoctor(app), newAudit(app),
		},
	}
}

// storeAnd opens the first operand and wants between least and most others;
// most below 0 is no bound.
func storeAnd(app *cli.App, args []string, least, most int, usage string) (checkpoint.Store, []string, error) {
	if len(args) == 0 {
		return nil, nil, cli.Usagef("no STORE was given; usage: %s", usage)
	}
	rest := args[1:]
	if len(rest) < least || most >= 0 && len(rest) > most {
		return nil, nil, cli.Usagef("wrong number of operands; usage: %s", usage)
	}
	store, err := openStore(app, args[0])
	return store, rest, err
}

// loadAny reads the document, an empty one when there is none yet, and says so.
func loadAny(ctx context.Context, app *cli.App, store checkpoint.Store) (checkpoint.Document, error) {
	doc, found, err := checkpoint.Load(ctx, store)
	if err == nil && !found {
		app.Log.Warn("there is no document yet", "store", store.String())
	}
	return doc, err
}

// epochVar declares --epoch, which ckpt lease sets in the environment of what
// it starts.
func epochVar(fs *flag.FlagSet, p *uint64) {
	fs.Uint64Var(p, "epoch", 0, "`N`, the epoch of the lease under which this runs; a document with a higher one is not written")
}
