package feed

import (
	"fmt"
	"testing"
	"time"

	"sf2loki/pkg/sysexits"
)

var now = time.Date(2026, 7, 2, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, terms Terms, text string) *Track {
	t.Helper()
	track, err := Open(terms, NewMemory(100), text, text != "", now)
	if err != nil {
		t.Fatal(err)
	}
	return track
}

// Where a key begins, and why.
func TestWhereATrackBegins(t *testing.T) {
	const stored = `{"v":1,"ts":"2026-07-02T10:00:00.000Z","id":"0Ya1"}`
	tests := []struct {
		name  string
		terms Terms
		text  string
		at    string
		cause string
	}{
		{"without a position", Terms{Lookback: time.Hour}, "", "2026-07-02T11:00:00Z", "lookback"},
		{"with one", Terms{Lookback: time.Hour}, stored, "2026-07-02T10:00:00Z", "position"},
		{"with the daemon's", Terms{Lookback: time.Hour}, `{"ids":["a"],"last_ts":"2026-07-02T09:00:00Z"}`, "2026-07-02T09:00:00Z", "position of the daemon"},
		{"since a time", Terms{Lookback: time.Hour, Window: Window{Since: now.AddDate(0, 0, -9)}}, "", "2026-06-23T12:00:00Z", "since"},
		{"until a time", Terms{Lookback: time.Hour, Window: Window{Until: now}}, "", "1999-01-01T00:00:00Z", "the oldest row"},
		{"since a time, with a position", Terms{Window: Window{Since: now.AddDate(0, 0, -9)}}, stored, "2026-07-02T10:00:00Z", "position"},
	}
	for _, tt := range tests {
		track := open(t, tt.terms, tt.text)
		if got := DateTime(track.At()); got != DateTime(at(tt.at)) || track.Cause != tt.cause {
			t.Errorf("%s: begins at %s for %q, want %s for %q", tt.name, got, track.Cause, tt.at, tt.cause)
		}
	}
	if _, err := Open(Terms{}, NewMemory(1), `{"v":1,"ts":"2027-07-02T10:00:00.000Z"}`, true, now); sysexits.Of(err) != sysexits.Config {
		t.Errorf("a position in the future: %v", err)
	}
	track, err := Open(Terms{Lookback: time.Hour}, NewMemory(1), "what", true, now)
	if !IsUseless(err) || track.Cause != "lookback" {
		t.Errorf("a useless position: %+v, %v", track, err)
	}
}

// A cycle reads again what the overlap asks for, but nothing that was never
// asked for, nothing that is not remembered, and nothing outside of its window.
func TestWhereACycleBegins(t *testing.T) {
	const stored = `{"v":1,"ts":"2026-07-02T10:00:00.000Z","id":"0Ya1"}`
	settled := now.UnixNano()
	tests := []struct {
		name  string
		terms Terms
		text  string
		want  string
	}{
		{"no position", Terms{Lookback: time.Hour, Overlap: time.Minute}, "", "2026-07-02T11:00:00.000Z  false"},
		{"no overlap", Terms{}, stored, "2026-07-02T10:00:00.000Z 0Ya1 false"},
		{"an overlap", Terms{Overlap: time.Minute}, stored, "2026-07-02T09:59:00.000Z  false"},
		{"an overlap that reaches behind the beginning", Terms{Overlap: time.Hour},
			`{"v":1,"ts":"2026-07-02T10:00:00.000Z","id":"0Ya1","start":"2026-07-02T09:59:30.000Z"}`, "2026-07-02T09:59:30.000Z  false"},
		{"an overlap that reaches out of the window", Terms{Overlap: time.Hour, Window: Window{Since: now.Add(-2 * time.Hour).Add(-time.Second)}}, stored,
			"2026-07-02T09:59:59.000Z  false"},
		{"a window that nothing can come into any more", Terms{Overlap: time.Hour, Window: Window{Until: now.Add(-time.Hour)}}, stored,
			"2026-07-02T10:00:00.000Z 0Ya1 false"},
		{"a window that something can still come into", Terms{Overlap: time.Hour, Window: Window{Until: now.Add(-time.Hour).Add(time.Millisecond)}}, stored,
			"2026-07-02T09:00:00.000Z  false"},
	}
	for _, tt := range tests {
		from, id, short := open(t, tt.terms, tt.text).From(settled)
		if got := fmt.Sprintf("%s %s %t", DateTime(from), id, short); got != tt.want {
			t.Errorf("%s: from %q, want %q", tt.name, got, tt.want)
		}
	}
}

// When more rows come than can be remembered, less is read again, and that is
// told: rows that nobody remembers would be written twice.
func TestShortMemory(t *testing.T) {
	track, err := Open(Terms{Overlap: time.Hour, Lookback: 2 * time.Hour}, NewMemory(2), "", false, now)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		row := now.Add(time.Duration(i-10) * time.Minute).UnixNano()
		track.Wrote(KeyOf(fmt.Append(nil, i)), row, true)
		track.Advance(row, fmt.Sprint(i))
	}
	from, id, short := track.From(now.UnixNano())
	if DateTime(from) != "2026-07-02T11:51:00.001Z" || id != "" || !short || track.Remembered() != 2 {
		t.Errorf("from %s %q, short %t, %d remembered", DateTime(from), id, short, track.Remembered())
	}
	if _, _, short := track.From(now.UnixNano()); short {
		t.Error("it is told with every cycle")
	}
	if got := track.Reach(); got != 2*time.Minute-time.Millisecond {
		t.Errorf("the overlap reaches %s", got)
	}
}

