package eventlog

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sftest"
	"sf2loki/pkg/sysexits"
)

// fate is the status of a run that meets an answer once, and of one that
// meets nothing else.
type fate struct{ once, always sysexits.Code }

const (
	ok       = sysexits.OK
	software = sysexits.Software
	tempFail = sysexits.TempFail
	noPerm   = sysexits.NoPerm
	config   = sysexits.Config
)

// listings are what becomes of a run whose listing is answered so.
var listings = map[string]fate{
	"userinfo_403_bad_token.txt":        {ok, noPerm},
	"userinfo_403_missing_token.txt":    {ok, noPerm},
	"err_401_invalid_session.json":      {ok, noPerm},
	"err_401_bad_header.json":           {ok, noPerm},
	"err_403_request_limit.json":        {tempFail, tempFail},
	"err_403_concurrent_limit.json":     {ok, tempFail},
	"err_403_longtxn_limit.json":        {ok, tempFail},
	"err_403_api_disabled.json":         {noPerm, noPerm},
	"err_403_forbidden_elf.json":        {noPerm, noPerm},
	"err_404_not_found.json":            {config, config},
	"err_404_not_found_entity.json":     {config, config},
	"err_500_unknown.json":              {ok, tempFail},
	"err_503_server_unavailable.json":   {ok, tempFail},
	"err_414_uri_too_long.html":         {config, config},
	"err_431_header_too_large.html":     {config, config},
	"maintenance_200.html":              {ok, tempFail},
	"maintenance_503.html":              {ok, tempFail},
	"err_200_xml.xml":                   {ok, noPerm},
	"err_400_malformed.json":            {software, software},
	"err_400_malformed_datetime.json":   {software, software},
	"err_400_fields_limit.json":         {software, software},
	"err_400_invalid_field.json":        {config, config},
	"err_400_invalid_field_filter.json": {config, config},
	"err_400_invalid_type.json":         {config, config},
	"err_400_query_timeout.json":        {tempFail, tempFail},
	"err_400_locator.json":              {ok, tempFail},
	"err_400_filter_operator.json":      {software, software},
	"err_400_bigobj_asc.json":           {software, software},
	"err_400_bigobj_count.json":         {software, software},
	"err_400_op_too_large.json":         {config, config},
	"err_400_too_complicated.json":      {config, config},
}

// bodies are what becomes of a run whose download is answered so.
var bodies = map[string]fate{
	"userinfo_403_bad_token.txt":        {ok, noPerm},
	"userinfo_403_missing_token.txt":    {ok, noPerm},
	"err_401_invalid_session.json":      {ok, noPerm},
	"err_401_bad_header.json":           {ok, noPerm},
	"err_403_request_limit.json":        {tempFail, tempFail},
	"err_403_concurrent_limit.json":     {ok, tempFail},
	"err_403_longtxn_limit.json":        {ok, tempFail},
	"err_403_api_disabled.json":         {noPerm, noPerm},
	"err_403_forbidden_elf.json":        {noPerm, noPerm},
	"err_404_not_found.json":            {ok, ok},
	"err_404_not_found_entity.json":     {ok, ok},
	"err_500_unknown.json":              {ok, tempFail},
	"err_503_server_unavailable.json":   {ok, tempFail},
	"err_414_uri_too_long.html":         {config, config},
	"err_431_header_too_large.html":     {config, config},
	"maintenance_200.html":              {ok, tempFail},
	"maintenance_503.html":              {ok, tempFail},
	"err_200_xml.xml":                   {ok, noPerm},
	"err_400_malformed.json":            {software, software},
	"err_400_malformed_datetime.json":   {software, software},
	"err_400_fields_limit.json":         {software, software},
	"err_400_invalid_field.json":        {config, config},
	"err_400_invalid_field_filter.json": {config, config},
	"err_400_invalid_type.json":         {config, config},
	"err_400_query_timeout.json":        {tempFail, tempFail},
	"err_400_locator.json":              {tempFail, tempFail},
	"err_400_filter_operator.json":      {software, software},
	"err_400_bigobj_asc.json":           {software, software},
	"err_400_bigobj_count.json":         {software, software},
	"err_400_op_too_large.json":         {config, config},
	"err_400_too_complicated.json":      {config, config},
}

