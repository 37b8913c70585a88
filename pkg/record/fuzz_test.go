package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"sf2loki/pkg/errtest"
)

var seeds = []string{
	login, "{}", "{}\n{\n}\n", "[]\n", "{\"a\":[1,{\"b\":null}]}\n", `{"line":"\ud83d\ude00\ud800"}` + "\n", "{\"line\":\"\xff\"}\n",
	`{"ts_unix_nano":1.782936e+18,"labels":{"a":"b"},"line":"x","z":[[],{},-0.5E-3,true,false,null]}` + "\n",
	`{"checkpoint_only":true,"run":{"program":"p"}}` + "\n", `{"checkpoint_key":"k","delivered":1,"account":{"rows":2}}` + "\n",
	`{"labels":{"a":"b"},"structured_metadata":{"c":null,"d":""},"checkpoint_value":"{\"\u00e9\":1}"}` + "\n",
	`{"reason":"x","dead_letter":{"id":"1","errors":[{"at":"2026-07-01T20:00:00Z"}],"new":[1]}}` + "\n", "{\"a\":1 \x00}\n", "{\"a\u00e9\\u0000\":0}",
}

// frames reads the objects of in as encoding/json sees them: those that a line
// feed follows, up to the first fault.
func frames(in []byte) (objects [][]byte, end error) {
	whole := in[:bytes.LastIndexByte(in, '\n')+1]
	rest := whole
	for {
		rest = bytes.TrimLeft(rest, " \t\r\n")
		if len(rest) == 0 {
			break
		}
		if rest[0] != '{' {
			return objects, errors.New("no object")
		}
		dec := json.NewDecoder(bytes.NewReader(rest))
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				return objects, io.ErrUnexpectedEOF
			}
			return objects, err
		}
		objects = append(objects, v)
		rest = rest[dec.InputOffset():]
	}
	switch tail := bytes.TrimLeft(in[len(whole):], " \t\r\n"); {
	case len(tail) == 0:
		return objects, io.EOF
	case tail[0] == '{':
		return objects, io.ErrUnexpectedEOF
	}
	return objects, errors.New("no object")
}

// The reader frames, refuses and decodes as encoding/json does.
func FuzzReader(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		objects, end := frames(in)
		recs, errs := readAll(bytes.NewReader(in))
		if len(recs) != len(objects) {
			t.Fatalf("%d objects, encoding/json finds %d; %v, %v", len(recs), len(objects), errs[len(errs)-1], end)
		}
		err := errs[len(errs)-1]
		var syntax *SyntaxError
		if (end == io.EOF) != (err == io.EOF) || errors.Is(end, io.ErrUnexpectedEOF) != errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("ends with %v, encoding/json with %v", err, end)
		}
		if end != io.EOF && !errors.Is(end, io.ErrUnexpectedEOF) && !errors.As(err, &syntax) {
			t.Fatalf("ends with %v, encoding/json with %v", err, end)
		}
		for i := range recs {
			if !bytes.Equal(recs[i].Raw, objects[i]) {
				t.Fatalf("object %d is %q, encoding/json finds %q", i, recs[i].Raw, objects[i])
			}
			compare(t, &recs[i], errs[i])
		}
		split, _ := readAll(&dribble{data: in})
		moved, _ := readFrom(cramped(&dribble{data: in}, 1))
		for i := range recs {
			if got, want := show(&split[i]), show(&recs[i]); got != want {
				t.Fatalf("in pieces: %s, whole: %s", got, want)
			}
			if got, want := show(&moved[i]), show(&recs[i]); got != want {
				t.Fatalf("in a small buffer: %s, whole: %s", got, want)
			}
		}
		if end == io.EOF {
			repeat(t, in, recs)
		}
	})
}

// repeat reads a stream three times in a row, as a reader that leaves tokens
// as they are: what is remembered of a record changes nothing in the next.
func repeat(t *testing.T, in []byte, recs []Record) {
	r := NewReader(bytes.NewReader(bytes.Repeat(in, 3)))
	r.LeaveValues()
	again, _ := readFrom(r)
	if len(again) != 3*len(recs) {
		t.Fatalf("%d records of three times %d", len(again), len(recs))
	}
	for i := range again {
		want := recs[i%len(recs)]
		if v := again[i].EscapedValue; v != nil {
			again[i].Value = unescapeLine(v)
		}
		if got, want := show(&again[i]), show(&want); got != want {
			t.Fatalf("repeated: %s, alone: %s", got, want)
		}
	}
}

// cramped returns a Reader whose buffer is too small at first, so that objects
// move while they are read.
func cramped(src io.Reader, size int) *Reader {
	r := NewReader(src)
	r.s.buf = make([]byte, size+pad)
	return r
}

// dribble delivers pieces of 1, 2, 3 bytes and so on.
type dribble struct {
	data []byte
	n    int
}

