package sobject

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"sf2loki/pkg/feed"
	"sf2loki/pkg/record"
	"sf2loki/pkg/shape"
)

// row is what the order of rows needs to know of one.
type row struct {
	time  int64
	timed bool   // it has a time of its own
	id    string // Id, or EventIdentifier; empty: it has none
	key   feed.Key
	raw   json.RawMessage
}

// rowMaker makes records of rows.
type rowMaker struct {
	shape   *shape.Shape
	typ     *shape.Type
	columns *shape.Columns
	names   [][]byte // that columns are for
	row     feed.Row
	line    []byte
	edited  []byte // the line after the rules: line, or what is in changed
	changed []byte
	value   []byte
	rec     record.Record
}

// fallbackFields are where the time of a row is looked for that has none in
// its own field.
var fallbackFields = [...]string{"EventDate", "CreatedDate"}

// read takes the row apart that raw is.
func (m *rowMaker) read(sch *schema, raw json.RawMessage) (row, error) {
	if err := m.row.Parse(raw); err != nil {
		return row{}, &feed.OddAnswer{Text: fmt.Sprintf("%s: %v", sch.name, err)}
	}
	r := row{raw: raw}
	r.time, r.timed = feed.ParseTime(m.row.Text(sch.field))
	r.time = feed.Millis(r.time)
	id := m.row.Text("Id")
	if sch.big {
		id = m.row.Text("EventIdentifier")
	}
	r.id = string(id)
	switch {
	case r.id != "":
		r.key = feed.KeyOf(id)
	case sch.big:
		m.line = m.row.AppendLine(m.line[:0])
		sum := sha256.Sum256(m.line)
		copy(r.key[:], sum[:])
	default:
		return row{}, &feed.OddAnswer{Text: sch.name + ": a row of the answer has no Id"}
	}
	return r, nil
}

// record makes the record of the row that was read last and that the rules have
// let pass.
func (m *rowMaker) record(r *row, value []byte) *record.Record {
	labels, metadata := m.typ.Pairs(m.columns)
	m.rec = record.Record{Time: r.time, HasTime: true, Labels: labels, Metadata: metadata, Line: m.edited, Value: value, Origin: []byte(r.id)}
	if r.id == "" {
		m.rec.Origin = nil
	}
	return &m.rec
}

// pass applies the rules to the row that was read last. false: it is dropped.
func (m *rowMaker) pass() bool {
	m.resolve()
	if !m.columns.Take(&m.row) {
		return false
	}
	m.line = m.row.AppendLine(m.line[:0])
	m.edited = m.line
	if m.columns.Edits() != nil {
		m.changed = m.columns.AppendLine(m.changed[:0], m.line)
		m.edited = m.changed
	}
	return true
}

// keep tells whether the row is in the sample: by its own identity, or by its
// line when it has none.
func (m *rowMaker) keep(r *row) bool {
	switch {
	case !m.typ.Sampled():
		return true
	case r.id != "":
		return m.typ.Keep([]byte(r.id))
	}
	return m.typ.Keep(m.edited)
}

// resolve has the columns of the row at hand.
func (m *rowMaker) resolve() {
	if m.columns != nil && slices.EqualFunc(m.names, m.row.Names, bytes.Equal) {
		return
	}
	names := make([]string, len(m.row.Names))
	m.names = make([][]byte, len(m.row.Names))
	for i, name := range m.row.Names {
		names[i], m.names[i] = string(name), bytes.Clone(name)
	}
	m.columns = m.shape.Columns(names)
}

// fallback is the time of a row that has none in its own field: that of
// another field, or else.
func (m *rowMaker) fallback(otherwise int64) int64 {
	for _, name := range fallbackFields {
		if at, ok := feed.ParseTime(m.row.Text(name)); ok {
			return at
		}
	}
	return otherwise
}

// write writes the row that was read last, unless it has been written before or
// is left out by rules or sample.
// With advance the position moves to it; a row without a time never moves it.
func (t *series) write(r *row, advance bool) error {
	if t.Written(r.key, r.time, r.timed) {
		t.emit.Skip()
		return nil
	}
	switch {
	case !r.timed:
		r.time = t.rows.fallback(t.At())
		t.emit.Fallback()
	case advance:
		t.Advance(r.time, r.id)
	}
	var err error
	switch {
	case !t.rows.pass():
		t.emit.Filter(len(r.raw))
	case !t.rows.keep(r):
		t.emit.SampleOut(len(r.raw))
	default:
		t.rows.value = t.AppendToken(t.rows.value[:0])
		err = t.emit.Row(t.rows.record(r, t.rows.value), len(r.raw))
	}
	t.Wrote(r.key, r.time, r.timed)
	return err
}
