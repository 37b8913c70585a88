package checkpoint

import (
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/sysexits"
)

const elfToken = `{"v":1,"org":"00D000000000001AAA","created":"2026-07-01T10:00:00.000Z","id":"0AT000000000001","len":2692,"order":1,"rows":600}`

func TestCheckValue(t *testing.T) {
	same := "as it is"
	tests := []struct {
		key, value, want string
	}{
		{"pubsub:/event/X", "AAAAAAAAB+o=", same},
		{"pubsub:/event/X", "earliest", same},
		{"org=a:lane=b:pubsub:/event/X", "latest", same},
		{"pubsub:/event/X", `{"v":1,"id":"AAAA"}`, same},
		{"eventlogfile:Login", elfToken, same},
		{"eventlogfile:Daily:Login", "2026-07-01", "2026-07-01T00:00:00.000Z"},
		{"eventlogfile:Login", "2026-07-01T08:00:00+02:00", "2026-07-01T06:00:00.000Z"},
		{"eventlogfile:Login", "2026-07-01T08:00:00.123+0000", "2026-07-01T08:00:00.123Z"},
		{"eventlogfile:Login", `{"ids": [], "last_created": "2026-06-30T01:00:00.000+0000"}`, same},
		{"eventlog_objects:LoginEvent", `{"ids":["a"],"last_ts":"2026-01-01T00:00:00.000+0000"}`, same},
		{"apexlog", "2026-07-01T08:00:00Z", "2026-07-01T08:00:00.000Z"},
		{"file:a.csv", `{"v":1,"size":5,"order":1,"rows":2}`, same},
	}
	for _, test := range tests {
		if test.want == same {
			test.want = test.value
		}
		got, known, err := CheckValue(test.key, test.value)
		if err != nil || !known || got != test.want {
			t.Errorf("%s = %s: %q, %v, %v; want %q", test.key, test.value, got, known, err, test.want)
		}
	}
	if got, known, err := CheckValue("egress:budget", "anything"); got != "anything" || known || err != nil {
		t.Errorf("an unknown key: %q, %v, %v", got, known, err)
	}
}

func TestCheckValueRefuses(t *testing.T) {
	tests := []struct {
		key, value string
		code       sysexits.Code
		want       string
	}{
		{"pubsub:/event/X", `{"replay": "AAAA"}`, 65, "no version"}, // Z21: what the daemon's manual showed
		{"pubsub:/event/X", "!!notb64!!", 65, "no replay position"},
		{"pubsub:/event/X", "", 65, "no replay position"},
		{"pubsub:/event/X", "2026-07-01", 65, "no replay position"},
		{"pubsub", "AAAA", 65, "names no topic"},
		{"pubsub:/event/X", `{"v":2,"id":"AAAA"}`, 78, "newer than this release"},
		{"eventlogfile:Login", "earliest", 65, "no position of eventlogfile"},
		{"eventlogfile:Login", "AAAAAAAAB+o=", 65, "no position"},
		{"eventlogfile:Login", `{"ids":[]}`, 65, "neither a version"},
		{"eventlogfile:Login", `{"v":2,"created":"2026-07-01T10:00:00.000Z"}`, 78, "newer than this release"},
		{"eventlogfile:Login", elfToken + "}", 65, "text after"},
		{"eventlogfile:Login", `{"v":"1"}`, 65, "no position"},
		{"eventlogfile", "2026-07-01", 65, "names no event type"},
		{"eventlog_objects:X", "2026-13-01", 65, "no position"},
		{"apexlog", "yesterday", 65, "no position"},
		{"apexlog", "1600-01-01", 65, "no position"},
		{"eventlogfile:Login", "0001-01-01T00:00:00Z", 65, "no position"},
		{"file:a.csv", "5", 65, "no file position"},
		{"file:a.csv", `{"rows":5}`, 65, "no version"},
	}
	for _, test := range tests {
		_, _, err := CheckValue(test.key, test.value)
		if err == nil || !strings.Contains(err.Error(), test.want) || sysexits.Of(err) != test.code {
			t.Errorf("%s = %s: %v (%d), want %q (%d)", test.key, test.value, err, sysexits.Of(err), test.want, test.code)
		}
	}
}

func TestDescribe(t *testing.T) {
	tests := []struct{ key, value, want string }{
		{"eventlogfile:Login", elfToken, "2026-07-01T10:00:00.000Z 0AT000000000001 row 600"},
		{"eventlog_objects:X", `{"ids":["a"],"last_ts":"2026-01-01T00:00:00.000+0000"}`, "2026-01-01T00:00:00.000Z"},
		{"pubsub:/event/X", "AAAAAAAAB+o=", "AAAAAAAAB+o="},
		{"x", strings.Repeat("é", 60), strings.Repeat("é", 45) + "..."},
		{"x", `{"a":1}`, `{"a":1}`},
	}
	for _, test := range tests {
		if got := Describe(ParseKey(test.key), test.value); got != test.want {
			t.Errorf("%s: %q, want %q", test.value, got, test.want)
		}
	}
}

