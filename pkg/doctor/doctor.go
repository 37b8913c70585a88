// Package doctor looks at everything that a pull from an org needs, before one
// begins: the login, the clock, the allowance of API calls, the rights, and each
// thing that is to be pulled. It pulls nothing. Its rows are described in
// sf-pull(1).
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sf2loki/pkg/apexlog"
	"sf2loki/pkg/eventlog"
	"sf2loki/pkg/pubsub"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/shape"
	"sf2loki/pkg/sobject"
	"sf2loki/pkg/sysexits"
)

// Level says how bad a finding is.
type Level string

// The levels.
const (
	Pass Level = "PASS"
	Warn Level = "WARN"
	Fail Level = "FAIL"
	Skip Level = "SKIP"
)

// Finding is one row.
type Finding struct {
	Check  string // what was looked at
	Level  Level
	Detail string // what was found
	Cure   string // what to do about it; may be empty
	Code   sysexits.Code
}

// The sources that things are looked at for, by their labels.
const (
	PubSub  = pubsub.SourceLabel
	Objects = sobject.SourceLabel
	Files   = eventlog.SourceLabel
	Logs    = apexlog.SourceLabel
)

// Config says what is to be pulled.
type Config struct {
	// Invalid is what is wrong with the flags; then nothing else is looked at.
	Invalid error

	Client      *salesforce.Client
	Login       string // how, and as whom
	Environment string
	Reserve     salesforce.Reserve

	// Sources are those that are meant: what one of them lacks is a failure, what
	// others lack is a warning. None: all are looked at, and lacking is a warning.
	Sources []string

	Types    eventlog.TypeList
	Interval string
	Lookback time.Duration // within which files are looked for
	TmpDir   string
	Objects  []sobject.Object
	PubSub   pubsub.Config // of the topics; its API and OrgID are not needed

	// Rules reads the rules of a source, and tells whether there is a salt. nil:
	// there are none.
	Rules func(source string) (rules *shape.Transforms, salted bool, err error)
}

// doctor is one examination.
type doctor struct {
	cfg   Config
	orgID string
	emit  func(Finding) error
	err   error // of emit
	first *Finding
}

// Run looks at everything, and gives the findings to emit one after the other.
// The error has the status of the first failure.
func Run(ctx context.Context, cfg Config, emit func(Finding) error) error {
	d := &doctor{cfg: cfg, emit: emit}
	able := true
	for _, step := range []struct {
		name   string
		source string // that it is for; empty: all
		online bool
		run    func(ctx context.Context)
	}{
		{"config", "", false, d.config},
		{"rules", "", false, d.rules},
		{"tmpdir", Files, false, d.tmpdir},
		{"login", "", true, d.login},
		{"clock", "", true, d.clock},
		{"api_calls", "", true, d.calls},
		{"event_log_files", Files, true, d.files},
		{"objects", Objects, true, d.objects},
		{"topics", PubSub, true, d.topics},
		{"trace_flags", Logs, true, d.traceFlags},
	} {
		switch {
		case d.err != nil || ctx.Err() != nil:
		case !able:
			d.found(step.name, Skip, "an earlier check failed", "")
		case step.online && d.orgID == "" && step.name != "login" && step.name != "clock":
			d.found(step.name, Skip, "not logged in", "")
		case step.source != "" && !d.looksAt(step.source):
			d.found(step.name, Skip, "nothing of "+step.source+" is to be pulled", "")
		default:
			step.run(ctx)
			able = cfg.Invalid == nil
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case d.err != nil:
		return d.err
	case d.first != nil:
		return sysexits.Errorf(d.first.Code, "doctor: %s: %s", d.first.Check, d.first.Detail)
	}
	return nil
}

func (d *doctor) looksAt(source string) bool {
	return len(d.cfg.Sources) == 0 || slices.Contains(d.cfg.Sources, source)
}

// bad is how bad it is when something of a source cannot be had.
func (d *doctor) bad(source string) Level {
	if slices.Contains(d.cfg.Sources, source) {
		return Fail
	}
	return Warn
}

func (d *doctor) found(check string, level Level, detail, cure string) {
	d.add(Finding{Check: check, Level: level, Detail: detail, Cure: cure})
}

// refused is an error that was found.
func (d *doctor) refused(check string, level Level, err error) {
	f := Finding{Check: check, Level: level, Detail: strings.TrimPrefix(err.Error(), check+": "), Cure: sysexits.Hint(err), Code: sysexits.TempFail}
	if sysexits.Coded(err) {
		f.Code = sysexits.Of(err)
	}
	d.add(f)
}

func (d *doctor) add(f Finding) {
	if f.Level != Fail {
		f.Code = sysexits.OK
	}
	if f.Level == Fail && d.first == nil {
		d.first = &f
	}
	if d.err == nil {
		d.err = d.emit(f)
	}
}

func (d *doctor) config(context.Context) {
	if d.cfg.Invalid != nil {
		d.refused("config", Fail, d.cfg.Invalid)
		return
	}
	d.found("config", Pass, "the flags are valid", "")
}

// rules looks at the rules of every source that is meant.
func (d *doctor) rules(context.Context) {
	if d.cfg.Rules == nil {
		d.found("rules", Skip, "there are no --transforms", "")
		return
	}
	active, unsalted := 0, ""
	for _, source := range []string{PubSub, Objects, Files, Logs} {
		rules, salted, err := d.cfg.Rules(source)
		if err != nil {
			d.refused("rules", Fail, err)
			return
		}
		if !d.looksAt(source) || !rules.Active() {
			continue
		}
		active++
		if rules.Hashes() && !salted {
			unsalted = source
		}
	}
	switch {
	case unsalted != "":
		d.found("rules", Warn, "rules of "+unsalted+" hash without a salt: who guesses a value can tell that it is there", "give --transform-salt-file")
	case active == 0:
		d.found("rules", Warn, "the file of --transforms has no rules for these sources", "its lists are named pubsub, eventlog_objects, eventlogfile, apexlog")
	default:
		d.found("rules", Pass, fmt.Sprintf("rules for %d sources", active), "")
	}
}
