// Package salesforce talks to one Salesforce org over REST: it logs in, keeps
// one session for all callers, queries, downloads, and watches the org's API
// allowance. What it cannot do comes back as an *Error that says what kind of
// refusal it was and, where one is known, the cure. The flags that set it up
// are described in sf-pull(1).
package salesforce

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"sf2loki/pkg/secret"
	"sf2loki/pkg/sysexits"
)

// Auth names a way to log in.
type Auth string

// The grants of the OAuth token endpoint that suit a program without a user.
const (
	JWT               Auth = "jwt"
	ClientCredentials Auth = "client-credentials"
)

// DefaultAPIVersion is the REST version that is asked for when none is given.
const DefaultAPIVersion = "62.0"

// The hosts that serve every org, and that a JWT names as its audience.
const (
	loginHost = "login.salesforce.com"
	testHost  = "test.salesforce.com"
)

// Config describes an org and how to log in to it.
type Config struct {
	LoginURL    string // https://NAME.my.salesforce.com; empty: login or test.salesforce.com by Environment
	Environment string // "sandbox" chooses test.salesforce.com where no host says otherwise
	Auth        Auth   // empty: JWT
	ClientID    string // the app's consumer key
	Username    string // JWT: who to log in as
	Audience    string // JWT: empty: login or test.salesforce.com
	APIVersion  string // "62.0" or "v62.0"
	OrgID       string // when set, the org that the login must lead to

	// PrivateKey (PEM) and ClientSecret are called for each token request, so
	// that a rotated secret needs no restart.
	PrivateKey   func() (string, error)
	ClientSecret func() (string, error)

	Secrets *secret.Set // learns what requests prove themselves with; nil: a set of its own

	Reserve Reserve // requests are refused while less of the day's allowance is left
	Retry   Retry
	Timeout Timeout

	HTTP      *http.Client // nil: proxy from the environment, keep-alive
	UserAgent string
	Log       *slog.Logger
	Now       func() time.Time
	Hooks     Hooks
}

// Retry bounds how transient failures of one request are tried again.
type Retry struct {
	Attempts int           // requests in all; 0: 5
	Min, Max time.Duration // pause, doubling with full jitter; 0: 500 ms, 30 s
}

// Timeout bounds the silences of a request. There is none on the whole of a
// download, which may take as long as it moves.
type Timeout struct {
	Header time.Duration // until the answer begins; 0: 150 s, as a query may run for 120 s
	Idle   time.Duration // between two reads of a body; 0: 60 s
}

// Hooks are called when something happened that is worth counting. Each may be
// nil; they are called by the goroutine at work and must be quick.
type Hooks struct {
	Login    func(err error)                   // a token request has ended
	Request  func(status int, d time.Duration) // an answer has begun; status 0: there was none
	Retry    func(kind Kind)                   // a request is about to be made again
	Throttle func(op string, kind Kind)        // Salesforce or the reserve has refused for its limits
	Usage    func(Usage)                       // an answer told the org's use of its allowance
}

// Reserve is a part of the daily allowance that is to be left to others.
type Reserve struct {
	Percent float64
	Calls   int64
}

// ParseReserve reads "10%" or a number of calls; "" and "0" reserve nothing.
func ParseReserve(s string) (Reserve, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return Reserve{}, nil
	}
	if p, ok := strings.CutSuffix(s, "%"); ok {
		f, err := strconv.ParseFloat(strings.TrimSpace(p), 64)
		if err != nil || !(f >= 0 && f < 100) {
			return Reserve{}, fmt.Errorf("api reserve %.80q: want a percentage below 100, as 10%%", s)
		}
		return Reserve{Percent: f}, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return Reserve{}, fmt.Errorf("api reserve %.80q: want a percentage or a number of calls", s)
	}
	return Reserve{Calls: n}, nil
}

func (r Reserve) String() string {
	if r.Percent > 0 {
		return strconv.FormatFloat(r.Percent, 'f', -1, 64) + "%"
	}
	return strconv.FormatInt(r.Calls, 10)
}

// least is the number of calls that must be left of max.
func (r Reserve) least(max int64) int64 {
	return int64(r.Percent/100*float64(max)) + r.Calls
}

// settings is a Config that has been checked and completed.
type settings struct {
	Config
	login    *url.URL
	audience string
	version  string // "v62.0"
	orgID    string // 18 characters, or empty
}

var versionPattern = regexp.MustCompile(`^v?([0-9]{2,3}\.0)$`)

