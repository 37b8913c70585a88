package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"runtime/debug"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"
	"golang.org/x/term"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/loki"
	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

type push struct {
	app    *cli.App
	fs     *flag.FlagSet
	server serverFlags
	limits limitFlags
	spool  letterFlags

	labels, allowLabels                 []string
	hourLabel, ts, onLetterError, daily string
	maxLine, batchBytes, buffer, rate   int64
	linesPerSecond                      int
	bytesPerSecond, dailyBytes          int64
	dailyFile, org                      string
	batchEntries, inFlight, newStreams  int
	flush, window, giveUp, grace        time.Duration
	breaker, strict, allowEmpty, force  bool
	dryRun, budgetLetters, fullLines    bool

	engine *loki.Engine
	begun  bool // the line that begins the run is written
	asked  context.Context
}

func newRoot(app *cli.App) *ffcli.Command {
	p := &push{app: app, fs: app.FlagSet("loki-push")}
	p.server.register(app, p.fs)
	p.register(p.fs)
	p.limits.register(p.fs)
	p.spool.register(p.fs)
	cmd := &ffcli.Command{
		Name:        "loki-push",
		ShortUsage:  "loki-push --url URL [flags] < records > acks",
		ShortHelp:   "push records to Loki",
		FlagSet:     p.fs,
		Subcommands: []*ffcli.Command{newProbe(app), newCount(app)},
		Exec:        p.exec,
	}
	app.OnRun(cmd, p.runLine)
	return cmd
}

func (p *push) register(fs *flag.FlagSet) {
	cli.RepeatVar(fs, &p.labels, "label", "add the label `NAME=VALUE` to entries that do not have it")
	cli.ListVar(fs, &p.allowLabels, "allow-label", "keep only label `NAME`, source, event_type and identity; the others become metadata")
	fs.StringVar(&p.hourLabel, "hour-label", "event_hour", "`NAME` of the label with the entry's hour, or none")
	cli.DurationVar(fs, &p.window, "out-of-order-window", time.Hour, "`TIME` that Loki lets an entry lie behind its stream's newest, for --hour-label none; 0: any")
	cli.SizeVar(fs, &p.maxLine, "max-line-bytes", 256<<10, "cut longer lines to `SIZE`; 0 does not cut")
	cli.EnumVar(fs, &p.ts, "ts", "keep", "push entries with their own time, with the present if too old, or all with the present: `POLICY`", "keep", "clamp", "now")

	fs.IntVar(&p.batchEntries, "batch-entries", 1000, "most entries of a batch, `N`")
	cli.SizeVar(fs, &p.batchBytes, "batch-bytes", 1<<20, "most encoded bytes of a batch, `SIZE`")
	cli.DurationVar(fs, &p.flush, "flush-interval", time.Second, "longest `TIME` that a batch is filled")
	fs.IntVar(&p.inFlight, "in-flight", 4, "most requests at a time, `N`; of one stream there is never more than one")
	cli.SizeVar(fs, &p.buffer, "buffer-bytes", 24<<20, "most memory for what is read and not settled, `SIZE`")
	cli.SizeVar(fs, &p.rate, "stream-bytes-per-second", 1200e3, "pace of one stream, `SIZE` a second, below which Loki does not shard it; 0: no pace, whole batches")
	fs.IntVar(&p.newStreams, "max-new-streams", 2000, "most streams opened in an hour, `N`; 0: no limit")

	cli.DurationVar(fs, &p.giveUp, "give-up", 0, "end after `TIME` without a success; 0: never")
	cli.DurationVar(fs, &p.grace, "grace", 25*time.Second, "`TIME` to drain after a signal")
	fs.BoolVar(&p.breaker, "breaker", true, "stop when most entries are refused for one reason")
	fs.BoolVar(&p.strict, "strict", false, "exit 65 when an entry was refused")
	fs.BoolVar(&p.allowEmpty, "allow-empty", false, "input without a single byte is no failure")
	fs.BoolVar(&p.force, "force-tenant", false, "also take dead letters of another tenant")
	fs.BoolVar(&p.dryRun, "dry-run", false, "read and judge, but send, capture and acknowledge nothing")
	fs.StringVar(&p.org, "org", "", "`NAME` of the org in metrics and dead letters")

	cli.EnumVar(fs, &p.onLetterError, "on-dead-letter-error", "drop", "when a dead letter cannot be captured, `POLICY`", "drop", "stop")
	fs.BoolVar(&p.budgetLetters, "dead-letter-budget-drops", false, "capture what --daily-action drop drops")
	fs.BoolVar(&p.fullLines, "keep-full-lines", true, "capture lines that were cut, whole")

	fs.IntVar(&p.linesPerSecond, "max-lines-per-second", 0, "most lines a second, `N`; 0: no limit")
	cli.SizeVar(fs, &p.bytesPerSecond, "max-bytes-per-second", 0, "most bytes of lines a second, `SIZE`; 0: no limit")
	cli.SizeVar(fs, &p.dailyBytes, "daily-bytes", 0, "most bytes of lines in a UTC day, `SIZE`; 0: no limit")
	cli.EnumVar(fs, &p.daily, "daily-action", "pause", "when they are used up, `ACTION`", "pause", "drop")
	fs.StringVar(&p.dailyFile, "daily-file", "", "count of the day, shared by processes, in `PATH`")
}

