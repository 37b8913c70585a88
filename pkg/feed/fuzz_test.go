package feed

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/errtest"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sysexits"
)

// A stored value is a position, or can be done without, or is a wrong
// configuration; a position is the same after it was stored again.
func FuzzPosition(f *testing.F) {
	for _, s := range []string{
		`{"v":1,"org":"00D1","ts":"2026-07-01T10:00:00.000Z","id":"0Ya1","start":"2026-07-01T09:00:00.000Z","failing":{"id":"0Ya2","since":"2026-07-01T10:00:00Z"}}`,
		`{"v":1,"ts":"2026-07-01T10:00:00.000Z"}`, `{"v":1,"org":"00D2","ts":"2026-07-01T10:00:00.000Z"}`, `{"v":2}`, `{"v":"1"}`, `{"v":1,"ts":"soon"}`, `{"v":1,"ts":5}`,
		`{"v":1,"ts":"2026-07-01T10:00:00.000Z","id":"x' OR Id != '"}`, `{"ids":["0Ya1"],"last_ts":"2026-07-01T10:00:00.000+0000"}`, `{"ids":[],"last_ts":null}`, `{"last_ts":"yesterday"}`,
		" 2026-07-01T10:00:00Z\n", "2026-07-01", "", "[]", "null", `{"v":` + strings.Repeat("7", 5000) + `}`, `{"v":1,"ts":` + strings.Repeat("7", 5000) + `}`, `{"v":1,"org":"` + strings.Repeat("7", 5000) + `"}`,
		strings.Repeat("7", 5000), `{"v":1,"ts":"` + strings.Repeat("7", 5000) + `"}`, `{"v":1,"ts":"2026-07-01T10:00:00.000Z","id":"` + strings.Repeat("7", 5000) + `"}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePosition(text, "00D1")
		if err != nil {
			errtest.OneLine(t, err)
			if !IsUseless(err) && sysexits.Of(err) != sysexits.Config {
				t.Fatalf("%q: status %v", text, sysexits.Of(err))
			}
		}
		if !p.Set || p.Done != nil {
			return
		}
		again, err := ParsePosition(string(p.AppendToken(nil, "00D1")), "00D1")
		p.Time, p.Start = Millis(p.Time), Millis(p.Start)
		if err != nil || again.Time != p.Time || again.Start != p.Start || again.ID != p.ID || p.Failing.ID != "" && again.Failing != p.Failing {
			t.Fatalf("%q is %+v and then %+v, %v", text, p, again, err)
		}
	})
}

// form leaves out what package time is lax about: hours of one digit, a comma.
var form = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:?\d\d)$`)

// A time is that of the slower way to read it, within what nanoseconds can say.
func FuzzParseTime(f *testing.F) {
	for _, s := range []string{
		"2026-07-01T10:00:00.000+0000", "2026-07-01T10:00:00+0200", "2026-07-01T10:00:00.5-00:30", "2026-07-01T10:00:00Z", "1600-01-01T00:00:00Z", "2300-01-01T00:00:00.000+0000", "2026-02-30T00:00:00Z",
		"2026-07-01", "+0000", "", "2026-07-01T10:00:00,5Z", "2026-07-01T24:00:00Z", "2026-07-01T10:00:00.0000000000+0000",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want, err := salesforce.ParseTime(text)
		got, ok := ParseTime([]byte(text))
		if ok && (err != nil || !want.Equal(time.Unix(0, got))) {
			t.Fatalf("%q is %v, package salesforce says %v, %v", text, time.Unix(0, got), want, err)
		}
		if !ok && err == nil && want.Year() > 1700 && want.Year() < 2200 && form.MatchString(text) {
			t.Fatalf("%q is no time, package salesforce says %v", text, want)
		}
		if ok && (Millis(got)%1e6 != 0 || got-Millis(got) < 0 || got-Millis(got) >= 1e6) {
			t.Fatalf("%d is %d in milliseconds", got, Millis(got))
		}
	})
}
