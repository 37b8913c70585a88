package lokitest

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang/snappy"
)

func TestIngestionRate(t *testing.T) {
	h := start(t, func(l *Limits) { Plain("", l); l.IngestionRate, l.IngestionBurst = 10485, 20<<10 })
	var thirty []in
	for i := range 30 {
		thirty = append(thirty, in{time.Duration(i), strings.Repeat("x", 1024), nil})
	}
	h.expect(429, "ingestion rate limit exceeded for user fake (limit: 10485 bytes/sec) while attempting to ingest '30' lines totaling '30720' bytes, "+
		"reduce log volume or contact your Loki administrator to see if the limit can be increased", "", encodeStream(`{a="b"}`, thirty...))
	// A bad entry is not mentioned, and nothing of it counts.
	status, text := h.push(encodeStream(`{a="b"}`, append(thirty, in{-time.Hour, "n", nil})...))
	if status != 429 || !strings.Contains(text, "'30' lines totaling '30720' bytes") {
		t.Errorf("%d %s", status, text)
	}
	if status, _ = h.push(encodeStream(`{a="b"}`, thirty[:20]...)); status != 204 {
		t.Errorf("within the burst: %d", status)
	}
	if status, _ = h.push(encodeStream(`{a="b"}`, thirty[20:21]...)); status != 429 {
		t.Errorf("bucket empty: %d", status)
	}
}

func TestStreamRate(t *testing.T) {
	five := []in{}
	for i := range 5 {
		five = append(five, in{time.Duration(5 - i), strings.Repeat(fmt.Sprint(i), 700), []Label{{"k", "v" + fmt.Sprint(i)}}})
	}
	whole := func(l *Limits) {
		faithful(l)
		l.StreamRate, l.StreamBurst = 1<<10, 2000
	}
	h := start(t, whole)
	status, text := h.push(encodeStream(`{app="a"}`, five...))
	want := "entry with timestamp 2026-11-30 11:57:52.554832995 +0000 UTC ignored, reason: 'Per stream rate limit exceeded (limit: 1KB/sec) while attempting to ingest " +
		"for stream '" + sa + "' totaling 703B, consider splitting a stream via additional labels or contact your Loki administrator to see if the limit can be increased',\n"
	if status != 429 || !strings.HasPrefix(text, want) || !strings.HasSuffix(text, "',\nuser 'fake', total ignored: 5 out of 5 for stream: "+sa) {
		t.Errorf("%d %s", status, text)
	}
	h.holds("")
	h = start(t, func(l *Limits) { whole(l); l.ShardStreams = false })
	status, text = h.push(encodeStream(`{app="a"}`, five...))
	if status != 429 || !strings.HasSuffix(text, "total ignored: 3 out of 5 for stream: "+sa) {
		t.Errorf("%d %s", status, text)
	}
	h.holds(five[0].line + "," + five[1].line)
	// Hidden behind a good stream.
	h = start(t, whole)
	if status, _ = h.push(encodeStream(`{app="a"}`, five...), encodeStream(`{app="b"}`, in{0, "b", nil})); status != 204 {
		t.Errorf("%d", status)
	}
	h.holds("b")
}

func TestMaxStreams(t *testing.T) {
	h := start(t, func(l *Limits) { faithful(l); l.MaxStreams = 2 })
	s := func(n string) []byte { return encodeStream(`{s="`+n+`"}`, in{0, n, nil}) }
	h.expect(204, "", "1,2", s("1"), s("2"))
	h.expect(429, `maximum active stream limit exceeded when trying to create stream {s="9", service_name="unknown_service"}, reduce the number of active streams `+
		`(reduce labels or reduce label values), or contact your Loki administrator to see if the limit can be increased, user: 'fake'`, "1,2", s("9"))
	h.expect(204, "", "1,2", s("8"), s("1"))
	if got := h.Stats().Discarded["stream_limit"]; got != 2 {
		t.Errorf("%d discarded", got)
	}
}

