package pubsub

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"

	"sf2loki/pkg/outlet"
	"sf2loki/pkg/pubsub/avrojson"
	"sf2loki/pkg/pubsub/eventbus"
	"sf2loki/pkg/record"
	"sf2loki/pkg/shape"
	"sf2loki/pkg/sysexits"
	"sf2loki/pkg/tally"
)

const recentEvents = 256 // of a topic whose ids are remembered

// emitter turns the events of one topic into records.
type emitter struct {
	s         *Source
	topic     string
	eventType string
	severally bool // events tell their type themselves
	inbox     *inbox

	key    []byte
	tokens *tokens
	last   int64  // time of the last event that had one
	lastID []byte // of the last token

	seen      *ring
	decodings map[string]*decoding
	known     int // what their schemas take in memory

	block  []byte
	line   []byte
	edited []byte // the line after the rules
	passed []byte // replay id of the last event, when it was left out
	origin []byte
	rec    record.Record
	counts map[string]*tally.Count

	account account

	moved bool // an event has been taken since the last flush
	taken int  // events since the last flush, and their weight
	size  int

	failedInARow int // responses with events none of which could be decoded
}

// decoding is what is needed for events of one schema.
type decoding struct {
	dec       *avrojson.Decoder
	columns   *shape.Columns
	typ       *shape.Type
	eventType string
	times     []int // fields that tell the event's time, the better first
	plain     bool  // rules may have to read the line
}

// decode appends the line of an event, escaped unless it is to be plain.
func (d *decoding) decode(dst, payload []byte) ([]byte, error) {
	if d.plain {
		return d.dec.Decode(dst, payload)
	}
	return d.dec.DecodeEscaped(dst, payload)
}

func newEmitter(s *Source, topic string, inbox *inbox) *emitter {
	e := &emitter{s: s, topic: topic, inbox: inbox, key: []byte(s.key(topic)), tokens: newTokens(s.cfg.OrgID), seen: newRing(recentEvents),
		decodings: map[string]*decoding{}, counts: map[string]*tally.Count{}}
	e.eventType, e.severally = eventType(topic)
	return e
}

// run writes what comes into the inbox until its end, or until ctx is done. A
// block that was begun is always handed on.
func (e *emitter) run(ctx context.Context) error {
	for {
		it, ok, more := e.inbox.take(ctx, false)
		if ctx.Err() != nil || !ok && !more {
			return e.end()
		}
		if !ok {
			if err := e.flush(); err != nil {
				return err
			}
			it, ok, _ = e.inbox.take(ctx, true)
		}
		if !ok {
			continue
		}
		if err := e.item(ctx, it); err != nil {
			ending := e.flush
			if errors.Is(err, errDone) {
				ending = e.end
			}
			if failed := ending(); failed != nil {
				return failed
			}
			return err
		}
	}
}

// end hands on what there is, and the account of it.
func (e *emitter) end() error {
	e.tell(e.last)
	return e.flush()
}

func (e *emitter) item(ctx context.Context, it item) error {
	switch {
	case it.gap != nil:
		return e.gap(it.gap)
	case it.latest != nil:
		e.advance(it.latest)
		if now := e.s.cfg.Now().UnixNano(); now >= e.account.ends {
			e.turn(now, e.last)
		}
		return e.flush()
	}
	decoded := false
	for _, ev := range it.events {
		if ctx.Err() != nil {
			return nil
		}
		ok, err := e.event(ctx, ev)
		if err != nil && !errors.Is(err, errDone) {
			return err
		}
		decoded = decoded || ok
		e.taken++
		e.size += weight(ev)
		if err != nil {
			return err
		}
		if len(e.block) >= outlet.BlockSize {
			if err := e.flush(); err != nil {
				return err
			}
		}
	}
	e.noteDecoding(decoded)
	if e.passed != nil { // no record says that it is behind us
		e.advance(e.passed)
		e.passed = nil
	}
	return e.flush()
}

