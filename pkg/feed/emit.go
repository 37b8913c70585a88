package feed

import (
	"encoding/base64"
	"fmt"

	"sf2loki/pkg/outlet"
	"sf2loki/pkg/record"
	"sf2loki/pkg/tally"
)

const keepOfHuge = 64 << 10 // bytes of a row that is too long for a record

// Emitter writes the records of one key. It is for one goroutine.
type Emitter struct {
	out    *outlet.Output
	stats  *tally.Stats
	key    []byte
	labels []record.Pair

	block   []byte
	count   tally.Count    // of what is in the block
	account record.Account // of what was written since the last account
	told    bool           // there has been one
}

// NewEmitter returns the Emitter of a key, whose records have these labels.
func NewEmitter(out *outlet.Output, stats *tally.Stats, key, eventType string, labels []record.Pair) *Emitter {
	stats.Add(&tally.Count{EventType: eventType})
	return &Emitter{out: out, stats: stats, key: []byte(key), labels: labels,
		count: tally.Count{EventType: eventType}, account: record.Account{EventType: eventType}}
}

// Row writes the record of a row, whose key it sets, and its labels when it has
// none. size is what the row had in the answer.
func (e *Emitter) Row(rec *record.Record, size int) error {
	e.count.Read++
	e.account.Rows++
	e.bytes(size)
	rec.Key = e.key
	if rec.Labels == nil {
		rec.Labels = e.labels
	}
	begin := len(e.block)
	e.block = record.AppendRecord(e.block, rec)
	if len(e.block)-begin > outlet.MaxRecord {
		e.block = e.block[:begin]
		return e.tooLong(rec)
	}
	e.count.Written++
	e.count.Newest = max(e.count.Newest, rec.Time)
	if len(e.block) >= outlet.BlockSize {
		return e.Flush()
	}
	return nil
}

// tooLong writes the dead letter of a row that no reader of the stream would take.
func (e *Emitter) tooLong(rec *record.Record) error {
	cut := *rec
	raw := rec.Line[:min(len(rec.Line), keepOfHuge)]
	cut.Line, cut.Metadata, cut.PayloadBase64 = nil, nil, base64.StdEncoding.AppendEncode(nil, raw)
	e.count.DeadLettered++
	e.account.DeadLettered++
	return e.Letter(&cut, &record.Letter{Reason: record.DecodeError, Truncated: true,
		Detail: fmt.Sprintf("%s: its record would be longer than %d bytes; %d of the %d of its line are kept", rec.Origin, outlet.MaxRecord, len(raw), len(rec.Line))})
}

// Skip counts a row that has been written already.
func (e *Emitter) Skip() {
	e.count.Read++
	e.count.SkippedDuplicate++
	e.account.Rows++
	e.account.SkippedDuplicate++
}

// Filter counts a row that a rule has dropped.
func (e *Emitter) Filter(size int) {
	e.count.Read++
	e.count.Filtered++
	e.account.Rows++
	e.account.Filtered++
	e.bytes(size)
}

// SampleOut counts a row that is not in the sample.
func (e *Emitter) SampleOut(size int) {
	e.count.Read++
	e.count.SampledOut++
	e.account.Rows++
	e.account.SampledOut++
	e.bytes(size)
}

// Fallback counts a row without a time of its own.
func (e *Emitter) Fallback() { e.count.Fallbacks++ }

// Query counts a query, at once: who watches is to see that one is under way.
func (e *Emitter) Query() { e.stats.Add(&tally.Count{EventType: e.count.EventType, Queries: 1}) }

func (e *Emitter) bytes(n int) {
	e.count.Bytes += int64(n)
	e.account.Bytes += int64(n)
}

// Gap writes a source_gap in the place of what rec would have been. what is
// added to it as the member gap.
func (e *Emitter) Gap(rec *record.Record, what any, status int, detail string) error {
	rec.Labels, rec.Key, rec.Line, rec.Raw = e.labels, e.key, nil, nil
	if err := outlet.SetGap(rec, what); err != nil {
		return err
	}
	e.count.Gaps++
	if e.out.Letter == nil {
		e.account.SourceGaps++
	}
	return e.Letter(rec, &record.Letter{Reason: record.SourceGap, Status: status, Detail: "source gap: " + detail})
}

// Letter writes rec as a dead letter: to its own place at once, or into the
// block among the records.
func (e *Emitter) Letter(rec *record.Record, l *record.Letter) (err error) {
	e.block, err = e.out.AppendLetter(e.block, e.stats, rec, l)
	return err
}

// Checkpoint writes a token that belongs to no row.
func (e *Emitter) Checkpoint(value []byte) error {
	e.block = record.AppendRecord(e.block, &record.Record{Key: e.key, Value: value, CheckpointOnly: true})
	return e.Flush()
}

// Account writes what was done since the last one: rows of a span of time, up
// to the position of t.
func (e *Emitter) Account(t *Track, from, to int64) error {
	at := t.Pos.Time
	e.told = true
	e.account.Origin = e.account.EventType + " " + DateTime(from) + "/" + DateTime(max(from, to))
	e.count.Position = max(e.count.Position, at)
	e.block = record.AppendRecord(e.block, &record.Record{
		Time: at, HasTime: at != 0, Key: e.key, Value: t.AppendToken(nil), CheckpointOnly: true,
		Account: record.AppendAccount(nil, &e.account),
	})
	e.account = record.Account{EventType: e.account.EventType}
	return e.Flush()
}

// Finish ends a cycle over a span of time: a run that is one pass has told of its
// key by then, and a key without rows has a position, so that a program that
// runs seldom does not begin later each time.
func (e *Emitter) Finish(t *Track, follow bool, from, to int64) error {
	switch anchored := t.Anchor(); {
	case anchored && follow:
		return e.Checkpoint(t.AppendToken(nil))
	case follow || e.told:
		return e.Flush()
	}
	return e.Account(t, from, to)
}

// News tells whether anything but duplicates came since the last account.
func (e *Emitter) News() bool { return e.account.Rows > e.account.SkippedDuplicate }

// Flush hands the block on. What it counted counts from then on.
func (e *Emitter) Flush() error {
	var err error
	if e.block, err = e.out.HandOn(e.block); err != nil {
		return err
	}
	eventType := e.count.EventType
	e.stats.Add(&e.count)
	e.count = tally.Count{EventType: eventType}
	return nil
}
