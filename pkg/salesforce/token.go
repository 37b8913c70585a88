package salesforce

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sf2loki/pkg/backoff"
	"sf2loki/pkg/sysexits"
)

const tokenPath = "/services/oauth2/token"

// Token is a session of the org.
type Token struct {
	Access      string // secret
	InstanceURL string // base of every call, without a slash at its end
	OrgID       string // 18 characters
	UserID      string // 18 characters

	login int // which login it came from: two may give the same session
}

// String keeps the session out of whatever prints a Token.
func (t Token) String() string   { return "session of org " + t.OrgID }
func (t Token) GoString() string { return t.String() }

// LogValue keeps it out of logs that would show the fields.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// session is the state that all callers of a Client share.
type session struct {
	turn     chan struct{} // held by who logs in
	cur      *Token        // guarded by Client.mu, as all below
	org      string        // that the first login led to
	logins   int           // token requests that have ended
	lastErr  error         // of the last of them
	pause    time.Duration // how long to keep away after "login rate exceeded"
	notUntil time.Time
}

// Token gives the org's session, logging in when there is none. Callers that
// come while a login is under way share its outcome.
func (c *Client) Token(ctx context.Context) (Token, error) {
	t, err := c.token(ctx)
	if err != nil {
		return Token{}, coded(err)
	}
	return *t, nil
}

// Drop tells that Salesforce refused t. A token that has been replaced since
// is not the current one's fault, so only the current one is dropped.
func (c *Client) Drop(t Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sess.cur != nil && c.sess.cur.login == t.login {
		c.sess.cur = nil
	}
}

func (c *Client) token(ctx context.Context) (*Token, error) {
	c.mu.Lock()
	cur, seen := c.sess.cur, c.sess.logins
	c.mu.Unlock()
	if cur != nil {
		return cur, nil
	}
	select {
	case c.sess.turn <- struct{}{}:
		defer func() { <-c.sess.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	c.mu.Lock()
	cur, shared, err := c.sess.cur, c.sess.logins > seen, c.sess.lastErr
	c.mu.Unlock()
	if cur != nil {
		return cur, nil
	}
	if shared && err != nil {
		return nil, err
	}
	return c.login(ctx)
}

// login asks for a token until it has one, or an answer that will not change.
func (c *Client) login(ctx context.Context) (*Token, error) {
	t, err := c.retryLogin(ctx)
	if ctx.Err() != nil && err != nil {
		return nil, context.Cause(ctx) // the caller's end, not the login's: nothing to share
	}
	c.mu.Lock()
	c.sess.logins++
	c.sess.cur, c.sess.lastErr = t, err
	if t != nil {
		t.login = c.sess.logins
	}
	c.mu.Unlock()
	if c.set.Hooks.Login != nil {
		c.set.Hooks.Login(err)
	}
	if err == nil {
		c.set.Log.Debug("logged in", "instance", t.InstanceURL, "org_id", t.OrgID)
	}
	return t, err
}

func (c *Client) retryLogin(ctx context.Context) (*Token, error) {
	wait := backoff.New(c.set.Retry.Min, c.set.Retry.Max)
	clockFixed := false
	for attempt := 1; ; attempt++ {
		if err := c.loginPause(); err != nil {
			return nil, err
		}
		skew := c.clock.skew()
		t, err := c.requestToken(ctx)
		if err == nil {
			c.setLoginPause(nil)
			return t, nil
		}
		c.setLoginPause(err)
		var e *Error
		if !errors.As(err, &e) {
			return nil, err
		}
		// The answer's own date may show that our clock was the fault.
		if e.Message == "expired authorization code" && !clockFixed && (c.clock.skew()-skew).Abs() > 5*time.Second {
			clockFixed = true
			continue
		}
		if !e.Kind.Temporary() || attempt >= c.set.Retry.Attempts {
			return nil, err
		}
		if err := c.pauseRetry(ctx, e, attempt, wait.Next()); err != nil {
			return nil, err
		}
	}
}

// Salesforce takes 3,600 logins of a user in an hour. Beyond, each more would
// prolong the trouble, so they are kept away for a growing while.
const (
	firstLoginPause = 5 * time.Minute
	maxLoginPause   = time.Hour
)

func (c *Client) loginPause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.set.Now().Before(c.sess.notUntil) {
		return &Error{Op: "log in", Kind: KindLoginRate, Message: "login rate exceeded",
			Cure: "no login is tried before " + c.sess.notUntil.UTC().Format(time.RFC3339)}
	}
	return nil
}

func (c *Client) setLoginPause(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.sess.pause, c.sess.notUntil = 0, time.Time{}
	case KindOf(err) == KindLoginRate:
		c.sess.pause = min(max(2*c.sess.pause, firstLoginPause), maxLoginPause)
		c.sess.notUntil = c.set.Now().Add(c.sess.pause)
	}
}

