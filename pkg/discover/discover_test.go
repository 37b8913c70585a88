package discover

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sysexits"
)

// org answers by the beginning of what it is asked for, the longest that it
// knows; what it has no answer to is not found.
type org map[string]any // a JSON text, JSON texts or an error

func (o org) find(text string) any {
	best := ""
	for begin := range o {
		if strings.HasPrefix(text, begin) && len(begin) > len(best) {
			best = begin
		}
	}
	if best != "" {
		return o[best]
	}
	return &salesforce.Error{Op: "get", Kind: salesforce.KindNotFound, Message: "none: " + text}
}

func (o org) Now() time.Time { return time.Date(2026, 7, 2, 12, 0, 0, 0, time.UTC) }

func (o org) Get(_ context.Context, path string) ([]byte, error) {
	switch a := o.find(path).(type) {
	case error:
		return nil, a
	default:
		return []byte(a.(string)), nil
	}
}

func (o org) Query(_ context.Context, soql string) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		switch a := o.find(soql).(type) {
		case error:
			yield(nil, a)
		case []string:
			for _, text := range a {
				if !yield(json.RawMessage(text), nil) {
					return
				}
			}
		}
	}
}

func (o org) QueryTooling(ctx context.Context, soql string) iter.Seq2[json.RawMessage, error] {
	return o.Query(ctx, soql)
}

const (
	objectsPath = "sobjects/"
	channels    = "SELECT DeveloperName"
	files       = "SELECT EventType"
	describe    = "sobjects/EventLogFile/describe"

	// since is how files of the look-back are asked for.
	since = "SELECT EventType, COUNT(Id) n, MAX(CreatedDate) newest FROM EventLogFile WHERE CreatedDate >= 2026-07-02T11:00:00.000Z"
)

