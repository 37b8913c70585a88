package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/atomicfile"
	"sf2loki/pkg/audit"
	"sf2loki/pkg/cli"
	"sf2loki/pkg/spool"
	"sf2loki/pkg/sysexits"
)

type auditing struct {
	app *cli.App

	listing, counts, page  string
	ledgers, spools        []string
	since, until           time.Time
	wait, late             time.Duration
	json, discarded        bool
	strict, allowEmpty     bool
	pullCommand, replayCmd string
}

const auditUsage = "ckpt audit --ledger FILE... [--spool DIR...] [--counts FILE] [flags] < listing"

func newAudit(app *cli.App) *ffcli.Command {
	a := &auditing{app: app}
	fs := app.FlagSet("ckpt audit")
	a.register(fs)
	return &ffcli.Command{
		Name: "audit", ShortUsage: auditUsage, ShortHelp: "tell whether everything has arrived", FlagSet: fs,
		LongHelp: "The listing is what sf-pull list prints. Complete is status 0, too early 75, a hole 65.", Exec: a.exec,
	}
}

func (a *auditing) register(fs *flag.FlagSet) {
	cli.RepeatVar(fs, &a.ledgers, "ledger", "read the ledger `FILE`")
	fs.StringVar(&a.listing, "listing", "-", "read the listing from `FILE`, - for standard input")
	cli.RepeatVar(fs, &a.spools, "spool", "look for dead letters in `DIR`")
	fs.StringVar(&a.counts, "counts", "", "compare with what loki-push count has printed to `FILE`")
	cli.TimeVar(fs, &a.since, "since", "the window begins at `TIME`")
	cli.TimeVar(fs, &a.until, "until", "the window ends before `TIME`")
	cli.DurationVar(fs, &a.wait, "wait", 2*time.Hour, "a file may be without an account for `TIME` after its creation")
	cli.DurationVar(fs, &a.late, "late", 6*time.Hour, "files of the window may still come for `TIME` after its end")
	fs.BoolVar(&a.json, "json", false, "print one JSON object")
	fs.StringVar(&a.page, "page", "", "also write the report as HTML to `FILE`")
	fs.BoolVar(&a.discarded, "accept-discarded", false, "dead letters that somebody discarded are no hole")
	fs.BoolVar(&a.strict, "strict-counts", false, "fewer entries in Loki are a hole also where a late file may repeat rows")
	fs.BoolVar(&a.allowEmpty, "allow-empty", false, "a listing without a file is no failure")
	fs.StringVar(&a.pullCommand, "pull-command", "", "`TEXT` before the window in the commands that fill holes")
	fs.StringVar(&a.replayCmd, "replay-command", "", "`TEXT` before the selection in the commands that replay")
}

func (a *auditing) exec(_ context.Context, args []string) error {
	switch {
	case len(args) > 0:
		return cli.Usagef("no operands are taken; usage: %s", auditUsage)
	case len(a.ledgers) == 0:
		return cli.Usagef("--ledger is required: what ckpt commit --ledger has written")
	case !a.since.IsZero() && !a.until.IsZero() && !a.since.Before(a.until):
		return cli.Usagef("--since must be before --until")
	case a.listing == "-" && a.app.StdinIsTerminal():
		return cli.Usagef("the listing is read from standard input, which is a terminal")
	}
	in, err := a.read()
	if err != nil {
		return err
	}
	if in.Files() == 0 && !a.allowEmpty {
		return sysexits.Errorf(sysexits.TempFail, "the listing is empty: what writes it did not run, or there is no file in the window (--allow-empty if that is as it should be)")
	}
	report := audit.Join(audit.Config{
		Since: a.since, Until: a.until, Now: time.Now(), Wait: a.wait, Late: a.late, AcceptDiscarded: a.discarded, StrictCounts: a.strict,
		Commands: audit.Commands{Pull: a.pullCommand, Replay: a.replayCmd, Ledger: a.ledgers[0], Spools: a.spools},
	}, in)
	report.Program, report.Release, report.Instance = "ckpt audit", a.app.Version(), a.app.Instance
	a.observe(report)
	if err := a.print(report); err != nil {
		return err
	}
	if report.Verdict == audit.Complete {
		return nil
	}
	return sysexits.Errorf(report.Verdict.Code(), "the window is not complete: %s, %d findings", report.Verdict, len(report.Findings))
}

// read reads all inputs.
func (a *auditing) read() (*audit.Inputs, error) {
	in := audit.NewInputs()
	in.Since, in.Until = a.since, a.until
	if err := a.readFile(a.listing, in.Listing); err != nil {
		return nil, err
	}
	for _, path := range a.ledgers {
		if err := a.readFile(path, in.Ledger); err != nil {
			return nil, err
		}
	}
	if a.counts != "" {
		if err := a.readFile(a.counts, in.Counts); err != nil {
			return nil, err
		}
	}
	if len(a.spools) > 0 {
		set, err := spool.Find(a.spools, nil, a.app.Log)
		if err != nil {
			return nil, err
		}
		defer set.Close()
		if err := in.Spool(set); err != nil {
			return nil, err
		}
	}
	return in, nil
}

func (a *auditing) readFile(path string, read func(name string, r io.Reader) error) error {
	if path == "-" {
		return read("standard input", a.app.Stdin)
	}
	f, err := os.Open(path)
	if err != nil {
		return sysexits.Wrap(sysexits.Config, err)
	}
	return errors.Join(read(path, f), f.Close())
}

func (a *auditing) print(r *audit.Report) error {
	if a.page != "" {
		var page bytes.Buffer
		if err := r.Page(&page); err != nil {
			return err
		}
		if err := atomicfile.Replace(a.page, page.Bytes(), 0o600); err != nil {
			return sysexits.Wrap(sysexits.CantCreat, fmt.Errorf("write the page: %w", err))
		}
	}
	if !a.json {
		return sysexits.Wrap(sysexits.IOErr, r.Table(a.app.Stdout, cli.Printable))
	}
	enc := json.NewEncoder(a.app.Stdout)
	enc.SetEscapeHTML(false)
	return sysexits.Wrap(sysexits.IOErr, enc.Encode(r))
}
