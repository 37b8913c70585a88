package eventlog

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/feed"
	"sf2loki/pkg/sftest"
	"sf2loki/pkg/sysexits"
)

func TestStoredPositions(t *testing.T) { // #103
	for text, rows := range map[string]int{
		`2026-07-02T15:00:00Z`:          7, // a bare time begins there
		`2026-07-02T15:00:00.000+0000`:  7,
		`2026-07-02`:                    12,
		`"x"`:                           12, // no position: lookback
		`[1]`:                           12,
		`{"last_created":"None"}`:       12,
		`{"last_created":5}`:            12,
		`{`:                             12,
		``:                              12,
		`null`:                          12,
		`{"v":1,"created":"yesterday"}`: 12,
		`{"v":0,"created":"2026-07-02T15:00:00.000Z"}`:                                                        12,
		`{"ids": [["0AT1", "2026-06-30T01:00:00.000+0000"]], "last_created": "2026-07-02T15:00:00.000+0000"}`: 7,
	} {
		t.Run(text, func(t *testing.T) {
			b := newBench(t)
			b.org.AddHour(login(10, 5))
			b.org.AddHour(login(11, 7))
			b.org.AddHour(sftest.Hour{Type: "API", Start: hourOf(10), Rows: 3})
			b.doc["eventlogfile:Login"] = text
			if err := b.pull("Login", "API"); err != nil {
				t.Fatal(err)
			}
			b.wantRows(rows + 3)
			if bad := rows == 12 && text != "2026-07-02"; bad != (b.last.Stats().Totals().LoadErrors == 1) {
				t.Errorf("%d load errors", b.last.Stats().Totals().LoadErrors)
			}
		})
	}
}

func TestDaemonPosition(t *testing.T) {
	b := newBench(t)
	at := now.Add(-2 * time.Hour)
	var ids []string
	for h := range 4 {
		ids = append(ids, b.org.AddHour(login(h, 1), created(at)))
	}
	b.config = func(c *Config) { c.PageSize = 2 }
	stamp := at.Format("2006-01-02T15:04:05.000+0000")
	b.doc["eventlogfile:Login"] = fmt.Sprintf(`{"ids": [[%q, %q], [%q, %q], %q], "last_created": %q}`, ids[0], stamp, ids[1], stamp, ids[3], stamp)
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(1)
	if b.rows()[0].Origin != ids[2]+":1" {
		t.Errorf("origin %s", b.rows()[0].Origin)
	}
}

func TestForeignAndNewerPositions(t *testing.T) {
	for _, text := range []string{
		`{"v":1,"org":"00Dxx0000009999EAA","created":"2026-07-02T15:00:00.000Z"}`,
		`{"v":1,"org":"00Dxx0000001gPLEAY","created":"2126-07-02T15:00:00.000Z"}`,
		`{"v":2,"anything":true}`,
	} {
		b := newBench(t)
		b.org.AddHour(login(10, 5))
		b.org.AddHour(sftest.Hour{Type: "API", Start: hourOf(10), Rows: 3})
		b.doc["eventlogfile:Login"] = text
		wantCode(t, b.pull("*"), sysexits.Config)
		if len(b.lines) != 0 {
			t.Errorf("%s: records were written", text)
		}
	}
}

func TestStoredIDIsNoCode(t *testing.T) { // #150
	b := newBench(t)
	b.org.AddHour(login(10, 5))
	b.doc["eventlogfile:Login"] = `{"v":1,"created":"2026-07-02T14:07:21.000Z","id":"0AT' OR Id > '"}`
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(5)
	if q := b.org.Requests("FROM EventLogFile"); len(q) == 0 || strings.Contains(q[0].Line(), "OR Id") {
		t.Errorf("queries %v", q)
	}
}

