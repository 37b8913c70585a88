package record

import (
	"bytes"
	"fmt"
	"io"
)

// Reader reads records: JSON objects with any white space between and inside
// them. It returns a record as soon as the line feed behind it has been read,
// and none that no line feed follows.
type Reader struct {
	s scanner

	labels, metadata pairs
	escaped          bool   // leave checkpoint_value as it stands in the text
	valueHead        []byte // what the last one begins with

	// What the object holds and a Record does not.
	text, nano       int64 // ts, ts_unix_nano
	hasText, hasNano bool
	fault            string // the first thing that makes the object no record
	faultAt          int
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader {
	return &Reader{s: newScanner(r), labels: newPairs(), metadata: newPairs()}
}

// SetLimit bounds the text of one object to n bytes; what is longer is a
// *SyntaxError. The Reader holds a few times as much at most.
func (r *Reader) SetLimit(n int) { r.s.limit = n }

// LeaveValues makes Read fill Record.EscapedValue instead of Value: for a
// reader that hands most tokens on as they are, or throws them away.
func (r *Reader) LeaveValues() { r.escaped = true }

// Trim gives back what a very long record made the Reader hold. The record that
// Read returned last is then no longer valid.
func (r *Reader) Trim() { r.s.recycle() }

// Read reads the next record into rec. It returns
//
//   - io.EOF at the end of the input;
//   - an error that is io.ErrUnexpectedEOF, with exit status 74, when the
//     input ends inside an object or without a line feed behind one;
//   - *SyntaxError, with exit status 65, for what is not a JSON object;
//   - *InvalidError for an object that is no record: rec then holds its text
//     and those of its fields that could be read, and reading goes on.
//
// Other errors are those of the underlying reader, with exit status 74.
func (r *Reader) Read(rec *Record) error {
	*rec = Record{}
	if err := r.s.begin(); err != nil {
		return err
	}
	r.hasText, r.hasNano, r.fault = false, false, ""
	p, err := r.fields(rec)
	if err != nil {
		*rec = Record{}
		return err
	}
	line, offset := r.s.line, r.s.base+int64(r.s.pos)
	if rec.Raw, err = r.s.close(p); err != nil {
		*rec = Record{}
		return err
	}
	r.settleTime(rec)
	if len(rec.Key)|len(rec.Run) > MaxKey || len(rec.Value)|len(rec.EscapedValue) > MaxValue {
		r.checkSizes(rec)
	}
	r.check(rec)
	if r.fault == "" {
		return nil
	}
	for _, c := range rec.Raw[:r.faultAt] {
		if c == '\n' {
			line++
		}
	}
	return &InvalidError{line + 1, offset + int64(r.faultAt), r.fault}
}

// fields parses the object and returns the position behind it.
func (r *Reader) fields(rec *Record) (int, error) {
	s := &r.s
	p, err := s.space(1)
	if err != nil {
		return p, err
	}
	if s.win[p] == '}' {
		return p + 1, nil
	}
	for more := true; more; {
		var name []byte
		if name, p, err = s.key(p); err != nil {
			return p, err
		}
		if p, err = r.field(rec, name, p); err != nil {
			return p, err
		}
		if p, more, err = s.comma(p); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (r *Reader) field(rec *Record, name []byte, p int) (int, error) {
	switch string(name) {
	case "ts":
		return r.ts(p)
	case "ts_unix_nano":
		return r.tsUnixNano(p)
	case "labels":
		return r.pairs("labels", &rec.Labels, &r.labels, p)
	case "structured_metadata":
		return r.pairs("structured_metadata", &rec.Metadata, &r.metadata, p)
	case "line":
		return r.string("line", &rec.Line, p)
	case "checkpoint_key":
		return r.string("checkpoint_key", &rec.Key, p)
	case "checkpoint_value":
		if r.escaped && r.s.win[p] == '"' {
			return r.escapedValue(rec, p+1)
		}
		return r.string("checkpoint_value", &rec.Value, p)
	case "origin":
		return r.string("origin", &rec.Origin, p)
	case "checkpoint_only":
		return r.boolean("checkpoint_only", &rec.CheckpointOnly, p)
	case "account":
		return r.object("account", &rec.Account, p)
	case "run":
		return r.object("run", &rec.Run, p)
	case "reason":
		return r.string("reason", &rec.Reason, p)
	case "dead_letter":
		return r.object("dead_letter", &rec.DeadLetter, p)
	case "payload_base64":
		return r.string("payload_base64", &rec.PayloadBase64, p)
	case "schema_id":
		return r.string("schema_id", &rec.SchemaID, p)
	}
	return r.s.skip(p)
}

// wrong notes the first fault and goes behind the value.
func (r *Reader) wrong(name, want string, p int) (int, error) {
	r.note(p, name+" is not "+want)
	return r.s.skip(p)
}

func (r *Reader) note(p int, fault string) {
	if r.fault == "" {
		r.fault, r.faultAt = fault, p
	}
}

func (r *Reader) string(name string, dst *[]byte, p int) (int, error) {
	var err error
	switch r.s.win[p] {
	case '"':
		*dst, p, err = r.s.str(p + 1)
		return p, err
	case 'n':
		*dst = nil
		return r.s.literal(p, "null")
	}
	return r.wrong(name, "a string", p)
}

// escapedValue checks the string whose opening quote is before p. What is not
// UTF-8 in it is replaced, as everywhere. Tokens differ in their last numbers
// as a rule: what they have in common, up to a quote so that no escape is cut,
// is not looked at again.
func (r *Reader) escapedValue(rec *Record, p int) (int, error) {
	known := 0
	if bytes.HasPrefix(r.s.win[p:], r.valueHead) {
		known = len(r.valueHead)
	}
	end, err := r.s.skipString(p + known)
	if err != nil {
		return end, err
	}
	value := r.s.win[p : end-1 : end-1]
	if head := value[:bytes.LastIndexByte(value, '"')+1]; known == 0 && len(head) <= rememberMost {
		r.valueHead = append(r.valueHead[:0], head...)
	}
	rec.EscapedValue = r.s.fix(value)
	return end, nil
}

func (r *Reader) boolean(name string, dst *bool, p int) (int, error) {
	switch r.s.win[p] {
	case 't':
		*dst = true
		return r.s.literal(p, "true")
	case 'f':
		*dst = false
		return r.s.literal(p, "false")
	case 'n':
		*dst = false
		return r.s.literal(p, "null")
	}
	return r.wrong(name, "true or false", p)
}

func (r *Reader) object(name string, dst *[]byte, p int) (int, error) {
	switch r.s.win[p] {
	case '{':
		end, err := r.s.skip(p)
		if err != nil {
			return end, err
		}
		*dst = r.s.win[p:end:end]
		return end, nil
	case 'n':
		*dst = nil
		return r.s.literal(p, "null")
	}
	return r.wrong(name, "an object", p)
}

func (r *Reader) ts(p int) (int, error) {
	var text []byte
	end, err := r.string("ts", &text, p)
	r.hasText = false
	if text == nil || err != nil {
		return end, err
	}
	ns, bad := ParseTime(text)
	if bad != nil {
		r.note(p, "ts: "+bad.Error())
		return end, nil
	}
	r.text, r.hasText = ns, true
	return end, nil
}

// tsUnixNano takes an integer, the same in quotes, and what jq 1.6 makes of
// it, which may have an exponent.
func (r *Reader) tsUnixNano(p int) (int, error) {
	var text []byte
	var end int
	var err error
	switch c := r.s.win[p]; {
	case c == '"':
		text, end, err = r.s.str(p + 1)
	case c == '-' || isDigit(c):
		end, err = r.s.number(p)
		text = r.s.win[p:end]
	case c == 'n':
		r.hasNano = false
		return r.s.literal(p, "null")
	default:
		return r.wrong("ts_unix_nano", "an integer", p)
	}
	if err != nil {
		return end, err
	}
	ns, bad := parseInteger(text)
	r.hasNano = bad == nil
	if bad != nil {
		r.note(p, "ts_unix_nano: "+bad.Error())
	}
	r.nano = ns
	return end, nil
}

// tolerance is how far ts and ts_unix_nano may differ, in nanoseconds: jq 1.6
// rounds integers to 53 bits, which are 256 ns at present times.
const tolerance = 1000

// settleTime decides between the two forms of the time: the text wins, and
// two that disagree leave none.
func (r *Reader) settleTime(rec *Record) {
	switch d := uint64(r.text) - uint64(r.nano); {
	case r.hasText && r.hasNano && d+tolerance > 2*tolerance:
		r.note(0, "ts and ts_unix_nano are different times")
	case r.hasText:
		rec.Time, rec.HasTime = r.text, true
	case r.hasNano:
		rec.Time, rec.HasTime = r.nano, true
	}
}

// What a reader remembers of a stream it can only bound when these have bounds.
const (
	MaxKey   = 4 << 10  // bytes of a checkpoint_key, and of a run line's object
	MaxValue = 64 << 10 // bytes of a checkpoint_value, as it stands in the text
)

// checkSizes finds what is too long to be remembered, and leaves it out.
func (r *Reader) checkSizes(rec *Record) {
	switch {
	case len(rec.Key) > MaxKey:
		r.note(0, fmt.Sprintf("checkpoint_key is longer than %d bytes", MaxKey))
		rec.Key = nil
	case len(rec.Run) > MaxKey:
		r.note(0, fmt.Sprintf("run is longer than %d bytes", MaxKey))
	case len(rec.Value) > MaxValue || len(rec.EscapedValue) > MaxValue:
		r.note(0, fmt.Sprintf("checkpoint_value is longer than %d bytes", MaxValue))
	default:
		return
	}
	rec.Value, rec.EscapedValue, rec.Run = nil, nil, nil
}

// check tells what a record lacks.
func (r *Reader) check(rec *Record) {
	switch {
	case r.fault != "", rec.CheckpointOnly, rec.Reason != nil && rec.Line == nil:
	case rec.Line == nil:
		r.note(0, "the record has no line")
	case len(rec.Labels) == 0:
		r.note(0, "the record has no labels")
	case !rec.HasTime:
		r.note(0, "the record has no ts and no ts_unix_nano")
	}
}
