package gcs_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/checkpointtest"
	"sf2loki/pkg/checkpoint/gcs"
	"sf2loki/pkg/sysexits"
)

func store(t testing.TB, text, emulator string) checkpoint.Store {
	t.Helper()
	loc, err := checkpoint.ParseLocation(text)
	if err != nil {
		t.Fatal(err)
	}
	s, err := gcs.New(loc, emulator, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func open(t testing.TB, c *checkpointtest.Cloud) checkpoint.Store {
	return store(t, "gs://bucket/some/state.json", strings.TrimPrefix(c.URL, "http://"))
}

func TestConformance(t *testing.T) {
	checkpointtest.Run(t, func(t *testing.T) func() checkpoint.Store {
		c := checkpointtest.NewGCS(t)
		return func() checkpoint.Store { return open(t, c) }
	})
}

func TestFaults(t *testing.T) {
	noBucket := checkpointtest.Trouble{Status: 404, Body: `{"error":{"code":404,"message":"The specified bucket does not exist."}}`}
	denied := checkpointtest.Trouble{Status: 403, Body: `{"error":{"code":403,"message":"x does not have storage.objects.get access"}}`}
	elsewhere := checkpointtest.Trouble{Status: 307, Header: map[string]string{"Location": "http://127.0.0.1:1/"}}
	checkpointtest.RunFaults(t, "bucket/some/state.json", checkpointtest.NewGCS, open, []checkpointtest.Refusal{
		{Trouble: noBucket, Code: sysexits.Config, Text: "the bucket bucket does not exist"},
		{Trouble: denied, Code: sysexits.NoPerm, Text: "403 x does not have storage.objects.get access"},
		{Trouble: elsewhere, Code: sysexits.Config, Text: "307 Temporary Redirect"},
	})
}

// credentials writes a file of application default credentials whose tokens
// come from where.
func credentials(t *testing.T, where string) {
	t.Helper()
	text, err := json.Marshal(map[string]string{
		"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r", "token_uri": where,
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "adc.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", path)
}

// Credentials that get no token are refused credentials, a token service that
// is down is not.
func TestTokens(t *testing.T) {
	for status, want := range map[int]sysexits.Code{400: sysexits.NoPerm, 401: sysexits.NoPerm, 503: sysexits.Unavailable} {
		tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"error":"invalid_grant","error_description":"refresh_token=secret"}`))
		}))
		credentials(t, tokens.URL)
		_, _, err := store(t, "gs://bucket/k", "").Get(t.Context())
		if sysexits.Of(err) != want {
			t.Errorf("%d: %v (%d); want %d", status, err, sysexits.Of(err), want)
		}
		if text := err.Error(); !strings.Contains(text, ": invalid_grant") || strings.Contains(text, "secret") {
			t.Errorf("%d: %s", status, text)
		}
		tokens.Close()
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "none.json"))
	if _, _, err := store(t, "gs://bucket/k", "").Get(t.Context()); sysexits.Of(err) != sysexits.NoPerm {
		t.Errorf("without credentials: %v", err)
	}
}
