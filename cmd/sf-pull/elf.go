package main

import (
	"context"
	"encoding/json"
	"errors"
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
	orgFlags
	shapeFlags
	categoryFlag
	types, exclude []string
	interval       string
	files          []string
	resume         string
	follow         bool
	poll           time.Duration
	settle         time.Duration
	lookback       time.Duration
	patience       time.Duration
	since, until   time.Time
	concurrency    int
	tmpdir         string
	rowLimit       int64
	letterFD       int
	plan           planFlag
	maxAge         time.Duration
}

// maxConcurrency stays below the long requests that an org allows at a time.
const maxConcurrency = 16

func (f *elfFlags) register(app *cli.App, fs *flag.FlagSet) {
	f.orgFlags.register(app, fs)
	fs.StringVar(&f.lane, "lane", "", "`NAME` of an independent consumer of the same files")
	cli.ListVar(fs, &f.types, "event-type", "event types to pull, `NAMES` or patterns as '*'")
	cli.ListVar(fs, &f.exclude, "exclude", "event types to leave out, `NAMES` or patterns")
	cli.EnumVar(fs, &f.interval, "interval", eventlog.Hourly, "which files", eventlog.Hourly, eventlog.Daily)
	cli.RepeatVar(fs, &f.files, "file", "read the CSV file `PATH`, - for standard input, instead of an org")
	fs.StringVar(&f.resume, "resume", "", "begin at the positions of the checkpoint document `FILE`, - for standard input")
	fs.BoolVar(&f.follow, "follow", false, "go on until stopped, with a pass every --poll")
	cli.DurationVar(fs, &f.poll, "poll", time.Hour, "`TIME` between two passes")
	cli.DurationVar(fs, &f.settle, "settle", 5*time.Minute, "leave files that were created less than `TIME` ago for the next pass")
	cli.DurationVar(fs, &f.lookback, "lookback", 24*time.Hour, "begin `TIME` ago where there is no position")
	cli.DurationVar(fs, &f.patience, "download-max-age", 24*time.Hour, "give a file up `TIME` after it could first not be downloaded")
	cli.TimeVar(fs, &f.since, "since", "begin with files of events at `TIME` where there is no position")
	cli.TimeVar(fs, &f.until, "until", "end before files of events at `TIME`: a window with positions of its own")
	fs.IntVar(&f.concurrency, "concurrency", 4, "event types pulled at a time, `N`")
	fs.StringVar(&f.tmpdir, "tmpdir", "/var/tmp", "`DIR` for temporary files")
	cli.SizeVar(fs, &f.rowLimit, "max-row-bytes", eventlog.DefaultRowLimit, "longest row that becomes a record, `SIZE`")
	f.shapeFlags.register(app, fs)
	f.categoryFlag.register(fs)
	fs.IntVar(&f.letterFD, "dead-letter-fd", defaultLetterFD, "write dead letters to descriptor `N`; -1: among the records")
	fs.Var(&f.plan, "plan", "print what would be pulled and pull nothing; =static: what the flags alone tell")
	cli.DurationVar(fs, &f.maxAge, "max-age", 7*24*time.Hour, "--plan counts events older than `TIME` apart")
}

// planFlag is "", "live" or "static".
type planFlag string

func (p *planFlag) IsBoolFlag() bool { return true }
func (p *planFlag) String() string   { return string(*p) }
func (p *planFlag) Set(s string) error {
	switch s {
	case "true", "live":
		*p = "live"
	case "false":
		*p = ""
	case "static":
		*p = "static"
	default:
		return errors.New("it may be static, or nothing")
	}
	return nil
}

// isPlan tells, before flags are parsed, whether a plan is asked for: then
// there is no run, and no lines that tell of one.
func isPlan(app *cli.App, args []string) bool {
	for _, arg := range args {
		name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && name == "plan" {
			return value != "false"
		}
	}
	value, ok := app.LookupEnv("SF_PULL_PLAN")
	return ok && value != "" && value != "false"
}

func newELF(app *cli.App) *ffcli.Command {
	fs := app.FlagSet("sf-pull elf")
	f := &elfFlags{}
	f.register(app, fs)
	out := &output{app: app}
	cmd := &ffcli.Command{
		Name:       "elf",
		ShortUsage: "sf-pull elf --event-type NAME|'*'... [flags] > records\n  sf-pull elf --file PATH... [flags] > records",
		ShortHelp:  "pull event log files, from an org or from disk",
		FlagSet:    fs,
		Exec: func(ctx context.Context, args []string) error {
			given := map[string]bool{}
			fs.Visit(func(fl *flag.Flag) { given[fl.Name] = true })
			return f.run(ctx, app, out, args, given)
		},
	}
	if !isPlan(app, os.Args[1:]) {
		app.OnRun(cmd, out.runLine)
	}
	return cmd
}

func (f *elfFlags) run(ctx context.Context, app *cli.App, out *output, args []string, given map[string]bool) error {
	if err := f.check(args, given); err != nil {
		return err
	}
	app.Metrics.SetOrg(f.org)
	ctx = app.WatchStdout(ctx)
	var err error
	if len(f.files) > 0 {
		err = f.pullFiles(ctx, app, out, given)
	} else {
		err = f.pullOrg(ctx, app, out, given)
	}
	var stopped *cli.Stopped
	if errors.As(err, &stopped) {
		app.Log.Info("stopped", "cause", stopped)
		return nil
	}
	return err
}

