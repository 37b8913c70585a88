package main

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/cli"
	"sf2loki/pkg/pubsub"
)

// pubsubFlags are the flags of sf-pull pubsub.
type pubsubFlags struct {
	pullFlags
	categoryFlag
	busFlags
	topics       pubsub.TopicList
	managed      string
	replay, lost string
	window       int
	rediscover   time.Duration
	maxEvents    int64
	idleExit     time.Duration
}

func (f *pubsubFlags) register(app *cli.App, fs *flag.FlagSet) {
	f.pullFlags.register(app, fs)
	f.categoryFlag.register(fs)
	f.busFlags.register(fs)
	cli.ListVar(fs, &f.topics.Names, "topic", "topics to read, `NAMES` as /event/NAME and /data/NAME, or patterns; '*': all streams of event monitoring")
	cli.ListVar(fs, &f.topics.Include, "include", "of the discovered topics read only those that fit `NAMES` or patterns")
	cli.ListVar(fs, &f.topics.Exclude, "exclude", "discovered topics to leave out, `NAMES` or patterns")
	fs.StringVar(&f.managed, "managed", "", "read the managed subscription `ID`, or developer name, instead of topics")
	cli.EnumVar(fs, &f.replay, "replay", string(pubsub.Earliest), "`PLACE` where a topic without a position begins", string(pubsub.Earliest), string(pubsub.Latest))
	cli.EnumVar(fs, &f.lost, "on-lost-position", string(pubsub.LostEarliest), "`PLACE` where a topic goes on whose position Salesforce refuses",
		string(pubsub.LostEarliest), string(pubsub.LostLatest), string(pubsub.LostFail))
	fs.IntVar(&f.window, "num-requested", pubsub.MaxWindow, "events of a topic that are on their way at most, `N`")
	cli.DurationVar(fs, &f.rediscover, "rediscover", time.Hour, "look for new topics every `TIME`; 0: never")
	fs.Int64Var(&f.maxEvents, "max-events", 0, "end after `N` events; 0: never")
	cli.DurationVar(fs, &f.idleExit, "idle-exit", 0, "end when no event has come for `TIME`; 0: never")
}

func newPubsub(app *cli.App) *ffcli.Command {
	return newPull(app, "pubsub", "sf-pull pubsub --topic NAME|'*'... [flags] > records\n  sf-pull pubsub --managed ID --resume FILE [flags] > records",
		"read topics of the event bus, as events happen", &pubsubFlags{})
}

func (f *pubsubFlags) check(args []string, _ map[string]bool) error {
	if err := cli.NoOperands(args); err != nil {
		return err
	}
	if err := f.pullFlags.check(); err != nil {
		return err
	}
	switch {
	case f.window < 1 || f.window > pubsub.MaxWindow:
		return cli.Usagef("--num-requested %d: it may be 1 to %d", f.window, pubsub.MaxWindow)
	case f.maxEvents < 0:
		return cli.Usagef("--max-events %d: it may be 0 or more", f.maxEvents)
	}
	if err := f.categoryFlag.check(); err != nil {
		return err
	}
	f.topics.Exclude = append(f.topics.Exclude, f.categoryFlag.topics()...)
	if f.managed != "" {
		return f.checkManaged()
	}
	return f.topics.Check()
}

// checkManaged wants the one place that positions are read back from.
func (f *pubsubFlags) checkManaged() error {
	switch {
	case len(f.topics.Names)+len(f.topics.Include)+len(f.topics.Exclude) > 0:
		return cli.Usagef("--managed names its topic in Salesforce: it does not go with --topic, --include, --exclude or --exclude-category")
	case f.resume == "" || f.resume == stdin:
		return cli.Usagef("--managed needs --resume FILE: only positions that are stored there are committed to Salesforce")
	}
	return nil
}

// source is what the flags alone tell of it.
func (f *pubsubFlags) source(app *cli.App) (pubsub.Config, error) {
	cfg := pubsub.Config{
		Topics: f.topics, Managed: f.managed, Replay: pubsub.Preset(f.replay), Lost: pubsub.Policy(f.lost), Window: f.window,
		Rediscover: f.rediscover, MaxEvents: f.maxEvents, IdleExit: f.idleExit,
		KeyPrefix: f.keyPrefix(), Stored: storedIn(f.resume), Log: app.Log,
	}
	var err error
	cfg.Endpoint, err = f.busFlags.parse(app)
	return cfg, err
}

// storedIn reads positions of a checkpoint document as it is at that moment.
func storedIn(path string) func(key string) (string, bool, error) {
	return func(key string) (string, bool, error) {
		data, err := readDocument(path)
		if errors.Is(err, fs.ErrNotExist) {
			return "", false, nil
		}
		if err != nil {
			return "", false, err
		}
		doc, err := checkpoint.ParseDocument(data)
		if err != nil {
			return "", false, err
		}
		value, ok := doc.Get(key)
		return value, ok, nil
	}
}

func (f *pubsubFlags) run(ctx context.Context, p *pull) error {
	cfg, err := f.source(p.app)
	if err != nil {
		return err
	}
	rules, err := f.config(p.app, pubsub.SourceLabel)
	if err != nil {
		return err
	}
	if f.plan == "static" {
		return f.printPlan(p.app, pubsub.StaticPlan(&cfg), 0, nil)
	}
	r, err := p.prepare(ctx, pubsub.SourceLabel, rules)
	if err != nil {
		return err
	}
	silenceGRPC()
	cfg.API, cfg.OrgID, cfg.Resume, cfg.Shape, cfg.Output = r.client, r.orgID, r.resume, r.shape, r.output
	source := pubsub.New(cfg)
	if f.plan != "" {
		plan, err := source.Plan(ctx)
		return f.printPlan(p.app, plan, 0, err)
	}
	stats := source.Stats()
	observePubsub(p.app, stats)
	defer watch(p.app, stats.Stats.Totals, eventsAndTopics(stats), nil)()
	return source.Pull(ctx)
}
