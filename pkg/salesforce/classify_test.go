package salesforce

import (
	"net/http"
	"strings"
	"testing"

	"sf2loki/pkg/errtest"
	"sf2loki/pkg/sftest"
	"sf2loki/pkg/sysexits"
)

type verdict struct {
	kind Kind
	exit sysexits.Code
	hint string // a part of the cure; empty: none is known
}

// fixtureVerdicts has every stored answer that is an error.
var fixtureVerdicts = map[string]verdict{
	"token_err_user_not_approved.json":          {KindAuth, 77, "pre-authorize the user"},
	"token_err_audience_invalid.json":           {KindConfig, 78, "--audience"},
	"token_err_assertion_invalid.json":          {KindAuth, 77, "does not fit the app's certificate"},
	"token_err_assertion_expired.json":          {KindAuth, 77, "clock"},
	"token_err_no_user.json":                    {KindAuth, 77, "--username"},
	"token_err_auth_failure.json":               {KindAuth, 77, "login history"},
	"token_err_inactive_user.json":              {KindAuth, 77, "activate"},
	"token_err_inactive_org.json":               {KindAuth, 77, "locked, closed or suspended"},
	"token_err_ip_restricted.json":              {KindAuth, 77, "IP ranges"},
	"token_err_login_rate.json":                 {KindLoginRate, 75, "what else logs in"},
	"token_err_no_client_credentials_user.json": {KindAuth, 77, "Run As"},
	"token_err_wrong_domain.json":               {KindConfig, 78, "My Domain"},
	"token_err_client_id.json":                  {KindAuth, 77, "consumer key"},
	"token_err_client_secret.json":              {KindAuth, 77, "secret"},
	"token_err_app_access.json":                 {KindAuth, 77, "permission set"},
	"token_err_refresh_scope.json":              {KindAuth, 77, "refresh_token"},
	"token_err_unsupported_grant.json":          {KindConfig, 78, "--auth"},
	"token_err_unknown_retry.json":              {KindTransient, 75, ""},
	"userinfo_403_bad_token.txt":                {KindAuth, 77, ""},
	"userinfo_403_missing_token.txt":            {KindAuth, 77, ""},
	"err_401_invalid_session.json":              {KindAuth, 77, ""},
	"err_401_bad_header.json":                   {KindAuth, 77, ""},
	"err_403_request_limit.json":                {KindLimitTotal, 75, "24 hours"},
	"err_403_concurrent_limit.json":             {KindLimitConcurrent, 75, "at the moment"},
	"err_403_longtxn_limit.json":                {KindLimitConcurrent, 75, "at the moment"},
	"err_403_api_disabled.json":                 {KindPermission, 77, "API Enabled"},
	"err_403_forbidden_elf.json":                {KindPermission, 77, "View Event Log Files"},
	"err_404_not_found.json":                    {KindNotFound, 78, ""},
	"err_404_not_found_entity.json":             {KindNotFound, 78, ""},
	"err_500_unknown.json":                      {KindTransient, 75, ""},
	"err_503_server_unavailable.json":           {KindTransient, 75, ""},
	"err_414_uri_too_long.html":                 {KindQuery, 78, "too long"},
	"err_431_header_too_large.html":             {KindQuery, 78, "too long"},
	"maintenance_200.html":                      {KindNotJSON, 75, "maintenance"},
	"maintenance_503.html":                      {KindNotJSON, 75, "maintenance"},
	"err_200_xml.xml":                           {KindAuth, 77, ""},
	"err_400_malformed.json":                    {KindQuery, 70, ""},
	"err_400_malformed_datetime.json":           {KindQuery, 70, ""},
	"err_400_fields_limit.json":                 {KindQuery, 70, ""},
	"err_400_invalid_field.json":                {KindField, 78, "hourly log files are not licensed"},
	"err_400_invalid_field_filter.json":         {KindField, 78, "hidden"},
	"err_400_invalid_type.json":                 {KindType, 78, "no right to it"},
	"err_400_query_timeout.json":                {KindQueryTimeout, 75, ""},
	"err_400_locator.json":                      {KindLocator, 75, ""},
	"err_400_filter_operator.json":              {KindQuery, 70, ""},
	"err_400_bigobj_asc.json":                   {KindBigObject, 70, ""},
	"err_400_bigobj_count.json":                 {KindBigObject, 70, ""},
	"err_400_op_too_large.json":                 {KindQuery, 78, "ask for less"},
	"err_400_too_complicated.json":              {KindQuery, 78, "ask for less"},
}

func header(f sftest.Fixture) http.Header {
	h := http.Header{}
	for k, v := range f.Headers {
		h.Set(k, v)
	}
	return h
}

