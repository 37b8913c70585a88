package lokitest

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang/snappy"
	"google.golang.org/protobuf/encoding/protowire"
)

var now = time.Date(2026, 11, 30, 11, 57, 52, 554833000, time.UTC)

// entries of a test, as they are pushed.
type in struct {
	ago  time.Duration
	line string
	md   []Label
}

func field(b []byte, num protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), v)
}

func encodeEntry(at time.Time, line string, md []Label) []byte {
	var ts, e []byte
	ts = protowire.AppendVarint(protowire.AppendTag(ts, 1, protowire.VarintType), uint64(at.Unix()))
	ts = protowire.AppendVarint(protowire.AppendTag(ts, 2, protowire.VarintType), uint64(at.Nanosecond()))
	e = field(field(e, 1, ts), 2, []byte(line))
	for _, l := range md {
		e = field(e, 3, field(field(nil, 1, []byte(l.Name)), 2, []byte(l.Value)))
	}
	return e
}

func encodeStream(labels string, entries ...in) []byte {
	s := field(nil, 1, []byte(labels))
	for _, e := range entries {
		s = field(s, 2, encodeEntry(now.Add(-e.ago), e.line, e.md))
	}
	return field(nil, 1, s)
}

type harness struct {
	*Server
	t *testing.T
}

func start(t *testing.T, change func(*Limits)) harness {
	t.Helper()
	s := NewServer(Config{
		Now:    func() time.Time { return now },
		Limits: func(_ string, l *Limits) { change(l) },
	})
	t.Cleanup(s.Close)
	return harness{s, t}
}

// faithful is a Loki as it comes, but for the level, which needs no more than
// its own test.
func faithful(l *Limits) { l.DiscoverLogLevels = false }

func (h harness) do(body []byte, header ...string) (int, string) {
	h.t.Helper()
	req, err := http.NewRequest(http.MethodPost, h.URL+pushPath, bytes.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			req.Header.Del(header[i])
		}
	}
	res, err := h.Client().Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return res.StatusCode, err.Error()
	}
	if len(text) > 0 && (res.Header.Get("Content-Type") != "text/plain; charset=utf-8" || text[len(text)-1] != '\n') {
		h.t.Errorf("content type %q of %q", res.Header.Get("Content-Type"), text)
	}
	return res.StatusCode, strings.TrimSuffix(string(text), "\n")
}

func (h harness) push(streams ...[]byte) (int, string) {
	h.t.Helper()
	return h.do(snappy.Encode(nil, bytes.Join(streams, nil)))
}

// expect pushes and compares answer and, by their lines, what is stored then.
func (h harness) expect(status int, text, stored string, streams ...[]byte) {
	h.t.Helper()
	gotStatus, got := h.push(streams...)
	if gotStatus != status || got != text {
		h.t.Errorf("answer %d %s\nwant   %d %s", gotStatus, got, status, text)
	}
	h.holds(stored)
}

func (h harness) holds(want string) {
	h.t.Helper()
	var lines []string
	for _, e := range h.Entries("fake") {
		lines = append(lines, e.Line)
	}
	if got := strings.Join(lines, ","); got != want {
		h.t.Errorf("stored %.200q, want %.200q", got, want)
	}
}

const sa = `{app="a", service_name="a"}`

