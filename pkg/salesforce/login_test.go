package salesforce

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"sf2loki/pkg/sftest"
	"sf2loki/pkg/sysexits"
)

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func TestLogin(t *testing.T) {
	for _, tt := range []struct {
		name   string
		org    sftest.Config
		change func(*Config)
	}{
		{"jwt", sftest.Config{}, func(*Config) {}},
		{"jwt of a sandbox", sftest.Config{Sandbox: true}, func(c *Config) { c.Environment = "sandbox" }},
		{"client credentials", sftest.Config{}, func(c *Config) { c.Auth = ClientCredentials }},
		{"secret with white space around it", sftest.Config{}, func(c *Config) {
			c.Auth = ClientCredentials
			secret, _ := c.ClientSecret()
			c.ClientSecret = text("  " + secret + "\n")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			org := newOrg(t, tt.org)
			c := newClient(t, configOf(org, tt.change))
			id, err := c.OrgID(context.Background())
			if err != nil || id != org.ID {
				t.Fatalf("org id %q, %v; want %q", id, err, org.ID)
			}
			if _, err := c.Get(context.Background(), "limits/"); err != nil {
				t.Fatal(err)
			}
			if org.Logins() != 1 {
				t.Errorf("%d logins, want 1", org.Logins())
			}
		})
	}
}

func TestLoginRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		org    sftest.Config
		change func(*Config)
		kind   Kind
		text   string
	}{
		{"audience", sftest.Config{Sandbox: true}, func(*Config) {}, KindConfig, "audience is invalid"},
		{"consumer key", sftest.Config{}, func(c *Config) { c.ClientID = "other" }, KindAuth, "client identifier invalid"},
		{"user", sftest.Config{}, func(c *Config) { c.Username = "nobody@example.com" }, KindAuth, "user not found"},
		{"secret", sftest.Config{}, func(c *Config) { c.Auth, c.ClientSecret = ClientCredentials, text("wrong") }, KindAuth, "invalid client credentials"},
		{"generic host", sftest.Config{GenericLogin: true}, func(c *Config) { c.Auth = ClientCredentials }, KindConfig, "not supported on this domain"},
		{"no user of the app", sftest.Config{NoRunAsUser: true}, func(c *Config) { c.Auth = ClientCredentials }, KindAuth, "no client credentials user enabled"},
		{"another key", sftest.Config{}, func(c *Config) { c.PrivateKey = text(newKey(t)) }, KindAuth, "invalid assertion"},
		{"another org", sftest.Config{}, func(c *Config) { c.OrgID = "00Dxx0000009ZZZ" }, KindConfig, "leads to org 00Dxx0000001gPLEAY, not to 00Dxx0000009ZZZ"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			org := newOrg(t, tt.org)
			_, err := newClient(t, configOf(org, tt.change)).Token(context.Background())
			wantKind(t, err, tt.kind)
			if !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %q, want %q in it", err, tt.text)
			}
			if got := len(org.Requests("/token")); got != 1 {
				t.Errorf("%d token requests, want 1", got)
			}
		})
	}
}