func (p *push) exec(ctx context.Context, args []string) error {
	p.asked = ctx
	if err := p.checkInput(args); err != nil {
		return err
	}
	cfg, err := p.config()
	if err != nil {
		return err
	}
	if !p.dryRun || p.server.url != "" {
		client, err := p.server.client(p.app, p.inFlight)
		if err != nil {
			return err
		}
		defer client.Close()
		cfg.Push = client
		p.app.Log.Info("pushing", "url", client.Endpoint(), "tenant", p.server.tenant)
	}
	letters, err := p.spool.open(p.app, p.dryRun)
	if err != nil {
		return err
	}
	defer letters.close(p.app.Log)
	cfg.Capture = letters.capture
	cfg.CaptureFull = p.fullLines && letters.capture != nil
	cfg.Gone = p.app.WatchStdout(context.WithoutCancel(ctx)).Done()

	p.limitMemory()
	if p.engine, err = loki.NewEngine(cfg); err != nil {
		return err
	}
	p.watch(letters)
	pace := cli.NewPace()
	stop := p.app.KeepProgress(func() string { return progressText(p.engine.Status(), p.input(), pace) })
	err = p.engine.Run(ctx, p.app.Stdin, p.app.Stdout)
	stop()
	return err
}

// limitMemory keeps the garbage that very long lines make from piling up: what
// is in use is less than this as a rule, however long they are. Little garbage
// is made, so that collecting it twice as often costs next to nothing, and
// saves a seventh of the memory with hundreds of streams.
func (p *push) limitMemory() {
	if _, set := p.app.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(50)
	}
	p.app.LimitMemory(4*min(p.buffer, math.MaxInt64/8) + 64<<20)
}

func (p *push) checkInput(args []string) error {
	switch {
	case len(args) > 1 || len(args) == 1 && args[0] != "-":
		return cli.Usagef("no operands are taken: records come on standard input")
	case len(args) == 0 && term.IsTerminal(int(p.app.Stdin.Fd())):
		return sysexits.WithHint(cli.Usagef("standard input is a terminal"), "records come through a pipe; a - reads them from the terminal all the same")
	case p.server.url == "" && !p.dryRun:
		return cli.Usagef("--url is required")
	case p.batchEntries < 1 || p.batchBytes < 1 || p.inFlight < 1 || p.buffer < 1:
		return cli.Usagef("--batch-entries, --batch-bytes, --in-flight and --buffer-bytes must be at least 1")
	case p.spool.fd < -1 || p.spool.fd >= 0 && p.spool.fd < inheritedFD:
		return cli.Usagef("--dead-letter-fd %d: it may be 3 or more, or -1", p.spool.fd)
	case p.rate < 0 || p.newStreams < 0 || p.linesPerSecond < 0:
		return cli.Usagef("a limit cannot be less than 0")
	}
	return nil
}

// config puts the engine's configuration together.
func (p *push) config() (loki.EngineConfig, error) {
	cfg := loki.EngineConfig{
		Limits: p.limits.limits(), Window: p.window, MaxLine: int(p.maxLine),
		BatchEntries: p.batchEntries, BatchBytes: int(p.batchBytes), FlushInterval: atOnce(p.flush), InFlight: p.inFlight,
		BufferBytes: p.buffer, StreamRate: p.rate, NewStreams: p.newStreams,
		GiveUp: p.giveUp, Grace: atOnce(p.grace), Breaker: p.breaker, Strict: p.strict, AllowEmpty: p.allowEmpty,
		ForceTenant: p.force, DryRun: p.dryRun, CaptureOrStop: p.onLetterError == "stop", CaptureBudget: p.budgetLetters,
		Egress: loki.EgressConfig{
			LinesPerSecond: int64(p.linesPerSecond), BytesPerSecond: p.bytesPerSecond,
			DailyBytes: p.dailyBytes, Drop: p.daily == "drop", File: p.dailyFile,
		},
		Tenant: p.server.tenant, Org: p.org, Instance: p.app.Instance, RunID: p.app.RunID(), Log: p.app.Log, OnBegin: p.onBegin,
		AllowLabels: p.allowLabels,
	}
	if p.window == 0 {
		cfg.Window = -1
	}
	if p.hourLabel != "none" {
		cfg.HourLabel = p.hourLabel
	}
	if p.server.backfillShard != "" && !isSet(p.fs, "max-age") {
		cfg.Limits.MaxAge = 0 // that header is for entries of any age
	}
	switch p.ts {
	case "now":
		cfg.Times = loki.TimeNow
	case "clamp":
		cfg.Times = loki.TimeClamp
		if cfg.Limits.MaxAge == 0 {
			return cfg, cli.Usagef("--ts clamp needs a --max-age to tell what is too old")
		}
	}
	var err error
	cfg.Labels, err = parseLabels(p.labels)
	if err == nil && cfg.HourLabel != "" {
		err = checkLabelName("--hour-label", cfg.HourLabel)
	}
	p.app.Metrics.SetOrg(p.org)
	return cfg, err
}

