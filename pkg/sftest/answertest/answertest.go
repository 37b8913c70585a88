// Package answertest holds what a source makes of each answer of an org that
// is no good one: the status of the run, in every place where it can come.
package answertest

import (
	"maps"
	"strings"
	"testing"

	"sf2loki/pkg/sftest"
	"sf2loki/pkg/sysexits"
)

// Fate is the status of a run that meets an answer once, and of one that meets
// nothing else.
type Fate [2]sysexits.Code

// Fates are by the names of the stored answers.
type Fates map[string]Fate

const (
	ok       = sysexits.OK
	software = sysexits.Software
	tempFail = sysexits.TempFail
	noPerm   = sysexits.NoPerm
	config   = sysexits.Config
)

// With is f but for what other says.
func (f Fates) With(other Fates) Fates {
	all := maps.Clone(f)
	maps.Copy(all, other)
	return all
}

// Request is what becomes of a run that asks for something that cannot be asked
// for in another way.
func Request() Fates {
	return Fates{
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
		"err_400_locator.json":              {tempFail, tempFail},
		"err_400_filter_operator.json":      {software, software},
		"err_400_bigobj_asc.json":           {software, software},
		"err_400_bigobj_count.json":         {software, software},
		"err_400_op_too_large.json":         {config, config},
		"err_400_too_complicated.json":      {config, config},
	}
}

// Listing is what becomes of a run whose query is answered so: it may be asked
// again from its first page.
func Listing() Fates { return Request().With(Fates{"err_400_locator.json": {ok, tempFail}}) }

// Body is what becomes of a run whose download is answered so: what is gone is
// a gap.
func Body() Fates {
	return Request().With(Fates{
		"err_404_not_found.json":        {ok, ok},
		"err_404_not_found_entity.json": {ok, ok},
	})
}

// Login is what becomes of a run whose session has died and whose login is
// answered so.
func Login() Fates {
	return Fates{
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
}

// Place is where an answer comes: to requests that contain Match, and after a
// session that died at one that contains Session, if that is set.
type Place struct {
	Name, Match, Session string
	Fates                Fates
}

// Run is a run that meets a fault: Arm arranges it, and Want is its status.
type Run struct {
	Arm  func(org *sftest.Org)
	Want sysexits.Code
}

// Each calls test twice for each stored answer that is no good one, of logins
// where the place is one: the answer comes once, and always.
func (p Place) Each(t *testing.T, test func(t *testing.T, run Run)) {
	names := map[string]bool{}
	for _, f := range sftest.Fixtures() {
		bad := f.Status != 200 || strings.HasPrefix(f.File, "err_") || strings.HasPrefix(f.File, "maintenance_")
		if bad && (p.Session != "") == strings.HasPrefix(f.File, "token_") {
			names[f.File] = true
		}
	}
	for name := range p.Fates {
		if !names[name] {
			t.Errorf("%s: %s is no such answer", p.Name, name)
		}
	}
	for name := range names {
		fate, known := p.Fates[name]
		if !known {
			t.Errorf("%s: there is no outcome for %s", p.Name, name)
			continue
		}
		t.Run(p.Name+"/"+name+"/once", func(t *testing.T) { test(t, p.run(name, 1, fate[0])) })
		t.Run(p.Name+"/"+name+"/always", func(t *testing.T) { test(t, p.run(name, -1, fate[1])) })
	}
}

func (p Place) run(fixture string, times int, want sysexits.Code) Run {
	return Run{Want: want, Arm: func(org *sftest.Org) {
		fault := sftest.Fault{Fixture: fixture, Times: times}
		if p.Session != "" {
			org.Fault(p.Session, sftest.Fault{Fixture: "err_401_invalid_session.json"})
			fault.Skip = 1 // the first session is good
		}
		org.Fault(p.Match, fault)
	}}
}
