package main

import (
	"context"
	"fmt"
	"os"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/overlap"
	"sf2loki/pkg/sysexits"
)

func newCheckPlans(app *cli.App) *ffcli.Command {
	fs := app.FlagSet("sf-pull check-plans")
	asJSON := fs.Bool("json", false, "print one JSON object a line")
	return &ffcli.Command{
		Name:       "check-plans",
		ShortUsage: "sf-pull check-plans [--json] PLAN...",
		ShortHelp:  "find what several plans would pull twice",
		FlagSet:    fs,
		Exec: func(_ context.Context, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("no plan: give files with the output of --plan, - for standard input")
			}
			return checkPlans(app, args, *asJSON)
		},
	}
}

func checkPlans(app *cli.App, paths []string, asJSON bool) error {
	var plans []overlap.Plan
	for _, path := range paths {
		more, err := readPlans(app, path)
		if err != nil {
			return err
		}
		plans = append(plans, more...)
	}
	found := overlap.Find(plans)
	for _, o := range found {
		if err := printOverlap(app, o, asJSON); err != nil {
			return sysexits.Wrap(sysexits.IOErr, err)
		}
	}
	if len(found) == 0 {
		return nil
	}
	err := sysexits.Errorf(sysexits.Config, "%d overlaps: %s", len(found), found[0])
	if len(found) == 1 {
		err = sysexits.Errorf(sysexits.Config, "%s", found[0])
	}
	return sysexits.WithHint(err, "let one of them have it, by --exclude or by naming what each pulls; of one source twice, by --lane")
}

func readPlans(app *cli.App, path string) ([]overlap.Plan, error) {
	if path == stdin {
		plans, err := overlap.Read("standard input", app.Stdin)
		return plans, sysexits.Wrap(sysexits.DataErr, err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, sysexits.Wrap(sysexits.Config, err)
	}
	defer f.Close()
	plans, err := overlap.Read(path, f)
	return plans, sysexits.Wrap(sysexits.DataErr, err)
}

func printOverlap(app *cli.App, o overlap.Overlap, asJSON bool) error {
	if asJSON {
		return printJSON(app, o)
	}
	_, err := fmt.Fprintln(app.Stdout, o)
	return err
}
