package loki

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang/snappy"
	"google.golang.org/protobuf/proto"

	"sf2loki/pkg/loki/pushpb"
	"sf2loki/pkg/sysexits"
)

// onePush is a request of one entry.
func onePush(line string) []byte {
	return AppendPush(nil, []byte(`{a="b"}`), [][]byte{AppendEntry(nil, 1782936000000000000, []byte(line), pairs("c", "d"))})
}

func newTestClient(t testing.TB, cfg Config) *Client {
	t.Helper()
	if cfg.Proxy == nil {
		cfg.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	c, err := NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func text(s string) func() (string, error) { return func() (string, error) { return s, nil } }

// seen is what a server got.
type seen struct {
	mu   sync.Mutex
	path string
	head http.Header
	body []byte
	from map[string]bool // connections
}

func (s *seen) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.from == nil {
		s.from = map[string]bool{}
	}
	s.path, s.head, s.body = r.RequestURI, r.Header.Clone(), body
	s.from[r.RemoteAddr] = true
	w.WriteHeader(http.StatusNoContent)
}

func TestPushProtobuf(t *testing.T) {
	var got seen
	c := newTestClient(t, Config{URL: serve(t, got.ServeHTTP).URL, Tenant: "7", BackfillShard: "b1", UserAgent: "loki-push/1"})
	for range 3 {
		if a := c.Push(context.Background(), onePush("hello")); a.Status != 204 || a.Err != nil || a.Sent != int64(len(got.body)) {
			t.Fatalf("%+v", a)
		}
	}
	raw, err := snappy.Decode(nil, got.body)
	if err != nil {
		t.Fatal(err)
	}
	var req pushpb.PushRequest
	if err := proto.Unmarshal(raw, &req); err != nil {
		t.Fatal(err)
	}
	if e := req.Streams[0].Entries[0]; e.Line != "hello" || e.StructuredMetadata[0].Value != "d" {
		t.Errorf("%v", e)
	}
	for name, want := range map[string]string{"Content-Type": "application/x-protobuf", "Content-Encoding": "",
		"X-Scope-Orgid": "7", "X-Loki-Backfill-Shard": "b1", "User-Agent": "loki-push/1", "Authorization": ""} {
		if v := got.head.Get(name); v != want {
			t.Errorf("%s: %q, want %q", name, v, want)
		}
	}
	if got.path != PushPath {
		t.Errorf("path %s", got.path)
	}
	if len(got.from) != 1 {
		t.Errorf("%d connections for three requests", len(got.from))
	}
}

func TestPushJSON(t *testing.T) {
	var got seen
	c := newTestClient(t, Config{URL: serve(t, got.ServeHTTP).URL, Encoding: JSON})
	for _, line := range []string{"a longer line first", "hello"} { // the second in the first one's buffer
		if a := c.Push(context.Background(), onePush(line)); a.Status != 204 || a.Err != nil {
			t.Fatalf("%+v", a)
		}
		zr, err := gzip.NewReader(bytes.NewReader(got.body))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(zr)
		if want := `{"streams":[{"stream":{"a":"b"},"values":[["1782936000000000000","` + line + `",{"c":"d"}]]}]}`; err != nil || string(raw) != want {
			t.Errorf("%v %s", err, raw)
		}
	}
	if got.head.Get("Content-Type") != "application/json" || got.head.Get("Content-Encoding") != "gzip" {
		t.Errorf("%v", got.head)
	}
	if a := c.Push(context.Background(), []byte("garbage")); a.Err == nil || a.Status != 0 {
		t.Errorf("%+v", a)
	}
}

func TestTarget(t *testing.T) {
	for _, tc := range []struct{ url, target, endpoint string }{
		{"http://h:3100", "http://h:3100/loki/api/v1/push", "http://h:3100/loki/api/v1/push"},
		{"https://h/", "https://h/loki/api/v1/push", "https://h/loki/api/v1/push"},
		{"http://h/insert/loki/api/v1/push", "http://h/insert/loki/api/v1/push", "http://h/insert/loki/api/v1/push"},
		{"http://u:p@h?x=secret#f", "http://h/loki/api/v1/push?x=secret", "http://h/loki/api/v1/push"},
		{"http://[::1]:3100", "http://[::1]:3100/loki/api/v1/push", "http://[::1]:3100/loki/api/v1/push"},
		{"http://h/a%2Fb", "http://h/a%2Fb", "http://h/a/b"},
	} {
		c := newTestClient(t, Config{URL: tc.url})
		if c.target.String() != tc.target || c.Endpoint() != tc.endpoint {
			t.Errorf("%s: %s, shown as %s", tc.url, c.target, c.Endpoint())
		}
	}
}

func TestNewClientErrors(t *testing.T) {
	fail := func() (string, error) { return "", errors.New("open x: no such file") }
	for _, tc := range []struct {
		name string
		cfg  Config
		code sysexits.Code
		text string
	}{
		{"no URL", Config{}, sysexits.Config, "no URL"},
		{"no scheme", Config{URL: "localhost:3100"}, sysexits.Config, "http://"},
		{"other scheme", Config{URL: "ftp://h/"}, sysexits.Config, "http://"},
		{"no host", Config{URL: "http:///loki"}, sysexits.Config, "host"},
		{"bad host", Config{URL: "http://a b/"}, sysexits.Config, "invalid character"},
		{"secret in a bad URL", Config{URL: "http://u:s3cret/x@h y/"}, sysexits.Config, "percent-encoding"},
		{"secret as a port", Config{URL: "http://u:s3cret@h:s3cret/"}, sysexits.Config, "percent-encoding"},
		{"tenant with a line break", Config{URL: "http://h", Tenant: "a\nb"}, sysexits.Config, "X-Scope-OrgID"},
		{"shard with a line break", Config{URL: "http://h", BackfillShard: "a\x00"}, sysexits.Config, "Backfill"},
		{"token and user", Config{URL: "http://h", Token: text("s3cret"), User: "u", Password: text("s3cret")}, sysexits.Config, "both"},
		{"user without a password", Config{URL: "http://h", User: "u"}, sysexits.Config, "no password"},
		{"password without a user", Config{URL: "http://h", Password: text("s3cret")}, sysexits.Config, "no user"},
		{"user with a colon", Config{URL: "http://h", User: "u:s", Password: text("s3cret")}, sysexits.Config, "colon"},
		{"token unreadable", Config{URL: "http://h", Token: fail}, sysexits.Config, "read the token: open x"},
		{"token not permitted", Config{URL: "http://h", Token: func() (string, error) { return "", sysexits.Errorf(sysexits.NoPerm, "denied") }}, sysexits.NoPerm, "denied"},
		{"token of two lines", Config{URL: "http://h", Token: text("s3cret\nx")}, sysexits.Config, "line break"},
		{"password of two lines", Config{URL: "http://h", User: "u", Password: text("s3cret\nx")}, sysexits.Config, "line break"},
		{"no CA file", Config{URL: "http://h", CAFile: "testdata/none"}, sysexits.Config, "testdata/none"},
		{"CA file of something else", Config{URL: "http://h", CAFile: "testdata/answers.json"}, sysexits.Config, "no certificate"},
		{"certificate without a key", Config{URL: "http://h", CertFile: "x"}, sysexits.Config, "key"},
		{"key without a certificate", Config{URL: "http://h", KeyFile: "x"}, sysexits.Config, "key"},
		{"certificate missing", Config{URL: "http://h", CertFile: "testdata/none", KeyFile: "testdata/none"}, sysexits.Config, "testdata/none"},
		{"bad proxy", Config{URL: "http://h", Proxy: func(*http.Request) (*url.URL, error) {
			return nil, errors.New("invalid proxy address http://u:s3cret@:x")
		}}, sysexits.Config, "proxy"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := NewClient(tc.cfg)
			if err == nil || sysexits.Of(err) != tc.code || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("%v, status %d; want %q, %d", err, sysexits.Of(err), tc.text, tc.code)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("tells a secret: %v", err)
			}
		})
	}
}

