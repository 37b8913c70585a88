package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// realistic returns n records of about 1.2 kB: a row of a login log, with its
// quotes escaped, six labels and eight pieces of metadata.
func realistic(n int) []byte {
	var row bytes.Buffer
	row.WriteByte('{')
	for i := range 23 {
		if i > 0 {
			row.WriteByte(',')
		}
		fmt.Fprintf(&row, `"COLUMN_%02d":"value %d"`, i, i*i)
	}
	row.WriteByte('}')
	pairs := func(kv string) (p []Pair) {
		for _, s := range strings.Fields(kv) {
			name, value, _ := strings.Cut(s, "=")
			p = append(p, Pair{[]byte(name), []byte(value)})
		}
		return p
	}
	rec := Record{
		HasTime: true, Line: row.Bytes(),
		Labels: pairs("source=eventlogfile event_type=Login job=salesforce service_name=sf2loki environment=production sf_org_id=00D000000000001EAA"),
		Metadata: pairs("level=info USER_ID=005000000000001AAA SESSION_KEY=a1b2c3d4e5f6a7b8 REQUEST_ID=TID:123456789 " +
			"LOGIN_STATUS=LOGIN_NO_ERROR CLIENT_IP=192.0.2.1 URI=/index.jsp RUN_TIME=212"),
		Key: []byte("eventlogfile:Login"),
	}
	var out []byte
	for i := range n {
		rec.Time = 1782936000123456789 + int64(i)*1e6
		rec.Value = fmt.Appendf(nil, `{"v":1,"org":"00D000000000001EAA","created":"2026-07-01T10:00:00.000Z","id":"0AT000000000001","len":2692,"order":1,"rows":%d}`, i)
		rec.Origin = fmt.Appendf(nil, "0AT000000000001:%d", i)
		out = AppendRecord(out, &rec)
	}
	return out
}

// jsonRecord is how encoding/json would do it.
type jsonRecord struct {
	TS       string            `json:"ts"`
	Nano     json.Number       `json:"ts_unix_nano"`
	Labels   map[string]string `json:"labels"`
	Metadata map[string]string `json:"structured_metadata"`
	Line     string            `json:"line"`
	Key      string            `json:"checkpoint_key"`
	Value    string            `json:"checkpoint_value"`
	Origin   string            `json:"origin"`
}

func BenchmarkRead(b *testing.B) {
	const n = 1000
	in := realistic(n)
	b.Run("record", func(b *testing.B) {
		src := bytes.NewReader(nil)
		r := NewReader(&endless{src, in})
		var rec Record
		b.SetBytes(int64(len(in) / n))
		b.ReportAllocs()
		for b.Loop() {
			if err := r.Read(&rec); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("pretty", func(b *testing.B) {
		var pretty bytes.Buffer
		dec := json.NewDecoder(bytes.NewReader(in))
		enc := json.NewEncoder(&pretty)
		enc.SetIndent("", "  ")
		for range n {
			var v json.RawMessage
			if err := dec.Decode(&v); err != nil {
				b.Fatal(err)
			}
			_ = enc.Encode(v)
		}
		r := NewReader(&endless{bytes.NewReader(nil), pretty.Bytes()})
		var rec Record
		b.SetBytes(int64(pretty.Len() / n))
		b.ReportAllocs()
		for b.Loop() {
			if err := r.Read(&rec); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		dec := json.NewDecoder(&endless{bytes.NewReader(nil), in})
		b.SetBytes(int64(len(in) / n))
		b.ReportAllocs()
		for b.Loop() {
			var rec jsonRecord
			if err := dec.Decode(&rec); err != nil {
				b.Fatal(err)
			}
			if _, err := time.Parse(time.RFC3339Nano, rec.TS); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// endless repeats data.
type endless struct {
	*bytes.Reader
	data []byte
}

func (e *endless) Read(p []byte) (int, error) {
	if e.Len() == 0 {
		e.Reset(e.data)
	}
	return e.Reader.Read(p)
}

func BenchmarkWrite(b *testing.B) {
	in := realistic(1)
	var rec Record
	if err := NewReader(bytes.NewReader(in)).Read(&rec); err != nil {
		b.Fatal(err)
	}
	b.Run("record", func(b *testing.B) {
		var dst []byte
		b.SetBytes(int64(len(in)))
		b.ReportAllocs()
		for b.Loop() {
			dst = AppendRecord(dst[:0], &rec)
		}
	})
	b.Run("letter", func(b *testing.B) {
		var dst []byte
		letter := Letter{Reason: TooOld, Status: 400, Detail: "too old", Stage: "push", CapturedAt: time.Unix(1782936000, 0)}
		b.SetBytes(int64(len(in)))
		b.ReportAllocs()
		for b.Loop() {
			dst = AppendLetter(dst[:0], &rec, &letter)
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		var v jsonRecord
		if err := json.Unmarshal(in, &v); err != nil {
			b.Fatal(err)
		}
		enc := json.NewEncoder(io.Discard)
		enc.SetEscapeHTML(false)
		b.SetBytes(int64(len(in)))
		b.ReportAllocs()
		for b.Loop() {
			_ = enc.Encode(&v)
		}
	})
}

// BenchmarkEscape escapes cells of a row twice: most are short.
func BenchmarkEscape(b *testing.B) {
	for _, size := range []int{3, 7, 13, 50} {
		text := []byte("user@example.com, a \"quoted\" word and more text behind it"[:size])
		b.Run(fmt.Sprint(size, "B"), func(b *testing.B) {
			b.SetBytes(int64(size))
			var dst []byte
			for b.Loop() {
				dst = AppendTwice(dst[:0], text)
			}
		})
		b.Run(fmt.Sprint("standard ", size, "B"), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				once, _ := json.Marshal(string(text))
				_, _ = json.Marshal(string(once))
			}
		})
	}
}

func BenchmarkTime(b *testing.B) {
	text := []byte("2026-07-01T20:00:00.123456789Z")
	b.Run("parse", func(b *testing.B) {
		for b.Loop() {
			_, _ = ParseTime(text)
		}
	})
	b.Run("append", func(b *testing.B) {
		var dst []byte
		for b.Loop() {
			dst = AppendTime(dst[:0], 1782936000123456789)
		}
	})
}

// Nothing is allocated per record, whatever is in it.
func TestNoAllocations(t *testing.T) {
	in := realistic(200)
	in = append(in, "{\"labels\":{\"a\":\"\xff\"},\n\"ts_unix_nano\":1.782936e+18,\r\n\"line\":\"\\ud83d\\ude00 \xc3\\n\",\"x\":[[{}]]}\n"...)
	in = append(in, bytes.ReplaceAll(realistic(100), []byte(`,"`), []byte(",\n  \""))...)
	r := NewReader(&endless{bytes.NewReader(nil), in})
	var rec Record
	var dst []byte
	step := func() {
		if err := r.Read(&rec); err != nil {
			t.Fatal(err)
		}
		dst = AppendRecord(dst[:0], &rec)
	}
	for range 1000 { // the buffers grow
		step()
	}
	// All of them, as what is below one for each is rounded down.
	if n := testing.AllocsPerRun(1, func() {
		for range 2000 {
			step()
		}
	}); n != 0 {
		t.Errorf("%v allocations per record", n)
	}
	ack := Ack{Key: "eventlogfile:Login", Value: `{"v":1}`, HasTime: true, Time: 1, Delivered: 5, Account: []byte(`{"rows":1}`)}
	if n := testing.AllocsPerRun(100, func() { dst = AppendAck(dst[:0], &ack) }); n != 0 {
		t.Errorf("%v allocations per acknowledgement", n)
	}
}
