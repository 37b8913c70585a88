package sobject

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/sftest"
	"sf2loki/pkg/sftest/soql"
	"sf2loki/pkg/sysexits"
)

func TestRow(t *testing.T) {
	b := newBench(t)
	ids := b.org.Insert("LoginHistory", sftest.Row{"UserId": "005xx000001Sv6AAAS", "LoginTime": b.ago(time.Hour), "Status": "Invalid Password", "Note": "caf\u00e9 \"x\" <&>\u2028"})
	got := b.must("LoginHistory")
	if len(got) != 1 {
		t.Fatalf("%d rows\n%s", len(got), b.log.String())
	}
	want := `{"Id":"` + ids[0] + `","UserId":"005xx000001Sv6AAAS","LoginTime":"2026-07-03T11:00:00.000+0000","Status":"Invalid Password","Note":"café \"x\" <&>` + "\u2028" + `","CreatedDate":null}`
	if got[0].Line != want {
		t.Errorf("the line is\n%s, want\n%s", got[0].Line, want)
	}
	if got[0].TS != "2026-07-03T11:00:00.000000000Z" || got[0].Origin != ids[0] || got[0].Key != "eventlog_objects:LoginHistory" {
		t.Errorf("the record is %+v", got[0])
	}
	if fmt.Sprint(got[0].Labels) != "map[event_type:LoginHistory source:eventlog_objects]" || fmt.Sprint(got[0].Metadata) != "map[UserId:005xx000001Sv6AAAS level:warn]" {
		t.Errorf("labels %v, metadata %v", got[0].Labels, got[0].Metadata)
	}
	if v := got[0].Value; v != `{"v":1,"org":"`+b.org.ID+`","ts":"2026-07-03T11:00:00.000Z","id":"`+ids[0]+`"}` {
		t.Errorf("the token is %s", v)
	}
}

func TestTies(t *testing.T) { // #38, peers 3 9 13
	for _, all := range []bool{false, true} {
		t.Run(fmt.Sprintf("FIELDS(ALL)=%t", all), func(t *testing.T) {
			b := newBench(t)
			if all {
				b.org.Fault("/describe", sftest.Fault{Fixture: "err_403_api_disabled.json", Times: -1})
			}
			at := b.ago(time.Hour)
			ids := append(b.logins(450, at, 0), b.logins(10, at.Add(time.Second), time.Second)...)
			got := b.must("LoginHistory:LoginTime")
			sameSet(t, origins(got), ids)
			inOrder(t, got)
			if all && len(b.queries("(LoginTime > ")) != 2 {
				t.Errorf("queries are %q", b.queries("LoginHistory"))
			}
			for _, q := range b.queries("(LoginTime > ") {
				if !strings.Contains(q, " AND Id > '") || !strings.Contains(q, "ORDER BY LoginTime ASC, Id ASC") {
					t.Errorf("query is %s", q)
				}
			}
		})
	}
}

func TestIdlePolls(t *testing.T) { // #127 #34, peers 1
	b := newBench(t)
	b.logins(800, b.ago(time.Hour), 0)
	s := b.open("LoginHistory")
	if got := b.mustCycle(s); len(got) != 800 {
		t.Fatalf("%d rows", len(got))
	}
	for range 5 {
		b.advance(5 * time.Minute)
		if got := b.mustCycle(s); len(got) != 0 {
			t.Fatalf("%d rows again", len(got))
		}
	}
	if c := s.Stats().Totals().Types[0]; c.SkippedDuplicate == 0 {
		t.Error("the overlap has not been read again")
	}
}

func TestLateRows(t *testing.T) { // #87, peers 6 15
	for _, skew := range []time.Duration{0, 10 * time.Minute, -10 * time.Minute} {
		t.Run(skew.String(), func(t *testing.T) {
			b := newBench(t)
			b.org.SetSkew(skew)
			s := b.open("LoginHistory")
			var want []string
			got := origins(b.mustCycle(s))
			for i := range 24 {
				at := b.org.Now()
				// Some are visible at once, some within the settle margin, some within
				// the overlap, and some so late that it takes both to see them.
				for j, late := range []time.Duration{0, 4 * time.Minute, 9 * time.Minute, 14*time.Minute + 30*time.Second} {
					want = append(want, b.org.Insert("LoginHistory", sftest.Row{
						"UserId": fmt.Sprint(i, j), "LoginTime": at.Add(time.Duration(j) * time.Millisecond), sftest.VisibleAt: at.Add(late)})...)
				}
				b.advance(2 * time.Minute)
				if i%2 == 1 {
					got = append(got, origins(b.mustCycle(s))...)
				}
			}
			for range 6 {
				b.advance(5 * time.Minute)
				got = append(got, origins(b.mustCycle(s))...)
			}
			sameSet(t, got, want)
		})
	}
}

