package loki

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"time"
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
	URL    string // with or without a path; userinfo is basic auth unless User or Token is set
	Tenant string // X-Scope-OrgID; "" sends none

	// User and Password are basic auth; Token is a bearer token. Both functions
	// are asked before every request, so that a rotated file needs no restart;
	// while one fails, its last answer is used.
	User     string
	Password func() (string, error)
	Token    func() (string, error)

	CAFile            string // PEM; these authorities instead of the system's
	CertFile, KeyFile string // PEM; read again for each new connection

	Encoding      Encoding
	BackfillShard string // X-Loki-Backfill-Shard; "" sends none

	Timeout       time.Duration // of one request, 0: 30 s
	MaxRetryAfter time.Duration // cap of Retry-After, 0: 5 min
	InFlight      int           // requests at a time, so many connections are kept; 0: 4
	UserAgent     string        // "" : sf2loki

	Log   *slog.Logger                          // nil: silent
	Proxy func(*http.Request) (*url.URL, error) // nil: from the environment
	Now   func() time.Time                      // nil: time.Now
}

// Client pushes requests. It is safe for concurrent use.
type Client struct{ cfg Config }

// NewClient checks the configuration: the URL, the proxy, the certificates and
// that the secrets can be read. Errors carry the exit status 78, or 77 for a
// file that may not be read, and never hold a secret.
func NewClient(cfg Config) (*Client, error) { return &Client{cfg: cfg}, nil }

// Push sends one request and returns what came back. push is an uncompressed
// PushRequest (AppendPush); it may be reused as soon as Push returns. The
// answer's Err wraps ctx's cause when ctx ended the request.
func (c *Client) Push(ctx context.Context, push []byte) Answer { return Answer{} }

// Endpoint is the URL pushed to, without userinfo and query: for messages.
func (c *Client) Endpoint() string { return "" }

// Close closes idle connections.
func (c *Client) Close() {}
