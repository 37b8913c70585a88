// Package sftest is a simulated Salesforce org on a real port, in the manner of
// net/http/httptest. It knows no program that is tested with it: it answers as
// the documentation and reports from real orgs say, and fails on demand.
//
//	org := sftest.NewOrg(sftest.Config{})
//	defer org.Close()
//	org.AddHour(sftest.Hour{Type: "Login", Start: hour, Rows: 600})
//	org.Fault("/LogFile", sftest.Fault{Status: 503})
//
// Its command, cmd/sftest, runs one as a program.
package sftest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

// Config says what kind of org it is. The zero value is a production org with
// hourly log files.
type Config struct {
	OrgID        string // 18 characters
	Username     string
	ClientID     string
	ClientSecret string
	PrivateKey   *rsa.PrivateKey // of the app's certificate; nil: one that all orgs of the process share

	Sandbox      bool          // wants https://test.salesforce.com as the audience
	LenientLogin bool          // takes URL as the audience too, and assertions for 5 minutes, as many orgs do
	GenericLogin bool          // stands for login.salesforce.com: no client credentials
	NoRunAsUser  bool          // the app has no user for client credentials
	NoHourly     bool          // Interval and Sequence are not visible
	LenientDates bool          // takes a dateTime literal with +0000
	Gzip         bool          // compresses for clients that accept it
	PageSize     int           // most records of a query page; 0: 2000
	ChunkSize    int           // bytes of a download that are sent at a time; 0: 64 KiB
	TokenLife    time.Duration // without use; 0: 2 h
	DailyCalls   int64         // allowance of 24 hours; 0: 100,000
	InstanceURL  string        // what tokens name; empty: URL
	Listen       string        // empty: 127.0.0.1:0
	Now          func() time.Time
}

// Org is a running simulated org. Its methods may be called from any goroutine.
type Org struct {
	URL          string // login host, My Domain and instance in one
	ID           string
	UserID       string
	Username     string
	ClientID     string
	ClientSecret string

	cfg    Config
	key    *rsa.PrivateKey
	server *httptest.Server
	done   chan struct{} // closed by Close, to let go of stalled answers

	mu       sync.Mutex
	came     *sync.Cond // a request has come
	tables   map[string]*Table
	tokens   map[string]time.Time // access token to last use
	minted   int
	locators map[string]*locator
	hours    []*published
	faults   []*armedFault
	log      []Request
	used     int64
	nextID   int
	skew     time.Duration

	rotations int // of secret and key

	buses     []*Bus
	announced []string // objects that only describe shows
}

// NewOrg starts an org. It panics when it cannot listen.
func NewOrg(cfg Config) *Org {
	o, err := Start(cfg)
	if err != nil {
		panic(fmt.Sprintf("sftest: %v", err))
	}
	return o
}

// Start is NewOrg for a program, which has a port of its own to fail with.
func Start(cfg Config) (*Org, error) {
	o := &Org{
		ID:           or(cfg.OrgID, "00Dxx0000001gPLEAY"),
		UserID:       "005xx000001Sv6AAAS",
		Username:     or(cfg.Username, "integration@acme.example"),
		ClientID:     or(cfg.ClientID, "3MVG9.simulated.consumer.key"),
		ClientSecret: or(cfg.ClientSecret, "simulated-consumer-secret"),
		cfg:          cfg,
		key:          cfg.PrivateKey,
		done:         make(chan struct{}),
		tables:       map[string]*Table{},
		tokens:       map[string]time.Time{},
		locators:     map[string]*locator{},
	}
	o.came = sync.NewCond(&o.mu)
	o.defaults()
	o.defineStandard()
	ln, err := net.Listen("tcp", or(cfg.Listen, "127.0.0.1:0"))
	if err != nil {
		return nil, err
	}
	o.server = &httptest.Server{Listener: ln, Config: &http.Server{Handler: http.HandlerFunc(o.serve), MaxHeaderBytes: 64 << 10}}
	o.server.Start()
	o.URL = o.server.URL
	return o, nil
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func (o *Org) defaults() {
	c := &o.cfg
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.PageSize <= 0 {
		c.PageSize = 2000
	}
	if c.ChunkSize <= 0 {
		c.ChunkSize = 64 << 10
	}
	if c.TokenLife <= 0 {
		c.TokenLife = 2 * time.Hour
	}
	if c.DailyCalls <= 0 {
		c.DailyCalls = 100_000
	}
	if o.key == nil {
		o.key = processKey()
	}
}

// processKey is made once: it takes longer than most tests.
var processKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(fmt.Sprintf("sftest: %v", err))
	}
	return key
})

// Close stops the org, and whatever still waits for an answer.
func (o *Org) Close() {
	close(o.done)
	o.mu.Lock()
	buses := o.buses
	o.mu.Unlock()
	for _, b := range buses {
		b.Close()
	}
	o.server.CloseClientConnections()
	o.server.Close()
}

// PrivateKeyPEM is the key that the org's app trusts, PKCS #8.
func (o *Org) PrivateKeyPEM() string {
	der, err := x509.MarshalPKCS8PrivateKey(o.privateKey())
	if err != nil {
		panic(fmt.Sprintf("sftest: %v", err))
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// Now is the org's clock, which its Date headers show.
func (o *Org) Now() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.now()
}

func (o *Org) now() time.Time { return o.cfg.Now().Add(o.skew).UTC() }

// SetSkew moves the org's clock against Config.Now.
func (o *Org) SetSkew(d time.Duration) { o.locked(func() { o.skew = d }) }

// ExpireTokens ends all sessions, as after two idle hours.
func (o *Org) ExpireTokens() { o.locked(func() { clear(o.tokens) }) }

// ExpireLocators makes the further pages of all running queries unavailable.
func (o *Org) ExpireLocators() { o.locked(func() { clear(o.locators) }) }

// SetUsage tells how many of the day's calls have been used, out of how many.
func (o *Org) SetUsage(used, limit int64) {
	o.locked(func() { o.used, o.cfg.DailyCalls = used, limit })
}

// Logins is how many tokens have been handed out.
func (o *Org) Logins() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.minted
}

func (o *Org) locked(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
}

// Row is a record: field name to string, number, bool, time.Time, Blob or nil.
// A time under VisibleAt keeps the row out of every answer until then.
type Row map[string]any

// VisibleAt is the key of a row's time of commit, which is not a field.
const VisibleAt = "@visible"

// Blob is the content of a base64 field, which REST shows as a path.
type Blob struct {
	Bytes []byte
	Write func(w io.Writer) error // instead of Bytes, for what is better not held in memory
	Gone  bool                    // listed, but 404
}

// Request is an entry of the request log.
type Request struct {
	Method, Path string
	Query        string // decoded
	Header       http.Header
	Form         map[string][]string // of a token request
	Status       int                 // 0: the connection was cut before an answer
	At           time.Time
}

// Line is the text that the match of a Fault is looked for in.
func (r Request) Line() string {
	if r.Query == "" {
		return r.Method + " " + r.Path
	}
	return r.Method + " " + r.Path + "?" + r.Query
}

// Requests gives the log of all requests so far whose Line contains match.
func (o *Org) Requests(match string) []Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	return matching(o.log, match)
}

// WaitRequests waits until n requests have come whose Line contains match.
func (o *Org) WaitRequests(match string, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(matching(o.log, match)) < n {
		o.came.Wait()
	}
}

// ResetRequests empties the request log.
func (o *Org) ResetRequests() { o.locked(func() { o.log = nil }) }
