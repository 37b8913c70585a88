package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/record"
	"sf2loki/pkg/spool"
	"sf2loki/pkg/spool/replay"
	"sf2loki/pkg/sysexits"
)

// defaultGrace leaves loki-push its own 25 s, and some to tell.
const defaultGrace = 30 * time.Second

type run struct {
	app     *cli.App
	sel     selectFlags
	opts    replay.Options
	labels  []string
	rate    string
	dryRun  bool
	delete  bool
	json    bool
	grace   time.Duration
	metrics runMetrics
}

func newRun(app *cli.App, stock *stock) *ffcli.Command {
	r := &run{app: app, sel: selectFlags{stock: stock}}
	fs := app.FlagSet("dl-replay run")
	r.sel.register(fs)
	fs.BoolVar(&r.dryRun, "dry-run", false, "say what would be sent, and change nothing")
	fs.BoolVar(&r.delete, "delete", false, "remove files that are done with instead of renaming them")
	fs.BoolVar(&r.json, "json", false, "print the result as a JSON object")
	fs.BoolVar(&r.opts.Force, "force", false, "send records that are too old or refused too often, too")
	fs.IntVar(&r.opts.MaxAttempts, "max-attempts", 3, "leave records alone that were refused `N` times; 0 for never")
	cli.DurationVar(fs, &r.opts.MaxAge, "max-age", defaultMaxAge, "oldest entry that Loki takes, `AGE`; 0: any")
	cli.EnumVar(fs, &r.opts.TS, "ts", replay.Keep, "send entries with their own time, the present, or the present if too old: `POLICY`", replay.Keep, replay.Now, replay.Clamp)
	cli.EnumVar(fs, &r.opts.Order, "order", replay.ByCapture, "send in this `ORDER`", replay.ByCapture, replay.ByEvent)
	fs.StringVar(&r.rate, "rate", "", "at most `N` records a second; also as 100/s or 600/m")
	cli.RepeatVar(fs, &r.labels, "stream-label", "add the label `NAME=VALUE` to records that lack it")
	cli.DurationVar(fs, &r.grace, "grace", defaultGrace, "`TIME` for the command to finish after a signal")
	r.metrics.declare(app)
	return &ffcli.Command{
		Name: "run", ShortUsage: "dl-replay run [SELECT] [--dry-run] [FILE...] -- COMMAND [ARG...]",
		ShortHelp: "send records through a command that pushes, and note what became of each", FlagSet: fs, Exec: r.exec,
		LongHelp: "The command reads records and writes acknowledgements, and dead letters on descriptor 3: loki-push, or a pipe that ends in it.",
	}
}

func (r *run) exec(ctx context.Context, args []string) error {
	r.app.Account(runRow(&replay.Account{}))
	files, command, _ := r.app.SplitDash(args)
	if err := r.options(); err != nil {
		return err
	}
	if len(command) == 0 && !r.dryRun {
		return sysexits.WithHint(cli.Usagef("no command to replay through"), "dl-replay run --spool DIR -- loki-push --url URL")
	}
	set, err := r.sel.find(r.app, files)
	if err != nil {
		return err
	}
	defer set.Close()
	if r.dryRun {
		return r.preview(set)
	}
	stopProgress := func() {}
	result, err := replay.Run(ctx, replay.Config{
		Options: r.opts, Set: set, Command: command, Env: r.environment(), Stderr: r.app.Stderr,
		Delete: r.delete, Grace: r.grace, RunID: r.app.RunID(), Program: r.app.Name, Log: r.app.Log,
		Watch: func(snapshot func() replay.Result) {
			r.app.OnUSR1(func() any { return snapshot() })
			r.account(true, func() []replay.Account { return snapshot().Accounts })
			pace := cli.NewPace()
			stopProgress = r.app.KeepProgress(func() string { return progressText(snapshot(), pace) })
		},
	})
	stopProgress()
	r.metrics.add(&result)
	r.account(false, func() []replay.Account { return result.Accounts })
	if perr := r.printResult(&result); err == nil {
		err = perr
	}
	return err
}

func progressText(s replay.Result, pace *cli.Pace) string {
	return fmt.Sprintf("%d of %d: %d replayed, %d failed; %s",
		s.Replayed+s.Failed, s.Send, s.Replayed, s.Failed, pace.Text(s.Replayed+s.Failed, s.Send))
}

// account says where each of the selected records went. At the end none may
// wait any more.
func (r *run) account(running bool, look func() []replay.Account) {
	r.app.Report(func() []cli.ReportRow {
		rows := []cli.ReportRow{}
		for _, a := range look() {
			if a == (replay.Account{Kind: a.Kind}) {
				continue // nothing but what is beyond --limit
			}
			row := runRow(&a)
			if running {
				row.Out = append(row.Out, cli.Count{Name: "waiting", N: a.Waiting, Now: true})
			}
			rows = append(rows, row)
		}
		return rows
	})
}

