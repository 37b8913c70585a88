package main

import (
	"encoding/json"
	"flag"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"sf2loki/pkg/cli/clitest"
	"sf2loki/pkg/sftest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"sf-pull": main})
}

var update = flag.Bool("update", false, "write what the scripts compare")

// now is the time in the simulated org.
var now = time.Date(2026, 7, 3, 12, 0, 0, 0, time.UTC)

func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Values["org"] = new(*sftest.Org)
			env.Setenv("FIXTURES", fixtures(t))
			env.Setenv("TMPDIR", env.WorkDir)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"org": orgCommand},
	})
}

func fixtures(t *testing.T) string {
	t.Helper()
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return wd + "/../../pkg/eventlog/testdata"
}

// orgCommand starts and steers a simulated org:
//
//	org start [no-hourly]        and sets the flags' environment to it
//	org hour TYPE HOUR ROWS      publish a file of 2026-07-02
//	org day TYPE                 publish the day's file
//	org fault MATCH JSON         the next requests that match fail so
//	org clear                    no more faults
//	org usage USED MAX           what the allowance header says
//	org purge N                  the Nth file can be listed, not downloaded
//	org downloads N              so many downloads have been made
func orgCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: org VERB ARGS")
	}
	slot := ts.Value("org").(**sftest.Org)
	if args[0] == "start" {
		*slot = startOrg(ts, len(args) > 1)
		return
	}
	org := *slot
	day := now.Truncate(24 * time.Hour).Add(-24 * time.Hour)
	number := func(i int) int {
		n, err := strconv.Atoi(args[i])
		ts.Check(err)
		return n
	}
	switch args[0] {
	case "hour":
		org.AddHour(sftest.Hour{Type: args[1], Start: day.Add(time.Duration(number(2)) * time.Hour), Rows: number(3)})
	case "day":
		org.AddDay(args[1], day)
	case "fault":
		var f sftest.Fault
		ts.Check(json.Unmarshal([]byte(args[2]), &f))
		org.Fault(args[1], f)
	case "clear":
		org.ClearFaults()
	case "usage":
		org.SetUsage(int64(number(1)), int64(number(2)))
	case "downloads":
		if n := len(org.Requests("/LogFile")); n != number(1) {
			ts.Fatalf("%d downloads", n)
		}
	default:
		ts.Fatalf("org: unknown verb %s", args[0])
	}
}

func startOrg(ts *testscript.TestScript, noHourly bool) *sftest.Org {
	org := sftest.NewOrg(sftest.Config{NoHourly: noHourly, Now: func() time.Time { return now }})
	ts.Defer(org.Close)
	ts.Setenv("SF_PULL_LOGIN_URL", org.URL)
	ts.Setenv("SF_PULL_AUTH", "client-credentials")
	ts.Setenv("SF_PULL_CLIENT_ID", org.ClientID)
	ts.Setenv("SF_PULL_CLIENT_SECRET", org.ClientSecret)
	ts.Setenv("SF_PULL_LOOKBACK", "30d")
	ts.Setenv("ORG_ID", org.ID)
	ts.Setenv("USERNAME_OF_ORG", org.Username)
	ts.Check(os.WriteFile(ts.MkAbs("key.pem"), []byte(org.PrivateKeyPEM()), 0o600))
	return org
}

func TestManual(t *testing.T) { clitest.Manual(t, "sf-pull", newRoot) }
