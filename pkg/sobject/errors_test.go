package sobject

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

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

// queries are what becomes of a run whose query for rows is answered so.
var queries = map[string]fate{
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
	"err_414_uri_too_long.html":         {ok, ok},
	"err_431_header_too_large.html":     {ok, ok},
	"maintenance_200.html":              {ok, tempFail},
	"maintenance_503.html":              {ok, tempFail},
	"err_200_xml.xml":                   {ok, noPerm},
	"err_400_malformed.json":            {ok, ok},
	"err_400_malformed_datetime.json":   {ok, ok},
	"err_400_fields_limit.json":         {ok, ok},
	"err_400_invalid_field.json":        {ok, config},
	"err_400_invalid_field_filter.json": {ok, config},
	"err_400_invalid_type.json":         {config, config},
	"err_400_query_timeout.json":        {ok, tempFail},
	"err_400_locator.json":              {ok, tempFail},
	"err_400_filter_operator.json":      {ok, ok},
	"err_400_bigobj_asc.json":           {tempFail, tempFail},
	"err_400_bigobj_count.json":         {tempFail, tempFail},
	"err_400_op_too_large.json":         {ok, ok},
	"err_400_too_complicated.json":      {ok, ok},
}

// pages are what becomes of a run whose next page of an answer is answered so.
var pages = map[string]fate{
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
	"err_414_uri_too_long.html":         {ok, ok},
	"err_431_header_too_large.html":     {ok, ok},
	"maintenance_200.html":              {ok, tempFail},
	"maintenance_503.html":              {ok, tempFail},
	"err_200_xml.xml":                   {ok, noPerm},
	"err_400_malformed.json":            {ok, ok},
	"err_400_malformed_datetime.json":   {ok, ok},
	"err_400_fields_limit.json":         {ok, ok},
	"err_400_invalid_field.json":        {ok, ok},
	"err_400_invalid_field_filter.json": {ok, ok},
	"err_400_invalid_type.json":         {config, config},
	"err_400_query_timeout.json":        {ok, ok},
	"err_400_locator.json":              {ok, ok},
	"err_400_filter_operator.json":      {ok, ok},
	"err_400_bigobj_asc.json":           {tempFail, tempFail},
	"err_400_bigobj_count.json":         {tempFail, tempFail},
	"err_400_op_too_large.json":         {ok, ok},
	"err_400_too_complicated.json":      {ok, ok},
}

// looks are what becomes of a run whose first query, for a single row, is answered so.
var looks = map[string]fate{
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
	"err_414_uri_too_long.html":         {ok, config},
	"err_431_header_too_large.html":     {ok, config},
	"maintenance_200.html":              {ok, tempFail},
	"maintenance_503.html":              {ok, tempFail},
	"err_200_xml.xml":                   {ok, noPerm},
	"err_400_malformed.json":            {ok, config},
	"err_400_malformed_datetime.json":   {ok, config},
	"err_400_fields_limit.json":         {ok, config},
	"err_400_invalid_field.json":        {config, config},
	"err_400_invalid_field_filter.json": {config, config},
	"err_400_invalid_type.json":         {config, config},
	"err_400_query_timeout.json":        {ok, ok},
	"err_400_locator.json":              {tempFail, tempFail},
	"err_400_filter_operator.json":      {ok, config},
	"err_400_bigobj_asc.json":           {ok, ok},
	"err_400_bigobj_count.json":         {ok, ok},
	"err_400_op_too_large.json":         {ok, config},
	"err_400_too_complicated.json":      {ok, config},
}

// bigQueries are what becomes of a run whose query for rows of a Big Object is answered so.
var bigQueries = map[string]fate{
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
	"err_414_uri_too_long.html":         {ok, config},
	"err_431_header_too_large.html":     {ok, config},
	"maintenance_200.html":              {ok, tempFail},
	"maintenance_503.html":              {ok, tempFail},
	"err_200_xml.xml":                   {ok, noPerm},
	"err_400_malformed.json":            {ok, software},
	"err_400_malformed_datetime.json":   {ok, software},
	"err_400_fields_limit.json":         {ok, software},
	"err_400_invalid_field.json":        {ok, config},
	"err_400_invalid_field_filter.json": {ok, config},
	"err_400_invalid_type.json":         {config, config},
	"err_400_query_timeout.json":        {ok, tempFail},
	"err_400_locator.json":              {ok, tempFail},
	"err_400_filter_operator.json":      {ok, software},
	"err_400_bigobj_asc.json":           {software, software},
	"err_400_bigobj_count.json":         {software, software},
	"err_400_op_too_large.json":         {ok, config},
	"err_400_too_complicated.json":      {ok, config},
}