func TestEntries(t *testing.T) {
	const farBehind = "entry with timestamp 2026-11-30 10:56:52.554833 +0000 UTC ignored, reason: 'entry too far behind, entry timestamp is: 2026-11-30T10:56:52Z, " +
		"oldest acceptable timestamp is: 2026-11-30T10:57:52Z',\nuser 'fake', total ignored: 1 out of 3 for stream: " + sa
	long := strings.Repeat("x", 262144)
	week := 7 * 24 * time.Hour
	for _, tc := range []struct {
		name    string
		entries []in
		status  int
		text    string
		stored  string
	}{
		{"one", []in{{0, "a", nil}}, 204, "", "a"},
		{"empty line", []in{{0, "", nil}}, 204, "", ""},
		{"out of order within the hour", []in{{0, "b", nil}, {time.Hour, "a", nil}}, 204, "", "a,b"},
		{"same time", []in{{0, "b", nil}, {0, "a", nil}}, 204, "", "b,a"},
		{"repeats", []in{{0, "a", nil}, {0, "b", nil}, {0, "a", nil}, {0, "a", []Label{{"k", "v"}}}}, 204, "", "a,b,a"},
		{"line at the limit", []in{{0, long, nil}}, 204, "", long},
		{"line beyond", []in{{2, "a", nil}, {1, long + "x", nil}, {0, "b", nil}}, 400,
			"max entry size '262144' bytes exceeded for stream '" + sa + "' while adding an entry with length '262145' bytes", "a,b"},
		{"too old", []in{{week + time.Second, "o", nil}, {0, "a", nil}}, 400,
			"entry for stream '" + sa + "' has timestamp too old: 2026-11-23T11:57:51Z, oldest acceptable timestamp is: 2026-11-23T11:57:52Z", "a"},
		{"epoch", []in{{time.Duration(now.UnixNano()), "o", nil}, {0, "a", nil}}, 400,
			"entry for stream '" + sa + "' has timestamp too old: 1970-01-01T00:00:00Z, oldest acceptable timestamp is: 2026-11-23T11:57:52Z", "a"},
		{"+9 min", []in{{-9 * time.Minute, "a", nil}}, 204, "", "a"},
		{"+11 min", []in{{-11 * time.Minute, "n", nil}, {0, "a", nil}}, 400, "entry for stream '" + sa + "' has timestamp too new: 2026-11-30T12:08:52Z", "a"},
		{"61 min behind", []in{{0, "b", nil}, {61 * time.Minute, "o", nil}, {time.Minute, "a", nil}}, 400, farBehind, "a,b"},
		{"ascending is fine", []in{{61 * time.Minute, "o", nil}, {0, "b", nil}}, 204, "", "o,b"},
		{"three too old in a second", []in{{week + 2, "o", nil}, {week + 1, "p", nil}, {week + 3, "q", nil}, {0, "a", nil}}, 400,
			"3 errors like: entry for stream '" + sa + "' has timestamp too old: 2026-11-23T11:57:52Z, oldest acceptable timestamp is: 2026-11-23T11:57:52Z", "a"},
		{"far behind hides too old", []in{{0, "b", nil}, {61 * time.Minute, "o", nil}, {week + time.Hour, "p", nil}, {time.Minute, "a", nil}}, 400, farBehind, "a,b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			start(t, faithful).expect(tc.status, tc.text, tc.stored, encodeStream(`{app="a"}`, tc.entries...))
		})
	}
}

func TestTwoKindsOfErrors(t *testing.T) {
	h := start(t, func(l *Limits) { faithful(l); l.MaxLineSize = 3 })
	status, text := h.push(encodeStream(`{app="a"}`, in{0, "long", nil}, in{-time.Hour, "n", nil}, in{0, "a", nil}))
	long := "1 errors like: max entry size '3' bytes exceeded for stream '" + sa + "' while adding an entry with length '4' bytes"
	late := "1 errors like: entry for stream '" + sa + "' has timestamp too new: 2026-11-30T12:57:52Z"
	if status != 400 || text != long+"; "+late && text != late+"; "+long {
		t.Errorf("%d %s", status, text)
	}
	h.holds("a")
}

func TestManyFarBehind(t *testing.T) {
	h := start(t, faithful)
	entries := []in{{0, "a", nil}, {0, "b", nil}}
	for i := range 12 {
		entries = append(entries, in{2*time.Hour + time.Duration(i), "o", nil})
	}
	status, text := h.push(encodeStream(`{app="a"}`, entries...))
	if status != 400 || strings.Count(text, "entry with timestamp ") != 10 || !strings.HasSuffix(text, "total ignored: 12 out of 14 for stream: "+sa) {
		t.Errorf("%d %s", status, text)
	}
	h.holds("a,b")
	if got := h.Stats().Discarded["too_far_behind"]; got != 12 {
		t.Errorf("%d discarded", got)
	}
}

