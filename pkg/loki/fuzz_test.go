package loki

import (
	"encoding/json"
	"errors"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/errtest"
)

// A pause is what package http and plain arithmetic say, as far as it is below
// the cap.
func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"5", " 120 ", "0", "-5", "+5", "300", "301", "99999999999999999999", "1.5", "Wed, 01 Jul 2026 10:00:07 GMT", "Wednesday, 01-Jul-26 10:00:07 GMT", "Wed Jul  1 10:00:07 2026", "Wed, 01 Jul 1026 10:00:07 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "soon", ""} {
		f.Add(s, "Wed, 01 Jul 2026 10:00:00 GMT")
		f.Add(s, "")
	}
	now := time.Date(2026, 7, 1, 9, 0, 0, 0, time.UTC)
	c := &Client{maxRetryAfter: 5 * time.Minute, now: func() time.Time { return now }}
	f.Fuzz(func(t *testing.T, after, date string) {
		got := c.retryAfter(http.Header{"Retry-After": {after}, "Date": {date}})
		if got < 0 {
			t.Fatalf("%q is %v", after, got)
		}
		text := strings.TrimSpace(after)
		if seconds, ok := new(big.Int).SetString(text, 10); ok && strings.Trim(text, "0123456789") == "" {
			want := c.maxRetryAfter + time.Second
			if seconds.Cmp(big.NewInt(301)) < 0 {
				want = time.Duration(seconds.Int64()) * time.Second
			}
			if got != want {
				t.Fatalf("%q is %v, want %v", after, got, want)
			}
			return
		}
		at, err := http.ParseTime(text)
		from, dateErr := http.ParseTime(date)
		if dateErr != nil {
			from = now
		}
		if want := max(at.Sub(from), 0); err != nil && got != 0 || err == nil && got != want {
			t.Fatalf("%q at %q is %v, want %v", after, date, got, want)
		}
	})
}

// A target has a host and no secret, and no error tells one.
func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{
		"http://loki:3100", "https://u:SECRET@loki/", "https://u:SECRET@loki/prefix/loki/api/v1/push?x=y#f", "https://u:SECRET @loki", "https://u:SECRET@lo ki", "http://u:SECRET@[::1", "http://u:SECRET@h:port", "ftp://h", "http:loki", "loki:3100", "http://", "", "http://h/%zz", "http://h\x01",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, _, err := parseTarget(text)
		if err != nil {
			if strings.Contains(err.Error(), "SECRET") && strings.Contains(text, "@") {
				t.Fatalf("%q is told: %v", text, err)
			}
			return
		}
		if u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" || u.Path == "" || u.Path == "/" {
			t.Fatalf("%q is %+v", text, u)
		}
		again, user, err := parseTarget(u.String())
		if err != nil || again.String() != u.String() || user != nil {
			t.Fatalf("%q is %s and then %s, %v", text, u, again, err)
		}
	})
}

// Counts are one for each series, or the answer is refused in one line.
func FuzzParseCounts(f *testing.F) {
	for _, s := range []string{
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"source":"eventlogfile","event_type":"Login"},"value":[1782900000,"998"]}]}}`,
		`{"status":"success","data":{"resultType":"vector","result":[]}}`, `{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"1.5"]}]}}`, `{"status":"success","data":{"resultType":"vector","result":[{"value":[1,7]}]}}`,
		`{"status":"success","data":{"resultType":"matrix"}}`, `{"status":"error"}`, `[]`, `{"status":"success","data":{"resultType":"vector","result":[{"value":["x"]}]}}`, `{"status":"` + strings.Repeat("7", 5000) + `"}`, `{"status":` + strings.Repeat("7", 5000) + `}`,
		`{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"-3"]}]}}`,
	} {
		f.Add([]byte(s))
	}
	hour := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text []byte) {
		counts, err := parseCounts(text, hour)
		if err != nil {
			errtest.OneLine(t, err)
			return
		}
		var answer struct {
			Data struct{ Result []json.RawMessage }
		}
		if err := json.Unmarshal(text, &answer); err != nil || len(counts) != len(answer.Data.Result) {
			t.Fatalf("%s counts %d series, %v", text, len(counts), err)
		}
		for _, c := range counts {
			if c.Entries < 0 || !c.Hour.Equal(hour) {
				t.Fatalf("%s counts %+v", text, c)
			}
		}
	})
}

// A day's budget is kept whatever its file holds, and what is no such file
// stays as it is.
func FuzzDailyFile(f *testing.F) {
	for _, s := range []string{
		"", `{"date":"`, `{"date":"` + today() + `","bytes":95}`, `{"date":"` + today() + `","bytes":-9000000000000000000}`, `{"date":"` + today() + `","bytes":9223372036854775807}`, `{"date":"2026-07-01","bytes":5}` + "\n", `{"date":7}`, "notes", `{"date":"x","bytes":1e3}`,
	} {
		f.Add([]byte(s), int64(10))
	}
	f.Fuzz(func(t *testing.T, text []byte, n int64) {
		path := filepath.Join(t.TempDir(), "daily")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		n = n&0xff + 1
		d, err := newDaily(EgressConfig{DailyBytes: 100, File: path}, slog.New(slog.DiscardHandler))
		if err != nil {
			if kept, _ := os.ReadFile(path); string(kept) != string(text) || strings.HasPrefix(string(text), `{"date":"`) || len(text) == 0 {
				t.Fatalf("%q is %q: %v", text, kept, errors.Unwrap(err))
			}
			return
		}
		for range 20 {
			before := d.count.Bytes
			if ok, _ := d.admit(n); ok && (d.count.Bytes <= before && d.count.Bytes != n || d.count.Bytes > max(100, n)) {
				t.Fatalf("%q: %d bytes, with %d more %d", text, before, n, d.count.Bytes)
			}
		}
		if ok, _ := d.admit(n); ok && n >= 10 {
			t.Fatalf("%q: the budget of %d never ends", text, d.count.Bytes)
		}
	})
}
