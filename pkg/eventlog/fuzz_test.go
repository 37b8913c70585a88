package eventlog

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/errtest"
	"sf2loki/pkg/feed"
	"sf2loki/pkg/sysexits"
)

// A stored value is a position, or can be done without, or is a wrong
// configuration; a position is the same after it was stored again.
func FuzzPosition(f *testing.F) {
	for _, s := range []string{
		`{"v":1,"org":"o","created":"2026-07-01T10:00:00.000Z","id":"0ATxx0000000001AAA","len":5,"order":1,"rows":2,"failing":{"id":"0AT","since":"2026-07-01T10:00:00Z"}}`,
		`{"v":1,"org":"p","created":"2026-07-01T10:00:00.000Z"}`, `{"v":1,"created":"2026-07-01T10:00:00.000Z","id":"0AT' OR","rows":2}`, `{"v":1,"created":"2026-07-01T10:00:00.000Z","rows":-2}`,
		`{"v":1,"created":"soon"}`, `{"v":1,"created":5}`, `{"v":2}`, `{"v":1,"size":5,"crc":"0000abcd","order":1,"rows":-7}`, `{"v":1,"size":"5"}`,
		`{"ids": [["0AT1", "2026-06-30T01:00:00.000+0000"], "0ATlegacy"], "last_created": "2026-06-30T01:00:00.000+0000"}`, `{"ids":[7],"last_created":"2026-06-30T01:00:00.000+0000"}`,
		`{"ids":[["a"]],"last_created":"2026-06-30T01:00:00.000+0000"}`, `{"ids":[],"last_created":"never"}`, `2026-07-01`, ``, `{`, `{"v":` + strings.Repeat("7", 5000) + `}`,
		`{"v":1,"len":` + strings.Repeat("7", 5000) + `}`, `{"v":1,"created":"` + strings.Repeat("7", 5000) + `"}`, `{"ids":["` + strings.Repeat("7", 5000) + `"],"last_created":"x"}`,
		`{"v":1,"created":"2026-07-01T10:00:00.000Z","id":"` + strings.Repeat("7", 5000) + `"}`, `{"v":1,"org":"` + strings.Repeat("7", 5000) + `"}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		onDisk, err := parseFilePosition(text)
		if err != nil {
			errtest.OneLine(t, err)
		} else if rows, _ := onDisk.passed(onDisk.Size, 0xabcd); rows < 0 {
			t.Fatalf("%q has passed %d rows", text, rows)
		}
		p, err := parsePosition(text, "o")
		if err != nil {
			errtest.OneLine(t, err)
			if !feed.IsUseless(err) && sysexits.Of(err) != sysexits.Config {
				t.Fatalf("%q: status %v", text, sysexits.Of(err))
			}
		}
		if !p.set() || p.done != nil || p.created.Year() < 1 || p.created.Year() > 9999 {
			return
		}
		again, err := parsePosition(string(p.token("o")), "o")
		p.created = p.created.Truncate(time.Millisecond)
		if err != nil || !again.created.Equal(p.created) || again.id != p.id || again.rows != p.rows || again.failing.ID != p.failing.ID {
			t.Fatalf("%q became %s: %v", text, p.token("o"), err)
		}
	})
}

// A record of the listing has an Id, a time, and a length that can be one.
func FuzzFile(f *testing.F) {
	for _, s := range []string{
		`{"Id":"0ATxx0000000001AAA","EventType":"Login","Interval":"Hourly","LogDate":"2026-07-01T10:00:00.000+0000","CreatedDate":"2026-07-01T13:00:00.000+0000","LogFileLength":2692.0,"Sequence":1}`,
		`{"Id":"0ATxx0000000001","CreatedDate":"2026-07-01T13:00:00Z","LogDate":null}`, `{"Id":"0AT' OR","CreatedDate":"2026-07-01T13:00:00Z"}`, `{"Id":"0ATxx0000000001","CreatedDate":"soon","LogDate":"late"}`,
		`{"Id":"0ATxx0000000001","CreatedDate":"2026-07-01T13:00:00Z","LogFileLength":1e300,"Sequence":-1e300}`, `{"Id":"0ATxx0000000001","CreatedDate":"2026-07-01T13:00:00Z","LogFileLength":-5}`, `[]`, `{"Id":7}`,
		`{"Id":"0ATxx0000000001","CreatedDate":"` + strings.Repeat("7", 5000) + `"}`, `{"Id":` + strings.Repeat("7", 5000) + `}`, `{"Id":"` + strings.Repeat("7", 5000) + `"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		file, err := parseFile(raw)
		if err != nil {
			errtest.OneLine(t, err)
			return
		}
		var want struct {
			ID            string `json:"Id"`
			LogFileLength float64
		}
		if err := json.Unmarshal(raw, &want); err != nil || file.ID != want.ID || file.Length < 0 || want.LogFileLength >= 0 && want.LogFileLength < 1<<53 && file.Length != int64(want.LogFileLength) {
			t.Fatalf("%s is %+v, %v", raw, file, err)
		}
		if file.Created.IsZero() && !strings.Contains(string(raw), "0001-01-01") || len(file.ID) < 15 {
			t.Fatalf("%s is %+v", raw, file)
		}
	})
}

var stampForm = regexp.MustCompile(`^\d{14}(\.\d{0,9})?$`)

// A stamp is the time that package time reads in it.
func FuzzParseStamp(f *testing.F) {
	for _, s := range []string{"20260701100000", "20260701100000.13", "20260701100000.123456789", "20260701100000.1234567890", "20240229000000.", "20230229000000", "20261301000000", "20260701240000", "19691231235959", "2026070110000", "20260701100000,5", "2026070110000a", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, ok := parseStamp(text)
		want, err := time.Parse("20060102150405.999999999", strings.TrimSuffix(string(text), "."))
		if ok && (err != nil || !want.Equal(time.Unix(0, got))) {
			t.Fatalf("%q is %v, package time says %v, %v", text, time.Unix(0, got).UTC(), want, err)
		}
		if !ok && err == nil && want.Year() >= 1970 && want.Year() <= 2261 && stampForm.Match(text) {
			t.Fatalf("%q is no time, package time says %v", text, want)
		}
	})
}
