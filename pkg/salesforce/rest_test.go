package salesforce

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/logtest"
	"sf2loki/pkg/sftest"
	"sf2loki/pkg/sftest/soql"
	"sf2loki/pkg/sysexits"
)

var hour = time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)

func TestRequestHeaders(t *testing.T) {
	org := newOrg(t, sftest.Config{})
	c := newClient(t, configOf(org, func(c *Config) { c.UserAgent = "sf-pull/1.2" }))
	if _, err := c.Get(context.Background(), "limits/"); err != nil {
		t.Fatal(err)
	}
	for _, r := range org.Requests("") {
		for name, want := range map[string]string{"Accept": "application/json", "User-Agent": "sf-pull/1.2", "Accept-Encoding": "gzip"} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %s %q, want %q", r.Path, name, got, want)
			}
		}
	}
	if r := org.Requests("/limits")[0]; r.Path != "/services/data/v62.0/limits/" {
		t.Errorf("path %s", r.Path)
	}
}

// insertLogins fills the org with n files that share one CreatedDate.
func insertLogins(org *sftest.Org, n int) {
	for i := range n {
		org.AddLogFile(sftest.LogFile{EventType: "Login", LogDate: hour, Created: hour.Add(3 * time.Hour), Sequence: i + 1, Body: []byte("A\n")})
	}
}

const listing = "SELECT Id, CreatedDate, LogFile FROM EventLogFile WHERE Interval = 'Hourly' ORDER BY CreatedDate, Id"

func TestQueryPages(t *testing.T) {
	for _, gzip := range []bool{false, true} {
		org := newOrg(t, sftest.Config{PageSize: 3, Gzip: gzip})
		insertLogins(org, 8)
		c := newClient(t, configOf(org))
		recs, err := all(c, listing)
		if err != nil || len(recs) != 8 {
			t.Fatalf("%d records, %v; want 8", len(recs), err)
		}
		seen := map[string]bool{}
		for _, rec := range recs {
			var r struct {
				ID, LogFile, CreatedDate string
			}
			if err := json.Unmarshal(rec, &r); err != nil {
				t.Fatal(err)
			}
			seen[r.ID] = true
			if at, err := ParseTime(r.CreatedDate); err != nil || !at.Equal(hour.Add(3*time.Hour)) {
				t.Errorf("created %q: %v %v", r.CreatedDate, at, err)
			}
		}
		if len(seen) != 8 || len(org.Requests("/query")) != 3 {
			t.Errorf("%d ids in %d pages, want 8 in 3", len(seen), len(org.Requests("/query")))
		}
	}
}

// A caller that has enough ends the query: no further page is fetched.
func TestQueryStops(t *testing.T) {
	org := newOrg(t, sftest.Config{PageSize: 2})
	insertLogins(org, 6)
	c := newClient(t, configOf(org))
	for _, err := range c.Query(context.Background(), listing) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	if n := len(org.Requests("/query")); n != 1 {
		t.Errorf("%d pages fetched, want 1", n)
	}
}

func TestQueryLocatorExpires(t *testing.T) {
	org := newOrg(t, sftest.Config{PageSize: 2})
	insertLogins(org, 6)
	c := newClient(t, configOf(org))
	n := 0
	var failed error
	for _, err := range c.Query(context.Background(), listing) {
		if err != nil {
			failed = err
			continue
		}
		if n++; n == 2 {
			org.ExpireLocators()
		}
	}
	wantKind(t, failed, KindLocator)
	if n != 2 || len(org.Requests("/query/")) != 1 {
		t.Errorf("%d records and %d requests for more, want 2 and 1", n, len(org.Requests("/query/")))
	}
	if recs, err := all(c, listing); err != nil || len(recs) != 6 {
		t.Errorf("the query run again: %d records, %v", len(recs), err)
	}
}