// The window outlives the request that moved it.
func TestWindowStays(t *testing.T) {
	h := start(t, faithful)
	h.expect(204, "", "a", encodeStream(`{app="a"}`, in{-9 * time.Minute, "a", nil}))
	status, _ := h.push(encodeStream(`{app="a"}`, in{52 * time.Minute, "o", nil}))
	if status != 400 {
		t.Errorf("%d", status)
	}
	h.expect(204, "", "o,a", encodeStream(`{app="a"}`, in{51 * time.Minute, "o", nil}))
}

// Of several streams only the last one is answered for.
func TestLastStreamAnswers(t *testing.T) {
	bad := func(app string) []byte {
		return encodeStream(`{app="`+app+`"}`, in{0, app, nil}, in{2 * time.Hour, "o", nil})
	}
	h := start(t, faithful)
	h.expect(204, "", "x,y", bad("x"), encodeStream(`{app="y"}`, in{0, "y", nil}))
	if got := h.Stats().Discarded["too_far_behind"]; got != 1 {
		t.Errorf("%d discarded", got)
	}
	status, text := h.push(bad("x"), bad("y"))
	if status != 400 || strings.Contains(text, `app="x"`) || !strings.Contains(text, `app="y"`) {
		t.Errorf("%d %s", status, text)
	}
	// A distributor's error is found in any stream.
	h = start(t, faithful)
	h.expect(400, "entry for stream '{app=\"x\", service_name=\"x\"}' has timestamp too new: 2026-11-30T12:57:52Z", "y",
		encodeStream(`{app="x"}`, in{-time.Hour, "x", nil}), encodeStream(`{app="y"}`, in{0, "y", nil}))
}

func TestLabels(t *testing.T) {
	long := strings.Repeat("n", 2049)
	sixteen := "{"
	for i := range 16 {
		sixteen += fmt.Sprintf("l%02d=\"v\", ", i)
	}
	full := sixteen + `service_name="unknown_service"}`
	fifteen := strings.Replace(sixteen, `l00="v", `, "", 1) + "}"
	for _, tc := range []struct {
		name, labels string
		status       int
		text         string
		stored       string // labels, when it is
		whole        bool   // the neighbour is lost too
	}{
		{"dash", `{a-b="x"}`, 400, "couldn't parse labels: 1:3: parse error: unexpected character inside braces: '-'", "", true},
		{"digit", `{1a="x"}`, 400, "couldn't parse labels: 1:2: parse error: unexpected character inside braces: '1'", "", true},
		{"no quotes", `{a=x}`, 400, `couldn't parse labels: 1:4: parse error: unexpected identifier "x" in label set, expected string`, "", true},
		{"invalid UTF-8", "{a=\"\xff\"}", 400, "couldn't parse labels: 1:4: parse error: invalid UTF-8 rune", "", true},
		{"raw line feed", "{a=\"b\nc\"}", 400, "couldn't parse labels: 1:4: parse error: unterminated quoted string", "", true},
		{"no end", `{a="b"`, 400, "couldn't parse labels: 1:7: parse error: unexpected end of input inside braces", "", true},
		{"reserved", `{__backfill__="true"}`, 400, "streams must not contain the reserved labels __backfill__ or __backfill_shard__; set the X-Loki-Backfill-Shard header to mark a push as backfill data", "", true},
		{"none", `{}`, 204, "", `{service_name="unknown_service"}`, false},
		{"nothing", ``, 204, "", `{service_name="unknown_service"}`, false},
		{"empty value", `{a="", b="c"}`, 204, "", `{b="c", service_name="unknown_service"}`, false},
		{"quoted name", `{"a.b"="x"}`, 204, "", `{"a.b"="x", service_name="unknown_service"}`, false},
		{"name of a metric, trailing comma, unsorted", `foo{z="1",a="2",}`, 204, "", `{__name__="foo", a="2", service_name="unknown_service", z="1"}`, false},
		{"escapes", `{a="é\n\"\\"}`, 204, "", `{a="é\n\"\\", service_name="unknown_service"}`, false},
		{"job", `{job="j", container="c"}`, 204, "", `{container="c", job="j", service_name="c"}`, false},
		{"long value", `{a="` + long + `"}`, 400, `stream '{a="` + long + `", service_name="unknown_service"}' has label value too long: '` + long + `'`, "", false},
		{"long name", `{` + long + `="a"}`, 400, `stream '{` + long + `="a", service_name="unknown_service"}' has label name too long: '` + long + `'`, "", false},
		{"16 labels", sixteen + "}", 400, `entry for stream '` + full + `' has 16 label names; limit 15`, "", false},
		{"15 labels", fifteen, 204, "", strings.Replace(full, `l00="v", `, "", 1), false},
		{"twice", `{a="1", a="2"}`, 400, `stream '{a="1", a="2", service_name="unknown_service"}' has duplicate label name: 'a'`, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := start(t, faithful)
			status, text := h.push(encodeStream(tc.labels, in{0, "x", nil}), encodeStream(`{zz="n"}`, in{0, "neighbour", nil}))
			if status != tc.status || text != tc.text {
				t.Errorf("answer %d %s\nwant   %d %s", status, text, tc.status, tc.text)
			}
			neighbour := false
			stored := ""
			for _, e := range h.Entries("fake") {
				if e.Line == "neighbour" {
					neighbour = true
				} else {
					stored = e.Stream
				}
			}
			if stored != tc.stored || neighbour == tc.whole {
				t.Errorf("stored %s, neighbour %v", stored, neighbour)
			}
		})
	}
	h := start(t, func(l *Limits) { faithful(l); l.EnforcedLabels = []string{"env", "app", "team"} })
	h.expect(400, "missing required labels 'env,team' for user 'fake' for stream '"+sa+"' (policy: '')", "", encodeStream(`{app="a"}`, in{0, "a", nil}))
	h = start(t, func(l *Limits) { Plain("", l) })
	h.expect(400, "error at least one label pair is required per stream", "", encodeStream(`{}`, in{0, "a", nil}))
	if d := h.Stats().Discarded; d["invalid_labels"] != 1 || d["missing_labels"] != 1 {
		t.Errorf("%v", d)
	}
}