// atOnce is a time that 0 does not make the default.
func atOnce(d time.Duration) time.Duration { return max(d, time.Nanosecond) }

func isSet(fs *flag.FlagSet, name string) bool {
	set := false
	fs.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

// parseLabels reads the values of --label.
func parseLabels(list []string) ([]record.Pair, error) {
	var pairs []record.Pair
	for _, text := range list {
		name, value, ok := cut(text)
		if !ok {
			return nil, cli.Usagef("--label %q: it must be NAME=VALUE", text)
		}
		if name == "source" || name == "event_type" {
			return nil, cli.Usagef("--label %s: what an entry is comes from its source only", name)
		}
		if err := checkLabelName("--label", name); err != nil {
			return nil, err
		}
		pairs = append(pairs, record.Pair{Name: []byte(name), Value: []byte(value)})
	}
	limits := loki.DefaultLimits()
	if problem := limits.CheckLabels(pairs); len(pairs) > 0 && problem != nil {
		return nil, cli.Usagef("--label: %s", problem.Text)
	}
	return pairs, nil
}

func checkLabelName(flag, name string) error {
	limits := loki.DefaultLimits()
	problem := limits.CheckLabels([]record.Pair{{Name: []byte(name), Value: []byte("x")}})
	if problem == nil {
		return nil
	}
	return cli.Usagef("%s: %s", flag, problem.Text)
}

// onBegin adopts the pipe's run id and returns the line that begins this run.
func (p *push) onBegin(runID string) []byte {
	p.app.SetRunID(runID)
	p.begun = true
	return p.runAck(nil)
}

func (p *push) runAck(status *int) []byte {
	run := record.Run{Program: p.app.Name, RunID: p.app.RunID(), At: time.Now().UTC(), Status: status}
	return record.AppendAck(nil, &record.Ack{Run: record.AppendRunObject(nil, run)})
}

// runLine writes the lines that begin and end the run. The first one waits for
// the input, whose run id it bears: until then a reader of the
// acknowledgements sees an input without a byte, which says the same.
func (p *push) runLine(status *int) error {
	if status == nil {
		return nil
	}
	var lines []byte
	if !p.begun {
		lines = p.runAck(nil)
	}
	lines = append(lines, p.runAck(status)...)
	written := make(chan error, 1)
	go func() {
		_, err := p.app.Stdout.Write(lines)
		written <- err
	}()
	if *status == 0 && p.asked != nil { // after a good run a slow reader is waited for, as all the time before
		select {
		case err := <-written:
			return sysexits.Wrap(sysexits.IOErr, err)
		case <-p.asked.Done():
		}
	}
	select {
	case err := <-written:
		return sysexits.Wrap(sysexits.IOErr, err)
	case <-time.After(lastLine):
		return sysexits.Errorf(sysexits.IOErr, "nobody takes the acknowledgements")
	}
}

// lastLine is how long a reader that does not read is waited for when the run
// has failed, or was asked to stop.
const lastLine = 2 * time.Second

// input is which part of standard input was read, 0 when that cannot be told:
// only a file has an end that is known.
func (p *push) input() float64 {
	info, err := p.app.Stdin.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return 0
	}
	at, err := p.app.Stdin.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0
	}
	return min(float64(at)/float64(info.Size()), 1)
}

func progressText(s loki.Status, part float64, pace *cli.Pace) string {
	text := fmt.Sprintf("%d delivered, %d dead letters, %d on the way", s.Delivered, s.DeadLettered, s.Unsettled)
	if s.Dropped > 0 {
		text += fmt.Sprintf(", %d dropped", s.Dropped)
	}
	if n := len(s.Holds); n > 0 {
		text += fmt.Sprintf("; %d streams wait: %.40s", n, s.Holds[0].Answer)
	}
	settled, total := s.Delivered+s.DeadLettered+s.Dropped, int64(0)
	if part > 0 {
		total = int64(float64(settled+s.Unsettled) / part)
		text += fmt.Sprintf("; %.0f%%", 100*part)
	}
	return text + "; " + pace.Text(settled, total)
}
