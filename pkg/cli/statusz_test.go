package cli

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestWantsHTML(t *testing.T) {
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
	for _, tc := range []struct {
		accept, query string
		want          bool
	}{
		{"", "", false},
		{"*/*", "", false},
		{browser, "", true},
		{browser, "?format=json", false},
		{"*/*", "?format=html", true},
		{"application/json", "", false},
		{"application/json, text/html", "", false},
		{"application/json;q=0.5, Text/HTML", "", true},
		{"text/html;q=0.4, application/json", "", false},
		{"text/html;level=1; Q=0.9, application/json;q=0.8", "", true},
		{"text/html;q=0", "", false},
		{"text/html;q=x", "", false},
		{"text/htmlx, text/*", "", false},
	} {
		r := httptest.NewRequest("GET", "/statusz"+tc.query, nil)
		r.Header.Set("Accept", tc.accept)
		if got := wantsHTML(r); got != tc.want {
			t.Errorf("Accept %q %s: %v", tc.accept, tc.query, got)
		}
	}
}

// statusApp has a status with a value of each kind.
func statusApp() *App {
	app := NewApp("fake-tool")
	app.Instance = "host-<i>a</i>"
	app.OnReady(func() error { return errors.New(`held by "x" & <b>y</b>`) })
	app.OnUSR1(func() any {
		return struct {
			Unsettled int              `json:"unsettled"`
			Bytes     int64            `json:"buffer_bytes"`
			Cycle     time.Duration    `json:"cycle_ns"`
			Ended     bool             `json:"input_ended"`
			Last      time.Time        `json:"last_stored"`
			Nothing   any              `json:"nothing"`
			Share     float64          `json:"seconds"`
			Letters   map[string]int64 `json:"dead_letters"`
			Types     []map[string]any `json:"types"`
			Topics    map[string]any   `json:"topics"`
			Names     []string         `json:"names"`
			Empty     map[string]int   `json:"empty"`
		}{
			1234567, 3 << 20, 1500 * time.Millisecond, true, time.Date(2026, 7, 1, 20, 0, 0, 0, time.UTC), nil, 12.34,
			map[string]int64{"too_old": 2},
			[]map[string]any{
				{"event_type": "<script>alert(1)</script>", "position": 0},
				{"event_type": "Login", "position": time.Date(2026, 7, 1, 17, 0, 0, 0, time.UTC).UnixNano(), "read": 1000, "errors": map[string]int{"HTTP 500": 3}},
			},
			map[string]any{"/event/A": map[string]bool{"up": true}},
			[]string{"a", "b"},
			map[string]int{},
		}
	})
	return app
}

func serveStatusz(t *testing.T, accept string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequest("GET", "/statusz", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	statusApp().handler().ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %v", w.Code, err)
	}
	return w.Result(), string(body)
}

func TestStatusPage(t *testing.T) {
	resp, body := serveStatusz(t, "text/html")
	if got := resp.Header.Get("Content-Type"); got != "text/html; charset=utf-8" {
		t.Errorf("content type %q", got)
	}
	if csp := resp.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "script-src") {
		t.Errorf("policy %q", csp)
	}
	for _, want := range []string{
		"<h1>fake-tool on host-&lt;i&gt;a&lt;/i&gt;</h1>",
		`Not ready: held by &#34;x&#34; &amp; &lt;b&gt;y&lt;/b&gt;`,
		`<th scope="row">unsettled</th><td>1,234,567</td>`,
		`<th scope="row">buffer bytes</th><td>3.0 MiB</td>`,
		`<th scope="row">cycle</th><td>1.5s</td>`,
		`<th scope="row">input ended</th><td>yes</td>`,
		`<th scope="row">last stored</th><td>2026-07-01 20:00:00 UTC (`,
		`<th scope="row">nothing</th><td>none</td>`,
		`<td>12.3</td>`,
		"<h3>dead letters</h3>",
		`<th scope="row">too_old</th><td>2</td>`,
		`<td>&lt;script&gt;alert(1)&lt;/script&gt;</td><td>none yet</td>`,
		"2026-07-01 17:00:00 UTC (",
		"<td>HTTP 500 3</td>",
		`<td class="n">1,000</td>`,
		`<th scope="row">/event/A</th><td>yes</td>`,
		"<p>a, b</p>",
		"<h3>empty</h3>\n<p>none</p>",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(strings.ToLower(body), "<script") {
		t.Error("the page has a script")
	}
	balanced(t, body)
	if t.Failed() {
		t.Log(body)
	}
}

// balanced checks that every element that is opened is closed in its place.
func balanced(t *testing.T, body string) {
	t.Helper()
	body = regexp.MustCompile(`(?s)<!DOCTYPE html>|<style>.*?</style>|<meta [^>]*>`).ReplaceAllString(body, "")
	dec := xml.NewDecoder(strings.NewReader(body))
	for {
		_, err := dec.Token()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// What the page shows is what the JSON says.
func TestStatusJSON(t *testing.T) {
	resp, body := serveStatusz(t, "*/*")
	if got := resp.Header.Get("Content-Type"); got != "application/json" || resp.Header.Get("Vary") != "Accept" {
		t.Errorf("content type %q, vary %q", got, resp.Header.Get("Vary"))
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if got["ready"] != false || got["not_ready"] != `held by "x" & <b>y</b>` {
		t.Errorf("readiness %v %v", got["ready"], got["not_ready"])
	}
	page, err := statusPage([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	for name := range got["status"].(map[string]any) {
		if !strings.Contains(string(page), ">"+label(name)+"<") {
			t.Errorf("the page has no %s", name)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 59 * time.Second: "59 s", time.Minute: "1 min", 61 * time.Second: "1 min 1 s",
		3 * time.Hour: "3 h", 25*time.Hour + time.Minute: "1 d 1 h", 90 * time.Minute: "1 h 30 min",
	} {
		if got := span(d); got != want {
			t.Errorf("%v: %q", d, got)
		}
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
}

// FuzzStatusPage: whatever a status holds, the page is whole and has no element
// that is not its own.
func FuzzStatusPage(f *testing.F) {
	f.Add("status", "</td><script>", 1.5)
	f.Add("newest", "2026-07-01T00:00:00Z", -1e300)
	f.Add("bytes", "\x00\xff", 1e18)
	f.Fuzz(func(t *testing.T, key, text string, number float64) {
		b, err := json.Marshal(map[string]any{"status": map[string]any{
			key: []any{map[string]any{key: text}, map[string]any{text: number}}, text: text, "n": number,
		}})
		if err != nil {
			return // not a number
		}
		page, err := statusPage(b)
		if err != nil {
			t.Fatal(err)
		}
		for _, tag := range regexp.MustCompile(`<[^a-z/!]|</?[a-z0-9]*`).FindAllString(string(page), -1) {
			if !ours[strings.TrimPrefix(strings.TrimPrefix(tag, "<"), "/")] {
				t.Fatalf("element %q in %q", tag, page)
			}
		}
	})
}

var ours = map[string]bool{
	"": true, "html": true, "head": true, "meta": true, "title": true, "style": true, "body": true, "header": true, "h1": true,
	"h2": true, "h3": true, "h4": true, "p": true, "nav": true, "a": true, "main": true, "dl": true, "dt": true, "dd": true,
	"table": true, "thead": true, "tbody": true, "tr": true, "th": true, "td": true, "div": true,
}
