package sobject

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/sftest"
)

// cutShort has the answers of an org end after their first page, and say that
// they are whole.
type cutShort struct{}

var nextURL = regexp.MustCompile(`"done":false,"nextRecordsUrl":"[^"]*"`)

func (c *cutShort) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || !strings.HasSuffix(r.URL.Path, "/query") {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	body = nextURL.ReplaceAll(body, []byte(`"done":true`))
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, err
}

// bigBench is an org whose answers about Big Objects lead on, or do not.
func bigBench(t *testing.T, leadsOn bool, page int) *bench {
	b := newBench(t, func(c *sftest.Config) { c.PageSize = page })
	if !leadsOn {
		b.http = &http.Client{Transport: &cutShort{}}
	}
	return b
}

// bothWays runs a test with answers that lead on and with ones that do not,
// with identifiers that rise and that fall within a moment.
func bothWays(t *testing.T, f func(t *testing.T, b *bench, falling bool)) {
	for _, leadsOn := range []bool{true, false} {
		for _, falling := range []bool{true, false} {
			for _, page := range []int{200, 2000} {
				t.Run(fmt.Sprintf("leadsOn=%t,falling=%t,page=%d", leadsOn, falling, page), func(t *testing.T) {
					f(t, bigBench(t, leadsOn, page), falling)
				})
			}
		}
	}
}

func TestBigObject(t *testing.T) { // #46 C15
	bothWays(t, func(t *testing.T, b *bench, falling bool) {
		ids := b.events(1100, 0, falling, b.ago(20*time.Hour), 30*time.Second)
		got := b.must("LoginEvent")
		sameSet(t, origins(got), ids)
		inOrder(t, got)
		if !slices.Equal(origins(got), originsByTime(got)) {
			t.Error("rows of one time are not in the order of their identifiers")
		}
		for _, q := range b.queries("LoginEvent")[1:] {
			if strings.Contains(q, "ASC") || strings.Contains(q, "NOT IN") || strings.Contains(q, "COUNT") || strings.Contains(q, " Id ") || !strings.Contains(q, "ORDER BY EventDate DESC LIMIT ") {
				t.Errorf("query is %s", q)
			}
		}
		if asc := len(b.queries("EventDate ASC")); asc != 1 {
			t.Errorf("%d queries in ascending order", asc)
		}
	})
}

func originsByTime(lines []line) []string {
	sorted := slices.Clone(lines)
	slices.SortFunc(sorted, func(a, b line) int {
		if c := strings.Compare(a.TS, b.TS); c != 0 {
			return c
		}
		return strings.Compare(a.Origin, b.Origin)
	})
	return origins(sorted)
}

func TestKnownBigObject(t *testing.T) {
	b := newBench(t)
	ids := b.events(3, 0, false, b.ago(time.Hour), time.Second)
	sameSet(t, origins(b.must("LoginEvent,big")), ids)
	if asc := len(b.queries("EventDate ASC")); asc != 0 {
		t.Errorf("%d queries in ascending order", asc)
	}
}

func TestBigTies(t *testing.T) { // #38 for Big Objects, peers 27
	bothWays(t, func(t *testing.T, b *bench, falling bool) {
		at := b.ago(time.Hour)
		ids := b.events(150, 0, falling, at.Add(-time.Minute), time.Millisecond)
		ids = append(ids, b.events(650, 1000, falling, at, 0)...)
		ids = append(ids, b.events(250, 5000, falling, at.Add(time.Millisecond), 0)...)
		ids = append(ids, b.events(20, 9000, falling, at.Add(time.Minute), time.Millisecond)...)
		s := b.open("LoginEvent")
		got := b.mustCycle(s)
		sameSet(t, origins(got), ids)
		inOrder(t, got)
		for range 2 {
			b.advance(5 * time.Minute)
			if again := b.mustCycle(s); len(again) != 0 {
				t.Errorf("%d rows again", len(again))
			}
		}
	})
}

