// Package discover lists what an org has that could be pulled: topics of the
// event bus, types of event log files, and objects. What it prints is described
// in sf-pull(1).
package discover

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"sf2loki/pkg/feed"
	"sf2loki/pkg/fnmatch"
	"sf2loki/pkg/pubsub"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sobject"
	"sf2loki/pkg/sysexits"
)

// The kinds of what there is.
const (
	Topic       = "topic"
	EventType   = "event_type"
	Object      = "object"
	Entitlement = "entitlement"
)

// Thing is one thing that an org has. Members that do not belong to its kind
// are left out.
type Thing struct {
	Kind string `json:"kind"`
	Name string `json:"name"`

	// Of a topic: whether it is a stream of real-time event monitoring, the
	// object that keeps its events, if there is one, and whether this user may
	// subscribe to it.
	Monitoring   *bool  `json:"monitoring,omitempty"`
	StoredAs     string `json:"stored_as,omitempty"`
	CanSubscribe *bool  `json:"can_subscribe,omitempty"`

	// Of an event type: its files of either interval within the look-back.
	HourlyFiles *int64 `json:"hourly_files,omitempty"`
	DailyFiles  *int64 `json:"daily_files,omitempty"`
	Newest      string `json:"newest,omitempty"` // CreatedDate of the newest of them

	// Of an object.
	Field     string `json:"field,omitempty"`
	BigObject *bool  `json:"big_object,omitempty"`
	CanQuery  *bool  `json:"can_query,omitempty"`

	// Of an entitlement: whether the org and this user have it.
	Granted *bool `json:"granted,omitempty"`

	Error string `json:"error,omitempty"` // why not
	Hint  string `json:"hint,omitempty"`
}

// API is what this package needs of a Salesforce client.
type API interface {
	sobject.API
	pubsub.Tooling
}

// Config says what to list.
type Config struct {
	API      API
	Kinds    []string      // Topic, EventType, Object
	Objects  []string      // patterns; none: those that keep events, logins and audit trails
	Lookback time.Duration // for files

	// MaySubscribe asks of topics whether they may be subscribed to; the second
	// error is of a bus that does not answer. nil: nobody asks.
	MaySubscribe func(ctx context.Context, topics []string) ([]error, error)
}

// Run lists what there is. A refusal that concerns one thing is told with it;
// one that concerns all is the error, and so is, after all else has been
// listed, that the bus does not answer.
func Run(ctx context.Context, cfg Config, emit func(*Thing) error) error {
	all, err := global(ctx, cfg.API)
	if err != nil {
		return err
	}
	for _, step := range []struct {
		kind string
		run  func() error
	}{
		{EventType, func() error { return eventTypes(ctx, &cfg, emit) }},
		{Object, func() error { return objects(ctx, &cfg, all, emit) }},
		{Topic, func() error { return topics(ctx, &cfg, all, emit) }}, // last: the bus may not answer
	} {
		if !slices.Contains(cfg.Kinds, step.kind) {
			continue
		}
		if err := step.run(); err != nil {
			return err
		}
	}
	return nil
}

// sobjectName is an object in the list of all of them.
type sobjectName struct {
	Name      string `json:"name"`
	Queryable bool   `json:"queryable"`
}

func global(ctx context.Context, api sobject.API) ([]sobjectName, error) {
	raw, err := api.Get(ctx, "sobjects/")
	if err != nil {
		return nil, fmt.Errorf("ask which objects the org has: %w", err)
	}
	var list struct{ SObjects []sobjectName }
	if err := json.Unmarshal(raw, &list); err != nil || len(list.SObjects) == 0 {
		return nil, &feed.OddAnswer{Text: "ask which objects the org has: the answer lists none"}
	}
	slices.SortFunc(list.SObjects, func(a, b sobjectName) int { return strings.Compare(a.Name, b.Name) })
	return list.SObjects, nil
}

