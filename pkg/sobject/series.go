package sobject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"sf2loki/pkg/feed"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sysexits"
	"sf2loki/pkg/tally"
)

// series are the rows of one object, and the position in them.
type series struct {
	src  *Source
	obj  Object
	key  string
	sch  *schema // nil until the object could be looked at
	rows *rowMaker

	passed bool // a cycle has ended; guarded by Source.mu
	emit   *feed.Emitter

	*feed.Track // nil until the object could be looked at

	width    int64 // of the windows of time that queries get through; 0: any
	limit    int   // rows of a query
	failures int   // cycles in a row
	refused  bool
}

func (t *series) poll() time.Duration {
	if t.obj.Poll > 0 {
		return t.obj.Poll
	}
	return t.src.cfg.Poll
}

// schemaAge is after what time an object is described anew: a field that was
// added meanwhile is to be pulled too.
const schemaAge = time.Hour

// learn finds out what the object is.
func (t *series) learn(ctx context.Context) error {
	api := t.src.cfg.API
	sch, err := learn(ctx, api, t.obj)
	if err != nil {
		return err
	}
	if t.sch != nil {
		sch.big = t.sch.big
	} else if !sch.big {
		if err := sch.probe(ctx, api, api.Now().Add(-t.src.cfg.Settle).UnixNano()); err != nil {
			return err
		}
		if sch.big {
			t.src.log.Info("a Big Object: it is read newest first, in windows", "object", sch.name)
		}
	}
	t.sch = sch
	return nil
}

// open puts the object, which has been looked at, at its beginning.
func (t *series) open() error {
	cfg, name := &t.src.cfg, t.sch.name
	t.key = Key(cfg.KeyPrefix, cfg.Window, name)
	typ := cfg.Shape.Type(SourceLabel, name)
	t.emit = feed.NewEmitter(&cfg.Output, t.src.stats, t.key, name, typ.Labels())
	t.rows = &rowMaker{shape: cfg.Shape, typ: typ}
	if err := t.load(); err != nil {
		return err
	}
	t.WarnPurged(cfg.Log, t.key, t.obj.keeps(t.sch.big), cfg.API.Now())
	return nil
}

// Key is the checkpoint key of an object.
func Key(prefix string, w feed.Window, name string) string {
	return prefix + w.Prefix() + SourceLabel + ":" + name
}

// load begins at the stored position. A value that is none counts as not there,
// loudly; one that must not be passed over is an error.
func (t *series) load() error {
	cfg := &t.src.cfg
	text, stored := cfg.Resume(t.key)
	terms := feed.Terms{OrgID: cfg.OrgID, Window: cfg.Window, Lookback: cfg.Lookback, Overlap: cfg.Overlap}
	track, err := feed.Open(terms, t.src.memory, text, stored, cfg.API.Now())
	switch {
	case feed.IsUseless(err):
		t.src.stats.Change(func(x *tally.Totals) { x.LoadErrors++ })
		t.src.log.Warn("a stored position cannot be used", "key", t.key, "err", err)
	case err != nil:
		return fmt.Errorf("%s: %w", t.key, err)
	}
	t.Track = track
	t.src.log.Info("begin", "key", t.key, "cause", t.Cause, "stored", stored, "at", feed.DateTime(t.At()))
	return nil
}

// pull makes one cycle over the object.
func (t *series) pull(ctx context.Context) error {
	err := t.src.enough()
	if err == nil {
		err = t.cycle(ctx)
	}
	t.note(ctx, err)
	return err
}

func (t *series) cycle(ctx context.Context) error {
	if err := t.lookAgain(ctx); err != nil {
		return err
	}
	cfg := &t.src.cfg
	settled := feed.Millis(cfg.API.Now().Add(-cfg.Settle).UnixNano())
	upper := t.Upper(settled)
	from := t.from(settled)
	if from.time < upper {
		read := t.ascending
		if t.sch.big {
			read = t.descending
		}
		if err := read(ctx, from, upper); err != nil {
			return cmp.Or(t.emit.Flush(), err)
		}
	}
	if err := t.emit.Finish(t.Track, cfg.Follow, from.time, upper); err != nil {
		return err
	}
	return t.Unready(settled)
}

