// Package replay sends dead letters through a command that pushes them, and
// gives each the fate that the command's acknowledgements and its own dead
// letters tell. dl-replay(1) describes it from the outside.
package replay

import (
	"slices"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/spool"
)

// The ways to send an entry's time.
const (
	Keep  = "keep"  // as it is; what the server finds too old is left alone
	Now   = "now"   // the present time, with the entry's own in its metadata
	Clamp = "clamp" // the same for those that would be too old
)

// The orders of sending.
const (
	ByCapture = "captured"
	ByEvent   = "event"
)

// Options say what is sent, and how.
type Options struct {
	Selection spool.Selection
	Limit     int // the most records; 0 for all

	MaxAge      time.Duration // what is older is refused by the server; 0 when nothing is
	TS          string        // Keep, Now or Clamp
	Force       bool          // send what the server will hardly take, too
	MaxAttempts int           // records refused so often are left alone; 0 for never

	Order        string
	Rate         float64 // records a second; 0 for no limit
	StreamLabels []record.Pair

	Now func() time.Time
}

// Verdict is what a replay does with a record, or why it leaves it alone.
type Verdict int

// The verdicts.
const (
	Other Verdict = iota // not selected
	Send
	TooOld // the server would refuse it for its age
	Spent  // refused as often as it may be
	Unsent // sent only when its reason is asked for by name
)

// Judge decides about one record.
func (o *Options) Judge(l *spool.Letter, s spool.Status) Verdict {
	if !o.Selection.Matches(l, s) {
		return Other
	}
	asked := slices.Contains(o.Selection.Reasons, string(l.Reason()))
	if !asked && (l.Reason() == record.TruncatedCopy || !l.HasLine()) {
		return Unsent
	}
	if o.Force {
		return Send
	}
	if o.MaxAttempts > 0 && l.Attempts() >= o.MaxAttempts {
		return Spent
	}
	if at, ok := l.Time(); ok && o.TS == Keep && o.tooOld(at) {
		return TooOld
	}
	return Send
}

func (o *Options) tooOld(at int64) bool {
	return o.MaxAge > 0 && at < o.Now().Add(-o.MaxAge).UnixNano()
}

// Counts are what was decided about the records that were selected.
type Counts struct {
	Send   int64 `json:"send"`
	TooOld int64 `json:"too_old"`
	Spent  int64 `json:"out_of_attempts"`
	Unsent int64 `json:"only_when_asked_for"`
}

func (c *Counts) add(v Verdict) {
	switch v {
	case Send:
		c.Send++
	case TooOld:
		c.TooOld++
	case Spent:
		c.Spent++
	case Unsent:
		c.Unsent++
	}
}
