package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"

	"sf2loki/pkg/logtest"
	"sf2loki/pkg/record"
)

// scanAll tells what a Reader makes of a text: the objects with their places,
// and the damage.
func scanAll(r io.Reader) []string {
	s := NewReader(r, "f")
	var got []string
	for {
		var l Letter
		err := s.Next(&l)
		var d *Damage
		switch {
		case err == nil:
			got = append(got, fmt.Sprintf("%d@%d %s", l.Line, l.Offset, appendCompact(nil, l.Raw)))
		case errors.As(err, &d):
			kind := "bad"
			if d.Torn {
				kind = "torn"
			}
			got = append(got, fmt.Sprintf("%d@%d %s", d.Line, d.Offset, kind))
		case errors.Is(err, io.EOF):
			return got
		default:
			return append(got, err.Error())
		}
	}
}

func TestReader(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"blank lines", "\n \n", ""},
		{"one a line", "{\"a\":1}\n{\"b\":2}\n", `1@0 {"a":1}|2@8 {"b":2}`},
		{"CRLF", "{\"a\":1}\r\n{\"b\":2}\r\n", `1@0 {"a":1}|2@9 {"b":2}`},
		{"two on a line", "{\"a\":1} {\"b\":2}{\"c\":3}\n{}\n", `1@0 {"a":1}|1@8 {"b":2}|1@15 {"c":3}|2@23 {}`},
		{"spread by jq", "{\n  \"a\": {\n    \"b\": \"}\"\n  }\n}\n{\"c\":1}\n", `1@0 {"a":{"b":"}"}}|6@30 {"c":1}`},
		{"torn", "{\"a\":1}\n{\"b\"", `1@0 {"a":1}|2@8 torn`},
		{"whole but for the line feed", "{\"a\":1}\n{\"b\":2}", `1@0 {"a":1}|2@8 {"b":2}`},
		{"two without a line feed", "{\"a\":1} {\"b\":2}", `1@0 {"a":1}|1@8 {"b":2}`},
		{"spread without a line feed", "{\n\"a\":\n1}", `1@0 {"a":1}`},
		{"torn behind a whole one", "{\"a\":1}{\"b\":", `1@0 {"a":1}|1@7 torn`},
		{"torn in a spread object", "{\"a\":1}\n{\n  \"b\":\n", `1@0 {"a":1}|2@8 bad|3@12 bad`},
		{"zeros of a lost block", "{\"a\":1}\n\x00\x00\x00", `1@0 {"a":1}|2@8 torn`},
		{"no JSON between", "{\"a\":1}\nhello\n{\"b\":2}\n", `1@0 {"a":1}|2@8 bad|3@14 {"b":2}`},
		{"cut between", "{\"a\":1,\n{\"b\":2}\n", `1@0 bad|2@8 {"b":2}`},
		{"not an object", "[1]\n\"x\"\n{}\n", `1@0 bad|2@4 bad|3@8 {}`},
		{"bad escape", `{"a":"\x"}` + "\n{}\n", `1@0 bad|2@11 {}`},
		{"raw control character", "{\"a\":\"\x01\"}\n{}\n", `1@0 bad|2@10 {}`},
		{"number that is none", "{\"a\":01}\n{}\n", `1@0 bad|2@9 {}`},
		{"brace too many", "{\"a\":1}}\n{}\n", `1@0 {"a":1}|1@7 bad|2@9 {}`},
		{"trailing comma", "{\"a\":1,}\n{}\n", `1@0 bad|2@9 {}`},
		{"nested without end", strings.Repeat(`{"a":`, 10001) + "1" + strings.Repeat("}", 10001) + "\n{}\n", `1@0 bad|2@60008 {}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, r := range map[string]io.Reader{
				"whole":       strings.NewReader(tt.in),
				"byte-wise":   iotest.OneByteReader(strings.NewReader(tt.in)),
				"with end":    iotest.DataErrReader(strings.NewReader(tt.in)),
				"half-filled": iotest.HalfReader(strings.NewReader(tt.in)),
			} {
				if got := strings.Join(scanAll(r), "|"); got != tt.want {
					t.Errorf("%s:\n got %s\nwant %s", name, got, tt.want)
				}
			}
		})
	}
}

func TestReaderOfLongLines(t *testing.T) {
	long := fmt.Sprintf(`{"line":"%s"}`, strings.Repeat("x", 3<<20))
	overlong := fmt.Sprintf(`{"line":"%s"}`, strings.Repeat("x", maxObject+5))
	got := scanAll(strings.NewReader(long + "\n" + overlong + "\n" + `{"a":1}` + "\n"))
	want := []string{"1@0 " + long, fmt.Sprintf("2@%d bad", len(long)+1), fmt.Sprintf(`3@%d {"a":1}`, len(long)+len(overlong)+2)}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %.200q", got)
	}
}

func TestReaderGivesALineAtOnce(t *testing.T) {
	r, w := io.Pipe()
	s := NewReader(r, "pipe")
	go w.Write([]byte("{\"a\":1}\n"))
	var l Letter
	if err := s.Next(&l); err != nil || string(l.Raw) != `{"a":1}` {
		t.Errorf("%v %s", err, l.Raw)
	}
}

func TestLetterFields(t *testing.T) {
	raw := []byte(`{"ts":"2026-11-30T12:00:00.000000001Z","labels":{"event_type":"Lo\u0067in","source":"elf"},
		"structured_metadata":{"USER":"005"},"line":"a\u2028<>&\u0000\"","reason":"too_old","captured_at":"2026-11-30T13:00:00Z",
		"x":[1,{"y":null}],"schema_id":null,"maybe_stored":true,
		"dead_letter":{"v":1,"id":"00112233445566778899aabbccddeeff","attempts":2,"status":400,"org":"prod","run_id":"r","detail":"no"}}` + "\n")
	var l Letter
	if err := NewReader(bytes.NewReader(raw), "f").Next(&l); err != nil {
		t.Fatal(err)
	}
	at, _ := l.Time()
	captured, _ := l.Captured()
	x, _ := l.Field("x")
	user, _ := l.Field("USER")
	_, null := l.Field("absent")
	got := fmt.Sprintln(at, captured, l.Label("event_type"), string(l.EntryLine()), l.Reason(), l.ID(), l.Attempts(), l.Org(), x, user, null, l.HasLine(), *l.Refusal())
	want := fmt.Sprintln(1796040000000000001, 1796043600000000000, "Login", "a\u2028<>&\x00\"", "too_old", "00112233445566778899aabbccddeeff", 2, "prod", `[1,{"y":null}]`, "005", false, true,
		record.Letter{Reason: "too_old", MaybeStored: true, Status: 400, Detail: "no", RunID: "r", Org: "prod", CapturedAt: l.Refusal().CapturedAt})
	if got != want {
		t.Errorf("got  %swant %s", got, want)
	}
}

func TestIDOfALetterWithoutOne(t *testing.T) {
	a := `{"ts":"2026-11-30T12:00:00Z","labels":{"a":"1","b":"2"},"line":"x","checkpoint_value":"1"}`
	b := `{"line":"x","checkpoint_value":"2","labels":{"b":"2","a":"1"},"ts_unix_nano":1796040000000000000,"extra":1}`
	c := `{"line":"y","labels":{"b":"2","a":"1"},"ts_unix_nano":1796040000000000000}`
	id := func(text string) ID {
		var l Letter
		if _, err := l.parse([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return l.ID()
	}
	if id(a) != id(b) || id(a) == id(c) || id(`{}`) == (ID{}) {
		t.Errorf("ids %s %s %s", id(a), id(b), id(c))
	}
}

func TestAppendForReplay(t *testing.T) {
	labels := []record.Pair{{Name: []byte("replay"), Value: []byte(`r"1`)}, {Name: []byte("a"), Value: []byte("new")}}
	tests := []struct{ in, want string }{
		{
			`{"ts_unix_nano":1751400000123456789,"labels":{"a":"\u00e9"},"checkpoint_key":"live","line":"<>&","x":1.0,"checkpoint_value":"v"}`,
			`{"ts_unix_nano":1751400000123456789,"labels":{"a":"\u00e9","replay":"r\"1"},"line":"<>&","x":1.0,"checkpoint_key":"deadletter:f","checkpoint_value":"7"}`,
		},
		{`{ "line" : "x" }`, `{"line":"x","labels":{"replay":"r\"1","a":"new"},"checkpoint_key":"deadletter:f","checkpoint_value":"7"}`},
		{"{\n\"labels\" : { }\n}", `{"labels":{"replay":"r\"1","a":"new"},"checkpoint_key":"deadletter:f","checkpoint_value":"7"}`},
		{`{"labels":7}`, `{"labels":7,"checkpoint_key":"deadletter:f","checkpoint_value":"7"}`},
		{`{}`, `{"labels":{"replay":"r\"1","a":"new"},"checkpoint_key":"deadletter:f","checkpoint_value":"7"}`},
	}
	for _, tt := range tests {
		var l Letter
		if _, err := l.parse([]byte(tt.in)); err != nil {
			t.Fatal(err)
		}
		if got := string(l.AppendForReplay(nil, "deadletter:f", "7", labels)); got != tt.want+"\n" {
			t.Errorf("%s\n got %swant %s", tt.in, got, tt.want)
		}
	}
}

