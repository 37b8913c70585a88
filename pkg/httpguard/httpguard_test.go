package httpguard

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func get(t *testing.T, c *http.Client, url string) (status int, text string, err error) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

func TestBodiesHaveABound(t *testing.T) {
	const most = 1000
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/fits":
			_, _ = w.Write(bytes.Repeat([]byte("x"), most))
		case "/empty":
		case "/long":
			_, _ = w.Write(bytes.Repeat([]byte("x"), most+1))
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(make([]byte, 1<<20))
			_ = z.Close()
		case "/refusal":
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write(make([]byte, 10*maxRefusal))
		case "/header":
			w.Header().Set("X", strings.Repeat("x", 2*maxHeader))
		}
	}))
	defer srv.Close()
	c := Client(nil, most)
	for path, want := range map[string]struct {
		bytes int
		text  string // of the error
	}{
		"/fits": {most, ""}, "/empty": {0, ""},
		"/long":    {most, "longer than 1000 bytes"},
		"/bomb":    {most, "longer than 1000 bytes"},
		"/refusal": {maxRefusal, ""},
		"/header":  {0, "headers exceeded"},
	} {
		_, text, err := get(t, c, srv.URL+path)
		if len(text) != want.bytes || (err == nil) != (want.text == "") || err != nil && !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: %d bytes, %v", path, len(text), err)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("somebody came") }))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		srv := httptest.NewServer(http.RedirectHandler(elsewhere.URL, status))
		if got, _, err := get(t, Client(nil, 1000), srv.URL); got != status || err != nil {
			t.Errorf("%d: %d, %v", status, got, err)
		}
		srv.Close()
	}
}

// Neither an unknown certificate nor an old TLS is taken, even from a transport
// that would take the latter.
func TestTLS(t *testing.T) {
	for _, c := range []struct {
		name   string
		newest uint16
		trust  bool
		fine   bool
	}{
		{"1.2", tls.VersionTLS12, true, true}, {"1.3", tls.VersionTLS13, true, true},
		{"1.1", tls.VersionTLS11, true, false}, {"a stranger", tls.VersionTLS13, false, false},
	} {
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		srv.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: c.newest}
		srv.Config.ErrorLog = quiet()
		srv.StartTLS()
		var transport *http.Transport
		if c.trust {
			transport = srv.Client().Transport.(*http.Transport)
			transport.TLSClientConfig.MinVersion = tls.VersionTLS10
		}
		_, _, err := get(t, Client(transport, 1000), srv.URL)
		if (err == nil) != c.fine {
			t.Errorf("%s: %v", c.name, err)
		}
		srv.Close()
	}
}

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
