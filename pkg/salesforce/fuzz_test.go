package salesforce

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"sf2loki/pkg/errtest"
)

// Whatever an answer is, a query gives its records or an error, a JSON answer
// is JSON, a download is the body, and no message tells the session.
func FuzzAnswers(f *testing.F) {
	const session = "00Dxx!session"
	for _, body := range []string{
		`{"totalSize":2,"done":true,"records":[{"Id":"1"},{"Id":"2"}]}`, `{"totalSize":0,"done":true,"records":[]}`, `{"totalSize":3,"done":true,"records":[{"Id":"1"}]}`,
		`{"totalSize":3,"done":true,"records":[]}`, `{"totalSize":2,"done":false,"nextRecordsUrl":"/services/data/v62.0/query/01g-2","records":[{}]}`, `{"done":false,"records":[{}]}`,
		`{"totalSize":1,"done":true,"records":[7]}`, `{"totalSize":"1","done":true,"records":[{}]}`, `{"records":[{}]}`, `{"done":true,"records":null}`, `{"done":false,"nextRecordsUrl":"https://elsewhere.example/x","records":[]}`,
		`[{"errorCode":"INVALID_SESSION_ID","message":"Session expired 00Dxx!session"}]`, `[]`, `{}`, `{"a":`, "", " \n", "<html>00Dxx!session</html>", "\ufeff<html>", "EVENT_TYPE,TIMESTAMP\n", "\x00\xff",
		`{"access_token":"00Dxx!session","instance_url":"https://x.my.salesforce.com","id":"https://login.salesforce.com/id/00Dxx0000000001EAA/005xx0000000001AAA"}`,
		`{"access_token":"a b","instance_url":"https://x.my.salesforce.com","id":"i"}`, `{"access_token":"a","instance_url":"http://u@x","id":"i"}`, `{"access_token":"a","instance_url":"https://x","id":"a/b/c"}`,
	} {
		for _, status := range []int{200, 401} {
			f.Add(status, "api-usage=18/5000", []byte(body))
		}
	}
	for _, usage := range []string{"", "api-usage=5/0", "api-usage=-5/10", "api-usage=1", "per-app-api-usage=17/250(appName=a); api-usage = 1/2", "per-app-api-usage=17/250(appName=a),api-usage= 6000 / 5000 ", "api-usage=9223372036854775808/1"} {
		f.Add(503, usage, []byte("down"))
	}
	f.Fuzz(func(t *testing.T, status int, usage string, body []byte) {
		if status < 200 || status > 599 {
			return
		}
		c := scripted(t, func(*http.Request) (*http.Response, error) {
			answer, err := respond(status, string(body))
			answer.Header.Set("Sforce-Limit-Info", usage)
			return answer, err
		})
		c.set.Retry.Attempts = 1
		c.set.Secrets.Add(session)
		c.sess.cur = &Token{Access: session, InstanceURL: "https://acme.my.salesforce.com", OrgID: "00Dxx0000001gPLEAY"}
		judge := func(what string, err error) {
			if err == nil {
				return
			}
			errtest.OneLine(t, err)
			if strings.Contains(err.Error(), session) {
				t.Fatalf("%s tells the session: %v", what, err)
			}
		}
		ctx := context.Background()
		records, err := all(c, "SELECT Id FROM X")
		judge("query", err)
		var want struct {
			Done    bool
			Records []json.RawMessage
		}
		if err == nil && (json.Unmarshal(body, &want) != nil || !want.Done || len(records) != len(want.Records)) {
			t.Fatalf("%d records of %q", len(records), body)
		}
		answer, err := c.Get(ctx, "limits/")
		judge("get", err)
		if err == nil && !json.Valid(answer) {
			t.Fatalf("%q is JSON", answer)
		}
		file, err := c.Open(ctx, "sobjects/EventLogFile/0AT/LogFile")
		judge("open", err)
		if err == nil {
			if got, err := io.ReadAll(file); err != nil || !bytes.Equal(got, body) {
				t.Fatalf("downloaded %q of %q, %v", got, body, err)
			}
			file.Close()
		}
		if u := c.Usage(); u.Left() < 0 || u.Left() > u.Max {
			t.Fatalf("%q leaves %d of %d", usage, u.Left(), u.Max)
		}
		c.sess.cur = nil
		token, err := c.Token(ctx)
		judge("login", err)
		if err == nil && (len(token.OrgID) != 18 || len(token.UserID) != 18 || !strings.HasPrefix(token.InstanceURL, "https://") || strings.ContainsAny(token.Access, " \r\n")) {
			t.Fatalf("%q is the %v", body, token)
		}
	})
}

// A reserve is read as it is written, and never more than all.
func FuzzParseReserve(f *testing.F) {
	for _, s := range []string{"", "0", "10%", " 0.5 % ", "99.999%", "100%", "-1%", "NaN%", "1e1%", "5000", "-1", "9223372036854775808", strings.Repeat("7", 5000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseReserve(s)
		if err != nil {
			errtest.OneLine(t, err)
			return
		}
		if again, err := ParseReserve(r.String()); err != nil || again != r {
			t.Fatalf("%q is %+v, written %s: %+v, %v", s, r, r, again, err)
		}
		if least := r.least(1000); least < 0 || r.Calls == 0 && least > 1000 {
			t.Fatalf("%q reserves %d of 1000", s, least)
		}
	})
}

// An id is the same in both of its forms, and in no other.
func FuzzID(f *testing.F) {
	for _, s := range []string{"00Dxx0000000001", "00Dxx0000000001EAA", "00Dxx0000000001eaa", "00Dxx0000000001AAA", "005xx0000000001", "00Dxx000000000é", "", strings.Repeat("7", 5000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		long, err := ID18(s)
		if err != nil {
			errtest.OneLine(t, err)
		} else if again, err := ID18(long); err != nil || again != long || long[:15] != s[:15] || len(s) == 18 && !strings.EqualFold(long, s) {
			t.Fatalf("%q is %q, and that %q, %v", s, long, again, err)
		}
		if org, err := OrgID(s); err == nil && org != long {
			t.Fatalf("%q is the org %q", s, org)
		}
	})
}
