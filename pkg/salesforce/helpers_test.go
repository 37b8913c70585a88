package salesforce

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"sf2loki/pkg/sftest"
)

// text is a secret's source that never fails.
func text(s string) func() (string, error) { return func() (string, error) { return s, nil } }

// quick makes retries and timeouts short enough for a test.
func quick(cfg *Config) {
	cfg.Retry = Retry{Attempts: 3, Min: time.Millisecond, Max: 2 * time.Millisecond}
}

// configOf fits org, with JWT unless change says otherwise.
func configOf(org *sftest.Org, change ...func(*Config)) Config {
	cfg := Config{LoginURL: org.URL, ClientID: org.ClientID, Username: org.Username,
		PrivateKey: text(org.PrivateKeyPEM()), ClientSecret: text(org.ClientSecret)}
	quick(&cfg)
	for _, c := range change {
		c(&cfg)
	}
	return cfg
}

func newOrg(t *testing.T, cfg sftest.Config) *sftest.Org {
	t.Helper()
	org := sftest.NewOrg(cfg)
	t.Cleanup(org.Close)
	return org
}

func newClient(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func wantKind(t *testing.T, err error, kind Kind) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Kind != kind {
		t.Fatalf("error %v (kind %v), want kind %v", err, KindOf(err), kind)
	}
	return e
}

// dropSession has the next call log in anew.
func dropSession(t *testing.T, c *Client) {
	t.Helper()
	cur, err := c.Token(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	c.Drop(cur)
}

// all collects the records of a query.
func all(c *Client, soql string) ([]json.RawMessage, error) {
	var out []json.RawMessage
	for rec, err := range c.Query(context.Background(), soql) {
		if err != nil {
			return out, err
		}
		out = append(out, rec)
	}
	return out, nil
}