func (cfg Config) settle() (*settings, error) {
	s := &settings{Config: cfg}
	if s.Secrets == nil {
		s.Secrets = &secret.Set{}
	}
	if s.Auth == "" {
		s.Auth = JWT
	}
	if s.APIVersion == "" {
		s.APIVersion = DefaultAPIVersion
	}
	m := versionPattern.FindStringSubmatch(s.APIVersion)
	if m == nil {
		return nil, fmt.Errorf("api version %q: want one like %s", s.APIVersion, DefaultAPIVersion)
	}
	s.version = "v" + m[1]
	if s.OrgID != "" {
		id, err := OrgID(s.OrgID)
		if err != nil {
			return nil, err
		}
		s.orgID = id
	}
	var err error
	if s.login, err = s.loginURL(); err != nil {
		return nil, err
	}
	if s.ClientID == "" {
		return nil, errors.New("client id is missing: give the consumer key of the connected app")
	}
	if err := s.checkAuth(); err != nil {
		return nil, err
	}
	s.audience = s.chooseAudience()
	s.defaults()
	return s, nil
}

func (s *settings) defaults() {
	or := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	if s.Retry.Attempts <= 0 {
		s.Retry.Attempts = 5
	}
	or(&s.Retry.Min, 500*time.Millisecond)
	or(&s.Retry.Max, 30*time.Second)
	or(&s.Timeout.Header, 150*time.Second)
	or(&s.Timeout.Idle, time.Minute)
	if s.UserAgent == "" {
		s.UserAgent = "sf2loki"
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	s.HTTP = httpClient(s.HTTP, s.Secrets)
}

// httpClient is a copy of base, or a client of its own, that never follows a
// redirect: it would carry the session to a host that nobody named.
func httpClient(base *http.Client, secrets *secret.Set) *http.Client {
	var c http.Client
	if base != nil {
		c = *base
	} else {
		c.Transport = &http.Transport{
			Proxy:                  secrets.Proxy(http.ProxyFromEnvironment),
			DialContext:            (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    15 * time.Second,
			ExpectContinueTimeout:  time.Second,
			IdleConnTimeout:        90 * time.Second,
			MaxIdleConnsPerHost:    16,
			ForceAttemptHTTP2:      true,
			MaxResponseHeaderBytes: 256 << 10, // Salesforce's are a few kilobytes
		}
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.Jar = nil
	return &c
}

// loginURL gives the base that /services/oauth2/token is appended to.
func (s *settings) loginURL() (*url.URL, error) {
	raw := strings.TrimSpace(s.LoginURL)
	if raw == "" {
		raw = "https://" + loginHost
		if s.sandbox() {
			raw = "https://" + testHost
		}
	}
	if !strings.Contains(raw, "://") {
		raw = "https://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("login url cannot be read as a URL") // raw may hold a password
	}
	if u.User != nil {
		return nil, fmt.Errorf("login url of host %s holds a user name or password: remove it", u.Hostname())
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" {
		return nil, fmt.Errorf("login url %q: want https://HOST", u.Redacted())
	}
	if org, ok := strings.CutSuffix(u.Hostname(), ".lightning.force.com"); ok {
		return nil, fmt.Errorf("login url: %s serves pages only; give https://%s.my.salesforce.com", u.Hostname(), org)
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), tokenPath)
	return &url.URL{Scheme: u.Scheme, Host: strings.ToLower(u.Host), Path: strings.TrimSuffix(u.Path, "/")}, nil
}

func (s *settings) checkAuth() error {
	switch s.Auth {
	case JWT:
		if s.Username == "" {
			return errors.New("username is missing: auth jwt logs in as a user")
		}
		if s.PrivateKey == nil {
			return errors.New("private key is missing: auth jwt signs with the key of the app's certificate")
		}
	case ClientCredentials:
		if s.Config.ClientSecret == nil {
			return errors.New("client secret is missing: auth client-credentials needs it")
		}
		return s.checkMyDomain()
	default:
		return fmt.Errorf("auth %q: want %s or %s", s.Auth, JWT, ClientCredentials)
	}
	return nil
}

// checkMyDomain refuses the hosts where the client credentials grant does not exist.
func (s *settings) checkMyDomain() error {
	host := s.login.Hostname()
	if host == loginHost || host == testHost || host == "salesforce-setup.com" || strings.HasSuffix(host, ".salesforce-setup.com") {
		return fmt.Errorf("login url: %s does not take client credentials: give the org's My Domain, https://NAME.my.salesforce.com", host)
	}
	return nil
}

func (s *settings) sandbox() bool { return strings.EqualFold(s.Environment, "sandbox") }

// chooseAudience names the login host of the org's kind. The My Domain host is
// no audience to rely on, whatever host is asked.
func (s *settings) chooseAudience() string {
	if s.Audience != "" {
		return strings.TrimSuffix(s.Audience, "/")
	}
	host := s.login.Hostname()
	test := host == testHost || strings.Contains(host, ".sandbox.") || strings.Contains(host, ".scratch.")
	if test || s.sandbox() {
		return "https://" + testHost
	}
	return "https://" + loginHost
}

func configError(err error) error { return sysexits.Wrap(sysexits.Config, err) }