func TestRun(t *testing.T) {
	objects := `{"sobjects":[{"name":"Shipped__e"},{"name":"LoginEvent","queryable":true},{"name":"LoginEventStream"},{"name":"Account","queryable":true}]}`
	denied := &salesforce.Error{Op: "query", Kind: salesforce.KindPermission, Message: "no right"}
	broken := &salesforce.Error{Op: "query", Kind: salesforce.KindTransport, Message: "no network"}
	noField := &salesforce.Error{Op: "query", Kind: salesforce.KindField, Message: "no column Interval"}
	silent := sysexits.Wrap(sysexits.Unavailable, errors.New("no bus"))
	refusal := sysexits.Wrap(sysexits.NoPerm, errors.New("not yours"))
	topics := func(errs ...error) func(context.Context, []string) ([]error, error) {
		return func(_ context.Context, names []string) ([]error, error) {
			return slices.Concat(errs, make([]error, len(names)-len(errs))), nil
		}
	}
	for _, tt := range []struct {
		name string
		org  org
		kind string

		objects []string
		may     func(context.Context, []string) ([]error, error)
		want    []string
		err     string
		code    sysexits.Code
	}{
		{
			name: "topics", kind: Topic, may: topics(nil, refusal),
			org: org{objectsPath: objects, channels: []string{`{"DeveloperName":"Orders","ChannelType":"event"}`}},
			want: []string{
				`{"kind":"topic","name":"/event/LoginEventStream","monitoring":true,"stored_as":"LoginEvent","can_subscribe":true}`,
				`{"kind":"topic","name":"/event/Shipped__e","monitoring":false,"can_subscribe":false,"error":"not yours"}`,
				`{"kind":"topic","name":"/event/Orders__chn","monitoring":false,"can_subscribe":true}`,
			},
		},
		{
			name: "nobody asks the bus, channels are not to be seen", kind: Topic, org: org{objectsPath: objects, channels: denied},
			want: []string{
				`{"kind":"entitlement","name":"custom_channels","granted":false,"error":"`,
				`{"kind":"topic","name":"/event/LoginEventStream","monitoring":true,"stored_as":"LoginEvent"}`,
				`{"kind":"topic","name":"/event/Shipped__e","monitoring":false}`,
			},
		},
		{
			name: "the bus does not answer", kind: Topic, org: org{objectsPath: objects, channels: []string{}},
			may: func(context.Context, []string) ([]error, error) { return nil, silent },
			want: []string{
				`{"kind":"topic","name":"/event/LoginEventStream","monitoring":true,"stored_as":"LoginEvent"}`,
				`{"kind":"topic","name":"/event/Shipped__e","monitoring":false}`,
			},
			err: "ask which topics may be subscribed to: no bus", code: sysexits.Unavailable,
		},
		{
			name: "the bus falls silent", kind: Topic, may: topics(nil, silent), org: org{objectsPath: objects, channels: []string{}},
			want: []string{
				`{"kind":"topic","name":"/event/LoginEventStream","monitoring":true,"stored_as":"LoginEvent","can_subscribe":true}`,
				`{"kind":"topic","name":"/event/Shipped__e","monitoring":false,"error":"no bus"}`,
			},
			err: "no bus", code: sysexits.Unavailable,
		},
		{
			name: "channels cannot be asked for", kind: Topic, org: org{objectsPath: objects, channels: broken},
			err: "no network", code: sysexits.Software,
		},
		{
			name: "files", kind: EventType,
			org: org{objectsPath: objects, files: []string{`{"EventType":"Login","n":3,"newest":"2026-07-02T10:00:00.000+0000"}`}},
			want: []string{
				`{"kind":"entitlement","name":"event_log_files","granted":true}`,
				`{"kind":"entitlement","name":"hourly_event_log_files","granted":true}`,
				`{"kind":"event_type","name":"Login","hourly_files":3,"daily_files":3,"newest":"2026-07-02T10:00:00.000Z"}`,
			},
		},
		{
			name: "files that the user may not see", kind: EventType, org: org{objectsPath: objects, files: denied},
			want: []string{
				`{"kind":"entitlement","name":"event_log_files","granted":false,"error":"`,
				`{"kind":"entitlement","name":"hourly_event_log_files","granted":false,"error":"`,
			},
		},
		{
			name: "an odd record of files", kind: EventType, org: org{objectsPath: objects, files: []string{`[]`}},
			err: "an odd record: \"[]\"", code: sysexits.Software,
		},
		{
			name: "files of both intervals, and types without any", kind: EventType,
			org: org{
				objectsPath: objects,
				since + " AND Interval = 'Daily' GROUP BY EventType":  []string{`{"EventType":"Login","n":1,"newest":"2026-07-02T02:00:00.000+0000"}`},
				since + " AND Interval = 'Hourly' GROUP BY EventType": []string{`{"EventType":"Login","n":9,"newest":"2026-07-02T11:00:00.000+0000"}`, `{"EventType":"API","n":2}`},
				describe: `{"fields":[{"name":"Interval","picklistValues":[{"value":"Hourly"}]},{"name":"EventType","picklistValues":[{"value":"Login"},{"value":"Report"}]}]}`,
			},
			want: []string{
				`{"kind":"entitlement","name":"event_log_files","granted":true}`,
				`{"kind":"entitlement","name":"hourly_event_log_files","granted":true}`,
				`{"kind":"event_type","name":"API","hourly_files":2,"daily_files":0}`,
				`{"kind":"event_type","name":"Login","hourly_files":9,"daily_files":1,"newest":"2026-07-02T11:00:00.000Z"}`,
				`{"kind":"event_type","name":"Report","hourly_files":0,"daily_files":0}`,
			},
		},
		{
			name: "files without intervals", kind: EventType, // all are daily ones
			org: org{
				objectsPath: objects, since + " AND Interval": noField,
				since + " GROUP BY EventType": []string{`{"EventType":"Login","n":4}`}, describe: denied,
			},
			want: []string{
				`{"kind":"entitlement","name":"event_log_files","granted":true}`,
				`{"kind":"entitlement","name":"hourly_event_log_files","granted":false,"error":"ask which event log files the org has: query: no column Interval"}`,
				`{"kind":"event_type","name":"Login","hourly_files":0,"daily_files":4}`,
			},
		},
		{
			name: "files cannot be asked for", kind: EventType, org: org{objectsPath: objects, files: broken},
			err: "which event log files the org has: query: no network", code: sysexits.Software,
		},
		{
			name: "files without intervals cannot be asked for", kind: EventType,
			org: org{objectsPath: objects, since + " AND Interval": noField, since + " GROUP BY EventType": broken},
			err: "no network", code: sysexits.Software,
		},
		{
			name: "types cannot be asked for", kind: EventType, org: org{objectsPath: objects, files: []string{}, describe: broken},
			err: "describe EventLogFile: query: no network", code: sysexits.Software,
		},
		{
			name: "an odd answer about types", kind: EventType, org: org{objectsPath: objects, files: []string{}, describe: `[]`},
			err: "the answer describes no object", code: sysexits.Software,
		},
		{
			name: "objects that are asked for", kind: Object, objects: []string{"Acc*", "EventLogFile", "LoginEventStream"},
			org: org{
				objectsPath: objects, "sobjects/Account/describe": `{"name":"Account","queryable":true,"fields":[{"name":"CreatedDate","type":"datetime"}]}`,
				"SELECT FIELDS": []string{},
			},
			want: []string{`{"kind":"object","name":"Account","field":"CreatedDate","big_object":false,"can_query":true}`},
		},
		{
			name: "objects by a pattern that is none", kind: Object, objects: []string{"[z-"}, org: org{objectsPath: objects},
			err: "[z-", code: sysexits.Software,
		},
		{
			name: "objects cannot be asked for", kind: Object, org: org{objectsPath: objects, "sobjects/LoginEvent/describe": broken},
			err: "describe LoginEvent: query: no network", code: sysexits.Software,
		},
		{name: "the org cannot be asked", kind: Object, org: org{objectsPath: broken}, err: "which objects the org has: query: no network", code: sysexits.Software},
		{
			name: "objects", kind: Object, // of those that keep events one, whose query is refused
			org: org{objectsPath: objects, "sobjects/LoginEvent/describe": denied, "SELECT FIELDS": denied},
			want: []string{
				`{"kind":"object","name":"LoginEvent","field":"EventDate","can_query":false,"error":"`,
			},
		},
		{name: "no objects at all", kind: Topic, org: org{objectsPath: `{}`}, err: "the answer lists none", code: sysexits.Software},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			cfg := Config{API: tt.org, Kinds: []string{tt.kind}, Objects: tt.objects, Lookback: time.Hour, MaySubscribe: tt.may}
			err := Run(t.Context(), cfg, func(thing *Thing) error {
				text, err := json.Marshal(thing)
				got = append(got, string(text))
				return err
			})
			if sysexits.Of(err) != tt.code || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("status %d, %v", sysexits.Of(err), err)
			}
			if !slices.EqualFunc(got, tt.want, func(g, w string) bool { return g == w || strings.HasSuffix(w, `"`) && strings.HasPrefix(g, w) }) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// Without patterns, what is pulled as a rule is listed: what keeps events,
// logins and audit trails, and not what only sounds like it.
func TestKeepsEvents(t *testing.T) {
	for name, want := range map[string]bool{
		"LoginEvent": true, "ApiAnomalyEventStore": true, "ApexCalloutEventLog": true, "LoginHistory": true, "SetupAuditTrail": true,
		"VerificationHistory": true, "Event": false, "EventLogFile": false, "Account": false, "AccountHistory": false, "LoginEventStream": false,
	} {
		if got := keepsEvents(name); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
}

// A listing that cannot be written ends with the reason, and at once.
func TestWriteFails(t *testing.T) {
	full := errors.New("full")
	for _, kind := range []string{Topic, EventType, Object} {
		n := 0
		cfg := Config{Kinds: []string{kind}, API: org{
			objectsPath: `{"sobjects":[{"name":"LoginEvent","queryable":true},{"name":"LoginEventStream"}]}`, channels: []string{}, files: []string{`{"EventType":"Login"}`},
		}}
		err := Run(t.Context(), cfg, func(*Thing) error { n++; return full })
		if !errors.Is(err, full) || n != 1 {
			t.Errorf("%s: %v after %d lines", kind, err, n)
		}
	}
}
