// Package httpguard holds the HTTP clients that libraries of vendors are given
// to what the toolkit promises of its own clients: no redirect is followed, so
// that no credential and no document goes to a host that nobody named, TLS is
// 1.2 at least, and no answer fills the memory, whatever a library does with it.
package httpguard

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
)

const (
	// maxHeader bounds the headers of an answer; real ones have a few kilobytes.
	maxHeader = 256 << 10
	// maxRefusal is as much of a refusal as there is to learn from.
	maxRefusal = 64 << 10
)

// Client makes a client of a transport, nil for one as the standard library's.
// A body of more than most bytes, after decompression, is an error; that of a
// refusal is cut off, for its status says enough.
func Client(t *http.Transport, most int64) *http.Client {
	if t == nil {
		t = http.DefaultTransport.(*http.Transport).Clone()
	}
	t.MaxResponseHeaderBytes = maxHeader
	if t.TLSClientConfig == nil {
		t.TLSClientConfig = &tls.Config{}
	}
	t.TLSClientConfig.MinVersion = max(t.TLSClientConfig.MinVersion, tls.VersionTLS12)
	return &http.Client{Transport: Bound(t, most), CheckRedirect: Stay}
}

// Stay makes a redirect an answer like any other.
func Stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Bound bounds the bodies of the answers that next gives.
func Bound(next http.RoundTripper, most int64) http.RoundTripper { return &bound{next, most} }

type bound struct {
	next http.RoundTripper
	most int64
}

func (b *bound) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	switch {
	case err != nil || resp.Body == http.NoBody:
	case resp.StatusCode < 300:
		resp.Body = &body{resp.Body, b.most, b.most}
	default:
		resp.Body = &beginning{io.LimitReader(resp.Body, maxRefusal), resp.Body}
	}
	return resp, err
}

// CloseIdleConnections is what http.Client.CloseIdleConnections looks for.
func (b *bound) CloseIdleConnections() {
	if c, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// beginning is a body that ends early.
type beginning struct {
	io.Reader
	io.Closer
}

type body struct {
	io.ReadCloser
	left, most int64
}

func (b *body) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		n, err = int(b.left), fmt.Errorf("the answer is longer than %d bytes", b.most)
	}
	b.left -= int64(n)
	return n, err
}