// A page that fails for a moment is fetched again; no record comes twice.
func TestQueryPageIsRetried(t *testing.T) {
	for name, f := range map[string]sftest.Fault{
		"page":        {HTML: true},
		"503":         {Fixture: "err_503_server_unavailable.json"},
		"500":         {Fixture: "err_500_unknown.json"},
		"reset":       {Reset: true},
		"body cut":    {CutAfter: 30},
		"empty":       {Status: 200, Body: " "},
		"array":       {Body: "[]"},
		"no records":  {Body: `{"totalSize":1,"done":true}`},
		"no done":     {Body: `{"records":[]}`},
		"json cut":    {Body: `{"totalSize":8,"done":true,"records":[{"Id"`},
		"null record": {Body: `{"totalSize":8,"done":true,"records":[null]}`},
		"more, where": {Body: `{"totalSize":8,"done":false,"records":[{}]}`},
		"concurrent":  {Fixture: "err_403_concurrent_limit.json"},
		"long txn":    {Fixture: "err_403_longtxn_limit.json"},
		"dead":        {Fixture: "err_401_invalid_session.json"},
		"200 dead":    {Status: 200, Body: `[{"message":"Session expired or invalid","errorCode":"INVALID_SESSION_ID"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			org := newOrg(t, sftest.Config{PageSize: 3})
			insertLogins(org, 8)
			c := newClient(t, configOf(org))
			f.Skip = 1
			org.Fault("/query", f)
			recs, err := all(c, listing)
			if err != nil || len(recs) != 8 {
				t.Fatalf("%d records, %v; want 8", len(recs), err)
			}
			if n := len(org.Requests("/query")); n != 4 {
				t.Errorf("%d requests, want 4", n)
			}
		})
	}
}

// What does not pass is given up within its bound, with the right exit status.
func TestGivingUp(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault sftest.Fault
		kind  Kind
		exit  sysexits.Code
		calls int
	}{
		{"page", sftest.Fault{HTML: true}, KindNotJSON, 75, 3},
		{"503", sftest.Fault{Status: 503}, KindTransient, 75, 3},
		{"reset", sftest.Fault{Reset: true}, KindTransport, 69, 3},
		{"concurrent", sftest.Fault{Fixture: "err_403_concurrent_limit.json"}, KindLimitConcurrent, 75, 3},
		{"total", sftest.Fault{Fixture: "err_403_request_limit.json"}, KindLimitTotal, 75, 1},
		{"hidden field", sftest.Fault{Fixture: "err_400_invalid_field.json"}, KindField, 78, 1},
		{"hidden object", sftest.Fault{Fixture: "err_400_invalid_type.json"}, KindType, 78, 1},
		{"rights", sftest.Fault{Fixture: "err_403_forbidden_elf.json"}, KindPermission, 77, 1},
		{"syntax", sftest.Fault{Fixture: "err_400_malformed.json"}, KindQuery, 70, 1},
		{"query timeout", sftest.Fault{Fixture: "err_400_query_timeout.json"}, KindQueryTimeout, 75, 1},
		{"gone", sftest.Fault{Fixture: "err_404_not_found.json"}, KindNotFound, 78, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			org := newOrg(t, sftest.Config{})
			var throttled []Kind
			c := newClient(t, configOf(org, func(c *Config) { c.Hooks.Throttle = func(op string, k Kind) { throttled = append(throttled, k) } }))
			tt.fault.Times = -1
			org.Fault("/query", tt.fault)
			_, err := all(c, listing)
			wantKind(t, err, tt.kind)
			if sysexits.Of(err) != tt.exit {
				t.Errorf("exit status %d, want %d", sysexits.Of(err), tt.exit)
			}
			// Of its own, net/http asks once more when a kept connection was reset.
			if n := len(org.Requests("/query")); n != tt.calls && !(tt.fault.Reset && n == tt.calls+1) {
				t.Errorf("%d requests, want %d", n, tt.calls)
			}
			limit := tt.kind == KindLimitTotal || tt.kind == KindLimitConcurrent
			if limit != (len(throttled) == tt.calls && throttled[0] == tt.kind) {
				t.Errorf("throttled %v", throttled)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	org := newOrg(t, sftest.Config{})
	cfg := configOf(org)
	org2 := sftest.NewOrg(sftest.Config{})
	cfg.LoginURL = org2.URL
	org2.Close()
	_, err := newClient(t, cfg).Token(context.Background())
	wantKind(t, err, KindTransport)
	if sysexits.Of(err) != sysexits.Unavailable || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v (%d), want 69 with the cause", err, sysexits.Of(err))
	}
}

func TestCancel(t *testing.T) {
	org := newOrg(t, sftest.Config{})
	c := newClient(t, configOf(org, func(c *Config) { c.Retry = Retry{Attempts: 5, Min: time.Hour, Max: time.Hour} }))
	cause := errors.New("asked to stop")
	for name, f := range map[string]sftest.Fault{
		"while a pause lasts":     {Status: 503, Times: -1},
		"while there's no answer": {Latency: time.Hour, Times: -1},
		"while the body comes":    {StallAfter: 10, Times: -1},
	} {
		t.Run(name, func(t *testing.T) {
			defer org.ClearFaults()
			ctx, cancel := context.WithCancelCause(context.Background())
			org.ResetRequests()
			org.Fault("/query", f)
			done := make(chan error)
			go func() {
				for _, err := range c.Query(ctx, listing) {
					done <- err
				}
			}()
			org.WaitRequests("/query", 1)
			cancel(cause)
			if err := <-done; !errors.Is(err, cause) {
				t.Errorf("error %v, want the caller's", err)
			}
		})
	}
}

func TestTimeouts(t *testing.T) {
	org := newOrg(t, sftest.Config{})
	id := org.AddHour(sftest.Hour{Type: "Login", Start: hour, Rows: 300})
	path := "sobjects/EventLogFile/" + id + "/LogFile"
	c := newClient(t, configOf(org, func(c *Config) {
		c.Timeout = Timeout{Header: 400 * time.Millisecond, Idle: 400 * time.Millisecond}
	}))
	if _, err := c.Token(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Run("no answer", func(t *testing.T) {
		org.Fault("/limits", sftest.Fault{Latency: time.Hour, Times: -1})
		_, err := c.Get(context.Background(), "limits/")
		wantKind(t, err, KindTimeout)
		if sysexits.Of(err) != sysexits.Unavailable || len(org.Requests("/limits")) != 3 {
			t.Errorf("%v (%d) after %d requests, want 69 after 3", err, sysexits.Of(err), len(org.Requests("/limits")))
		}
	})
	t.Run("no beginning of a body", func(t *testing.T) {
		org.Fault("/LogFile", sftest.Fault{Trickle: time.Hour, Times: 1})
		body, err := c.Open(context.Background(), path)
		if err != nil {
			t.Fatalf("the second request was not made: %v", err)
		}
		body.Close()
	})
	t.Run("a body that stalls", func(t *testing.T) {
		org.Fault("/LogFile", sftest.Fault{StallAfter: 100_000})
		body, err := c.Open(context.Background(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer body.Close()
		_, err = io.Copy(io.Discard, body)
		wantKind(t, err, KindTimeout)
	})
}

func TestDownload(t *testing.T) {
	for _, gzip := range []bool{false, true} {
		for _, rows := range []int{0, 1, 400} {
			org := newOrg(t, sftest.Config{Gzip: gzip})
			id := org.AddHour(sftest.Hour{Type: "LightningError", Start: hour, Rows: rows, Awkward: 2})
			c := newClient(t, configOf(org))
			body, err := c.Open(context.Background(), "sobjects/EventLogFile/"+id+"/LogFile")
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(body)
			body.Close()
			if err != nil || !bytes.Equal(got, org.LogFileBody(id)) {
				t.Errorf("gzip %v, %d rows: %d bytes, %v; want %d", gzip, rows, len(got), err, len(org.LogFileBody(id)))
			}
		}
	}
}

func TestEmptyDownload(t *testing.T) {
	org := newOrg(t, sftest.Config{})
	c := newClient(t, configOf(org))
	for _, text := range []string{"", "\n", "\ufeff", "A"} {
		id := org.AddLogFile(sftest.LogFile{EventType: "Logout", LogDate: hour, Body: []byte(text)})
		body, err := c.Open(context.Background(), "sobjects/EventLogFile/"+id+"/LogFile")
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got, err := io.ReadAll(body); err != nil || string(got) != text {
			t.Errorf("%q came as %q, %v", text, got, err)
		}
		body.Close()
	}
}

// What is no file is refused, whatever its content type says.
func TestDownloadOfSomethingElse(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		kind       Kind
		calls      int
	}{
		{"page", "<html>We are down for maintenance.</html>", KindNotJSON, 3},
		{"page without a word", "<html><br/></html>", KindNotJSON, 3},
		{"page after white space", "\r\n  <!DOCTYPE html><html>x</html>", KindNotJSON, 3},
		{"page after a BOM", "\ufeff<html>x</html>", KindNotJSON, 3},
		{"error array", `[{"message":"TotalRequests Limit exceeded.","errorCode":"REQUEST_LIMIT_EXCEEDED"}]`, KindLimitTotal, 1},
		{"session", `[{"message":"Session expired or invalid","errorCode":"INVALID_SESSION_ID"}]`, KindAuth, 2},
		{"object", `{"some":"json"}`, KindNotJSON, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			org := newOrg(t, sftest.Config{})
			c := newClient(t, configOf(org))
			org.Fault("/LogFile", sftest.Fault{Body: tt.body, ContentType: "application/octetstream", Times: -1})
			_, err := c.Open(context.Background(), "sobjects/EventLogFile/0AT/LogFile")
			wantKind(t, err, tt.kind)
			if strings.HasSuffix(err.Error(), "200 OK") {
				t.Errorf("%q does not say what is wrong", err)
			}
			if n := len(org.Requests("/LogFile")); n != tt.calls {
				t.Errorf("%d requests, want %d", n, tt.calls)
			}
		})
	}
}

// A body that breaks off says so: it must never pass for a whole file.
func TestDownloadCut(t *testing.T) {
	for _, gzip := range []bool{false, true} {
		org := newOrg(t, sftest.Config{Gzip: gzip})
		id := org.AddHour(sftest.Hour{Type: "Login", Start: hour, Rows: 400})
		c := newClient(t, configOf(org))
		org.Fault("/LogFile", sftest.Fault{CutAfter: 30_000})
		body, err := c.Open(context.Background(), "sobjects/EventLogFile/"+id+"/LogFile")
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, body)
		body.Close()
		wantKind(t, err, KindTransport)
		if n == 0 || !errors.Is(err, io.ErrUnexpectedEOF) || !KindOf(err).Temporary() {
			t.Errorf("gzip %v: %d bytes, then %v", gzip, n, err)
		}
	}
}

func TestPurgedFile(t *testing.T) {
	org := newOrg(t, sftest.Config{})
	id := org.AddHour(sftest.Hour{Type: "Login", Start: hour, Rows: 3})
	org.Purge(id)
	_, err := newClient(t, configOf(org)).Open(context.Background(), "sobjects/EventLogFile/"+id+"/LogFile")
	e := wantKind(t, err, KindNotFound)
	if want := "download sobjects/EventLogFile/" + id + "/LogFile: 404 Not Found: NOT_FOUND: The requested resource does not exist"; e.Error() != want {
		t.Errorf("error %q, want %q", e, want)
	}
}

// #94: a 2xx that is no JSON is an error that passes, for every kind of call.
func TestGetOfSomethingElse(t *testing.T) {
	for _, body := range []string{"<html>x</html>", " ", "hello", `{"cut":`, `[{"message":"x","errorCode":"UNKNOWN_EXCEPTION"}]`} {
		org := newOrg(t, sftest.Config{})
		c := newClient(t, configOf(org))
		org.Fault("/limits", sftest.Fault{Status: 200, Body: body, Times: 2})
		if _, err := c.Get(context.Background(), "limits/"); err != nil {
			t.Errorf("%q twice, then limits: %v", body, err)
		}
		org.Fault("/limits", sftest.Fault{Status: 200, Body: body, Times: -1})
		_, err := c.Get(context.Background(), "limits/")
		if sysexits.Of(err) != sysexits.TempFail {
			t.Errorf("%q for ever: %v (%d), want 75", body, err, sysexits.Of(err))
		}
	}
}

func TestLongQuery(t *testing.T) {
	org := newOrg(t, sftest.Config{})
	c := newClient(t, configOf(org))
	_, err := all(c, "SELECT Id FROM EventLogFile WHERE EventType IN "+QuoteList(make([]string, 6000)))
	wantKind(t, err, KindQuery)
	if n := len(org.Requests("/query")); n != 0 {
		t.Errorf("%d requests that cannot succeed", n)
	}
}

func TestReserveHolds(t *testing.T) {
	org := newOrg(t, sftest.Config{})
	org.SetUsage(0, 1000)
	now := time.Now()
	c := newClient(t, configOf(org, func(c *Config) {
		c.Reserve, c.Now = Reserve{Percent: 10}, func() time.Time { return now }
	}))
	get := func() error { _, err := c.Get(context.Background(), "sobjects/"); return err }
	if err := get(); err != nil {
		t.Fatal(err)
	}
	if u := c.Usage(); u.Used != 1 || u.Max != 1000 || u.Left() != 999 {
		t.Fatalf("usage %+v", u)
	}
	org.SetUsage(899, 1000)
	if err := get(); err != nil { // learns that 100 are left, which is allowed
		t.Fatal(err)
	}
	if err := get(); err != nil {
		t.Fatalf("with 100 left: %v", err)
	}
	err := get() // 99 are left
	wantKind(t, err, KindReserve)
	if sysexits.Of(err) != sysexits.TempFail || !strings.Contains(err.Error(), "99 of 1000 calls") {
		t.Errorf("%v (%d), want 75 with the figures", err, sysexits.Of(err))
	}
	if n := len(org.Requests("/sobjects")); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
	now = now.Add(reserveProbe - time.Second)
	wantKind(t, get(), KindReserve)
	if n := len(org.Requests("/limits")); n != 0 {
		t.Errorf("%d looks at the limits, want none yet", n)
	}
	now = now.Add(time.Second)
	wantKind(t, get(), KindReserve) // one look: still too few
	wantKind(t, get(), KindReserve)
	if n := len(org.Requests("/limits")); n != 1 {
		t.Errorf("%d looks at the limits, want 1", n)
	}
	org.SetUsage(500, 1000)
	now = now.Add(reserveProbe)
	if err := get(); err != nil {
		t.Errorf("with calls free again: %v", err)
	}
}

func TestHooks(t *testing.T) {
	org := newOrg(t, sftest.Config{})
	var logins, retries, requests int
	var usage Usage
	c := newClient(t, configOf(org, func(c *Config) {
		c.Hooks = Hooks{
			Login:   func(err error) { logins++ },
			Request: func(int, time.Duration) { requests++ },
			Retry:   func(Kind) { retries++ },
			Usage:   func(u Usage) { usage = u },
		}
	}))
	org.Fault("/limits", sftest.Fault{Status: 503})
	if _, err := c.Get(context.Background(), "limits/"); err != nil {
		t.Fatal(err)
	}
	if logins != 1 || retries != 1 || requests != 3 || usage.Used != 1 {
		t.Errorf("%d logins, %d retries, %d requests, usage %+v", logins, retries, requests, usage)
	}
}

// Neither errors nor logs, at the finest level, hold a secret.
func TestNoSecretIsShown(t *testing.T) {
	org := newOrg(t, sftest.Config{})
	var log logtest.Log
	var said strings.Builder
	secrets := []string{org.ClientSecret, strings.Split(org.PrivateKeyPEM(), "\n")[1]}
	for _, auth := range []Auth{JWT, ClientCredentials} {
		c := newClient(t, configOf(org, func(c *Config) { c.Auth, c.Log = auth, log.Logger(slog.LevelDebug) }))
		session, err := c.Token(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&said, "%v %+v %#v %s\n", session, session, session, &session)
		secrets = append(secrets, session.Access)
		for _, f := range []sftest.Fault{
			{Status: 500, Body: session.Access}, {Status: 200, Body: "echo " + session.Access}, {Status: 403, Body: "<p>Bearer " + session.Access + "</p>"},
			{Reset: true}, {Status: 302, Header: http.Header{"Location": {"https://x.example/?sid=" + session.Access}}}, {Fixture: "err_401_invalid_session.json"},
		} {
			f.Times = -1
			org.ClearFaults()
			org.Fault("/limits", f)
			org.Fault("/LogFile", f)
			_, err := c.Get(context.Background(), "limits/")
			said.WriteString(err.Error())
			if _, err := c.Open(context.Background(), "sobjects/EventLogFile/0AT/LogFile"); err != nil { // some text is a file
				said.WriteString(err.Error())
			}
		}
		org.ClearFaults()
		if auth == JWT {
			continue // an assertion is never the same: the next one cannot be echoed
		}
		for _, body := range []string{`{"error":"invalid_grant","error_description":"SECRET"}`, "SECRET"} {
			dropSession(t, c)
			org.Fault("/token", sftest.Fault{Status: 400, Body: strings.ReplaceAll(body, "SECRET", org.ClientSecret)})
			_, err := c.Token(context.Background())
			if err == nil {
				t.Fatal("no refusal")
			}
			said.WriteString(err.Error())
			if _, err := c.Token(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	}
	js := slog.New(slog.NewJSONHandler(&log, nil))
	js.Info("session", "session", Token{Access: secrets[len(secrets)-1]})
	for _, r := range org.Requests("/token") {
		secrets = append(secrets, r.Form["assertion"]...)
	}
	for _, where := range []string{said.String(), log.String()} {
		for _, s := range secrets {
			if strings.Contains(where, s) {
				t.Errorf("%.20q is shown", s)
			}
		}
		if strings.Contains(where, "assertion=") || strings.Contains(where, "sid=") {
			t.Error("a request or link is shown whole")
		}
	}
	if !strings.Contains(log.String(), "logged in") {
		t.Error("nothing was logged: the test looks at no log")
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"Login": `'Login'`, "O'Brien": `'O\'Brien'`, `a\`: `'a\\'`, "a\nb\tc\r": `'a\nb\tc\r'`, "": `''`, "é東": `'é東'`,
	} {
		if got := Quote(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	if got := QuoteList([]string{"a", "b'"}); got != `('a','b\'')` {
		t.Errorf("list %s", got)
	}
}

// A quoted text is one literal for a reader of SOQL, and the same text.
func FuzzQuote(f *testing.F) {
	f.Add("O'Brien\\")
	f.Add("a\n' OR Id != '")
	f.Fuzz(func(t *testing.T, s string) {
		q, err := soql.Parse("SELECT Id FROM X WHERE A = "+Quote(s), soql.Options{})
		if err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		cond, ok := q.Where.(soql.Cond)
		if !ok || cond.Values[0].Text != strings.ToValidUTF8(s, "\ufffd") && strings.ToValidUTF8(s, "") == s {
			t.Errorf("%q was read as %+v", s, q.Where)
		}
	})
}

func TestDateTime(t *testing.T) {
	at := time.Date(2026, 7, 1, 12, 0, 0, 123_999_999, time.FixedZone("", 7200))
	if got := DateTime(at); got != "2026-07-01T10:00:00.123Z" {
		t.Errorf("literal %s", got)
	}
	for _, s := range []string{"2026-07-01T10:00:00.000+0000", "2026-07-01T10:00:00+0000", "2026-07-01T10:00:00Z", "2026-07-01T12:00:00.0+02:00"} {
		if got, err := ParseTime(s); err != nil || !got.Equal(hour) {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "None", "2026-07-01", "1782900000"} {
		if _, err := ParseTime(s); err == nil {
			t.Errorf("%q was taken for a time", s)
		}
	}
}
