package avrojson

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"

	"sf2loki/pkg/record"
)

// What a payload can be other than an event of its schema.
var (
	ErrTruncated = errors.New("the payload ends inside the event")
	ErrLeftOver  = errors.New("bytes are left over behind the event")
	ErrInvalid   = errors.New("the payload is not of this schema")
	ErrTooLong   = errors.New("the event is too long as JSON")
)

const (
	maxJSON  = 8 << 20 // an event has 1 MB at most, and six bytes stand for one at most
	maxDepth = 64      // of records in each other
)

// Decoder decodes events of one schema. It belongs to one goroutine.
type Decoder struct {
	s     *Schema
	in    []byte
	pos   int
	out   []byte
	depth int

	base   int    // where the event begins in out
	cells  []cell // of the root's fields
	plain  []byte // cells that out has in another form
	commit int64  // the header's commitTimestamp
	dated  bool   // there is one

	textAt int // where in out the last string began
	text   span
}

type span struct{ from, to int }

// cell is where the text of a field is.
type cell struct {
	span
	in place
}

type place uint8

const (
	inOut place = iota
	inPayload
	inPlain
)

// NewDecoder returns a Decoder of events of s.
func NewDecoder(s *Schema) *Decoder {
	return &Decoder{s: s, cells: make([]cell, len(s.root.fields))}
}

// Schema is what the Decoder decodes by.
func (d *Decoder) Schema() *Schema { return d.s }

// Decode appends the JSON of an event to dst. What Cell and Time return then
// is valid until the next call, as long as payload and dst are.
func (d *Decoder) Decode(dst, payload []byte) ([]byte, error) {
	return d.decode(dst, payload, (*Decoder).field)
}

// DecodeEscaped is Decode with the JSON escaped as the inside of a string, as
// it stands in a record.
func (d *Decoder) DecodeEscaped(dst, payload []byte) ([]byte, error) {
	return d.decode(dst, payload, (*Decoder).escapedField)
}

func (d *Decoder) decode(dst, payload []byte, field func(d *Decoder, i int) error) ([]byte, error) {
	d.in, d.pos, d.out, d.depth, d.plain = payload, 0, dst, 0, d.plain[:0]
	d.base, d.dated = len(dst), false
	for i := range d.cells {
		if err := field(d, i); err != nil {
			return dst, fmt.Errorf("%w (field %s, byte %d of %d)", err, d.s.root.fields[i].name, d.pos, len(payload))
		}
	}
	if d.pos != len(payload) {
		return dst, fmt.Errorf("%w (%d of %d)", ErrLeftOver, len(payload)-d.pos, len(payload))
	}
	if len(d.cells) == 0 {
		d.out = append(d.out, '{')
	}
	d.out = append(d.out, '}')
	return d.out, nil
}

// field appends field i of the record.
func (d *Decoder) field(i int) error {
	f := &d.s.root.fields[i]
	d.out = append(d.out, f.prefix...)
	return d.fieldValue(i, f.node)
}

func (d *Decoder) fieldValue(i int, n *node) error {
	from := len(d.out)
	d.textAt = -1
	var err error
	if i == d.s.header {
		err = d.header(n)
	} else {
		err = d.value(n)
	}
	if d.textAt == from {
		d.cells[i] = cell{d.text, inPayload}
	} else {
		d.cells[i] = cell{span{from, len(d.out)}, inOut}
	}
	return err
}

// escapedField appends field i of the record, escaped. Texts are escaped twice
// at once, numbers are as they are; what holds quotes is escaped when it is there.
func (d *Decoder) escapedField(i int) error {
	f := &d.s.root.fields[i]
	d.out = append(d.out, f.escaped...)
	n := f.node
	if n.kind == kindUnion && i != d.s.header {
		var err error
		if n, err = d.branch(n); err != nil {
			return err
		}
	}
	if n.kind == kindString {
		text, err := d.bytes()
		if err != nil {
			return err
		}
		d.cells[i] = cell{span{d.pos - len(text), d.pos}, inPayload}
		d.out = append(record.AppendTwice(append(d.out, `\"`...), text), `\"`...)
		return nil
	}
	from := len(d.out)
	if err := d.fieldValue(i, n); err != nil {
		return err
	}
	if c := d.out[from]; c != '"' && c != '{' && c != '[' {
		return nil
	}
	plain := len(d.plain)
	d.plain = append(d.plain, d.out[from:]...)
	if c := &d.cells[i]; c.in == inOut {
		*c = cell{span{plain, len(d.plain)}, inPlain}
	}
	end := len(d.out)
	d.out = record.AppendEscaped(d.out[:from], d.plain[plain:])
	d.base += len(d.out) - end // the limit is one of plain JSON
	return nil
}

