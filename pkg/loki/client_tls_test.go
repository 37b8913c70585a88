package loki

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/sysexits"
)

// authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T, dir, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{cert, key, filepath.Join(dir, name+".pem")}
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

// issue writes a certificate and its key, for servers and clients alike.
func (a *authority) issue(t *testing.T, name, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, certFile, "CERTIFICATE", der)
	writePEM(t, keyFile, "PRIVATE KEY", keyDER)
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// refusedLate: a TLS 1.3 server refuses a client's certificate after the
// handshake, and plain text before it has read it, so its answer races with the
// reset of the connection. Either tells that nothing is stored.
const refusedLate Class = -1

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	ours, theirs := newAuthority(t, dir, "ours"), newAuthority(t, dir, "theirs")
	ours.issue(t, "server", in("server.crt"), in("server.key"))
	ours.issue(t, "client-1", in("client.crt"), in("client.key"))
	theirs.issue(t, "stranger", in("stranger.crt"), in("stranger.key"))

	var client string // the name in the certificate of the last request
	server := func(clientCerts tls.ClientAuthType) *httptest.Server {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if len(r.TLS.PeerCertificates) > 0 {
				client = r.TLS.PeerCertificates[0].Subject.CommonName
			}
			w.WriteHeader(204)
		}))
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		cert, err := tls.LoadX509KeyPair(in("server.crt"), in("server.key"))
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AddCert(ours.cert)
		s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: clientCerts, ClientCAs: pool}
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	open, closed := server(tls.NoClientCert), server(tls.RequireAndVerifyClientCert)
	plain := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })
	httpOf := func(s *httptest.Server) string { return strings.Replace(s.URL, "https:", "http:", 1) }

	for _, tc := range []struct {
		name  string
		cfg   Config
		class Class
	}{
		{"authority known", Config{URL: open.URL, CAFile: ours.file}, Stored},
		{"authority of others", Config{URL: open.URL, CAFile: theirs.file}, Misconfigured},
		{"the system's authorities", Config{URL: open.URL}, Misconfigured},
		{"client certificate", Config{URL: closed.URL, CAFile: ours.file, CertFile: in("client.crt"), KeyFile: in("client.key")}, Stored},
		{"no client certificate", Config{URL: closed.URL, CAFile: ours.file}, refusedLate},
		{"a stranger's certificate", Config{URL: closed.URL, CAFile: ours.file, CertFile: in("stranger.crt"), KeyFile: in("stranger.key")}, refusedLate},
		{"https to a plain server", Config{URL: strings.Replace(plain.URL, "http:", "https:", 1)}, Misconfigured},
		{"http to a TLS server", Config{URL: httpOf(open)}, refusedLate},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newTestClient(t, tc.cfg).Push(context.Background(), onePush("x"))
			v := Judge(a)
			if tc.class == refusedLate {
				tc.class = Misconfigured
				if v.Class == Busy {
					tc.class = Busy
				}
			}
			if v.Class != tc.class || tc.class == Misconfigured && v.Code != sysexits.Config {
				t.Errorf("%v, status %d: %s", v.Class, v.Code, v.Detail)
			}
		})
	}

	// A renewed certificate is used from the next connection on, and half a
	// renewal does no harm.
	c := newTestClient(t, Config{URL: closed.URL, CAFile: ours.file, CertFile: in("client.crt"), KeyFile: in("client.key")})
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() {}, "client-1"},
		{func() { ours.issue(t, "client-2", in("client.crt"), in("client.key")) }, "client-2"},
		{func() { ours.issue(t, "client-3", in("client.crt"), in("other.key")) }, "client-2"},
	} {
		step.change()
		c.Close()
		if a := c.Push(context.Background(), onePush("x")); a.Status != 204 || client != step.want {
			t.Errorf("%+v, as %s; want %s", a, client, step.want)
		}
	}
}
