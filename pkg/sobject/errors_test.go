package sobject

import (
	"cmp"
	"encoding/json"
	"testing"
	"time"

	"sf2loki/pkg/sftest"
	"sf2loki/pkg/sftest/answertest"
	"sf2loki/pkg/sysexits"
)

const (
	ok       = sysexits.OK
	software = sysexits.Software
	tempFail = sysexits.TempFail
	config   = sysexits.Config
)

// queries are what becomes of a run whose query for rows is answered so: there
// are other ways to ask for most.
var queries = answertest.Request().With(answertest.Fates{
	"err_414_uri_too_long.html":         {ok, ok},
	"err_431_header_too_large.html":     {ok, ok},
	"err_400_malformed.json":            {ok, ok},
	"err_400_malformed_datetime.json":   {ok, ok},
	"err_400_fields_limit.json":         {ok, ok},
	"err_400_invalid_field.json":        {ok, config},
	"err_400_invalid_field_filter.json": {ok, config},
	"err_400_query_timeout.json":        {ok, tempFail},
	"err_400_locator.json":              {ok, tempFail},
	"err_400_filter_operator.json":      {ok, ok},
	"err_400_bigobj_asc.json":           {tempFail, tempFail},
	"err_400_bigobj_count.json":         {tempFail, tempFail},
	"err_400_op_too_large.json":         {ok, ok},
	"err_400_too_complicated.json":      {ok, ok},
})

// pages are what becomes of a run whose next page of an answer is answered so.
var pages = answertest.Request().With(answertest.Fates{
	"err_404_not_found.json":            {ok, ok},
	"err_404_not_found_entity.json":     {ok, ok},
	"err_414_uri_too_long.html":         {ok, ok},
	"err_431_header_too_large.html":     {ok, ok},
	"err_400_malformed.json":            {ok, ok},
	"err_400_malformed_datetime.json":   {ok, ok},
	"err_400_fields_limit.json":         {ok, ok},
	"err_400_invalid_field.json":        {ok, ok},
	"err_400_invalid_field_filter.json": {ok, ok},
	"err_400_query_timeout.json":        {ok, ok},
	"err_400_locator.json":              {ok, ok},
	"err_400_filter_operator.json":      {ok, ok},
	"err_400_bigobj_asc.json":           {tempFail, tempFail},
	"err_400_bigobj_count.json":         {tempFail, tempFail},
	"err_400_op_too_large.json":         {ok, ok},
	"err_400_too_complicated.json":      {ok, ok},
})

// looks are what becomes of a run whose first query, for a single row, is answered so.
var looks = answertest.Request().With(answertest.Fates{
	"err_414_uri_too_long.html":       {ok, config},
	"err_431_header_too_large.html":   {ok, config},
	"err_400_malformed.json":          {ok, config},
	"err_400_malformed_datetime.json": {ok, config},
	"err_400_fields_limit.json":       {ok, config},
	"err_400_query_timeout.json":      {ok, ok},
	"err_400_filter_operator.json":    {ok, config},
	"err_400_bigobj_asc.json":         {ok, ok},
	"err_400_bigobj_count.json":       {ok, ok},
	"err_400_op_too_large.json":       {ok, config},
	"err_400_too_complicated.json":    {ok, config},
})

// bigQueries are what becomes of a run whose query for rows of a Big Object is answered so.
var bigQueries = answertest.Request().With(answertest.Fates{
	"err_414_uri_too_long.html":         {ok, config},
	"err_431_header_too_large.html":     {ok, config},
	"err_400_malformed.json":            {ok, software},
	"err_400_malformed_datetime.json":   {ok, software},
	"err_400_fields_limit.json":         {ok, software},
	"err_400_invalid_field.json":        {ok, config},
	"err_400_invalid_field_filter.json": {ok, config},
	"err_400_query_timeout.json":        {ok, tempFail},
	"err_400_locator.json":              {ok, tempFail},
	"err_400_filter_operator.json":      {ok, software},
	"err_400_op_too_large.json":         {ok, config},
	"err_400_too_complicated.json":      {ok, config},
})

// describes are what becomes of a run whose object is described so.
var describes = answertest.Request().With(answertest.Fates{
	"err_403_api_disabled.json":  {ok, ok},
	"err_403_forbidden_elf.json": {ok, ok},
})

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
	const logins, events = "LoginHistory", "LoginEvent"
	for _, place := range []struct {
		object string
		answertest.Place
	}{
		{logins, answertest.Place{Name: "rows", Match: "LIMIT 2000", Fates: queries}},
		{logins, answertest.Place{Name: "next page", Match: "/query/01g", Fates: pages}},
		{logins, answertest.Place{Name: "first look", Match: "LIMIT 1", Fates: looks}},
		{events, answertest.Place{Name: "rows of a Big Object", Match: "EventDate DESC", Fates: bigQueries}},
		{logins, answertest.Place{Name: "describe", Match: "/describe", Fates: describes}},
		{logins, answertest.Place{Name: "login", Match: "/token", Session: "LIMIT 2000", Fates: answertest.Login()}},
	} {
		place.Each(t, func(t *testing.T, run answertest.Run) {
			b := newBench(t, func(c *sftest.Config) { c.PageSize = 200 })
			b.tries = 2
			var ids []string
			if place.object == logins {
				ids = b.logins(210, b.ago(time.Hour), time.Second)
			} else {
				ids = b.events(10, 0, false, b.ago(time.Hour), time.Second)
			}
			run.Arm(b.org)
			lines, err := b.pull(place.object)
			if got := sysexits.Of(err); got != run.Want {
				t.Errorf("%d, want %d: %v", got, run.Want, err)
			}
			if len(b.org.Requests(place.Match)) == 0 {
				t.Fatal("nobody asked")
			}
			got := identities(t, entries(lines))
			b.org.ClearFaults()
			if err == nil {
				sameSet(t, got, ids)
				return
			}
			b.config = func(c *Config) { c.Overlap = 0 }
			sameSet(t, append(got, identities(t, b.must(place.object))...), ids)
		})
	}
}
