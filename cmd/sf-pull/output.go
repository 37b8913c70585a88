package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/fdio"
	"sf2loki/pkg/outlet"
	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// output is where records and dead letters go.
type output struct {
	app  *cli.App
	mu   sync.Mutex
	work context.Context // ends when there is no more time to write; nil: never

	lost atomic.Pointer[error] // why a line could not be written to its end
}

// until has writing end some time after ctx, although the pipe does not move.
func (o *output) until(ctx context.Context, grace time.Duration) {
	o.work, _ = o.app.Drain(ctx, grace) // ends with the process: the last run line comes after all else
}

// bounded does what writes, and gives up when there is no more time. What does
// not end is left behind, and nothing is written after it. It is for a whole run
// or a last line: a block of records would pay for the change of goroutines with
// a fifth of all that it costs.
func (o *output) bounded(write func() error) error {
	if why := o.lost.Load(); why != nil {
		return *why
	}
	if o.work == nil {
		return write()
	}
	if ended, err := fdio.WriteUntil(o.work.Done(), write); ended {
		return err
	}
	why := context.Cause(o.work)
	o.lost.Store(&why)
	return why
}

// verdict is the error of a run that ended with err.
func (o *output) verdict(err error) error {
	if why := o.lost.Load(); why != nil {
		return *why
	}
	return err
}

// records writes lines to standard output, those of one call together.
func (o *output) records(lines []byte) error {
	if why := o.lost.Load(); why != nil {
		return *why // who writes still has the lock
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := o.app.Stdout.Write(lines); err != nil {
		return sysexits.Wrap(sysexits.IOErr, fmt.Errorf("write records: %w", err))
	}
	return nil
}

// runLine writes a record that tells of the run's beginning or end.
func (o *output) runLine(status *int) error {
	run := record.Run{Program: o.app.Name, RunID: o.app.RunID(), At: time.Now().UTC(), Status: status}
	return o.bounded(func() error { return o.records(record.AppendRun(nil, run)) })
}

// defaultLetterFD is where a shell's 3> leads.
const defaultLetterFD = 3

// letters opens the destination of dead letters: the descriptor that was asked
// for, or an inherited one. nil: they stay among the records.
func (o *output) letters(fd int, asked bool) (func([]byte) error, error) {
	var f *os.File
	if fd >= 0 {
		var err error
		if f, err = fdio.Inherited(fd); err != nil {
			return nil, sysexits.Wrap(sysexits.Config, err)
		}
		if f == nil && asked {
			return nil, sysexits.Errorf(sysexits.Config, "--dead-letter-fd %d: the program was not started with that descriptor open for writing", fd)
		}
	}
	if f == nil {
		o.app.Log.Info("dead letters stay among the records on standard output")
		return nil, nil
	}
	o.app.Log.Info("dead letters go to a descriptor", "fd", fd)
	w := fdio.NewLineWriter(f)
	return func(line []byte) error { return o.bounded(func() error { return w.Write(line) }) }, nil
}

func (o *output) of(letter func([]byte) error, org string) outlet.Output {
	return outlet.Output{
		Records: o.records, Letter: letter,
		RunID: o.app.RunID(), Instance: o.app.Instance, Org: org, Now: time.Now, Secrets: o.app.Secrets,
	}
}

// jsonFlag takes the flag of programs that print tables for people, where there
// is no table.
func jsonFlag(fs *flag.FlagSet) {
	fs.BoolFunc("json", "print JSON, as it does in any case", func(s string) error {
		if yes, err := strconv.ParseBool(s); err != nil || !yes {
			return errors.New("it prints nothing else")
		}
		return nil
	})
}

// printJSON prints one object on standard output.
func printJSON(app *cli.App, v any) error {
	enc := json.NewEncoder(app.Stdout)
	enc.SetEscapeHTML(false)
	return sysexits.Wrap(sysexits.IOErr, enc.Encode(v))
}
