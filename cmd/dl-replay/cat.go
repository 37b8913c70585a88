package main

import (
	"bufio"
	"context"
	"errors"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/record"
	"sf2loki/pkg/spool"
)

type catCmd struct {
	app *cli.App
	sel selectFlags
}

func newCat(app *cli.App, stock *stock) *ffcli.Command {
	c := &catCmd{app: app, sel: selectFlags{stock: stock}}
	fs := app.FlagSet("dl-replay cat")
	c.sel.register(fs)
	cmd := &ffcli.Command{
		Name: "cat", ShortUsage: "dl-replay cat [SELECT] [FILE...]",
		ShortHelp: "print records as they lie in the files", FlagSet: fs, Exec: c.exec,
		LongHelp: "The output is input for loki-push, but leaves no trace in the journals: dl-replay run does.",
	}
	app.OnRun(cmd, c.runLine)
	return cmd
}

// runLine begins and ends the stream.
func (c *catCmd) runLine(status *int) error {
	run := record.Run{Program: c.app.Name, RunID: c.app.RunID(), At: time.Now().UTC(), Status: status}
	_, err := c.app.Stdout.Write(record.AppendRun(nil, run))
	return err
}

var errStopped = errors.New("stopped")

func (c *catCmd) exec(ctx context.Context, args []string) error {
	r, err := c.sel.read(c.app, args)
	if err != nil {
		return err
	}
	defer r.close()
	out := bufio.NewWriterSize(c.app.Stdout, 64<<10)
	var line []byte
	err = r.all(func(_ *spool.File, l *spool.Letter, _ spool.Status) error {
		if ctx.Err() != nil {
			return errStopped
		}
		line = l.AppendLine(line[:0])
		_, err := out.Write(line)
		return err
	})
	if ferr := out.Flush(); ferr != nil {
		return ferr
	}
	if errors.Is(err, errStopped) { // as we were asked to; what was read is out
		return nil
	}
	return err
}
