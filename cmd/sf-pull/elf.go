package main

import (
	"context"
	"flag"
	"os"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/eventlog"
	"sf2loki/pkg/sysexits"
)

// elfFlags are the flags of sf-pull elf.
type elfFlags struct {
	pullFlags
	pollFlags
	categoryFlag
	types, exclude []string
	interval       string
	files          []string
	patience       time.Duration
	concurrency    int
	tmpdir         string
	rowLimit       int64
}

// maxConcurrency stays below the long requests that an org allows at a time.
const maxConcurrency = 16

func (f *elfFlags) register(app *cli.App, fs *flag.FlagSet) {
	f.pullFlags.register(app, fs)
	f.pollFlags.register(fs, margins{poll: time.Hour, settle: 5 * time.Minute})
	f.categoryFlag.register(fs)
	cli.ListVar(fs, &f.types, "event-type", "event types to pull, `NAMES` or patterns as '*'")
	cli.ListVar(fs, &f.exclude, "exclude", "event types to leave out, `NAMES` or patterns")
	cli.EnumVar(fs, &f.interval, "interval", eventlog.Hourly, "which files, `INTERVAL`", eventlog.Hourly, eventlog.Daily)
	cli.RepeatVar(fs, &f.files, "file", "read the CSV file `PATH`, - for standard input, instead of an org")
	cli.DurationVar(fs, &f.patience, "download-max-age", 24*time.Hour, "give a file up `TIME` after it could first not be downloaded")
	fs.IntVar(&f.concurrency, "concurrency", 4, "event types pulled at a time, `N`")
	fs.StringVar(&f.tmpdir, "tmpdir", "/var/tmp", "`DIR` for temporary files")
	cli.SizeVar(fs, &f.rowLimit, "max-row-bytes", eventlog.DefaultRowLimit, "longest row that becomes a record, `SIZE`")
}

func newELF(app *cli.App) *ffcli.Command {
	return newPull(app, "elf", "sf-pull elf --event-type NAME|'*'... [flags] > records\n  sf-pull elf --file PATH... [flags] > records",
		"pull event log files, from an org or from disk", &elfFlags{})
}

func (f *elfFlags) run(ctx context.Context, p *pull) error {
	if len(f.files) > 0 {
		return f.pullFiles(ctx, p)
	}
	return f.pullOrg(ctx, p)
}

// check refuses what does not go together. Operands are more files.
func (f *elfFlags) check(args []string, given map[string]bool) error {
	if len(f.files) == 0 {
		if err := cli.NoOperands(args); err != nil {
			return err
		}
	}
	f.files = append(f.files, args...)
	if err := f.pullFlags.check(); err != nil {
		return err
	}
	if err := f.pollFlags.check(); err != nil {
		return err
	}
	switch {
	case f.concurrency < 1 || f.concurrency > maxConcurrency:
		return cli.Usagef("--concurrency %d: it may be 1 to %d", f.concurrency, maxConcurrency)
	case f.rowLimit < 1<<10 || f.rowLimit > 1<<30:
		return cli.Usagef("--max-row-bytes: it may be 1KiB to 1GiB")
	}
	if info, err := os.Stat(f.tmpdir); err != nil || !info.IsDir() {
		return sysexits.Errorf(sysexits.Config, "--tmpdir %s: no such directory", f.tmpdir)
	}
	if len(f.files) > 0 {
		return f.checkFiles(given)
	}
	return f.checkOrg()
}

func (f *elfFlags) checkFiles(given map[string]bool) error {
	for _, name := range []string{"since", "until", "follow", "exclude", "exclude-category"} {
		if given[name] {
			return cli.Usagef("--%s has no meaning with --file", name)
		}
	}
	if len(f.types) > 1 || len(f.types) == 1 && strings.ContainsAny(f.types[0], "*?") {
		return cli.Usagef("--event-type with --file names the one type of all rows")
	}
	reads := 0
	for _, path := range append([]string{f.resume}, f.files...) {
		if path == stdin {
			reads++
		}
	}
	if reads > 1 {
		return cli.Usagef("standard input can be read once: --resume - and --file - do not go together")
	}
	return nil
}

func (f *elfFlags) checkOrg() error {
	if err := f.categoryFlag.check(); err != nil {
		return err
	}
	f.exclude = append(f.exclude, f.categories...) // an event type is its own category
	return (eventlog.TypeList{Include: f.types, Exclude: f.exclude}).Check()
}

func (f *elfFlags) pullFiles(ctx context.Context, p *pull) error {
	orgID, err := f.fixedOrgID()
	if err != nil {
		return err
	}
	rules, err := f.config(p.app, eventlog.SourceLabel)
	if err != nil {
		return err
	}
	sh, err := f.build(p.app, rules, eventlog.SourceLabel, f.identity(orgID))
	if err != nil {
		return err
	}
	doc, out, err := p.begin()
	if err != nil {
		return err
	}
	cfg := eventlog.FilesConfig{
		Paths: f.files, Stdin: p.app.Stdin, KeyPrefix: f.keyPrefix(), Resume: doc.Get,
		TmpDir: f.tmpdir, RowLimit: int(f.rowLimit), Shape: sh, Output: out, Log: p.app.Log,
	}
	if len(f.types) == 1 {
		cfg.EventType = f.types[0]
	}
	source := eventlog.NewFiles(cfg)
	if err := source.Check(); err != nil {
		return err
	}
	if f.plan != "" {
		plan, err := source.Plan()
		return f.printPlan(p.app, plan, f.maxAge, err)
	}
	observe(p.app, eventlog.SourceLabel, source.Stats(), collectFiles)
	defer watch(p.app, source.Stats().Totals, rowsAndFiles, source.Progress().Bytes)()
	return source.Pull(ctx)
}

func (f *elfFlags) pullOrg(ctx context.Context, p *pull) error {
	rules, err := f.config(p.app, eventlog.SourceLabel)
	if err != nil {
		return err
	}
	cfg := eventlog.Config{
		Types: eventlog.TypeList{Include: f.types, Exclude: f.exclude}, Interval: f.interval,
		Window:   f.window(),
		Lookback: f.lookback, Settle: f.settle, Patience: f.patience, Follow: f.follow, Poll: f.poll,
		Watched: watched(p.app), Concurrency: f.concurrency, TmpDir: f.tmpdir, RowLimit: int(f.rowLimit),
		KeyPrefix: f.keyPrefix(), Command: f.command("elf"), Log: p.app.Log,
	}
	if f.plan == "static" {
		return f.printPlan(p.app, eventlog.StaticPlan(&cfg), f.maxAge, nil)
	}
	r, err := p.prepare(ctx, eventlog.SourceLabel, rules)
	if err != nil {
		return err
	}
	limitMemory(p.app, f.rowLimit-eventlog.DefaultRowLimit)
	cfg.API, cfg.OrgID, cfg.Resume, cfg.Shape, cfg.Output = r.client, r.orgID, r.resume, r.shape, r.output
	source := eventlog.New(cfg)
	if f.plan != "" {
		plan, err := source.Plan(ctx, f.maxAge)
		return f.printPlan(p.app, plan, f.maxAge, err)
	}
	observe(p.app, eventlog.SourceLabel, source.Stats(), collectFiles)
	defer watch(p.app, source.Stats().Totals, rowsAndFiles, source.Progress().Bytes)()
	return source.Pull(ctx)
}
