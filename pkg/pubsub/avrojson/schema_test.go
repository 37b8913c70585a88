package avrojson

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/avro"
)

func TestTypes(t *testing.T) {
	for _, c := range []struct{ typ, payload, want string }{
		{`"null"`, "", "null"},
		{`"boolean"`, "\x01", "true"},
		{`"int"`, "\x01", "-1"},
		{`"long"`, "\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "9223372036854775807"},
		{`"long"`, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "-9223372036854775808"},
		{`"double"`, "\x00\x00\x00\x00\x00\x00\x08\x40", "3"},
		{`"double"`, "\x9a\x99\x99\x99\x99\x99\xb9\x3f", "0.1"},
		{`"double"`, "\x00\x00\x00\x00\x00\x00\xf8\x7f", `"NaN"`},
		{`"double"`, "\x00\x00\x00\x00\x00\x00\xf0\x7f", `"Infinity"`},
		{`"double"`, "\x00\x00\x00\x00\x00\x00\xf0\xff", `"-Infinity"`},
		{`"double"`, "\x00\x00\x00\x00\x00\x00\x00\x80", `-0`},
		{`"double"`, "\x50\xef\xe2\xd6\xe4\x1a\x4b\x44", `1e+21`},
		{`"float"`, "\xcd\xcc\xcc\x3d", "0.1"},
		{`"bytes"`, "\x06abc", `"YWJj"`},
		{`"string"`, "\x06a\xffb", "\"a\uFFFDb\""},
		{`{"type":"fixed","name":"F","size":3}`, "abc", `"YWJj"`},
		{`{"type":"enum","name":"E","symbols":["A","B"]}`, "\x02", `"B"`},
		{`{"type":"array","items":"int"}`, "\x00", "[]"},
		{`{"type":"array","items":"int"}`, "\x04\x02\x04\x02\x06\x00", "[1,2,3]"},
		{`{"type":"array","items":"int"}`, "\x03\x04\x02\x04\x00", "[1,2]"}, // a block with its size
		{`{"type":"map","values":"int"}`, "\x04\x02a\x02\x02\"\x04\x00", `{"a":1,"\"":2}`},
		{`{"type":"map","values":"int"}`, "\x00", `{}`},
		{`["null","string",{"type":"record","name":"P","fields":[{"name":"x","type":"int"}]}]`, "\x04\x02", `{"x":1}`},
		{`["null","string",{"type":"record","name":"P","fields":[{"name":"x","type":"int"}]}]`, "\x02\x02y", `"y"`},
		{`["string","null"]`, "\x02", "null"},
		{`{"type":"record","name":"Empty","fields":[]}`, "", "{}"},
		{`{"type":"long","logicalType":"timestamp-millis"}`, "\x02", "1"},
		{`{"type":"int","logicalType":"date"}`, "\x02", "1"},
		{`{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}`, "\x04\x30\x39", "123.45"},
		{`{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}`, "\x02\xff", "-0.01"},
		{`{"type":"bytes","logicalType":"decimal","precision":9}`, "\x00", "0"},
		{`{"type":"bytes","logicalType":"decimal","precision":9,"scale":3}`, "\x02\x00", "0.000"},
		{`{"type":"fixed","name":"D","size":2,"logicalType":"decimal","precision":4,"scale":1}`, "\xff\x9c", "-10.0"},
		{`{"type":"fixed","name":"U","size":16,"logicalType":"uuid"}`, "\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef", `"01234567-89ab-cdef-0123-456789abcdef"`},
		{`{"type":"fixed","name":"L","size":12,"logicalType":"duration"}`, "\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00", `{"months":1,"days":2,"millis":3}`},
		{`{"type":{"type":"string"}}`, "\x02a", `"a"`},
		{`{"type":["null","int"]}`, "\x02\x02", "1"},
		{`["null",["null","int"]]`, "\x02\x02\x02", "1"},
		{`{"type":"string","logicalType":{"not":"a name"}}`, "\x02a", `"a"`},
	} {
		text := `{"type":"record","name":"R","fields":[{"name":"v","type":` + c.typ + `}]}`
		s, err := Parse([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", c.typ, err)
			continue
		}
		line, err := bothWays(t, s, nil, []byte(c.payload))
		if want := `{"v":` + c.want + `}`; err != nil || string(line) != want {
			t.Errorf("%q of %s is %s, %v; want %s", c.payload, c.typ, line, err, want)
		}
	}
}

func TestInvalidPayloads(t *testing.T) {
	for _, c := range []struct {
		typ, payload string
		want         error
	}{
		{`"boolean"`, "\x02", ErrInvalid},
		{`"boolean"`, "", ErrTruncated},
		{`"int"`, "\x80\x80\x80\x80\x10", ErrInvalid}, // 2^31
		{`"long"`, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", ErrInvalid},
		{`"long"`, "\x80", ErrTruncated},
		{`"string"`, "\x01", ErrInvalid},
		{`"string"`, "\x06ab", ErrTruncated},
		{`"string"`, "\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", ErrTruncated},
		{`["null","int"]`, "\x04", ErrInvalid},
		{`["null","int"]`, "\x01", ErrInvalid},
		{`{"type":"enum","name":"E","symbols":["A"]}`, "\x02", ErrInvalid},
		{`{"type":"array","items":"null"}`, "\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", ErrTooLong},
		{`{"type":"array","items":"null"}`, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00", ErrInvalid}, // the least number
		{`"R"`, "", ErrInvalid},                                                                             // a record in itself without end
		{`"int"`, "\x02\x02", ErrLeftOver},
	} {
		s, err := Parse([]byte(`{"type":"record","name":"R","fields":[{"name":"v","type":` + c.typ + `}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if line, err := bothWays(t, s, []byte("kept"), []byte(c.payload)); !errors.Is(err, c.want) || string(line) != "kept" {
			t.Errorf("%q of %s is %.40s, %v; want %v", c.payload, c.typ, line, err, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ schema, want string }{
		{``, "missing"},
		{`"string"`, "not that of a record"},
		{`{"type":"record","name":"A","fields":[{"name":"x","type":"B"}]}`, `"B" is not defined`},
		{`{"type":"record","name":"A","fields":[{"name":"x"}]}`, `field "x": a type is missing`},
		{`{"type":"record","fields":[]}`, "no name"},
		{`{"type":"record","name":"A","fields":[{"name":"x","type":{"type":"fixed","name":"F","size":-1}}]}`, "size -1"},
		{`{"type":"record","name":"A","fields":[{"name":"x","type":{"type":"enum","name":"A","symbols":[]}}]}`, "twice"},
		{`{"type":"record","name":"A","fields":`, "unexpected end"},
		{`[]`, "not that of a record"},
		{`{"type":"record","name":"A","fields":[{"name":"x","type":` + strings.Repeat(`{"type":`, 5000) + `"int"` + strings.Repeat("}", 5001) + `]}`, "nested too deep"},
		{`{"type":"record","name":"A","fields":[{"name":"x","type":` + strings.Repeat(`{"type":"array","items":`, 100) + `{"type":"enum","name":"E","symbols":["` + strings.Repeat(`a","`, 50_000) + `b"]}` + strings.Repeat("}", 101) + `]}`, "long are nested too deep"},
		{`{"type":"record","name":"A","fields":[` + strings.Repeat(`{"name":"x","type":"int"},`, maxTypes) + `{"name":"y","type":"int"}]}`, "more than 20000 types"},
		{`{"type":"record","name":"A","fields":[{"name":"x","type":{"type":"enum","name":"E","symbols":["` + strings.Repeat("a", maxSymbol+1) + `"]}}]}`, "1025 bytes long"},
		{strings.Repeat(" ", maxText) + `"string"`, "the schema is 2097160 bytes long"},
	} {
		if _, err := Parse([]byte(c.schema)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.100s: %v, want %s", c.schema, err, c.want)
		}
	}
}

// A default that does not fit decides nothing about the binary form.
func TestCarelessSchema(t *testing.T) {
	const text = `{"type":"record","name":"A","fields":[{"name":"x y","type":"string","default":null,"doc":7}]}`
	if _, err := avro.Parse(text); err == nil {
		t.Error("a strict reader takes it")
	}
	s, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bothWays(t, s, nil, []byte("\x02a")); string(line) != `{"x y":"a"}` {
		t.Errorf("%s, %v", line, err)
	}
}

// Two schemas of one namespace have types of one name; each keeps its own.
func TestNamesStayApart(t *testing.T) {
	parse := func(inner string) *Schema {
		s, err := Parse(fmt.Appendf(nil, `{"type":"record","name":"E","namespace":"com.sforce.eventbus","fields":[
			{"name":"a","type":{"type":"record","name":"Address","fields":[{"name":"x","type":%q}]}},
			{"name":"b","type":["null","Address"]},{"name":"c","type":["null","com.sforce.eventbus.Address"]}]}`, inner))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	one, other := parse("string"), parse("int")
	for s, c := range map[*Schema][2]string{
		one:   {"\x02q\x02\x02r\x00", `{"a":{"x":"q"},"b":{"x":"r"},"c":null}`},
		other: {"\x02\x02\x04\x02\x06", `{"a":{"x":1},"b":{"x":2},"c":{"x":3}}`},
	} {
		if line, err := bothWays(t, s, nil, []byte(c[0])); string(line) != c[1] {
			t.Errorf("%s, %v; want %s", line, err, c[1])
		}
	}
	if one.Name() != "E" {
		t.Errorf("the name is %s", one.Name())
	}
}

// Old schemas of change events give an inner type the null namespace.
func TestNullNamespace(t *testing.T) {
	s, err := Parse([]byte(`{"type":"record","name":"E","namespace":"n","fields":[
		{"name":"a","type":{"type":"enum","name":"C","namespace":"","symbols":["X"]}},{"name":"b","type":"C"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bothWays(t, s, nil, []byte{0, 0}); string(line) != `{"a":"X","b":"X"}` {
		t.Errorf("%s, %v", line, err)
	}
}

func TestHeaderInAUnion(t *testing.T) {
	s, err := Parse([]byte(`{"type":"record","name":"XChangeEvent","fields":[
		{"name":"ChangeEventHeader","type":["null",{"type":"record","name":"H","fields":[
			{"name":"commitTimestamp","type":["null","long"]},
			{"name":"changedFields","type":["null",{"type":"array","items":"string"}]}]}]},
		{"name":"Name","type":["null","string"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	d := NewDecoder(s)
	line, err := d.Decode(nil, []byte("\x02\x02\x80\xba\xce\xe6\xe6\x67\x02\x02\x080x02\x00\x00"))
	if at, ok := d.CommitTime(); err != nil || !ok || string(line) != fmt.Sprintf(`{"ChangeEventHeader":{"commitTimestamp":%d,"changedFields":["Name"]},"Name":null}`, at/1e6) {
		t.Errorf("%s, %v, %d", line, err, at)
	}
	if line, err = d.Decode(nil, []byte{0, 0}); string(line) != `{"ChangeEventHeader":null,"Name":null}` {
		t.Errorf("%s, %v", line, err)
	}
	if _, ok := d.CommitTime(); ok {
		t.Error("no header has a time")
	}
}

func TestTime(t *testing.T) {
	at := time.Date(2026, 7, 1, 10, 0, 0, 123e6, time.UTC)
	for _, c := range []struct {
		typ   string
		value any
		want  time.Time // zero: none
	}{
		{`"long"`, at.UnixMilli(), at},
		{`"long"`, at.Unix(), at.Truncate(time.Second)},
		{`"long"`, at.UnixMicro(), at},
		{`"long"`, int64(0), time.Time{}},
		{`"long"`, int64(-5), time.Time{}},
		{`"long"`, int64(1) << 62, time.Time{}},
		{`["null","long"]`, nil, time.Time{}},
		{`["null","long"]`, at.UnixMilli(), at},
		{`"double"`, float64(at.UnixMilli()), at},
		{`"double"`, 1e300, time.Time{}},
		{`"string"`, "2026-07-01T10:00:00.123Z", at},
		{`"string"`, "2026-07-01T12:00:00.123+0200", at},
		{`"string"`, "yesterday", time.Time{}},
		{`"string"`, "9999-12-31T00:00:00Z", time.Time{}},
		{`"string"`, "1600-01-01T00:00:00.000+0000", time.Time{}},
		{`{"type":"long","logicalType":"timestamp-micros"}`, at.UnixMicro(), at},
		{`{"type":"long","logicalType":"timestamp-millis"}`, at.UnixMilli(), at},
		{`["null",{"type":"long","logicalType":"timestamp-nanos"}]`, at.UnixNano(), at},
		{`{"type":"long","logicalType":"timestamp-micros"}`, int64(1), time.Time{}},
	} {
		text := `{"type":"record","name":"R","fields":[{"name":"v","type":` + c.typ + `}]}`
		oracle, err := avro.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		payload, err := oracle.Encode(map[string]any{"v": c.value})
		if err != nil {
			t.Fatalf("%s %v: %v", c.typ, c.value, err)
		}
		s, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		d := NewDecoder(s)
		if _, err := d.Decode(nil, payload); err != nil {
			t.Fatal(err)
		}
		got, ok := d.Time(0)
		if ok == c.want.IsZero() || ok && got != c.want.UnixNano() {
			t.Errorf("%v of %s is %v, %v; want %v", c.value, c.typ, time.Unix(0, got).UTC(), ok, c.want)
		}
	}
}

// A time of an event is the one that package time reads in it.
func FuzzParseTime(f *testing.F) {
	for _, s := range []string{"2026-07-01T10:00:00.123Z", "2026-07-01T12:00:00.123+0200", "2026-07-01T12:00:00+02:00", "9999-12-31T00:00:00Z", "1600-01-01T00:00:00.000+0000", "2026-02-30T00:00:00Z", "2026-07-01", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, ok := parseTime(text)
		if !ok {
			return
		}
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999Z0700"} {
			if want, err := time.Parse(layout, string(text)); err == nil && want.Equal(time.Unix(0, got)) {
				return
			}
		}
		t.Fatalf("%q is %v", text, time.Unix(0, got).UTC())
	})
}

// wide is the schema of an event with 40 fields, most of them optional, and a
// payload of it.
func wide(t testing.TB) (*Schema, []byte) {
	fields := []map[string]any{{"name": "CreatedDate", "type": "long"}, {"name": "CreatedById", "type": "string"}}
	value := map[string]any{"CreatedDate": int64(1782900000523), "CreatedById": "005xx000001Sv6AAAS"}
	for i := range 38 {
		name, typ := fmt.Sprintf("Field_%d__c", i), "string"
		var v any = fmt.Sprintf("value %d of it", i)
		switch i % 8 {
		case 1:
			typ, v = "long", int64(1782900000000+i)
		case 3:
			typ, v = "double", 3.25
		case 5:
			typ, v = "boolean", true
		case 6:
			v = nil
		}
		fields = append(fields, map[string]any{"name": name, "type": []string{"null", typ}})
		value[name] = v
	}
	text, err := json.Marshal(map[string]any{"type": "record", "name": "Wide", "fields": fields})
	if err != nil {
		t.Fatal(err)
	}
	oracle, err := avro.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	payload, err := oracle.Encode(value)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s, payload
}

func TestDecodeAllocatesNothing(t *testing.T) {
	s, payload := wide(t)
	d := NewDecoder(s)
	change := NewDecoder(fixtureSchema(t, "AccountChangeEvent"))
	event := fixtureEvents(t, "AccountChangeEvent")[0].Payload
	buf := make([]byte, 0, 16<<10)
	for name, decode := range map[string]func(){
		"wide": func() {
			if _, err := d.Decode(buf, payload); err != nil {
				t.Fatal(err)
			}
			d.Time(0)
		},
		"change": func() {
			if _, err := change.Decode(buf, event); err != nil {
				t.Fatal(err)
			}
			change.CommitTime()
		},
	} {
		if n := testing.AllocsPerRun(100, decode); n > 0 {
			t.Errorf("%s: %v allocations per event", name, n)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	s, payload := wide(b)
	d := NewDecoder(s)
	var buf []byte
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	for b.Loop() {
		line, err := d.Decode(buf[:0], payload)
		if err != nil {
			b.Fatal(err)
		}
		buf = line
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkDecodeChange(b *testing.B) {
	d := NewDecoder(fixtureSchema(b, "AccountChangeEvent"))
	payload := fixtureEvents(b, "AccountChangeEvent")[0].Payload
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		line, err := d.Decode(buf[:0], payload)
		if err != nil {
			b.Fatal(err)
		}
		buf = line
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
