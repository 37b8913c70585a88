package eventlog

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"sf2loki/pkg/outlet"
	"sf2loki/pkg/record"
	"sf2loki/pkg/shape"
	"sf2loki/pkg/sysexits"
	"sf2loki/pkg/tally"
)

// SourceLabel is what every record of this source has in the label source.
const SourceLabel = "eventlogfile"

// parcel is one file on its way out.
type parcel struct {
	key       []byte
	name      string // Id or path
	eventType string // empty: what each row says
	body      body
	fallback  *int64 // time of the rows before the first that has one; nil: its time
	otherwise int64  // the time when no row has one
	token     []byte // the position after some rows, up to their number
	done      []byte // the position after the whole file; nil: after its last row
	skip      int64  // rows that are behind already
	account   record.Account
}

// emitter turns the rows of files into records. Each goroutine has its own.
type emitter struct {
	out    *outlet.Output
	stats  *tally.Stats
	shape  *shape.Shape
	sorter *sorter

	block  []byte
	line   []byte
	value  []byte
	origin []byte
	rec    record.Record
	wide   wideRow

	typ   *shape.Type
	count tally.Count // of what is in the block, and its event type

	progress *Progress // nil: nobody looks
	halves   int64     // what a byte that is read counts there
	passed   int64     // bytes of the file that count already
	passing  int64     // those of what is in the block
}

func newEmitter(out *outlet.Output, stats *tally.Stats, sh *shape.Shape, sorter *sorter) *emitter {
	return &emitter{out: out, stats: stats, shape: sh, sorter: sorter}
}

// file writes the records of a file that v describes, and its account.
func (e *emitter) file(ctx context.Context, p *parcel, v survey) error {
	e.passed, e.passing = 0, 0
	e.setType(p.eventType)
	last, hasTime := p.otherwise, p.otherwise != 0
	if v.header != nil && v.rows > 0 {
		var err error
		last, err = e.rows(ctx, p, v)
		if errors.Is(err, errDisorder) {
			last, err = e.again(ctx, p, v)
		}
		if err != nil {
			return err
		}
		hasTime = true
	}
	p.account.Origin, p.account.Rows, p.account.ResumedAfter = p.name, v.rows, p.skip
	if p.eventType == "" {
		p.account.EventType = e.count.EventType
	}
	e.rec = record.Record{Time: last, HasTime: hasTime, Key: p.key, Value: p.done, CheckpointOnly: true}
	if p.done == nil {
		e.rec.Value = e.after(p.token, v.rows)
	}
	e.rec.Account = record.AppendAccount(nil, &p.account)
	e.block = record.AppendRecord(e.block, &e.rec)
	e.count.Files++
	e.passing = p.body.size - e.passed // its header, and what follows the last row
	return e.flush()
}

// again writes a file in order that seemed to be so and is not. Positions in it
// that have been written meant another order: it begins at its first row.
func (e *emitter) again(ctx context.Context, p *parcel, v survey) (int64, error) {
	v.sorted, p.skip = false, 0
	e.pass(-e.passed)
	e.passing = 0
	p.account.Filtered, p.account.SampledOut, p.account.DeadLettered = 0, 0, 0
	return e.rows(ctx, p, v)
}

// rows writes the rows that are not behind and returns the time of the last.
func (e *emitter) rows(ctx context.Context, p *parcel, v survey) (int64, error) {
	seq, err := e.open(ctx, p, v)
	if err != nil {
		return 0, err
	}
	defer seq.close()
	columns := e.shape.Columns(v.header.columns())
	token := record.AppendEscaped(nil, p.token) // once, not row by row
	typeColumn := -1
	if p.eventType == "" {
		typeColumn = v.header.index(columnType)
	}
	last := int64(0)
	for n := int64(1); ; n++ {
		row, t, own, err := seq.next()
		if err == io.EOF {
			return last, nil
		}
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", p.name, err)
		}
		last = t
		e.passing += row.Size
		if typeColumn >= 0 {
			if err := e.typeOf(row, typeColumn); err != nil {
				return 0, err
			}
		}
		if n <= p.skip {
			if n%checkEvery == 0 && ctx.Err() != nil {
				return 0, context.Cause(ctx)
			}
			continue
		}
		e.count.Read++
		if !own {
			e.count.Fallbacks++
		}
		e.rec = record.Record{Time: t, HasTime: true, Labels: e.typ.Labels(), Key: p.key, EscapedValue: e.after(token, n), Origin: e.rowOrigin(p, row.Number)}
		if err := e.row(p, row, v.header, columns); err != nil {
			return 0, err
		}
		if len(e.block) >= outlet.BlockSize {
			if err := e.flush(); err != nil {
				return 0, err
			}
			if ctx.Err() != nil {
				return 0, context.Cause(ctx)
			}
		}
	}
}

// open gives the rows in time order: as they stand when they are, sorted when
// they are not.
func (e *emitter) open(ctx context.Context, p *parcel, v survey) (sequence, error) {
	fallback := p.otherwise
	switch {
	case p.fallback != nil:
		fallback = *p.fallback
	case v.timed:
		fallback = v.first
	case p.otherwise == 0:
		return nil, sysexits.Errorf(sysexits.DataErr, "%s: no row has a time in %s or %s", p.name, columnDerived, columnStamp)
	}
	if v.sorted {
		return newAsItStands(p.body, v.header, e.sorter.limit, fallback)
	}
	return e.sorter.sequence(ctx, p.body, v.header, fallback)
}