func runRow(a *replay.Account) cli.ReportRow {
	return cli.ReportRow{
		Source: a.Source, EventType: a.EventType,
		In: cli.Count{Name: "selected", N: a.Selected},
		Out: []cli.Count{
			{Name: "replayed", N: a.Replayed}, {Name: "failed", N: a.Failed}, {Name: "returned", N: a.Returned},
			{Name: "too_old", N: a.TooOld}, {Name: "out_of_attempts", N: a.Spent}, {Name: "only_when_asked_for", N: a.Unsent},
			{Name: "in_use", N: a.InUse},
		},
	}
}

func (r *run) options() (err error) {
	labelName := regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	if r.opts.Selection, err = r.sel.selection(); err != nil {
		return err
	}
	if len(r.opts.Selection.Statuses) == 0 {
		r.opts.Selection.Statuses = []spool.Status{spool.New}
	}
	if r.opts.Rate, err = parseRate(r.rate); err != nil {
		return err
	}
	for _, label := range r.labels {
		name, value, ok := strings.Cut(label, "=")
		if !ok || name == "" {
			return cli.Usagef("--stream-label %q: want NAME=VALUE", label)
		}
		if !labelName.MatchString(name) { // every record would be refused, and lose an attempt
			return cli.Usagef("--stream-label %q: the name is not %s", label, labelName)
		}
		r.opts.StreamLabels = append(r.opts.StreamLabels, record.Pair{Name: []byte(name), Value: []byte(value)})
	}
	if r.opts.MaxAttempts < 0 {
		return cli.Usagef("--max-attempts %d: it cannot be negative", r.opts.MaxAttempts)
	}
	r.opts.Limit = r.sel.limit
	r.opts.Now = time.Now
	return nil
}

// parseRate reads 100, 100/s, 600/m and 3600/h as records a second.
func parseRate(s string) (float64, error) {
	if s == "" {
		return 0, nil
	}
	number, unit, _ := strings.Cut(s, "/")
	n, err := strconv.ParseFloat(number, 64)
	seconds := map[string]float64{"": 1, "s": 1, "m": 60, "h": 3600}[unit]
	if err != nil || seconds == 0 || !(n > 0) || n > 1e9 {
		return 0, cli.Usagef("--rate %q: want a number of records, as 100/s", s)
	}
	return n / seconds, nil
}

// environment is the command's: ours, and what loki-push has to know.
func (r *run) environment() []string {
	maxAge := r.opts.MaxAge
	if r.opts.Force {
		maxAge = 0 // as they are, whatever their age
	}
	return append(os.Environ(),
		"LOKI_PUSH_DEAD_LETTER_FD=3",
		"LOKI_PUSH_MAX_AGE="+cli.FormatDuration(maxAge),
		"LOKI_PUSH_TS="+r.opts.TS)
}

func (r *run) printResult(res *replay.Result) error {
	if r.json {
		return json.NewEncoder(r.app.Stdout).Encode(res)
	}
	_, err := fmt.Fprintf(r.app.Stdout,
		"%d to send: %d replayed, %d failed, %d returned; left alone: %d too old, %d out of attempts, %d sent only when asked for, %d in use\n",
		res.Send, res.Replayed, res.Failed, res.Returned, res.TooOld, res.Spent, res.Unsent, res.InUse)
	return err
}

// preview prints what a replay would do.
func (r *run) preview(set *spool.Set) error {
	p, err := replay.Look(set, r.opts)
	if err != nil {
		return err
	}
	if r.json {
		if err := json.NewEncoder(r.app.Stdout).Encode(p); err != nil {
			return err
		}
	} else if err := r.printPreview(p); err != nil {
		return err
	}
	return p.Damage.Verdict()
}

func (r *run) printPreview(p *replay.Preview) error {
	table := r.app.NewTable()
	line := func(name string, n int64) { table.Row(name, n) }
	line("to send", p.Send)
	line("of these in use", p.InUse)
	line("left alone: too old", p.TooOld)
	line("left alone: out of attempts", p.Spent)
	line("left alone: sent only when asked for", p.Unsent)
	line("beyond --max-age now", p.Sending.Beyond)
	line("beyond --max-age tomorrow", p.Sending.BeyondTomorrow)
	table.Row("next beyond --max-age", p.Sending.NextBeyond)
	table.Row("all beyond --max-age", p.Sending.AllBeyond)
	for _, h := range []struct {
		name   string
		counts map[string]int64
	}{{"reason", p.Reasons}, {"event type", p.Types}, {"org", p.Orgs}, {"hour", p.Hours}} {
		for _, value := range byCount(h.counts) {
			line(h.name+" "+orDash(value), h.counts[value])
		}
	}
	return table.Flush()
}