// noteDecoding counts a topic whose events cannot be decoded at all, once for
// each time that it comes to that.
func (e *emitter) noteDecoding(decoded bool) {
	if decoded {
		e.failedInARow = 0
		return
	}
	if e.failedInARow++; e.failedInARow == patience {
		e.s.stats.topic(e.topic, func(c *TopicCount) { c.DecodeStalls++ })
		e.s.log.Error("no event of the topic can be decoded: they become dead letters", "topic", e.topic)
	}
}

// advance writes a position that belongs to no record, unless it is where we
// are.
func (e *emitter) advance(id []byte) {
	if bytes.Equal(id, e.lastID) {
		return
	}
	e.lastID = append(e.lastID[:0], id...)
	e.block = record.AppendRecord(e.block, &record.Record{Key: e.key, EscapedValue: e.tokens.of(id, e.last), CheckpointOnly: true})
}

// event writes the record of an event, or its dead letter. ok tells whether it
// could be decoded.
func (e *emitter) event(ctx context.Context, ev *eventbus.ConsumerEvent) (ok bool, err error) {
	event := ev.GetEvent()
	if !e.seen.add(event.GetId()) {
		c := e.count(e.eventType)
		c.Read++
		c.SkippedDuplicate++
		e.account.count(0)
		e.account.SkippedDuplicate++
		return true, nil
	}
	if !e.s.take() {
		<-ctx.Done() // others are at the last of them
		return false, nil
	}
	defer func() {
		if err == nil && e.s.full() {
			err = errDone
		}
	}()
	d, err := e.decoding(ctx, event.GetSchemaId())
	if err == nil {
		e.line, err = d.decode(e.line[:0], event.GetPayload())
		if err != nil {
			err = &undecodable{reasonOf(err), err}
		}
	}
	if err == nil {
		e.write(ev, d)
		return true, nil
	}
	var bad *undecodable
	if errors.As(err, &bad) {
		return false, e.undecodable(ev, bad)
	}
	e.seen.forget(event.GetId())
	return false, err
}

// write writes the record of the event that was just decoded, unless the rules
// or the sample leave it out.
func (e *emitter) write(ev *eventbus.ConsumerEvent, d *decoding) {
	c := e.count(d.eventType)
	last := e.last
	t, own := e.timeOf(d)
	if !own {
		c.Fallbacks++
	}
	if t >= e.account.ends {
		e.turn(t, last)
	}
	size := int64(len(ev.GetEvent().GetPayload()))
	c.Read++
	c.Bytes += size
	e.account.count(t)
	e.account.Bytes += size
	e.moved = true
	switch {
	case !d.columns.Take(d.dec):
		c.Filtered++
		e.account.Filtered++
		e.passed = ev.ReplayId
		return
	case d.typ.Sampled() && !d.typ.Keep(hex.AppendEncode(nil, ev.ReplayId)):
		c.SampledOut++
		e.account.SampledOut++
		e.passed = ev.ReplayId
		return
	}
	e.begin(ev, d.typ, t)
	e.rec.Labels, e.rec.Metadata = d.typ.Pairs(d.columns)
	switch {
	case !d.plain:
		e.rec.EscapedLine = e.line
	case d.columns.Edits() != nil:
		e.edited = d.columns.AppendLine(e.edited[:0], e.line)
		e.rec.Line = e.edited
	default:
		e.rec.Line = e.line
	}
	e.block = record.AppendRecord(e.block, &e.rec)
	c.Written++
	c.Newest = max(c.Newest, t)
	if cap(e.line) > 1<<20 {
		e.line, e.edited = nil, nil // one of the few events that need much
	}
}

// begin makes e.rec the record of an event, less what is in it.
func (e *emitter) begin(ev *eventbus.ConsumerEvent, typ *shape.Type, t int64) {
	e.rec = record.Record{Time: t, HasTime: t != 0, Labels: typ.Labels(), Key: e.key}
	if len(ev.ReplayId) > 0 {
		e.rec.EscapedValue = e.tokens.of(ev.ReplayId, e.last)
		e.lastID = append(e.lastID[:0], ev.ReplayId...)
		e.passed = nil
	}
	e.origin = append(append(e.origin[:0], e.topic...), ':')
	e.origin = base64.StdEncoding.AppendEncode(e.origin, ev.ReplayId)
	e.rec.Origin = e.origin
}