func TestBound(t *testing.T) { // #87: one bound for a cycle; 0 disables the margin
	b := newBench(t)
	b.config = func(c *Config) { c.Settle = 0 }
	b.org.Fault("/describe", sftest.Fault{Fixture: "err_403_api_disabled.json"})
	b.logins(450, b.ago(10*time.Minute), time.Millisecond)
	ids := b.logins(1, b.ago(3*time.Second), 0)
	b.api = func(a API) API { return &ticking{API: a, b: b} }
	got := b.must("LoginHistory")
	if len(got) != 451 || got[450].Origin != ids[0] {
		t.Errorf("%d rows", len(got))
	}
	bounds := map[string]bool{}
	for _, q := range b.queries("ORDER BY LoginTime")[1:] {
		_, after, _ := strings.Cut(q, "AND LoginTime < ")
		bounds[strings.Fields(after)[0]] = true
	}
	if len(bounds) != 1 {
		t.Errorf("bounds are %v", bounds)
	}
}

// ticking is an API whose clock goes on between requests.
type ticking struct {
	API
	b *bench
}

func (k *ticking) Now() time.Time {
	k.b.advance(time.Second)
	return k.API.Now()
}

func TestNoTime(t *testing.T) { // C14 C7 #20
	b := newBench(t)
	ids := b.logins(3, b.ago(time.Hour), time.Minute)
	b.api = func(a API) API {
		return &edit{API: a, change: map[string]string{ids[1]: `"LoginTime":null`, ids[2]: `"LoginTime":"None"`}}
	}
	s := b.open("LoginHistory")
	lines, err := b.cycle(s)
	if err != nil {
		t.Fatal(err)
	}
	got := entries(lines)
	if len(got) != 3 {
		t.Fatalf("%d rows", len(got))
	}
	for _, l := range got[1:] {
		if l.TS != got[0].TS || l.Value != got[0].Value {
			t.Errorf("a row without a time: %+v", l)
		}
	}
	if again := b.mustCycle(s); len(again) != 0 {
		t.Errorf("%d rows again", len(again))
	}
	if c := s.Stats().Totals().Types[0]; c.Fallbacks != 2 {
		t.Errorf("%d fallbacks", c.Fallbacks)
	}
}

func TestNoProgress(t *testing.T) { // peers 9: no progress is an error
	b := newBench(t)
	b.org.Fault("/describe", sftest.Fault{Fixture: "err_403_api_disabled.json"})
	ids := b.logins(300, b.ago(time.Hour), 0)
	change := map[string]string{}
	for _, id := range ids {
		change[id] = `"LoginTime":null`
	}
	b.api = func(a API) API { return &edit{API: a, change: change} }
	_, err := b.pull("LoginHistory")
	if sysexits.Of(err) != sysexits.TempFail || b.last.Stats().Totals().Stalls["LoginHistory"] != 1 {
		t.Errorf("%v, stalls %v", err, b.last.Stats().Totals().Stalls)
	}
}

func TestObjectsOwnFields(t *testing.T) { // C7
	b := newBench(t)
	at := b.ago(time.Hour)
	b.org.Insert("LoginHistory", sftest.Row{"LoginTime": at, "CreatedDate": at.Add(-9 * time.Hour)})
	b.org.Insert("RestApiEventLog", sftest.Row{"Timestamp": at.Add(time.Millisecond)})
	b.org.Insert("SetupAuditTrail", sftest.Row{"CreatedDate": at.Add(2 * time.Millisecond)})
	got := map[string]string{}
	for _, l := range b.must("LoginHistory", "RestApiEventLog", "SetupAuditTrail") {
		got[l.Labels["event_type"]] = l.TS
	}
	for object, want := range map[string]string{"LoginHistory": "11:00:00.000", "RestApiEventLog": "11:00:00.001", "SetupAuditTrail": "11:00:00.002"} {
		if !strings.Contains(got[object], want) {
			t.Errorf("%s is of %s, want %s", object, got[object], want)
		}
	}
}

