package feed

import (
	"log/slog"
	"time"
)

// Terms are what a Track goes by.
type Terms struct {
	OrgID    string
	Window   Window
	Lookback time.Duration // how far back a key without a position begins
	Overlap  time.Duration // what is read again before the position
}

// Track is the way through the rows of one key: the position, and which rows
// have been written.
type Track struct {
	Pos   Position
	Cause string // why it begins where it does

	terms Terms
	begin int64 // where a key without a position begins
	seen  *Seen
	odd   map[Key]bool // rows without a time that have been written
	moved bool         // the position moved in this cycle
	told  bool         // it has been said that the overlap is short
}

// Open begins a Track at a stored position, or without one at the beginning of
// the window or the lookback. The error may be IsUseless: then the Track begins
// as far as the rest of the position says.
func Open(terms Terms, memory *Memory, text string, stored bool, now time.Time) (*Track, error) {
	t := &Track{terms: terms, seen: NewSeen(memory), odd: map[Key]bool{}}
	var err error
	if stored {
		t.Pos, err = ParsePosition(text, terms.OrgID)
		if ahead := Ahead(time.Unix(0, t.Pos.Time), now); t.Pos.Set && ahead != nil {
			return nil, ahead
		}
	}
	for _, id := range t.Pos.Done {
		t.seen.Add(KeyOf([]byte(id)), t.Pos.Time)
	}
	t.start(now)
	t.Pos.Done = nil
	return t, err
}

// start says where the Track begins, and why.
func (t *Track) start(now time.Time) {
	w := t.terms.Window
	switch {
	case t.Pos.Done != nil:
		t.Cause = "position of the daemon"
	case t.Pos.Set:
		t.Cause = "position"
	case !w.Since.IsZero():
		t.begin, t.Cause = w.Since.UnixNano(), "since"
	case w.Fixed():
		t.begin, t.Cause = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano(), "the oldest row"
	default:
		t.begin, t.Cause = now.Add(-t.terms.Lookback).UnixNano(), "lookback"
	}
	if !t.Pos.Set {
		t.begin = Millis(t.begin)
		t.Pos.Start = t.begin
	}
}

// Unready is the error of a window that ends after settled, up to which rows
// can be read; nil: all of it can be.
func (t *Track) Unready(settled int64) error {
	if w := t.terms.Window; w.Fixed() && settled < w.Until.UnixNano() {
		return &OddAnswer{"the window ends after " + DateTime(settled) + ", up to which rows can be read: run it again later"}
	}
	return nil
}

// WarnPurged says that rows may have gone before they were asked for, when
// Salesforce keeps them for so long; 0: who knows.
func (t *Track) WarnPurged(log *slog.Logger, key string, keeps time.Duration, now time.Time) {
	if !t.Pos.Set || keeps == 0 || t.terms.Window.Fixed() {
		return
	}
	if oldest := now.Add(-keeps); time.Unix(0, t.Pos.Time).Before(oldest) {
		log.Warn("Salesforce has deleted rows that were not pulled yet, if there were any",
			"key", key, "from", DateTime(t.Pos.Time), "until", DateTime(oldest.UnixNano()))
	}
}

// At is the time of the position, or where there is none the beginning.
func (t *Track) At() int64 {
	if t.Pos.Set {
		return t.Pos.Time
	}
	return t.begin
}

// Upper is the time that a cycle reads up to, when rows before settled can be
// read.
func (t *Track) Upper(settled int64) int64 {
	if t.terms.Window.Fixed() {
		return min(settled, Millis(t.terms.Window.Until.UnixNano()))
	}
	return settled
}

// From is where a cycle begins to read: an overlap before the position, less
// what would be out of reach or is not remembered. With an id it is behind the
// row of that id. short tells, once, that it is less of an overlap than was asked
// for.
func (t *Track) From(settled int64) (at int64, id string, short bool) {
	t.moved = false
	if !t.Pos.Set {
		return t.begin, "", false
	}
	overlap, w := int64(t.terms.Overlap), t.terms.Window
	if w.Fixed() && w.Until.UnixNano()+overlap <= settled {
		overlap = 0 // nothing can become visible in it any more
	}
	at = max(Millis(t.Pos.Time-overlap), t.Pos.Start, t.seen.Horizon())
	if !w.Since.IsZero() {
		at = max(at, Millis(min(w.Since.UnixNano(), t.Pos.Time)))
	}
	short = !t.told && t.seen.Horizon() > 0 && at == t.seen.Horizon()
	t.told = t.told || short
	if at > t.Pos.Time || overlap == 0 {
		return t.Pos.Time, t.Pos.ID, short
	}
	return at, "", short
}

// Advance moves the position to a row that lies behind it in the order of rows.
// Once the position has moved, rows of one time come in the order that the
// server gives Ids.
func (t *Track) Advance(at int64, id string) {
	if p := &t.Pos; p.Set && (at < p.Time || at == p.Time && !t.moved && id <= p.ID) {
		return
	}
	t.Pos.Set, t.Pos.Time, t.Pos.ID, t.moved = true, at, id, true
	if t.Pos.Start < at-int64(t.terms.Overlap) {
		t.Pos.Start = 0 // where reading began matters no more once no overlap reaches it
	}
}

// Anchor gives a key without rows a position, so that a program that runs
// seldom does not begin later each time. It tells whether it did.
func (t *Track) Anchor() bool {
	if t.Pos.Set {
		return false
	}
	t.Pos.Set, t.Pos.Time = true, t.begin
	return true
}

// AppendToken appends the position as it is stored, nothing when there is none.
func (t *Track) AppendToken(dst []byte) []byte {
	if !t.Pos.Set {
		return dst
	}
	return t.Pos.AppendToken(dst, t.terms.OrgID)
}

// Written tells whether a row has been written. timed: it has a time of its own.
func (t *Track) Written(k Key, at int64, timed bool) bool {
	if !timed {
		return t.odd[k]
	}
	return t.seen.Has(k, at)
}

// maxOdd bounds how many rows without a time are remembered.
const maxOdd = 1 << 14

// Wrote remembers that a row has been written.
func (t *Track) Wrote(k Key, at int64, timed bool) {
	if timed {
		t.seen.Add(k, at)
		return
	}
	if len(t.odd) >= maxOdd {
		clear(t.odd)
	}
	t.odd[k] = true
}

// Forget forgets the rows that no overlap will reach.
func (t *Track) Forget() {
	if t.Pos.Set {
		t.seen.Forget(t.Pos.Time - int64(t.terms.Overlap))
	}
}

// Remembered is how many rows are remembered.
func (t *Track) Remembered() int { return t.seen.Len() }

// Reach is how long the overlap is that can be read again.
func (t *Track) Reach() time.Duration { return time.Duration(max(t.Pos.Time-t.seen.Horizon(), 0)) }