// A stream that nobody pushes to makes room, and is known when it comes back.
func TestIdleStreams(t *testing.T) {
	clock := now
	s := NewServer(Config{Now: func() time.Time { return clock }, Limits: func(_ string, l *Limits) { faithful(l); l.MaxStreams = 1 }})
	t.Cleanup(s.Close)
	h := harness{s, t}
	stream := func(n string) []byte { return encodeStream(`{s="`+n+`"}`, in{0, n, nil}) }
	h.expect(204, "", "1", stream("1"))
	clock = clock.Add(30 * time.Minute)
	if status, _ := h.push(stream("2")); status != 429 {
		t.Errorf("%d", status)
	}
	clock = clock.Add(time.Second)
	h.expect(204, "", "1,2", stream("2"))
	h.expect(204, "", "1,2", stream("1"))
}

// Whole batches fold, parts of them do not.
func TestIncrementDuplicateTimestamp(t *testing.T) {
	h := start(t, func(l *Limits) { faithful(l); l.IncrementDuplicateTimestamp = true })
	four := []in{{0, "a", nil}, {0, "b", nil}, {0, "c", nil}, {0, "d", nil}}
	h.expect(204, "", "a,b,c,d", encodeStream(`{app="a"}`, four...))
	h.expect(204, "", "a,b,c,d", encodeStream(`{app="a"}`, four...))
	h.expect(204, "", "a,c,b,d,c,d", encodeStream(`{app="a"}`, four[2:]...))
}

func TestTLS(t *testing.T) {
	s := NewServer(Config{TLS: &tls.Config{MinVersion: tls.VersionTLS12}, Now: func() time.Time { return now }})
	t.Cleanup(s.Close)
	if !strings.HasPrefix(s.URL, "https://") {
		t.Errorf("%s", s.URL)
	}
	harness{s, t}.expect(204, "", "a", encodeStream(`{app="a"}`, in{0, "a", nil}))
	if _, err := http.Get(s.URL + "/ready"); err == nil {
		t.Error("any client trusts the certificate")
	}
}

func TestSizes(t *testing.T) {
	noise := make([]byte, 5000)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(33 + r.IntN(90))
	}
	body := snappy.Encode(nil, encodeStream(`{app="a"}`, in{0, string(noise), nil}))
	h := start(t, func(l *Limits) { faithful(l); l.MaxRecvMsgSize = 1000 })
	status, text := h.do(body)
	if want := fmt.Sprintf("request body too large: message size too large than max (%d vs 1000)", len(body)); status != 413 || text != want {
		t.Errorf("%d %s", status, text)
	}
	h = start(t, func(l *Limits) { faithful(l); l.MaxDecompressedSize = 2000 })
	status, text = h.do(body)
	n, _ := snappy.DecodedLen(body)
	if want := fmt.Sprintf("request body too large: decompressed message size too large than max (%d vs 2000)", n); status != 413 || text != want {
		t.Errorf("%d %s", status, text)
	}
}

// What fits into 4 MiB on the way in need not fit on the way to the ingester,
// where each entry has its level.
func TestGRPCLimit(t *testing.T) {
	for _, tc := range []struct {
		size, status int
	}{{4193556, 204}, {4193856, 500}, {5243000, 500}} {
		h := start(t, func(l *Limits) { l.MaxLineSize = 1 << 20 })
		var entries []in
		for i := range 16 {
			entries = append(entries, in{time.Duration(i), strings.Repeat("x", tc.size/16), nil})
		}
		over := len(encodeStream(`{app="a"}`, entries...)) - tc.size
		entries[0].line = entries[0].line[over:]
		body := encodeStream(`{app="a"}`, entries...)
		if len(body) != tc.size {
			t.Fatalf("%d bytes", len(body))
		}
		status, text := h.push(body)
		if status != tc.status || status == 500 && (!strings.HasPrefix(text, "rpc error: code = ResourceExhausted desc = grpc: received message larger than max (") || !strings.HasSuffix(text, " vs. 4194304)")) {
			t.Errorf("%d bytes: %d %s", tc.size, status, text)
		}
		if (len(h.Entries("fake")) == 16) != (status == 204) {
			t.Errorf("%d bytes: %d stored", tc.size, len(h.Entries("fake")))
		}
	}
}

