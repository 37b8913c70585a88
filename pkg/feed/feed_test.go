package feed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/outlet"
	"sf2loki/pkg/record"
	"sf2loki/pkg/tally"
)

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		`{}`: `{}`,
		` { "attributes" : {"type":"X","url":"/a"} , "Id" : "1" } `:           `{"Id":"1"}`,
		`{"b":1.50,"a":-0.0e+5,"n":null,"t":true,"big":12345678901234567890}`: `{"b":1.50,"a":-0.0e+5,"n":null,"t":true,"big":12345678901234567890}`,
		`{"s":"caf\u00e9 \ud83d\ude00 \/ \u003c \"\\ \n \u0001"}`:             "{\"s\":\"café \U0001F600 / < \\\"\\\\ \\n \\u0001\"}",
		`{"s":"\ud83d lone \udc00"}`:                                          "{\"s\":\"\ufffd lone \ufffd\"}",
		`{"a": {"City" : "Z\u00fcrich", "l" : [ 1 , "x y" ]} }`:               `{"a":{"City":"Zürich","l":[1,"x y"]}}`,
		"{\"bad\":\"\xff\"}": "{\"bad\":\"\ufffd\"}",
	} {
		var r Row
		if err := r.Parse([]byte(in)); err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := string(r.AppendLine(nil)); got != want {
			t.Errorf("%s gives\n%s, want\n%s", in, got, want)
		}
	}
}

func TestCells(t *testing.T) {
	var r Row
	if err := r.Parse([]byte(`{"a":"x\u0041","b":null,"c":12.50,"d":true,"e":{"f":1},"g":""}`)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "xA", "b": "", "c": "12.50", "d": "true", "e": `{"f":1}`, "g": "", "absent": ""} {
		if got := string(r.Text(name)); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, in := range []string{"", "[]", `"x"`, "null", `{"a"}`, `{"a":}`, `{"a":1`, `{"a":"x}`, `{"a":1}x`, `{"a":1,}`, `{1:2}`} {
		if r.Parse([]byte(in)) == nil {
			t.Errorf("%s is a row", in)
		}
	}
}

func FuzzRow(f *testing.F) {
	f.Add([]byte(`{"attributes":{"type":"X"},"Id":"1","n":[1,{"a":"\ud83d\ude00\\\""}],"x":1.5e3}`))
	f.Add([]byte(`{"a":"\\","b":"\"","c":{}}`))
	f.Add([]byte(`{"a":` + strings.Repeat("7", 400) + `}`)) // more than a float64 holds
	f.Fuzz(func(t *testing.T, in []byte) {
		var r Row
		err := r.Parse(in)
		if !json.Valid(in) || in[0] == 0 {
			return // it need not be refused, but must not be fatal
		}
		var want map[string]any
		if exactly(in, &want) != nil || want == nil {
			if err == nil {
				t.Fatalf("%s is a row", in)
			}
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		out := r.AppendLine(nil)
		var got map[string]any
		if err := exactly(out, &got); err != nil {
			t.Fatalf("%s becomes %s: %v", in, out, err)
		}
		delete(want, "attributes")
		delete(got, "attributes") // written with an escape
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s becomes %s", in, out)
		}
	})
}

// exactly is json.Unmarshal that takes numbers of any size.
func exactly(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return dec.Decode(v)
}

func TestKeys(t *testing.T) {
	same := [][2]string{
		{"0Yaxx0000000001", "0Yaxx0000000001CAA"},
		{"5f1c3b60-0000-4000-8000-000000000004", "5F1C3B60-0000-4000-8000-000000000004"},
	}
	for _, p := range same {
		if KeyOf([]byte(p[0])) != KeyOf([]byte(p[1])) {
			t.Errorf("%s is not %s", p[0], p[1])
		}
	}
	seen := map[Key]string{}
	for _, id := range []string{"0Yaxx0000000001", "0Yaxx000000000A", "0Yaxx000000000a", "5f1c3b60-0000-4000-8000-000000000004", "5f1c3b60-0000-4000-8000-00000000000x",
		"5f1c3b60_0000-4000-8000-000000000004", "x", ""} {
		k := KeyOf([]byte(id))
		if was, ok := seen[k]; ok {
			t.Errorf("%q and %q are the same", was, id)
		}
		seen[k] = id
	}
}

func TestSeen(t *testing.T) {
	m := NewMemory(3)
	s, other := NewSeen(m), NewSeen(m)
	key := func(i int) Key { return KeyOf([]byte(fmt.Sprint(i))) }
	ms := func(i int) int64 { return int64(i) * 1e6 }
	for i := range 3 {
		s.Add(key(i), ms(i))
	}
	if s.Horizon() != 0 || !s.Has(key(0), ms(0)) || s.Has(key(0), ms(1)) {
		t.Error("what is remembered")
	}
	s.Add(key(3), ms(3))
	if s.Has(key(0), ms(0)) || s.Horizon() != ms(1) || s.Len() != 3 {
		t.Errorf("horizon %d, %d rows", s.Horizon(), s.Len())
	}
	s.Add(key(1), ms(5)) // changed
	if s.Len() != 3 || !s.Has(key(1), ms(5)) || s.Has(key(1), ms(1)) {
		t.Error("a row that has changed")
	}
	s.Forget(ms(3))
	if s.Len() != 2 || !s.Has(key(3), ms(3)) || !s.Has(key(1), ms(5)) {
		t.Errorf("%d rows", s.Len())
	}
	other.Add(key(9), ms(9))
	other.Add(key(10), ms(10))
	if other.Len() != 1 || m.used.Load() != 3 {
		t.Errorf("%d rows of the other, %d in all", other.Len(), m.used.Load())
	}
	for i := range 5000 {
		s.Add(key(100+i), ms(100+i))
		s.Forget(ms(100 + i - 1))
	}
	if len(s.queue) > 3000 {
		t.Errorf("the queue has %d entries", len(s.queue))
	}
}

func TestTokens(t *testing.T) {
	at, _ := ParseTime([]byte("2026-07-01T10:00:00.120+0000"))
	for _, p := range []Position{
		{Set: true, Time: at},
		{Set: true, Time: at, ID: "0Yaxx0000000001CAA"},
		{Set: true, Time: at, ID: "5f1c3b60-0000-4000-8000-000000000004", Start: at - 5e9},
		{Set: true, Time: at, ID: "x", Failing: Failing{ID: "07L", Since: time.Unix(1782900000, 0).UTC()}},
	} {
		text := p.AppendToken(nil, "00D000000000001AAA")
		if !json.Valid(text) || !strings.HasPrefix(string(text), `{"v":1,"org":"00D000000000001AAA","ts":"2026-07-01T10:00:00.120Z"`) {
			t.Errorf("the token is %s", text)
		}
		got, err := ParsePosition(string(text), "00D000000000001AAA")
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("%s reads as %+v, %v", text, got, err)
		}
	}
}

