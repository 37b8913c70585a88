package salesforce

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"sf2loki/pkg/sftest"
)

// largePage is an answer that takes a turn.
func largePage() string {
	return `{"totalSize":1,"done":true,"records":[{"Id":"` + strings.Repeat("x", smallBody) + `"}]}`
}

// What is large is held by one at a time, until it is used up; what is small
// does not wait.
func TestLargeAnswersTakeTurns(t *testing.T) {
	org := newOrg(t, sftest.Config{})
	small := `{"totalSize":1,"done":true,"records":[{"Id":"x"}]}`
	c := newClient(t, Config{HTTP: &http.Client{Transport: bodies{org, func(q string) string {
		if strings.Contains(q, "Large") {
			return largePage()
		}
		return small
	}}}, LoginURL: org.URL, ClientID: org.ClientID, Auth: ClientCredentials, ClientSecret: func() (string, error) { return org.ClientSecret, nil }})
	var others atomic.Int64
	done := make(chan error, 4)
	for range 4 {
		go func() {
			for _, err := range c.Query(t.Context(), "SELECT Id FROM Large") {
				if n := others.Add(1); n != 1 {
					err = errors.New("two are held at once")
				}
				for _, err := range c.Query(t.Context(), "SELECT Id FROM Small") {
					if err != nil {
						t.Error(err)
					}
				}
				others.Add(-1)
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if len(c.large) != 0 {
		t.Error("the turn is not given back")
	}
}

// Who waits for a turn is let go when the run ends.
func TestTurnIsNotWaitedForAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{large: make(chan struct{}, 1)}
		first := turn{c: c}
		if err := errors.Join(first.take(t.Context()), first.take(t.Context())); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- (&turn{c: c}).take(ctx) }()
		synctest.Wait()
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		first.pass()
		first.pass()
		if err := (&turn{c: c}).take(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// bodies answers queries itself.
type bodies struct {
	org  *sftest.Org
	body func(query string) string
}

func (b bodies) RoundTrip(req *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(req.URL.Path, "/query") {
		return http.DefaultTransport.RoundTrip(req)
	}
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
		Body: io.NopCloser(strings.NewReader(b.body(req.URL.Query().Get("q"))))}, nil
}
