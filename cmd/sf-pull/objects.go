package main

import (
	"context"
	"flag"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/sobject"
	"sf2loki/pkg/tally"
)

// objectsFlags are the flags of sf-pull objects.
type objectsFlags struct {
	feedFlags
	categoryFlag
	names       []string
	objects     []sobject.Object
	concurrency int
	bufferBytes int64
}

// leastBuffer holds a few of the longest rows that there are.
const leastBuffer = 1 << 20

func (f *objectsFlags) register(app *cli.App, fs *flag.FlagSet) {
	f.registerFeed(app, fs, margins{poll: 5 * time.Minute, settle: 5 * time.Minute, overlap: 10 * time.Minute})
	f.categoryFlag.register(fs)
	cli.RepeatVar(fs, &f.names, "object", "objects to pull, `NAME[:FIELD][,big][,poll=TIME]`")
	fs.IntVar(&f.concurrency, "concurrency", 2, "objects pulled at a time, `N`")
	cli.SizeVar(fs, &f.bufferBytes, "buffer-bytes", 16<<20, "rows of Big Objects that wait to be put in order, `SIZE`")
}

func newObjects(app *cli.App) *ffcli.Command {
	return newPull(app, "objects", "sf-pull objects --object NAME[:FIELD][,big][,poll=TIME]... [flags] > records",
		"pull the rows of objects that have a timestamp", &objectsFlags{})
}

func (f *objectsFlags) check(args []string, _ map[string]bool) error {
	if err := f.checkFeed(args); err != nil {
		return err
	}
	f.objects = nil
	for _, text := range f.names {
		list, err := sobject.ParseObjects(text, cli.ParseDuration)
		if err != nil {
			return err
		}
		f.objects = append(f.objects, list...)
	}
	switch {
	case f.concurrency < 1 || f.concurrency > maxConcurrency:
		return cli.Usagef("--concurrency %d: it may be 1 to %d", f.concurrency, maxConcurrency)
	case f.bufferBytes < leastBuffer || f.bufferBytes > 1<<30:
		return cli.Usagef("--buffer-bytes: it may be 1MiB to 1GiB")
	}
	if err := f.categoryFlag.check(); err != nil {
		return err
	}
	if err := f.categoryFlag.objects(f.objects); err != nil {
		return err
	}
	return sobject.CheckObjects(f.objects)
}

func (f *objectsFlags) run(ctx context.Context, p *pull) error {
	cfg := sobject.Config{
		Objects: f.objects, Window: f.window(), Lookback: f.lookback, Settle: f.settle, Overlap: f.overlap,
		Follow: f.follow, Poll: f.poll, Concurrency: f.concurrency, BufferBytes: f.bufferBytes,
		KeyPrefix: f.keyPrefix(), Log: p.app.Log,
	}
	rules, err := f.config(p.app, sobject.SourceLabel)
	if err != nil {
		return err
	}
	if f.plan == "static" {
		return f.printPlan(p.app, sobject.StaticPlan(&cfg), f.maxAge, nil)
	}
	r, err := p.prepare(ctx, sobject.SourceLabel, rules)
	if err != nil {
		return err
	}
	limitMemory(p.app, f.bufferBytes)
	cfg.API, cfg.OrgID, cfg.Resume, cfg.Shape, cfg.Output = r.client, r.orgID, r.resume, r.shape, r.output
	source := sobject.New(cfg)
	if f.plan != "" {
		plan, err := source.Plan(ctx, f.maxAge)
		return f.printPlan(p.app, plan, f.maxAge, err)
	}
	observe(p.app, sobject.SourceLabel, source.Stats(), func(s *cli.Samples, t tally.Totals) { collectRows(s, sobject.SourceLabel, t) })
	defer watch(p.app, source.Stats().Totals, rowsAndQueries, nil)()
	return source.Pull(ctx)
}
