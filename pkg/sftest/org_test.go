package sftest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

func newOrg(t *testing.T, cfg Config) *Org {
	t.Helper()
	org := NewOrg(cfg)
	t.Cleanup(org.Close)
	return org
}

// client is a plain HTTP client, so that nothing of the product is believed.
type client struct {
	t     *testing.T
	org   *Org
	token string
}

func login(t *testing.T, org *Org) *client {
	t.Helper()
	c := &client{t: t, org: org}
	status, body := c.post(url.Values{"grant_type": {"client_credentials"}, "client_id": {org.ClientID}, "client_secret": {org.ClientSecret}})
	var ans struct {
		Token string `json:"access_token"`
	}
	if status != 200 || json.Unmarshal(body, &ans) != nil {
		t.Fatalf("login: %d %s", status, body)
	}
	c.token = ans.Token
	return c
}

func (c *client) post(form url.Values) (int, []byte) {
	c.t.Helper()
	resp, err := http.PostForm(c.org.URL+"/services/oauth2/token", form)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.body(resp)
}

func (c *client) body(resp *http.Response) (int, []byte) {
	c.t.Helper()
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, data
}

func (c *client) do(path string, change ...func(*http.Request)) *http.Response {
	c.t.Helper()
	req, err := http.NewRequest("GET", c.org.URL+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Accept", "application/json")
	for _, f := range change {
		f(req)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp
}

func (c *client) get(path string) (int, string) {
	c.t.Helper()
	status, body := c.body(c.do(path))
	return status, string(body)
}

type answer struct {
	TotalSize int
	Done      bool
	Next      string `json:"nextRecordsUrl"`
	Records   []map[string]any
}

func (c *client) query(soql string) answer {
	c.t.Helper()
	return c.page("/services/data/v62.0/query?q=" + url.QueryEscape(soql))
}

func (c *client) page(path string) answer {
	c.t.Helper()
	status, body := c.get(path)
	var a answer
	if status != 200 || json.Unmarshal([]byte(body), &a) != nil {
		c.t.Fatalf("%s: %d %s", path, status, body)
	}
	return a
}

// refused checks that a query is, with a code and text.
func (c *client) refused(soql, code, text string) {
	c.t.Helper()
	status, body := c.get("/services/data/v62.0/query?q=" + url.QueryEscape(soql))
	if status != 400 || !strings.Contains(body, `"`+code+`"`) || !strings.Contains(body, text) {
		c.t.Errorf("%s: %d %s, want 400 %s %q", soql, status, body, code, text)
	}
}

func ids(a answer) []string {
	var out []string
	for _, r := range a.Records {
		out = append(out, r["Id"].(string))
	}
	return out
}

func TestAssertions(t *testing.T) {
	org := newOrg(t, Config{})
	good := func() jwt.MapClaims {
		return jwt.MapClaims{"iss": org.ClientID, "sub": org.Username, "aud": "https://login.salesforce.com", "exp": time.Now().Add(2 * time.Minute).Unix()}
	}
	c := &client{t: t, org: org}
	for _, tt := range []struct {
		name   string
		change func(jwt.MapClaims)
		method jwt.SigningMethod
		want   string
	}{
		{"good", func(jwt.MapClaims) {}, jwt.SigningMethodRS256, ""},
		{"my domain as audience", func(m jwt.MapClaims) { m["aud"] = org.URL }, jwt.SigningMethodRS256, "audience is invalid"},
		{"past", func(m jwt.MapClaims) { m["exp"] = time.Now().Add(-time.Second).Unix() }, jwt.SigningMethodRS256, "expired authorization code"},
		{"far", func(m jwt.MapClaims) { m["exp"] = time.Now().Add(4 * time.Minute).Unix() }, jwt.SigningMethodRS256, "expired authorization code"},
		{"milliseconds", func(m jwt.MapClaims) { m["exp"] = time.Now().UnixMilli() }, jwt.SigningMethodRS256, "expired authorization code"},
		{"no end", func(m jwt.MapClaims) { delete(m, "exp") }, jwt.SigningMethodRS256, "expired authorization code"},
		{"issuer", func(m jwt.MapClaims) { m["iss"] = "x" }, jwt.SigningMethodRS256, "client identifier invalid"},
		{"user", func(m jwt.MapClaims) { m["sub"] = "x" }, jwt.SigningMethodRS256, "user not found"},
		{"algorithm", func(jwt.MapClaims) {}, jwt.SigningMethodRS512, "invalid assertion"},
	} {
		claims := good()
		tt.change(claims)
		text, err := jwt.NewWithClaims(tt.method, claims).SignedString(org.key)
		if err != nil {
			t.Fatal(err)
		}
		status, body := c.post(url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {text}})
		if tt.want == "" && status != 200 || tt.want != "" && (status != 400 || !strings.Contains(string(body), tt.want)) {
			t.Errorf("%s: %d %s, want %q", tt.name, status, body, tt.want)
		}
	}
	if status, body := c.post(url.Values{"grant_type": {"password"}}); status != 400 || !strings.Contains(string(body), "unsupported_grant_type") {
		t.Errorf("password grant: %d %s", status, body)
	}
}

func TestLenientLogin(t *testing.T) {
	org := NewOrg(Config{LenientLogin: true})
	defer org.Close()
	for aud, want := range map[string]string{org.URL: "", "https://login.salesforce.com": "", "https://test.salesforce.com": "token_err_audience_invalid.json"} {
		claims := jwt.MapClaims{"iss": org.ClientID, "sub": org.Username, "aud": aud, "exp": time.Now().Add(5 * time.Minute).Unix()}
		text, err := jwt.NewWithClaims(jwt.SigningMethodRS256, claims).SignedString(org.privateKey())
		if got := org.checkAssertion(text); err != nil || got != want {
			t.Errorf("audience %s: %q, %v", aud, got, err)
		}
	}
}

func TestSessions(t *testing.T) {
	now := time.Now()
	org := newOrg(t, Config{TokenLife: time.Hour, Now: func() time.Time { return now }})
	c := login(t, org)
	path := "/services/data/v62.0/limits"
	step := func(d time.Duration, want int) {
		t.Helper()
		now = now.Add(d)
		if status, body := c.get(path); status != want {
			t.Errorf("%d %s, want %d", status, body, want)
		}
	}
	step(0, 200)
	step(50*time.Minute, 200)
	step(50*time.Minute, 200) // use keeps it alive
	step(61*time.Minute, 401)
	c.token = login(t, org).token
	step(0, 200)
	org.ExpireTokens()
	step(0, 401)
	xml := c.do(path, func(r *http.Request) { r.Header.Del("Accept") })
	if status, body := c.body(xml); status != 401 || !bytes.HasPrefix(body, []byte("<?xml")) {
		t.Errorf("without Accept: %d %s", status, body)
	}
	bad := c.do(path, func(r *http.Request) { r.Header.Set("Authorization", "Basic x") })
	if status, body := c.body(bad); status != 401 || !strings.Contains(string(body), "INVALID_AUTH_HEADER") {
		t.Errorf("other header: %d %s", status, body)
	}
	if status, body := c.get("/services/oauth2/userinfo"); status != 403 || body != "Bad_OAuth_Token" {
		t.Errorf("userinfo: %d %s", status, body)
	}
	if status, body := c.get("/services/data/"); status != 200 || !strings.Contains(body, `"62.0"`) {
		t.Errorf("versions need no session: %d %s", status, body)
	}
	if status, _ := c.get("/services/data/v9.0/limits"); status != 401 {
		t.Errorf("status %d, want 401 first", status)
	}
	c.token = login(t, org).token
	if status, _ := c.get("/services/data/v9.0/limits"); status != 404 {
		t.Errorf("unknown version: %d, want 404", status)
	}
}

func TestListing(t *testing.T) {
	org := newOrg(t, Config{PageSize: 2})
	for i := range 5 {
		org.AddLogFile(LogFile{EventType: "Login", LogDate: hour, Created: hour.Add(3 * time.Hour), Sequence: i + 1, Body: []byte("\"A\"\n\"1\"\n")})
	}
	day := org.AddLogFile(LogFile{EventType: "Login", Interval: "Daily", LogDate: hour.Truncate(24 * time.Hour), Body: []byte("x")})
	c := login(t, org)
	const hourly = "SELECT Id, EventType, LogDate, LogFile, LogFileLength, Sequence, Interval, CreatedDate FROM EventLogFile WHERE Interval = 'Hourly' ORDER BY CreatedDate, Id"
	a := c.query(hourly)
	var all []string
	for {
		all = append(all, ids(a)...)
		if a.Done {
			break
		}
		if a.TotalSize != 5 || len(a.Records) != 2 || a.Next == "" {
			t.Fatalf("page %+v", a)
		}
		a = c.page(a.Next)
	}
	if len(all) != 5 || !slices.IsSorted(all) {
		t.Errorf("ids %v", all)
	}
	// The forms of values, as in the stored answers.
	_, body := c.get("/services/data/v62.0/query?q=" + url.QueryEscape(hourly+" LIMIT 1"))
	want := fmt.Sprintf(`{"totalSize":1,"done":true,"records":[{"attributes":{"type":"EventLogFile","url":"/services/data/v62.0/sobjects/EventLogFile/%s"},`+
		`"Id":"%[1]s","EventType":"Login","LogDate":"2026-07-01T10:00:00.000+0000","LogFile":"/services/data/v62.0/sobjects/EventLogFile/%[1]s/LogFile",`+
		`"LogFileLength":8.0,"Sequence":1,"Interval":"Hourly","CreatedDate":"2026-07-01T13:00:00.000+0000"}]}`, all[0])
	if body != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
	// Without a word on the interval only daily files show; with an Id, all do.
	if got := ids(c.query("SELECT Id FROM EventLogFile")); !slices.Equal(got, []string{day}) {
		t.Errorf("without a filter: %v", got)
	}
	if got := ids(c.query("SELECT Id FROM EventLogFile WHERE Id > '0AT000000000000' LIMIT 2")); len(got) != 2 {
		t.Errorf("with an Id: %v", got)
	}
	if got := c.query("SELECT EventType FROM EventLogFile WHERE Interval='Hourly' GROUP BY EventType"); len(got.Records) != 1 ||
		got.Records[0]["attributes"].(map[string]any)["type"] != "AggregateResult" {
		t.Errorf("types %+v", got)
	}
	c.refused("SELECT Id FROM EventLogFile WHERE CreatedDate > 2026-07-01T00:00:00.000+0000", "MALFORMED_QUERY", "no viable alternative")
	c.refused("SELECT Id FROM Nothing", "INVALID_TYPE", "sObject type 'Nothing' is not supported")
	if status, body := c.get("/services/data/v62.0/query?q=SELECT+Id+FROM+EventLogFile+WHERE+CreatedDate+>+2026-07-01T00:00:00.000+0000"); status != 400 || !strings.Contains(body, "character ' '") {
		t.Errorf("a plus that is no %%2B: %d %s", status, body)
	}
	first, second := c.query(hourly), c.query(hourly)
	for range maxLocators - 1 {
		a = c.query(hourly)
	}
	if status, body := c.get(first.Next); status != 400 || !strings.Contains(body, "INVALID_QUERY_LOCATOR") {
		t.Errorf("one locator more than a user can have: %d %s", status, body)
	}
	c.page(second.Next)
	org.ExpireLocators()
	if status, body := c.get(a.Next); status != 400 || !strings.Contains(body, "INVALID_QUERY_LOCATOR") {
		t.Errorf("expired locator: %d %s", status, body)
	}
	if status, _ := c.get("/services/data/v62.0/query?q=" + strings.Repeat("x", 17000)); status != 414 {
		t.Errorf("long request: %d, want 414", status)
	}
}

func TestWithoutHourly(t *testing.T) {
	org := newOrg(t, Config{NoHourly: true})
	id := org.AddLogFile(LogFile{EventType: "Login", Interval: "Daily", LogDate: hour, Body: []byte("x")})
	c := login(t, org)
	c.refused("SELECT Id FROM EventLogFile WHERE Interval = 'Hourly'", "INVALID_FIELD", "No such column 'Interval' on entity 'EventLogFile'")
	if got := ids(c.query("SELECT Id FROM EventLogFile")); !slices.Equal(got, []string{id}) {
		t.Errorf("ids %v", got)
	}
}

func TestLateRows(t *testing.T) {
	now := hour.Add(4 * time.Hour)
	org := newOrg(t, Config{Now: func() time.Time { return now }})
	org.Insert("LoginHistory", Row{"LoginTime": hour}, Row{"LoginTime": hour.Add(-time.Minute), VisibleAt: now.Add(time.Minute)})
	c := login(t, org)
	if n := len(c.query("SELECT Id FROM LoginHistory").Records); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
	now = now.Add(time.Minute)
	if n := len(c.query("SELECT Id FROM LoginHistory WHERE LoginTime < 2026-07-01T10:00:00Z").Records); n != 1 {
		t.Errorf("%d late rows, want 1", n)
	}
}

func TestBigObject(t *testing.T) {
	org := newOrg(t, Config{})
	for i := range 3 {
		org.Insert("LoginEvent", Row{"EventDate": hour, "EventIdentifier": fmt.Sprintf("5f1c3b60-0000-4000-8000-00000000000%d", i)})
	}
	c := login(t, org)
	a := c.query("SELECT Id, EventIdentifier FROM LoginEvent WHERE EventDate = 2026-07-01T10:00:00Z AND EventIdentifier > '5f1c3b60-0000-4000-8000-000000000000' ORDER BY EventDate DESC")
	if got := ids(a); !slices.Equal(got, []string{nullID, nullID}) {
		t.Errorf("ids %v", got)
	}
	c.refused("SELECT Id FROM LoginEvent ORDER BY EventDate ASC", "BIG_OBJECT_UNSUPPORTED_OPERATION", "EVENTDATE : ASCENDING")
	c.refused("SELECT COUNT(Id) FROM LoginEvent", "BIG_OBJECT_UNSUPPORTED_OPERATION", "Aggregate functions not supported")
	c.refused("SELECT Id FROM LoginEvent WHERE EventIdentifier NOT IN ('a')", "INVALID_QUERY_FILTER_OPERATOR", "")
	c.refused("SELECT Id FROM LoginEvent WHERE Username = 'a'", "INVALID_FIELD", "can not be filtered")
}

func TestHoursAndDays(t *testing.T) {
	org := newOrg(t, Config{})
	h := Hour{Type: "Login", Start: hour, Rows: 20}
	first := org.AddHour(h)
	h.Rows, h.Overlap = 30, 2
	second := org.AddHour(h)
	org.AddHour(Hour{Type: "Login", Start: hour.Add(time.Hour), Rows: 5})
	day := org.AddDay("Login", hour)
	h.Rows = 31
	org.Know(h)
	again := org.AddDay("Login", hour)

	one, two := parse(t, org.LogFileBody(first)), parse(t, org.LogFileBody(second))
	if len(one) != 21 || len(two) != 13 {
		t.Fatalf("%d and %d lines, want 21 and 13", len(one), len(two))
	}
	for i := range 2 {
		if !slices.Equal(one[19+i], two[1+i]) {
			t.Errorf("repeated row %d differs", i)
		}
	}
	if n := len(parse(t, org.LogFileBody(day))); n != 36 {
		t.Errorf("the day has %d lines, want 36", n)
	}
	whole := parse(t, org.LogFileBody(again))
	if len(whole) != 37 || !slices.Equal(whole[1], one[1]) {
		t.Errorf("the day again has %d lines, want 37 and the same rows", len(whole))
	}
	a := login(t, org).query("SELECT Id, Sequence FROM EventLogFile WHERE Interval = 'Hourly' AND LogDate = 2026-07-01T10:00:00Z ORDER BY Sequence")
	if len(a.Records) != 2 || a.Records[1]["Sequence"] != 2.0 {
		t.Errorf("files %+v", a.Records)
	}
}

func TestLargeFilesAreMadeAnew(t *testing.T) {
	org := newOrg(t, Config{Gzip: true})
	h := Hour{Type: "Search", Start: hour, Rows: heldRows + 1}
	id := org.AddHour(h)
	c := login(t, org)
	a := c.query("SELECT LogFileLength FROM EventLogFile WHERE Interval = 'Hourly'")
	resp := c.do("/services/data/v62.0/sobjects/EventLogFile/"+id+"/LogFile", func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip") })
	defer resp.Body.Close()
	if resp.Header.Get("Content-Length") != "" || resp.Header.Get("Content-Encoding") != "gzip" || resp.Header.Get("Content-Type") != "application/octetstream" {
		t.Errorf("header %v", resp.Header)
	}
	z, err := gzip.NewReader(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, z)
	if err != nil || float64(n) != a.Records[0]["LogFileLength"] {
		t.Errorf("%d bytes, %v; listed as %v", n, err, a.Records[0]["LogFileLength"])
	}
}

func TestUsage(t *testing.T) {
	org := newOrg(t, Config{})
	org.SetUsage(98, 100)
	c := login(t, org)
	for i, want := range []int{200, 200, 403} {
		resp := c.do("/services/data/v62.0/sobjects/")
		if status, body := c.body(resp); status != want || want == 403 && !strings.Contains(string(body), "TotalRequests Limit exceeded.") {
			t.Errorf("call %d: %d %s, want %d", i, status, body, want)
		}
		if got, want := resp.Header.Get("Sforce-Limit-Info"), fmt.Sprintf("api-usage=%d/100;", min(99+i, 100)); !strings.HasPrefix(got, want) {
			t.Errorf("call %d: %q, want %q", i, got, want)
		}
	}
}

func TestFaults(t *testing.T) {
	org := newOrg(t, Config{})
	id := org.AddHour(Hour{Type: "Login", Start: hour, Rows: 100})
	c := login(t, org)
	path := "/services/data/v62.0/sobjects/EventLogFile/" + id + "/LogFile"
	full := org.LogFileBody(id)

	org.Fault("/LogFile", Fault{Status: 503, Times: 2, Skip: 1})
	for i, want := range []int{200, 503, 503, 200} {
		if status, _ := c.get(path); status != want {
			t.Errorf("call %d: %d, want %d", i, status, want)
		}
	}
	org.Fault("SELECT Id", Fault{HTML: true})
	if status, body := c.get("/services/data/v62.0/query?q=SELECT+Id+FROM+EventLogFile"); status != 200 || !strings.HasPrefix(body, "<html>") {
		t.Errorf("page: %d %s", status, body)
	}
	org.Fault("/limits", Fault{Fixture: "err_403_longtxn_limit.json"})
	if status, body := c.get("/services/data/v62.0/limits"); status != 403 || !strings.Contains(body, "ConcurrentPerOrgLongTxn") {
		t.Errorf("fixture: %d %s", status, body)
	}
	for _, f := range []Fault{{CutAfter: 5000}, {CutAfter: 5000, Trickle: time.Millisecond}, {CutAfter: 0, StallAfter: 5000}} {
		org.Fault("/LogFile", f)
		resp := c.do(path)
		data := make([]byte, 5000)
		if _, err := io.ReadFull(resp.Body, data); err != nil || !bytes.Equal(data, full[:5000]) {
			t.Errorf("%+v: %v", f, err)
		}
		if f.CutAfter > 0 {
			if _, err := resp.Body.Read(data); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%+v: then %v", f, err)
			}
		}
		resp.Body.Close()
	}
	org.Fault("/LogFile", Fault{Reset: true, Times: -1})
	if resp, err := http.Get(org.URL + path); err == nil {
		resp.Body.Close()
		t.Errorf("reset: %d", resp.StatusCode)
	}
	org.ClearFaults()
	if status, _ := c.get(path); status != 200 {
		t.Errorf("afterwards: %d", status)
	}
	if got := org.Requests("GET " + path); got[1].Status != 503 || got[len(got)-1].Status != 200 {
		t.Errorf("log: %d, %d", got[1].Status, got[len(got)-1].Status)
	}
}

func TestPurgeUpdateDelete(t *testing.T) {
	org := newOrg(t, Config{})
	id := org.AddHour(Hour{Type: "Login", Start: hour, Rows: 1})
	c := login(t, org)
	org.Purge(id)
	if status, body := c.get("/services/data/v62.0/sobjects/EventLogFile/" + id + "/LogFile"); status != 404 || !strings.Contains(body, "NOT_FOUND") {
		t.Errorf("purged: %d %s", status, body)
	}
	if !org.Update("EventLogFile", id, Row{"LogFileLength": 5.0}) || org.Update("EventLogFile", "0AT000000000000", nil) {
		t.Error("update")
	}
	if status, body := c.get("/services/data/v62.0/sobjects/EventLogFile/" + id); status != 200 || !strings.Contains(body, `"LogFileLength":5.0`) {
		t.Errorf("record: %d %s", status, body)
	}
	if !org.Delete("EventLogFile", id) || org.Delete("EventLogFile", id) {
		t.Error("delete")
	}
	if n := c.query("SELECT COUNT() FROM EventLogFile WHERE Interval = 'Hourly'").TotalSize; n != 0 {
		t.Errorf("%d left", n)
	}
}

func TestDescribe(t *testing.T) {
	c := login(t, newOrg(t, Config{}))
	if status, body := c.get("/services/data/v62.0/sobjects/EventLogFile/describe"); status != 200 || !strings.Contains(body, `"name":"LogFile"`) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := c.get("/services/data/v62.0/sobjects/"); status != 200 || !strings.Contains(body, `"EventLogFile"`) || !strings.Contains(body, `"LoginEventStream"`) {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := c.get("/services/data/v62.0/sobjects/Nothing/describe"); status != 404 {
		t.Errorf("status %d, want 404", status)
	}
}

func TestControl(t *testing.T) {
	org := newOrg(t, Config{})
	c := login(t, org)
	post := func(verb, body string) (int, string) {
		resp, err := http.Post(org.URL+controlPath+verb, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		status, data := c.body(resp)
		return status, string(data)
	}
	if status, body := post("fault", `{"match":"/limits","status":500,"times":1}`); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if status, _ := c.get("/services/data/v62.0/limits"); status != 500 {
		t.Errorf("status %d, want 500", status)
	}
	status, body := post("hour", `{"type":"Login","start":"2026-07-01T10:00:00Z","rows":7}`)
	if status != 200 || !strings.Contains(body, `"id":"0AT`) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := post("requests", `{"match":"/limits"}`); status != 200 || !strings.Contains(body, "GET /services/data/v62.0/limits") {
		t.Errorf("%d %s", status, body)
	}
	for verb, body := range map[string]string{"nothing": "", "fault": `{"fixture":"none"}`, "hour": `{"type":"None"}`, "skew": `{`} {
		if status, _ := post(verb, body); status < 400 {
			t.Errorf("%s %s: %d", verb, body, status)
		}
	}
	post("expire-tokens", "")
	if status, _ := c.get("/services/data/v62.0/limits"); status != 401 {
		t.Errorf("status %d, want 401", status)
	}
}

// The manifest says what the files hold.
func TestFill(t *testing.T) {
	org := newOrg(t, Config{})
	m := org.Fill(Believable{Hours: 30, Rows: 40, Types: []string{"Login", "API"}, Poison: true, Late: true, Daily: true})
	rows, repeats := 0, 0
	seen := map[string]bool{}
	var daily int
	for _, f := range m.Files {
		cells := parse(t, org.LogFileBody(f.ID))
		if f.Interval == "Daily" {
			daily++
			continue
		}
		if len(cells)-1 != f.Rows {
			t.Errorf("%+v has %d rows", f, len(cells)-1)
		}
		for _, r := range cells[1:] {
			key := strings.Join(r, "\x00")
			if seen[key] {
				repeats++
				continue
			}
			seen[key] = true
			rows++
		}
	}
	if rows != m.Rows || repeats != m.Repeated || m.Rows != 2*30*40 || repeats == 0 || daily == 0 {
		t.Errorf("%d rows, %d repeats, %d daily files; manifest %d, %d", rows, repeats, daily, m.Rows, m.Repeated)
	}
	if m.Poison["too_old"] != 60 || m.Poison["too_new"] != 0 {
		t.Errorf("poison %v", m.Poison)
	}
	for _, rec := range login(t, org).query("SELECT CreatedDate FROM EventLogFile WHERE Interval IN ('Hourly','Daily')").Records {
		at, err := time.Parse("2006-01-02T15:04:05.000Z0700", rec["CreatedDate"].(string))
		if err != nil || at.After(time.Now().Add(-5*time.Minute)) {
			t.Errorf("created %v, %v: a file of the future", rec["CreatedDate"], err)
		}
	}
}
