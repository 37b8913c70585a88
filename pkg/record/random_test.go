package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// dice makes records of all shapes.
type dice struct{ *rand.Rand }

func (d dice) bytes() []byte {
	alphabet := []string{"a", "b", "z", "0", " ", `"`, `\`, "/", "\n", "\t", "\x00", "\x1f", "\x7f", "é", "€", "😀", "\u2028", "<", "&", "{", "}", ",", ":"}
	b := []byte{}
	for range d.IntN(1 + d.IntN(40)) {
		b = append(b, alphabet[d.IntN(len(alphabet))]...)
	}
	return b
}

func (d dice) maybe() []byte {
	if d.IntN(3) == 0 {
		return nil
	}
	return d.bytes()
}

func (d dice) pairs(least int) []Pair {
	pairs := []Pair{}
	for range least + d.IntN(5) {
		pairs = append(pairs, Pair{d.bytes(), d.bytes()})
	}
	return pairs
}

func (d dice) object() []byte {
	if d.IntN(2) == 0 {
		return nil
	}
	b, _ := json.Marshal(map[string]any{string(d.bytes()): []any{string(d.bytes()), d.IntN(100), nil, true, map[string]int{}}})
	return b
}

func (d dice) record() Record {
	rec := Record{
		Labels: d.pairs(1), Line: d.bytes(), Key: d.maybe(), Value: d.maybe(), Origin: d.maybe(),
		Time: d.Int64N(1<<62) - 1<<61, HasTime: true,
	}
	if d.IntN(2) == 0 {
		rec.Metadata = d.pairs(0)
	}
	switch d.IntN(6) {
	case 0:
		rec = Record{CheckpointOnly: true, Key: d.maybe(), Value: d.maybe(), Account: d.object(), Run: d.object()}
	case 1:
		rec.Reason, rec.DeadLetter = d.bytes(), d.object()
	case 2:
		rec.Line, rec.Reason, rec.PayloadBase64, rec.SchemaID = nil, d.bytes(), d.maybe(), d.maybe()
	}
	return rec
}

// What is written is read again, however the text is laid out and delivered.
func TestWriteThenRead(t *testing.T) {
	d := dice{rand.New(rand.NewPCG(1, 2))}
	var plain, pretty bytes.Buffer
	var want []string
	for range 400 {
		rec := d.record()
		want = append(want, show(&rec))
		line := AppendRecord(nil, &rec)
		plain.Write(line)
		if err := json.Indent(&pretty, line, "\r\n", "\t"); err != nil {
			t.Fatalf("encoding/json does not take %s: %v", line, err)
		}
	}
	for _, text := range []string{plain.String(), pretty.String()} {
		for name, r := range pieces(text) {
			recs, errs := readAll(r)
			if len(recs) != len(want) || errs[len(errs)-1] != io.EOF {
				t.Fatalf("%s: %d records, then %v", name, len(recs), errs[len(errs)-1])
			}
			for i := range recs {
				for _, object := range []*[]byte{&recs[i].Account, &recs[i].Run, &recs[i].DeadLetter} {
					if *object != nil {
						*object = appendCompact(nil, *object)
					}
				}
				if got := show(&recs[i]); got != want[i] || errs[i] != nil {
					t.Fatalf("%s: record %d: %v\ngot  %s\nwant %s", name, i, errs[i], got, want[i])
				}
			}
		}
	}
}

// Objects that move between buffers while they are read stay whole: buffers
// of all sizes around that of an object, and pieces of several sizes.
func TestObjectsMove(t *testing.T) {
	d := dice{rand.New(rand.NewPCG(7, 8))}
	var text bytes.Buffer
	var want []string
	for i := range 60 {
		rec := d.record()
		rec.Account, rec.Run, rec.DeadLetter = nil, nil, nil
		want = append(want, show(&rec))
		line := AppendRecord(nil, &rec)
		if i%3 > 0 {
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, line, "", " "); err != nil {
				t.Fatal(err)
			}
			line = pretty.Bytes()
		}
		text.Write(line)
	}
	for size := 1; size < 2000; size += 1 + size/16 {
		for _, src := range []io.Reader{bytes.NewReader(text.Bytes()), &dribble{data: text.Bytes()}} {
			recs, errs := readFrom(cramped(src, size))
			if len(recs) != len(want) || errs[len(errs)-1] != io.EOF {
				t.Fatalf("buffer of %d: %d records, then %v", size, len(recs), errs[len(errs)-1])
			}
			for i := range recs {
				if got := show(&recs[i]); got != want[i] {
					t.Fatalf("buffer of %d: record %d\ngot  %s\nwant %s", size, i, got, want[i])
				}
			}
		}
	}
}

// Every cut of a stream yields the records before it, and says torn unless it
// lies between two.
func TestEveryCut(t *testing.T) {
	var text string
	var ends []int
	d := dice{rand.New(rand.NewPCG(3, 4))}
	for range 8 {
		rec := d.record()
		text += string(AppendRecord(nil, &rec))
		ends = append(ends, len(text))
	}
	for n := range text {
		whole := 0
		for whole < len(ends) && ends[whole] <= n {
			whole++
		}
		recs, errs := readAll(strings.NewReader(text[:n]))
		err := errs[len(errs)-1]
		between := n == 0 || whole > 0 && ends[whole-1] == n
		if len(recs) != whole || between != (err == io.EOF) || !between && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at %d: %d records, want %d; %v", n, len(recs), whole, err)
		}
	}
}

// jq may stand in the pipe: 1.6 prints integers beyond 2^53 with 17 digits,
// later ones keep them; both escape as they like.
func TestThroughJq(t *testing.T) {
	d := dice{rand.New(rand.NewPCG(5, 6))}
	var in bytes.Buffer
	var want []string
	for i := range 200 {
		rec := d.record()
		rec.Time, rec.HasTime = 1782936000000000000+d.Int64N(1e18), true
		rec.Labels = []Pair{{[]byte("n"), fmt.Append(nil, i)}} // jq cannot repeat a name
		rec.Metadata, rec.Account, rec.Run, rec.DeadLetter = nil, nil, nil, nil
		want = append(want, show(&rec))
		in.Write(AppendRecord(nil, &rec))
	}
	for _, args := range [][]string{{"."}, {"-c", "."}, {"-a", "."}, {"--tab", "-S", "."}, {"-c", ".ts_unix_nano |= (. // empty | tostring)"}} {
		cmd := exec.Command("jq", args...)
		cmd.Stdin = bytes.NewReader(in.Bytes())
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("jq %q: %v", args, err)
		}
		recs, errs := readAll(bytes.NewReader(out))
		if len(recs) != len(want) || errs[len(errs)-1] != io.EOF {
			t.Fatalf("jq %q: %d records, then %v", args, len(recs), errs[len(errs)-1])
		}
		for i := range recs {
			if got := show(&recs[i]); got != want[i] || errs[i] != nil {
				t.Fatalf("jq %q: record %d: %v\ngot  %s\nwant %s", args, i, errs[i], got, want[i])
			}
		}
	}
}

// The bytes that jq 1.6 and 1.7 print for one record.
func TestJqVersions(t *testing.T) {
	const form = "{\n  \"ts\": \"2026-07-01T20:00:00.123456789Z\",\n  \"ts_unix_nano\": %s,\n  \"labels\": {\n    \"a\": \"b\"\n  },\n  \"line\": \"x\"\n}\n"
	for _, number := range []string{"1782936000123456800", "1782936000123456789", "1.7829360001234568e+18", `"1782936000123456789"`} {
		rec, err := one(t, fmt.Sprintf(form, number))
		if err != nil || rec.Time != 1782936000123456789 {
			t.Errorf("%s: %d, %v", number, rec.Time, err)
		}
	}
}

func TestWriterBytes(t *testing.T) {
	rec := Record{
		HasTime: true, Time: 1782936000000000000,
		Labels:   []Pair{{[]byte("source"), []byte("eventlogfile")}, {[]byte("event_type"), []byte("Login")}},
		Metadata: []Pair{{[]byte("level"), []byte("info")}},
		Line:     []byte(`{"EVENT_TYPE":"Login"}`), Key: []byte("eventlogfile:Login"), Value: []byte("tok"), Origin: []byte("0AT:1"),
	}
	if got := string(AppendRecord([]byte("before "), &rec)); got != "before "+login {
		t.Errorf("got  %s", got)
	}
	rec.Line, rec.EscapedLine = nil, []byte(`{\"EVENT_TYPE\":\"Login\"}`)
	if got := string(AppendRecord(nil, &rec)); got != login {
		t.Errorf("escaped line: got  %s", got)
	}
	status := 75
	at := time.Date(2026, 7, 1, 20, 0, 0, 5, time.UTC)
	for _, tc := range []struct {
		name string
		got  []byte
		want string
	}{
		{"empty fields", AppendRecord(nil, &Record{Labels: []Pair{}, Metadata: []Pair{}, Line: []byte{}, Key: []byte{}}), `{"labels":{},"structured_metadata":{},"line":"","checkpoint_key":""}`},
		{"nothing", AppendRecord(nil, &Record{}), `{}`},
		{"objects are compacted", AppendRecord(nil, &Record{CheckpointOnly: true, Account: []byte("{\n \"rows\" : 1 , \"s\":\" \\\" \"}")}), `{"checkpoint_only":true,"account":{"rows":1,"s":" \" "}}`},
		{"letter without a line", AppendRecord(nil, &Record{PayloadBase64: []byte("AA=="), SchemaID: []byte("s"), Reason: []byte("decode_error"), DeadLetter: []byte(`{"v":1}`)}), `{"payload_base64":"AA==","schema_id":"s","reason":"decode_error","dead_letter":{"v":1}}`},
		{"ack", AppendAck(nil, &Ack{Key: "a\n", Value: `"v"`, HasTime: true, Time: 1782936000000000000, Delivered: 998, Rejected: 2}), `{"checkpoint_key":"a\n","checkpoint_value":"\"v\"","ts":"2026-07-01T20:00:00.000000000Z","delivered":998,"rejected":2,"dropped":0}`},
		{"ack with account", AppendAck(nil, &Ack{Key: "a", Value: "b", Account: AppendSettled(nil, []byte(`{"rows": 3,"new":[ 1 ],"dropped":7}`), 1, 2, 0)}), `{"checkpoint_key":"a","checkpoint_value":"b","delivered":0,"rejected":0,"dropped":0,"account":{"rows":3,"new":[1],"delivered":1,"rejected":2,"dropped":0}}`},
		{"empty account", append(AppendSettled(nil, []byte(`{}`), 1, 2, 3), '\n'), `{"delivered":1,"rejected":2,"dropped":3}`},
		{"run begins", AppendRun(nil, Run{Program: "sf-pull", RunID: "r1", At: at}), `{"checkpoint_only":true,"run":{"program":"sf-pull","run_id":"r1","at":"2026-07-01T20:00:00.000000005Z"}}`},
		{"run ends", AppendRun(nil, Run{Program: "sf-pull", RunID: "r1", At: at, Status: &status}), `{"checkpoint_only":true,"run":{"program":"sf-pull","run_id":"r1","at":"2026-07-01T20:00:00.000000005Z","status":75}}`},
		{"ack of laid out objects", AppendAck(nil, &Ack{Key: "k", Account: []byte("{\n}")}), `{"checkpoint_key":"k","checkpoint_value":"","delivered":0,"rejected":0,"dropped":0,"account":{}}`},
		{"ack of a laid out run", AppendAck(nil, &Ack{Run: []byte("{ \n}")}), `{"run":{}}`},
		{"ack of a run", AppendAck(nil, &Ack{Run: AppendRunObject(nil, Run{Program: "p", RunID: "r"})}), `{"run":{"program":"p","run_id":"r"}}`},
		{"account", append(AppendAccount(nil, &Account{Origin: "0AT", EventType: "Login", Interval: "Hourly", LogDate: "2026-07-01T19:00:00.000Z", Bytes: 2692, Rows: 1000, ResumedAfter: 4, Filtered: 1, SampledOut: 2, SkippedDuplicate: 3, DeadLettered: 5}), '\n'),
			`{"origin":"0AT","event_type":"Login","interval":"Hourly","log_date":"2026-07-01T19:00:00.000Z","bytes":2692,"rows":1000,"resumed_after":4,"filtered":1,"sampled_out":2,"skipped_duplicate":3,"dead_lettered":5}`},
	} {
		if string(tc.got) != tc.want+"\n" {
			t.Errorf("%s:\ngot  %s\nwant %s", tc.name, tc.got, tc.want)
		}
	}
}

func TestAccountAndRunComeBack(t *testing.T) {
	account := Account{Origin: "0AT", EventType: "Login", Bytes: 1, Rows: 2, ResumedAfter: 3, Filtered: 4, SampledOut: 5, SkippedDuplicate: 6, DeadLettered: 7}
	got, err := ParseAccount(AppendAccount(nil, &account))
	if err != nil || got != account {
		t.Errorf("%+v, %v", got, err)
	}
	settled := account
	settled.Settled, settled.Delivered, settled.Rejected, settled.Dropped = true, 8, 9, 10
	got, err = ParseAccount(AppendSettled(nil, AppendAccount(nil, &account), 8, 9, 10))
	if err != nil || got != settled {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = ParseAccount(AppendAccount(nil, &settled)); err != nil || got != settled {
		t.Errorf("%+v, %v", got, err)
	}
	status := 0
	run := Run{Program: "sf-pull", RunID: "r", At: time.Unix(1782936000, 7).UTC(), Status: &status}
	back, err := ParseRun(AppendRunObject(nil, run))
	if err != nil || back.Program != run.Program || back.RunID != run.RunID || !back.At.Equal(run.At) || back.Status == nil || *back.Status != 0 {
		t.Errorf("%+v, %v", back, err)
	}
	if _, err := ParseRun([]byte(`{"status":"x"}`)); err == nil {
		t.Error("a status that is a string passes")
	}
	if _, err := ParseAccount([]byte(`{"rows":"x"}`)); err == nil {
		t.Error("rows that are a string pass")
	}
}

func TestReadAck(t *testing.T) {
	const position = "line 1, byte 0: "
	for _, tc := range []struct{ name, in, want, fault string }{
		{"full", `{"checkpoint_key":"k","checkpoint_value":"v","ts":"2026-07-01T20:00:00Z","delivered":1,"rejected":2,"dropped":3,"account":{ "rows":1 },"x":[1]}`,
			`{"checkpoint_key":"k","checkpoint_value":"v","ts":"2026-07-01T20:00:00.000000000Z","delivered":1,"rejected":2,"dropped":3,"account":{"rows":1}}`, ""},
		{"pretty", "{\n\"checkpoint_key\": \"k\\u00e9\",\n\"checkpoint_value\":\"\"}", `{"checkpoint_key":"ké","checkpoint_value":"","delivered":0,"rejected":0,"dropped":0}`, ""},
		{"nulls", `{"checkpoint_key":"k","checkpoint_value":null,"ts":null,"delivered":null,"rejected":null,"dropped":null,"account":null,"run":null}`, `{"checkpoint_key":"k","checkpoint_value":"","delivered":0,"rejected":0,"dropped":0}`, ""},
		{"run", `{"run":{"program":"p"}}`, `{"run":{"program":"p"}}`, ""},
		{"run as a record", `{"checkpoint_only":true,"run":{"program":"p"}}`, `{"run":{"program":"p"}}`, ""},
		{"rounded by jq", `{"checkpoint_key":"k","delivered":1e3}`, `{"checkpoint_key":"k","checkpoint_value":"","delivered":1000,"rejected":0,"dropped":0}`, ""},
		{"nothing", `{}`, "", position + "the acknowledgement has neither checkpoint_key nor run"},
		{"null key", `{"checkpoint_key":null}`, "", position + "the acknowledgement has neither checkpoint_key nor run"},
		{"key of a wrong type", `{"checkpoint_key":1}`, "", position + "checkpoint_key is not a string"},
		{"record", `{"checkpoint_key":"k","checkpoint_value":"v","labels":{"a":"b"},"line":"x"}`, "",
			position + "this is a record and no acknowledgement: nothing tells that it is settled"},
		{"dead letter", `{"checkpoint_key":"k","checkpoint_value":"v","reason":"source_gap"}`, "",
			position + "this is a record and no acknowledgement: nothing tells that it is settled"},
		{"below zero", `{"checkpoint_key":"k","dropped":-1}`, "", position + "dropped is not a count"},
		{"count in quotes", `{"checkpoint_key":"k","delivered":"a"}`, "", position + "delivered is not a count"},
		{"no time", `{"checkpoint_key":"k","ts":"now"}`, "", position + "ts is not an RFC 3339 time"},
		{"account of a wrong type", `{"checkpoint_key":"k","account":[]}`, "", position + "account is not an object"},
		{"syntax", `{"checkpoint_key":}`, "", "line 1, byte 18: '}' where a value should begin"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var a Ack
			err := NewAckReader(strings.NewReader(tc.in + "\n")).Read(&a)
			switch {
			case tc.fault != "":
				if err == nil || err.Error() != tc.fault {
					t.Errorf("error %v, want %s", err, tc.fault)
				}
			case err != nil:
				t.Error(err)
			default:
				if got := strings.TrimSpace(string(AppendAck(nil, &a))); got != tc.want {
					t.Errorf("got  %s\nwant %s", got, tc.want)
				}
			}
		})
	}
	var a Ack
	if err := NewAckReader(strings.NewReader(`{"checkpoint_key":"k"}`)).Read(&a); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error("an acknowledgement without a line feed passes")
	}
	if err := NewAckReader(strings.NewReader("")).Read(&a); err != io.EOF {
		t.Error(err)
	}
}