// row appends the record of one row to the block, or its dead letter, or counts
// it when it is to be left out.
func (e *emitter) row(p *parcel, row *Row, h *header, columns *shape.Columns) error {
	if row.Bad != nil {
		return e.badRow(p, row, row.Bad)
	}
	if !columns.Take(e.cells(row, h)) {
		e.count.Filtered++
		p.account.Filtered++
		return nil
	}
	if e.typ.Sampled() && !e.typ.Keep(e.identity(row, h, columns)) {
		e.count.SampledOut++
		p.account.SampledOut++
		return nil
	}
	e.line = h.appendRow(e.line[:0], row, columns.Edits())
	e.rec.Labels, e.rec.Metadata = e.typ.Pairs(columns)
	e.rec.EscapedLine = e.line
	begin := len(e.block)
	e.block = record.AppendRecord(e.block, &e.rec)
	if len(e.block)-begin > outlet.MaxRecord {
		e.block = e.block[:begin]
		e.rec.Metadata, e.rec.EscapedLine = nil, nil
		return e.badRow(p, row, fmt.Errorf("%w: its record would be longer than %d bytes", ErrRow, outlet.MaxRecord))
	}
	e.count.Written++
	e.count.Newest = max(e.count.Newest, e.rec.Time)
	if cap(e.line) > 1<<20 {
		e.line = nil // one of the few rows that need much
	}
	return nil
}

// cells is the row as its shape sees it.
func (e *emitter) cells(row *Row, h *header) shape.Cells {
	if row.Len() <= len(h.names) {
		return row
	}
	e.wide = wideRow{row, h}
	return &e.wide
}

// columnRequest tells the rows of most event types apart.
const columnRequest = "REQUEST_ID"

// identity is what decides whether a row belongs to the sample: its request, or
// without one its line.
func (e *emitter) identity(row *Row, h *header, columns *shape.Columns) []byte {
	if id := columns.Text(columnRequest); len(id) > 0 {
		return id
	}
	e.line = append(e.line[:0], '"')
	e.line = append(h.appendRow(e.line, row, columns.Edits()), '"')
	var text string
	if err := json.Unmarshal(e.line, &text); err != nil {
		return e.line // cannot be: the line is the inside of a string
	}
	return []byte(text)
}

// badRow writes the dead letter of a stretch of the file that is no row. Rules
// cannot be applied to it, so when there are any its bytes are withheld.
func (e *emitter) badRow(p *parcel, row *Row, why error) error {
	raw := row.Raw()
	cut := int64(len(raw)) < row.Size
	if len(raw) > keepOfHuge {
		raw, cut = raw[:keepOfHuge], true
	}
	detail := fmt.Sprintf("row %d at byte %d of %s: %v", row.Number, row.Offset, p.name, why)
	switch {
	case e.shape.Rules():
		detail += fmt.Sprintf("; its %d bytes are withheld, as no rule can be applied to them", row.Size)
		raw, cut = nil, false
	case cut:
		detail += fmt.Sprintf("; %d of its %d bytes are kept", len(raw), row.Size)
	}
	if raw != nil {
		e.rec.PayloadBase64 = base64.StdEncoding.AppendEncode(nil, raw)
	}
	e.count.DeadLettered++
	p.account.DeadLettered++
	return e.letter(&record.Letter{Reason: record.DecodeError, Truncated: cut, Detail: detail})
}

// letter writes e.rec as a dead letter: to its own place at once, or into the
// block among the records.
func (e *emitter) letter(l *record.Letter) (err error) {
	e.block, err = e.out.AppendLetter(e.block, e.stats, &e.rec, l)
	return err
}

// checkpoint writes a token that belongs to no row.
func (e *emitter) checkpoint(key, value []byte) error {
	e.block = record.AppendRecord(e.block, &record.Record{Key: key, Value: value, CheckpointOnly: true})
	return e.flush()
}

// flush hands the block on. What it counted counts from then on.
func (e *emitter) flush() error {
	var err error
	if e.block, err = e.out.HandOn(e.block); err != nil {
		return err
	}
	none := tally.Count{EventType: e.count.EventType}
	if e.count != none {
		e.stats.Add(&e.count)
	}
	e.count = none
	e.pass(e.passing)
	e.passing = 0
	return nil
}

// pass counts bytes of the file as done.
func (e *emitter) pass(n int64) {
	e.passed += n
	if e.progress != nil {
		e.progress.done.Add(n * e.halves)
	}
}

// after is the position after some rows; token is what comes before their number.
func (e *emitter) after(token []byte, rows int64) []byte {
	e.value = append(e.value[:0], token...)
	e.value = strconv.AppendInt(e.value, rows, 10)
	e.value = append(e.value, '}')
	return e.value
}

func (e *emitter) rowOrigin(p *parcel, number int64) []byte {
	e.origin = append(append(e.origin[:0], p.name...), ':')
	e.origin = strconv.AppendInt(e.origin, number, 10)
	return e.origin
}

// unknownType stands for the type of rows that do not tell it.
const unknownType = "unknown"

// setType makes eventType that of the rows from here on.
func (e *emitter) setType(eventType string) {
	if eventType == "" {
		eventType = unknownType
	}
	e.typ, e.count.EventType = e.shape.Type(SourceLabel, eventType), eventType
}

// typeOf takes the event type of a row from its own cell. A row that does not
// tell has that of the row before it.
func (e *emitter) typeOf(row *Row, column int) error {
	if row.Bad != nil {
		return nil
	}
	text := row.Cell(column)
	if len(text) == 0 || string(text) == e.count.EventType {
		return nil
	}
	if err := e.flush(); err != nil {
		return err
	}
	e.setType(string(text))
	return nil
}
