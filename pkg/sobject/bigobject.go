package sobject

import (
	"context"
	"errors"
	"slices"
	"strings"

	"sf2loki/pkg/feed"
	"sf2loki/pkg/salesforce"
)

// millisecond is the shortest span of time that Salesforce tells apart.
const millisecond = int64(1e6)

// rowOverhead is what a row that waits takes beside its text.
const rowOverhead = 160

// batch are the rows of a window, which come newest first and leave oldest
// first.
type batch struct {
	rows []row
	keys map[feed.Key]bool // of all rows of the window, those written before too
	size int64
	room int64

	oldest, atOldest int64 // the time of the last row, and the size of the rows of that time
}

// tooMany is a window whose rows are more than may wait in memory. Those since
// a time have been read; dense: most of them are of that very time.
type tooMany struct {
	since int64
	dense bool
}

func (e *tooMany) Error() string {
	return "more rows than --buffer-bytes holds, back to " + feed.DateTime(e.since)
}

// add keeps a row for later. It tells whether the row is new in this window.
func (b *batch) add(r *row) (bool, error) {
	if b.keys[r.key] {
		return false, nil
	}
	size := int64(len(r.raw)) + rowOverhead
	if r.time != b.oldest {
		b.oldest, b.atOldest = r.time, 0
	}
	b.size += size
	b.atOldest += size
	if b.size > b.room {
		return true, &tooMany{r.time, b.atOldest > b.size/2}
	}
	b.keys[r.key] = true
	b.rows = append(b.rows, *r)
	return true, nil
}

// descending reads the rows of a Big Object from a time up to another, window
// after window, the oldest first.
func (t *series) descending(ctx context.Context, from cursor, upper int64) error {
	t.limit = most
	again := 0
	end := upper // of the next window, whatever its width
	for lo := from.time; lo < upper; {
		if err := t.src.enough(); err != nil {
			return err
		}
		hi := end
		if t.width > 0 {
			hi = min(end, lo+t.width)
		}
		b := &batch{keys: map[feed.Key]bool{}, room: t.src.cfg.BufferBytes / int64(t.src.cfg.Concurrency)}
		err := t.window(ctx, b, lo, hi)
		var much *tooMany
		switch {
		case errors.As(err, &much) && much.dense && hi-lo > millisecond:
			// That moment is a window of its own.
			end = max(much.since, lo+millisecond)
			continue
		case errors.As(err, &much) && hi-lo > millisecond:
			t.width = fitting(lo, hi, much.since)
			t.src.log.Debug("a window has too many rows: it is made smaller", "object", t.sch.name, "from", feed.DateTime(lo), "to", feed.DateTime(lo+t.width))
			continue
		case errors.As(err, &much):
			err = t.moment(ctx, lo, nil)
		case err == nil:
			err = t.release(b, from, lo, hi)
		}
		if err != nil {
			todo, err := t.remedy(ctx, err, &again)
			if err := t.adjust(todo, hi-lo, err); err != nil {
				return err
			}
			continue
		}
		again = 0
		lo, end = hi, upper
		if b.size < b.room/4 {
			t.widen(upper - lo)
		}
	}
	return nil
}

// fitting is the width of a window that begins at lo and is likely to have
// few enough rows, when those of [since, hi) were too many: at most half of it.
func fitting(lo, hi, since int64) int64 {
	return max(feed.Millis(min((hi-lo)/2, (hi-since)/4*3)), millisecond)
}

// release writes the rows of a window in order.
func (t *series) release(b *batch, from cursor, lo, hi int64) error {
	slices.SortFunc(b.rows, func(x, y row) int {
		if x.time != y.time {
			return int(min(max(x.time-y.time, -1), 1))
		}
		return strings.Compare(x.id, y.id)
	})
	for i := range b.rows {
		r := &b.rows[i]
		if r.timed && from.id != "" && r.time == from.time && r.id <= from.id {
			t.emit.Skip()
			continue
		}
		if err := t.rows.row.Parse(r.raw); err != nil {
			return &feed.OddAnswer{Text: err.Error()}
		}
		if err := t.write(r, true); err != nil {
			return &outputError{err}
		}
		r.raw = nil
		t.Forget()
	}
	if t.emit.News() {
		return outputFailed(t.emit.Account(t.Track, lo, hi))
	}
	return outputFailed(t.emit.Flush())
}

