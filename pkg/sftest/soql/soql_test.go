package soql

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var files = &Object{Name: "EventLogFile", Fields: []Field{{"Id", ID}, {"EventType", Text}, {"Interval", Text}, {"Sequence", Num},
	{"CreatedDate", Time}, {"LogDate", Time}, {"LogFile", Base64}, {"LogFileLength", Num}, {"IsDeleted", Bool}}}

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return t
}

var rows = []Row{
	{"Id": "0ATxx0000000003AAA", "EventType": "Login", "Interval": "Hourly", "Sequence": 2, "CreatedDate": at("2026-07-01T13:00:00Z"), "LogFileLength": 10.0, "IsDeleted": false},
	{"Id": "0ATxx0000000001AAA", "EventType": "Login", "Interval": "Hourly", "Sequence": 1, "CreatedDate": at("2026-07-01T13:00:00Z"), "LogFileLength": 20.0, "IsDeleted": false},
	{"Id": "0ATxx0000000002AAA", "EventType": "API", "Interval": "Hourly", "Sequence": 1, "CreatedDate": at("2026-07-01T12:00:00Z"), "LogFileLength": 30.0, "IsDeleted": true},
	{"Id": "0ATxx0000000004AAA", "EventType": "URI", "Interval": "Daily", "Sequence": 0, "CreatedDate": at("2026-07-02T03:10:00Z"), "LogFileLength": nil, "IsDeleted": false},
	{"Id": "0ATxx000000000aAAA", "EventType": "O'Brien\\", "Interval": "Daily", "Sequence": 0, "CreatedDate": nil, "LogFileLength": 5.0, "IsDeleted": false},
}

// last is the tail of the Id of each row of an answer.
func last(res *Result) string {
	var b strings.Builder
	for _, r := range res.Rows {
		b.WriteByte(r["Id"].(string)[14])
	}
	return b.String()
}

func TestSelect(t *testing.T) {
	for _, tt := range []struct{ query, want string }{
		{"SELECT Id FROM EventLogFile", "3124a"},
		{"select id from eventlogfile where eventtype = 'login'", "31"},
		{"SELECT Id FROM EventLogFile ORDER BY Id", "1234a"},
		{"SELECT Id FROM EventLogFile ORDER BY CreatedDate ASC, Id ASC", "a2134"},
		{"SELECT Id FROM EventLogFile ORDER BY CreatedDate DESC NULLS LAST, Id", "4132a"},
		{"SELECT Id FROM EventLogFile ORDER BY Id LIMIT 2", "12"},
		{"SELECT Id FROM EventLogFile ORDER BY Id LIMIT 2 OFFSET 3", "4a"},
		{"SELECT Id FROM EventLogFile WHERE Interval = 'Hourly' AND (CreatedDate > 2026-07-01T12:00:00.000Z OR (CreatedDate = 2026-07-01T12:00:00Z AND Id > '0ATxx0000000001'))", "312"},
		{"SELECT Id FROM EventLogFile WHERE CreatedDate >= 2026-07-01T15:00:00+02:00 AND CreatedDate < 2026-07-02T00:00:00Z", "31"},
		{"SELECT Id FROM EventLogFile WHERE CreatedDate = null", "a"},
		{"SELECT Id FROM EventLogFile WHERE CreatedDate != null ORDER BY Id", "1234"},
		{"SELECT Id FROM EventLogFile WHERE EventType IN ('Login','URI')", "314"},
		{"SELECT Id FROM EventLogFile WHERE EventType NOT IN ('Login','URI')", "2a"},
		{"SELECT Id FROM EventLogFile WHERE NOT (EventType = 'Login' OR EventType = 'URI')", "2a"},
		{"SELECT Id FROM EventLogFile WHERE EventType LIKE '%O%i_n'", ""},
		{"SELECT Id FROM EventLogFile WHERE EventType LIKE 'l_gi%'", "31"},
		{`SELECT Id FROM EventLogFile WHERE EventType = 'O\'Brien\\'`, "a"},
		{"SELECT Id FROM EventLogFile WHERE Id = '0ATxx000000000A'", ""},
		{"SELECT Id FROM EventLogFile WHERE Id = '0ATxx000000000a'", "a"},
		{"SELECT Id FROM EventLogFile WHERE Sequence >= 1 AND Sequence <> 2", "12"},
		{"SELECT Id FROM EventLogFile WHERE LogFileLength > 9.5", "312"},
		{"SELECT Id FROM EventLogFile WHERE IsDeleted = true", "2"},
		{"SELECT Id FROM EventLogFile WHERE CreatedDate = TODAY", "4"},
		{"SELECT Id FROM EventLogFile WHERE CreatedDate = YESTERDAY", "312"},
		{"SELECT Id FROM EventLogFile WHERE CreatedDate >= LAST_N_DAYS:1", "3124"},
	} {
		q, err := Parse(tt.query, Options{})
		if err != nil {
			t.Errorf("%s: %v", tt.query, err)
			continue
		}
		res, err := q.Run(files, slices.Clone(rows), at("2026-07-02T10:00:00Z"))
		if err != nil {
			t.Errorf("%s: %v", tt.query, err)
		} else if got := last(res); got != tt.want {
			t.Errorf("%s: rows %q, want %q", tt.query, got, tt.want)
		}
	}
}

