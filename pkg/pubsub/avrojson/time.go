package avrojson

import (
	"strconv"
	"time"

	"sf2loki/pkg/record"
)

// Time reads field i of the last event as a time, in nanoseconds. A number is
// in milliseconds, unless its size shows that its publisher meant seconds, or
// its logical type tells the unit.
func (d *Decoder) Time(i int) (int64, bool) {
	text := d.Cell(i)
	if len(text) == 0 {
		return 0, false
	}
	if d.cells[i].in == inPayload {
		return parseTime(text)
	}
	return parseEpoch(text, unitOf(d.s.root.fields[i].node))
}

// CommitTime is the commitTimestamp of a change event's header.
func (d *Decoder) CommitTime() (int64, bool) {
	return d.commit, d.dated
}

// unitOf is how many nanoseconds one of n is by its logical type; 0: it does
// not tell.
func unitOf(n *node) int64 {
	if n.kind == kindUnion {
		for _, b := range n.branches {
			if b.logical != "" {
				return unitOf(b)
			}
		}
	}
	switch n.logical {
	case "timestamp-nanos", "local-timestamp-nanos":
		return 1
	case "timestamp-micros", "local-timestamp-micros":
		return 1e3
	case "timestamp-millis", "local-timestamp-millis":
		return 1e6
	}
	return 0
}

// The times that an event can have, in milliseconds: no bus is older than
// 2000, and whoever reads this after 2200 has other troubles.
const (
	earliest = 946_684_800_000
	latest   = 7_258_118_400_000
)

// parseEpoch reads a number of units since the epoch.
func parseEpoch(text []byte, unit int64) (int64, bool) {
	v, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		f, err := strconv.ParseFloat(string(text), 64)
		if err != nil || f < 0 || f > latest*1000 {
			return 0, false
		}
		v = int64(f)
	}
	if unit == 0 {
		unit = guessUnit(v)
	}
	if unit == 0 || v < earliest*1e6/unit || v > latest*1e6/unit {
		return 0, false
	}
	return v * unit, true
}

// guessUnit tells seconds, milliseconds and microseconds apart, whose numbers
// for the times that an event can have are far from each other.
func guessUnit(v int64) int64 {
	switch {
	case v >= earliest/1000 && v <= latest/1000:
		return 1e9
	case v >= earliest && v <= latest:
		return 1e6
	case v >= earliest*1000 && v <= latest*1000:
		return 1e3
	}
	return 0
}

// parseTime reads a time as text, in the forms of Salesforce.
func parseTime(text []byte) (int64, bool) {
	if t, err := record.ParseTime(text); err == nil {
		return t, true
	}
	if len(text) > 40 {
		return 0, false
	}
	t, err := time.Parse("2006-01-02T15:04:05.999999999Z0700", string(text))
	if err != nil || !record.Countable(t) {
		return 0, false
	}
	return t.UnixNano(), true
}