func TestQueryTimeout(t *testing.T) { // peers 4 25
	b := newBench(t)
	ids := b.logins(500, b.ago(20*time.Hour), 2*time.Minute)
	b.org.Fault("LIMIT 2000", sftest.Fault{Fixture: "err_400_query_timeout.json", Times: 3})
	sameSet(t, origins(b.must("LoginHistory")), ids)
	if n := b.last.Stats().Totals().PollErrors["LoginHistory"]; n != 3 {
		t.Errorf("%d errors counted", n)
	}
	b.doc = map[string]string{}
	b.org.Fault("LIMIT 2000", sftest.Fault{Fixture: "err_400_query_timeout.json", Times: -1})
	before := len(b.queries("LIMIT 2000"))
	lines, err := b.pull("LoginHistory")
	if sysexits.Of(err) != sysexits.TempFail || len(entries(lines)) != 0 {
		t.Errorf("%d rows, %v", len(lines), err)
	}
	if n := len(b.queries("LIMIT 2000")) - before; n < 10 || n > 25 { // a day down to a second
		t.Errorf("%d queries down to the floor", n)
	}
}

func TestLocatorExpires(t *testing.T) {
	b := newBench(t, func(c *sftest.Config) { c.PageSize = 200 })
	ids := b.logins(1000, b.ago(20*time.Hour), time.Minute)
	b.org.Fault("/query/01g", sftest.Fault{Fixture: "err_400_locator.json", Times: 2, Skip: 1})
	got := b.must("LoginHistory")
	sameSet(t, origins(got), ids)
	b.doc = map[string]string{}
	b.org.Fault("/query/01g", sftest.Fault{Fixture: "err_400_locator.json", Times: -1})
	sameSet(t, origins(b.must("LoginHistory")), ids)
}

func TestRefusedAtStart(t *testing.T) { // 78 before the first record
	for _, tt := range []struct{ object, text string }{
		{"NoSuchObject", "NoSuchObject"},
		{"LoginHistory:NoSuchField", "NoSuchField"},
		{"LoginHistory:Status", "no field Status that holds a time"},
		{"LoginEventStream", "LoginEventStream"},
		{"Concealed", "Concealed"},
	} {
		t.Run(tt.object, func(t *testing.T) {
			b := newBench(t)
			b.org.Define(sftest.Table{Object: soql.Object{Name: "Concealed"}, Hidden: true})
			b.logins(3, b.ago(time.Hour), 0)
			lines, err := b.pull("LoginHistory", tt.object)
			if sysexits.Of(err) != sysexits.Config || len(lines) != 0 || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%d lines, %v", len(lines), err)
			}
		})
	}
	for fixture, code := range map[string]sysexits.Code{"err_400_invalid_field.json": sysexits.Config, "err_400_invalid_type.json": sysexits.Config,
		"err_403_api_disabled.json": sysexits.NoPerm, "err_400_malformed.json": sysexits.Config} {
		b := newBench(t)
		b.logins(3, b.ago(time.Hour), 0)
		b.org.Fault("SetupAuditTrail WHERE", sftest.Fault{Fixture: fixture, Times: -1})
		lines, err := b.pull("LoginHistory", "SetupAuditTrail")
		if sysexits.Of(err) != code || len(lines) != 0 {
			t.Errorf("%s: %d lines, %v", fixture, len(lines), err)
		}
	}
}

func TestFieldLists(t *testing.T) { // peers 10 29
	for _, tt := range []struct {
		fields, width int
		list          string
		limit         string
	}{
		{0, 0, "FIELDS(STANDARD)", "2000"},
		{20, 10, "Id, CreatedDate, F000", "2000"},
		{300, 30, "FIELDS(ALL)", "200"},
	} {
		t.Run(tt.list, func(t *testing.T) {
			b := newBench(t)
			fields := []soql.Field{{Name: "Id", Type: soql.ID}, {Name: "CreatedDate", Type: soql.Time}}
			for i := range tt.fields {
				fields = append(fields, soql.Field{Name: fmt.Sprintf("F%03d%s__c", i, strings.Repeat("x", tt.width))})
			}
			b.org.Define(sftest.Table{Object: soql.Object{Name: "Wide__c", Fields: fields}, KeyPrefix: "a01"})
			rows := make([]sftest.Row, 210)
			for i := range rows {
				rows[i] = sftest.Row{"CreatedDate": b.ago(time.Hour)}
			}
			ids := b.org.Insert("Wide__c", rows...)
			got := b.must("Wide__c")
			sameSet(t, origins(got), ids)
			if n := strings.Count(got[0].Line, `":`); n != tt.fields+2 {
				t.Errorf("%d fields in the line", n)
			}
			last := b.queries("LIMIT " + tt.limit)
			if len(last) == 0 || !strings.HasPrefix(last[len(last)-1], "q=SELECT "+tt.list) {
				t.Errorf("queries are %.200q", b.queries("Wide"))
			}
		})
	}
}