// typeOf is what the labels of an event type come from. Flags may mean it by
// its topic too.
func (e *emitter) typeOf(eventType string) *shape.Type {
	return e.s.cfg.Shape.Type(SourceLabel, eventType, e.topic)
}

// timeOf is the time of the event that was just decoded. One that has none is
// as late as the one before it, which its token knows, so that it is always
// the same.
func (e *emitter) timeOf(d *decoding) (t int64, own bool) {
	if d.dec.Schema().IsChange() {
		t, own = d.dec.CommitTime()
	}
	for _, i := range d.times {
		if !own {
			t, own = d.dec.Time(i)
		}
	}
	switch {
	case own:
		e.last = t
	case e.last != 0:
		t = e.last
	default:
		t = e.s.cfg.Now().UnixNano()
		e.last = t
	}
	return t, own
}

// decoding gives what is needed for events of a schema.
func (e *emitter) decoding(ctx context.Context, id string) (*decoding, error) {
	if d := e.decodings[id]; d != nil {
		return d, nil
	}
	schema, err := e.s.schemas.get(ctx, id)
	var unusable *errUnusable
	var f *failure
	switch {
	case errors.As(err, &unusable):
		return nil, &undecodable{reasonSchema, err}
	case errors.As(err, &f) && f.do == leave:
		return nil, &topicError{e.topic, sysexits.WithHint(sysexits.Wrap(f.exit, fmt.Errorf("schema %s: %w", id, f.err)), f.hint)}
	case errors.As(err, &f):
		return nil, f.fatal()
	case err != nil:
		return nil, err
	}
	d := &decoding{dec: avrojson.NewDecoder(schema), columns: e.s.cfg.Shape.Columns(schema.Fields()), eventType: e.eventType,
		plain: e.s.cfg.Shape.Rules()}
	if e.severally {
		d.eventType = schema.Name()
	}
	d.typ = e.typeOf(d.eventType)
	for _, name := range []string{"EventDate", "CreatedDate"} {
		for i, field := range schema.Fields() {
			if field == name {
				d.times = append(d.times, i)
			}
		}
	}
	if e.known += schema.Size(); e.known > maxSchemas {
		clear(e.decodings) // the common store may still have them
		e.known = schema.Size()
	}
	e.decodings[id] = d
	return d, nil
}

// undecodable is why an event became a dead letter.
type undecodable struct {
	reason string // for the counter
	err    error
}

func (u *undecodable) Error() string { return u.err.Error() }
func (u *undecodable) Unwrap() error { return u.err }

// The reasons for which an event cannot be decoded.
const (
	reasonSchema    = "schema"
	reasonTruncated = "truncated"
	reasonLeftOver  = "left_over"
	reasonTooLong   = "too_long"
	reasonInvalid   = "invalid"
)

var decodeReasons = []string{reasonSchema, reasonTruncated, reasonLeftOver, reasonTooLong, reasonInvalid}

func reasonOf(err error) string {
	switch {
	case errors.Is(err, avrojson.ErrTruncated):
		return reasonTruncated
	case errors.Is(err, avrojson.ErrLeftOver):
		return reasonLeftOver
	case errors.Is(err, avrojson.ErrTooLong):
		return reasonTooLong
	}
	return reasonInvalid
}