// topics lists the topics that objects stand for, and custom channels.
func topics(ctx context.Context, cfg *Config, all []sobjectName, emit func(*Thing) error) error {
	names := make([]string, len(all))
	for i, o := range all {
		names[i] = o.Name
	}
	list := pubsub.TopicsOf(names)
	channels, err := pubsub.Channels(ctx, cfg.API)
	if err != nil {
		t := Thing{Kind: Entitlement, Name: "custom_channels"}
		if t.refuse(err); !concerns(err) {
			return err
		}
		if err := emit(&t); err != nil {
			return err
		}
	}
	things := []*Thing{}
	for _, t := range append(list, channels...) {
		things = append(things, &Thing{Kind: Topic, Name: t.Name, Monitoring: ptr(t.Monitoring), StoredAs: t.StoredAs})
	}
	var silent error
	if cfg.MaySubscribe != nil {
		silent = cfg.subscribe(ctx, things)
	}
	if err := emitAll(emit, things...); err != nil {
		return err
	}
	return silent
}

// subscribe asks of each topic whether it may be subscribed to. The error is of
// a bus that does not answer.
func (cfg *Config) subscribe(ctx context.Context, things []*Thing) error {
	names := make([]string, len(things))
	for i, t := range things {
		names[i] = t.Name
	}
	refused, err := cfg.MaySubscribe(ctx, names)
	for i, why := range refused {
		if pubsub.Unanswered(why) { // it is not known
			err = why
		} else {
			things[i].CanSubscribe = ptr(why == nil)
		}
		if why != nil {
			things[i].Error, things[i].Hint = why.Error(), sysexits.Hint(why)
		}
	}
	if err != nil {
		return fmt.Errorf("ask which topics may be subscribed to: %w", err)
	}
	return nil
}

func ptr[T any](v T) *T { return &v }

// eventTypes lists the types of event log files that the org knows, and those
// that have files.
func eventTypes(ctx context.Context, cfg *Config, emit func(*Thing) error) error {
	types := map[string]*Thing{}
	get := func(name string) *Thing {
		if types[name] == nil {
			types[name] = &Thing{Kind: EventType, Name: name, HourlyFiles: ptr(int64(0)), DailyFiles: ptr(int64(0))}
		}
		return types[name]
	}
	files := Thing{Kind: Entitlement, Name: "event_log_files", Granted: ptr(true)}
	hourly := Thing{Kind: Entitlement, Name: "hourly_event_log_files", Granted: ptr(true)}
	for _, interval := range []string{"Daily", "Hourly"} {
		err := countFiles(ctx, cfg, interval, get)
		switch {
		case err == nil:
		case feed.Judge(err) != feed.Refused && feed.Judge(err) != feed.Gone:
			return err
		case interval == "Daily" && salesforce.KindOf(err) != salesforce.KindField:
			files.refuse(err)
			hourly.refuse(err)
			return emitAll(emit, &files, &hourly)
		default:
			hourly.refuse(err)
		}
	}
	if !*hourly.Granted {
		if err := countFiles(ctx, cfg, "", get); err != nil {
			return err
		}
	}
	if err := picklist(ctx, cfg.API, get); err != nil {
		return err
	}
	if err := emitAll(emit, &files, &hourly); err != nil {
		return err
	}
	names := make([]string, 0, len(types))
	for name := range types {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := emit(types[name]); err != nil {
			return err
		}
	}
	return nil
}

func emitAll(emit func(*Thing) error, things ...*Thing) error {
	for _, t := range things {
		if err := emit(t); err != nil {
			return err
		}
	}
	return nil
}

func (t *Thing) refuse(err error) {
	t.Granted, t.Error, t.Hint = ptr(false), err.Error(), sysexits.Hint(err)
}

