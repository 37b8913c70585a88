package main

import (
	"context"
	"flag"
	"slices"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/discover"
	"sf2loki/pkg/feed"
	"sf2loki/pkg/fnmatch"
	"sf2loki/pkg/pubsub"
)

// discoverFlags are the flags of sf-pull discover.
type discoverFlags struct {
	orgFlags
	busFlags
	kinds    []string
	objects  []string
	lookback time.Duration
}

func (f *discoverFlags) register(app *cli.App, fs *flag.FlagSet) {
	f.orgFlags.register(app, fs)
	jsonFlag(fs)
	f.busFlags.register(fs)
	f.kinds = []string{discover.Topic, discover.EventType, discover.Object}
	cli.ListVar(fs, &f.kinds, "kind", "what to look for, `KINDS`: topic, event_type, object")
	cli.ListVar(fs, &f.objects, "object", "objects to look at, `NAMES` or patterns; without it those that keep events")
	cli.DurationVar(fs, &f.lookback, "lookback", 24*time.Hour, "count files created in the last `TIME`")
}

func newDiscover(app *cli.App) *ffcli.Command {
	fs := app.FlagSet("sf-pull discover")
	f := &discoverFlags{}
	f.register(app, fs)
	return &ffcli.Command{
		Name:       "discover",
		ShortUsage: "sf-pull discover [flags] > things",
		ShortHelp:  "print what the org has that can be pulled, one JSON object each",
		FlagSet:    fs,
		Exec: func(ctx context.Context, args []string) error {
			if err := cli.NoOperands(args); err != nil {
				return err
			}
			if err := f.check(); err != nil {
				return err
			}
			return f.run(app.WatchStdout(ctx), app)
		},
	}
}

func (f *discoverFlags) check() error {
	if err := f.orgFlags.check(); err != nil {
		return err
	}
	for _, k := range f.kinds {
		if !slices.Contains([]string{discover.Topic, discover.EventType, discover.Object}, k) {
			return cli.Usagef("--kind %q: it may be topic, event_type, object", k)
		}
	}
	for _, o := range f.objects {
		if _, err := fnmatch.Compile(o); err != nil {
			return cli.Usagef("--object %q: %v", o, err)
		}
	}
	return nil
}

func (f *discoverFlags) run(ctx context.Context, app *cli.App) error {
	endpoint, err := f.busFlags.parse(app)
	if err != nil {
		return err
	}
	client, id, err := f.connect(ctx, app, newOrgMetrics(app).hooks)
	if err != nil {
		return err
	}
	silenceGRPC()
	bus := pubsub.New(pubsub.Config{API: client, OrgID: id, Endpoint: endpoint, Log: app.Log, Tries: 2}) // somebody is waiting
	cfg := discover.Config{API: client, Kinds: f.kinds, Objects: f.objects, Lookback: f.lookback, MaySubscribe: bus.MaySubscribe}
	return feed.Final(ctx, discover.Run(ctx, cfg, func(t *discover.Thing) error { return printJSON(app, t) }))
}
