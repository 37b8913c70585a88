// Package lokitest is a simulated Loki, in the manner of net/http/httptest: a
// server on a port of its own that takes pushes, judges them in Loki's order
// and with Loki's words, and can be asked afterwards what it holds. What it
// does where Loki surprises is what a real one was seen to do: it answers a
// request of several streams for the last one only, keeps the good entries of
// a push that it answers with 400, forgets nothing of a stream's newest time,
// and deals a fast stream out to shards that take repeats twice.
//
//	srv := lokitest.NewServer(lokitest.Config{})
//	defer srv.Close()
//	... push to srv.URL ...
//	srv.Entries("fake")
package lokitest

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

// Config says how a Server differs from a Loki as it comes.
type Config struct {
	// Limits changes the limits of a tenant before its first request.
	Limits func(tenant string, l *Limits)

	// MultiTenant asks for X-Scope-OrgID. Without it the header is ignored and
	// the tenant is "fake".
	MultiTenant bool

	// Users (name to password) and Tokens guard every path as a gateway in
	// front of Loki would. With neither, all may come.
	Users  map[string]string
	Tokens []string

	// Refuse is asked for each entry that passed all of Loki's checks; a text
	// refuses the entry, as one more reason for a 400.
	Refuse func(e Entry) string

	// Latency is added to every answer to a push.
	Latency time.Duration

	// Forget keeps neither entries nor requests, only counters: for measuring
	// a client. Repeats are not found then.
	Forget bool

	Now    func() time.Time // time.Now when nil
	Listen string           // address; a port of 127.0.0.1 when empty
	TLS    *tls.Config      // serves https when set
}

// Limits are what Loki's configuration calls limits_config and, below, server
// and ingester settings. DefaultLimits has Loki's defaults.
type Limits struct {
	MaxLineSize         int
	MaxLineSizeTruncate bool
	RejectOldAge        time.Duration // reject_old_samples_max_age; 0 takes all
	CreationGrace       time.Duration

	MaxLabelNames       int
	MaxLabelNameLength  int
	MaxLabelValueLength int
	EnforcedLabels      []string

	AllowStructuredMetadata bool
	MaxMetadataSize         int
	MaxMetadataCount        int

	DiscoverServiceName []string // none: the label is not added
	DiscoverLogLevels   bool

	IngestionRate  int // bytes a second; 0: no limit
	IngestionBurst int
	StreamRate     int // per stream; 0: no limit
	StreamBurst    int
	MaxStreams     int           // active ones; 0: no limit
	StreamIdle     time.Duration // after which a stream is not active any more

	// IncrementDuplicateTimestamp moves an entry that has its neighbour's time
	// and another line by a nanosecond.
	IncrementDuplicateTimestamp bool

	ShardStreams     bool
	ShardDesiredRate int // bytes a second

	BlockUntil  time.Time
	BlockStatus int // 260; 200 drops silently

	MaxRecvMsgSize      int           // compressed
	MaxDecompressedSize int           // after that
	GRPCMaxRecvMsgSize  int           // of the request from distributor to ingester
	MaxChunkAge         time.Duration // half of it is how far a stream reaches back
}

// DefaultLimits returns the limits of a Loki that nobody has configured.
func DefaultLimits() Limits {
	return Limits{
		MaxLineSize:         256 << 10,
		RejectOldAge:        7 * 24 * time.Hour,
		CreationGrace:       10 * time.Minute,
		MaxLabelNames:       15,
		MaxLabelNameLength:  1024,
		MaxLabelValueLength: 2048,

		AllowStructuredMetadata: true,
		MaxMetadataSize:         64 << 10,
		MaxMetadataCount:        128,

		DiscoverServiceName: []string{
			"service", "app", "application", "app_name", "name", "app_kubernetes_io_name", "container", "container_name",
			"k8s_container_name", "component", "workload", "job", "k8s_job_name",
		},
		DiscoverLogLevels: true,

		IngestionRate: 4 << 20, IngestionBurst: 6 << 20,
		StreamRate: 3 << 20, StreamBurst: 15 << 20,
		MaxStreams: 5000, StreamIdle: 30 * time.Minute,
		ShardStreams: true, ShardDesiredRate: 1536 << 10,
		BlockStatus:         260,
		MaxRecvMsgSize:      100 << 20,
		MaxDecompressedSize: 5000 << 20,
		GRPCMaxRecvMsgSize:  4 << 20,
		MaxChunkAge:         2 * time.Hour,
	}
}