// window collects the rows of [lo, hi). Pages of an answer are followed as far
// as they lead. As an answer may end early without saying so, another query
// asks for what is older than its last row, until one brings less than the
// smallest page.
func (t *series) window(ctx context.Context, b *batch, lo, hi int64) error {
	q := query{sch: t.sch, from: cursor{time: lo}, before: hi}
	for {
		q.limit = max(t.limit, fewest)
		p, err := t.bigPage(ctx, &q, b.add)
		switch {
		case err != nil:
			return err
		case p.rows < fewest || p.fresh == 0 && p.oldest != p.newest:
			return nil
		case p.oldest != p.newest:
			q.through = p.oldest
			continue
		}
		// A page of one moment: there may be any number of its kind.
		if err := t.moment(ctx, p.oldest, b.add); err != nil {
			return err
		}
		if p.oldest <= lo {
			return nil
		}
		q.through, q.before = 0, p.oldest
	}
}

// bigPage is what a query of a Big Object has brought.
type bigPage struct {
	rows, fresh    int
	oldest, newest int64
	ids            []string // in the order of the answer
	size           int
}

// bigPage runs one query and hands its rows to add, which tells of each
// whether it is new.
func (t *series) bigPage(ctx context.Context, q *query, add func(*row) (bool, error)) (*bigPage, error) {
	p := &bigPage{}
	t.emit.Query()
	for raw, err := range t.ask(ctx, q) {
		if errors.Is(err, salesforce.ErrShort) {
			break // only a hint here; what may be left is asked for anyway
		}
		if err != nil {
			return nil, err
		}
		r, err := t.rows.read(t.sch, raw)
		if err != nil {
			return nil, err
		}
		p.rows++
		p.size += len(raw)
		p.ids = append(p.ids, r.id)
		if r.timed {
			if p.newest == 0 {
				p.newest = r.time
			}
			p.oldest = r.time
		}
		fresh, err := add(&r)
		if err != nil {
			return nil, err
		}
		if fresh {
			p.fresh++
		}
	}
	t.fitLimit(p.rows, p.size)
	return p, nil
}

// span is a stretch of EventIdentifiers, without its ends; empty is no end.
type span struct{ above, under string }

// moment reads all rows of one millisecond, by their EventIdentifiers. In
// which direction an answer is ordered by these is not known beforehand: each
// page shows it. Without add the rows are written at once; they offer no new
// position before all of them are.
func (t *series) moment(ctx context.Context, at int64, add func(*row) (bool, error)) error {
	last := ""
	if add == nil {
		add = func(r *row) (bool, error) {
			last = max(last, r.id)
			if err := t.write(r, false); err != nil {
				return false, &outputError{err}
			}
			return true, nil
		}
		defer t.Forget()
	}
	q := query{sch: t.sch, from: cursor{time: at}, moment: true}
	for spans := []span{{}}; len(spans) > 0; {
		s := spans[len(spans)-1]
		spans = spans[:len(spans)-1]
		q.limit, q.above, q.under = max(t.limit, fewest), s.above, s.under
		p, err := t.bigPage(ctx, &q, add)
		if err != nil {
			return err
		}
		if p.rows < fewest {
			continue
		}
		rest, ok := s.rest(p.ids)
		if !ok {
			return t.stalled(at)
		}
		spans = append(spans, rest...)
	}
	if last == "" {
		return nil
	}
	t.Advance(at, last)
	return outputFailed(t.emit.Account(t.Track, at, at+millisecond))
}

// rest is what a page with these ids leaves of a span: what lies on the far
// side of an ordered page, or both sides of the middle of one that is not.
func (s span) rest(ids []string) ([]span, bool) {
	if slices.Contains(ids, "") {
		return nil, false
	}
	up, down := true, true
	for i := 1; i < len(ids); i++ {
		up = up && ids[i] > ids[i-1]
		down = down && ids[i] < ids[i-1]
	}
	switch {
	case up:
		return []span{{ids[len(ids)-1], s.under}}, true
	case down:
		return []span{{s.above, ids[len(ids)-1]}}, true
	}
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	middle := ids[len(ids)/2]
	return []span{{middle, s.under}, {s.above, middle}}, len(ids) > 1
}
