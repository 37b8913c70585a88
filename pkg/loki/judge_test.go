package loki

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

type recordedAnswer struct {
	Name        string `json:"name"`
	Status      int    `json:"status"`
	ContentType string `json:"content_type"`
	Body        string `json:"body"`
	RetryAfter  string `json:"retry_after"`
}

func (r recordedAnswer) answer() Answer {
	return Answer{Status: r.Status, ContentType: r.ContentType, Body: []byte(r.Body)[:min(len(r.Body), MaxBody)]}
}

func recordedAnswers(t testing.TB) []recordedAnswer {
	t.Helper()
	data, err := os.ReadFile("testdata/answers.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []recordedAnswer
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

func at(text string) int64 {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t.UnixNano()
}

// wantFault is what a test says of a Fault: kind, reason, and flags as letters,
// W whole stream, S stops.
func faultText(f Fault) string {
	s := fmt.Sprintf("%s=%s x%d", f.Kind, f.Reason, f.Count)
	if f.Limit != 0 {
		s += fmt.Sprintf(" limit %d", f.Limit)
	}
	if f.Oldest != 0 {
		s += " oldest " + showTime(f.Oldest)
	}
	for _, n := range f.Named {
		s += fmt.Sprintf(" %s*%d", showTime(n.Time), n.Count)
		if n.Exact {
			s += "!"
		}
	}
	if f.Ignored != 0 {
		s += fmt.Sprintf(" %d/%d", f.Ignored, f.Total)
	}
	if f.WholeStream {
		s += " W"
	}
	if f.Stops {
		s += " S"
	}
	return s
}

type wantVerdict struct {
	class  Class
	code   sysexits.Code
	faults []string
}

const (
	farBehindOne = "too_far_behind=too_far_behind x1 oldest 2026-11-30T10:57:51Z 2026-11-30T10:56:52.554833Z*1! 1/3"
	tooOldOne    = "greater_than_max_sample_age=too_old x1 oldest 2026-11-23T11:57:52Z 2026-11-22T11:57:52Z*1"
	otherOne     = "other=bad_request x1"
)

func stored() wantVerdict            { return wantVerdict{class: Stored} }
func config(c Class) wantVerdict     { return wantVerdict{class: c, code: sysexits.Config} }
func noPerm() wantVerdict            { return wantVerdict{class: Misconfigured, code: sysexits.NoPerm} }
func wait(c Class) wantVerdict       { return wantVerdict{class: c, code: sysexits.Unavailable} }
func partly(f ...string) wantVerdict { return wantVerdict{Partial, sysexits.DataErr, f} }
func wholly(f ...string) wantVerdict { return wantVerdict{Refused, sysexits.DataErr, f} }

var wantVerdicts = map[string]wantVerdict{
	"no content":                 stored(),
	"ok empty":                   stored(),
	"ok json object":             stored(),
	"ok json with null error":    stored(),
	"ok json error":              config(NotLoki),
	"ok html":                    config(NotLoki),
	"ok html without a type":     config(NotLoki),
	"ok text":                    config(Misconfigured),
	"accepted":                   config(Misconfigured),
	"created":                    config(Misconfigured),
	"blocked 260":                config(Misconfigured),
	"blocked by policy 403":      config(Misconfigured),
	"blocked 429":                config(Misconfigured),
	"blocked 503":                config(Misconfigured),
	"redirect":                   config(Misconfigured),
	"line too long":              partly("line_too_long=line_too_long x1 limit 262144"),
	"line too long, old capital": partly("line_too_long=line_too_long x1 limit 256000"),
	"too old":                    partly(tooOldOne),
	"too new":                    partly("too_far_in_future=too_new x1 2026-11-30T12:08:52Z*1"),
	"too far behind":             partly(farBehindOne),
	"twelve too far behind": partly("too_far_behind=too_far_behind x12 oldest 2026-11-30T10:57:51Z" +
		" 2026-11-30T10:10:00.000000001Z*1! 2026-11-30T10:11:00.000000001Z*1! 2026-11-30T10:12:00.000000001Z*1!" +
		" 2026-11-30T10:13:00.000000001Z*1! 2026-11-30T10:14:00.000000001Z*1! 2026-11-30T10:15:00.000000001Z*1!" +
		" 2026-11-30T10:16:00.000000001Z*1! 2026-11-30T10:17:00.000000001Z*1! 2026-11-30T10:18:00.000000001Z*1!" +
		" 2026-11-30T10:19:00.000000001Z*1! 12/14"),
	"too far behind, wrapped by gRPC": partly(farBehindOne),
	"too far behind, sharded":         partly(farBehindOne),
	"too far behind, older words":     partly(farBehindOne),
	"out of order, before 2.4":        partly("too_far_behind=too_far_behind x1 2026-11-30T10:56:52Z*1! 1/3"),

	"labels do not parse, dash":          wholly("invalid_labels=invalid_labels x0 W"),
	"labels do not parse, UTF-8":         wholly("invalid_labels=invalid_labels x0 W"),
	"labels do not parse, string":        wholly("invalid_labels=invalid_labels x0 W"),
	"labels do not parse, identifier":    wholly("invalid_labels=invalid_labels x0 W"),
	"reserved labels":                    wholly("reserved_labels=invalid_labels x0 W"),
	"error parsing labels":               partly("invalid_labels=invalid_labels x1 W"),
	"no labels":                          partly("missing_labels=invalid_labels x1 W"),
	"label value too long":               partly("label_value_too_long=invalid_labels x1 W"),
	"label value too long that imitates": partly("label_value_too_long=invalid_labels x1 W"),
	"label name too long":                partly("label_name_too_long=invalid_labels x1 W"),
	"too many labels":                    partly("max_label_names_per_series=invalid_labels x1 limit 15 W"),
	"duplicate label":                    partly("duplicate_label_names=invalid_labels x1 W"),
	"required labels":                    partly("missing_enforced_labels=invalid_labels x1 W S"),

	"metadata too large":        partly("structured_metadata_too_large=metadata_too_large x1 limit 65536"),
	"metadata too many":         partly("structured_metadata_too_many=metadata_too_many x1 limit 128"),
	"metadata disallowed":       partly("disallowed_structured_metadata=metadata_disallowed x2 S"),
	"metadata name empty":       wholly("invalid_metadata_name=invalid_metadata x0"),
	"metadata name underscores": wholly("invalid_metadata_name=invalid_metadata x0"),

	"ingestion rate":                    wait(RateLimited),
	"ingestion rate of a policy":        wait(RateLimited),
	"ingestion rate of several buckets": wait(RateLimited),
	"stream rate, all":                  wait(StreamRate),
	"stream rate, some":                 wait(StreamRate),
	"stream limit":                      wait(StreamLimit),
	"gateway 429":                       wait(RateLimited),
	"body too large":                    {class: TooLarge, code: sysexits.DataErr},
	"body too large, decompressed":      {class: TooLarge, code: sysexits.DataErr},
	"nginx 413":                         {class: TooLarge, code: sysexits.DataErr},
	"grpc too large":                    {class: TooLarge, code: sysexits.DataErr},
	"inflight bytes":                    wait(Busy),
	"circuit breaker":                   wait(Busy),
	"no org id":                         noPerm(),
	"unauthorized by a proxy":           noPerm(),
	"forbidden":                         noPerm(),
	"proxy auth":                        noPerm(),
	"tenant character":                  config(Misconfigured),
	"tenant several":                    config(Misconfigured),
	"tenant dots":                       config(Misconfigured),
	"tenant too long":                   config(Misconfigured),
	"empty ring":                        wait(Busy),
	"ingester shutting down":            wait(Busy),
	"bad gateway":                       wait(Busy),
	"unavailable with Retry-After":      wait(Busy),
	"gateway timeout":                   wait(Busy),
	"request timeout":                   wait(Busy),
	"not found":                         config(Misconfigured),
	"method":                            config(Misconfigured),
	"not acceptable":                    config(Misconfigured),
	"conflict":                          config(Misconfigured),
	"gone":                              config(Misconfigured),
	"unsupported media":                 config(Misconfigured),
	"no valid stream":                   config(Misconfigured),
	"no content type":                   config(Misconfigured),
	"corrupt snappy":                    config(Misconfigured),
	"short protobuf":                    config(Misconfigured),
	"wrong wire type":                   config(Misconfigured),
	"content encoding":                  config(Misconfigured),
	"malformed json":                    config(Misconfigured),
	"gzip header":                       config(Misconfigured),
	"empty json":                        config(Misconfigured),
	"timestamp past year 9999":          wholly(otherOne),

	"three of one second": partly("greater_than_max_sample_age=too_old x3 oldest 2026-11-23T11:57:52Z 2026-11-22T11:57:52Z*3"),
	"several kinds": partly(
		"greater_than_max_sample_age=too_old x4 oldest 2026-11-23T11:57:52Z 2026-11-22T11:57:52Z*3 2026-11-21T11:57:52Z*1",
		"line_too_long=line_too_long x1 limit 262144",
		"structured_metadata_too_many=metadata_too_many x2 limit 128"),
	"labels that imitate texts": partly("too_far_in_future=too_new x1 2026-11-30T12:08:52Z*1",
		"line_too_long=line_too_long x1 limit 100"),
	"a known kind and an unknown": partly("line_too_long=line_too_long x1 limit 100", otherOne),
	"unknown text":                wholly(otherOne),
	"bare 400":                    wholly(otherOne),
	"many bad":                    partly("line_too_long=line_too_long x59 limit 100"),

	"html 400":                        config(NotLoki),
	"html 400 without a type":         config(NotLoki),
	"json 400 of a gateway":           config(NotLoki),
	"json 400 that wraps Loki's text": partly("line_too_long=line_too_long x1 limit 262144"),
	"json array 400":                  config(NotLoki),
	"binary 400":                      config(NotLoki),
	"go server 400":                   config(Misconfigured),
	"http to https":                   config(Misconfigured),
	"victorialogs tenant":             config(Misconfigured),
	"victorialogs path":               config(Misconfigured),
	"victorialogs snappy":             config(Misconfigured),
	"victorialogs json":               config(Misconfigured),
	"victorialogs encoding":           config(Misconfigured),
	"victorialogs labels":             wholly("invalid_labels=invalid_labels x0 W"),
}

func TestJudgeRecordedAnswers(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range recordedAnswers(t) {
		seen[r.Name] = true
		t.Run(r.Name, func(t *testing.T) {
			want, ok := wantVerdicts[r.Name]
			if !ok {
				t.Fatal("no verdict is expected of this answer")
			}
			v := Judge(r.answer())
			if v.Class != want.class || v.Code != want.code {
				t.Errorf("class %v, code %d; want %v, %d", v.Class, v.Code, want.class, want.code)
			}
			var faults []string
			for _, f := range v.Faults {
				faults = append(faults, faultText(f))
			}
			if !slices.Equal(faults, want.faults) {
				t.Errorf("faults\n %s\nwant\n %s", strings.Join(faults, "\n "), strings.Join(want.faults, "\n "))
			}
			if v.Status != r.Status || len(v.Detail) > record.MaxDetail || !utf8.ValidString(v.Detail) {
				t.Errorf("status %d, detail of %d bytes %q", v.Status, len(v.Detail), v.Detail)
			}
			if strings.Contains(v.String(), "SECRET DATA") || strings.Contains(v.Detail, "SECRET DATA") {
				t.Errorf("quotes data: %s", v.String())
			}
		})
	}
	for name := range wantVerdicts {
		if !seen[name] {
			t.Errorf("%s is not in testdata", name)
		}
	}
}

func recordedAnswerNamed(t testing.TB, name string) Answer {
	t.Helper()
	for _, r := range recordedAnswers(t) {
		if r.Name == name {
			return r.answer()
		}
	}
	t.Fatalf("no recorded answer %q", name)
	return Answer{}
}

func TestJudgeLimits(t *testing.T) {
	for _, tc := range []struct {
		name         string
		limit, bytes int64
		compressed   bool
	}{
		{"ingestion rate", 10485, 30720, false},
		{"ingestion rate of a policy", 10485, 30720, false},
		{"ingestion rate of several buckets", 0, 0, false},
		{"stream rate, all", 1024, 0, false},
		{"body too large", 1048576, 0, true},
		{"body too large, decompressed", 2097152, 0, false},
		{"nginx 413", 0, 0, true},
		{"grpc too large", 4194304, 0, false},
	} {
		v := Judge(recordedAnswerNamed(t, tc.name))
		if v.Limit != tc.limit || v.Bytes != tc.bytes || v.LimitCompressed != tc.compressed {
			t.Errorf("%s: limit %d, bytes %d, compressed %v", tc.name, v.Limit, v.Bytes, v.LimitCompressed)
		}
	}
	if !Judge(recordedAnswerNamed(t, "too far behind, sharded")).Sharded {
		t.Error("the shard label was not noticed")
	}
	if Judge(recordedAnswerNamed(t, "too far behind")).Sharded {
		t.Error("sharded without a shard label")
	}
}

func TestSizeAfter(t *testing.T) {
	for text, want := range map[string]int64{
		"(limit: 1KB/sec)": 1024, "(limit: 1.5MB/sec)": 3 << 19, "(limit: 703B": 703, "(limit: 3GB": 3 << 30,
		"(limit: ": 0, "": 0, "(limit: 1e99": 1, "(limit: 99999999999999999999TB": 0,
	} {
		if got := sizeAfter(text, "(limit: "); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestJudgeSilence(t *testing.T) {
	for _, tc := range []struct {
		answer Answer
		class  Class
		code   sysexits.Code
	}{
		{Answer{}, Busy, sysexits.Unavailable},
		{Answer{Err: errors.New("dial tcp: refused")}, Busy, sysexits.Unavailable},
		{Answer{Err: context.Canceled}, Busy, sysexits.Unavailable},
		{Answer{Status: 200, Err: errors.New("unexpected EOF")}, Busy, sysexits.Unavailable},
		{Answer{Status: 204, Err: errors.New("reset")}, Busy, sysexits.Unavailable},
		{Answer{Err: sysexits.Errorf(sysexits.Config, "no certificate")}, Misconfigured, sysexits.Config},
		{Answer{Err: sysexits.Errorf(sysexits.NoPerm, "read token")}, Misconfigured, sysexits.NoPerm},
	} {
		v := Judge(tc.answer)
		if v.Class != tc.class || v.Code != tc.code || v.Detail == "" || v.Status != 0 {
			t.Errorf("%+v: %+v", tc.answer, v)
		}
	}
}

// Every status that is not one of success keeps the entries: no class that
// settles them, unless a text of Loki's names them (C1, Z32, Z34).
func TestJudgeStatusAlone(t *testing.T) {
	for status := 100; status < 1000; status++ {
		if status == 200 || status == 204 || status == 400 {
			continue
		}
		v := Judge(Answer{Status: status, ContentType: "text/plain", Body: []byte("what?\n")})
		if v.Class == Stored || v.Class == Partial || v.Class == Refused {
			t.Errorf("%d: %v", status, v.Class)
		}
		if v.Code == sysexits.OK {
			t.Errorf("%d: exit status 0", status)
		}
	}
}

func TestVerdictString(t *testing.T) {
	for name, want := range map[string]string{
		"too old":       "400 Bad Request: too_old (greater_than_max_sample_age)",
		"unknown text":  "400 Bad Request: bad_request",
		"empty ring":    "500 Internal Server Error: empty ring",
		"blocked 260":   "260: ingestion blocked for user 't-block' until '2036-01-01T00:00:00Z' with status code '260'",
		"several kinds": "400 Bad Request: too_old (greater_than_max_sample_age), line_too_long (line_too_long), metadata_too_many (structured_metadata_too_many)",
		"method":        "405 Method Not Allowed",
	} {
		v := Judge(recordedAnswerNamed(t, name))
		if got := v.String(); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	v := Judge(Answer{Err: errors.New("push to x: refused")})
	if got := v.String(); got != "push to x: refused" {
		t.Errorf("%q", got)
	}
	if Class(0).String() != "class 0" || Stored.String() != "stored" || Class(99).String() != "class 99" {
		t.Error("class names")
	}
}

func FuzzJudge(f *testing.F) {
	for _, r := range recordedAnswers(f) {
		f.Add(r.Status, r.ContentType, []byte(r.Body))
	}
	f.Fuzz(func(t *testing.T, status int, kind string, text []byte) {
		v := Judge(Answer{Status: status, ContentType: kind, Body: text[:min(len(text), MaxBody)]})
		if v.Class < Stored || v.Class > NotLoki {
			t.Fatalf("class %d", v.Class)
		}
		if v.Class == Stored && status != 200 && status != 204 {
			t.Fatalf("stored with status %d", status)
		}
		if (v.Class == Stored) != (v.Code == sysexits.OK) {
			t.Fatalf("class %v, code %d", v.Class, v.Code)
		}
		if (len(v.Faults) > 0) != (v.Class == Partial || v.Class == Refused) {
			t.Fatalf("class %v with %d faults", v.Class, len(v.Faults))
		}
		if len(v.Detail) > record.MaxDetail || !utf8.ValidString(v.Detail) {
			t.Fatalf("detail %q", v.Detail)
		}
		entries := []EntryFacts{{Time: -1}, {Time: 0, MetadataPairs: 1}, {Time: 1 << 60, LineBytes: 1 << 20}}
		for _, s := range v.Suspects(nil, entries) {
			if s.Fault >= len(v.Faults) || s.Sure && s.Fault < 0 {
				t.Fatalf("suspect %+v of %d faults", s, len(v.Faults))
			}
		}
		_ = v.String()
	})
}