// Credentials of the URL serve, warn and never show; explicit ones win (#125).
func TestAuthorization(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  Config
		user string // in the URL
		want string
	}{
		{"none", Config{}, "", ""},
		{"token", Config{Token: text("s3cret")}, "", "Bearer s3cret"},
		{"basic", Config{User: "u", Password: text("s3cret")}, "", "Basic dTpzM2NyZXQ="},
		{"URL", Config{}, "u:s3cret@", "Basic dTpzM2NyZXQ="},
		{"user only in the URL", Config{}, "s3cret@", "Basic czNjcmV0Og=="},
		{"token beats URL", Config{Token: text("t0ken")}, "u:s3cret@", "Bearer t0ken"},
		{"user beats URL", Config{User: "u", Password: text("s3cret")}, "v:w@", "Basic dTpzM2NyZXQ="},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got seen
			var log bytes.Buffer
			s := serve(t, got.ServeHTTP)
			tc.cfg.URL = strings.Replace(s.URL, "://", "://"+tc.user, 1)
			tc.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
			c := newTestClient(t, tc.cfg)
			if a := c.Push(context.Background(), onePush("x")); a.Status != 204 {
				t.Fatalf("%+v", a)
			}
			if v := got.head.Get("Authorization"); v != tc.want {
				t.Errorf("%q, want %q", v, tc.want)
			}
			if warned := strings.Contains(log.String(), "level=WARN"); warned != (tc.user != "") {
				t.Errorf("warned: %v", warned)
			}
			s.Close()
			a := c.Push(context.Background(), onePush("x"))
			if a.Err == nil {
				t.Fatal("no error from a closed server")
			}
			for _, shown := range []string{log.String(), a.Err.Error(), c.Endpoint()} {
				if strings.Contains(shown, "s3cret") || strings.Contains(shown, "t0ken") {
					t.Errorf("tells a secret: %s", shown)
				}
			}
		})
	}
}

