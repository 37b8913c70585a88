package salesforce

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// script answers requests without a network, so that a test's clock can run.
type script func(*http.Request) (*http.Response, error)

func (s script) RoundTrip(r *http.Request) (*http.Response, error) { return s(r) }

func respond(status int, body string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

const tokenAnswer = `{"access_token":"00D!abc","instance_url":"https://acme.my.salesforce.com","id":"https://login.salesforce.com/id/00Dxx0000001gPLEAY/005xx000001Sv6AAAS"}`

func scripted(t *testing.T, answer script) *Client {
	t.Helper()
	return newClient(t, Config{LoginURL: "https://acme.my.salesforce.com", Auth: ClientCredentials, ClientID: "id", ClientSecret: text("s"),
		HTTP: &http.Client{Transport: answer}})
}

// As they come, the bounds: five tries, pauses that double from half a second.
func TestPausesAreBounded(t *testing.T) {
	for _, tt := range []struct {
		body string
		most time.Duration // 0.5 + 1 + 2 + 4 s
	}{
		{`[{"errorCode":"SERVER_UNAVAILABLE"}]`, 7500 * time.Millisecond},
		{`[{"errorCode":"REQUEST_LIMIT_EXCEEDED","message":"ConcurrentRequests"}]`, 30 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			c := scripted(t, func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.URL.Path, tokenPath) {
					return respond(200, tokenAnswer)
				}
				calls++
				return respond(503, tt.body)
			})
			start := time.Now()
			_, err := c.Get(context.Background(), "limits/")
			took := time.Since(start)
			if err == nil || calls != 5 || took == 0 || took > tt.most {
				t.Errorf("%s: %d calls in %v, %v; want 5 within %v", tt.body, calls, took, err, tt.most)
			}
		})
	}
}

// A server that never answers is left after 30 s at login, 150 s elsewhere.
func TestPatience(t *testing.T) {
	for _, login := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			c := scripted(t, func(r *http.Request) (*http.Response, error) {
				if !login && strings.HasSuffix(r.URL.Path, tokenPath) {
					return respond(200, tokenAnswer)
				}
				calls++
				<-r.Context().Done()
				return nil, r.Context().Err()
			})
			start := time.Now()
			_, err := c.Get(context.Background(), "limits/")
			wantKind(t, err, KindTimeout)
			least := 5 * loginPatience
			if !login {
				least = 5 * 150 * time.Second
			}
			if took := time.Since(start); calls != 5 || took < least || took > least+30*time.Second {
				t.Errorf("login %v: %d calls in %v, want 5 in about %v", login, calls, took, least)
			}
		})
	}
}

// The first login decides the org: a later one that leads elsewhere is refused.
func TestOrgIsKept(t *testing.T) {
	answer := tokenAnswer
	c := scripted(t, func(r *http.Request) (*http.Response, error) { return respond(200, answer) })
	first, err := c.Token(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	c.Drop(first)
	answer = strings.Replace(tokenAnswer, "00Dxx0000001gPLEAY", "00Dxx0000002abc", 1)
	_, err = c.Token(context.Background())
	if e := wantKind(t, err, KindConfig); !strings.Contains(e.Message, "not to 00Dxx0000001gPLEAY") {
		t.Errorf("error %v", err)
	}
}

// drip is a body of n bytes that come one by one.
type drip struct {
	ctx   context.Context
	n     int
	every time.Duration
}

func (d *drip) Read(p []byte) (int, error) {
	if d.n == 0 {
		return 0, io.EOF
	}
	select {
	case <-time.After(d.every):
		d.n--
		p[0] = 'x'
		return 1, nil
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
}

func (d *drip) Close() error { return nil }

// A download may take for ever as long as it moves, and a minute when it does not.
func TestSlowBodies(t *testing.T) {
	for _, tt := range []struct {
		every time.Duration
		kind  Kind
	}{{59 * time.Second, KindOther}, {61 * time.Second, KindTimeout}} {
		synctest.Test(t, func(t *testing.T) {
			c := scripted(t, func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.URL.Path, tokenPath) {
					return respond(200, tokenAnswer)
				}
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: &drip{r.Context(), 1000, tt.every}}, nil
			})
			start := time.Now()
			body, err := c.Open(context.Background(), "sobjects/EventLogFile/0AT/LogFile")
			n := int64(0)
			if err == nil {
				n, err = io.Copy(io.Discard, body)
				body.Close()
			}
			if KindOf(err) != tt.kind || (err == nil) != (n == 1000) {
				t.Errorf("a byte every %v: %d bytes in %v, %v", tt.every, n, time.Since(start), err)
			}
		})
	}
}