func (d *dribble) Read(p []byte) (int, error) {
	if len(d.data) == 0 {
		return 0, io.EOF
	}
	d.n++
	n := copy(p, d.data[:min(d.n%7+1, len(d.data))])
	d.data = d.data[n:]
	return n, nil
}

// compare checks the string fields of rec, and that what is written of it is
// read again.
func compare(t *testing.T, rec *Record, err error) {
	var fields map[string]any
	if jsonErr := json.Unmarshal(rec.Raw, &fields); jsonErr != nil {
		if strings.Contains(jsonErr.Error(), "cannot unmarshal number") {
			return // beyond a float
		}
		t.Fatal(jsonErr)
	}
	for name, got := range map[string][]byte{"line": rec.Line, "checkpoint_key": rec.Key, "checkpoint_value": rec.Value, "origin": rec.Origin, "reason": rec.Reason} {
		want, ok := fields[name].(string)
		if err == nil && (ok != (got != nil) || want != string(got)) {
			t.Fatalf("%s is %q, encoding/json says %q", name, got, want)
		}
	}
	for name, pairs := range map[string][]Pair{"labels": rec.Labels, "structured_metadata": rec.Metadata} {
		got, want := map[string]string{}, map[string]string{}
		for _, p := range pairs {
			got[string(p.Name)] = string(p.Value)
		}
		members, _ := fields[name].(map[string]any)
		for member, value := range members {
			if text, ok := value.(string); ok {
				want[member] = text
			}
		}
		if err == nil && !maps.Equal(got, want) {
			t.Fatalf("%s are %q, encoding/json says %q", name, got, want)
		}
	}
	letter := AppendLetter(nil, rec, &Letter{Reason: InvalidRecord, CapturedAt: time.Unix(1, 0)})
	if !json.Valid(letter) || !utf8.Valid(letter) || bytes.Count(letter, []byte{'\n'}) != 1 {
		t.Fatalf("letter %q", letter)
	}
	if err != nil {
		return
	}
	line := AppendRecord(nil, rec)
	if !json.Valid(line) || !utf8.Valid(line) || bytes.Count(line, []byte{'\n'}) != 1 {
		t.Fatalf("line %q", line)
	}
	var again Record
	if err := NewReader(bytes.NewReader(line)).Read(&again); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	back := AppendRecord(nil, &again)
	if !bytes.Equal(back, line) {
		t.Fatalf("written %s, read %s", line, back)
	}
}

// A letter keeps all members of its object that are not its envelope.
func FuzzLetter(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var rec Record
		err := NewReader(bytes.NewReader(append(bytes.TrimRight(in, "\n"), '\n'))).Read(&rec)
		var invalid *InvalidError
		if err != nil && !errors.As(err, &invalid) {
			return
		}
		var before, after map[string]json.RawMessage
		if json.Unmarshal(rec.Raw, &before) != nil {
			return
		}
		line := AppendLetter(nil, &rec, &Letter{Reason: InvalidRecord, CapturedAt: time.Unix(1, 0)})
		if err := json.Unmarshal(line, &after); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for name, value := range before {
			if isEnvelope([]byte(name)) {
				continue
			}
			var want bytes.Buffer
			if err := json.Compact(&want, value); err != nil {
				t.Fatal(err)
			}
			if got := after[name]; string(got) != string(appendValid(nil, want.Bytes())) {
				t.Fatalf("%s was %s and is %s", name, want.Bytes(), got)
			}
		}
		var letter Record
		if err := NewReader(bytes.NewReader(line)).Read(&letter); err != nil && !errors.As(err, &invalid) {
			t.Fatalf("%s: %v", line, err)
		}
		if _, err := ParseLetter(&letter); err != nil && rec.DeadLetter == nil {
			t.Fatalf("%s: %v", line, err)
		}
	})
}

func FuzzAckReader(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		objects, _ := frames(in)
		r := NewAckReader(bytes.NewReader(in))
		for i := 0; ; i++ {
			var a, again Ack
			err := r.Read(&a)
			var invalid *InvalidError
			if errors.As(err, &invalid) {
				continue
			}
			if err != nil {
				if i != len(objects) {
					t.Fatalf("%d objects, encoding/json finds %d: %v", i, len(objects), err)
				}
				return
			}
			if i < len(objects) {
				compareAck(t, &a, objects[i])
			}
			line := AppendAck(nil, &a)
			if err := NewAckReader(bytes.NewReader(line)).Read(&again); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if back := AppendAck(nil, &again); !bytes.Equal(line, back) {
				t.Fatalf("written %s, read %s", line, back)
			}
		}
	})
}

// compareAck sees to it that an acknowledgement says what its object does.
func compareAck(t *testing.T, a *Ack, object []byte) {
	t.Helper()
	var fields map[string]any
	if json.Unmarshal(object, &fields) != nil || a.Run != nil {
		return // numbers beyond a float
	}
	for name, got := range map[string]string{"checkpoint_key": a.Key, "checkpoint_value": a.Value} {
		if want, _ := fields[name].(string); got != want {
			t.Fatalf("%s of %s is %q", name, object, got)
		}
	}
	for name, got := range map[string]int64{"delivered": a.Delivered, "rejected": a.Rejected, "dropped": a.Dropped} {
		if want, _ := fields[name].(float64); float64(got) != want {
			t.Fatalf("%s of %s is %d", name, object, got)
		}
	}
}

