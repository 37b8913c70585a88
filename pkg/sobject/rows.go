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
	columns *shape.Columns
	names   [][]byte // that columns are for
	row     feed.Row
	line    []byte
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

// record makes the record of the row that was read last.
func (m *rowMaker) record(r *row, value []byte) *record.Record {
	m.resolve()
	m.line = m.row.AppendLine(m.line[:0])
	m.rec = record.Record{Time: r.time, HasTime: true, Metadata: m.columns.Metadata(&m.row), Line: m.line, Value: value, Origin: []byte(r.id)}
	if r.id == "" {
		m.rec.Origin = nil
	}
	return &m.rec
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

// write writes the row that was read last, unless it has been written before.
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
	t.rows.value = t.AppendToken(t.rows.value[:0])
	err := t.emit.Row(t.rows.record(r, t.rows.value), len(r.raw))
	t.Wrote(r.key, r.time, r.timed)
	return err
}
