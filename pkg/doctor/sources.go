package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sf2loki/pkg/discover"
	"sf2loki/pkg/eventlog"
	"sf2loki/pkg/fnmatch"
	"sf2loki/pkg/pubsub"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sobject"
	"sf2loki/pkg/sysexits"
)

// files looks at the right to event log files, at hourly ones, and at the types
// that are to be pulled.
func (d *doctor) files(ctx context.Context) {
	const check = "event_log_files"
	var types []discover.Thing
	grants := map[string]discover.Thing{}
	cfg := discover.Config{API: d.cfg.Client, Kinds: []string{discover.EventType}, Lookback: d.cfg.Lookback}
	err := discover.Run(ctx, cfg, func(t *discover.Thing) error {
		if t.Kind == discover.Entitlement {
			grants[t.Name] = *t
		} else {
			types = append(types, *t)
		}
		return nil
	})
	if err != nil {
		d.refused(check, d.bad(Files), err)
		return
	}
	if all := grants[check]; all.Granted != nil && !*all.Granted {
		d.add(Finding{Check: check, Level: d.bad(Files), Detail: all.Error, Cure: all.Hint, Code: sysexits.NoPerm})
		return
	}
	hourly, daily := int64(0), int64(0)
	for _, t := range types {
		hourly, daily = hourly+*t.HourlyFiles, daily+*t.DailyFiles
	}
	d.found(check, Pass, fmt.Sprintf("%d hourly and %d daily files were created in the look-back", hourly, daily), "")
	d.types(types, d.hourly(grants["hourly_event_log_files"], hourly, daily))
}

// hourly looks at the licence for hourly files, and tells whether the interval
// can be had.
func (d *doctor) hourly(grant discover.Thing, hourly, daily int64) bool {
	const check = "hourly_event_log_files"
	wanted := d.cfg.Interval == eventlog.Hourly
	switch {
	case grant.Granted != nil && !*grant.Granted:
		level := Warn
		if wanted {
			level = d.bad(Files)
		}
		d.add(Finding{Check: check, Level: level, Detail: "the org shows this user none", Code: sysexits.Config,
			Cure: "use --interval Daily, or have hourly event log files switched on for the org and View Event Log Files granted to the user"})
		return !wanted
	case hourly == 0 && daily > 0 && wanted: // C19
		d.found(check, Warn, "there are daily files and no hourly ones", "use --interval Daily, or wait some hours after hourly files were switched on")
	default:
		d.found(check, Pass, "the org shows them", "")
	}
	return true
}

// types looks at each event type that was given. able: there are files of the
// interval.
func (d *doctor) types(known []discover.Thing, able bool) {
	var names []string
	for _, t := range known {
		names = append(names, t.Name)
	}
	for _, want := range d.cfg.Types.Include {
		check := "event_type " + want
		if strings.ContainsAny(want, "*?") {
			if able {
				d.pattern(check, eventlog.TypeList{Include: []string{want}, Exclude: d.cfg.Types.Exclude}, known)
			}
			continue
		}
		at := slices.IndexFunc(known, func(t discover.Thing) bool { return strings.EqualFold(t.Name, want) })
		if at < 0 {
			d.add(Finding{Check: check, Level: d.bad(Files), Detail: "this org knows no event type of that name", Cure: eventlog.Nearest(names, want), Code: sysexits.Config})
			continue
		}
		if !able {
			continue
		}
		files := d.count(&known[at])
		if files == 0 {
			d.found(check, Warn, "no "+strings.ToLower(d.cfg.Interval)+" file of it was created in the look-back", "nothing of the kind may have happened; the licence may not cover it")
			continue
		}
		d.found(check, Pass, fmt.Sprintf("%d %s files, the newest of %s", files, strings.ToLower(d.cfg.Interval), known[at].Newest), "")
	}
}

func (d *doctor) pattern(check string, list eventlog.TypeList, known []discover.Thing) {
	fit, withFiles := 0, 0
	for i := range known {
		if list.Wanted(known[i].Name) {
			fit++
			if d.count(&known[i]) > 0 {
				withFiles++
			}
		}
	}
	detail := fmt.Sprintf("%d known types fit, %d have %s files", fit, withFiles, strings.ToLower(d.cfg.Interval))
	if withFiles == 0 {
		d.found(check, Warn, detail, "sf-pull discover --kind event_type shows what there is")
		return
	}
	d.found(check, Pass, detail, "")
}

// count is how many files of the interval a type has.
func (d *doctor) count(t *discover.Thing) int64 {
	if d.cfg.Interval == eventlog.Daily {
		return *t.DailyFiles
	}
	return *t.HourlyFiles
}

// objects looks at each object: whether it is there, may be queried, and how.
func (d *doctor) objects(ctx context.Context) {
	if len(d.cfg.Objects) == 0 {
		d.found("objects", Skip, "no --object is given", "")
	}
	for _, o := range d.cfg.Objects {
		check := "object " + o.Name
		facts, err := sobject.Look(ctx, d.cfg.Client, o)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			d.refused(check, d.bad(Objects), err)
		case facts.BigObject:
			d.found(check, Pass, "a Big Object, pulled by "+facts.Field+" from the newest row back", "")
		default:
			d.found(check, Pass, "pulled by "+facts.Field, "")
		}
	}
}

// topics asks whether each topic may be subscribed to.
func (d *doctor) topics(ctx context.Context) {
	if len(d.cfg.PubSub.Topics.Names) == 0 {
		d.found("topics", Skip, "no --topic is given", "")
		return
	}
	cfg := d.cfg.PubSub
	cfg.API, cfg.OrgID = d.cfg.Client, d.orgID
	cfg.Resume = func(string) (string, bool) { return "", false }
	cfg.Tries = 2 // somebody is waiting
	plan, err := pubsub.New(cfg).Plan(ctx)
	if err != nil {
		d.refused("topics", d.bad(PubSub), err)
		return
	}
	found, silent := 0, false
	for _, c := range plan.Categories {
		check := "topic " + c.Topic
		named := slices.Contains(cfg.Topics.Names, c.Topic)
		switch {
		case c.Refused == nil:
			found++
			d.found(check, Pass, "this user may subscribe to it", "")
		case named, pubsub.Unanswered(c.Refused):
			silent = silent || pubsub.Unanswered(c.Refused)
			d.refused(check, d.bad(PubSub), c.Refused)
		default:
			d.refused(check, Warn, c.Refused)
		}
	}
	if slices.ContainsFunc(cfg.Topics.Names, fnmatch.IsPattern) && found == 0 && !silent {
		d.add(Finding{Check: "topics", Level: d.bad(PubSub), Code: sysexits.Config,
			Detail: "no topic of this org that may be read fits", Cure: "sf-pull discover --kind topic shows what there is"})
	}
}

// traceFlags counts what has debug logs written.
func (d *doctor) traceFlags(ctx context.Context) {
	const check = "trace_flags"
	active := 0
	soql := "SELECT Id FROM TraceFlag WHERE ExpirationDate > " + salesforce.DateTime(d.cfg.Client.Now())
	for raw, err := range d.cfg.Client.QueryTooling(ctx, soql) {
		if err != nil {
			d.refused(check, Warn, err)
			return
		}
		if json.Valid(raw) {
			active++
		}
	}
	if active == 0 {
		d.found(check, Warn, "no trace flag is active: Salesforce writes no debug logs", "set one in Setup > Debug Logs; it ends after 24 hours at most")
		return
	}
	d.found(check, Pass, fmt.Sprintf("%d trace flags are active", active), "")
}
