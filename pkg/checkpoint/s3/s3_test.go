package s3_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/checkpointtest"
	"sf2loki/pkg/checkpoint/s3"
	"sf2loki/pkg/sysexits"
)

// isolate keeps the configuration of whoever runs the test out of it.
func isolate(t testing.TB) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_REGION": "",
		"AWS_DEFAULT_REGION": "", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_S3": "",
	} {
		t.(interface{ Setenv(string, string) }).Setenv(name, value)
	}
}

func store(t testing.TB, text string) checkpoint.Store {
	t.Helper()
	loc, err := checkpoint.ParseLocation(text)
	if err != nil {
		t.Fatal(err)
	}
	s, err := s3.New(loc, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func open(t testing.TB, c *checkpointtest.Cloud) checkpoint.Store {
	return store(t, "s3://bucket/some/state.json?endpoint="+url.QueryEscape(c.URL))
}

func TestConformance(t *testing.T) {
	isolate(t)
	checkpointtest.Run(t, func(t *testing.T) func() checkpoint.Store {
		c := checkpointtest.NewS3(t)
		return func() checkpoint.Store { return open(t, c) }
	})
}

func refusal(status int, code string) checkpointtest.Trouble {
	return checkpointtest.Trouble{Status: status, Header: map[string]string{"Content-Type": "application/xml"},
		Body: "<Error><Code>" + code + "</Code><Message>words</Message></Error>"}
}

func TestFaults(t *testing.T) {
	isolate(t)
	checkpointtest.RunFaults(t, "bucket/some/state.json", checkpointtest.NewS3, open, []checkpointtest.Refusal{
		{Trouble: refusal(404, "NoSuchBucket"), Code: sysexits.Config, Text: "the bucket bucket does not exist"},
		{Trouble: refusal(403, "SignatureDoesNotMatch"), Code: sysexits.NoPerm, Text: "403 SignatureDoesNotMatch: words"},
		{Trouble: refusal(400, "ExpiredToken"), Code: sysexits.NoPerm, Text: "ExpiredToken"},
		{Trouble: refusal(301, "PermanentRedirect"), Code: sysexits.Config, Text: "another region"},
		{Trouble: refusal(400, "AuthorizationHeaderMalformed"), Code: sysexits.Config, Text: "another region"},
		{Trouble: refusal(503, "SlowDown"), Code: sysexits.Unavailable, Text: "503 SlowDown"},
		{Trouble: refusal(400, "RequestTimeout"), Code: sysexits.Unavailable, Text: "RequestTimeout"},
		{Trouble: refusal(501, "NotImplemented"), Code: sysexits.Config, Text: "does not know conditional writes"},
	})
}

// A 409 says that somebody else is writing, not that the condition is lost.
func TestConflictingOperation(t *testing.T) {
	isolate(t)
	c := checkpointtest.NewS3(t)
	var left atomic.Int32
	c.Break(func(r *http.Request) checkpointtest.Trouble {
		if r.Method == http.MethodPut && left.Add(-1) >= 0 {
			return refusal(409, "ConditionalRequestConflict")
		}
		return checkpointtest.Trouble{}
	})
	left.Store(2)
	gen, err := open(t, c).Put(t.Context(), []byte("{}"), "")
	if err != nil {
		t.Fatalf("after two conflicts: %v", err)
	}
	left.Store(1000)
	if _, err := open(t, c).Put(t.Context(), []byte("{}"), gen); err != checkpoint.ErrConflict {
		t.Errorf("conflicts without end: %v", err)
	}
}

// A missing ETag cannot be taken for "nothing there".
func TestNoETag(t *testing.T) {
	isolate(t)
	c := checkpointtest.NewS3(t)
	c.Break(func(*http.Request) checkpointtest.Trouble { return checkpointtest.Trouble{Status: 200, Body: "{}"} })
	if _, _, err := open(t, c).Get(t.Context()); sysexits.Of(err) != sysexits.Config {
		t.Errorf("an object without an ETag: %v", err)
	}
	if _, err := open(t, c).Put(t.Context(), []byte("{}"), ""); sysexits.Of(err) != sysexits.IOErr {
		t.Errorf("a write without an ETag: %v", err)
	}
}

func TestConfiguration(t *testing.T) {
	isolate(t)
	if _, _, err := store(t, "s3://b/k").Get(t.Context()); sysexits.Of(err) != sysexits.Config || !strings.Contains(err.Error(), "no region") {
		t.Errorf("without a region: %v", err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	c := checkpointtest.NewS3(t)
	if _, _, err := open(t, c).Get(t.Context()); sysexits.Of(err) != sysexits.NoPerm || !strings.Contains(err.Error(), "no credentials") {
		t.Errorf("without credentials: %v (%d)", err, sysexits.Of(err))
	}
}

// What a process prints in the place of credentials may be some.
func TestCredentialProcess(t *testing.T) {
	isolate(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "config"))
	if err := os.WriteFile(os.Getenv("AWS_CONFIG_FILE"), []byte("[default]\ncredential_process = echo planted-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := open(t, checkpointtest.NewS3(t)).Get(t.Context())
	if sysexits.Of(err) != sysexits.NoPerm || !strings.Contains(err.Error(), "parse failed of the output of credential_process") || strings.Contains(err.Error(), "planted") {
		t.Error(err)
	}
}