func TestAggregate(t *testing.T) {
	for _, tt := range []struct{ query, want string }{
		{"SELECT COUNT() FROM EventLogFile WHERE Interval = 'Hourly'", "count 3"},
		{"SELECT EventType FROM EventLogFile WHERE Interval='Hourly' GROUP BY EventType", "[map[EventType:API] map[EventType:Login]]"},
		{"SELECT EventType, COUNT(Id) n, MAX(CreatedDate) FROM EventLogFile WHERE Interval='Hourly' GROUP BY EventType",
			"[map[EventType:API expr0:2026-07-01 12:00:00 +0000 UTC n:1] map[EventType:Login expr0:2026-07-01 13:00:00 +0000 UTC n:2]]"},
		{"SELECT MIN(Sequence), SUM(LogFileLength), COUNT_DISTINCT(EventType) FROM EventLogFile", "[map[expr0:0 expr1:65 expr2:4]]"},
		{"SELECT AVG(LogFileLength) a FROM EventLogFile WHERE EventType = 'none'", "[map[a:<nil>]]"},
	} {
		q, err := Parse(tt.query, Options{})
		if err != nil {
			t.Fatalf("%s: %v", tt.query, err)
		}
		res, err := q.Run(files, slices.Clone(rows), time.Now())
		if err != nil {
			t.Fatalf("%s: %v", tt.query, err)
		}
		got := fmt.Sprint(res.Rows)
		if res.CountOnly {
			got = fmt.Sprint("count ", res.Count)
		}
		if got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.query, got, tt.want)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, tt := range []struct{ query, code, text string }{
		{"", "MALFORMED_QUERY", "unexpected token: <EOF>"},
		{"SELECT Id FORM EventLogFile", "MALFORMED_QUERY", ""},
		{"SELECT Id FROM EventLogFile WHERE", "MALFORMED_QUERY", "<EOF>"},
		{"SELECT Id FROM EventLogFile WHERE EventType = 'a' AND EventType = 'b' OR EventType = 'c'", "MALFORMED_QUERY", "unexpected token: 'OR'"},
		{"SELECT Id FROM EventLogFile WHERE EventType = 'a", "MALFORMED_QUERY", "unterminated"},
		{"SELECT Id FROM EventLogFile WHERE EventType = 'O'Brien'", "MALFORMED_QUERY", "unexpected token"},
		{"SELECT Id FROM EventLogFile WHERE EventType = 'O''Brien'", "MALFORMED_QUERY", "unexpected token"},
		{`SELECT Id FROM EventLogFile WHERE EventType = 'a\x'`, "MALFORMED_QUERY", "Illegal character sequence"},
		{"SELECT Id FROM EventLogFile WHERE CreatedDate > 2026-07-01T00:00:00.000+0000", "MALFORMED_QUERY", "no viable alternative at character '+'"},
		{"SELECT Id FROM EventLogFile WHERE CreatedDate > 2026-07-01T00:00:00.000 0000", "MALFORMED_QUERY", "no viable alternative at character ' '"},
		{"SELECT Id FROM EventLogFile WHERE CreatedDate > 2026-07-01T00:00:00", "MALFORMED_QUERY", "no viable alternative"},
		{"SELECT Id FROM EventLogFile WHERE CreatedDate > '2026-07-01T00:00:00Z'", "INVALID_FIELD", "should not be enclosed in quotes"},
		{"SELECT Id FROM EventLogFile WHERE CreatedDate > 2026-07-01", "INVALID_FIELD", "must be of type dateTime"},
		{"SELECT Id FROM EventLogFile WHERE Sequence = '1'", "INVALID_FIELD", ""},
		{"SELECT Id FROM EventLogFile WHERE EventType = 1", "INVALID_FIELD", ""},
		{"SELECT Id FROM EventLogFile WHERE LogFile = 'x'", "INVALID_FIELD", "can not be filtered"},
		{"SELECT Id FROM EventLogFile WHERE Sequence LIKE '1%'", "INVALID_QUERY_FILTER_OPERATOR", ""},
		{"SELECT Id FROM EventLogFile WHERE Id = 'x'", "INVALID_QUERY_FILTER_OPERATOR", ""},
		{"SELECT Nope FROM EventLogFile", "INVALID_FIELD", "No such column 'Nope' on entity 'EventLogFile'"},
		{"SELECT Id FROM EventLogFile ORDER BY Nope", "INVALID_FIELD", "Nope"},
		{"SELECT Id FROM EventLogFile LIMIT x", "MALFORMED_QUERY", ""},
		{"SELECT Id FROM EventLogFile LIMIT 1 garbage", "MALFORMED_QUERY", "garbage"},
		{"SELECT Id FROM EventLogFile OFFSET 2001", "NUMBER_OUTSIDE_VALID_RANGE", ""},
		{"SELECT Id, EventType FROM EventLogFile GROUP BY EventType", "MALFORMED_QUERY", "grouped or aggregated: Id"},
		{"SELECT FIELDS(ALL) FROM EventLogFile", "MALFORMED_QUERY", "LIMIT of at most 200"},
		{"SELECT FIELDS(ALL) FROM EventLogFile LIMIT 201", "MALFORMED_QUERY", "LIMIT of at most 200"},
		{"SELECT NOPE(Id) FROM EventLogFile", "MALFORMED_QUERY", "unknown function"},
	} {
		q, err := Parse(tt.query, Options{})
		if err == nil {
			_, err = q.Run(files, slices.Clone(rows), time.Now())
		}
		var refused *Error
		if !errors.As(err, &refused) || refused.Code != tt.code || !strings.Contains(refused.Message, tt.text) {
			t.Errorf("%s: %v, want %s with %q", tt.query, err, tt.code, tt.text)
		}
	}
}