// logins are what becomes of a run whose session has died and whose login is
// answered so.
var logins = map[string]fate{
	"token_err_user_not_approved.json":          {noPerm, noPerm},
	"token_err_audience_invalid.json":           {config, config},
	"token_err_assertion_invalid.json":          {noPerm, noPerm},
	"token_err_assertion_expired.json":          {noPerm, noPerm},
	"token_err_no_user.json":                    {noPerm, noPerm},
	"token_err_auth_failure.json":               {noPerm, noPerm},
	"token_err_inactive_user.json":              {noPerm, noPerm},
	"token_err_inactive_org.json":               {noPerm, noPerm},
	"token_err_ip_restricted.json":              {noPerm, noPerm},
	"token_err_login_rate.json":                 {tempFail, tempFail},
	"token_err_no_client_credentials_user.json": {noPerm, noPerm},
	"token_err_wrong_domain.json":               {config, config},
	"token_err_client_id.json":                  {noPerm, noPerm},
	"token_err_client_secret.json":              {noPerm, noPerm},
	"token_err_app_access.json":                 {noPerm, noPerm},
	"token_err_refresh_scope.json":              {noPerm, noPerm},
	"token_err_unsupported_grant.json":          {config, config},
	"token_err_unknown_retry.json":              {ok, tempFail},
}

// errorFixtures are the names of all stored answers that are no good ones.
func errorFixtures(login bool) (list []string) {
	for _, f := range sftest.Fixtures() {
		bad := f.Status != 200 || strings.HasPrefix(f.File, "err_") || strings.HasPrefix(f.File, "maintenance_")
		if bad && login == strings.HasPrefix(f.File, "token_") {
			list = append(list, f.File)
		}
	}
	return list
}

// Every answer of an org that is no good one, in every place where it can come:
// the status of the run, and nothing is lost by it.
func TestErrorAnswers(t *testing.T) {
	for _, place := range []struct {
		match    string
		login    bool
		outcomes map[string]fate
	}{{"/query?", false, listings}, {"/LogFile", false, bodies}, {"/token", true, logins}} {
		fixtures := errorFixtures(place.login)
		for name := range place.outcomes {
			if !slices.Contains(fixtures, name) {
				t.Errorf("%s is no such answer", name)
			}
		}
		for _, fixture := range fixtures {
			want, known := place.outcomes[fixture]
			t.Run(place.match+"/"+fixture, func(t *testing.T) {
				if !known {
					t.Error("there is no outcome for it")
				}
				for times, code := range map[int]sysexits.Code{1: want.once, -1: want.always} {
					b := newBench(t)
					b.retry = salesforce.Retry{Attempts: 2, Min: time.Nanosecond, Max: time.Nanosecond}
					b.org.AddHour(login(10, 5))
					b.org.AddHour(login(11, 5))
					if place.login {
						b.org.Fault("/query?", sftest.Fault{Fixture: "err_401_invalid_session.json"})
					}
					skip := 0
					if place.login {
						skip = 1 // the first session is good
					}
					b.org.Fault(place.match, sftest.Fault{Fixture: fixture, Times: times, Skip: skip})
					err := b.pull("Login")
					if got := sysexits.Of(err); got != code {
						t.Errorf("%d times: %d, want %d: %v", times, got, code, err)
					}
					rows, gaps := len(b.rows()), len(b.gaps())
					b.org.ClearFaults()
					if err := b.pull("Login"); err != nil {
						t.Fatalf("the next run: %v", err)
					}
					if rows += len(b.rows()); rows != 10-5*(gaps+len(b.gaps())) {
						t.Errorf("%d times: %d rows and %d gaps in all", times, rows, gaps)
					}
				}
			})
		}
	}
}

// Answers that are none of Salesforce's are waited out, and nothing is lost.
func TestOddAnswers(t *testing.T) {
	record := func(text string) string { return `{"totalSize":1,"done":true,"records":[` + text + `]}` }
	for _, odd := range []struct{ match, body string }{
		{"/describe", `[]`},
		{"/describe", `{"fields":[{"name":1}]}`},
		{"/query?", `{"totalSize":"x","done":"yes","records":{}}`},
		{"/query?", record(`null`)},
		{"/query?", record(`{"Id":null}`)},
		{"/query?", record(`{"Id":7}`)},
		{"/query?", record(`{"Id":"0ATxx0000000001AAA","CreatedDate":"yesterday"}`)},
		{"/query", `{"totalSize":1,"done":false,"nextRecordsUrl":"/services/data/v62.0/query/01gB","records":[]}`},
	} {
		b := newBench(t)
		b.retry = salesforce.Retry{Attempts: 2, Min: time.Nanosecond, Max: time.Nanosecond}
		b.org.AddHour(login(10, 5))
		b.org.Fault(odd.match, sftest.Fault{Status: 200, Body: odd.body, Times: -1})
		if err := b.pull("Login"); sysexits.Of(err) != tempFail || strings.Contains(err.Error(), "struct {") {
			t.Errorf("%s: %d: %v", odd.body, sysexits.Of(err), err)
		}
		if len(b.rows()) != 0 {
			t.Errorf("%s: %d rows", odd.body, len(b.rows()))
		}
		b.org.ClearFaults()
		if err := b.pull("Login"); err != nil || len(b.rows()) != 5 {
			t.Errorf("%s: then %d rows, %v", odd.body, len(b.rows()), err)
		}
	}
}
