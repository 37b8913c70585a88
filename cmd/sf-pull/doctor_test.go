package main

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"sf2loki/pkg/sftest"
)

func TestDoctorScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/doctor", RequireExplicitExec: true, UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Values["org"] = new(*sftest.Org)
			env.Setenv("TMPDIR", env.WorkDir)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"org": doctorCommand},
	})
}

// doctorCommand starts and steers a simulated org that has objects and a bus:
//
//	org start [no-hourly]        and sets the flags' environment to it
//	org files                    an hour of Login, and a day of Logout
//	org trace                    a trace flag
//	org fault MATCH JSON         the next requests that match fail so
//	org clear                    no more faults
//	org usage USED MAX           the day's calls
//	org skew DURATION            its clock is ahead
func doctorCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: org VERB ARGS")
	}
	slot := ts.Value("org").(**sftest.Org)
	if args[0] == "start" {
		*slot = startDoctorOrg(ts, len(args) > 1)
		return
	}
	org := *slot
	number := func(i int) int64 {
		n, err := strconv.ParseInt(args[i], 10, 64)
		ts.Check(err)
		return n
	}
	switch args[0] {
	case "files":
		hour := org.Now().Truncate(time.Hour).Add(-5 * time.Hour)
		org.AddHour(sftest.Hour{Type: "Login", Start: hour, Rows: 3})
		org.Know(sftest.Hour{Type: "Logout", Start: hour, Rows: 3})
		org.AddDay("Logout", hour.Truncate(24*time.Hour))
	case "trace":
		org.AddTraceFlag("", org.Now().Add(time.Hour))
	case "fault":
		var f sftest.Fault
		ts.Check(json.Unmarshal([]byte(args[2]), &f))
		org.Fault(args[1], f)
	case "clear":
		org.ClearFaults()
	case "usage":
		org.SetUsage(number(1), number(2))
	case "skew":
		d, err := time.ParseDuration(args[1])
		ts.Check(err)
		org.SetSkew(d)
	default:
		ts.Fatalf("org: unknown verb %s", args[0])
	}
}

// startDoctorOrg starts an org whose clock is the machine's.
func startDoctorOrg(ts *testscript.TestScript, noHourly bool) *sftest.Org {
	org := sftest.NewOrg(sftest.Config{NoHourly: noHourly, Now: time.Now})
	ts.Defer(org.Close)
	org.DefineObjects()
	bus := org.NewBus(sftest.BusConfig{})
	bus.DefineSamples()
	bus.DefineTopic(sftest.Topic{Name: "/event/FileEvent", CannotSubscribe: true})
	ts.Setenv("SF_PULL_ENDPOINT", "http://"+bus.Addr)
	ts.Setenv("SF_PULL_LOGIN_URL", org.URL)
	ts.Setenv("SF_PULL_AUTH", "client-credentials")
	ts.Setenv("SF_PULL_CLIENT_ID", org.ClientID)
	ts.Setenv("SF_PULL_CLIENT_SECRET", org.ClientSecret)
	ts.Setenv("SF_PULL_USERNAME", org.Username)
	ts.Setenv("SF_PULL_PRIVATE_KEY", org.PrivateKeyPEM())
	return org
}
