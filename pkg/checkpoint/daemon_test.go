package checkpoint

import (
	"strings"
	"testing"
)

// Every position goes back in the daemon's form, or is reported.
func TestForDaemon(t *testing.T) {
	const at = "2026-06-30T01:00:00.000+0000"
	tests := []struct{ key, value, to, want, note string }{
		{"eventlogfile:Login", `{"v":1,"org":"00D000000000001AAA","created":"2026-06-30T01:00:00.000Z","id":"0AT1"}`,
			"eventlogfile:Login", `{"ids": [["0AT1", "` + at + `"]], "last_created": "` + at + `"}`, ""},
		{"eventlogfile:API", `{"v":1,"created":"2026-06-30T01:00:00.000Z","id":"0AT2","len":2692,"order":1,"rows":600}`,
			"eventlogfile:API", `{"ids": [], "last_created": "` + at + `"}`, "the file 0AT2 is read from its beginning"},
		{"org=a:eventlogfile:URI", "2026-06-30T01:00:00.000Z", "org=a:eventlogfile:URI", `{"ids": [], "last_created": "` + at + `"}`, ""},
		{"eventlogfile:Old", `{"ids": ["0AT9"], "last_created": "` + at + `"}`, "eventlogfile:Old", `{"ids": ["0AT9"], "last_created": "` + at + `"}`, ""},
		{"eventlogfile:Daily:Login", `{"v":1,"created":"2026-06-30T01:00:00.000Z"}`, "", "", "files of another interval"},
		{"eventlog_objects:LoginEvent", `{"v":1,"ts":"2026-06-30T01:00:00.000Z","id":"00A1","start":"2026-06-01T00:00:00.000Z"}`,
			"eventlog_objects:LoginEvent", `{"ids": ["00A1"], "last_ts": "` + at + `"}`, ""},
		{"apexlog", `{"v":1,"ts":"2026-06-30T01:00:00.000Z"}`, "apexlog", `{"ids": [], "last_ts": "` + at + `"}`, ""},
		{"pubsub:/event/X", `{"v":1,"id":"AAAB","ts":"2026-06-30T01:00:00.000Z"}`, "pubsub:/event/X", "AAAB", ""},
		{"pubsub:/event/Y", "AAAC", "pubsub:/event/Y", "AAAC", ""},
		{"pubsub:/event/Z", "latest", "", "", "its own setting"},
		{"pubsub:/event/Bad", "?", "", "", "not a replay id"},
		{"lane=audit:pubsub:/event/X", "AAAB", "", "", "no lanes"},
		{"window=2026-06-01/2026-07-01:eventlogfile:Login", `{"v":1,"created":"2026-06-30T01:00:00.000Z"}`, "", "", "no windows"},
		{"file:a.csv", `{"v":1,"size":1}`, "", "", "no files on disk"},
		{"eventlogfile:*", `{"v":1,"created":"2026-06-30T01:00:00.000Z"}`, "", "", "by itself"},
		{"eventlogfile:New", `{"v":2,"created":"2026-06-30T01:00:00.000Z"}`, "", "", "newer"},
		{"eventlogfile:None", `{"v":1}`, "", "", "no time"},
		{"eventlogfile:Text", `hello`, "", "", "not a position"},
		{"egress:budget", `{"date": "2026-07-01", "bytes": 5}`, "egress:budget", `{"date": "2026-07-01", "bytes": 5}`, ""},
	}
	var doc Document
	doc.SetFenceEpoch(3)
	for _, test := range tests {
		doc.Set(test.key, test.value)
	}
	out, done := ForDaemon(doc, false)
	if len(done) != len(tests) {
		t.Fatalf("%d of %d positions", len(done), len(tests))
	}
	kept := 0
	for i, test := range tests {
		c := done[i]
		got, _ := out.Get(c.To)
		if c.From != test.key || c.To != test.to || got != test.want || !strings.Contains(c.Note, test.note) || c.Note != "" && test.note == "" {
			t.Errorf("%s: %+v, %q", test.key, c, got)
		}
		if c.To != "" {
			kept++
		}
	}
	if out.Len() != kept {
		t.Errorf("%d members for %d positions: %s", out.Len(), kept, out.Bytes())
	}
	if _, done := ForDaemon(doc, true); done[0].To != "" || done[4].To != "eventlogfile:Login" {
		t.Errorf("of a daemon that reads daily files: %+v, %+v", done[0], done[4])
	}
}