func TestTimes(t *testing.T) {
	want := time.Date(2026, 7, 1, 10, 0, 0, 130e6, time.UTC).UnixNano()
	for _, text := range []string{"2026-07-01T10:00:00.13+0000", "2026-07-01T10:00:00.130Z", "2026-07-01T12:00:00.130+02:00", "2026-07-01T12:00:00.13+0200"} {
		if got, ok := ParseTime([]byte(text)); !ok || got != want {
			t.Errorf("%s is %d", text, got)
		}
	}
	for _, text := range []string{"", "None", "+0000", "2026-07-01", "0001-01-01T00:00:00.000+0000", strings.Repeat("9", 100) + "+0000"} {
		if _, ok := ParseTime([]byte(text)); ok {
			t.Errorf("%q is a time", text)
		}
	}
	if Millis(-1) != -1e6 || Millis(1999999) != 1e6 {
		t.Error("milliseconds")
	}
}

func TestHugeRow(t *testing.T) { // longer than any reader takes: a dead letter, and the account balances
	var out bytes.Buffer
	stats := tally.New()
	e := NewEmitter(&outlet.Output{Records: func(b []byte) error { out.Write(b); return nil }, Now: time.Now}, stats, "k", "X", []record.Pair{{Name: []byte("source"), Value: []byte("s")}})
	rec := &record.Record{Time: 1, HasTime: true, Line: bytes.Repeat([]byte{'"'}, 17<<20), Value: []byte("v"), Origin: []byte("id")}
	if err := e.Row(rec, 1); err != nil {
		t.Fatal(err)
	}
	if err := e.Account(&Track{Pos: Position{Set: true, Time: 1}}, 0, 1); err != nil {
		t.Fatal(err)
	}
	c := stats.Totals().Types[0]
	if c.Read != 1 || c.Written != 0 || c.DeadLettered != 1 || !strings.Contains(out.String(), `"reason":"decode_error","truncated":true`) || !strings.Contains(out.String(), `"dead_lettered":1`) {
		t.Errorf("%+v, %d bytes", c, out.Len())
	}
	if out.Len() > 200<<10 {
		t.Errorf("%d bytes", out.Len())
	}
}
