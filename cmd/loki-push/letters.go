package main

import (
	"bytes"
	"context"
	"flag"
	"log/slog"
	"os"
	"time"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/fdio"
	"sf2loki/pkg/loki"
	"sf2loki/pkg/spool"
	"sf2loki/pkg/sysexits"
)

// letterFlags say where dead letters go.
type letterFlags struct {
	fs               *flag.FlagSet
	fd               int
	dir              string
	fileBytes, bytes int64
	retention        time.Duration
}

func (l *letterFlags) register(fs *flag.FlagSet) {
	l.fs = fs
	fs.IntVar(&l.fd, "dead-letter-fd", inheritedFD, "write dead letters to descriptor `N`; -1 nowhere (default: --spool, else 3 if it was passed)")
	fs.StringVar(&l.dir, "spool", "", "keep dead letters in `DIR`")
	cli.SizeVar(fs, &l.fileBytes, "spool-file-bytes", 8<<20, "close a spool file at `SIZE`")
	cli.SizeVar(fs, &l.bytes, "spool-bytes", 64<<20, "most bytes of the spool, `SIZE`")
	cli.DurationVar(fs, &l.retention, "spool-retention", 7*24*time.Hour, "`TIME` that closed files are kept; 0: for ever")
}

// inheritedFD is where a shell's 3> leads.
const inheritedFD = 3

// destination is where dead letters go; without a capture, nowhere.
type destination struct {
	capture loki.Capture
	spool   *spool.Writer
	limit   int64 // of the spool's bytes
}

func (d *destination) close(log *slog.Logger) {
	if d.spool == nil {
		return
	}
	if err := d.spool.Close(); err != nil {
		log.Error("close the spool", "err", err)
	}
}

// open finds the destination: the descriptor that was asked for, else the
// spool, else descriptor 3 if whoever started the program passed it, else
// nowhere. It says which one it is.
func (l *letterFlags) open(app *cli.App, dryRun bool) (*destination, error) {
	asked := isSet(l.fs, "dead-letter-fd")
	switch {
	case dryRun:
		return &destination{}, nil
	case asked && l.fd < 0:
		app.Log.Warn("there is no destination for dead letters: refused entries are dropped and counted")
		return &destination{}, nil
	case !asked && l.dir != "":
		return l.openSpool(app)
	}
	f, err := fdio.Inherited(l.fd)
	if err != nil {
		return nil, sysexits.Wrap(sysexits.Config, err)
	}
	if f == nil && asked {
		return nil, sysexits.Errorf(sysexits.Config, "--dead-letter-fd %d: the program was not started with that descriptor open for writing", l.fd)
	}
	if f == nil {
		app.Log.Warn("there is no destination for dead letters: refused entries are dropped and counted; --spool keeps them")
		return &destination{}, nil
	}
	app.Log.Info("dead letters go to a descriptor", "fd", l.fd)
	return &destination{capture: toDescriptor(f)}, nil
}

func toDescriptor(f *os.File) loki.Capture {
	w := fdio.NewLineWriter(f)
	return func(_ context.Context, letters [][]byte) (bool, error) {
		err := w.Write(bytes.Join(letters, nil))
		return err == nil, err
	}
}

func (l *letterFlags) openSpool(app *cli.App) (*destination, error) {
	retention := l.retention
	if retention == 0 {
		retention = -1
	}
	w, err := spool.Open(spool.Config{
		Dir: l.dir, Instance: app.Instance, FileBytes: l.fileBytes, Bytes: l.bytes, Retention: retention, Log: app.Log,
	})
	if err != nil {
		return nil, err
	}
	app.Log.Info("dead letters go to a spool", "dir", l.dir)
	capture := func(_ context.Context, letters [][]byte) (bool, error) {
		err := w.Append(letters)
		return err == nil, err
	}
	return &destination{capture: capture, spool: w, limit: l.bytes}, nil
}
