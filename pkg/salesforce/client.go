package salesforce

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"sf2loki/pkg/backoff"
)

// Client is one org, for any number of goroutines.
type Client struct {
	set   *settings
	clock clock
	usage usageWatch

	large chan struct{} // holds the turn of who holds a large answer

	mu   sync.Mutex
	sess session
}

// New checks cfg, without a request; what is wrong with it has exit status 78.
func New(cfg Config) (*Client, error) {
	set, err := cfg.settle()
	if err != nil {
		return nil, configError(err)
	}
	c := &Client{set: set, large: make(chan struct{}, 1)}
	c.sess.turn = make(chan struct{}, 1)
	if set.login.Scheme == "http" && !loopback(set.login.Hostname()) {
		set.Log.Warn("the login url is not https: secrets travel in the clear", "host", set.login.Host)
	}
	return c, nil
}

func loopback(host string) bool {
	return host == "localhost" || strings.HasPrefix(host, "127.") || host == "::1"
}

// Version is the version of the REST API in use, as it stands in paths: "v62.0".
func (c *Client) Version() string { return c.set.version }

// LoginHost is the host that logins go to.
func (c *Client) LoginHost() string { return c.set.login.Host }

// Audience is what the assertion of a JWT login names; empty: there is none.
func (c *Client) Audience() string {
	if c.set.Auth != JWT {
		return ""
	}
	return c.set.audience
}

// Now is the present by Salesforce's clock, as its last answers told it; until
// the first answer it is our own.
func (c *Client) Now() time.Time { return c.set.Now().Add(c.clock.skew()) }

// Skew is by how much Salesforce's clock is ahead of ours.
func (c *Client) Skew() time.Duration { return c.clock.skew() }

// Usage is the org's use of its daily allowance, as the last answer told it.
func (c *Client) Usage() Usage { return c.usage.get() }

// maxURL is Salesforce's bound on a URI with its headers, less room for these.
const maxURL = 16384 - 2048

// do makes a GET request, logging in and trying again as its outcome advises,
// until use has accepted a 2xx answer. use may return an *Error of a temporary
// kind to have the request made again.
func (c *Client) do(ctx context.Context, op, path string, use func(*answer) error) error {
	wait := backoff.New(c.set.Retry.Min, c.set.Retry.Max)
	relogged := false
	for attempt := 1; ; attempt++ {
		err := c.try(ctx, op, path, use)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var dead *deadSession
		if errors.As(err, &dead) && !relogged {
			relogged = true
			c.Drop(dead.token)
			attempt--
			continue
		}
		var e *Error
		if !errors.As(err, &e) {
			return err
		}
		c.throttled(op, e)
		if !e.Kind.Temporary() || attempt >= c.set.Retry.Attempts || e.Op == "log in" {
			if e.Op == "get" || e.Op == "download" {
				e.Path = shortPath(path)
			}
			return coded(errOf(err, e))
		}
		if err := c.pauseRetry(ctx, e, attempt, wait.Next()); err != nil {
			return err
		}
	}
}

// deadSession is the refusal of a session, which a new login may mend.
type deadSession struct {
	token Token
	err   *Error
}

func (d *deadSession) Error() string { return d.err.Error() }
func (d *deadSession) Unwrap() error { return d.err }

// shortPath is a path fit for a message.
func shortPath(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return clip(path)
}

// errOf takes the session out of an error that leaves the client.
func errOf(err error, e *Error) error {
	var dead *deadSession
	if errors.As(err, &dead) {
		return e
	}
	return err
}

func (c *Client) throttled(op string, e *Error) {
	switch e.Kind {
	case KindLimitTotal, KindLimitConcurrent, KindReserve, KindLoginRate:
		if c.set.Hooks.Throttle != nil {
			c.set.Hooks.Throttle(op, e.Kind)
		}
	}
}

func (c *Client) pauseRetry(ctx context.Context, e *Error, attempt int, d time.Duration) error {
	if c.set.Hooks.Retry != nil {
		c.set.Hooks.Retry(e.Kind)
	}
	if e.Kind == KindLimitConcurrent {
		d *= 4 // what runs in the org takes seconds at least
	}
	c.set.Log.Debug("trying again", "err", e, "attempt", attempt, "pause", d)
	return backoff.Sleep(ctx, d)
}

func (c *Client) try(ctx context.Context, op, path string, use func(*answer) error) error {
	t, err := c.token(ctx)
	if err != nil {
		return err
	}
	if err := c.checkReserve(ctx, t); err != nil {
		return err
	}
	return c.once(ctx, t, op, path, use)
}

func (c *Client) once(ctx context.Context, t *Token, op, path string, use func(*answer) error) error {
	u, err := c.resolve(t, path)
	if err != nil {
		return &Error{Op: op, Kind: KindConfig, Err: err}
	}
	if len(u) > maxURL {
		return &Error{Op: op, Kind: KindQuery, Err: fmt.Errorf("a request of %d bytes is longer than Salesforce takes", len(u)),
			Cure: "name fewer event types or users"}
	}
	req, err := http.NewRequest(http.MethodGet, u, nil)
	if err != nil {
		return &Error{Op: op, Kind: KindConfig, Err: err}
	}
	req.Header.Set("Authorization", "Bearer "+t.Access)
	req.Header.Set("Accept", "application/json")
	a, err := c.send(ctx, op, c.set.Timeout.Header, req)
	if err != nil {
		return err
	}
	if a.status < 200 || a.status > 299 {
		defer a.Close()
		return c.refusal(a, t)
	}
	err = use(a)
	var e *Error
	if errors.As(err, &e) && e.Kind == KindAuth { // said with a 200
		return &deadSession{*t, e}
	}
	return err
}

// maxErrorBody is how much of an error answer is read.
const maxErrorBody = 64 << 10

// refusal makes an error of an answer that is no success.
func (c *Client) refusal(a *answer, t *Token) error {
	body, err := a.readSome(maxErrorBody)
	if err != nil && len(body) == 0 && a.status >= 500 {
		return err
	}
	e := c.judge(classify, a, body)
	if e.Kind == KindAuth {
		if e.Cure == "" {
			e.Cure = "a new login did not help: look at the app's session and IP policies, and at what the user may do"
		}
		return &deadSession{*t, e}
	}
	return e
}

// judge classifies an answer without the secrets that it may quote: they are
// looked for before its words are shortened, and in what its decoding has made
// of them.
func (c *Client) judge(classify func(op string, status int, header http.Header, body []byte) *Error, a *answer, body []byte) *Error {
	hide := c.set.Secrets.Hide
	e := classify(a.op, a.status, a.header, []byte(hide(string(body))))
	e.Code, e.Message = hide(e.Code), hide(e.Message)
	return e
}

// resolve makes the URL of a path: one below the REST version, or, with a
// slash in front, below the instance. A link to another host is refused, as
// the session would go there.
func (c *Client) resolve(t *Token, path string) (string, error) {
	ref, err := url.Parse(path)
	if err != nil {
		return "", fmt.Errorf("path %q cannot be read", clip(path))
	}
	if ref.Scheme != "" || ref.Host != "" {
		if ref.Scheme+"://"+ref.Host != t.InstanceURL {
			return "", fmt.Errorf("link leads to %s://%s, not to the instance %s", ref.Scheme, ref.Host, t.InstanceURL)
		}
		return path, nil
	}
	if !strings.HasPrefix(path, "/") {
		path = "/services/data/" + c.set.version + "/" + path
	}
	return t.InstanceURL + path, nil
}
