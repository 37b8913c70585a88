package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"sf2loki/pkg/sysexits"
)

const login = `{"ts":"2026-07-01T20:00:00.000000000Z","ts_unix_nano":1782936000000000000,` +
	`"labels":{"source":"eventlogfile","event_type":"Login"},"structured_metadata":{"level":"info"},` +
	`"line":"{\"EVENT_TYPE\":\"Login\"}","checkpoint_key":"eventlogfile:Login","checkpoint_value":"tok","origin":"0AT:1"}` + "\n"

// clone copies what a Reader lends.
func clone(rec *Record) Record {
	c := *rec
	for _, b := range []*[]byte{&c.Line, &c.EscapedLine, &c.Key, &c.Value, &c.EscapedValue, &c.Origin, &c.Account, &c.Run,
		&c.Reason, &c.DeadLetter, &c.PayloadBase64, &c.SchemaID, &c.Raw} {
		*b = bytes.Clone(*b)
	}
	c.Labels, c.Metadata = clonePairs(rec.Labels), clonePairs(rec.Metadata)
	return c
}

func clonePairs(pairs []Pair) []Pair {
	if pairs == nil {
		return nil
	}
	c := make([]Pair, 0, len(pairs))
	for _, p := range pairs {
		c = append(c, Pair{bytes.Clone(p.Name), bytes.Clone(p.Value)})
	}
	return c
}

// readAll reads to the end; an object that is no record is among the errors,
// in its place.
func readAll(r io.Reader) (recs []Record, errs []error) { return readFrom(NewReader(r)) }

func readFrom(reader *Reader) (recs []Record, errs []error) {
	for {
		var rec Record
		err := reader.Read(&rec)
		var invalid *InvalidError
		if err == nil || errors.As(err, &invalid) {
			recs, errs = append(recs, clone(&rec)), append(errs, err)
			continue
		}
		return recs, append(errs, err)
	}
}

func one(t *testing.T, text string) (Record, error) {
	t.Helper()
	var rec Record
	err := NewReader(strings.NewReader(text)).Read(&rec)
	return rec, err
}

// show prints a record, nil and empty apart.
func show(rec *Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "time=%d,%v only=%v", rec.Time, rec.HasTime, rec.CheckpointOnly)
	for _, f := range []struct {
		name string
		v    []byte
	}{{"line", rec.Line}, {"key", rec.Key}, {"value", rec.Value}, {"origin", rec.Origin}, {"account", rec.Account},
		{"run", rec.Run}, {"reason", rec.Reason}, {"dead_letter", rec.DeadLetter}, {"payload", rec.PayloadBase64}, {"schema", rec.SchemaID}} {
		if f.v != nil {
			fmt.Fprintf(&b, " %s=%q", f.name, f.v)
		}
	}
	if rec.Labels != nil {
		fmt.Fprintf(&b, " labels=%q", rec.Labels)
	}
	if rec.Metadata != nil {
		fmt.Fprintf(&b, " metadata=%q", rec.Metadata)
	}
	return b.String()
}

func TestReadRecord(t *testing.T) {
	rec, err := one(t, login)
	if err != nil {
		t.Fatal(err)
	}
	want := `time=1782936000000000000,true only=false line="{\"EVENT_TYPE\":\"Login\"}" key="eventlogfile:Login" value="tok"` +
		` origin="0AT:1" labels=[{"source" "eventlogfile"} {"event_type" "Login"}] metadata=[{"level" "info"}]`
	if got := show(&rec); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := string(rec.Raw); got != strings.TrimSuffix(login, "\n") {
		t.Errorf("raw %s", got)
	}
}