// Above its rate a stream is dealt out: an old entry is lost behind a 204, and
// repeats are stored again.
func TestSharding(t *testing.T) {
	h := start(t, func(l *Limits) { faithful(l); l.StreamRate, l.IngestionRate = 0, 0 })
	entries := []in{{time.Hour, "newest", nil}}
	h.push(encodeStream(`{app="a"}`, in{0, "first", nil}))
	entries[0] = in{2 * time.Hour, "old", nil}
	for i := range 5000 {
		entries = append(entries, in{time.Duration(5000 - i), fmt.Sprintf("%0500d", i), nil})
	}
	body := encodeStream(`{app="a"}`, entries...)
	if status, text := h.push(body); status != 204 {
		t.Errorf("%d %s", status, text)
	}
	if status, text := h.push(encodeStream(`{app="a"}`, entries[0], in{0, "now", nil})); status != 400 || !strings.Contains(text, `__stream_shard__="`) {
		t.Errorf("alone: %d %s", status, text)
	}
	before := h.Stats().Stored
	if status, _ := h.push(body); status != 204 {
		t.Errorf("again: %d", status)
	}
	if again := h.Stats().Stored - before; again < 3000 {
		t.Errorf("%d of 5000 repeats were stored", again)
	}
	h.SetLimits("fake", func(l *Limits) { l.ShardStreams = false })
	h.push(body)
	before = h.Stats().Stored
	h.push(body)
	if h.Stats().Stored != before {
		t.Error("repeats were stored without shards")
	}
}

// A second later the stream is slow again.
func TestShardingEnds(t *testing.T) {
	clock := now
	s := NewServer(Config{Now: func() time.Time { return clock }})
	t.Cleanup(s.Close)
	h := harness{s, t}
	big := in{0, strings.Repeat("x", 200<<10), nil}
	streams := func() int {
		seen := map[string]bool{}
		for _, e := range h.Entries("fake") {
			seen[e.Stream] = true
		}
		return len(seen)
	}
	for i := range 7 {
		big.ago = time.Duration(i)
		h.push(encodeStream(`{app="a"}`, big))
	}
	if n := streams(); n != 1 {
		t.Errorf("%d streams at 1400 KB/s", n)
	}
	clock = clock.Add(1001 * time.Millisecond)
	for i := range 9 {
		big.ago = time.Duration(100 + i)
		h.push(encodeStream(`{app="a"}`, big))
	}
	if n := streams(); n < 2 {
		t.Errorf("%d streams at 1800 KB/s", n)
	}
}

func TestTenants(t *testing.T) {
	s := NewServer(Config{MultiTenant: true, Now: func() time.Time { return now }})
	t.Cleanup(s.Close)
	h := harness{s, t}
	body := snappy.Encode(nil, encodeStream(`{app="a"}`, in{0, "a", nil}))
	for _, tc := range []struct {
		id     string
		status int
		text   string
	}{
		{"", 401, "no org id"},
		{"a/b", 400, "tenant ID 'a/b' contains unsupported character '/'"},
		{"a|b", 400, "multiple org IDs present"},
		{"..", 400, "tenant ID is '.' or '..'"},
		{strings.Repeat("a", 151), 400, "tenant ID is too long: max 150 characters"},
		{"t1", 204, ""},
	} {
		if status, text := h.do(body, "X-Scope-OrgID", tc.id); status != tc.status || text != tc.text {
			t.Errorf("%q: %d %s", tc.id, status, text)
		}
	}
	if len(h.Entries("t1")) != 1 || len(h.Entries("fake")) != 0 {
		t.Error("stored elsewhere")
	}
	single := start(t, faithful)
	if status, _ := single.do(body, "X-Scope-OrgID", "a/b"); status != 204 || len(single.Entries("fake")) != 1 {
		t.Errorf("header without multi-tenancy: %d", status)
	}
}