func TestBigTiesInNoOrder(t *testing.T) {
	b := bigBench(t, false, 200)
	var rows []sftest.Row
	var ids []string
	for i := range 900 {
		id := eventID(i * 7919 % 900)
		ids = append(ids, id)
		rows = append(rows, sftest.Row{"EventDate": b.ago(time.Hour), "EventIdentifier": id})
	}
	b.org.Insert("LoginEvent", rows...)
	sameSet(t, origins(b.must("LoginEvent")), ids)
}

func TestBigMoment(t *testing.T) { // one moment has more rows than may wait
	bothWays(t, func(t *testing.T, b *bench, falling bool) {
		b.config = func(c *Config) { c.BufferBytes = 90 << 10; c.Concurrency = 1 }
		at := b.ago(time.Hour)
		ids := b.events(100, 0, falling, at.Add(-time.Second), 9*time.Millisecond)
		ids = append(ids, b.events(450, 1000, falling, at, 0)...)
		ids = append(ids, b.events(100, 5000, falling, at.Add(time.Millisecond), time.Millisecond)...)
		s := b.open("LoginEvent")
		lines, err := b.cycle(s)
		if err != nil {
			t.Fatal(err)
		}
		got := entries(lines)
		sameSet(t, origins(got), ids)
		inOrder(t, got)
		before := b.doc["eventlog_objects:LoginEvent"]
		if again := b.mustCycle(s); len(again) != 0 {
			t.Errorf("%d rows again", len(again))
		}
		if b.doc["eventlog_objects:LoginEvent"] != before {
			t.Error("the position has moved")
		}
	})
}

func TestBigLateRows(t *testing.T) { // stored events come late and in any order
	b := newBench(t)
	s := b.open("LoginEvent")
	var want, got []string
	for i := range 30 {
		at := b.org.Now()
		for j := range 5 {
			id := eventID(i*10 + j)
			want = append(want, id)
			b.org.Insert("LoginEvent", sftest.Row{"EventDate": at.Add(time.Duration(j) * time.Second), "EventIdentifier": id,
				sftest.VisibleAt: at.Add(time.Duration((i*7+j*5)%14) * time.Minute)})
		}
		b.advance(time.Minute)
		if i%5 == 4 {
			got = append(got, origins(b.mustCycle(s))...)
		}
	}
	for range 5 {
		b.advance(5 * time.Minute)
		got = append(got, origins(b.mustCycle(s))...)
	}
	sameSet(t, got, want)
}

func TestBigQueryTimeout(t *testing.T) { // peers 25
	b := newBench(t)
	ids := b.events(500, 0, false, b.ago(20*time.Hour), 2*time.Minute)
	b.org.Fault("DESC", sftest.Fault{Fixture: "err_400_query_timeout.json", Times: 4, Skip: 0})
	sameSet(t, origins(b.must("LoginEvent")), ids)
}

func TestBigLocatorExpires(t *testing.T) {
	b := newBench(t, func(c *sftest.Config) { c.PageSize = 200 })
	ids := b.events(900, 0, false, b.ago(20*time.Hour), time.Minute)
	b.org.Fault("/query/01g", sftest.Fault{Fixture: "err_400_locator.json", Skip: 1, Times: 2})
	sameSet(t, origins(b.must("LoginEvent")), ids)
}

func TestBigWithoutIdentifier(t *testing.T) {
	b := newBench(t)
	var rows []sftest.Row
	for i := range 10 {
		rows = append(rows, sftest.Row{"EventDate": b.ago(time.Hour), "Username": fmt.Sprint(i)})
	}
	b.org.Insert("LoginEvent", rows...)
	s := b.open("LoginEvent")
	if got := b.mustCycle(s); len(got) != 10 || got[0].Origin != "" {
		t.Errorf("%d rows", len(got))
	}
	if got := b.mustCycle(s); len(got) != 0 {
		t.Errorf("%d rows again", len(got))
	}
}