func newKey(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return pemOf("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
}

func TestKeys(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ecDER, err := x509.MarshalPKCS8PrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, key, want string }{
		{"pkcs1", newKey(t), ""},
		{"certificate in front", pemOf("CERTIFICATE", []byte("x")) + newKey(t), ""},
		{"elliptic curve", pemOf("PRIVATE KEY", ecDER), "no RSA key"},
		{"encrypted", pemOf("ENCRYPTED PRIVATE KEY", []byte("s3cret")), "encrypted"},
		{"damaged", pemOf("PRIVATE KEY", []byte("s3cret")), "damaged"},
		{"not pem", "s3cret", "no PEM block"},
		{"only a certificate", pemOf("CERTIFICATE", []byte("s3cret")), "no PEM block"},
	} {
		_, err := parseKey(tt.key)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// #131: a blank secret is none; an unreadable one keeps its own status.
func TestSecretSources(t *testing.T) {
	org := newOrg(t, sftest.Config{})
	for _, tt := range []struct {
		name string
		read func() (string, error)
		code sysexits.Code
		text string
	}{
		{"blank", text(" \n\t"), sysexits.Config, "client secret is blank"},
		{"unreadable", func() (string, error) { return "", errors.New("read /run/secret: denied") }, sysexits.Config, "/run/secret"},
		{"with its own status", func() (string, error) {
			return "", sysexits.Errorf(sysexits.NoPerm, "no")
		}, sysexits.NoPerm, "no"},
	} {
		c := newClient(t, configOf(org, func(c *Config) { c.Auth, c.ClientSecret = ClientCredentials, tt.read }))
		_, err := c.Token(context.Background())
		if sysexits.Of(err) != tt.code || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v (%d), want %d with %q", tt.name, err, sysexits.Of(err), tt.code, tt.text)
		}
	}
	if n := len(org.Requests("")); n != 0 {
		t.Errorf("%d requests without a secret", n)
	}
}

// A rotated secret is taken up by the next login, without a restart.
func TestSecretIsReadForEachLogin(t *testing.T) {
	org := newOrg(t, sftest.Config{})
	secret := "old"
	c := newClient(t, configOf(org, func(c *Config) {
		c.Auth, c.ClientSecret = ClientCredentials, func() (string, error) { return secret, nil }
	}))
	_, err := c.Token(context.Background())
	wantKind(t, err, KindAuth)
	secret = org.ClientSecret
	if _, err := c.Token(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// Z20 and more: what a token endpoint may answer with a 200 or in trouble.
func TestTokenAnswers(t *testing.T) {
	ok := `"access_token":"00D!abc","instance_url":"https://acme.my.salesforce.com","id":"https://login.salesforce.com/id/00Dxx0000001gPL/005xx000001Sv6A"`
	for _, tt := range []struct {
		name  string
		fault sftest.Fault
		kind  Kind
		calls int
	}{
		{"empty object", sftest.Fault{Body: `{}`}, KindNotJSON, 3},
		{"empty body", sftest.Fault{Status: 200, Body: " "}, KindNotJSON, 3},
		{"page with a 200", sftest.Fault{HTML: true}, KindNotJSON, 3},
		{"page with a 503", sftest.Fault{Fixture: "maintenance_503.html"}, KindNotJSON, 3},
		{"array", sftest.Fault{Body: `[]`}, KindNotJSON, 3},
		{"cut", sftest.Fault{Body: `{"access_token":"abc`}, KindNotJSON, 3},
		{"no instance", sftest.Fault{Body: strings.Replace("{"+ok+"}", "instance_url", "x", 1)}, KindNotJSON, 3},
		{"instance without TLS", sftest.Fault{Body: strings.Replace("{"+ok+"}", "https://acme", "ftp://acme", 1)}, KindNotJSON, 3},
		{"no id", sftest.Fault{Body: strings.Replace("{"+ok+"}", `"id"`, `"x"`, 1)}, KindNotJSON, 3},
		{"id of no org", sftest.Fault{Body: strings.Replace("{"+ok+"}", "00Dxx", "001xx", 1)}, KindNotJSON, 3},
		{"token with a line break", sftest.Fault{Body: strings.Replace("{"+ok+"}", "00D!abc", `00D!\nabc`, 1)}, KindNotJSON, 3},
		{"token request not json", sftest.Fault{Status: 200, Body: "hello"}, KindNotJSON, 3},
		{"unknown_error", sftest.Fault{Fixture: "token_err_unknown_retry.json"}, KindTransient, 3},
		{"500", sftest.Fault{Status: 500}, KindTransient, 3},
		{"reset", sftest.Fault{Reset: true}, KindTransport, 3},
		{"404 of another site", sftest.Fault{Status: 404, Body: "<html>nothing</html>"}, KindConfig, 1},
		{"redirect", sftest.Fault{Status: 302, Header: http.Header{"Location": {"https://other.example/"}}}, KindConfig, 1},
		{"403 page", sftest.Fault{Status: 403, Body: "<html>no</html>"}, KindAuth, 1},
		{"400 nobody knows", sftest.Fault{Status: 400, Body: `{"error":"new","error_description":"what"}`}, KindAuth, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			org := newOrg(t, sftest.Config{})
			tt.fault.Times = -1
			org.Fault("/token", tt.fault)
			c := newClient(t, configOf(org))
			_, err := c.Token(context.Background())
			wantKind(t, err, tt.kind)
			if n := len(org.Requests("/token")); n != tt.calls {
				t.Errorf("%d token requests, want %d", n, tt.calls)
			}
			org.ClearFaults()
			if _, err := c.Token(context.Background()); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

func TestLoginRetriesTransient(t *testing.T) {
	org := newOrg(t, sftest.Config{})
	org.Fault("/token", sftest.Fault{Fixture: "token_err_unknown_retry.json"})
	org.Fault("/token", sftest.Fault{Fixture: "maintenance_503.html"})
	if _, err := newClient(t, configOf(org)).Token(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// A wrong clock of ours is found out by the first refusal, and then kept in mind.
func TestClockSkew(t *testing.T) {
	for _, skew := range []time.Duration{-3 * time.Hour, -5 * time.Minute, -90 * time.Second, 0, 5 * time.Minute, 3 * time.Hour} {
		org := newOrg(t, sftest.Config{})
		org.SetSkew(skew)
		c := newClient(t, configOf(org))
		if _, err := c.Token(context.Background()); err != nil {
			t.Errorf("skew %v: %v", skew, err)
			continue
		}
		if off := c.Now().Sub(org.Now()).Abs(); off > clockNoise {
			t.Errorf("skew %v: our idea of Salesforce's clock is off by %v", skew, off)
		}
		if (c.Skew() - skew).Abs() > clockNoise {
			t.Errorf("skew %v: measured %v", skew, c.Skew())
		}
		dropSession(t, c)
		before := len(org.Requests("/token"))
		if _, err := c.Token(context.Background()); err != nil || len(org.Requests("/token")) != before+1 {
			t.Errorf("skew %v: the second login took more than one request, or %v", skew, err)
		}
	}
}

func TestLoginsAreShared(t *testing.T) {
	org := newOrg(t, sftest.Config{})
	org.Fault("/token", sftest.Fault{Latency: 50 * time.Millisecond, Times: -1})
	c := newClient(t, configOf(org))
	const callers = 20
	get := func() {
		t.Helper()
		var group sync.WaitGroup
		for range callers {
			group.Go(func() {
				if _, err := c.Get(context.Background(), "limits/"); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
	}
	get()
	if org.Logins() != 1 {
		t.Fatalf("%d logins for %d callers, want 1", org.Logins(), callers)
	}
	org.ExpireTokens()
	get()
	if org.Logins() != 2 {
		t.Errorf("%d logins after the session ended, want 2", org.Logins())
	}
}

// Callers that waited for a login that failed share its error; a later one tries anew.
func TestFailedLoginsAreShared(t *testing.T) {
	org := newOrg(t, sftest.Config{})
	org.Fault("/token", sftest.Fault{Latency: 100 * time.Millisecond, Fixture: "token_err_auth_failure.json"})
	c := newClient(t, configOf(org))
	start := make(chan struct{})
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			<-start
			_, err := c.Token(context.Background())
			if KindOf(err) != KindAuth {
				t.Errorf("error %v, want a refusal", err)
			}
		})
	}
	close(start)
	group.Wait()
	if n := len(org.Requests("/token")); n != 1 {
		t.Errorf("%d token requests, want 1", n)
	}
	if _, err := c.Token(context.Background()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// The end of who logs in is not the end of those who wait.
func TestCancelledLoginIsNotShared(t *testing.T) {
	org := newOrg(t, sftest.Config{})
	org.Fault("/token", sftest.Fault{Latency: time.Minute})
	c := newClient(t, configOf(org))
	ctx, cancel := context.WithCancel(context.Background())
	first := make(chan error)
	go func() { _, err := c.Token(ctx); first <- err }()
	org.WaitRequests("/token", 1)
	second := make(chan error)
	go func() { _, err := c.Token(context.Background()); second <- err }()
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first got %v", err)
	}
	if err := <-second; err != nil {
		t.Errorf("the second got %v", err)
	}
}

func TestOneNewLoginPerRequest(t *testing.T) {
	for _, fixture := range []string{"err_401_invalid_session.json", "err_401_bad_header.json", "err_200_xml.xml", "userinfo_403_bad_token.txt"} {
		t.Run(fixture, func(t *testing.T) {
			org := newOrg(t, sftest.Config{})
			c := newClient(t, configOf(org))
			org.Fault("/limits", sftest.Fault{Fixture: fixture})
			if _, err := c.Get(context.Background(), "limits/"); err != nil || org.Logins() != 2 {
				t.Errorf("after one refusal: %v, %d logins; want 2", err, org.Logins())
			}
			org.Fault("/limits", sftest.Fault{Fixture: fixture, Times: -1})
			org.ResetRequests()
			_, err := c.Get(context.Background(), "limits/")
			wantKind(t, err, KindAuth)
			if sysexits.Of(err) != sysexits.NoPerm {
				t.Errorf("exit status %d, want 77", sysexits.Of(err))
			}
			if n := len(org.Requests("/limits")); n != 2 || org.Logins() != 3 {
				t.Errorf("%d requests and %d logins for lasting refusals, want 2 and 3", n, org.Logins())
			}
		})
	}
}

// #109: userinfo refuses in its own way.
func TestUserinfo(t *testing.T) {
	org := newOrg(t, sftest.Config{})
	c := newClient(t, configOf(org))
	if _, err := c.Get(context.Background(), "/services/oauth2/userinfo"); err != nil {
		t.Fatal(err)
	}
	org.ExpireTokens()
	body, err := c.Get(context.Background(), "/services/oauth2/userinfo")
	if err != nil || !strings.Contains(string(body), org.ID) || org.Logins() != 2 {
		t.Errorf("%s, %v, %d logins", body, err, org.Logins())
	}
}

// A bare 403 is a matter of rights: no login helps, and none is tried.
func TestForbiddenIsNoLogin(t *testing.T) {
	org := newOrg(t, sftest.Config{})
	c := newClient(t, configOf(org))
	org.Fault("/limits", sftest.Fault{Status: 403, Times: -1})
	_, err := c.Get(context.Background(), "limits/")
	wantKind(t, err, KindPermission)
	if org.Logins() != 1 || len(org.Requests("/limits")) != 1 {
		t.Errorf("%d logins and %d requests, want 1 and 1", org.Logins(), len(org.Requests("/limits")))
	}
}

// A refusal of an old session that comes late must not end the new one.
func TestLateRefusal(t *testing.T) {
	org := newOrg(t, sftest.Config{})
	c := newClient(t, configOf(org))
	ctx := context.Background()
	old, err := c.Token(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c.Drop(old)
	cur, err := c.Token(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c.Drop(old)
	again, err := c.Token(ctx)
	if err != nil || again != cur || org.Logins() != 2 {
		t.Errorf("session %v, %v, %d logins; want the second one kept", again == cur, err, org.Logins())
	}
}

// Two logins may give the very same session: a late refusal of the first is no
// reason to drop the second.
func TestLateRefusalOfTheSameSession(t *testing.T) {
	logins := 0
	c := scripted(t, func(r *http.Request) (*http.Response, error) { logins++; return respond(200, tokenAnswer) })
	first, err := c.Token(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	c.Drop(first)
	for range 2 {
		if _, err := c.Token(context.Background()); err != nil {
			t.Fatal(err)
		}
		c.Drop(first)
	}
	if logins != 2 {
		t.Errorf("%d logins, want 2", logins)
	}
}

func TestLoginRate(t *testing.T) {
	org := newOrg(t, sftest.Config{})
	now := time.Now()
	c := newClient(t, configOf(org, func(c *Config) { c.Now = func() time.Time { return now } }))
	org.Fault("/token", sftest.Fault{Fixture: "token_err_login_rate.json", Times: 2})
	ask := func(want Kind, requests int) {
		t.Helper()
		_, err := c.Token(context.Background())
		if KindOf(err) != want || want != KindOther && sysexits.Of(err) != sysexits.TempFail {
			t.Errorf("error %v, want %v", err, want)
		}
		if n := len(org.Requests("/token")); n != requests {
			t.Errorf("%d token requests, want %d", n, requests)
		}
	}
	ask(KindLoginRate, 1)
	ask(KindLoginRate, 1) // kept away
	now = now.Add(firstLoginPause + time.Second)
	org.SetSkew(firstLoginPause + time.Second)
	ask(KindLoginRate, 2)
	now = now.Add(firstLoginPause + time.Second)
	ask(KindLoginRate, 2) // the pause has doubled
	now = now.Add(firstLoginPause)
	org.SetSkew(3*firstLoginPause + 2*time.Second)
	ask(KindOther, 3)
}

// The session goes to no host but the instance that the login named.
func TestSessionStaysAtTheInstance(t *testing.T) {
	var leaked []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked = append(leaked, r.Header.Get("Authorization")+r.URL.String())
	}))
	defer other.Close()
	org := newOrg(t, sftest.Config{})
	c := newClient(t, configOf(org))
	org.Fault("/limits", sftest.Fault{Status: 307, Header: http.Header{"Location": {other.URL + "/x"}}})
	_, err := c.Get(context.Background(), "limits/")
	e := wantKind(t, err, KindConfig)
	if sysexits.Of(err) != sysexits.Config || !strings.Contains(e.Error(), other.URL) {
		t.Errorf("error %v (%d), want 78 naming the other host", err, sysexits.Of(err))
	}
	org.Fault("/query", sftest.Fault{Body: `{"totalSize":2,"done":false,"nextRecordsUrl":"` + other.URL + `/q","records":[]}`})
	_, err = all(c, "SELECT Id FROM EventLogFile")
	wantKind(t, err, KindConfig)
	_, err = c.Open(context.Background(), strings.TrimPrefix(other.URL, "http:")+"/x")
	wantKind(t, err, KindConfig)
	if len(leaked) != 0 {
		t.Errorf("the other host got %q", leaked)
	}
}
