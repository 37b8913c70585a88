package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/eventlog"
	"sf2loki/pkg/pubsub"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sftest"
	"sf2loki/pkg/shape"
	"sf2loki/pkg/sobject"
	"sf2loki/pkg/sysexits"
)

// clinic is an org and what is to be looked at. reopen makes another client.
type clinic struct {
	t      *testing.T
	org    *sftest.Org
	bus    *sftest.Bus
	cfg    Config
	client salesforce.Config
}

func newClinic(t *testing.T, c sftest.Config) *clinic {
	t.Helper()
	org := sftest.NewOrg(c)
	t.Cleanup(org.Close)
	org.DefineObjects()
	bus := org.NewBus(sftest.BusConfig{})
	bus.DefineSamples()
	bus.DefineTopic(sftest.Topic{Name: "/event/FileEvent", CannotSubscribe: true})
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	return &clinic{t: t, org: org, bus: bus,
		client: salesforce.Config{
			LoginURL: org.URL, Auth: salesforce.ClientCredentials, ClientID: org.ClientID,
			ClientSecret: func() (string, error) { return org.ClientSecret, nil },
			Retry:        salesforce.Retry{Attempts: 1}, Log: log,
		},
		cfg: Config{
			Login: "client credentials", Interval: eventlog.Hourly, Lookback: 24 * time.Hour, TmpDir: t.TempDir(),
			PubSub: pubsub.Config{Endpoint: pubsub.Endpoint{Addr: bus.Addr, Plaintext: true}, Log: log,
				Timing: pubsub.Timing{Min: time.Millisecond, Max: time.Millisecond, SlowMin: time.Millisecond, SlowMax: time.Millisecond}},
		}}
}

// files publishes an hour of Login.
func (c *clinic) files() {
	now := c.org.Now()
	hour := sftest.Hour{Type: "Login", Start: now.Truncate(time.Hour).Add(-5 * time.Hour), Rows: 3}
	c.org.AddHour(hour, func(f *sftest.LogFile) { f.Created = now.Add(-time.Hour) })
}

// daily publishes a day of Logout.
func (c *clinic) daily() {
	now := c.org.Now()
	day := now.Truncate(24 * time.Hour).Add(-24 * time.Hour)
	c.org.Know(sftest.Hour{Type: "Logout", Start: day, Rows: 3})
	c.org.AddDay("Logout", day, func(f *sftest.LogFile) { f.Created = now.Add(-time.Hour) })
}

func (c *clinic) examine() ([]Finding, error) {
	c.t.Helper()
	var err error
	if c.cfg.Client, err = salesforce.New(c.client); err != nil {
		c.cfg.Invalid = err
	}
	var list []Finding
	err = Run(context.Background(), c.cfg, func(f Finding) error { list = append(list, f); return nil })
	return list, err
}

func rulesOf(text string, salted bool) func(string) (*shape.Transforms, bool, error) {
	return func(source string) (*shape.Transforms, bool, error) {
		rules, err := shape.ParseTransforms([]byte(text), source, nil)
		return rules, salted, err
	}
}

const hashes = "eventlogfile: [{action: hash, fields: [CLIENT_IP]}]"