// What a record may look like, and what makes it none.
func TestReadMeaning(t *testing.T) {
	const head = `{"ts":"2026-07-01T20:00:00Z","labels":{"a":"b"},"line":"x"`
	const base = "time=1782936000000000000,true only=false"
	for _, tc := range []struct{ name, in, want, fault string }{
		{"fields", head + `}`, base + ` line="x" labels=[{"a" "b"}]`, ""},
		{"nulls are absent", head + `,"structured_metadata":null,"checkpoint_key":null,"checkpoint_value":null,"origin":null,"checkpoint_only":null,"account":null,"run":null,"reason":null,"dead_letter":null,"payload_base64":null,"schema_id":null,"ts_unix_nano":null}`, base + ` line="x" labels=[{"a" "b"}]`, ""},
		{"empty is not absent", head + `,"structured_metadata":{},"checkpoint_key":"","checkpoint_value":""}`, base + ` line="x" key="" value="" labels=[{"a" "b"}] metadata=[]`, ""},
		{"a null label is absent", head + `,"labels":{"a":"b","c":null}}`, base + ` line="x" labels=[{"a" "b"}]`, ""},
		{"last of a key wins", head + `,"line":"y"}`, base + ` line="y" labels=[{"a" "b"}]`, ""},
		{"last labels win", head + `,"labels":{"c":"d"}}`, base + ` line="x" labels=[{"c" "d"}]`, ""},
		{"last null wins", head + `,"line":null}`, base + ` labels=[{"a" "b"}]`, "the record has no line"},
		{"labels keep repeats", head + `,"labels":{"a":"1","a":"2"}}`, base + ` line="x" labels=[{"a" "1"} {"a" "2"}]`, ""},
		{"escaped key", `{"ts":"2026-07-01T20:00:00Z","\u006cabels":{"\u0061":"b"},"line":"x"}`, base + ` line="x" labels=[{"a" "b"}]`, ""},
		{"keys are exact", head + `,"LINE":"y","Ts":5}`, base + ` line="x" labels=[{"a" "b"}]`, ""},
		{"unknown fields", head + `,"z":[1,-2.5e+3,{"a":[[],{}]},true,false,null,"\u00e9\n"]}`, base + ` line="x" labels=[{"a" "b"}]`, ""},
		{"escapes", head + `,"line":"\"\\\/\b\f\n\r\t\u00e9\u20ac\ud83d\ude00"}`, base + ` line="\"\\/\b\f\n\r\té€😀" labels=[{"a" "b"}]`, ""},
		{"lone surrogates", head + `,"line":"\ud800 \udc00\ud800\ud800\ude00x\ud800"}`, base + ` line="� ��\U00010200x�" labels=[{"a" "b"}]`, ""},
		{"invalid UTF-8", head + ",\"line\":\"a\xffb\xc3\",\"origin\":\"\xe2\x82\\n\"}", base + ` line="a�b�" origin="��\n" labels=[{"a" "b"}]`, ""},
		{"DEL and U+2028 are plain", head + ",\"line\":\"\x7f\u2028\"}", base + ` line="\x7f\u2028" labels=[{"a" "b"}]`, ""},

		{"integer alone", `{"ts_unix_nano":1782936000000000001,"labels":{"a":"b"},"line":""}`, `time=1782936000000000001,true only=false line="" labels=[{"a" "b"}]`, ""},
		{"integer in quotes", `{"ts_unix_nano":"1782936000000000001","labels":{"a":"b"},"line":""}`, `time=1782936000000000001,true only=false line="" labels=[{"a" "b"}]`, ""},
		{"exponent", `{"ts_unix_nano":1.782936e+18,"labels":{"a":"b"},"line":""}`, `time=1782936000000000000,true only=false line="" labels=[{"a" "b"}]`, ""},
		{"before the epoch", `{"ts_unix_nano":-1,"labels":{"a":"b"},"line":""}`, `time=-1,true only=false line="" labels=[{"a" "b"}]`, ""},
		{"1 us apart", head + `,"ts_unix_nano":1782936000000001000}`, base + ` line="x" labels=[{"a" "b"}]`, ""},
		{"1 us apart, below", head + `,"ts_unix_nano":1782935999999999000}`, base + ` line="x" labels=[{"a" "b"}]`, ""},
		{"more apart", head + `,"ts_unix_nano":1782936000000001001}`, `time=0,false only=false line="x" labels=[{"a" "b"}]`, "ts and ts_unix_nano are different times"},
		{"more apart, below", head + `,"ts_unix_nano":1782935999999998999}`, `time=0,false only=false line="x" labels=[{"a" "b"}]`, "ts and ts_unix_nano are different times"},
		{"far apart", head + `,"ts_unix_nano":-9223372036854775808}`, `time=0,false only=false line="x" labels=[{"a" "b"}]`, "ts and ts_unix_nano are different times"},
		{"beyond 64 bits", `{"ts_unix_nano":9223372036854775808,"labels":{"a":"b"},"line":""}`, `time=0,false only=false line="" labels=[{"a" "b"}]`, `ts_unix_nano: "9223372036854775808" is not an integer of 64 bits`},
		{"part of a nanosecond", `{"ts_unix_nano":1.5,"labels":{"a":"b"},"line":""}`, `time=0,false only=false line="" labels=[{"a" "b"}]`, `ts_unix_nano: "1.5" is not an integer of 64 bits`},
		{"no time in the text", `{"ts":"yesterday","labels":{"a":"b"},"line":""}`, `time=0,false only=false line="" labels=[{"a" "b"}]`, `ts: "yesterday" is no RFC 3339 time`},
		{"year 2300", `{"ts":"2300-01-01T00:00:00Z","labels":{"a":"b"},"line":""}`, `time=0,false only=false line="" labels=[{"a" "b"}]`, `ts: "2300-01-01T00:00:00Z" is outside the years 1678 to 2261`},
		{"ts a number", `{"ts":1782936000,"labels":{"a":"b"},"line":""}`, `time=0,false only=false line="" labels=[{"a" "b"}]`, "ts is not a string"},

		{"no labels", `{"ts":"2026-07-01T20:00:00Z","line":"x"}`, base + ` line="x"`, "the record has no labels"},
		{"empty labels", `{"ts":"2026-07-01T20:00:00Z","labels":{},"line":"x"}`, base + ` line="x" labels=[]`, "the record has no labels"},
		{"no time", `{"labels":{"a":"b"},"line":"x"}`, `time=0,false only=false line="x" labels=[{"a" "b"}]`, "the record has no ts and no ts_unix_nano"},
		{"no line", `{"ts":"2026-07-01T20:00:00Z","labels":{"a":"b"}}`, base + ` labels=[{"a" "b"}]`, "the record has no line"},
		{"empty object", `{}`, `time=0,false only=false`, "the record has no line"},
		{"label of a wrong type", head + `,"labels":{"a":1}}`, base + ` line="x" labels=[]`, "a value of labels or structured_metadata is not a string"},
		{"labels of a wrong type", head + `,"labels":["a"]}`, base + ` line="x" labels=[{"a" "b"}]`, "labels is not an object"},
		{"line of a wrong type, key after it", `{"line":{"a":1},"checkpoint_key":"k","checkpoint_value":"v"}`, `time=0,false only=false key="k" value="v"`, "line is not a string"},
		{"flag of a wrong type", `{"checkpoint_only":"yes"}`, `time=0,false only=false`, "checkpoint_only is not true or false"},
		{"run of a wrong type", `{"checkpoint_only":true,"run":1}`, `time=0,false only=true`, "run is not an object"},

		{"checkpoint only", `{"checkpoint_only":true,"checkpoint_key":"k","checkpoint_value":"v"}`, `time=0,false only=true key="k" value="v"`, ""},
		{"run line", `{"checkpoint_only":true,"run":{"program":"sf-pull"}}`, `time=0,false only=true run="{\"program\":\"sf-pull\"}"`, ""},
		{"account", `{"checkpoint_only":true,"account":{"rows":1 }}`, `time=0,false only=true account="{\"rows\":1 }"`, ""},
		{"letter without a line", `{"reason":"source_gap","payload_base64":"AA==","schema_id":"s","dead_letter":{"v":1}}`, `time=0,false only=false reason="source_gap" dead_letter="{\"v\":1}" payload="AA==" schema="s"`, ""},
		{"letter with a line is a record", head + `,"reason":"too_old","truncated":false}`, base + ` line="x" reason="too_old" labels=[{"a" "b"}]`, ""},
		{"letter with a line and no labels", `{"ts":"2026-07-01T20:00:00Z","line":"x","reason":"invalid_record"}`, base + ` line="x" reason="invalid_record"`, "the record has no labels"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rec, err := one(t, " "+tc.in+"\n")
			var invalid *InvalidError
			switch {
			case tc.fault == "" && err != nil:
				t.Error(err)
			case tc.fault != "" && (!errors.As(err, &invalid) || invalid.Text != tc.fault):
				t.Errorf("error %v, want %s", err, tc.fault)
			}
			if got := show(&rec); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if string(rec.Raw) != tc.in {
				t.Errorf("raw %q", rec.Raw)
			}
		})
	}
}