// Rows of an overlap that were written are told from those that came late.
func TestWrittenRows(t *testing.T) {
	track := open(t, Terms{Overlap: time.Minute}, `{"ids":["0Ya1"],"last_ts":"2026-07-02T10:00:00Z"}`)
	ten := at("2026-07-02T10:00:00Z")
	one, two := KeyOf([]byte("0Ya1")), KeyOf([]byte("0Ya2"))
	if !track.Written(one, ten, true) || track.Written(two, ten, true) {
		t.Error("what the daemon has pulled is not told from what it has not")
	}
	track.Wrote(two, ten, true)
	track.Wrote(KeyOf([]byte("odd")), 0, false)
	if !track.Written(two, ten, true) || !track.Written(KeyOf([]byte("odd")), 0, false) || track.Written(one, 0, false) {
		t.Error("what was written is not remembered")
	}
	track.Advance(at("2026-07-02T10:02:00Z"), "0Ya3")
	track.Forget()
	if track.Remembered() != 0 || track.Written(two, ten, true) {
		t.Errorf("%d rows are remembered that no overlap reaches", track.Remembered())
	}
	for i := range maxOdd + 10 { // without a time nothing tells which are out of reach
		track.Wrote(KeyOf(fmt.Append(nil, "odd ", i)), 0, false)
	}
	if len(track.odd) > maxOdd || !track.Written(KeyOf(fmt.Append(nil, "odd ", maxOdd+9)), 0, false) {
		t.Errorf("%d rows without a time are remembered", len(track.odd))
	}
}

// The position follows the rows and never goes back; within one time, Ids come
// as the server orders them once a cycle has begun to move.
func TestAdvance(t *testing.T) {
	track := open(t, Terms{Overlap: time.Minute}, `{"v":1,"ts":"2026-07-02T10:00:00.000Z","id":"b","start":"2026-07-02T09:59:30.000Z"}`)
	ten := at("2026-07-02T10:00:00Z")
	step := func(at int64, id, want string) {
		t.Helper()
		track.Advance(at, id)
		if got := string(track.AppendToken(nil)); got != want {
			t.Errorf("after %s: %s, want %s", id, got, want)
		}
	}
	step(ten-1e6, "z", `{"v":1,"ts":"2026-07-02T10:00:00.000Z","id":"b","start":"2026-07-02T09:59:30.000Z"}`)
	step(ten, "a", `{"v":1,"ts":"2026-07-02T10:00:00.000Z","id":"b","start":"2026-07-02T09:59:30.000Z"}`)
	step(ten, "c", `{"v":1,"ts":"2026-07-02T10:00:00.000Z","id":"c","start":"2026-07-02T09:59:30.000Z"}`)
	step(ten, "C", `{"v":1,"ts":"2026-07-02T10:00:00.000Z","id":"C","start":"2026-07-02T09:59:30.000Z"}`)
	track.From(now.UnixNano()) // the next cycle
	step(ten, "B", `{"v":1,"ts":"2026-07-02T10:00:00.000Z","id":"C","start":"2026-07-02T09:59:30.000Z"}`)
	step(ten+31e9, "d", `{"v":1,"ts":"2026-07-02T10:00:31.000Z","id":"d"}`)
}

// A key without rows gets a position, once, so that a program that runs seldom
// looks back to where it began and not only as far as its lookback.
func TestAnchor(t *testing.T) {
	track := open(t, Terms{OrgID: "00D1", Lookback: time.Hour}, "")
	if got := track.AppendToken(nil); len(got) != 0 {
		t.Errorf("a position before there is one: %s", got)
	}
	if !track.Anchor() || track.Anchor() {
		t.Error("an anchor is dropped once")
	}
	if got, want := string(track.AppendToken(nil)), `{"v":1,"org":"00D1","ts":"2026-07-02T11:00:00.000Z","start":"2026-07-02T11:00:00.000Z"}`; got != want {
		t.Errorf("the position is %s, want %s", got, want)
	}
}

// A cycle reads what is settled, and of a window no more than its end.
func TestUpper(t *testing.T) {
	settled := now.UnixNano()
	if got := open(t, Terms{}, "").Upper(settled); got != settled {
		t.Errorf("up to %s", DateTime(got))
	}
	window := open(t, Terms{Window: Window{Until: now.Add(-time.Hour)}}, "")
	if got := window.Upper(settled); got != now.Add(-time.Hour).UnixNano() {
		t.Errorf("up to %s", DateTime(got))
	}
	if got := window.Upper(now.Add(-2 * time.Hour).UnixNano()); got != now.Add(-2*time.Hour).UnixNano() {
		t.Errorf("up to %s, which is not settled", DateTime(got))
	}
}