// Z19: the daemon's objects token tells a time, and it is not now.
// #100: the org is a part of the key and not of the topic.
func TestWatermarks(t *testing.T) {
	var doc Document
	doc.Set("eventlogfile:Login", elfToken)
	doc.Set("org=prod:pubsub:/event/X", "AAAA")
	doc.SetRecordTime("org=prod:pubsub:/event/X", time.Unix(1000, 0))
	doc.Set("window=2026-06-01/2026-07-01:eventlogfile:Login", elfToken)
	doc.Set("egress:budget", "{}")
	var w Watermarks
	w.Start(doc)
	now := time.Unix(2000, 0)
	w.Note(Position{Key: "eventlog_objects:LoginEvent", Value: `{"ids":["a"],"last_ts":"2026-01-01T00:00:00.000+0000"}`}, now)
	w.Note(Position{Key: "org=prod:pubsub:/event/X", Value: "AAAB"}, now) // a keepalive: no record, no time
	want := []Watermark{
		{Key{Source: "eventlogfile", Object: "Login"}, time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC), time.Time{}},
		{Key{Org: "prod", Source: "pubsub", Object: "/event/X"}, time.Unix(1000, 0), now},
		{Key{Source: "eventlog_objects", Object: "LoginEvent"}, time.Unix(1767225600, 0), now},
	}
	got := w.All()
	if len(got) != len(want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	for i := range want {
		if got[i].Key != want[i].Key || !got[i].Time.Equal(want[i].Time) || got[i].Committed != want[i].Committed {
			t.Errorf("got %+v, want %+v", got[i], want[i])
		}
	}
}

func TestLocation(t *testing.T) {
	tests := []struct {
		text, scheme, path string
		code               sysexits.Code
	}{
		{"state.json", "file", "state.json", 0},
		{"/var/lib/a b:c?d#e", "file", "/var/lib/a b:c?d#e", 0},
		{"file:///var/lib/a%20b.json", "file", "/var/lib/a b.json", 0},
		{"file://localhost/a", "file", "/a", 0},
		{"s3://bucket/key?region=eu-west-1", "s3", "", 0},
		{"gs://bucket/object", "gs", "", 0},
		{"azblob://container/blob", "azblob", "", 0},
		{"", "", "", 64},
		{"a\x00b", "", "", 64},
		{"file://host/a", "", "", 78},
		{"file:///a?b=c", "", "", 78},
		{"file://", "", "", 78},
		{"s3://key:secret@bucket/x", "", "", 78},
		{"s3://key:sec/secret@bucket/x", "", "", 64},
		{"s3://bucket/x?endpoint=https://key:secret@host", "", "", 78},
		{"azblob://c/x?endpoint=https%3A%2F%2Fhost%3Fsig%3Dsecret", "", "", 78},
		{"s3://bucket/%zz", "", "", 64},
	}
	for _, test := range tests {
		l, err := ParseLocation(test.text)
		if sysexits.Of(err) != test.code {
			t.Errorf("%q: %v, want status %d", test.text, err, test.code)
			continue
		}
		if err == nil && (l.Scheme != test.scheme || l.Path != test.path || l.String() != test.text) {
			t.Errorf("%q: %+v", test.text, l)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error tells the secret: %v", test.text, err)
		}
	}
}

// What is stored is what would be stored again, and can be shown.
func FuzzCheckValue(f *testing.F) {
	for _, key := range []string{"pubsub:/event/X", "eventlogfile:Login", "org=a:apexlog", "window=/2026-07-01T00:00:00Z:eventlogfile:Daily:API", "file:x"} {
		for _, value := range []string{elfToken, "2026-07-01", "AAAA", "latest", `{"v":1}`, `{"ids":[],"last_ts":"2026-01-01T00:00:00.000+0000"}`} {
			f.Add(key, value)
		}
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		if got := ParseKey(key).String(); got != key && !strings.HasSuffix(key, ":") {
			t.Fatalf("%q becomes %q", key, got)
		}
		Describe(ParseKey(key), value)
		stored, _, err := CheckValue(key, value)
		if err != nil {
			return
		}
		again, _, err := CheckValue(key, stored)
		if err != nil || again != stored {
			t.Fatalf("%q = %q is stored as %q, and that as %q, %v", key, value, stored, again, err)
		}
	})
}