func TestFixtures(t *testing.T) {
	seen := 0
	for _, f := range sftest.Fixtures() {
		want, isError := fixtureVerdicts[f.File]
		if !isError {
			if f.Status != 200 {
				t.Errorf("%s: an error answer without a verdict", f.File)
			}
			continue
		}
		seen++
		e := classify("query", f.Status, header(f), f.Body)
		if strings.HasPrefix(f.File, "token_") {
			e = classifyLogin("log in", f.Status, header(f), f.Body)
		}
		if e.Kind != want.kind || e.exitCode() != want.exit || !strings.Contains(e.Cure, want.hint) || want.hint == "" && e.Cure != "" {
			t.Errorf("%s: %v (exit %d), hint %q; want %v (exit %d), hint with %q", f.File, e.Kind, e.exitCode(), e.Cure, want.kind, want.exit, want.hint)
		}
		if strings.ContainsAny(e.Error(), "\n\r") || strings.Contains(e.Error(), "</") {
			t.Errorf("%s: the message is no plain line: %q", f.File, e.Error())
		}
	}
	if seen != len(fixtureVerdicts) {
		t.Errorf("%d verdicts for %d fixtures", len(fixtureVerdicts), seen)
	}
}

func TestClassifyOtherAnswers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
		kind   Kind
		text   string
	}{
		{"query timeout with 500", 500, `[{"message":"too long","errorCode":"QUERY_TIMEOUT"}]`, KindQueryTimeout, "QUERY_TIMEOUT"},
		{"502 of a gateway", 502, "<html><body>Bad Gateway</body></html>", KindNotJSON, "Bad Gateway"},
		{"503 without a body", 503, "", KindTransient, "503 Service Unavailable"},
		{"429", 429, "", KindLimitConcurrent, "429"},
		{"408", 408, "", KindTimeout, "408"},
		{"401 without a body", 401, "", KindAuth, "401 Unauthorized"},
		{"403 page of a proxy", 403, "<html><h1>Blocked</h1></html>", KindPermission, "Blocked"},
		{"session in a 403", 403, `[{"message":"This session is not valid","errorCode":"INVALID_SESSION_ID"}]`, KindAuth, "INVALID_SESSION_ID"},
		{"404 page", 404, "<html>URL No Longer Exists</html>", KindNotFound, "URL No Longer Exists"},
		{"400 of no known code", 400, `[{"message":"x","errorCode":"NEW_CODE"}]`, KindOther, "NEW_CODE: x"},
		{"array of one with fields", 400, `[{"message":"bad","errorCode":"INVALID_FIELD","fields":["A"]}]`, KindField, "INVALID_FIELD: bad"},
		{"object", 400, `{"message":"bad","errorCode":"INVALID_FIELD"}`, KindField, "INVALID_FIELD: bad"},
		{"broken array", 400, `[{"message":`, KindOther, `[{"message":`},
		{"array of strings", 500, `["x"]`, KindTransient, `["x"]`},
		{"a BOM in front", 400, "\ufeff" + `[{"message":"bad","errorCode":"INVALID_FIELD"}]`, KindField, "bad"},
		{"a long text", 400, strings.Repeat("x", 5000), KindOther, "xxx..."},
		{"302", 302, "", KindConfig, "https://other.example"},
	} {
		h := http.Header{}
		if tt.status == 302 {
			h.Set("Location", "https://other.example/login?sid=secret")
		}
		e := classify("query", tt.status, h, []byte(tt.body))
		if e.Kind != tt.kind || !strings.Contains(e.Error(), tt.text) || strings.Contains(e.Error(), "sid=") || len(e.Error()) > 1000 {
			t.Errorf("%s: %v %q, want %v with %q", tt.name, e.Kind, e.Error(), tt.kind, tt.text)
		}
	}
}

func FuzzClassify(f *testing.F) {
	for _, fix := range sftest.Fixtures() {
		f.Add(fix.Status, string(fix.Body))
	}
	for _, text := range []string{`[{"errorCode":"%s","message":"%s"}]`, `{"error":"%s","error_description":"%s"}`, `<Errors><Error><errorCode>%s</errorCode></Error></Errors>`, "<p>%s", "%s", "a\x01\xff\u0085b"} {
		f.Add(400, strings.ReplaceAll(text, "%s", strings.Repeat("X", 5000)))
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		e := classify("query", status, nil, []byte(body))
		if len(e.Message) > maxMessage+3 || strings.ContainsAny(e.Message, "\n\r") {
			t.Errorf("message %q", e.Message)
		}
		if e.Kind.String() == "" {
			t.Error("a kind without a name")
		}
		errtest.OneLine(t, e)
		errtest.OneLine(t, classifyLogin("log in", status, nil, []byte(body)))
	})
}
