package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/spool"
	"sf2loki/pkg/spool/table"
	"sf2loki/pkg/sysexits"
)

type export struct {
	app    *cli.App
	sel    selectFlags
	format string
	output string
	json   bool
}

func newExport(app *cli.App, stock *stock) *ffcli.Command {
	e := &export{app: app, sel: selectFlags{stock: stock}}
	fs := app.FlagSet("dl-replay export")
	e.sel.register(fs)
	cli.EnumVar(fs, &e.format, "format", "", "`FORMAT` of the file", table.Parquet, table.SQLite)
	fs.StringVar(&e.output, "output", "", "write to `FILE`, which appears when it is whole")
	fs.BoolVar(&e.json, "json", false, "print the result as a JSON object")
	return &ffcli.Command{
		Name: "export", ShortUsage: "dl-replay export --format parquet|sqlite --output FILE [SELECT] [FILE...]",
		ShortHelp: "write records as a table of another format", FlagSet: fs, Exec: e.exec,
		LongHelp: "The columns are described in sf2loki-deadletter(5).",
	}
}

// exported is what was written.
type exported struct {
	File    string `json:"file"`
	Format  string `json:"format"`
	Records int64  `json:"records"`
	Bytes   int64  `json:"bytes"`
}

func (e *export) exec(ctx context.Context, args []string) error {
	account := newAccount(e.app, cli.Count{Name: "exported"}, cli.Count{Name: "unwritten"})
	switch {
	case e.format == "":
		return cli.Usagef("--format: it may be parquet or sqlite")
	case e.output == "", e.output == "-":
		return cli.Usagef("--output: name the file to write")
	}
	if info, err := os.Lstat(e.output); err == nil && !info.Mode().IsRegular() {
		return cli.Usagef("--output %s: that is a link, a directory or a device", e.output)
	}
	r, err := e.sel.read(e.app, args)
	if err != nil {
		return err
	}
	defer r.close()
	file, err := table.Create(e.output, e.format, e.app.Name)
	if err != nil {
		return sysexits.Wrap(sysexits.CantCreat, fmt.Errorf("write %s: %w", e.output, err))
	}
	done := exported{File: e.output, Format: e.format}
	var damage *spool.Damage
	err = r.all(func(f *spool.File, l *spool.Letter, s spool.Status) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		account.open(l)
		row := table.RowOf(f.Path, l, s)
		if done.Records++; done.Records%progressEvery == 0 {
			e.app.Progress(fmt.Sprintf("%d records", done.Records))
		}
		return file.Write(&row)
	})
	e.app.Progress("")
	if err != nil && !errors.As(err, &damage) { // places without a record keep nobody from the others
		file.Abort()
		return fmt.Errorf("write %s: %w", e.output, err)
	}
	if cerr := file.Commit(); cerr != nil {
		return sysexits.Wrap(sysexits.IOErr, fmt.Errorf("write %s: %w", e.output, cerr))
	}
	account.settle(asAsked)
	if perr := e.print(&done); perr != nil {
		return perr
	}
	return err
}

func (e *export) print(done *exported) error {
	info, err := os.Stat(e.output)
	if err != nil {
		return sysexits.Wrap(sysexits.IOErr, err)
	}
	done.Bytes = info.Size()
	if e.json {
		return json.NewEncoder(e.app.Stdout).Encode(done)
	}
	_, err = fmt.Fprintf(e.app.Stdout, "%d records are in %s, %d bytes\n", done.Records, done.File, done.Bytes)
	return err
}