// Every row, as good and as bad as it gets: its level, what it says, its cure,
// and the status that the examination ends with.
func TestRows(t *testing.T) {
	forbidden := sftest.Fault{Fixture: "err_403_forbidden_elf.json", Times: -1}
	for _, tt := range []struct {
		name    string
		org     sftest.Config
		prepare func(c *clinic)
		check   string
		level   Level
		detail  string
		cure    string
		code    sysexits.Code
	}{
		{"valid", sftest.Config{}, nil, "config", Pass, "the flags are valid", "", 0},
		{"invalid", sftest.Config{}, func(c *clinic) { c.cfg.Invalid = sysexits.Errorf(sysexits.Usage, "no such flag") }, "config", Fail, "no such flag", "", sysexits.Usage},
		{"login host without its flow", sftest.Config{}, func(c *clinic) { c.client.LoginURL = "https://login.salesforce.com" }, "config", Fail, "does not take client credentials", "", sysexits.Config},
		{"after an invalid one", sftest.Config{}, func(c *clinic) { c.cfg.Invalid = errors.New("x") }, "login", Skip, "an earlier check failed", "", sysexits.TempFail},

		{"none", sftest.Config{}, nil, "rules", Skip, "there are no --transforms", "", 0},
		{"salted", sftest.Config{}, func(c *clinic) { c.cfg.Rules = rulesOf(hashes, true) }, "rules", Pass, "rules for 1 sources", "", 0},
		{"unsalted", sftest.Config{}, func(c *clinic) { c.cfg.Rules = rulesOf(hashes, false) }, "rules", Warn, "hash without a salt", "--transform-salt-file", 0},
		{"of no source", sftest.Config{}, func(c *clinic) { c.cfg.Rules, c.cfg.Sources = rulesOf(hashes, true), []string{Logs} }, "rules", Warn, "no rules for these sources", "eventlogfile", 0},
		{"bad rules", sftest.Config{}, func(c *clinic) {
			c.cfg.Rules = func(string) (*shape.Transforms, bool, error) {
				return nil, false, sysexits.Errorf(sysexits.Config, "line 1: bad")
			}
		}, "rules", Fail, "line 1: bad", "", sysexits.Config},

		{"room", sftest.Config{}, nil, "tmpdir", Pass, "has room for", "", 0},
		{"no directory", sftest.Config{}, func(c *clinic) { c.cfg.TmpDir += "/none" }, "tmpdir", Warn, "no such file or directory", "", 0},
		{"no directory for files", sftest.Config{}, func(c *clinic) { c.cfg.TmpDir += "/none"; c.cfg.Sources = []string{Files} }, "tmpdir", Fail, "no such file or directory", "", sysexits.CantCreat},
		{"not for files", sftest.Config{}, func(c *clinic) { c.cfg.Sources = []string{Logs} }, "tmpdir", Skip, "nothing of eventlogfile", "", 0},

		{"good", sftest.Config{}, nil, "login", Pass, "org 00Dxx0000001gPLEAY", "", 0},
		{"wrong secret", sftest.Config{}, func(c *clinic) { c.client.ClientSecret = func() (string, error) { return "x", nil } }, "login", Fail, "invalid_client", "does not fit", sysexits.NoPerm},
		{"no run-as user", sftest.Config{NoRunAsUser: true}, nil, "login", Fail, "no client credentials user enabled", "user", sysexits.NoPerm},
		{"a login host", sftest.Config{GenericLogin: true}, nil, "login", Fail, "request not supported on this domain", "My Domain", sysexits.Config},
		{"another org", sftest.Config{}, func(c *clinic) { c.client.OrgID = "00Dxx0000009zzzEAA" }, "login", Fail, "00Dxx0000001gPL", "", sysexits.Config},
		{"nobody there", sftest.Config{}, func(c *clinic) { c.client.LoginURL = "http://127.0.0.1:1" }, "login", Fail, "connection refused", "", sysexits.Unavailable},
		{"maintenance", sftest.Config{}, func(c *clinic) { c.org.Fault("/token", sftest.Fault{Fixture: "maintenance_503.html", Times: -1}) }, "login", Fail, "503", "maintenance", sysexits.TempFail},
		{"wrong audience", sftest.Config{Sandbox: true}, jwt, "login", Fail, "audience is invalid", "audience", sysexits.Config},

		{"its own", sftest.Config{}, nil, "host", Pass, "the org's own", "", 0},
		{"a sandbox that is said to be none", sftest.Config{InstanceURL: "http://acme--dev.sandbox.invalid"}, func(c *clinic) { c.cfg.Environment = "production" }, "host", Warn, "is a sandbox", "--environment sandbox", sysexits.Unavailable},

		{"in time", sftest.Config{}, nil, "clock", Pass, "agrees", "", 0},
		{"a minute", sftest.Config{}, func(c *clinic) { c.org.SetSkew(70 * time.Second) }, "clock", Warn, "ahead of this machine's", "NTP", 0},
		{"too much", sftest.Config{}, func(c *clinic) { c.org.SetSkew(-time.Hour) }, "clock", Warn, "behind this machine's; logins by JWT fail", "NTP", 0},
		{"not logged in", sftest.Config{}, func(c *clinic) { c.client.LoginURL = "http://127.0.0.1:1" }, "clock", Skip, "not logged in", "", sysexits.Unavailable},

		{"plenty", sftest.Config{}, nil, "api_calls", Pass, "of 100000 calls", "", 0},
		{"few", sftest.Config{}, func(c *clinic) { c.org.SetUsage(85_000, 100_000) }, "api_calls", Warn, "calls of the last 24 hours are left", "--api-reserve", 0},
		{"less than the reserve", sftest.Config{}, func(c *clinic) {
			c.org.SetUsage(95_000, 100_000)
			c.cfg.Reserve = salesforce.Reserve{Percent: 10}
		}, "api_calls", Fail, "less than --api-reserve", "lower --api-reserve", sysexits.TempFail},
		{"not told", sftest.Config{}, func(c *clinic) { c.org.Fault("/limits", sftest.Fault{Body: `{"Other":{"Max":1}}`}) }, "api_calls", Warn, "does not tell", "", 0},
		{"no right to see, but the header tells", sftest.Config{}, func(c *clinic) {
			c.org.Fault("/limits", sftest.Fault{Fixture: "err_403_forbidden_elf.json", Header: map[string][]string{"Sforce-Limit-Info": {"api-usage=10/100"}}})
		}, "api_calls", Pass, "90 of 100", "", 0},
		{"broken", sftest.Config{}, func(c *clinic) { c.org.Fault("/limits", sftest.Fault{Fixture: "err_500_unknown.json", Times: -1}) }, "api_calls", Fail, "500", "", sysexits.TempFail},
		{"not logged in", sftest.Config{}, func(c *clinic) { c.client.LoginURL = "http://127.0.0.1:1" }, "api_calls", Skip, "not logged in", "", sysexits.Unavailable},

		{"granted", sftest.Config{}, (*clinic).files, "event_log_files", Pass, "1 hourly and 0 daily", "", 0},
		{"forbidden", sftest.Config{}, func(c *clinic) { c.org.Fault("FROM EventLogFile", forbidden) }, "event_log_files", Warn, "403", "View Event Log Files", 0},
		{"forbidden and wanted", sftest.Config{}, func(c *clinic) { c.org.Fault("FROM EventLogFile", forbidden); c.cfg.Sources = []string{Files} }, "event_log_files", Fail, "403", "View Event Log Files", sysexits.NoPerm},
		{"broken", sftest.Config{}, func(c *clinic) {
			c.org.Fault("FROM EventLogFile", sftest.Fault{HTML: true, Times: -1})
			c.cfg.Sources = []string{Files}
		}, "event_log_files", Fail, "down for maintenance", "maintenance", sysexits.TempFail},

		{"hourly", sftest.Config{}, (*clinic).files, "hourly_event_log_files", Pass, "the org shows them", "", 0},
		{"no hourly", sftest.Config{NoHourly: true}, nil, "hourly_event_log_files", Warn, "shows this user none", "--interval Daily", 0},
		{"no hourly and wanted", sftest.Config{NoHourly: true}, func(c *clinic) { c.cfg.Sources = []string{Files} }, "hourly_event_log_files", Fail, "shows this user none", "--interval Daily", sysexits.Config},
		{"daily ones only", sftest.Config{}, (*clinic).daily, "hourly_event_log_files", Warn, "daily files and no hourly ones", "--interval Daily", 0}, // C19

		{"there", sftest.Config{}, types((*clinic).files, "Login"), "event_type Login", Pass, "1 hourly files", "", 0},
		{"no file", sftest.Config{}, types((*clinic).files, "API"), "event_type API", Warn, "no hourly file", "licence", 0},
		{"misspelt", sftest.Config{}, types((*clinic).files, "Lgoin"), "event_type Lgoin", Warn, "knows no event type", "did you mean Login?", 0},
		{"misspelt and wanted", sftest.Config{}, func(c *clinic) { types((*clinic).files, "Lgoin")(c); c.cfg.Sources = []string{Files} }, "event_type Lgoin", Fail, "knows no event type", "did you mean Login?", sysexits.Config},
		{"pattern", sftest.Config{}, types((*clinic).files, "Log*"), "event_type Log*", Pass, "1 have hourly files", "", 0},
		{"pattern of nothing", sftest.Config{}, types((*clinic).files, "Xyz*"), "event_type Xyz*", Warn, "0 have hourly files", "sf-pull discover", 0},

		{"none", sftest.Config{}, nil, "objects", Skip, "no --object", "", 0},
		{"ordinary", sftest.Config{}, objects(false, "LoginHistory"), "object LoginHistory", Pass, "pulled by LoginTime", "", 0},
		{"big", sftest.Config{}, objects(false, "LoginEvent"), "object LoginEvent", Pass, "a Big Object", "", 0},
		{"unknown", sftest.Config{}, objects(false, "NoSuch"), "object NoSuch", Warn, "404", "sf-pull discover", 0},
		{"unknown and wanted", sftest.Config{}, objects(true, "NoSuch"), "object NoSuch", Fail, "404", "sf-pull discover", sysexits.Config},
		{"no field", sftest.Config{}, objects(true, "User"), "object User", Fail, "has no field CreatedDate", "", sysexits.Config},

		{"none", sftest.Config{}, nil, "topics", Skip, "no --topic", "", 0},
		{"may", sftest.Config{}, topics(true, "/event/LoginEventStream"), "topic /event/LoginEventStream", Pass, "may subscribe", "", 0},
		{"may not", sftest.Config{}, topics(true, "/event/FileEvent"), "topic /event/FileEvent", Fail, "may not subscribe", "read permission", sysexits.NoPerm}, // #119
		{"may not, and nobody wants it", sftest.Config{}, topics(false, "/event/FileEvent"), "topic /event/FileEvent", Warn, "may not subscribe", "read permission", 0},
		{"unknown", sftest.Config{}, topics(true, "/event/Nothing__e"), "topic /event/Nothing__e", Fail, "not found", "check its name", sysexits.Config},
		{"a pattern of nothing", sftest.Config{}, topics(true, "/event/Xyz*"), "topics", Fail, "no topic of this org", "sf-pull discover", sysexits.Config},
		{"one of a pattern", sftest.Config{}, topics(true, "/event/Fi*"), "topic /event/FileEvent", Warn, "may not subscribe", "read permission", sysexits.Config},
		{"no bus", sftest.Config{}, func(c *clinic) {
			topics(true, "/event/LoginEventStream")(c)
			c.cfg.PubSub.Endpoint.Addr = "127.0.0.1:1"
		}, "topic /event/LoginEventStream", Fail, "Unavailable", "", sysexits.Unavailable},
		{"no bus for a pattern", sftest.Config{}, func(c *clinic) {
			topics(true, "/event/Login*")(c)
			c.cfg.PubSub.Endpoint.Addr = "127.0.0.1:1"
		}, "topic /event/LoginEventStream", Fail, "Unavailable", "", sysexits.Unavailable},

		{"none", sftest.Config{}, nil, "trace_flags", Warn, "no trace flag is active", "Setup > Debug Logs", 0},
		{"one", sftest.Config{}, func(c *clinic) { c.org.AddTraceFlag("", c.org.Now().Add(time.Hour)) }, "trace_flags", Pass, "1 trace flags are active", "", 0},
		{"over", sftest.Config{}, func(c *clinic) { c.org.AddTraceFlag("", c.org.Now().Add(-time.Hour)) }, "trace_flags", Warn, "no trace flag is active", "", 0},
		{"no right", sftest.Config{}, func(c *clinic) { c.org.Fault("TraceFlag", forbidden) }, "trace_flags", Warn, "403", "", 0},
		{"not wanted", sftest.Config{}, func(c *clinic) { c.cfg.Sources = []string{Files} }, "trace_flags", Skip, "nothing of apexlog", "", 0},
	} {
		t.Run(tt.check+"/"+tt.name, func(t *testing.T) {
			c := newClinic(t, tt.org)
			if tt.prepare != nil {
				tt.prepare(c)
			}
			list, err := c.examine()
			if sysexits.Of(err) != tt.code {
				t.Errorf("the end is %v, %d", err, sysexits.Of(err))
			}
			var all []string
			for _, f := range list {
				all = append(all, fmt.Sprintf("%s %s: %s | %s", f.Level, f.Check, f.Detail, f.Cure))
				if f.Check == tt.check && f.Level == tt.level && strings.Contains(f.Detail, tt.detail) && strings.Contains(f.Cure, tt.cure) {
					if f.Level != Fail && f.Code != 0 || f.Level == Fail && f.Code == 0 {
						t.Errorf("the status of %+v", f)
					}
					return
				}
			}
			t.Errorf("no such row among\n%s", strings.Join(all, "\n"))
		})
	}
}

