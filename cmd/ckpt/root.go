package main

import (
	"flag"
	"fmt"
	"path/filepath"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/file"
	"sf2loki/pkg/cli"
	"sf2loki/pkg/sysexits"
)

func newRoot(app *cli.App) *ffcli.Command {
	return &ffcli.Command{
		Name:       "ckpt",
		ShortUsage: "ckpt COMMAND STORE [flags]",
		ShortHelp:  "keep the positions of pipelines",
		LongHelp:   "STORE is a path, or a URL such as file:///var/lib/sf2loki/state.json.",
		FlagSet:    app.FlagSet("ckpt"),
		Subcommands: []*ffcli.Command{
			newCommit(app), newGet(app), newSet(app), newList(app), newRm(app),
			newExport(app), newImport(app), newMv(app), newDoctor(app),
		},
	}
}

// openStore makes the store that text names. Nothing is opened yet.
func openStore(text string) (checkpoint.Store, error) {
	loc, err := checkpoint.ParseLocation(text)
	if err != nil {
		return nil, err
	}
	if loc.Scheme == "file" {
		return file.New(loc.String(), loc.Path), nil
	}
	return nil, cli.WithHint(
		sysexits.Errorf(sysexits.Config, "store %s: this build has no stores of the kind %s", loc, loc.Scheme),
		"name a file, by its path or as file:///PATH")
}

// openForGood is openStore for a name that is written down somewhere: a path
// becomes one that is right from everywhere.
func openForGood(text string) (checkpoint.Store, error) {
	loc, err := checkpoint.ParseLocation(text)
	if err != nil {
		return nil, err
	}
	if loc.Scheme != "file" {
		return openStore(text)
	}
	path, err := filepath.Abs(loc.Path)
	if err != nil {
		return nil, sysexits.Wrap(sysexits.CantCreat, fmt.Errorf("store %s: %w", text, err))
	}
	return file.New(path, path), nil
}

// storeAnd opens the first operand and wants between least and most others;
// most below 0 is no bound.
func storeAnd(args []string, least, most int, usage string) (checkpoint.Store, []string, error) {
	if len(args) == 0 {
		return nil, nil, cli.Usagef("no STORE was given; usage: %s", usage)
	}
	rest := args[1:]
	if len(rest) < least || most >= 0 && len(rest) > most {
		return nil, nil, cli.Usagef("wrong number of operands; usage: %s", usage)
	}
	store, err := openStore(args[0])
	return store, rest, err
}

// epochVar declares --epoch, which ckpt lease sets in the environment of what
// it starts.
func epochVar(fs *flag.FlagSet, p *uint64) {
	fs.Uint64Var(p, "epoch", 0, "`N`, the epoch of the lease under which this runs; a document with a higher one is not written")
}
