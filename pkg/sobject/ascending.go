package sobject

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sf2loki/pkg/feed"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/tally"
)

// floor is the shortest window of time that a query is tried with that takes
// too long.
const floor = int64(time.Second)

// ascending reads the rows from a cursor up to a time, page after page in the
// order of (time, Id). Each page is a query of its own that begins behind the
// last row of the one before, so that nothing is lost when the rest of an
// answer expires, and rows of one time, however many, are passed.
func (t *series) ascending(ctx context.Context, at cursor, upper int64) error {
	t.limit = most
	again := 0
	for at.time < upper {
		if err := t.src.enough(); err != nil {
			return err
		}
		before := upper
		if t.width > 0 {
			before = min(upper, at.time+t.width)
		}
		q := query{sch: t.sch, from: at, before: before, limit: t.limit}
		next, n, err := t.page(ctx, &q)
		if next != at {
			again = 0
		}
		if err != nil {
			todo, err := t.remedy(ctx, err, &again)
			at = next
			if err := t.adjust(todo, before-at.time, err); err != nil {
				return err
			}
			continue
		}
		if n < q.rows() {
			next = cursor{time: before}
			t.widen(upper - before)
		} else if next == at {
			return t.stalled(at.time)
		}
		at = next
	}
	return nil
}

// adjust makes the next query smaller as a failed one advises; err is its
// error, which comes back when it cannot be.
func (t *series) adjust(todo action, width int64, err error) error {
	if todo == thin && t.sch.big {
		todo = narrow // the pages of a Big Object have a least size
	}
	switch {
	case todo == retry:
		return nil
	case todo == narrow && width > floor:
		t.width = max(feed.Millis(width/2), floor)
		t.src.log.Debug("a query took too long: the window is halved", "object", t.sch.name, "window", time.Duration(t.width))
		return nil
	case todo == thin && t.limit > 1:
		t.limit = max(t.limit/2, 1)
		return nil
	}
	return err
}

// widen doubles a window that a query got through, until it is as wide as what
// is left.
func (t *series) widen(left int64) {
	if t.width *= 2; t.width > left && left > 0 {
		t.width = 0
	}
}

// page runs one query and writes its rows. It returns where the next begins,
// also with an error.
func (t *series) page(ctx context.Context, q *query) (cursor, int, error) {
	at, n, size := q.from, 0, 0
	t.emit.Query()
	for raw, err := range t.ask(ctx, q) {
		if errors.Is(err, salesforce.ErrShort) && n >= q.rows() {
			break
		}
		if err != nil {
			return at, n, err
		}
		r, err := t.rows.read(t.sch, raw)
		if err != nil {
			return at, n, err
		}
		if err := t.write(&r, true); err != nil {
			return at, n, &outputError{err}
		}
		if r.timed {
			at = cursor{r.time, r.id}
		}
		n++
		size += len(raw)
	}
	t.fitLimit(n, size)
	t.Forget()
	if t.emit.News() {
		return at, n, outputFailed(t.emit.Account(t.Track, q.from.time, at.time))
	}
	return at, n, outputFailed(t.emit.Flush())
}

// outputError is a record that could not be written. No query is to blame.
type outputError struct{ err error }

func (e *outputError) Error() string { return e.err.Error() }
func (e *outputError) Unwrap() error { return e.err }

func outputFailed(err error) error {
	if err != nil {
		return &outputError{err}
	}
	return nil
}

// pageBytes is how much the rows of a page may be for the next not to have fewer.
const pageBytes = 4 << 20

// fitLimit asks for fewer rows when they are long, and for more when they are
// not: a page is held in memory.
func (t *series) fitLimit(n, size int) {
	if n > 0 {
		t.limit = min(max(pageBytes/(size/n+1), fewest), most)
	}
}

// stalled is the end of a cycle that came to nothing: a full page in which no
// row has a time.
func (t *series) stalled(at int64) error {
	name := t.sch.name
	t.src.stats.Change(func(x *tally.Totals) { x.Stalls[name]++ })
	return &feed.OddAnswer{Text: fmt.Sprintf("%s: a full page does not lead past %s", name, feed.DateTime(at))}
}