func jwt(c *clinic) {
	c.client.Auth, c.client.Username = salesforce.JWT, c.org.Username
	c.client.PrivateKey = func() (string, error) { return c.org.PrivateKeyPEM(), nil }
	c.client.Audience = "https://login.salesforce.com"
}

func types(prepare func(*clinic), names ...string) func(*clinic) {
	return func(c *clinic) {
		prepare(c)
		c.cfg.Types = eventlog.TypeList{Include: names}
	}
}

func objects(wanted bool, name string) func(*clinic) {
	return func(c *clinic) {
		c.cfg.Objects = []sobject.Object{{Name: name}}
		if wanted {
			c.cfg.Sources = []string{Objects}
		}
	}
}

func topics(wanted bool, name string) func(*clinic) {
	return func(c *clinic) {
		c.cfg.PubSub.Topics.Names = []string{name}
		if wanted {
			c.cfg.Sources = []string{PubSub}
		}
	}
}

// The status is that of the first failure, and every row comes whatever the
// one before it says.
func TestAllRowsCome(t *testing.T) {
	c := newClinic(t, sftest.Config{NoHourly: true})
	c.cfg.Sources = []string{Files, Objects}
	c.cfg.Objects = []sobject.Object{{Name: "NoSuch"}}
	c.cfg.TmpDir = "/none"
	list, err := c.examine()
	if sysexits.Of(err) != sysexits.CantCreat || !strings.Contains(err.Error(), "tmpdir") {
		t.Errorf("the end is %v", err)
	}
	want := "config rules tmpdir login host clock api_calls event_log_files hourly_event_log_files object NoSuch topics trace_flags"
	var names []string
	for _, f := range list {
		names = append(names, f.Check)
	}
	if got := strings.Join(names, " "); got != want {
		t.Errorf("rows are %s", got)
	}
}

// A reader that has gone ends it all.
func TestNobodyReads(t *testing.T) {
	c := newClinic(t, sftest.Config{})
	c.cfg.Client, _ = salesforce.New(c.client)
	gone := sysexits.Wrap(sysexits.IOErr, os.ErrClosed)
	rows := 0
	err := Run(context.Background(), c.cfg, func(Finding) error { rows++; return gone })
	if !errors.Is(err, os.ErrClosed) || rows != 1 {
		t.Errorf("%d rows, %v", rows, err)
	}
}
