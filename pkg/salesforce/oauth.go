package salesforce

import (
	"net/http"
	"strings"
)

// loginFault is what is known of one error of the token endpoint. The texts
// are Salesforce's; several of them mislead, so each has its cure.
type loginFault struct {
	code string // OAuth's error; empty: any
	text string // a part of error_description, in lower case; empty: any
	kind Kind
	hint string
}

var loginFaults = []loginFault{
	{"invalid_grant", "hasn't approved this consumer", KindAuth,
		"pre-authorize the user: assign their profile or a permission set to the app, and let the app admit admin-approved users"},
	{"invalid_grant", "audience", KindConfig,
		"set --audience: https://login.salesforce.com for production, https://test.salesforce.com for sandboxes"},
	{"invalid_grant", "invalid assertion", KindAuth,
		"the private key does not fit the app's certificate, or the app is younger than ten minutes"},
	{"invalid_grant", "expired authorization code", KindAuth,
		"the assertion's end is past or too far: set this machine's clock"},
	{"invalid_grant", "login rate exceeded", KindLoginRate,
		"3,600 logins of a user in an hour are the most: look for what else logs in as this user"},
	{"invalid_grant", "no client credentials user", KindAuth,
		"enable the client credentials flow in the app and name its Run As user"},
	{"invalid_grant", "not supported on this domain", KindConfig,
		"give the org's My Domain as --login-url, https://NAME.my.salesforce.com"},
	{"invalid_grant", "user not found", KindAuth,
		"--username is the user name in that org, not the e-mail address; a sandbox's ends in .SANDBOXNAME"},
	{"invalid_grant", "inactive user", KindAuth, "activate the user in Setup"},
	{"invalid_grant", "user is locked", KindAuth, "unlock the user in Setup, or wait"},
	{"invalid_grant", "ip restricted", KindAuth,
		"add this machine's address to the login IP ranges of the user's profile, or relax IP restrictions in the app"},
	{"invalid_grant", "authentication failure", KindAuth,
		"see the user's login history in Setup: it names the cause"},
	{"invalid_grant", "expired access/refresh token", KindAuth, "the app's or the user's access was revoked: authorize it anew"},
	{"invalid_grant", "", KindAuth, "see the user's login history in Setup: it names the cause"},
	{"invalid_client_id", "", KindAuth, "--client-id is the app's consumer key; a new or edited app takes up to ten minutes to work"},
	{"invalid_client", "", KindAuth, "the client secret does not fit the consumer key; a new or edited app takes up to ten minutes to work"},
	{"invalid_app_access", "", KindAuth, "assign the user's profile or a permission set to the app"},
	{"invalid_request", "refresh_token scope", KindAuth,
		"give the app the scopes api and refresh_token, install it in this org and pre-authorize the user"},
	{"inactive_org", "", KindAuth, "the org is locked, closed or suspended: ask Salesforce"},
	{"unsupported_grant_type", "", KindConfig, "the app or the org does not allow this way to log in: enable it, or use the other --auth"},
	{"unknown_error", "", KindTransient, ""},
	{"server_error", "", KindTransient, ""},
	{"temporarily_unavailable", "", KindTransient, ""},
}

// classifyLogin is classify for the token endpoint, where a 400 may mean
// anything from a wrong key to "try again".
func classifyLogin(op string, status int, header http.Header, body []byte) *Error {
	e := classify(op, status, header, body)
	text := strings.ToLower(e.Message)
	for _, f := range loginFaults {
		if f.code == e.Code && strings.Contains(text, f.text) {
			e.Kind, e.Cure = f.kind, f.hint
			return e
		}
	}
	switch e.Kind {
	case KindNotFound:
		e.Kind, e.Cure = KindConfig, "the host of --login-url has no token endpoint"
	case KindOther, KindPermission:
		e.Kind, e.Cure = KindAuth, ""
	}
	return e
}