// Cell is the text of field i of the record: of a string its content, of null
// nothing, of all else its JSON.
func (d *Decoder) Cell(i int) []byte {
	c := d.cells[i]
	text := d.out
	switch c.in {
	case inPayload:
		return d.in[c.from:c.to]
	case inPlain:
		text = d.plain
	}
	text = text[c.from:c.to]
	if len(text) >= 2 && text[0] == '"' { // an enum, or base64: nothing in it is escaped
		return text[1 : len(text)-1]
	}
	if string(text) == "null" {
		return nil
	}
	return text
}

// header is a change event's header, whose commitTimestamp is remembered.
func (d *Decoder) header(n *node) error {
	if n.kind == kindUnion {
		branch, err := d.branch(n)
		if err != nil || branch.kind != kindRecord {
			return d.then(branch, err)
		}
		n = branch
	}
	for i := range n.fields {
		f := &n.fields[i]
		d.out = append(d.out, f.prefix...)
		from := len(d.out)
		if err := d.value(f.node); err != nil {
			return err
		}
		if i == d.s.commit {
			d.commit, d.dated = parseEpoch(d.out[from:], 0)
		}
	}
	return d.endRecord(n)
}

func (d *Decoder) then(n *node, err error) error {
	if err != nil {
		return err
	}
	return d.value(n)
}

func (d *Decoder) branch(n *node) (*node, error) {
	i, err := d.long()
	if err != nil {
		return nil, err
	}
	if uint64(i) >= uint64(len(n.branches)) {
		return nil, ErrInvalid
	}
	return n.branches[i], nil
}

func (d *Decoder) endRecord(n *node) error {
	if len(n.fields) == 0 {
		d.out = append(d.out, '{')
	}
	d.out = append(d.out, '}')
	if len(d.out)-d.base > maxJSON {
		return ErrTooLong
	}
	return nil
}

// value appends one value of type n.
func (d *Decoder) value(n *node) error {
	if n.kind == kindUnion {
		var err error
		if n, err = d.branch(n); err != nil {
			return err
		}
	}
	switch n.kind {
	case kindNull:
		d.out = append(d.out, "null"...)
	case kindString:
		text, err := d.bytes()
		if err != nil {
			return err
		}
		d.textAt, d.text = len(d.out), span{d.pos - len(text), d.pos}
		d.out = append(record.AppendEscaped(append(d.out, '"'), text), '"')
	case kindLong, kindInt:
		v, err := d.long()
		if err != nil {
			return err
		}
		if n.kind == kindInt && v != int64(int32(v)) {
			return ErrInvalid
		}
		d.out = strconv.AppendInt(d.out, v, 10)
	case kindBoolean:
		return d.boolean()
	case kindDouble:
		b, err := d.take(8)
		if err != nil {
			return err
		}
		d.out = appendFloat(d.out, math.Float64frombits(binary.LittleEndian.Uint64(b)), 64)
	case kindFloat:
		b, err := d.take(4)
		if err != nil {
			return err
		}
		d.out = appendFloat(d.out, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), 32)
	case kindEnum:
		i, err := d.long()
		if err != nil {
			return err
		}
		if uint64(i) >= uint64(len(n.symbols)) {
			return ErrInvalid
		}
		d.out = append(d.out, n.symbols[i]...)
	default:
		return d.compound(n)
	}
	return nil
}

// compound appends a value of the rarer types, and of those that hold others.
func (d *Decoder) compound(n *node) error {
	switch n.kind {
	case kindBytes:
		b, err := d.bytes()
		if err != nil {
			return err
		}
		d.appendBase64(b)
		return nil
	case kindFixed, kindUUID, kindDuration:
		b, err := d.take(n.size)
		if err != nil {
			return err
		}
		d.appendFixed(n, b)
		return nil
	case kindDecimal:
		return d.decimal(n)
	}
	d.depth++
	defer func() { d.depth-- }()
	if d.depth > maxDepth {
		return ErrInvalid
	}
	switch n.kind {
	case kindUnion: // inside a union, which a careless schema may have
		return d.value(n)
	case kindRecord:
		for i := range n.fields {
			f := &n.fields[i]
			d.out = append(d.out, f.prefix...)
			if err := d.value(f.node); err != nil {
				return err
			}
		}
		return d.endRecord(n)
	case kindMap:
		return d.blocks('{', '}', n)
	}
	return d.blocks('[', ']', n)
}

