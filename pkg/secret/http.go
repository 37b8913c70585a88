package secret

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// Transport has the set learn what requests prove themselves with that next
// makes, for libraries that get their credentials by themselves: headers,
// signatures in URLs, and what is sent for a token.
func (s *Set) Transport(next http.RoundTripper) http.RoundTripper { return &transport{s, next} }

type transport struct {
	set  *Set
	next http.RoundTripper
}

// telling are names of what is a credential, or nearly one.
var telling = regexp.MustCompile(`(?i)auth|token|secret|assertion|password|signature|^sig$|^code$|api-?key|cookie`)

const (
	shortestCredential = 12 // what has such a name and is shorter is a number or a kind
	maxForm            = 64 << 10
)

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		t.set.Learn(r.Header, r.URL, http.NoBody)
		return t.next.RoundTrip(r)
	}
	var form bytes.Buffer
	t.set.Learn(r.Header, r.URL, io.TeeReader(r.Body, &form))
	if form.Len() > 0 {
		again := *r // a transport leaves its request as it is
		again.Body = joined{io.MultiReader(&form, r.Body), r.Body}
		r = &again
	}
	return t.next.RoundTrip(r)
}

// Learn takes in what a request proves itself with. Of its body no more than
// the beginning of a form is read.
func (s *Set) Learn(h http.Header, u *url.URL, body io.Reader) {
	for name, values := range h {
		if telling.MatchString(name) {
			for _, v := range values {
				s.addHeader(v)
			}
		}
	}
	s.addQuery(u.RawQuery)
	if strings.HasPrefix(h.Get("Content-Type"), "application/x-www-form-urlencoded") {
		form, _ := io.ReadAll(io.LimitReader(body, maxForm)) // who sends it finds out what is wrong with it
		s.addQuery(string(form))
	}
}

type joined struct {
	io.Reader
	io.Closer
}

// CloseIdleConnections is what http.Client.CloseIdleConnections looks for.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// addHeader takes the proof out of a header: all that follows the scheme, or
// what has been signed, without what only names the account and the region.
func (s *Set) addHeader(value string) {
	scheme, proof, ok := strings.Cut(value, " ")
	if !ok {
		scheme, proof = "", value
	}
	switch {
	case strings.HasPrefix(scheme, "AWS4-"):
		_, proof, _ = strings.Cut(proof, "Signature=")
	case strings.HasPrefix(scheme, "SharedKey"):
		_, proof, _ = strings.Cut(proof, ":")
	case scheme == "Basic":
		s.AddBasic(proof)
	}
	s.addCredential(proof)
}

// AddBasic takes in what basic authentication sends, and the password in it.
func (s *Set) AddBasic(sent string) {
	if plain, err := base64.StdEncoding.DecodeString(sent); err == nil {
		_, password, _ := strings.Cut(string(plain), ":")
		s.Add(password)
	}
	s.Add(sent)
}

func (s *Set) addQuery(text string) {
	values, _ := url.ParseQuery(text) // what can be read counts
	for name, list := range values {
		if telling.MatchString(name) {
			for _, v := range list {
				s.addCredential(v)
			}
		}
	}
}

func (s *Set) addCredential(text string) {
	if len(text) >= shortestCredential {
		s.Add(text)
	}
}

// Proxy has the set learn the credentials of the proxies that choose picks.
func (s *Set) Proxy(choose func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		u, err := choose(r)
		if u != nil && u.User != nil {
			password, _ := u.User.Password()
			s.Add(password)
			s.Add(base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password)))
		}
		return u, err
	}
}
