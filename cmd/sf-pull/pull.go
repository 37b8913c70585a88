package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/cli"
	"sf2loki/pkg/feed"
	"sf2loki/pkg/outlet"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/shape"
)

// pullFlags are the flags that every pull has.
type pullFlags struct {
	orgFlags
	shapeFlags
	resume   string
	letterFD int
	plan     planFlag
	grace    time.Duration
}

func (f *pullFlags) register(app *cli.App, fs *flag.FlagSet) {
	f.orgFlags.register(app, fs)
	f.shapeFlags.register(app, fs)
	fs.StringVar(&f.lane, "lane", "", "`NAME` of an independent consumer of the same source")
	fs.StringVar(&f.resume, "resume", "", "begin at the positions of the checkpoint document `FILE`, - for standard input")
	fs.IntVar(&f.letterFD, "dead-letter-fd", defaultLetterFD, "write dead letters to descriptor `N`; -1: among the records")
	fs.Var(&f.plan, "plan", "print what would be pulled and pull nothing; =static: what the flags alone tell")
	cli.DurationVar(fs, &f.grace, "grace", 20*time.Second, "after a signal wait for a pipe that does not move for `TIME`")
}

func (f *pullFlags) check() error {
	if err := f.orgFlags.check(); err != nil {
		return err
	}
	if f.letterFD < -1 || f.letterFD >= 0 && f.letterFD <= 2 {
		return cli.Usagef("--dead-letter-fd %d: it may be 3 or more, or -1", f.letterFD)
	}
	return nil
}

func (f *pullFlags) common() *pullFlags { return f }

// command is what a command that fetches something of this org begins with.
func (f *pullFlags) command(source string) string {
	command := "sf-pull " + source
	if f.org != "" {
		command += " --org " + f.org
	}
	return command
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

// printPlan prints a plan with what the flags alone know of it. A maxAge of 0 is
// none.
func (f *pullFlags) printPlan(app *cli.App, plan interface{ Head() *feed.PlanHead }, maxAge time.Duration, err error) error {
	if err != nil {
		return err
	}
	h := plan.Head()
	h.Org, h.Lane = f.org, f.lane
	if maxAge > 0 {
		h.MaxAge = cli.FormatDuration(maxAge)
	}
	return printJSON(app, plan)
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

// pulling are the flags of one source, and what it does with them.
type pulling interface {
	common() *pullFlags
	register(app *cli.App, fs *flag.FlagSet)
	check(args []string, given map[string]bool) error
	run(ctx context.Context, p *pull) error
}

// pull is one run of a source.
type pull struct {
	app   *cli.App
	flags *pullFlags
	out   *output
	given map[string]bool // flags of the command line
}

// newPull makes the command of a source.
func newPull(app *cli.App, name, usage, help string, f pulling) *ffcli.Command {
	fs := app.FlagSet("sf-pull " + name)
	f.register(app, fs)
	p := &pull{app: app, flags: f.common(), out: &output{app: app}, given: map[string]bool{}}
	cmd := &ffcli.Command{
		Name: name, ShortUsage: usage, ShortHelp: help, FlagSet: fs,
		Exec: func(ctx context.Context, args []string) error {
			fs.Visit(func(fl *flag.Flag) { p.given[fl.Name] = true })
			if err := f.check(args, p.given); err != nil {
				return err
			}
			app.Metrics.SetOrg(p.flags.org)
			ctx = app.WatchStdout(ctx)
			p.out.until(ctx, p.flags.grace)
			return stopped(app, p.out.verdict(p.out.bounded(func() error { return f.run(ctx, p) })))
		},
	}
	if !isPlan(app, os.Args[1:]) {
		app.OnRun(cmd, p.out.runLine)
	}
	return cmd
}

// stopped makes a run that was asked to stop one that went well.
func stopped(app *cli.App, err error) error {
	var stop *cli.Stopped
	if errors.As(err, &stop) {
		app.Log.Info("stopped", "cause", stop)
		return nil
	}
	return err
}

// ready is what a pull has when it can begin.
type ready struct {
	client *salesforce.Client
	orgID  string
	resume func(key string) (string, bool)
	shape  *shape.Shape
	output outlet.Output
}

// begin reads the positions and opens the destination of dead letters.
func (p *pull) begin() (checkpoint.Document, outlet.Output, error) {
	doc, err := readResume(p.app, p.flags.resume)
	if err != nil || p.flags.plan != "" {
		return doc, outlet.Output{}, err
	}
	letter, err := p.out.letters(p.flags.letterFD, p.given["dead-letter-fd"])
	return doc, p.out.of(letter, p.flags.org), err
}

// prepare begins, and logs in to the org.
func (p *pull) prepare(ctx context.Context, source string, rules shape.Config) (*ready, error) {
	doc, out, err := p.begin()
	if err != nil {
		return nil, err
	}
	r := &ready{resume: doc.Get, output: out}
	org := newOrgMetrics(p.app)
	p.app.OnReady(func() error {
		if !org.loggedIn.Load() {
			return errors.New("not logged in to Salesforce yet")
		}
		return nil
	})
	if r.client, r.orgID, err = p.flags.connect(ctx, p.app, org.hooks); err != nil {
		return nil, err
	}
	r.shape, err = p.flags.build(p.app, rules, source, p.flags.identity(r.orgID))
	return r, err
}
