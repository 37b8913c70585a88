package loki

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sf2loki/pkg/secret"
)

// PushPath is the path that a URL without one gets.
const PushPath = "/loki/api/v1/push"

// Encoding is the form of a request's body.
type Encoding int

// The encodings.
const (
	Protobuf Encoding = iota // protobuf, snappy block format
	JSON                     // JSON, gzip: to look at on the wire
)

// Config is where and how to push.
type Config struct {
	// URL may lack a path, then it gets PushPath. Userinfo in it is used as
	// basic auth unless User or Token is set; it never shows in a message.
	URL    string
	Tenant string // X-Scope-OrgID; "" sends none

	// User and Password are basic auth; Token is a bearer token. Both functions
	// are asked before every request, so that a rotated secret needs no
	// restart; while one fails, its last answer is used.
	User     string
	Password func() (string, error)
	Token    func() (string, error)

	Secrets *secret.Set // learns what requests prove themselves with; nil: a set of its own

	CAFile            string // PEM; these authorities instead of the system's
	CertFile, KeyFile string // PEM; read again for each new connection

	Encoding      Encoding
	BackfillShard string // X-Loki-Backfill-Shard; "" sends none

	Timeout       time.Duration // of one request; 0: 30 s
	MaxRetryAfter time.Duration // cap of Retry-After; 0: 5 min
	InFlight      int           // requests at a time, so many connections are kept; 0: 4
	UserAgent     string        // "": sf2loki

	Log   *slog.Logger                          // nil: silent
	Proxy func(*http.Request) (*url.URL, error) // nil: from the environment
	Now   func() time.Time                      // nil: time.Now
}

// Client pushes requests. It is safe for concurrent use.
type Client struct {
	transport     *http.Transport
	target        *url.URL // without userinfo
	endpoint      string
	header        http.Header // of every request, without the secret
	auth          authorizer
	secrets       *secret.Set
	payloads      payloads
	timeout       time.Duration
	maxRetryAfter time.Duration
	now           func() time.Time
}

// Endpoint is the URL pushed to, without userinfo and query: for messages.
func (c *Client) Endpoint() string { return c.endpoint }

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

var (
	errTimeout = errors.New("no answer in time")
	errEarly   = errors.New("the server says that it has stored the request before it has the whole of it")
)

// Push sends one request and returns what came back; it never retries and never
// follows a redirect. push is an uncompressed PushRequest (AppendPush); it may
// be reused as soon as Push returns. The answer's Err, if any, wraps the cause
// of ctx when that ended the request, and carries an exit status when no retry
// can help: credentials that cannot be read, certificates that do not verify.
func (c *Client) Push(ctx context.Context, push []byte) Answer {
	body, err := c.payloads.encode(push)
	if err != nil {
		return Answer{Err: err}
	}
	defer body.release()
	answer := Answer{Sent: int64(len(body.buf)), secrets: c.secrets}

	limited, cancel := context.WithTimeoutCause(ctx, c.timeout, errTimeout)
	defer cancel()
	req, err := c.request(limited, body)
	if err != nil {
		return Answer{Err: err}
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		answer.Err = fmt.Errorf("push to %s: %w", c.endpoint, c.explain(ctx, limited, err))
		return answer
	}
	early := resp.StatusCode < 300 && !body.taken.Load()
	answer.Status = resp.StatusCode
	answer.ContentType = resp.Header.Get("Content-Type")
	answer.Location = redactLocation(c.secrets.Hide(resp.Header.Get("Location")))
	answer.RetryAfter = min(c.retryAfter(resp.Header), c.maxRetryAfter)
	answer.Body, err = readBody(resp.Body, cancel)
	if early && err == nil {
		err = errEarly
	}
	if err != nil {
		answer.Err = fmt.Errorf("push to %s: %w", c.endpoint, c.explain(ctx, limited, err))
	}
	return answer
}

func (c *Client) request(ctx context.Context, body *payload) (*http.Request, error) {
	req := (&http.Request{
		Method:        http.MethodPost,
		URL:           c.target,
		Host:          c.target.Host,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        c.header.Clone(),
		ContentLength: int64(len(body.buf)),
		Body:          body.reader(),
		// Lets the transport send again what a dying connection took nothing of.
		GetBody: func() (io.ReadCloser, error) { return body.reader(), nil },
	}).WithContext(ctx)
	if err := c.auth.authorize(req.Header); err != nil {
		_ = req.Body.Close() // never fails
		return nil, fmt.Errorf("push to %s: %w", c.endpoint, err)
	}
	return req, nil
}

// explain turns a transport's error into one for people.
func (c *Client) explain(ctx, limited context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case context.Cause(limited) == errTimeout:
		return fmt.Errorf("no answer within %s", c.timeout)
	}
	return codeTLS(c.secrets.Error(err)) // it quotes what is no HTTP
}

const (
	maxDrain     = 512 << 10
	maxDrainTime = time.Second
)

// readBody keeps the first MaxBody bytes and reads on within a bound, so that
// the connection can be used again.
func readBody(body io.ReadCloser, cancel func()) ([]byte, error) {
	defer body.Close()
	if body == http.NoBody {
		return nil, nil
	}
	kept, err := io.ReadAll(io.LimitReader(body, MaxBody))
	if err != nil {
		return kept, err
	}
	if len(kept) == MaxBody {
		timer := time.AfterFunc(maxDrainTime, cancel)
		defer timer.Stop()
		_, _ = io.CopyN(io.Discard, body, maxDrain) // an error costs the connection, not the answer
	}
	return kept, nil
}

// retryAfter reads both forms of Retry-After: seconds, and a date, which is
// taken by the server's own clock if it tells one. What is no time, or lies in
// the past, is 0.
func (c *Client) retryAfter(h http.Header) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if text == "" {
		return 0
	}
	if strings.Trim(text, "0123456789") == "" {
		n, _ := strconv.ParseUint(text, 10, 64) // too large a number becomes the largest
		return time.Duration(min(n, uint64(c.maxRetryAfter/time.Second)+1)) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = c.now()
	}
	return max(at.Sub(now), 0)
}

// redactLocation keeps of a redirect's target what a message may show.
func redactLocation(text string) string {
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" {
		return "an address that is no URL"
	}
	return redacted(u)
}

func redacted(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