// Plain removes what makes a simulation depend on speed or add to what was
// pushed: rates, sharding, service_name and detected_level. It is a
// Config.Limits for tests that look at something else.
func Plain(_ string, l *Limits) {
	l.IngestionRate, l.StreamRate, l.ShardStreams = 0, 0, false
	l.DiscoverServiceName, l.DiscoverLogLevels = nil, false
}

// Label is a label or a piece of structured metadata.
type Label struct{ Name, Value string }

// Entry is a log entry, pushed or stored.
type Entry struct {
	Stream   string // its labels, as Loki prints them: {a="b", c="d"}
	Labels   []Label
	Nanos    int64 // time in nanoseconds since the epoch
	Line     string
	Metadata []Label
}

// Stream is one stream of a push.
type Stream struct {
	Labels  string // as it came
	Entries []Entry
}

// Request is a request to the push path.
type Request struct {
	N       int // from 0
	Time    time.Time
	Tenant  string
	Method  string
	Header  http.Header
	Body    []byte   // as it came
	Streams []Stream // when the body could be decoded
	Size    int      // bytes after decompression

	// Set once the request is answered.
	Status int // 0: the connection was reset
	Answer string
}

// Answer is what a script makes of a request. The zero value is an empty 204
// that stores nothing.
type Answer struct {
	Status int // 204 when 0
	Body   string
	Header http.Header

	// Store handles the push first, as if there were no script.
	Store bool
	// Delay waits before anything else; Hang waits for the client to give up.
	Delay time.Duration
	Hang  bool
	// Reset ends the connection in place of an answer; Cut ends it in the
	// middle of one.
	Reset bool
	Cut   bool
}

// Script decides about request n; nil leaves it to the simulation. It runs
// for several requests at the same time when these come so.
type Script func(n int, req Request) *Answer

// Stats counts what a Server did.
type Stats struct {
	Requests   int
	Statuses   map[int]int
	Received   int            // entries in requests that could be decoded
	Stored     int            // entries
	Duplicates int            // entries that were there already
	Discarded  map[string]int // entries by Loki's reason
	LineBytes  int64          // of stored entries

	// The most requests that were handled at the same time, in all and with
	// entries of one stream.
	MaxInFlight          int
	MaxInFlightPerStream int
}

// Server is a simulated Loki.
type Server struct {
	URL string // without a path

	config Config
	http   *httptest.Server
	done   chan struct{} // closed by Close

	mu        sync.Mutex
	tenants   map[string]*tenant
	requests  []Request
	stats     Stats
	script    Script
	emptyRing bool
	inFlight  map[string]int // by stream
	running   int
	metrics   map[discard]int
}

// NewServer starts a Server. It panics when it cannot listen, as httptest does.
func NewServer(c Config) *Server {
	if c.Now == nil {
		c.Now = time.Now
	}
	s := &Server{
		config: c, done: make(chan struct{}),
		tenants: map[string]*tenant{}, inFlight: map[string]int{}, metrics: map[discard]int{},
		stats: Stats{Statuses: map[int]int{}, Discarded: map[string]int{}},
	}
	s.http = httptest.NewUnstartedServer(s.handler())
	if c.Listen != "" {
		l, err := net.Listen("tcp", c.Listen)
		if err != nil {
			panic("lokitest: " + err.Error())
		}
		_ = s.http.Listener.Close()
		s.http.Listener = l
	}
	if c.TLS != nil {
		s.http.TLS = c.TLS
		s.http.StartTLS()
	} else {
		s.http.Start()
	}
	s.URL = s.http.URL
	return s
}

// Close stops the server and ends what hangs.
func (s *Server) Close() {
	close(s.done)
	s.http.CloseClientConnections()
	s.http.Close()
}

// Client returns an HTTP client that trusts the server's certificate.
func (s *Server) Client() *http.Client { return s.http.Client() }

// Script replaces the script; nil ends it. The count of requests goes on.
func (s *Server) Script(f Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = f
}

// SetTokens replaces the bearer tokens, as a rotation does.
func (s *Server) SetTokens(tokens ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config.Tokens = tokens
}

// SetEmptyRing makes the server answer as one that starts or stops: pushes get
// a 500, /ready a 503.
func (s *Server) SetEmptyRing(empty bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.emptyRing = empty
}

// SetLimits changes the limits of a tenant from now on.
func (s *Server) SetLimits(tenant string, change func(*Limits)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.tenant(tenant).limits)
}

// Requests returns the requests to the push path so far, in their order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.stats
	c.Statuses, c.Discarded = map[int]int{}, map[string]int{}
	for k, v := range s.stats.Statuses {
		c.Statuses[k] = v
	}
	for k, v := range s.stats.Discarded {
		c.Discarded[k] = v
	}
	return c
}
