package feed

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/sysexits"
)

func at(text string) int64 {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t.UnixNano()
}

// What may be stored under a key: tokens, what the daemon stored, and what a
// person sets. What is of another org or of a newer release stops everything;
// what is none at all can be done without.
func TestParsePosition(t *testing.T) {
	ten := at("2026-07-01T10:00:00Z")
	tests := []struct {
		name, text string
		want       Position
		useless    bool
		status     sysexits.Code
	}{
		{"a time", " 2026-07-01T10:00:00Z\n", Position{Set: true, Time: ten}, false, 0},
		{"a time of another zone", "2026-07-01T12:00:00+02:00", Position{Set: true, Time: ten}, false, 0},
		{"a date", "2026-07-01", Position{Set: true, Time: at("2026-07-01T00:00:00Z")}, false, 0},
		{"the daemon's", `{"ids":["0Ya1","0Ya2"],"last_ts":"2026-07-01T10:00:00.000+0000"}`,
			Position{Set: true, Time: ten, Start: ten, Done: []string{"0Ya1", "0Ya2"}}, false, 0},
		{"the daemon's at its first start", `{"ids":[],"last_ts":null}`, Position{}, true, 0},
		{"the daemon's with something else", `{"last_ts":"yesterday"}`, Position{}, true, 0},
		{"ours without an org", `{"v":1,"ts":"2026-07-01T10:00:00.000Z","id":"0Ya1"}`, Position{Set: true, Time: ten, ID: "0Ya1"}, false, 0},
		{"ours with what a neighbour release adds", `{"v":1,"ts":"2026-07-01T10:00:00.000Z","more":1}`, Position{Set: true, Time: ten}, false, 0},
		{"of another org", `{"v":1,"org":"00D2","ts":"2026-07-01T10:00:00.000Z"}`, Position{}, false, sysexits.Config},
		{"of a newer release", `{"v":2,"ts":"2026-07-01T10:00:00.000Z"}`, Position{}, false, sysexits.Config},
		{"of no release", `{"v":0,"ts":"2026-07-01T10:00:00.000Z"}`, Position{}, true, 0},
		{"of a version that is no number", `{"v":"1","ts":"2026-07-01T10:00:00.000Z"}`, Position{}, true, 0},
		{"with a time that is none", `{"v":1,"ts":"soon"}`, Position{}, true, 0},
		{"with members of another kind", `{"v":1,"ts":5}`, Position{}, true, 0},
		{"with an id that would change the query", `{"v":1,"ts":"2026-07-01T10:00:00.000Z","id":"x' OR Id != '"}`, Position{Set: true, Time: ten}, true, 0},
		{"with an id that is too long", `{"v":1,"ts":"2026-07-01T10:00:00.000Z","id":"` + strings.Repeat("a", 256) + `"}`, Position{Set: true, Time: ten}, true, 0},
		{"a date that nanoseconds have no number for", "1600-01-01", Position{}, true, 0},
		{"empty", "", Position{}, true, 0},
		{"a list", "[]", Position{}, true, 0},
		{"null", "null", Position{}, true, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParsePosition(tt.text, "00D1")
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if IsUseless(err) != tt.useless || !tt.useless && sysexits.Of(err) != tt.status {
				t.Errorf("error %v (status %d)", err, sysexits.Of(err))
			}
			if err != nil && len(err.Error()) > 400 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

// A day ahead may be a clock; more is a position that would pass over what
// happens until then.
func TestAhead(t *testing.T) {
	now := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
	if err := Ahead(now.Add(24*time.Hour-time.Millisecond), now); err != nil {
		t.Errorf("less than a day: %v", err)
	}
	err := Ahead(now.Add(24*time.Hour), now)
	if sysexits.Of(err) != sysexits.Config || !strings.Contains(err.Error(), "2026-07-02T10:00:00.000Z") {
		t.Errorf("a day: %v", err)
	}
	if hint := (interface{ Hint() string })(nil); !errors.As(err, &hint) || !strings.Contains(hint.Hint(), "ckpt set") {
		t.Errorf("no cure is named: %v", err)
	}
}