func TestMetadata(t *testing.T) {
	many := make([]Label, 129)
	for i := range many {
		many[i] = Label{fmt.Sprint("k", i), "v"}
	}
	const size, count = "Please see `limits_config.max_structured_metadata_size` or contact your Loki administrator to increase it",
		"Please see `limits_config.max_structured_metadata_entries_count` or contact your Loki administrator to increase it"
	for _, tc := range []struct {
		name   string
		md     []Label
		status int
		text   string
		stored string
	}{
		{"plain", []Label{{"b", "1"}, {"a", "2"}}, 204, "", "[{a 2} {b 1}]"},
		{"65537 bytes", []Label{{"k", strings.Repeat("v", 65536)}}, 400, "stream '" + sa + "' has structured metadata too large: '65537' bytes, limit: '65536' bytes. " + size, ""},
		{"129", many, 400, "stream '" + sa + "' has too many structured metadata labels: '129', limit: '128'. " + count, ""},
		{"empty name", []Label{{"", "v"}}, 500, "label name is empty", ""},
		{"underscore", []Label{{"_", "v"}}, 500, `normalization for label name "_" resulted in invalid name "_"`, ""},
		{"dashes", []Label{{"--", "v"}}, 500, `normalization for label name "--" resulted in invalid name "_"`, ""},
		{"no letters", []Label{{"日本", "v"}}, 500, `normalization for label name "日本" resulted in invalid name "_"`, ""},
		{"rewritten", []Label{{"a.b.c", "1"}, {"a\xffd", "2"}, {"a__e", "3"}, {"f__", "4"}, {"_g", "5"}, {"__x__", "6"}, {"1h", "7"}}, 204, "",
			"[{__x__ 6} {_g 5} {a_b_c 1} {a_d 2} {a_e 3} {f_ 4} {key_1h 7}]"},
		{"rewritten wins", []Label{{"a.b", "1"}, {"a_b", "2"}}, 204, "", "[{a_b 1}]"},
		{"in either order", []Label{{"a_b", "2"}, {"a.b", "1"}}, 204, "", "[{a_b 1}]"},
		{"last wins", []Label{{"a", "1"}, {"a", "2"}}, 204, "", "[{a 2}]"},
		{"empty value", []Label{{"a", ""}, {"b", "1"}}, 204, "", "[{b 1}]"},
		{"bad value", []Label{{"a", "x\xffy\ufffd"}}, 204, "", "[{a x y }]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := start(t, faithful)
			status, text := h.push(encodeStream(`{app="a"}`, in{1, "x", tc.md}, in{0, "neighbour", nil}))
			if status != tc.status || text != tc.text {
				t.Errorf("answer %d %.300s\nwant   %d %s", status, text, tc.status, tc.text)
			}
			want := 1
			if tc.stored != "" {
				want = 2
			}
			if tc.status == 500 {
				want = 0
			}
			entries := h.Entries("fake")
			if len(entries) != want || want == 2 && fmt.Sprint(entries[0].Metadata) != tc.stored {
				t.Errorf("stored %v", entries)
			}
		})
	}
	// A bad name in an entry that is refused anyway stays unseen.
	h := start(t, faithful)
	status, text := h.push(encodeStream(`{app="a"}`, in{-time.Hour, "x", []Label{{"", "v"}}}))
	if status != 400 || !strings.Contains(text, "too new") {
		t.Errorf("%d %s", status, text)
	}
	h = start(t, func(l *Limits) { faithful(l); l.AllowStructuredMetadata = false })
	md := []Label{{"a", "b"}}
	h.expect(400, "2 errors like: stream '"+sa+"' includes structured metadata, but this feature is disallowed. Please see `limits_config.allow_structured_metadata` "+
		"or contact your Loki administrator to enable it", "c", encodeStream(`{app="a"}`, in{2, "a", md}, in{1, "b", md}, in{0, "c", nil}))
}