// A rotated secret needs no restart, and a file caught in the middle of its
// rotation costs no request.
func TestSecretIsReadAgain(t *testing.T) {
	var got seen
	var log bytes.Buffer
	token, err := "one", error(nil)
	c := newTestClient(t, Config{URL: serve(t, got.ServeHTTP).URL, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Token: func() (string, error) { return token, err }})
	for _, step := range []struct {
		token, want string
		err         error
	}{
		{"one", "Bearer one", nil},
		{"two", "Bearer two", nil},
		{"", "Bearer two", errors.New("token file is empty")},
		{"", "Bearer two", errors.New("token file is empty")},
		{"with\nbreak", "Bearer two", nil},
		{"three", "Bearer three", nil},
	} {
		token, err = step.token, step.err
		if a := c.Push(context.Background(), onePush("x")); a.Status != 204 {
			t.Fatalf("%+v", a)
		}
		if v := got.head.Get("Authorization"); v != step.want {
			t.Errorf("%q, want %q", v, step.want)
		}
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings for one failure:\n%s", n, log.String())
	}
}

// A redirect is an answer like any other: nothing is sent elsewhere (Z34).
func TestRedirectIsNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		other := 0
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != PushPath {
				other++
				return
			}
			http.Redirect(w, r, "http://u:s3cret@login.example.com/login?next=s3cret", status)
		})
		c := newTestClient(t, Config{URL: s.URL})
		a := c.Push(context.Background(), onePush("x"))
		if a.Status != status || other != 0 || a.Location != "http://login.example.com/login" {
			t.Errorf("%d: %+v, %d requests elsewhere", status, a, other)
		}
		if v := Judge(a); v.Class != Misconfigured || v.Detail != "redirect to http://login.example.com/login" {
			t.Errorf("%+v", v)
		}
	}
	for from, to := range map[string]string{"": "", "/login?x=1": "/login", "mailto:x@y": "an address that is no URL", "http://a b": "an address that is no URL"} {
		if got := redactLocation(from); got != to {
			t.Errorf("%q: %q, want %q", from, got, to)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	c := newTestClient(t, Config{URL: "http://h", Now: func() time.Time { return now }})
	for _, tc := range []struct {
		header, date string
		want         time.Duration
	}{
		{"7", "", 7 * time.Second},
		{" 120 ", "", 2 * time.Minute},
		{"0", "", 0},
		{"-5", "", 0},
		{"soon", "", 0},
		{"1.5", "", 0},
		{"3600", "", 5 * time.Minute},
		{"99999999999999999999999", "", 5 * time.Minute},
		{"18446744073709551615", "", 5 * time.Minute},
		{"Mon, 30 Nov 2026 12:00:30 GMT", "", 30 * time.Second},
		{"Mon, 30 Nov 2026 12:00:30 GMT", "Mon, 30 Nov 2026 12:00:10 GMT", 20 * time.Second},
		{"Mon, 30 Nov 2026 11:00:00 GMT", "", 0},
		{"Tue, 30 Nov 2027 11:00:00 GMT", "", 5 * time.Minute},
		{"", "", 0},
	} {
		h := http.Header{"Retry-After": {tc.header}}
		if tc.date != "" {
			h.Set("Date", tc.date)
		}
		if got := min(c.retryAfter(h), c.maxRetryAfter); got != tc.want {
			t.Errorf("%q at %q: %s, want %s", tc.header, tc.date, got, tc.want)
		}
	}
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(429)
	})
	c = newTestClient(t, Config{URL: s.URL, MaxRetryAfter: time.Minute})
	if a := c.Push(context.Background(), onePush("x")); a.RetryAfter != time.Minute || Judge(a).RetryAfter != time.Minute {
		t.Errorf("%+v", a)
	}
}