// Framing: how a stream ends, and where its faults are.
func TestReadFraming(t *testing.T) {
	const a, b = `{"checkpoint_only":true,"checkpoint_key":"a"}`, `{"checkpoint_only":true,"checkpoint_key":"b"}`
	deep := strings.Repeat(`{"a":[`, 4999)
	closed := strings.Repeat(`]}`, 4999)
	for _, tc := range []struct{ name, in, keys, err string }{
		{"nothing", "", "", "EOF"},
		{"white space", " \t\r\n\n ", "", "EOF"},
		{"lines", a + "\n" + b + "\n", "ab", "EOF"},
		{"CR LF", a + "\r\n" + b + "\r\n", "ab", "EOF"},
		{"blank lines", "\n\n" + a + "\n\n  \n" + b + "\n\t", "ab", "EOF"},
		{"two in a line", a + " " + b + "\n", "ab", "EOF"},
		{"nothing between", a + b + "\n", "ab", "EOF"},
		{"white space inside", "{\n \"checkpoint_only\"\n:\ttrue \r\n,\"checkpoint_key\"\n:\n\"a\"\n}\n", "a", "EOF"},
		{"torn inside", a + "\n" + b[:20], "a", "74 line 2, byte 46: input ends inside this object or before its line feed: unexpected EOF"},
		{"torn after a line feed", a + "\n{\n", "a", "74 line 2, byte 46: input ends inside this object or before its line feed: unexpected EOF"},
		{"no line feed", a + "\n" + b, "a", "74 line 2, byte 46: input ends inside this object or before its line feed: unexpected EOF"},
		{"no line feed behind two", a + " " + b, "", "74 line 1, byte 0: input ends inside this object or before its line feed: unexpected EOF"},
		{"text", a + "\nhello\n", "a", `65 line 2, byte 46: 'h' is not the beginning of a JSON object`},
		{"a byte order mark", "\xef\xbb\xbf" + a + "\n", "", `65 line 1, byte 0: 'ï' begins a byte order mark, which the stream has none of: write UTF-8 without it`},
		{"half a byte order mark", "\xef\xbb", "", `65 line 1, byte 0: 'ï' is not the beginning of a JSON object`},
		{"text without a line feed", a + "\n hello", "a", `65 line 2, byte 47: 'h' is not the beginning of a JSON object`},
		{"an array", "[]\n", "", `65 line 1, byte 0: '[' is not the beginning of a JSON object`},
		{"text behind", a + " x\n", "a", `65 line 1, byte 46: 'x' is not the beginning of a JSON object`},
		{"brace behind", a + "}\n", "a", `65 line 1, byte 45: '}' is not the beginning of a JSON object`},
		{"no colon", "{\n \"a\" 1}\n", "", `65 line 2, byte 7: '1' after a name, not a colon`},
		{"no name", "{1:2}\n", "", `65 line 1, byte 1: '1' where a name in quotes should begin`},
		{"comma at the end", `{"a":1,}` + "\n", "", `65 line 1, byte 7: '}' where a name in quotes should begin`},
		{"no comma", `{"a":1 "b":2}` + "\n", "", `65 line 1, byte 7: '"' after a member of an object`},
		{"no comma in an array", `{"a":[1 2]}` + "\n", "", `65 line 1, byte 8: '2' after a value`},
		{"comma at an array's end", `{"a":[1,]}` + "\n", "", `65 line 1, byte 8: ']' where a value should begin`},
		{"wrong bracket", `{"a":[1}` + "\n", "", `65 line 1, byte 7: '}' after a value`},
		{"bad word", `{"a":nul}` + "\n", "", `65 line 1, byte 8: '}' inside the word null`},
		{"bad number", `{"a":01}` + "\n", "", `65 line 1, byte 6: '1' after a member of an object`},
		{"bad fraction", `{"a":1.}` + "\n", "", `65 line 1, byte 7: '}' inside a number`},
		{"bad exponent", `{"a":1e+}` + "\n", "", `65 line 1, byte 8: '}' inside a number`},
		{"bad sign", `{"a":-}` + "\n", "", `65 line 1, byte 6: '}' inside a number`},
		{"bad escape", `{"a":"\q"}` + "\n", "", `65 line 1, byte 7: 'q' after a backslash`},
		{"bad escape in a line", `{"line":"\q"}` + "\n", "", `65 line 1, byte 10: 'q' after a backslash`},
		{"bad hex", `{"line":"\u00g0"}` + "\n", "", `65 line 1, byte 10: 'u' after a backslash`},
		{"short hex", `{"a":"\u00` + "\n", "", `65 line 1, byte 7: 'u' after a backslash`},
		{"raw line feed", `{"line":"a` + "\n" + `b"}` + "\n", "", `65 line 1, byte 10: '\n' is raw inside a string`},
		{"raw tab", `{"line":"a\n` + "\t" + `b"}` + "\n", "", `65 line 1, byte 12: '\t' is raw inside a string`},
		{"raw NUL", `{"a":"` + "\x00" + `"}` + "\n", "", `65 line 1, byte 6: '\x00' is raw inside a string`},
		{"deep enough", `{"checkpoint_only":true,"checkpoint_key":"a","x":` + deep + "1" + closed + "}\n", "a", "EOF"},
		{"too deep", `{"x":` + deep + "[[]]" + closed + "}\n", "", `65 line 1, byte 30000: '[' nests too deeply`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for name, r := range pieces(tc.in) {
				recs, errs := readAll(r)
				keys := ""
				for i, rec := range recs {
					if errs[i] != nil {
						t.Errorf("%s: %v", name, errs[i])
					}
					keys += string(rec.Key)
				}
				err := errs[len(errs)-1]
				text := err.Error()
				if err != io.EOF {
					text = fmt.Sprint(int(sysexits.Of(err)), " ", text)
				}
				if keys != tc.keys || text != tc.err {
					t.Errorf("%s: keys %q, error %s\nwant %q, %s", name, keys, text, tc.keys, tc.err)
				}
				if torn := strings.HasPrefix(tc.err, "74"); torn != errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("%s: is unexpected EOF: %v", name, !torn)
				}
			}
		})
	}
}