func TestFieldsRefused(t *testing.T) { // FIELDS() will not do: a list will
	b := newBench(t)
	ids := b.logins(5, b.ago(time.Hour), 0)
	b.org.Fault("FIELDS(", sftest.Fault{Fixture: "err_400_malformed.json", Times: -1})
	sameSet(t, origins(b.must("LoginHistory")), ids)
}

func TestFieldGoes(t *testing.T) { // peers 10: a schema that changes resets nothing
	b := newBench(t)
	table := sftest.Table{Object: soql.Object{Name: "Thing__c", Fields: []soql.Field{{Name: "Id", Type: soql.ID}, {Name: "CreatedDate", Type: soql.Time}, {Name: "A__c"}, {Name: "B__c"}}}, KeyPrefix: "a01"}
	b.org.Define(table)
	ids := b.org.Insert("Thing__c", sftest.Row{"CreatedDate": b.ago(time.Hour)})
	s := b.open("Thing__c")
	got := origins(b.mustCycle(s))
	table.Fields = table.Fields[:3]
	b.org.Define(table)
	ids = append(ids, b.org.Insert("Thing__c", sftest.Row{"CreatedDate": b.ago(10 * time.Minute)})...)
	got = append(got, origins(b.mustCycle(s))...)
	sameSet(t, got, ids)
	table.Fields = append(table.Fields, soql.Field{Name: "C__c"})
	b.org.Define(table)
	b.advance(2 * time.Hour)
	ids = append(ids, b.org.Insert("Thing__c", sftest.Row{"CreatedDate": b.ago(time.Hour), "C__c": "new"})...)
	lines := b.mustCycle(s)
	sameSet(t, append(got, origins(lines)...), ids)
	if !strings.Contains(lines[0].Line, `"C__c":"new"`) {
		t.Errorf("the line is %s", lines[0].Line)
	}
}

func TestRowsThatChange(t *testing.T) { // peers 8
	b := newBench(t)
	b.org.Define(sftest.Table{Object: soql.Object{Name: "Account", Fields: []soql.Field{{Name: "Id", Type: soql.ID}, {Name: "Name"}, {Name: "SystemModstamp", Type: soql.Time}}}, KeyPrefix: "001"})
	id := b.org.Insert("Account", sftest.Row{"Name": "a", "SystemModstamp": b.ago(20 * time.Minute)})[0]
	s := b.open("Account:SystemModstamp")
	b.mustCycle(s)
	b.org.Update("Account", id, sftest.Row{"Name": "b", "SystemModstamp": b.ago(15 * time.Minute)})
	got := b.mustCycle(s)
	if len(got) != 1 || !strings.Contains(got[0].Line, `"Name":"b"`) {
		t.Errorf("rows are %+v", got)
	}
}

func TestRecords(t *testing.T) { // #94
	for _, body := range []string{"<html>maintenance</html>", "", "[]", `{"totalSize":1,"done":tr`, `{"totalSize":1,"done":true,"records":[{"attributes":{}}]}`, `{"totalSize":1,"done":true,"records":["x"]}`} {
		b := newBench(t)
		ids := b.logins(3, b.ago(time.Hour), 0)
		s := b.open("LoginHistory")
		b.org.Fault("LIMIT 2000", sftest.Fault{Status: 200, Body: body + " ", Times: 1})
		lines, err := b.cycle(s)
		if err == nil || len(entries(lines)) != 0 || s.Stats().Totals().PollErrors["LoginHistory"] != 1 {
			t.Errorf("%q: %d rows, %v, %v", body, len(lines), err, s.Stats().Totals().PollErrors)
		}
		if got := b.mustCycle(s); !slices.Equal(origins(got), ids) {
			t.Errorf("%q: then %d rows", body, len(got))
		}
	}
}