// check refuses what does not go together. Operands are more files.
func (f *elfFlags) check(args []string, given map[string]bool) error {
	if len(f.files) == 0 {
		if err := cli.NoOperands(args); err != nil {
			return err
		}
	}
	f.files = append(f.files, args...)
	if err := f.orgFlags.check(); err != nil {
		return err
	}
	switch {
	case f.concurrency < 1 || f.concurrency > maxConcurrency:
		return cli.Usagef("--concurrency %d: it may be 1 to %d", f.concurrency, maxConcurrency)
	case f.letterFD < -1 || f.letterFD == 1 || f.letterFD == 2 || f.letterFD == 0:
		return cli.Usagef("--dead-letter-fd %d: it may be 3 or more, or -1", f.letterFD)
	case f.rowLimit < 1<<10 || f.rowLimit > 1<<30:
		return cli.Usagef("--max-row-bytes: it may be 1KiB to 1GiB")
	case f.poll <= 0:
		return cli.Usagef("--poll: it must be more than 0")
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
	if err := (eventlog.TypeList{Include: f.types, Exclude: f.exclude}).Check(); err != nil {
		return err
	}
	switch {
	case f.follow && !f.until.IsZero():
		return cli.Usagef("--follow does not go with --until: a window has an end")
	}
	return checkWindow(f.since, f.until)
}

func checkWindow(since, until time.Time) error {
	if !since.IsZero() && !until.IsZero() && !since.Before(until) {
		return cli.Usagef("--since must be before --until")
	}
	return nil
}

func (f *elfFlags) pullFiles(ctx context.Context, app *cli.App, out *output, given map[string]bool) error {
	orgID, err := f.fixedOrgID()
	if err != nil {
		return err
	}
	rules, err := f.shapeFlags.config(app, elfSource)
	if err != nil {
		return err
	}
	sh, err := f.build(app, rules, elfSource, f.identity(orgID))
	if err != nil {
		return err
	}
	doc, err := readResume(app, f.resume)
	if err != nil {
		return err
	}
	cfg := eventlog.FilesConfig{
		Paths: f.files, Stdin: app.Stdin, KeyPrefix: f.keyPrefix(), Resume: doc.Get,
		TmpDir: f.tmpdir, RowLimit: int(f.rowLimit), Shape: sh, Log: app.Log,
	}
	if len(f.types) == 1 {
		cfg.EventType = f.types[0]
	}
	if f.plan == "" {
		letter, err := out.letters(f.letterFD, given["dead-letter-fd"])
		if err != nil {
			return err
		}
		cfg.Output = out.of(letter, f.org)
	}
	source := eventlog.NewFiles(cfg)
	if err := source.Check(); err != nil {
		return err
	}
	if f.plan != "" {
		plan, err := source.Plan()
		return f.print(app, plan, err)
	}
	observe(app, source.Stats())
	return source.Pull(ctx)
}

func (f *elfFlags) pullOrg(ctx context.Context, app *cli.App, out *output, given map[string]bool) error {
	rules, err := f.shapeFlags.config(app, elfSource)
	if err != nil {
		return err
	}
	doc, err := readResume(app, f.resume)
	if err != nil {
		return err
	}
	cfg := eventlog.Config{
		Types: eventlog.TypeList{Include: f.types, Exclude: f.exclude}, Interval: f.interval,
		Window:   eventlog.Window{Since: f.since, Until: f.until},
		Lookback: f.lookback, Settle: f.settle, Patience: f.patience, Follow: f.follow, Poll: f.poll,
		Concurrency: f.concurrency, TmpDir: f.tmpdir, RowLimit: int(f.rowLimit),
		KeyPrefix: f.keyPrefix(), Resume: doc.Get, Command: f.command(), Log: app.Log,
	}
	if f.plan == "static" {
		return f.print(app, eventlog.StaticPlan(&cfg), nil)
	}
	var letter func([]byte) error
	if f.plan == "" {
		if letter, err = out.letters(f.letterFD, given["dead-letter-fd"]); err != nil {
			return err
		}
	}
	org := newOrgMetrics(app)
	app.OnReady(func() error {
		if !org.loggedIn.Load() {
			return errors.New("not logged in to Salesforce yet")
		}
		return nil
	})
	client, id, err := f.connect(ctx, app, org.hooks)
	if err != nil {
		return err
	}
	if cfg.Shape, err = f.build(app, rules, elfSource, f.identity(id)); err != nil {
		return err
	}
	cfg.API, cfg.OrgID, cfg.Output = client, id, out.of(letter, f.org)
	source := eventlog.New(cfg)
	if f.plan != "" {
		plan, err := source.Plan(ctx, f.maxAge)
		return f.print(app, plan, err)
	}
	observe(app, source.Stats())
	return source.Pull(ctx)
}

// command is what a command that fetches a file of this org begins with.
func (f *elfFlags) command() string {
	command := "sf-pull elf"
	if f.org != "" {
		command += " --org " + f.org
	}
	return command
}

func (f *elfFlags) print(app *cli.App, plan *eventlog.Plan, err error) error {
	if err != nil {
		return err
	}
	plan.Org, plan.Lane, plan.MaxAge = f.org, f.lane, cli.FormatDuration(f.maxAge)
	enc := json.NewEncoder(app.Stdout)
	enc.SetEscapeHTML(false)
	return sysexits.Wrap(sysexits.IOErr, enc.Encode(plan))
}
