package main

import (
	"context"
	"errors"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/fdio"
	"sf2loki/pkg/record"
	"sf2loki/pkg/spool"
	"sf2loki/pkg/sysexits"
)

type catCmd struct {
	app *cli.App
	sel selectFlags

	work context.Context // ends when there is no more time to write; nil at first
	left error           // why a write was left behind

	account *account
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
	return c.out(record.AppendRun(nil, run))
}

var (
	errStopped = errors.New("stopped")
	errHeld    = sysexits.Wrap(sysexits.TempFail, errors.New("stopped while nobody took what is written: records are left"))
)

// lastWrite is how long a write may take once there was a signal. Nothing
// that is left is lost: it still lies in its file.
const lastWrite = time.Second

// out writes to standard output, but not for ever when the program has been
// asked to stop: a write that does not end is left behind, and is the last one.
func (c *catCmd) out(text []byte) error {
	if c.left != nil {
		return c.left
	}
	write := func() error {
		_, err := c.app.Stdout.Write(text)
		return err
	}
	if c.work == nil {
		return write()
	}
	if ended, err := fdio.WriteUntil(c.work.Done(), write); ended {
		return err
	}
	c.left = errHeld
	return c.left
}

func (c *catCmd) exec(ctx context.Context, args []string) error {
	c.account = newAccount(c.app, cli.Count{Name: "written"}, cli.Count{Name: "unwritten"})
	r, err := c.sel.read(c.app, args)
	if err != nil {
		return err
	}
	defer r.close()
	c.work, _ = c.app.Drain(ctx, lastWrite) // ends with the process: the last run line comes after all else
	var buf []byte
	var broken error // standard output is
	err = r.all(func(_ *spool.File, l *spool.Letter, _ spool.Status) error {
		if ctx.Err() != nil {
			return errStopped
		}
		c.account.open(l)
		if buf = l.AppendLine(buf); len(buf) < catBuffer {
			return nil
		}
		broken = c.write(buf)
		buf = buf[:0]
		return broken
	})
	if broken == nil {
		broken = c.write(buf)
	}
	if broken != nil {
		return broken
	}
	if errors.Is(err, errStopped) { // as we were asked to; what was read is out
		return nil
	}
	return err
}

// catBuffer is how much is written at a time.
const catBuffer = 64 << 10

// write writes what was taken; the rest of a buffer that could not be written
// is unwritten for good.
func (c *catCmd) write(buf []byte) error {
	if err := c.out(buf); err != nil {
		return err
	}
	c.account.settle(asAsked)
	return nil
}