// pieces yields readers of s that deliver it in different ways.
func pieces(s string) map[string]io.Reader {
	return map[string]io.Reader{
		"whole":        strings.NewReader(s),
		"bytes":        iotest.OneByteReader(strings.NewReader(s)),
		"halves":       iotest.HalfReader(strings.NewReader(s)),
		"data and EOF": iotest.DataErrReader(strings.NewReader(s)),
	}
}

// An error is for good.
// What a reader would have to remember is bounded: the rest of such a record is
// read, and it is none.
func TestReadSizes(t *testing.T) {
	run := func(n int) string { return `{"program":"p","run_id":"` + strings.Repeat("r", n) + `"}` }
	for _, tc := range []struct {
		name, field string
		want        string
	}{
		{"key", `"checkpoint_value":"v","checkpoint_key":"` + strings.Repeat("k", MaxKey) + `"`, ""},
		{"long key", `"checkpoint_value":"v","checkpoint_key":"` + strings.Repeat("k", MaxKey+1) + `"`, "checkpoint_key is longer than 4096 bytes"},
		{"value", `"checkpoint_key":"k","checkpoint_value":"` + strings.Repeat("v", MaxValue) + `"`, ""},
		{"long value", `"checkpoint_key":"k","checkpoint_value":"` + strings.Repeat("v", MaxValue+1) + `"`, "checkpoint_value is longer than 65536 bytes"},
		{"run", `"run":` + run(MaxKey-30), ""},
		{"long run id", `"run":` + run(MaxKey), "run is longer than 4096 bytes"},
	} {
		for _, escaped := range []bool{false, true} {
			r := NewReader(strings.NewReader(`{"checkpoint_only":true,` + tc.field + "}\n"))
			if escaped {
				r.LeaveValues()
			}
			recs, errs := readFrom(r)
			var invalid *InvalidError
			switch rec := recs[0]; {
			case tc.want == "" && errs[0] != nil:
				t.Errorf("%s: %v", tc.name, errs[0])
			case tc.want != "" && (!errors.As(errs[0], &invalid) || invalid.Text != tc.want):
				t.Errorf("%s: %v", tc.name, errs[0])
			case len(rec.Key) > MaxKey || len(rec.Run) > MaxKey || len(rec.Value)+len(rec.EscapedValue) > MaxValue || len(rec.Raw) == 0:
				t.Errorf("%s: is still there", tc.name)
			}
		}
	}
}

