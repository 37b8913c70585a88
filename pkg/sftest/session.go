package sftest

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// token answers the two grants for programs, with the texts that are reported
// of real orgs.
func (o *Org) token(w *writer, r *http.Request) {
	if r.Method != http.MethodPost {
		o.oauthFail(w, "invalid_request", "must use HTTP POST")
		return
	}
	form := func(key string) string { return r.Form.Get(key) } // the query string is taken too
	var bad string
	switch form("grant_type") {
	case "urn:ietf:params:oauth:grant-type:jwt-bearer":
		bad = o.checkAssertion(form("assertion"))
	case "client_credentials":
		id, secret := form("client_id"), form("client_secret")
		if user, pass, ok := r.BasicAuth(); ok {
			id, secret = user, pass
		}
		bad = o.checkSecret(id, secret)
	default:
		bad = "token_err_unsupported_grant.json"
	}
	if bad != "" {
		o.fixture(w, bad)
		return
	}
	login := "https://login.salesforce.com"
	if o.cfg.Sandbox {
		login = "https://test.salesforce.com"
	}
	w.Header().Set("Content-Type", jsonType)
	json.NewEncoder(w).Encode(map[string]string{
		"access_token": o.mint(), "scope": "api", "token_type": "Bearer",
		"instance_url": or(o.cfg.InstanceURL, o.URL),
		"id":           login + "/id/" + o.ID + "/" + o.UserID,
	})
}

// Session gives a new access token, as a login does, without one.
func (o *Org) Session() string { return o.mint() }

func (o *Org) mint() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.minted++
	var raw [72]byte
	rand.Read(raw[:])
	t := o.ID[:15] + "!" + strings.NewReplacer("-", ".", "=", "").Replace(base64.URLEncoding.EncodeToString(raw[:]))
	o.tokens[t] = o.now()
	return t
}

// maxAhead is the farthest end of an assertion that is taken.
const (
	maxAhead        = 3 * time.Minute
	maxAheadLenient = 5*time.Minute + 10*time.Second
)

// checkAssertion gives the fixture of the refusal, or nothing.
func (o *Org) checkAssertion(text string) string {
	var claims jwt.MapClaims
	_, err := jwt.NewParser(jwt.WithValidMethods([]string{"RS256"}), jwt.WithoutClaimsValidation(), jwt.WithJSONNumber()).
		ParseWithClaims(text, &claims, func(*jwt.Token) (any, error) { return &o.privateKey().PublicKey, nil })
	if err != nil {
		return "token_err_assertion_invalid.json"
	}
	if iss, _ := claims.GetIssuer(); iss != o.ClientID {
		return "token_err_client_id.json"
	}
	want := "https://login.salesforce.com"
	if o.cfg.Sandbox {
		want = "https://test.salesforce.com"
	}
	if aud, _ := claims.GetAudience(); len(aud) != 1 || aud[0] != want && (!o.cfg.LenientLogin || aud[0] != o.URL) {
		return "token_err_audience_invalid.json"
	}
	exp, err := claims.GetExpirationTime()
	now, ahead := o.Now(), maxAhead
	if o.cfg.LenientLogin {
		ahead = maxAheadLenient
	}
	if err != nil || exp == nil || exp.Before(now) || exp.After(now.Add(ahead)) {
		return "token_err_assertion_expired.json"
	}
	if sub, _ := claims.GetSubject(); sub != o.Username {
		return "token_err_no_user.json"
	}
	return ""
}

func (o *Org) checkSecret(id, secret string) string {
	switch {
	case o.cfg.GenericLogin:
		return "token_err_wrong_domain.json"
	case id != o.ClientID:
		return "token_err_client_id.json"
	case secret != o.secret():
		return "token_err_client_secret.json"
	case o.cfg.NoRunAsUser:
		return "token_err_no_client_credentials_user.json"
	}
	return ""
}

func (o *Org) oauthFail(w *writer, code, text string) {
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(http.StatusBadRequest)
	json.NewEncoder(w).Encode(map[string]string{"error": code, "error_description": text})
}

// live tells whether the request bears a session, and keeps that alive.
func (o *Org) live(r *http.Request) (ok, wellFormed bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if scheme != "Bearer" && scheme != "OAuth" || token == "" {
		return false, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	last, known := o.tokens[token]
	now := o.now()
	if !known || now.Sub(last) > o.cfg.TokenLife {
		delete(o.tokens, token)
		return false, true
	}
	o.tokens[token] = now
	return true, true
}

// session refuses a request that has none, in the form that it accepts.
func (o *Org) session(w *writer, r *http.Request) bool {
	ok, wellFormed := o.live(r)
	switch {
	case ok:
		return true
	case !wellFormed && r.Header.Get("Authorization") != "":
		o.fixture(w, "err_401_bad_header.json")
	case !strings.Contains(r.Header.Get("Accept"), "json"):
		o.fixture(w, "err_200_xml.xml")
	default:
		o.fixture(w, "err_401_invalid_session.json")
	}
	return false
}

// userinfo refuses with a plain text and a 403, unlike the rest.
func (o *Org) userinfo(w *writer, r *http.Request) {
	ok, wellFormed := o.live(r)
	switch {
	case !ok && wellFormed:
		o.fixture(w, "userinfo_403_bad_token.txt")
	case !ok:
		o.fixture(w, "userinfo_403_missing_token.txt")
	default:
		var info map[string]any
		if err := json.Unmarshal(fixtureBody("userinfo.json"), &info); err != nil {
			panic(fmt.Sprintf("sftest: %v", err))
		}
		info["organization_id"], info["user_id"], info["preferred_username"] = o.ID, o.UserID, o.Username
		o.json(w, info)
	}
}