// describes are what becomes of a run whose object is described so.
var describes = map[string]fate{
	"userinfo_403_bad_token.txt":        {ok, noPerm},
	"userinfo_403_missing_token.txt":    {ok, noPerm},
	"err_401_invalid_session.json":      {ok, noPerm},
	"err_401_bad_header.json":           {ok, noPerm},
	"err_403_request_limit.json":        {tempFail, tempFail},
	"err_403_concurrent_limit.json":     {ok, tempFail},
	"err_403_longtxn_limit.json":        {ok, tempFail},
	"err_403_api_disabled.json":         {ok, ok},
	"err_403_forbidden_elf.json":        {ok, ok},
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

// newSessions are what becomes of a run whose session has died and whose login
// is answered so.
var newSessions = map[string]fate{
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

// identities are the origins of rows. A row of what was taken for a Big Object
// may have none; then its Id is.
func identities(t *testing.T, lines []line) (list []string) {
	for _, l := range lines {
		var row struct{ ID string }
		if err := json.Unmarshal([]byte(l.Line), &row); err != nil {
			t.Fatal(err)
		}
		list = append(list, cmp.Or(l.Origin, row.ID))
	}
	return list
}

// Every answer of an org that is no good one, in every place where it can come:
// the status of the run, and nothing is lost by it.
func TestErrorAnswers(t *testing.T) {
	type place struct {
		name, object, match string
		login               bool
		outcomes            map[string]fate
	}
	const logins, events = "LoginHistory", "LoginEvent"
	for _, place := range []place{
		{"rows", logins, "LIMIT 2000", false, queries},
		{"next page", logins, "/query/01g", false, pages},
		{"first look", logins, "LIMIT 1", false, looks},
		{"rows of a Big Object", events, "EventDate DESC", false, bigQueries},
		{"describe", logins, "/describe", false, describes},
		{"token", logins, "/token", true, newSessions},
	} {
		fixtures := errorFixtures(place.login)
		for name := range place.outcomes {
			if !slices.Contains(fixtures, name) {
				t.Errorf("%s is no such answer", name)
			}
		}
		for _, fixture := range fixtures {
			want, known := place.outcomes[fixture]
			t.Run(place.name+"/"+fixture, func(t *testing.T) {
				if !known {
					t.Error("there is no outcome for it")
				}
				for times, code := range map[int]sysexits.Code{1: want.once, -1: want.always} {
					b := newBench(t, func(c *sftest.Config) { c.PageSize = 200 })
					b.tries = 2
					var ids []string
					if place.object == logins {
						ids = b.logins(210, b.ago(time.Hour), time.Second)
					} else {
						ids = b.events(10, 0, false, b.ago(time.Hour), time.Second)
					}
					skip := 0
					if place.login {
						b.org.Fault("LIMIT 2000", sftest.Fault{Fixture: "err_401_invalid_session.json"})
						skip = 1 // the first session is good
					}
					b.org.Fault(place.match, sftest.Fault{Fixture: fixture, Times: times, Skip: skip})
					lines, err := b.pull(place.object)
					if got := sysexits.Of(err); got != code {
						t.Errorf("%d times: %d, want %d: %v", times, got, code, err)
					}
					if len(b.org.Requests(place.match)) == 0 {
						t.Fatal("nobody asked")
					}
					got := identities(t, entries(lines))
					b.org.ClearFaults()
					if err == nil {
						sameSet(t, got, ids)
						continue
					}
					b.config = func(c *Config) { c.Overlap = 0 }
					sameSet(t, append(got, identities(t, b.must(place.object))...), ids)
				}
			})
		}
	}
}