func TestLouder(t *testing.T) { // #19 #139
	for _, object := range []string{"LoginHistory", "LoginEvent"} {
		b := newBench(t)
		s := b.open(object)
		b.org.Fault("LIMIT 2000", sftest.Fault{Fixture: "err_500_unknown.json", Times: 3})
		for range 3 {
			if _, err := b.cycle(s); err == nil {
				t.Error("no error")
			}
		}
		b.mustCycle(s)
		if n := s.Stats().Totals().PollErrors[object]; n != 3 {
			t.Errorf("%d errors counted", n)
		}
		if warn, loud := strings.Count(b.log.String(), "level=WARN msg=\"object waits"), strings.Count(b.log.String(), "level=ERROR msg=\"object waits"); warn != 2 || loud != 1 {
			t.Errorf("%d warnings, %d errors", warn, loud)
		}
	}
}

func TestThrottled(t *testing.T) {
	for _, fixture := range []string{"err_403_request_limit.json", "err_403_concurrent_limit.json"} {
		b := newBench(t)
		b.config = func(c *Config) { c.Concurrency = 1 }
		b.logins(3, b.ago(time.Hour), 0)
		b.org.Fault("LIMIT 2000", sftest.Fault{Fixture: fixture})
		lines, err := b.pull("LoginHistory", "SetupAuditTrail")
		if sysexits.Of(err) != sysexits.TempFail || len(lines) != 0 {
			t.Errorf("%d lines, %v", len(lines), err)
		}
		if n := len(b.queries("SetupAuditTrail WHERE")); n != 1 { // the probe
			t.Errorf("%d queries of the other object", n)
		}
	}
}

func TestOneRefusedLater(t *testing.T) { // peers 46: the others go on
	b := newBench(t)
	s := b.open("LoginHistory", "SetupAuditTrail")
	b.mustCycle(s)
	ids := b.logins(3, b.ago(time.Hour), 0)
	b.org.Fault("SetupAuditTrail", sftest.Fault{Fixture: "err_400_invalid_type.json", Times: -1})
	lines, err := b.cycle(s)
	if sysexits.Of(err) != sysexits.Config || !slices.Equal(origins(entries(lines)), ids) {
		t.Errorf("%d rows, %v", len(entries(lines)), err)
	}
	if s.allRefused() {
		t.Error("all are refused")
	}
}

// An answer that holds fewer rows than it tells of is no end of the rows; one
// that tells of those beyond its LIMIT is in order.
func TestShortAnswers(t *testing.T) { // peers 7
	for _, short := range []int{1, 30, -100} {
		b := newBench(t)
		ids := b.logins(50, b.ago(time.Hour), time.Second)
		b.org.Fault("ORDER BY LoginTime ASC", sftest.Fault{Short: short, Skip: 1})
		got := b.must("LoginHistory")
		sameSet(t, origins(got), ids)
		inOrder(t, got)
	}
	b := newBench(t)
	b.org.Fault("/describe", sftest.Fault{Fixture: "err_403_api_disabled.json"})
	ids := b.logins(450, b.ago(time.Hour), time.Second)
	b.org.Fault("ORDER BY LoginTime ASC", sftest.Fault{Short: -1000, Skip: 1, Times: 3})
	sameSet(t, origins(b.must("LoginHistory:LoginTime")), ids)
	if n := len(b.queries("ORDER BY LoginTime ASC")); n != 5 {
		t.Errorf("%d queries", n)
	}

	b = newBench(t)
	b.logins(5, b.ago(time.Hour), time.Second)
	b.org.Fault("ORDER BY LoginTime ASC", sftest.Fault{Short: 1, Times: -1})
	if _, err := b.pull("LoginHistory"); sysexits.Of(err) != sysexits.TempFail {
		t.Errorf("the end is %v", err)
	}
}

// Of a Big Object the number of rows is a hint.
func TestShortAnswersOfBigObjects(t *testing.T) {
	b := newBench(t)
	ids := b.events(50, 0, false, b.ago(time.Hour), time.Second)
	b.org.Fault("ORDER BY EventDate DESC", sftest.Fault{Short: -7, Times: -1})
	sameSet(t, origins(b.must("LoginEvent")), ids)
}

// The name of an object goes into queries and keys: another than was asked for
// is not taken over.
func TestDescribedByAnotherName(t *testing.T) {
	b := newBench(t)
	b.org.Fault("/describe", sftest.Fault{Status: 200, Times: -1,
		Body: `{"name":"Account WHERE Id != null","fields":[{"name":"Id","type":"id"},{"name":"LoginTime","type":"datetime"}]}`})
	ids := b.logins(3, b.ago(time.Hour), time.Second)
	sameSet(t, origins(b.must("LoginHistory")), ids)
}
