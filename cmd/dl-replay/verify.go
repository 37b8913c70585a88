package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/spool"
	"sf2loki/pkg/sysexits"
)

type verify struct {
	app *cli.App
	sel selectFlags
	out *bufio.Writer

	json    bool
	records int64
	faults  int64
	worst   *spool.Fault
	unread  *spool.Damage
}

func newVerify(app *cli.App, stock *stock) *ffcli.Command {
	v := &verify{app: app, sel: selectFlags{stock: stock}}
	fs := app.FlagSet("dl-replay verify")
	cli.ListVar(fs, &v.sel.spools, "spool", "spool `DIR`; may be repeated")
	fs.BoolVar(&v.json, "json", false, "print one JSON object a fault")
	return &ffcli.Command{
		Name: "verify", ShortUsage: "dl-replay verify [--spool DIR] [--json] [FILE...]",
		ShortHelp: "check files and journals, record by record", FlagSet: fs, Exec: v.exec,
	}
}

func (v *verify) exec(ctx context.Context, args []string) error {
	set, err := v.sel.find(v.app, args)
	if err != nil {
		return err
	}
	defer set.Close()
	v.out = bufio.NewWriter(v.app.Stdout)
	for i, f := range set.Files {
		v.app.Progress(fmt.Sprintf("file %d of %d, %d records, %d faults", i+1, len(set.Files), v.records, v.faults))
		n, err := f.Verify(func(fault spool.Fault) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return v.tell(fault)
		})
		v.records += n
		var d *spool.Damage
		if errors.As(err, &d) {
			v.unread = d
			err = v.tell(spool.Fault{File: d.Path, Kind: spool.FaultUnreadable, Text: d.Error()})
		}
		if err != nil {
			return err
		}
	}
	v.app.Progress("")
	if !v.json {
		fmt.Fprintf(v.out, "%d files, %d records, %d faults\n", len(set.Files), v.records, v.faults)
	}
	if err := v.out.Flush(); err != nil {
		return err
	}
	if v.unread != nil || v.worst == nil {
		return v.unread.Verdict()
	}
	return sysexits.Errorf(v.worst.Kind.Code(), "%s: line %d (byte %d): %s", v.worst.File, v.worst.Line, v.worst.Offset, v.worst.Text)
}

func (v *verify) tell(f spool.Fault) error {
	v.faults++
	if f.Kind.Serious() && (v.worst == nil || v.worst.Kind == spool.FaultTorn) {
		v.worst = &f
	}
	if v.json {
		line, err := json.Marshal(f)
		if err != nil {
			return err
		}
		_, err = v.out.Write(append(line, '\n'))
		return err
	}
	where := f.File
	if f.Line > 0 {
		where = fmt.Sprintf("%s: line %d (byte %d)", f.File, f.Line, f.Offset)
	}
	_, err := fmt.Fprintf(v.out, "%s: %s: %s\n", where, f.Kind, f.Text)
	return err
}