func TestFields(t *testing.T) {
	q, err := Parse("SELECT FIELDS(STANDARD) FROM EventLogFile", Options{})
	if err != nil {
		t.Fatal(err)
	}
	res, err := q.Run(files, nil, time.Now())
	if err != nil || len(res.Columns) != len(files.Fields) {
		t.Errorf("columns %v, %v; want all %d", res, err, len(files.Fields))
	}
}

func TestLenientDates(t *testing.T) {
	q, err := Parse("SELECT Id FROM EventLogFile WHERE CreatedDate > 2026-07-01T13:00:00.000+0000", Options{LenientDates: true})
	if err != nil {
		t.Fatal(err)
	}
	res, err := q.Run(files, slices.Clone(rows), time.Now())
	if err != nil || last(res) != "4" {
		t.Errorf("%v, %v; want row 4", res, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("SELECT Id, COUNT(Id) n FROM X WHERE (a = 'b\\'' OR NOT c IN (1,2.5)) AND d >= 2026-07-01T00:00:00Z GROUP BY Id ORDER BY Id DESC NULLS LAST LIMIT 3 OFFSET 1")
	f.Add("SELECT FIELDS(ALL) FROM X LIMIT 200")
	f.Fuzz(func(t *testing.T, s string) {
		q, err := Parse(s, Options{})
		if err != nil {
			if !errors.As(err, new(*Error)) {
				t.Fatalf("%q: %T is no refusal", s, err)
			}
			return
		}
		if q.From == "" || len(q.Select) == 0 {
			t.Fatalf("%q was taken without an object or a column", s)
		}
		q.Run(files, slices.Clone(rows), time.Now())
	})
}