// A long answer is cut, and read to its end so that the connection stays.
func TestLongAnswer(t *testing.T) {
	conns := map[string]bool{}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conns[r.RemoteAddr] = true
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(400)
		_, _ = w.Write(bytes.Repeat([]byte("x"), 322<<10))
	})
	c := newTestClient(t, Config{URL: s.URL})
	for range 3 {
		if a := c.Push(context.Background(), onePush("x")); a.Status != 400 || len(a.Body) != MaxBody || a.Err != nil {
			t.Fatalf("%d, %d bytes, %v", a.Status, len(a.Body), a.Err)
		}
	}
	if len(conns) != 1 {
		t.Errorf("%d connections", len(conns))
	}
}

func TestEndlessAnswer(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(bytes.Repeat([]byte("x"), 64<<10)); err != nil {
				return
			}
		}
	})
	c := newTestClient(t, Config{URL: s.URL})
	if a := c.Push(context.Background(), onePush("x")); a.Status != 200 || len(a.Body) != MaxBody || a.Err != nil {
		t.Fatalf("%d, %d bytes, %v", a.Status, len(a.Body), a.Err)
	}
}

func TestNoAnswer(t *testing.T) {
	release := make(chan struct{})
	started := make(chan struct{}, 8)
	s := serve(t, func(http.ResponseWriter, *http.Request) {
		started <- struct{}{}
		<-release
	})
	defer close(release) // before the server closes, which waits for handlers
	c := newTestClient(t, Config{URL: s.URL, Timeout: 50 * time.Millisecond})
	a := c.Push(context.Background(), onePush("x"))
	if a.Err == nil || !strings.HasSuffix(a.Err.Error(), "no answer within 50ms") || Judge(a).Class != Busy {
		t.Errorf("%+v", a)
	}
	<-started

	c = newTestClient(t, Config{URL: s.URL})
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() { <-started; cancel(errors.New("asked to stop")) }()
	if a := c.Push(ctx, onePush("x")); a.Err == nil || !strings.HasSuffix(a.Err.Error(), "asked to stop") {
		t.Errorf("%+v", a)
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if a := c.Push(ctx, onePush("x")); !errors.Is(a.Err, context.Canceled) {
		t.Errorf("%+v", a)
	}
}

func TestBrokenAnswers(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"reset": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				conn.Close()
			}
		},
		"cut in the body": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
		},
	} {
		c := newTestClient(t, Config{URL: serve(t, h).URL})
		if a := c.Push(context.Background(), onePush("x")); a.Err == nil || Judge(a).Class != Busy {
			t.Errorf("%s: %+v, %+v", name, a, Judge(a))
		}
	}
}