// FuzzScanObject holds the scanner against encoding/json.
func FuzzScanObject(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":[1,-2.5e3,"\u00e9\n",null,true,false,{}]}`, `{"a":01}`, `{"a":"` + "\x00" + `"}`, `{"a"}`, `{,}`, `{"a":1,}`,
		strings.Repeat(`{"a":[`, 5000) + strings.Repeat("]}", 5000), strings.Repeat(`{"a":[`, 5000) + "{}" + strings.Repeat("]}", 5000)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := scanObject(b, 0, nil)
		valid := len(b) > 0 && b[0] == '{' && json.Valid(b)
		if got := err == nil && skipSpace(b, n) == len(b); got != valid {
			t.Errorf("%q: scanned %v (%d, %v), valid %v", b, got, n, err, valid)
		}
	})
}

func TestText(t *testing.T) {
	for _, in := range []string{
		`""`, `"a"`, `"\u00e9\n\t\b\f\r\"\\\/"`, `"\ud83d\ude00x"`, `"\ud83dx"`, `"\ud83d\u0041"`, `"\ude00"`, `"\uD83D\uDE00\u0000"`, `"é\u2028"`,
	} {
		var want string
		if err := json.Unmarshal([]byte(in), &want); err != nil {
			t.Fatal(err)
		}
		if got, ok := text([]byte(in)); !ok || string(got) != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
	for _, in := range []string{``, `1`, `null`, `{}`} {
		if _, ok := text([]byte(in)); ok {
			t.Errorf("%s is a string", in)
		}
	}
}

// However much of a file is no record, few lines say so.
func TestDamageIsToldInFewLines(t *testing.T) {
	log := new(logtest.Log)
	r := NewReader(strings.NewReader(strings.Repeat("hello\n", 12345)), "f")
	for {
		var l Letter
		var d *Damage
		if err := r.Next(&l); !errors.As(err, &d) {
			break
		}
		d.Say(log.Logger(slog.LevelInfo))
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 10+3 || !strings.Contains(lines[0], " line=1 ") || !strings.Contains(lines[12], " line=10000 ") || !strings.Contains(lines[12], " so_far=10000") {
		t.Errorf("%d lines:\n%s", len(lines), log)
	}
}
