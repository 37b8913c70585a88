package record

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var refusal = Letter{
	Reason: LineTooLong, CapturedAt: time.Unix(0, 1785412800123456789), Status: 400, Detail: "max entry size '262144' bytes exceeded",
	Stage: "push", RunID: "r1", Instance: "host-a", Org: "prod", Tenant: "7",
}

func TestAppendLetter(t *testing.T) {
	const id = "e9de242f56d918757f488834fce13cd0"
	const envelope = `,"reason":"line_too_long","truncated":false,"captured_at":"2026-07-30T12:00:00.123456789Z","dead_letter":{"v":1,"id":"` + id +
		`","status":400,"detail":"max entry size '262144' bytes exceeded","stage":"push","attempts":1,"first_captured_at":"2026-07-30T12:00:00.123456789Z",` +
		`"errors":[{"at":"2026-07-30T12:00:00.123456789Z","reason":"line_too_long","status":400}],"run_id":"r1","instance":"host-a","org":"prod","tenant":"7"}}`
	const plain = `{"ts":"2026-07-01T20:00:00.000000000Z","labels":{"a":"b"},"line":"x"`
	for _, tc := range []struct{ name, in, want string }{
		{"plain", plain + "}", plain + envelope},
		{"laid out", "{ \"ts\" :\r\n\t\"2026-07-01T20:00:00.000000000Z\",\n\"labels\": {\"a\" : \"b\" } ,\"line\":\"x\"\n}", plain + envelope},
		{"unknown fields stay in place", `{"new":[1, {"a": null}],"ts":"2026-07-01T20:00:00.000000000Z","labels":{"a":"b"},"zeta":1e5,"line":"x"}`,
			`{"new":[1,{"a":null}],"ts":"2026-07-01T20:00:00.000000000Z","labels":{"a":"b"},"zeta":1e5,"line":"x"` + envelope},
		{"escapes stay as they came", strings.Replace(plain, `"x"`, `"\u0078"`, 1) + "}", strings.Replace(plain, `"x"`, `"\u0078"`, 1) + envelope},
		{"earlier envelope goes", strings.Replace(plain, `{`, `{"reason":"too_old","captured_at":"x","truncated":true,"maybe_stored":true,`, 1) + "}", plain + envelope},
		{"null envelope", plain + `,"dead_letter":null}`, plain + envelope},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rec, err := one(t, tc.in+"\n")
			if err != nil {
				t.Fatal(err)
			}
			if got := string(AppendLetter(nil, &rec, &refusal)); got != tc.want+"\n" {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
	rec, _ := one(t, plain+"}\n")
	rec.Raw = nil
	want := strings.Replace(plain, `,"labels"`, `,"ts_unix_nano":1782936000000000000,"labels"`, 1) + envelope + "\n"
	if got := string(AppendLetter(nil, &rec, &refusal)); got != want {
		t.Errorf("from the fields: got  %s\nwant %s", got, want)
	}
	gap := AppendLetter([]byte("x"), &Record{}, &Letter{Reason: SourceGap, CapturedAt: refusal.CapturedAt, MaybeStored: true})
	if !strings.HasPrefix(string(gap), `x{"reason":"source_gap","truncated":false,"captured_at":"2026-07-30T12:00:00.123456789Z","maybe_stored":true,"dead_letter":{"v":1,`) {
		t.Errorf("%s", gap)
	}
}

// A letter that is refused again keeps its identity and gains history, also
// when its line was edited meanwhile.
func TestLetterAgain(t *testing.T) {
	text := login
	id := ""
	for attempt := 1; attempt <= 20; attempt++ {
		rec, err := one(t, text)
		if err != nil {
			t.Fatal(err)
		}
		again := refusal
		again.CapturedAt = refusal.CapturedAt.Add(time.Duration(attempt) * time.Hour)
		again.Reason, again.Status = TooOld, attempt
		text = string(AppendLetter(nil, &rec, &again))
		if rec, err = one(t, text); err != nil {
			t.Fatal(err)
		}
		l, err := ParseLetter(&rec)
		if err != nil {
			t.Fatal(err)
		}
		if id == "" {
			id = l.ID
		}
		if l.ID != id || l.Attempts != attempt || !l.FirstCapturedAt.Equal(refusal.CapturedAt.Add(time.Hour)) || !l.CapturedAt.Equal(again.CapturedAt) {
			t.Fatalf("attempt %d: %+v", attempt, l)
		}
		if n := len(l.Errors); n != min(attempt, 16) || l.Errors[n-1].Status != attempt || l.Errors[0].Status != max(1, attempt-15) {
			t.Fatalf("attempt %d: errors %+v", attempt, l.Errors)
		}
		text = strings.Replace(text, "Login", "Edited", 1)
		text = strings.Replace(text, `"attempts"`, `"newer": [ 1 ], "attempts"`, 1)
	}
	if n := strings.Count(text, `"newer"`); n != 20 {
		t.Errorf("what a newer release wrote stands there %d times", n)
	}
	if !strings.Contains(text, `"checkpoint_value":"tok","origin":"0AT:1","reason":"too_old"`) {
		t.Errorf("%s", text)
	}
}

// What a letter says of itself may be anything: it does not undo the guards.
func TestLetterThatLies(t *testing.T) {
	for before, want := range map[string]int{"-5": 1, "0": 1, "9223372036854775807": 1<<31 - 1, "-9223372036854775808": 1, "1e30": 1, `"x"`: 1} {
		rec, err := one(t, strings.TrimSuffix(login, "}\n")+`,"reason":"too_old","dead_letter":{"id":"`+strings.Repeat("i", 1<<20)+`","attempts":`+before+"}}\n")
		if err != nil {
			t.Fatal(err)
		}
		text := AppendLetter(nil, &rec, &refusal)
		if rec, err = one(t, string(text)); err != nil {
			t.Fatal(err)
		}
		l, err := ParseLetter(&rec)
		if err != nil || l.Attempts != want || l.ID != ID(&rec) || len(text) > 2000 {
			t.Errorf("attempts %s: %v, %+v", before, err, l)
		}
	}
}

func TestLetterDetailIsCut(t *testing.T) {
	l := refusal
	l.Detail = strings.Repeat("a", 511) + "é and more\n"
	rec, err := one(t, string(AppendLetter(nil, &Record{Reason: []byte("x")}, &l)))
	if err != nil {
		t.Fatal(err)
	}
	info, err := ParseLetter(&rec)
	if err != nil || info.Detail != strings.Repeat("a", 511) {
		t.Errorf("%q, %v", info.Detail, err)
	}
}

// The record behind a letter is the record that was refused, also through two
// captures and for objects that are no records.
func TestLetterKeepsTheRecord(t *testing.T) {
	for _, in := range []string{login, `{"line":5,"checkpoint_key":"k"}` + "\n", "{}\n", "{\"line\":\"\\ud800\xff\",\"labels\":{\"a\":\"b\"},\"ts_unix_nano\":5}\n"} {
		rec, first := one(t, in)
		before := show(&rec)
		text := AppendLetter(nil, &rec, &refusal)
		rec, _ = one(t, string(text))
		text = AppendLetter(nil, &rec, &refusal)
		rec, again := one(t, string(text))
		rec.Reason, rec.DeadLetter = nil, nil
		if got := show(&rec); got != before {
			t.Errorf("got  %s\nwant %s", got, before)
		}
		if first == nil && again != nil {
			t.Errorf("no record any more: %v", again)
		}
	}
}

func TestParseLetter(t *testing.T) {
	rec, err := one(t, string(AppendLetter(nil, &Record{Reason: []byte("x")}, &refusal)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseLetter(&rec)
	at := refusal.CapturedAt.UTC()
	want := LetterInfo{
		ID: ID(&Record{}), Reason: LineTooLong, CapturedAt: at, FirstCapturedAt: at, Status: 400, Detail: refusal.Detail, Stage: "push",
		Attempts: 1, Errors: []LetterError{{at, LineTooLong, 400}}, RunID: "r1", Instance: "host-a", Org: "prod", Tenant: "7",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || err != nil {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
	for _, tc := range []struct{ in, fault string }{
		{`{"reason":"x","truncated":true,"maybe_stored":true,"captured_at":null,"dead_letter":{"id":null,"errors":null}}`, ""},
		{`{"reason":"x"}`, ""},
		{`{"reason":"x","truncated":1}`, "truncated"},
		{`{"reason":"x","captured_at":"never"}`, "captured_at"},
		{`{"reason":"x","dead_letter":{"attempts":"1"}}`, "attempts"},
		{`{"reason":"x","dead_letter":{"errors":{}}}`, "errors"},
		{`{"reason":"x","dead_letter":{"errors":[1]}}`, "errors"},
		{`{"reason":"x","dead_letter":{"errors":[{"at":1}]}}`, "errors.at"},
		{`{"reason":"x","dead_letter":{"id":[]}}`, "id"},
	} {
		rec, err := one(t, tc.in+"\n")
		if err != nil {
			t.Fatal(err)
		}
		_, err = ParseLetter(&rec)
		if tc.fault == "" && err != nil || tc.fault != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.fault+" ")) {
			t.Errorf("%s: %v", tc.in, err)
		}
	}
}

func TestID(t *testing.T) {
	id := func(text string) string {
		rec, _ := one(t, text+"\n")
		return ID(&rec)
	}
	base := `{"ts":"2026-07-01T20:00:00Z","labels":{"a":"b","c":"d"},"structured_metadata":{"e":"f","g":"h"},"line":"x"}`
	for _, same := range []string{
		`{"line":"x","structured_metadata":{"g":"h","e":"f"},"labels":{"c":"d","a":"b"},"ts_unix_nano":1782936000000000000}`,
		`{"ts":"2026-07-01T22:00:00+02:00","labels":{"a":"b","c":"\u0064"},"structured_metadata":{"e":"f","g":"h"},"line":"x","checkpoint_key":"k","checkpoint_value":"v","origin":"o","new":1,"reason":"too_old","dead_letter":{"id":"z"}}`,
	} {
		if id(same) != id(base) {
			t.Errorf("%s has another id", same)
		}
	}
	seen := map[string]string{}
	for _, text := range []string{
		base,
		strings.Replace(base, `"b"`, `"B"`, 1), strings.Replace(base, `"x"`, `"y"`, 1), strings.Replace(base, `"x"`, `""`, 1),
		strings.Replace(base, `"h"`, `"H"`, 1), strings.Replace(base, `:00Z`, `:00.000000001Z`, 1),
		strings.Replace(base, `"a":"b","c":"d"`, `"a":"b"`, 1), strings.Replace(base, `"a":"b"`, `"ab":""`, 1),
		`{"ts":"2026-07-01T20:00:00Z","labels":{"a":"b","c":"d","e":"f","g":"h"},"line":"x"}`,
		`{"labels":{"a":"b","c":"d"},"structured_metadata":{"e":"f","g":"h"},"line":"x"}`,
		`{}`, `{"line":5}`, `{"line":6}`, `{"labels":5}`, `{"reason":"source_gap","origin":"a"}`, `{"reason":"source_gap","origin":"b"}`,
		`{"reason":"decode_error","payload_base64":"AA=="}`, `{"reason":"decode_error","payload_base64":"AQ=="}`, `{"gap":{"file":"1"}}`, `{"gap":{"file":"2"}}`,
	} {
		if other, ok := seen[id(text)]; ok {
			t.Errorf("%s and %s have one id", text, other)
		}
		seen[id(text)] = text
		if n := len(id(text)); n != 32 {
			t.Errorf("%d digits", n)
		}
	}
	if id("{\"gap\": {\n\"file\":\"1\"},\"checkpoint_value\":\"5\",\"reason\":\"source_gap\"}") != id(`{"gap":{"file":"1"}}`) {
		t.Error("the id of a gap depends on its envelope")
	}
	rec, _ := one(t, base+"\n")
	escaped := rec
	escaped.Raw, escaped.Line, escaped.EscapedLine = nil, nil, []byte(`\u0078`)
	if ID(&escaped) != ID(&rec) {
		t.Error("an escaped line has another id")
	}
}
