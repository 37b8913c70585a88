package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/doctor"
	"sf2loki/pkg/eventlog"
	"sf2loki/pkg/pubsub"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/shape"
	"sf2loki/pkg/sobject"
	"sf2loki/pkg/sysexits"
)

// doctorFlags are the flags of sf-pull doctor: those of pulls that something can
// be wrong with.
type doctorFlags struct {
	orgFlags
	types, exclude []string
	interval       string
	lookback       time.Duration
	tmpdir         string
	objects        []string
	topics         []string
	busFlags
	users      []string
	transforms string
	salt       *cli.SecretFlag
	asJSON     bool
}

func (f *doctorFlags) register(app *cli.App, fs *flag.FlagSet) {
	f.orgFlags.register(app, fs)
	cli.ListVar(fs, &f.types, "event-type", "event types that are to be pulled, `NAMES` or patterns")
	cli.ListVar(fs, &f.exclude, "exclude", "event types or topics that are not, `NAMES` or patterns")
	cli.EnumVar(fs, &f.interval, "interval", eventlog.Hourly, "which files, `INTERVAL`", eventlog.Hourly, eventlog.Daily)
	cli.DurationVar(fs, &f.lookback, "lookback", 24*time.Hour, "look at files created in the last `TIME`")
	fs.StringVar(&f.tmpdir, "tmpdir", "/var/tmp", "`DIR` for temporary files")
	cli.RepeatVar(fs, &f.objects, "object", "objects that are to be pulled, `NAME[:FIELD][,big]`")
	cli.ListVar(fs, &f.topics, "topic", "topics that are to be read, `NAMES` or patterns")
	f.busFlags.register(fs)
	cli.ListVar(fs, &f.users, "traced-user", "debug logs are to be pulled, of these `USERS`")
	fs.StringVar(&f.transforms, "transforms", "", "`FILE` of rules")
	f.salt = cli.Secret(app, fs, "transform-salt", "what goes before every text that rules hash")
	fs.BoolVar(&f.asJSON, "json", false, "print one JSON object a line")
}

func newDoctor(app *cli.App) *ffcli.Command {
	fs := app.FlagSet("sf-pull doctor")
	f := &doctorFlags{}
	f.register(app, fs)
	return &ffcli.Command{
		Name:       "doctor",
		ShortUsage: "sf-pull doctor [SOURCE...] [flags]",
		ShortHelp:  "look at everything that a pull needs",
		FlagSet:    fs,
		Exec: func(ctx context.Context, args []string) error {
			return stopped(app, f.run(app.WatchStdout(ctx), app, args))
		},
	}
}

// labelOf is the label source of what a subcommand pulls.
var labelOf = map[string]string{"pubsub": doctor.PubSub, "objects": doctor.Objects, "elf": doctor.Files, "apexlog": doctor.Logs}

func (f *doctorFlags) run(ctx context.Context, app *cli.App, args []string) error {
	cfg, err := f.config(app, args)
	var usage *sourceError
	if errors.As(err, &usage) {
		return err
	}
	cfg.Invalid = err
	counts := map[doctor.Level]int{}
	err = doctor.Run(ctx, cfg, func(d doctor.Finding) error {
		counts[d.Level]++
		return sysexits.Wrap(sysexits.IOErr, f.print(app, d))
	})
	if !f.asJSON && sysexits.Of(err) != sysexits.IOErr {
		if _, werr := fmt.Fprintf(app.Stdout, "%d passed, %d warnings, %d failed, %d skipped\n",
			counts[doctor.Pass], counts[doctor.Warn], counts[doctor.Fail], counts[doctor.Skip]); werr != nil {
			return sysexits.Wrap(sysexits.IOErr, werr)
		}
	}
	return err
}

// sourceError is an operand that is no source: then there is no examination.
type sourceError struct{ error }

func (e *sourceError) Unwrap() error { return e.error }

// config is what is to be looked at. Its error becomes a finding.
func (f *doctorFlags) config(app *cli.App, args []string) (doctor.Config, error) {
	cfg := doctor.Config{
		Login: "client credentials", Environment: f.environment, TmpDir: f.tmpdir,
		Types: eventlog.TypeList{Include: f.types, Exclude: f.exclude}, Interval: f.interval, Lookback: f.lookback,
	}
	if f.auth == string(salesforce.JWT) {
		cfg.Login = "JWT of " + f.username
	}
	var err error
	if cfg.Sources, err = f.sources(args); err != nil {
		return cfg, err
	}
	if f.transforms != "" {
		cfg.Rules = func(source string) (*shape.Transforms, bool, error) {
			return readRules(f.transforms, f.salt, source)
		}
	}
	for _, text := range f.objects {
		list, err := sobject.ParseObjects(text, cli.ParseDuration)
		if err != nil {
			return cfg, err
		}
		cfg.Objects = append(cfg.Objects, list...)
	}
	if cfg.PubSub, err = f.bus(app); err != nil {
		return cfg, err
	}
	if err := f.check(); err != nil {
		return cfg, err
	}
	if len(f.types) > 0 {
		if err := (eventlog.TypeList{Include: f.types}).Check(); err != nil {
			return cfg, err
		}
	}
	retry := salesforce.Retry{Attempts: 2, Min: 200 * time.Millisecond, Max: time.Second} // somebody is waiting
	if cfg.Client, err = f.client(app, salesforce.Hooks{}, retry); err != nil {
		return cfg, err
	}
	if cfg.Reserve, err = f.parseReserve(); err != nil {
		return cfg, err
	}
	if audience := cfg.Client.Audience(); audience != "" {
		cfg.Login += " for the audience " + audience
	}
	return cfg, nil
}

// sources are those that operands name, and those whose flags are given.
func (f *doctorFlags) sources(args []string) ([]string, error) {
	var list []string
	for _, name := range args {
		label, ok := labelOf[name]
		if !ok {
			return nil, &sourceError{cli.Usagef("%q is no source: it may be pubsub, objects, elf, apexlog", name)}
		}
		list = append(list, label)
	}
	for label, given := range map[string]bool{
		doctor.PubSub: len(f.topics) > 0, doctor.Objects: len(f.objects) > 0, doctor.Files: len(f.types) > 0, doctor.Logs: len(f.users) > 0,
	} {
		if given && !slices.Contains(list, label) {
			list = append(list, label)
		}
	}
	return list, nil
}

// bus is what is to be looked at on the event bus.
func (f *doctorFlags) bus(app *cli.App) (pubsub.Config, error) {
	p := pubsubFlags{
		pullFlags: pullFlags{orgFlags: f.orgFlags}, busFlags: f.busFlags, window: pubsub.MaxWindow,
		topics: pubsub.TopicList{Names: f.topics},
		replay: string(pubsub.Earliest), lost: string(pubsub.LostEarliest),
	}
	if len(f.topics) == 0 {
		return pubsub.Config{}, nil
	}
	if err := p.topics.Check(); err != nil {
		return pubsub.Config{}, err
	}
	p.topics.Exclude = f.exclude
	return p.source(app)
}

func (f *doctorFlags) print(app *cli.App, d doctor.Finding) error {
	return app.PrintFinding(f.asJSON, d.Check, string(d.Level), d.Detail, d.Cure, d.Code)
}
