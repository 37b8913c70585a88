package loki

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"sf2loki/pkg/secret"
	"sf2loki/pkg/sysexits"
)

// NewClient checks the configuration: the URL, the proxy, the certificates and
// that the secrets can be read. Nothing is sent. Errors carry the exit status
// 78, or 77 for a file that may not be read, and never hold a secret.
func NewClient(cfg Config) (*Client, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Secrets == nil {
		cfg.Secrets = &secret.Set{}
	}
	target, user, err := parseTarget(cfg.URL)
	if err != nil {
		return nil, err
	}
	c := &Client{
		target:        target,
		secrets:       cfg.Secrets,
		endpoint:      redacted(target),
		timeout:       orDefault(cfg.Timeout, 30*time.Second),
		maxRetryAfter: orDefault(cfg.MaxRetryAfter, 5*time.Minute),
		now:           cfg.Now,
		payloads:      payloads{encoding: cfg.Encoding},
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.header, err = header(cfg); err != nil {
		return nil, err
	}
	if c.auth, err = newAuthorizer(cfg, user); err != nil {
		return nil, err
	}
	if c.transport, err = newTransport(cfg, target); err != nil {
		return nil, err
	}
	return c, nil
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// parseTarget takes the userinfo out of the URL. Its errors quote nothing of a
// text that may hold a secret.
func parseTarget(text string) (*url.URL, *url.Userinfo, error) {
	if text == "" {
		return nil, nil, sysexits.Errorf(sysexits.Config, "no URL of Loki is given")
	}
	u, err := url.Parse(text)
	if err != nil {
		reason := errors.New("check for characters that need percent-encoding")
		var ue *url.Error
		if !strings.Contains(text, "@") && errors.As(err, &ue) {
			reason = ue.Err
		}
		return nil, nil, sysexits.Errorf(sysexits.Config, "the URL of Loki cannot be read: %w", reason)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Opaque != "" {
		return nil, nil, sysexits.Errorf(sysexits.Config, "the URL of Loki must begin with http:// or https:// and name a host")
	}
	user := u.User
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	if u.Path == "" || u.Path == "/" {
		u.Path, u.RawPath = PushPath, ""
	}
	return u, user, nil
}

func header(cfg Config) (http.Header, error) {
	h := http.Header{
		"Content-Type": {"application/x-protobuf"},
		"User-Agent":   {orDefault(cfg.UserAgent, "sf2loki")},
	}
	if cfg.Encoding == JSON {
		h.Set("Content-Type", "application/json")
		h.Set("Content-Encoding", "gzip")
	}
	for _, own := range []struct{ name, value string }{
		{"X-Scope-OrgID", cfg.Tenant},
		{"X-Loki-Backfill-Shard", cfg.BackfillShard},
	} {
		if own.value == "" {
			continue
		}
		if hasControl(own.value) {
			return nil, sysexits.Errorf(sysexits.Config, "%q cannot be sent as %s", own.value, own.name)
		}
		h[own.name] = []string{own.value}
	}
	return h, nil
}

// hasControl tells whether a text cannot be the value of an HTTP header.
func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

func newTransport(cfg Config, target *url.URL) (*http.Transport, error) {
	tlsConfig, err := newTLS(cfg)
	if err != nil {
		return nil, err
	}
	proxy := cfg.Secrets.Proxy(safeProxy(cfg.Proxy))
	if _, err := proxy(&http.Request{URL: target}); err != nil {
		return nil, err
	}
	conns := orDefault(cfg.InFlight, 4)
	t := &http.Transport{
		Proxy:                  proxy,
		OnProxyConnectResponse: judgeProxy,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:        tlsConfig,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConns:           conns,
		MaxIdleConnsPerHost:    conns,
		IdleConnTimeout:        50 * time.Second, // Loki closes idle ones after 120 s, load balancers after 60 s
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
		WriteBufferSize:        64 << 10,
		Protocols:              new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	return t, nil
}

// safeProxy replaces the errors of a proxy function, which quote the proxy's
// address with the credentials in it.
func safeProxy(proxy func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	return func(r *http.Request) (*url.URL, error) {
		u, err := proxy(r)
		if err != nil {
			return nil, sysexits.Errorf(sysexits.Config, "the proxy's address (HTTP_PROXY, HTTPS_PROXY) is no URL")
		}
		return u, nil
	}
}

func judgeProxy(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusProxyAuthRequired, http.StatusForbidden:
		return sysexits.Errorf(sysexits.NoPerm, "the proxy refuses to connect: %s", resp.Status)
	}
	return nil
}

func newTLS(cfg Config) (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fileError(err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, sysexits.Errorf(sysexits.Config, "%s holds no certificate in PEM form", cfg.CAFile)
		}
	}
	if cfg.CertFile == "" && cfg.KeyFile == "" {
		return t, nil
	}
	if cfg.CertFile == "" || cfg.KeyFile == "" {
		return nil, sysexits.Errorf(sysexits.Config, "a client certificate needs its key, and a key its certificate")
	}
	pair := &keyPair{certFile: cfg.CertFile, keyFile: cfg.KeyFile}
	if err := pair.load(); err != nil {
		return nil, err
	}
	t.GetClientCertificate = pair.certificate
	return t, nil
}

// keyPair is a client certificate that is read again for each connection, so
// that its renewal needs no restart.
type keyPair struct {
	certFile, keyFile string

	mu   sync.Mutex
	last *tls.Certificate
}

func (k *keyPair) load() error {
	cert, err := tls.LoadX509KeyPair(k.certFile, k.keyFile)
	if err != nil {
		return fileError(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = &cert
	return nil
}

// certificate is the present pair, or the last good one: a renewal writes two
// files and may be caught between them.
func (k *keyPair) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	_ = k.load() // then the last one is as good as can be had
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last, nil
}

func fileError(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return sysexits.Wrap(sysexits.NoPerm, err)
	}
	return sysexits.Wrap(sysexits.Config, err)
}

// codeTLS marks the errors of a connection that come from its configuration:
// certificates that do not verify, and plain text where TLS is spoken or the
// other way round.
func codeTLS(err error) error {
	var verify *tls.CertificateVerificationError
	var notTLS tls.RecordHeaderError
	var op *net.OpError
	switch {
	case errors.As(err, &verify), errors.As(err, &notTLS):
	case errors.As(err, &op) && op.Op == "remote error": // the server's alert, about our certificate mostly
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
	default:
		return err
	}
	return sysexits.Wrap(sysexits.Config, err)
}
