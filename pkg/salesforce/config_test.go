package salesforce

import (
	"net/http"
	"strings"
	"testing"

	"sf2loki/pkg/sysexits"
)

func TestConfig(t *testing.T) {
	base := Config{ClientID: "id", Username: "u@example.com", PrivateKey: text("k"), ClientSecret: text("s")}
	for _, tt := range []struct {
		name     string
		change   func(*Config)
		login    string
		audience string
		err      string
	}{
		{"production", func(c *Config) {}, "https://login.salesforce.com", "https://login.salesforce.com", ""},
		{"sandbox", func(c *Config) { c.Environment = "sandbox" }, "https://test.salesforce.com", "https://test.salesforce.com", ""},
		{"my domain", func(c *Config) { c.LoginURL = "https://Acme.my.salesforce.com/" }, "https://acme.my.salesforce.com", "https://login.salesforce.com", ""},
		{"my domain without scheme", func(c *Config) { c.LoginURL = "acme.my.salesforce.com" }, "https://acme.my.salesforce.com", "https://login.salesforce.com", ""},
		{"sandbox my domain says production", func(c *Config) {
			c.LoginURL, c.Environment = "https://acme--uat.sandbox.my.salesforce.com", "production"
		}, "https://acme--uat.sandbox.my.salesforce.com", "https://test.salesforce.com", ""},
		{"scratch org", func(c *Config) { c.LoginURL = "https://x.scratch.my.salesforce.com" }, "https://x.scratch.my.salesforce.com", "https://test.salesforce.com", ""},
		{"test host", func(c *Config) { c.LoginURL = "https://test.salesforce.com" }, "https://test.salesforce.com", "https://test.salesforce.com", ""},
		{"sandbox behind a proxy host", func(c *Config) { c.LoginURL, c.Environment = "http://127.0.0.1:8080", "sandbox" }, "http://127.0.0.1:8080", "https://test.salesforce.com", ""},
		{"audience", func(c *Config) { c.Audience = "https://acme.my.site.com/portal/" }, "https://login.salesforce.com", "https://acme.my.site.com/portal", ""},
		{"whole token url", func(c *Config) { c.LoginURL = "https://acme.my.salesforce.com/services/oauth2/token" }, "https://acme.my.salesforce.com", "https://login.salesforce.com", ""},
		{"site with a path", func(c *Config) { c.LoginURL = "https://acme.my.site.com/portal" }, "https://acme.my.site.com/portal", "https://login.salesforce.com", ""},
		{"client credentials", func(c *Config) { c.Auth, c.LoginURL = ClientCredentials, "https://acme.my.salesforce.com" }, "https://acme.my.salesforce.com", "https://login.salesforce.com", ""},

		{"client credentials at login", func(c *Config) { c.Auth = ClientCredentials }, "", "", "login.salesforce.com does not take client credentials: give the org's My Domain"},
		{"client credentials at test", func(c *Config) { c.Auth, c.LoginURL = ClientCredentials, "https://test.salesforce.com" }, "", "", "test.salesforce.com does not take client credentials"},
		{"client credentials at setup", func(c *Config) { c.Auth, c.LoginURL = ClientCredentials, "https://acme.my.salesforce-setup.com" }, "", "", "does not take client credentials"},
		{"lightning", func(c *Config) { c.LoginURL = "https://acme.lightning.force.com" }, "", "", "give https://acme.my.salesforce.com"},
		{"password in url", func(c *Config) { c.LoginURL = "https://me:hunter2@acme.my.salesforce.com" }, "", "", "holds a user name or password"},
		{"unreadable url", func(c *Config) { c.LoginURL = "https://me:hunter2@[" }, "", "", "cannot be read"},
		{"ftp", func(c *Config) { c.LoginURL = "ftp://acme" }, "", "", "want https://HOST"},
		{"no client id", func(c *Config) { c.ClientID = "" }, "", "", "client id is missing"},
		{"no user", func(c *Config) { c.Username = "" }, "", "", "username is missing"},
		{"no key", func(c *Config) { c.PrivateKey = nil }, "", "", "private key is missing"},
		{"no secret", func(c *Config) {
			c.Auth, c.LoginURL, c.ClientSecret = ClientCredentials, "https://acme.my.salesforce.com", nil
		}, "", "", "client secret is missing"},
		{"auth", func(c *Config) { c.Auth = "password" }, "", "", `auth "password": want jwt or client-credentials`},
		{"version", func(c *Config) { c.APIVersion = "62" }, "", "", `api version "62"`},
		{"org id", func(c *Config) { c.OrgID = "001xx0000001gPL" }, "", "", "begins with 00D"},
		{"org id checksum", func(c *Config) { c.OrgID = "00Dxx0000001gPLAAA" }, "", "", "do not fit the rest"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := base
			tt.change(&cfg)
			c, err := New(cfg)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "hunter2") {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				if sysexits.Of(err) != sysexits.Config {
					t.Errorf("exit status %d, want %d", sysexits.Of(err), sysexits.Config)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := c.set.login.String(); got != tt.login {
				t.Errorf("login url %s, want %s", got, tt.login)
			}
			if c.set.audience != tt.audience {
				t.Errorf("audience %s, want %s", c.set.audience, tt.audience)
			}
		})
	}
}