func TestReadErrorStays(t *testing.T) {
	r := NewReader(strings.NewReader("x\n" + login))
	var rec Record
	first := r.Read(&rec)
	if second := r.Read(&rec); first == nil || second != first {
		t.Errorf("%v, then %v", first, second)
	}
	broken := errors.New("broken")
	r = NewReader(io.MultiReader(strings.NewReader(login), iotest.ErrReader(broken)))
	if err := r.Read(&rec); err != nil {
		t.Fatal(err)
	}
	if err := r.Read(&rec); !errors.Is(err, broken) || sysexits.Of(err) != sysexits.IOErr || rec.Raw != nil {
		t.Errorf("%v, exit status %d", err, sysexits.Of(err))
	}
}

// An object of as many bytes as the limit passes, one more does not, whatever
// the pieces.
func TestReadLimit(t *testing.T) {
	object := `{"checkpoint_only":true,"checkpoint_key":"k","pad":"` + strings.Repeat("x", 100) + `"}`
	pretty := strings.ReplaceAll(object, ",", ",\n")
	for _, tc := range []struct {
		name, in string
		limit    int
		ok       bool
	}{
		{"as long", object + "\n", len(object), true},
		{"longer", object + "\n", len(object) - 1, false},
		{"pretty, as long", pretty + "\n", len(pretty), true},
		{"pretty, longer", pretty + "\n", len(pretty) - 1, false},
		{"blanks behind it count", object + strings.Repeat(" ", 50) + "\n", len(object) + 49, false},
		{"blanks behind it within", object + strings.Repeat(" ", 50) + "\n", len(object) + 50, true},
		{"blanks before it do not", strings.Repeat(" ", 500) + object + "\n", len(object), true},
		{"no end at all", object[:100], 99, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for name, src := range pieces(tc.in + tc.in) {
				r := NewReader(src)
				r.SetLimit(tc.limit)
				var rec Record
				err := r.Read(&rec)
				var syntax *SyntaxError
				if tc.ok && err != nil || !tc.ok && !errors.As(err, &syntax) {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

// A record comes out as soon as its line feed is in: the writer of the pipe
// waits for us meanwhile.
func TestReadDoesNotWait(t *testing.T) {
	pr, pw := io.Pipe()
	r := NewReader(pr)
	var rec Record
	for _, text := range []string{login, "{\n\"checkpoint_only\":true,\n\"checkpoint_key\":\"k\"\n}\n", login} {
		go func() { _, _ = io.WriteString(pw, text) }()
		if err := r.Read(&rec); err != nil {
			t.Fatal(err)
		}
	}
	go pw.Close()
	if err := r.Read(&rec); err != io.EOF {
		t.Fatal(err)
	}
}

// Objects larger than the buffer, and smaller ones around them, keep all that
// was read of them before they moved.
func TestReadLargeObjects(t *testing.T) {
	var in bytes.Buffer
	var want []string
	for i, size := range []int{10, 70_000, 10, 3 << 20, 200_000, 20, 65_000, 65_536, 1 << 20, 5} {
		line := strings.Repeat(string(rune('a'+i))+`"\n`, size/3)
		rec := Record{HasTime: true, Time: int64(i), Labels: []Pair{{[]byte("n"), []byte(line[:3])}}, Line: []byte(line), Key: []byte("k")}
		want = append(want, show(&rec))
		text := AppendRecord(nil, &rec)
		if i%2 == 1 {
			text = bytes.ReplaceAll(text, []byte(`","`), []byte("\",\r\n \""))
		}
		in.Write(text)
	}
	for name, r := range pieces(in.String()) {
		if name == "bytes" {
			r = iotest.HalfReader(iotest.HalfReader(bytes.NewReader(in.Bytes())))
		}
		recs, errs := readAll(r)
		if len(recs) != len(want) || errs[len(errs)-1] != io.EOF {
			t.Fatalf("%s: %d records, %v", name, len(recs), errs[len(errs)-1])
		}
		for i := range recs {
			if got := show(&recs[i]); got != want[i] {
				t.Errorf("%s: record %d differs: %.100s", name, i, got)
			}
		}
	}
}
