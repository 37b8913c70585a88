package main

import (
	"flag"
	"fmt"
	"os"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/shape"
	"sf2loki/pkg/sysexits"
)

// shapeFlags say what records look like, and which rows become none.
type shapeFlags struct {
	metadata     []string
	job, service string
	transforms   string
	salt         *cli.SecretFlag
	sample       []string
	labelColumns []string
	labelValues  int
}

func (f *shapeFlags) register(app *cli.App, fs *flag.FlagSet) {
	cli.ListVar(fs, &f.metadata, "metadata-fields", "`COLUMNS` that go into structured metadata too")
	fs.StringVar(&f.job, "job", "sf2loki", "`VALUE` of the label job; empty: none")
	fs.StringVar(&f.service, "service-name", "sf2loki", "`VALUE` of the label service_name; empty: none")
	fs.StringVar(&f.transforms, "transforms", "", "apply the rules of `FILE` to every row")
	f.salt = cli.Secret(app, fs, "transform-salt", "what goes before every text that rules hash")
	cli.ListVar(fs, &f.sample, "sample", "keep this part of the rows, from 0.0001 to 1: `RATE`, or TYPE=RATE")
	cli.ListVar(fs, &f.labelColumns, "label-column", "make a column a stream label: `TYPE=COLUMN`")
	fs.IntVar(&f.labelValues, "label-values", 50, "most values of a label column, `N`; further ones go into structured metadata")
}

// config reads the rules and checks everything that can be told without an org.
func (f *shapeFlags) config(app *cli.App, source string) (shape.Config, error) {
	cfg := shape.Config{Metadata: f.metadata, LabelValues: f.labelValues, Log: app.Log}
	var err error
	if cfg.Rates, err = shape.ParseRates(f.sample); err != nil {
		return cfg, cli.Usagef("--sample %w", err)
	}
	if cfg.LabelColumns, err = shape.ParseLabelColumns(f.labelColumns); err != nil {
		return cfg, cli.Usagef("--label-column %w", err)
	}
	if f.labelValues < 1 || f.labelValues > 10000 {
		return cfg, cli.Usagef("--label-values %d: it may be 1 to 10000", f.labelValues)
	}
	if cfg.Transforms, err = f.rules(app, source); err != nil {
		return cfg, err
	}
	_, err = shape.New(cfg)
	return cfg, sysexits.Wrap(sysexits.Usage, err)
}

func (f *shapeFlags) rules(app *cli.App, source string) (*shape.Transforms, error) {
	if f.transforms == "" {
		if f.salt.Set() {
			app.Log.Warn("there is a salt, and no --transforms that would hash anything")
		}
		return nil, nil
	}
	rules, salted, err := readRules(f.transforms, f.salt, source)
	switch {
	case err != nil:
		return nil, err
	case !rules.Active():
		app.Log.Warn("the file of --transforms has no rules for this source", "file", f.transforms, "source", source)
	case rules.Hashes() && !salted:
		app.Log.Warn("values are hashed without a salt: who guesses one can tell that it is there", "hint", "--transform-salt-file")
	}
	return rules, nil
}

// readRules reads the rules of a source, and tells whether there is a salt.
func readRules(file string, salt *cli.SecretFlag, source string) (rules *shape.Transforms, salted bool, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, false, sysexits.Wrap(sysexits.Config, fmt.Errorf("--transforms: %w", err))
	}
	value, err := salt.Value()
	if err != nil {
		return nil, false, err
	}
	if rules, err = shape.ParseTransforms(text, source, []byte(value)); err != nil {
		return nil, false, sysexits.Errorf(sysexits.Config, "--transforms %s: %w", file, err)
	}
	return rules, value != "", nil
}

// build makes the shape for an org.
func (f *shapeFlags) build(app *cli.App, cfg shape.Config, source string, id shape.Identity) (*shape.Shape, error) {
	cfg.Identity = id
	cfg.Identity.Job, cfg.Identity.ServiceName = f.job, f.service
	s, err := shape.New(cfg)
	if err != nil {
		return nil, sysexits.Wrap(sysexits.Usage, err)
	}
	app.Metrics.Collect(func(m *cli.Samples) { collectShape(m, source, s) })
	return s, nil
}

func collectShape(m *cli.Samples, source string, s *shape.Shape) {
	for rule, n := range s.Filtered() {
		m.Counter("rows_filtered_total", "Rows that a rule has dropped.", float64(n), "source", source, "rule", rule)
	}
	for _, o := range s.Overflows() {
		m.Counter("label_values_overflowed_total", "Records whose value of a label column went into structured metadata.", float64(o.Records),
			"source", source, "event_type", o.EventType, "column", o.Column)
	}
}