func TestReserve(t *testing.T) {
	for _, tt := range []struct {
		in    string
		least int64 // of 100,000
		bad   bool
	}{
		{"", 0, false}, {"0", 0, false}, {"10%", 10_000, false}, {"2.5 %", 2_500, false}, {"500", 500, false},
		{"100%", 0, true}, {"-1%", 0, true}, {"NaN%", 0, true}, {"-5", 0, true}, {"many", 0, true},
	} {
		r, err := ParseReserve(tt.in)
		if (err != nil) != tt.bad || !tt.bad && r.least(100_000) != tt.least {
			t.Errorf("%q: %v, %v; want %d", tt.in, r.least(100_000), err, tt.least)
		}
	}
}

func TestID18(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"00Dxx0000001gPL", "00Dxx0000001gPLEAY"},
		{"00Dxx0000001gPLEAY", "00Dxx0000001gPLEAY"},
		{"005xx000001Sv6A", "005xx000001Sv6AAAS"},
		{"005xx000001Sv6AAAS", "005xx000001Sv6AAAS"},
		{"005xx000001Sv6AAAA", ""},
		{"short", ""},
		{"00Dxx0000001gP!", ""},
	} {
		got, err := ID18(tt.in)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%q: %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
}

func TestUsageHeader(t *testing.T) {
	for _, tt := range []struct {
		in        string
		used, max int64
		ok        bool
	}{
		{"api-usage=10018/100000", 10018, 100000, true},
		{"api-usage=25/5000; per-app-api-usage=17/250(appName=sample)", 25, 5000, true},
		{"per-app-api-usage=17/250(appName=sample); api-usage=25/5000", 25, 5000, true},
		{"api-bursts=1/750;api-usage=25/5000", 25, 5000, true},
		{"per-app-api-usage=17/250(appName=sample)", 0, 0, false},
		{"api-usage=x/100", 0, 0, false}, {"api-usage=5", 0, 0, false}, {"api-usage=5/0", 0, 0, false}, {"", 0, 0, false},
	} {
		used, max, ok := parseUsage(tt.in)
		if ok != tt.ok || ok && (used != tt.used || max != tt.max) {
			t.Errorf("%q: %d/%d %v, want %d/%d %v", tt.in, used, max, ok, tt.used, tt.max, tt.ok)
		}
	}
}

// An own http.Client of the caller must not keep its redirects or cookies.
func TestHTTPClientIsACopy(t *testing.T) {
	mine := &http.Client{}
	c := httpClient(mine, nil)
	if c == mine || c.CheckRedirect == nil || mine.CheckRedirect != nil {
		t.Error("the caller's client was changed or used as it is")
	}
}
