package secret

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTransport(t *testing.T) {
	s := &Set{}
	var body string
	next := roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Body != nil {
			b, err := io.ReadAll(r.Body)
			if body = string(b); err != nil {
				t.Error(err)
			}
		}
		return nil, errors.New("no answer")
	})
	const form = "grant_type=refresh_token&refresh_token=refresh%2Fplanted&client_secret=client-planted"
	r, _ := http.NewRequest(http.MethodPost, "https://host/path?sv=2024-11-04&sig=signature%2Bplanted", strings.NewReader(form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("X-Amz-Security-Token", "session-planted")
	r.Header.Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKID/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0123456789abcdef")
	if _, err := s.Transport(next).RoundTrip(r); err == nil || body != form {
		t.Errorf("%q was sent: %v", body, err)
	}
	for _, value := range []string{"Bearer bearer-planted", "SharedKey account:shared/planted", "Basic dXNlcjpwYXNz"} {
		r, _ := http.NewRequest(http.MethodGet, "https://host/", nil)
		r.Header.Set("Authorization", value)
		_, _ = s.Transport(next).RoundTrip(r)
	}
	for _, text := range []string{"refresh/planted", "client-planted", "signature+planted", "session-planted", "0123456789abcdef",
		"bearer-planted", "shared/planted", "dXNlcjpwYXNz", "pass"} {
		if got := s.Hide(text); got != Mark {
			t.Errorf("%s becomes %s", text, got)
		}
	}
	for _, text := range []string{"refresh_token", "2024-11-04", "us-east-1", "aws4_request", "21600", "account"} {
		if got := s.Hide(text); got != text {
			t.Errorf("%s becomes %s", text, got)
		}
	}
}

func TestProxy(t *testing.T) {
	s := &Set{}
	choose := s.Proxy(func(*http.Request) (*url.URL, error) { return url.Parse("http://user:proxy-planted@proxy:3128") })
	if u, err := choose(nil); err != nil || u.Host != "proxy:3128" {
		t.Error(u, err)
	}
	if got := s.Hide("proxy-planted, dXNlcjpwcm94eS1wbGFudGVk"); got != "[secret], [secret]" {
		t.Error(got)
	}
}