func (e *emitter) undecodable(ev *eventbus.ConsumerEvent, why *undecodable) error {
	event := ev.GetEvent()
	e.s.stats.topic(e.topic, func(c *TopicCount) { c.DecodeErrors[why.reason]++ })
	e.begin(ev, e.typeOf(e.eventType), e.last)
	payload := event.GetPayload()
	e.rec.SchemaID = []byte(event.GetSchemaId())
	c := e.count(e.eventType)
	c.Read++
	c.DeadLettered++
	e.account.count(e.last)
	e.account.DeadLettered++
	detail := fmt.Sprintf("event %s of %s: %v", event.GetId(), e.topic, why.err)
	if e.s.cfg.Shape.Rules() {
		detail += fmt.Sprintf("; its %d bytes are withheld, as no rule can be applied to them", len(payload))
	} else {
		e.rec.PayloadBase64 = base64.StdEncoding.AppendEncode(make([]byte, 0, base64.StdEncoding.EncodedLen(len(payload))), payload)
	}
	e.s.log.Debug("event cannot be decoded", "topic", e.topic, "schema_id", event.GetSchemaId(), "reason", why.reason)
	if err := e.letter(&record.Letter{Reason: record.DecodeError, Detail: detail}); err != nil {
		return err
	}
	if e.s.cfg.Output.Letter != nil && len(ev.ReplayId) > 0 { // the stream does not see the letter, and must see the position
		e.block = record.AppendRecord(e.block, &record.Record{Key: e.key, EscapedValue: e.rec.EscapedValue, CheckpointOnly: true})
	}
	e.s.moved()
	return nil
}

// gap writes that a span of the topic may be missing. It is no position: until
// an event comes, a new start finds the position refused once more.
func (e *emitter) gap(g *gap) error {
	if e.last != 0 {
		g.AfterTime = formatTime(e.last)
	}
	detail := fmt.Sprintf("source gap: Salesforce refused the position %s of %s; events after it may be missing", g.After, g.Topic)
	if g.Resumed == LostEarliest {
		detail += ", those that are left come again"
	}
	e.begin(&eventbus.ConsumerEvent{}, e.typeOf(e.eventType), e.last)
	e.rec.Origin = []byte(g.Topic)
	if err := outlet.SetGap(&e.rec, g); err != nil {
		return err
	}
	e.count(e.eventType).Gaps++
	if e.s.cfg.Output.Letter == nil {
		e.account.SourceGaps++
	}
	if err := e.letter(&record.Letter{Reason: record.SourceGap, Detail: detail + ": " + g.why}); err != nil {
		return err
	}
	return e.flush()
}

// letter writes e.rec as a dead letter: to its own place at once, or into the
// block among the records.
func (e *emitter) letter(l *record.Letter) (err error) {
	e.block, err = e.s.cfg.Output.AppendLetter(e.block, e.s.stats.Stats, &e.rec, l)
	return err
}

func (e *emitter) count(eventType string) *tally.Count {
	c := e.counts[eventType]
	if c == nil {
		c = &tally.Count{EventType: eventType}
		e.counts[eventType] = c
	}
	return c
}

// flush hands the block on. What it counted counts from then on, and only then
// is there room for more.
func (e *emitter) flush() error {
	var err error
	if e.block, err = e.s.cfg.Output.HandOn(e.block); err != nil {
		return err
	}
	for _, c := range e.counts {
		if c.Read+c.Gaps > 0 {
			e.s.stats.Add(c)
			*c = tally.Count{EventType: c.EventType}
		}
	}
	if e.taken > 0 {
		e.inbox.done(e.taken, e.size)
		e.taken, e.size = 0, 0
	}
	if e.moved {
		e.s.moved()
		e.moved = false
	}
	return nil
}

// ring remembers the last so many ids.
type ring struct {
	ids  []string
	next int
	set  map[string]struct{}
}

func newRing(n int) *ring { return &ring{ids: make([]string, n), set: make(map[string]struct{}, n)} }

// longestID is longer than any id that Salesforce gives an event, a UUID.
const longestID = 256

// add remembers id and tells whether it is new. The empty id is always new, and
// so is one that is too long to be remembered.
func (r *ring) add(id string) bool {
	if id == "" || len(id) > longestID {
		return true
	}
	if _, ok := r.set[id]; ok {
		return false
	}
	delete(r.set, r.ids[r.next])
	r.ids[r.next] = id
	r.set[id] = struct{}{}
	r.next = (r.next + 1) % len(r.ids)
	return true
}

// forget takes back the id that was just added.
func (r *ring) forget(id string) {
	if _, ok := r.set[id]; ok {
		delete(r.set, id)
		r.next = (r.next - 1 + len(r.ids)) % len(r.ids)
		r.ids[r.next] = ""
	}
}