// countFiles counts the files of an interval; without one, in an org that does
// not know intervals, all are daily.
func countFiles(ctx context.Context, cfg *Config, interval string, get func(string) *Thing) error {
	soql := "SELECT EventType, COUNT(Id) n, MAX(CreatedDate) newest FROM EventLogFile WHERE CreatedDate >= " +
		salesforce.DateTime(cfg.API.Now().Add(-cfg.Lookback))
	if interval != "" {
		soql += " AND Interval = " + salesforce.Quote(interval)
	}
	for raw, err := range cfg.API.Query(ctx, soql+" GROUP BY EventType") {
		if err != nil {
			return fmt.Errorf("ask which event log files the org has: %w", err)
		}
		var row struct {
			EventType string
			N         int64
			Newest    string
		}
		if err := json.Unmarshal(raw, &row); err != nil || row.EventType == "" {
			return &feed.OddAnswer{Text: fmt.Sprintf("ask which event log files the org has: an odd record: %.80q", raw)}
		}
		t := get(row.EventType)
		if interval == "Hourly" {
			*t.HourlyFiles = row.N
		} else {
			*t.DailyFiles = row.N
		}
		if at, ok := feed.ParseTime([]byte(row.Newest)); ok {
			t.Newest = max(t.Newest, feed.DateTime(at))
		}
	}
	return nil
}

// picklist adds the types that the org knows and has no files of.
func picklist(ctx context.Context, api sobject.API, get func(string) *Thing) error {
	raw, err := api.Get(ctx, "sobjects/EventLogFile/describe")
	if err != nil {
		if v := feed.Judge(err); v == feed.Refused || v == feed.Gone {
			return nil // what has files is known
		}
		return fmt.Errorf("describe EventLogFile: %w", err)
	}
	var d struct {
		Fields []struct {
			Name           string
			PicklistValues []struct{ Value string }
		}
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return &feed.OddAnswer{Text: "describe EventLogFile: the answer describes no object"}
	}
	for _, f := range d.Fields {
		if f.Name == "EventType" {
			for _, v := range f.PicklistValues {
				get(v.Value)
			}
		}
	}
	return nil
}

// keepsEvents tells whether an object of that name is one that is pulled as a rule.
func keepsEvents(name string) bool {
	switch name {
	case "LoginHistory", "SetupAuditTrail", "VerificationHistory":
		return true
	case "Event": // of the calendar
		return false
	}
	return strings.HasSuffix(name, "EventLog") || strings.HasSuffix(name, "EventStore") || strings.HasSuffix(name, "Event")
}

// objects looks at each object that is asked for, by two calls.
func objects(ctx context.Context, cfg *Config, all []sobjectName, emit func(*Thing) error) error {
	var patterns []fnmatch.Pattern
	for _, text := range cfg.Objects {
		p, err := fnmatch.Compile(text)
		if err != nil {
			return err
		}
		patterns = append(patterns, p)
	}
	wanted := func(o sobjectName) bool {
		if o.Name == "EventLogFile" || !o.Queryable {
			return false
		}
		if len(patterns) == 0 {
			return keepsEvents(o.Name)
		}
		return slices.ContainsFunc(patterns, func(p fnmatch.Pattern) bool { return p.Match(o.Name) })
	}
	for _, o := range all {
		if !wanted(o) {
			continue
		}
		facts, err := sobject.Look(ctx, cfg.API, sobject.Object{Name: o.Name})
		t := Thing{Kind: Object, Name: o.Name, Field: facts.Field, CanQuery: ptr(err == nil)}
		if err == nil {
			t.BigObject = ptr(facts.BigObject)
		} else {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if !concerns(err) {
				return err
			}
			t.Error, t.Hint = err.Error(), sysexits.Hint(err)
		}
		if err := emit(&t); err != nil {
			return err
		}
	}
	return nil
}

// concerns tells whether a failure concerns one object only.
func concerns(err error) bool {
	switch salesforce.KindOf(err) {
	case salesforce.KindAuth, salesforce.KindConfig, salesforce.KindLimitTotal, salesforce.KindLimitConcurrent, salesforce.KindReserve,
		salesforce.KindLoginRate, salesforce.KindTransport, salesforce.KindTimeout, salesforce.KindNotJSON:
		return false
	}
	return true
}
