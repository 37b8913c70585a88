package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/cli"
	"sf2loki/pkg/sysexits"
)

type importer struct {
	app      *cli.App
	replace  bool
	org      string
	interval string
	guard    guard
}

const importUsage = "ckpt import STORE [flags] < document"

func newImport(app *cli.App) *ffcli.Command {
	i := &importer{app: app, guard: guard{app: app}}
	fs := app.FlagSet("ckpt import")
	fs.BoolVar(&i.replace, "replace", false, "replace positions that are there already with another value")
	fs.StringVar(&i.org, "org", "", "the keys of no org are those of `NAME`")
	cli.EnumVar(fs, &i.interval, "interval", "Hourly", "the event log file keys are those of `INTERVAL` files", "Hourly", "Daily")
	i.guard.flags(fs)
	return &ffcli.Command{
		Name: "import", ShortUsage: importUsage, ShortHelp: "add the positions of a document", FlagSet: fs, Exec: i.exec,
	}
}

func (i *importer) exec(ctx context.Context, args []string) error {
	store, _, err := storeAnd(i.app, args, 0, 0, importUsage)
	if err != nil {
		return err
	}
	if strings.Contains(i.org, ":") {
		return cli.Usagef("--org %q: a name has no colon", i.org)
	}
	in, err := i.read()
	if err != nil {
		return err
	}
	mapping := checkpoint.Mapping{Org: i.org, Daily: i.interval == "Daily", Replace: i.replace}
	var done []checkpoint.Imported
	err = i.guard.update(ctx, store, func(doc *checkpoint.Document) (err error) {
		done, err = checkpoint.Import(doc, in, mapping)
		return sysexits.WithHint(err, "--replace overwrites them; stop the pipeline first")
	})
	if err != nil {
		return err
	}
	i.tell(done)
	return nil
}

func (i *importer) read() (checkpoint.Document, error) {
	data, err := io.ReadAll(io.LimitReader(i.app.Stdin, checkpoint.MaxBytes+1)) // one more is refused as too long
	if err != nil {
		return checkpoint.Document{}, sysexits.Wrap(sysexits.IOErr, fmt.Errorf("read the document: %w", err))
	}
	in, err := checkpoint.ParseDocument(data)
	switch {
	case errors.Is(err, checkpoint.ErrEmpty):
		return in, sysexits.Errorf(sysexits.DataErr, "the input is %w: what was to print it failed", err)
	case err != nil:
		return in, sysexits.Errorf(sysexits.DataErr, "the input is not a checkpoint document: %w", err)
	}
	if to, ok := in.MovedTo(); ok {
		return in, sysexits.Errorf(sysexits.Protocol, "the document was moved to %s; import that", to)
	}
	return in, nil
}

// tell reports every key that went elsewhere, and how many came in.
func (i *importer) tell(done []checkpoint.Imported) {
	count := map[checkpoint.Fate]int{}
	for _, d := range done {
		count[d.Fate]++
		if d.From != d.To || d.Fate == checkpoint.Shadowed {
			i.app.Log.Info("mapped", "from", d.From, "to", d.To, "fate", string(d.Fate))
		}
	}
	i.app.Log.Info("imported", "added", count[checkpoint.Added], "replaced", count[checkpoint.Replaced],
		"same", count[checkpoint.Same], "ignored", count[checkpoint.Shadowed])
}