func TestDetectedLevel(t *testing.T) {
	h := start(t, func(*Limits) {})
	h.push(encodeStream(`{app="a"}`, in{6, "x", []Label{{"level", "info"}}}, in{5, "x", []Label{{"detected_level", "own"}}}, in{4, `{"level":"WARN"}`, nil},
		in{3, "level=error x", nil}, in{2, "all FATAL here", nil}, in{1, `{"a":"error"}`, nil}))
	want := "info own warn error fatal unknown"
	var got []string
	for _, e := range h.Entries("fake") {
		got = append(got, value(e.Metadata, "detected_level"))
	}
	if strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func compressWith(w io.WriteCloser, buf *bytes.Buffer, data []byte) []byte {
	_, _ = w.Write(data)
	_ = w.Close()
	return buf.Bytes()
}

func TestEncodings(t *testing.T) {
	proto := encodeStream(`{app="a"}`, in{0, "x", nil})
	ns := fmt.Sprint(now.UnixNano())
	jsonBody := []byte(`{"streams":[{"stream":{"app":"a","n":1},"values":[["` + ns + `","x"],["` + ns + `","y",{"k":"v"}]]}],"more":1} trailing`)
	var gz, gzProto, gzSnappy, fl, zl, framed bytes.Buffer
	flw, _ := flate.NewWriter(&fl, 1)
	fw := snappy.NewBufferedWriter(&framed)
	badTime := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 253433923200)
	cases := []struct {
		name           string
		body           []byte
		typ, enc, text string
		status         int
	}{
		{"snappy", snappy.Encode(nil, proto), "application/x-protobuf", "", "", 204},
		{"snappy named", snappy.Encode(nil, proto), "application/x-protobuf", "snappy", "", 204},
		{"any other type", snappy.Encode(nil, proto), "text/plain", "", "", 204},
		{"no type", snappy.Encode(nil, proto), "", "", "mime: no media type", 400},
		{"no snappy", proto, "application/x-protobuf", "", "snappy: corrupt input", 400},
		{"framed", compressWith(fw, &framed, proto), "application/x-protobuf", "", "snappy: corrupt input", 400},
		{"empty", nil, "application/x-protobuf", "", "snappy: corrupt input", 400},
		{"gzip and snappy", compressWith(gzip.NewWriter(&gzSnappy), &gzSnappy, snappy.Encode(nil, proto)), "application/x-protobuf", "gzip", "", 204},
		{"gzip alone", compressWith(gzip.NewWriter(&gzProto), &gzProto, proto), "application/x-protobuf", "gzip", "snappy: corrupt input", 400},
		{"JSON", jsonBody, "application/json; charset=utf-8", "", "", 204},
		{"JSON gzip", compressWith(gzip.NewWriter(&gz), &gz, jsonBody), "application/json", "gzip", "", 204},
		{"JSON deflate", compressWith(flw, &fl, jsonBody), "application/json", "deflate", "", 204},
		{"JSON zlib", compressWith(zlib.NewWriter(&zl), &zl, jsonBody), "application/json", "deflate", "EOF", 400},
		{"JSON zstd", jsonBody, "application/json", "zstd", `Content-Encoding "zstd" not supported`, 400},
		{"JSON GZIP", jsonBody, "application/json", "GZIP", `Content-Encoding "GZIP" not supported`, 400},
		{"JSON snappy in name only", jsonBody, "application/json", "snappy", "", 204},
		{"no gzip", jsonBody, "application/json", "gzip", "gzip: invalid header", 400},
		{"torn protobuf", snappy.Encode(nil, proto[:len(proto)-1]), "application/x-protobuf", "", "unexpected EOF", 400},
		{"wire type", snappy.Encode(nil, []byte{8, 1}), "application/x-protobuf", "", "proto: wrong wireType = 0 for field Streams", 400},
		{"year 10001", snappy.Encode(nil, field(nil, 1, field(nil, 2, field(nil, 1, badTime)))), "application/x-protobuf", "",
			"timestamp: &types.Timestamp{Seconds: 253433923200,\nNanos: 0,\n} after 10000-01-01", 400},
		{"no streams", snappy.Encode(nil, nil), "application/x-protobuf", "", "error at least one valid stream is required for ingestion", 422},
		{"no streams in JSON", []byte(`{}`), "application/json", "", "error at least one valid stream is required for ingestion", 422},
		{"empty JSON", nil, "application/json", "", "EOF", 400},
		{"stream without entries", snappy.Encode(nil, encodeStream(`{app="a"}`)), "application/x-protobuf", "", "", 204},
		{"stream without entries and bad labels", snappy.Encode(nil, encodeStream(`{app}`)), "application/x-protobuf", "", `couldn't parse labels: 1:5: parse error: unexpected "}" in label set, expected "="`, 400},
		{"raw bytes in JSON", []byte(`{"streams":[{"stream":{"app":"a"},"values":[["` + ns + "\",\"\xff\"]]}]}"), "application/json", "", "", 204},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			h := start(t, faithful)
			status, text := h.do(tc.body, "Content-Type", tc.typ, "Content-Encoding", tc.enc)
			if status != tc.status || text != tc.text {
				t.Errorf("answer %d %q\nwant   %d %q", status, text, tc.status, tc.text)
			}
		})
	}
	h := start(t, faithful)
	h.do(jsonBody, "Content-Type", "application/json")
	if got := fmt.Sprint(h.Entries("fake")); !strings.Contains(got, `{app="a", n="1", service_name="a"}`) || !strings.Contains(got, "y [{k v}]") {
		t.Errorf("%s", got)
	}
	for _, bad := range []string{`[1,"x"]`, `["` + ns + `","x",{"k":1}]`, `["` + ns + `","\ud800"]`, `["` + ns + `","x",{"structuredMetadata":{"k":"v"}}]`} {
		status, text := h.do([]byte(`{"streams":[{"stream":{"app":"a"},"values":[`+bad+`]}]}`), "Content-Type", "application/json")
		if status != 400 || !strings.HasPrefix(text, "loghttp.PushRequest.Streams: []loghttp.LogProtoStream: ") {
			t.Errorf("%s: %d %s", bad, status, text)
		}
	}
}

func post(tb testing.TB, s *Server, body []byte) int {
	tb.Helper()
	res, err := s.Client().Post(s.URL+pushPath, "application/x-protobuf", bytes.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}