// lookAgain describes an object that could not be described yet, or not lately.
func (t *series) lookAgain(ctx context.Context) error {
	if t.sch != nil && t.src.cfg.API.Now().Sub(t.sch.at) < schemaAge {
		return nil
	}
	err := t.learn(ctx)
	switch {
	case err == nil && t.emit == nil:
		return t.open()
	case err != nil && t.sch != nil && feed.Judge(err) == feed.Later:
		return nil // what is known of it will do
	}
	return err
}

// from is where a cycle begins to read.
func (t *series) from(settled int64) cursor {
	at, id, short := t.From(settled)
	if short {
		t.src.log.Warn("rows come so fast that the overlap is shorter than asked for", "key", t.key, "overlap", t.Reach())
	}
	return cursor{at, id}
}

// note says how an object stands after a cycle: louder from the third failure on.
func (t *series) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	verdict := feed.Ends
	if err != nil {
		verdict = feed.Judge(err)
	}
	t.countRefusal(err != nil && (verdict == feed.Refused || verdict == feed.Gone))
	name := t.obj.Name
	t.src.stats.Change(func(x *tally.Totals) {
		delete(x.Waiting, name)
		if err != nil {
			x.Waiting[name] = err.Error()
		}
	})
	switch {
	case err == nil:
		t.failures = 0
		return
	case errors.Is(err, feed.ErrLeft) || verdict == feed.Ends:
		return
	case verdict == feed.Throttle:
		t.src.throttled(t.poll(), err)
		return
	}
	t.failures++
	say := t.src.log.Warn
	if t.failures >= 3 {
		say = t.src.log.Error
	}
	say("object waits", "object", name, "failures", t.failures, "err", err, "hint", sysexits.Hint(err))
}

func (t *series) countRefusal(refused bool) {
	t.src.mu.Lock()
	defer t.src.mu.Unlock()
	if refused != t.refused {
		t.refused = refused
		if refused {
			t.src.refused++
		} else {
			t.src.refused--
		}
	}
}

// queryFailed counts a query that failed.
func (t *series) queryFailed(ctx context.Context) {
	if ctx.Err() == nil {
		name := t.sch.name
		t.src.stats.Change(func(x *tally.Totals) { x.PollErrors[name]++ })
	}
}

// action is what to do about a query that failed.
type action int

const (
	giveUp action = iota // end the cycle with the error
	narrow               // ask for less time
	thin                 // ask for fewer rows
	retry                // ask again
)

// remedy finds out what to do about a query that failed.
func (t *series) remedy(ctx context.Context, err error, again *int) (action, error) {
	if ctx.Err() != nil {
		return giveUp, context.Cause(ctx)
	}
	var e *salesforce.Error
	var out *outputError
	if errors.As(err, &out) {
		return giveUp, err
	}
	t.queryFailed(ctx)
	if !errors.As(err, &e) {
		return giveUp, err
	}
	switch e.Kind {
	case salesforce.KindQueryTimeout:
		return narrow, err
	case salesforce.KindLocator:
		if *again++; *again <= 3 {
			return retry, err
		}
	case salesforce.KindField, salesforce.KindQuery:
		if e.Code == "OPERATION_TOO_LARGE" || e.Code == "QUERY_TOO_COMPLICATED" {
			return thin, err
		}
		if *again++; *again > 3 {
			break
		}
		if e.Kind == salesforce.KindQuery {
			switch more, none := t.sch.next(err); {
			case none != nil:
				return giveUp, none
			case more:
				return retry, err
			}
		}
		// A field may have gone since the object was described.
		if fresh := t.learn(ctx); fresh != nil {
			return giveUp, fresh
		}
		return retry, err
	case salesforce.KindBigObject:
		if !t.sch.big {
			t.sch.big = true
			return giveUp, &feed.OddAnswer{Text: t.sch.name + " has turned out to be a Big Object: " + e.Error()}
		}
	case salesforce.KindOther:
		if e.Status/100 == 2 { // an answer that is too long to be held
			return thin, err
		}
	}
	return giveUp, err
}
