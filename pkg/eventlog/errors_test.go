package eventlog

import (
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sftest"
	"sf2loki/pkg/sftest/answertest"
	"sf2loki/pkg/sysexits"
)

// Every answer of an org that is no good one, in every place where it can come:
// the status of the run, and nothing is lost by it.
func TestErrorAnswers(t *testing.T) {
	for _, place := range []answertest.Place{
		{Name: "listing", Match: "/query?", Fates: answertest.Listing()},
		{Name: "download", Match: "/LogFile", Fates: answertest.Body()},
		{Name: "login", Match: "/token", Session: "/query?", Fates: answertest.Login()},
	} {
		place.Each(t, func(t *testing.T, run answertest.Run) {
			b := newBench(t)
			b.retry = salesforce.Retry{Attempts: 2, Min: time.Nanosecond, Max: time.Nanosecond}
			b.org.AddHour(login(10, 5))
			b.org.AddHour(login(11, 5))
			run.Arm(b.org)
			err := b.pull("Login")
			if got := sysexits.Of(err); got != run.Want {
				t.Errorf("%d, want %d: %v", got, run.Want, err)
			}
			rows, gaps := len(b.rows()), len(b.gaps())
			b.org.ClearFaults()
			if err := b.pull("Login"); err != nil {
				t.Fatalf("the next run: %v", err)
			}
			if rows += len(b.rows()); rows != 10-5*(gaps+len(b.gaps())) {
				t.Errorf("%d rows and %d gaps in all", rows, gaps)
			}
		})
	}
}

// Answers that are none of Salesforce's are waited out, and nothing is lost.
func TestOddAnswers(t *testing.T) {
	record := func(text string) string { return `{"totalSize":1,"done":true,"records":[` + text + `]}` }
	for _, odd := range []struct{ match, body string }{
		{"/describe", `[]`},
		{"/describe", `{"fields":[{"name":1}]}`},
		{"/query?", `{"totalSize":"x","done":"yes","records":{}}`},
		{"/query?", record(`null`)},
		{"/query?", record(`{"Id":null}`)},
		{"/query?", record(`{"Id":7}`)},
		{"/query?", record(`{"Id":"0ATxx0000000001AAA","CreatedDate":"yesterday"}`)},
		{"/query", `{"totalSize":1,"done":false,"nextRecordsUrl":"/services/data/v62.0/query/01gB","records":[]}`},
	} {
		b := newBench(t)
		b.retry = salesforce.Retry{Attempts: 2, Min: time.Nanosecond, Max: time.Nanosecond}
		b.org.AddHour(login(10, 5))
		b.org.Fault(odd.match, sftest.Fault{Status: 200, Body: odd.body, Times: -1})
		if err := b.pull("Login"); sysexits.Of(err) != sysexits.TempFail || strings.Contains(err.Error(), "struct {") {
			t.Errorf("%s: %d: %v", odd.body, sysexits.Of(err), err)
		}
		if len(b.rows()) != 0 {
			t.Errorf("%s: %d rows", odd.body, len(b.rows()))
		}
		b.org.ClearFaults()
		if err := b.pull("Login"); err != nil || len(b.rows()) != 5 {
			t.Errorf("%s: then %d rows, %v", odd.body, len(b.rows()), err)
		}
	}
}