// Servers that answer before they have read the request, and requests that are
// given up, must not let a buffer be used again while it is still being sent.
func TestBuffersAreNotShared(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Scope-OrgID") == "hasty" {
			w.WriteHeader(413)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		raw, err := snappy.Decode(nil, body)
		var req pushpb.PushRequest
		if err == nil {
			err = proto.Unmarshal(raw, &req)
		}
		if err != nil {
			t.Errorf("a request was damaged: %v", err)
			return
		}
		line := req.Streams[0].Entries[0].Line
		if strings.Trim(line, line[:1]) != "" {
			t.Error("a request holds bytes of another")
		}
		w.WriteHeader(204)
	})
	c := newTestClient(t, Config{URL: s.URL})
	hasty := newTestClient(t, Config{URL: s.URL, Tenant: "hasty"})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			push := onePush(strings.Repeat(string(rune('a'+i)), 200<<10))
			for n := range 20 {
				ctx, cancel := context.WithCancel(context.Background())
				if n%5 == 4 {
					time.AfterFunc(time.Millisecond, cancel)
				}
				hasty.Push(context.Background(), push)
				c.Push(ctx, push)
				cancel()
			}
		})
	}
	wg.Wait()
}

func TestProxy(t *testing.T) {
	var got seen
	proxy, err := url.Parse(serve(t, got.ServeHTTP).URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy.User = url.UserPassword("u", "s3cret")
	cfg := Config{URL: "http://loki.invalid", Proxy: http.ProxyURL(proxy)}
	if a := newTestClient(t, cfg).Push(context.Background(), onePush("x")); a.Status != 204 {
		t.Fatalf("%+v", a)
	}
	if got.path != "http://loki.invalid/loki/api/v1/push" || got.head.Get("Proxy-Authorization") != "Basic dTpzM2NyZXQ=" {
		t.Errorf("%s %v", got.path, got.head)
	}

	deny := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(407) })
	proxy.Host = strings.TrimPrefix(deny.URL, "http://")
	cfg.URL = "https://loki.invalid"
	a := newTestClient(t, cfg).Push(context.Background(), onePush("x"))
	if v := Judge(a); v.Class != Misconfigured || v.Code != sysexits.NoPerm || !strings.Contains(v.Detail, "proxy refuses") {
		t.Errorf("%+v", v)
	}
	if strings.Contains(fmt.Sprint(a.Err), "s3cret") {
		t.Errorf("tells a secret: %v", a.Err)
	}
}

func TestAnswersJSONIsWhatServersSend(t *testing.T) {
	for _, r := range recordedAnswers(t) {
		if r.Status == 204 || r.Status == 260 {
			continue // bodiless; and a status that the test server would log about
		}
		s := serve(t, func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			w.Header()["Content-Type"] = nil
			if r.ContentType != "" {
				w.Header().Set("Content-Type", r.ContentType)
			}
			w.WriteHeader(r.Status)
			_, _ = io.WriteString(w, r.Body)
		})
		a := newTestClient(t, Config{URL: s.URL}).Push(context.Background(), onePush("x"))
		direct, over := Judge(r.answer()), Judge(a)
		one, _ := json.Marshal(direct)
		two, _ := json.Marshal(over)
		if !bytes.Equal(one, two) {
			t.Errorf("%s: %s over the wire, %s directly", r.Name, two, one)
		}
		s.Close()
	}
}