func TestGateway(t *testing.T) {
	s := NewServer(Config{Users: map[string]string{"u": "p"}, Tokens: []string{"old"}, Now: func() time.Time { return now }})
	t.Cleanup(s.Close)
	h := harness{s, t}
	body := snappy.Encode(nil, encodeStream(`{app="a"}`, in{0, "a", nil}))
	for header, want := range map[string]int{"": 401, "Bearer old": 204, "Bearer new": 401, "Basic dTpw": 204, "Basic dTpx": 401} {
		if status, _ := h.do(body, "Authorization", header); status != want {
			t.Errorf("%q: %d", header, status)
		}
	}
	s.SetTokens("new")
	for header, want := range map[string]int{"Bearer old": 401, "Bearer new": 204} {
		if status, _ := h.do(body, "Authorization", header); status != want {
			t.Errorf("after the rotation, %q: %d", header, status)
		}
	}
}

func TestBlocked(t *testing.T) {
	until := time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC)
	h := start(t, func(l *Limits) { faithful(l); l.BlockUntil = until })
	good := encodeStream(`{app="a"}`, in{0, "a", nil})
	h.expect(260, "ingestion blocked for user 'fake' until '2036-01-01T00:00:00Z' with status code '260'", "", good)
	twice := encodeStream(`{a="1",a="2"}`, in{0, "a", nil})
	h.expect(400, `stream '{a="1", a="2", service_name="unknown_service"}' has duplicate label name: 'a'`, "", good, twice)
	h.SetLimits("fake", func(l *Limits) { l.BlockStatus = 200 })
	h.expect(204, "", "", good)
	h.SetLimits("fake", func(l *Limits) { l.BlockUntil = time.Time{} })
	h.expect(204, "", "a", good)
}

func TestBackfillShard(t *testing.T) {
	h := start(t, faithful)
	old := snappy.Encode(nil, encodeStream(`{app="a"}`, in{20 * 24 * time.Hour, "old", nil}))
	if status, text := h.do(old, "X-Loki-Backfill-Shard", "s1"); status != 204 {
		t.Errorf("%d %s", status, text)
	}
	if e := h.Entries("fake"); len(e) != 1 || e[0].Stream != `{__backfill__="true", __backfill_shard__="s1", app="a", service_name="a"}` {
		t.Errorf("%v", e)
	}
}

func TestPaths(t *testing.T) {
	h := start(t, faithful)
	for _, tc := range []struct {
		method, path string
		status       int
		text         string
	}{
		{"GET", pushPath, 405, ""}, {"POST", pushPath + "/", 404, "404 page not found\n"}, {"POST", "/", 404, "404 page not found\n"},
		{"GET", "/ready", 200, "ready\n"}, {"POST", "/flush", 204, ""},
	} {
		req, _ := http.NewRequest(tc.method, h.URL+tc.path, nil)
		res, err := h.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		_, _ = b.ReadFrom(res.Body)
		res.Body.Close()
		if res.StatusCode != tc.status || b.String() != tc.text {
			t.Errorf("%s %s: %d %q", tc.method, tc.path, res.StatusCode, b.String())
		}
	}
	h.SetEmptyRing(true)
	h.expect(500, "empty ring", "", encodeStream(`{app="a"}`, in{0, "a", nil}))
	res, err := h.Client().Get(h.URL + "/ready")
	if err != nil || res.StatusCode != 503 {
		t.Errorf("%v, %v", res, err)
	}
}