func TestNewTypeAfterAnOutage(t *testing.T) {
	b := newBench(t)
	b.config = func(c *Config) { c.Lookback = 24 * time.Hour }
	b.org.AddHour(login(23, 5), created(now.Add(-time.Hour)))
	if err := b.pull("*"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(5)
	b.org.AddHour(sftest.Hour{Type: "LoginAs", Start: now.Add(5 * time.Hour), Rows: 2}, created(now.Add(8*time.Hour)))
	b.org.SetSkew(72 * time.Hour)
	if err := b.pull("*"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(2)
}

func TestFirstStartIsNoted(t *testing.T) {
	b := newBench(t)
	b.config = func(c *Config) { c.Lookback = 24 * time.Hour }
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.org.AddHour(login(23, 5), created(now.Add(time.Hour)))
	b.org.SetSkew(72 * time.Hour)
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(5)
}

func TestWindow(t *testing.T) {
	b := newBench(t)
	for h := 8; h < 14; h++ {
		b.org.AddHour(login(h, h), created(now.Add(-time.Duration(30-h)*time.Hour)))
	}
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	live := b.doc["eventlogfile:Login"]
	b.config = func(c *Config) { c.Window = feed.Window{Since: hourOf(9), Until: hourOf(11)} }
	for _, want := range []int{9 + 10, 0} {
		if err := b.pull("Login"); err != nil {
			t.Fatal(err)
		}
		b.wantRows(want)
	}
	if b.doc["eventlogfile:Login"] != live || b.doc["window=2026-07-02T09:00:00Z/2026-07-02T11:00:00Z:eventlogfile:Login"] == "" {
		t.Errorf("keys %v", b.doc)
	}
}

func TestSince(t *testing.T) { // a position wins over --since
	b := newBench(t)
	b.org.AddHour(login(9, 9), created(now.Add(-9*time.Hour)))
	b.org.AddHour(login(10, 10), created(now.Add(-8*time.Hour)))
	b.config = func(c *Config) { c.Window.Since = hourOf(10) }
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(10)
	b.org.AddHour(login(8, 8), created(now.Add(-7*time.Hour)))
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(8)
}

func TestResume(t *testing.T) {
	b := newBench(t)
	b.org.AddHour(login(10, 40))
	b.org.AddHour(login(11, 40), func(f *sftest.LogFile) { f.Body = reversed(f.Body) })
	b.org.AddHour(login(12, 3))
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	want := b.rows()
	if len(want) != 83 || !slices.IsSortedFunc(want[:80], func(a, b line) int { return strings.Compare(a.TS, b.TS) }) {
		t.Fatalf("%d rows, or not in order", len(want))
	}
	for kill := 1; kill <= len(b.lines)+1; kill += 3 {
		clear(b.doc)
		var got []line
		for b.limit = kill; ; {
			err := b.pull("Login")
			got = append(got, b.rows()...)
			if err == nil {
				break
			}
			wantCode(t, err, sysexits.IOErr)
			b.limit += 7
		}
		b.limit = 0
		if !slices.EqualFunc(got, want, func(a, b line) bool {
			return a.Line == b.Line && a.TS == b.TS && a.Value == b.Value && a.Origin == b.Origin
		}) {
			t.Fatalf("killed after %d records: %d rows, want %d", kill, len(got), len(want))
		}
	}
}

func reversed(csv []byte) []byte {
	rows := slices.Collect(bytes.Lines(csv))
	slices.Reverse(rows[1:])
	return bytes.Join(rows, nil)
}

func TestBegunFileChanges(t *testing.T) {
	b := newBench(t)
	id := b.org.AddHour(login(10, 5))
	token := func(id string, length int) string {
		return fmt.Sprintf(`{"v":1,"created":"2026-07-02T14:07:21.000Z","id":%q,"len":%d,"order":1,"rows":2}`, id, length)
	}
	length := len(b.org.LogFileBody(id))
	for text, want := range map[string]int{
		token(id, length):   3,
		token(id, length-1): 5,
		strings.Replace(token(id, length), `"order":1`, `"order":99`, 1): 5,
	} {
		b.doc["eventlogfile:Login"] = text
		if err := b.pull("Login"); err != nil {
			t.Fatal(err)
		}
		b.wantRows(want)
	}
	b.doc["eventlogfile:Login"] = token(sftest.ID18("0ATxx0000000000"), length)
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(5)
	if g := b.gaps(); len(g) != 1 || g[0].Gap.Rows != 2 {
		t.Errorf("gaps %+v", g)
	}
}