// What runs and accounts say is the same after it was written again, and an
// account that is settled has all that it had.
func FuzzAccount(f *testing.F) {
	for _, s := range []string{
		`{"program":"sf-pull","run_id":"r","at":"2026-07-01T20:00:00Z","status":75}`, `{"program":"p","status":"0"}`, `{"at":"soon"}`, `{}`, `{"status":99999999999999999999}`, `{"status":` + strings.Repeat("7", 5000) + `}`, `{"rows":` + strings.Repeat("7", 5000) + `}`,
		`{"origin":"0AT","event_type":"Login","interval":"Hourly","log_date":"2026-07-01","bytes":2692,"rows":1000,"resumed_after":5,"filtered":1,"sampled_out":2,"skipped_duplicate":3,"dead_lettered":4,"delivered":998,"rejected":2,"dropped":0}`,
		`{"origin":"a\u0000\"","rows":-1,"delivered":7,"delivered":null,"more":[1, {"a":2}]}`, `{"rows":1.5}`, `{"rejected":1}`, `{"dropped":1,"x":"y"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		var rec Record
		line := append(append([]byte(`{"checkpoint_only":true,"run":`), object...), "}\n"...)
		if NewReader(bytes.NewReader(line)).Read(&rec) != nil || rec.Run == nil || !utf8.Valid(rec.Run) {
			return // neither gets here
		}
		object = rec.Run
		if run, err := ParseRun(object); err != nil {
			errtest.OneLine(t, err)
		} else {
			again, err := ParseRun(AppendRunObject(nil, run))
			if err != nil || again.Program != run.Program || again.RunID != run.RunID || (again.Status == nil) != (run.Status == nil) || run.Status != nil && *run.Status != *again.Status {
				t.Fatalf("%s is %+v and then %+v, %v", object, run, again, err)
			}
		}
		if a, err := ParseAccount(object); err != nil {
			errtest.OneLine(t, err)
		} else {
			again, err := ParseAccount(AppendAccount(nil, &a))
			if err != nil || again != a {
				t.Fatalf("%s is %+v and then %+v, %v", object, a, again, err)
			}
		}
		var before, after map[string]json.RawMessage
		settled := AppendSettled(nil, object, 5, 6, 7)
		if err := json.Unmarshal(settled, &after); err != nil || json.Unmarshal(object, &before) != nil {
			t.Fatalf("%s is settled as %s: %v", object, settled, err)
		}
		for _, name := range []string{"delivered", "rejected", "dropped"} {
			if delete(before, name); string(after[name]) != map[string]string{"delivered": "5", "rejected": "6", "dropped": "7"}[name] {
				t.Fatalf("%s is settled as %s", object, settled)
			}
			delete(after, name)
		}
		for name, value := range before {
			var want bytes.Buffer
			if json.Compact(&want, value) != nil || !bytes.Equal(after[name], want.Bytes()) || len(after) != len(before) {
				t.Fatalf("%s is settled as %s", object, settled)
			}
		}
	})
}

// rfc3339 is the form that is taken; the time package is less strict.
var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

func FuzzParseTime(f *testing.F) {
	for _, s := range []string{"2026-07-01T20:00:00Z", "2026-07-01T20:00:00.123456789+02:00", "2262-04-11T23:47:16.854775807Z", "2026-02-29T00:00:00,5Z", "0000-01-01T00:00:00-23:59", "2000-01-01T0:00:00+00:00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := ParseTime(in)
		want, wantErr := time.Parse(time.RFC3339Nano, string(in))
		form := rfc3339.Match(in) && wantErr == nil
		if err == nil && (!form || !want.Equal(time.Unix(0, got))) {
			t.Fatalf("%q is %d, the time package says %v, %v", in, got, want, wantErr)
		}
		if err != nil && form && want.Year() > 1677 && want.Year() < 2262 {
			t.Fatalf("%q: %v", in, err)
		}
		if err == nil {
			if back, err := ParseTime(AppendTime(nil, got)); err != nil || back != got {
				t.Fatalf("%d comes back as %d, %v", got, back, err)
			}
		}
	})
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\\n\x00", "\xff é 😀", strings.Repeat("x\"", 20)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var got string
		text := AppendString(nil, in)
		if err := json.Unmarshal(text, &got); err != nil || got != string(appendValid(nil, in)) || !utf8.Valid(text) {
			t.Fatalf("%q is written %q, %v", in, text, err)
		}
		if got, want := AppendTwice(nil, in), AppendEscaped(nil, AppendEscaped(nil, in)); !bytes.Equal(got, want) {
			t.Fatalf("%q is written %q twice, want %q", in, got, want)
		}
	})
}