// blocks appends an array, a map or a list of fields, which come in blocks of
// a told number of items.
func (d *Decoder) blocks(open, closing byte, n *node) error {
	d.out = append(d.out, open)
	start := len(d.out)
	for {
		count, err := d.long()
		if err != nil {
			return err
		}
		if count < 0 { // its size in bytes follows
			if _, err := d.long(); err != nil {
				return err
			}
			if count = -count; count < 0 { // there is no such number
				return ErrInvalid
			}
		}
		if count == 0 {
			break
		}
		for ; count > 0; count-- {
			if err := d.item(n); err != nil {
				return err
			}
			if len(d.out)-d.base > maxJSON {
				return ErrTooLong
			}
		}
	}
	if len(d.out) > start {
		d.out = d.out[:len(d.out)-1] // the last comma
	}
	d.out = append(d.out, closing)
	return nil
}

// item appends an item with a comma behind it.
func (d *Decoder) item(n *node) error {
	if n.kind == kindArray {
		if err := d.value(n.items); err != nil {
			return err
		}
		d.out = append(d.out, ',')
		return nil
	}
	text, err := d.bytes()
	if err != nil {
		return err
	}
	if n.kind == kindFieldList {
		d.out = d.s.appendFields(d.out, text)
		return nil
	}
	d.out = append(record.AppendEscaped(append(d.out, '"'), text), '"', ':')
	if err := d.value(n.items); err != nil {
		return err
	}
	d.out = append(d.out, ',')
	return nil
}

// appendText appends a JSON string with a comma behind it.
func appendText(dst, text []byte) []byte { return append(record.AppendString(dst, text), ',') }

// long reads a zigzag number of at most ten bytes.
func (d *Decoder) long() (int64, error) {
	if d.pos < len(d.in) {
		if c := d.in[d.pos]; c < 0x80 {
			d.pos++
			return int64(c>>1) ^ -int64(c&1), nil
		}
	}
	v, n := binary.Uvarint(d.in[d.pos:])
	if n == 0 {
		d.pos = len(d.in)
		return 0, ErrTruncated
	}
	if n < 0 {
		return 0, ErrInvalid
	}
	d.pos += n
	return int64(v>>1) ^ -int64(v&1), nil
}

// bytes reads a length and so many bytes.
func (d *Decoder) bytes() ([]byte, error) {
	n, err := d.long()
	if err != nil {
		return nil, err
	}
	if n < 0 {
		return nil, ErrInvalid
	}
	if n > int64(len(d.in)-d.pos) {
		return nil, ErrTruncated
	}
	return d.take(int(n))
}

func (d *Decoder) take(n int) ([]byte, error) {
	if n > len(d.in)-d.pos {
		return nil, ErrTruncated
	}
	d.pos += n
	return d.in[d.pos-n : d.pos], nil
}

func (d *Decoder) boolean() error {
	b, err := d.take(1)
	if err != nil {
		return err
	}
	if b[0] > 1 {
		return ErrInvalid
	}
	d.out = strconv.AppendBool(d.out, b[0] == 1)
	return nil
}

func (d *Decoder) appendBase64(b []byte) {
	d.out = base64.StdEncoding.AppendEncode(append(d.out, '"'), b)
	d.out = append(d.out, '"')
}

func (d *Decoder) appendFixed(n *node, b []byte) {
	switch n.kind {
	case kindUUID:
		for i, group := range [...][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:]} {
			d.out = hex.AppendEncode(append(d.out, `"----`[i]), group)
		}
		d.out = append(d.out, '"')
	case kindDuration:
		for i, name := range [...]string{`{"months":`, `,"days":`, `,"millis":`} {
			d.out = strconv.AppendUint(append(d.out, name...), uint64(binary.LittleEndian.Uint32(b[4*i:])), 10)
		}
		d.out = append(d.out, '}')
	default:
		d.appendBase64(b)
	}
}

// maxDecimal is the longest decimal that is shown as a number; a longer one
// stays bytes.
const maxDecimal = 64

// decimal appends a number whose digits come as a big-endian integer.
func (d *Decoder) decimal(n *node) error {
	var b []byte
	var err error
	if n.sized {
		b, err = d.take(n.size)
	} else {
		b, err = d.bytes()
	}
	if err != nil {
		return err
	}
	if len(b) > maxDecimal || n.scale > 4*maxDecimal {
		d.appendBase64(b)
		return nil
	}
	v := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	if v.Sign() < 0 {
		d.out = append(d.out, '-')
	}
	digits := v.Abs(v).String()
	for len(digits) <= n.scale {
		digits = "0" + digits
	}
	d.out = append(d.out, digits[:len(digits)-n.scale]...)
	if n.scale > 0 {
		d.out = append(append(d.out, '.'), digits[len(digits)-n.scale:]...)
	}
	return nil
}

// appendFloat appends the shortest text that reads as the same number. JSON
// has no word for what is none.
func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	form := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		form = 'e'
	}
	return strconv.AppendFloat(dst, f, form, -1, bits)
}