// requestToken makes one token request. Its error has the kind that decides
// whether another is of use.
func (c *Client) requestToken(ctx context.Context) (*Token, error) {
	form, err := c.grant()
	if err != nil {
		return nil, err
	}
	u := c.set.login.JoinPath(tokenPath)
	req, err := http.NewRequest(http.MethodPost, u.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	a, err := c.send(ctx, "log in", min(c.set.Timeout.Header, loginPatience), req)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	body, err := a.readAll(maxTokenBody)
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusOK {
		return nil, c.judge(classifyLogin, a, body)
	}
	t, err := c.readToken(a, body)
	if err != nil {
		return nil, err
	}
	return t, c.checkOrg(t)
}

// loginPatience is for an answer that needs no work.
const loginPatience = 30 * time.Second

// maxTokenBody bounds a token answer; the token itself has no promised length.
const maxTokenBody = 1 << 20

// grant gives the form of a token request.
func (c *Client) grant() (url.Values, error) {
	if c.set.Auth == ClientCredentials {
		secret, err := readSecret("client secret", c.set.Config.ClientSecret)
		if err != nil {
			return nil, err
		}
		c.set.Secrets.Add(secret)
		return url.Values{
			"grant_type":    {"client_credentials"},
			"client_id":     {c.set.ClientID},
			"client_secret": {secret},
		}, nil
	}
	text, err := readSecret("private key", c.set.PrivateKey)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(text)
	if err != nil {
		return nil, configError(err)
	}
	assertion, err := signAssertion(key, claims{
		Issuer: c.set.ClientID, Subject: c.set.Username, Audience: c.set.audience,
		Expires: c.Now().Add(assertionLife).Unix(),
	})
	if err != nil {
		return nil, configError(err)
	}
	c.set.Secrets.Add(assertion)
	return url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"},
		"assertion":  {assertion},
	}, nil
}

func readSecret(name string, read func() (string, error)) (string, error) {
	text, err := read()
	if err != nil {
		if !sysexits.Coded(err) {
			err = configError(err)
		}
		return "", err
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", configError(fmt.Errorf("%s is blank", name))
	}
	return text, nil
}

// readToken takes over a token answer only when all that is needed later is in it.
func (c *Client) readToken(a *answer, body []byte) (*Token, error) {
	fail := func(kind Kind, format string, args ...any) (*Token, error) {
		return nil, &Error{Op: "log in", Kind: kind, Status: http.StatusOK, Message: c.set.Secrets.Hide(fmt.Sprintf(format, args...))}
	}
	var ans struct {
		Access   string `json:"access_token"`
		Instance string `json:"instance_url"`
		ID       string `json:"id"`
	}
	err := json.Unmarshal(body, &ans)
	switch {
	case err != nil && bytes.Contains(body, []byte("access_token")):
		return fail(KindNotJSON, "the token answer's JSON is incomplete or damaged") // and not to be shown
	case err != nil:
		e := c.judge(classifyLogin, a, body)
		e.Message = "not a token answer: " + e.Message
		return nil, e
	}
	if ans.Access == "" {
		return fail(KindNotJSON, "the answer holds no access token")
	}
	_, session, _ := strings.Cut(ans.Access, "!") // before it stands the org's id, which is none
	c.set.Secrets.Add(cmp.Or(session, ans.Access))
	if strings.ContainsFunc(ans.Access, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return fail(KindNotJSON, "the access token is no header text")
	}
	u, err := url.Parse(ans.Instance)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != c.set.login.Scheme {
		return fail(KindNotJSON, "the answer's instance_url %q is no https URL", clip(ans.Instance))
	}
	t := &Token{Access: ans.Access, InstanceURL: u.Scheme + "://" + u.Host}
	parts := strings.Split(strings.TrimSuffix(ans.ID, "/"), "/")
	if len(parts) < 3 {
		return fail(KindNotJSON, "the answer's id %q names no org", clip(ans.ID))
	}
	if t.OrgID, err = OrgID(parts[len(parts)-2]); err != nil {
		return fail(KindNotJSON, "the answer's id: %v", err)
	}
	if t.UserID, err = ID18(parts[len(parts)-1]); err != nil {
		return fail(KindNotJSON, "the answer's id: user %v", err)
	}
	return t, nil
}

// checkOrg holds all logins to one org: the one that was asked for, or the
// first one's. A position in one org's log means nothing in another's.
func (c *Client) checkOrg(t *Token) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	want := c.set.orgID
	if want == "" {
		want = c.sess.org
	}
	if want != "" && want != t.OrgID {
		return &Error{Op: "log in", Kind: KindConfig, Message: fmt.Sprintf("this login leads to org %s, not to %s", t.OrgID, want),
			Cure: "look at the client id, the user and --login-url"}
	}
	c.sess.org = t.OrgID
	return nil
}

// OrgID gives the 18-character id of the org.
func (c *Client) OrgID(ctx context.Context) (string, error) {
	t, err := c.Token(ctx)
	return t.OrgID, err
}
