package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"sf2loki/pkg/sftest"
)

func TestFeedScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/feed", RequireExplicitExec: true, UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Values["org"] = new(*sftest.Org)
			env.Setenv("TMPDIR", env.WorkDir)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"org": feedCommand},
	})
}

// feedCommand starts and steers a simulated org that has objects:
//
//	org start [no-hourly]        and sets the flags' environment to it
//	org logins N AGO             login history, one a second
//	org events N AGO             stored login events, one a second
//	org log AGO BODY             a debug log
//	org purged AGO               one whose body is gone
//	org hour TYPE HOUR ROWS      publish a file of 2026-07-02
//	org fault MATCH JSON         the next requests that match fail so
func feedCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: org VERB ARGS")
	}
	slot := ts.Value("org").(**sftest.Org)
	if args[0] == "start" {
		*slot = startOrg(ts, len(args) > 1)
		ts.Setenv("SF_PULL_LOOKBACK", "")
		(*slot).DefineObjects()
		bus := (*slot).NewBus(sftest.BusConfig{})
		bus.DefineSamples()
		bus.DefineTopic(sftest.Topic{Name: "/event/FileEvent", CannotSubscribe: true})
		bus.DefineTopic(sftest.Topic{Name: "/event/Orders__chn", Members: []string{"/event/Order_Shipped__e"}})
		ts.Setenv("SF_PULL_ENDPOINT", "http://"+bus.Addr)
		return
	}
	org := *slot
	ago := func(i int) time.Time {
		d, err := time.ParseDuration(args[i])
		ts.Check(err)
		return now.Add(-d)
	}
	number := func(i int) int {
		n, err := strconv.Atoi(args[i])
		ts.Check(err)
		return n
	}
	switch args[0] {
	case "logins":
		for i := range number(1) {
			org.Insert("LoginHistory", sftest.Row{"UserId": org.UserID, "LoginTime": ago(2).Add(time.Duration(i) * time.Second), "Status": "Success"})
		}
	case "events":
		for i := range number(1) {
			org.Insert("LoginEvent", sftest.Row{"EventDate": ago(2).Add(time.Duration(i) * time.Second), "EventIdentifier": fmt.Sprintf("5f1c3b60-0000-4000-8000-%012d", i), "Status": "Success"})
		}
	case "log":
		org.AddApexLog(sftest.ApexLog{Start: ago(1), Body: args[2]})
	case "purged":
		org.AddApexLog(sftest.ApexLog{Start: ago(1), Body: "x", Gone: true})
	case "hour":
		org.AddHour(sftest.Hour{Type: args[1], Start: now.Truncate(24 * time.Hour).Add(time.Duration(number(2)-24) * time.Hour), Rows: number(3)})
	case "fault":
		var f sftest.Fault
		ts.Check(json.Unmarshal([]byte(args[2]), &f))
		org.Fault(args[1], f)
	default:
		ts.Fatalf("org: unknown verb %s", args[0])
	}
}
