package record

import (
	"io"
	"strconv"
)

// AckReader reads acknowledgements. It frames them as a Reader frames records.
type AckReader struct {
	s scanner
}

// NewAckReader returns an AckReader of r.
func NewAckReader(r io.Reader) *AckReader { return &AckReader{s: newScanner(r)} }

// Read reads the next acknowledgement into a. Its errors are those of
// Reader.Read; an object that is no acknowledgement is an *InvalidError.
func (r *AckReader) Read(a *Ack) error {
	*a = Ack{}
	if err := r.s.begin(); err != nil {
		return err
	}
	p, err := r.s.skip(0)
	if err != nil {
		return err
	}
	line, offset := r.s.line, r.s.base+int64(r.s.pos)
	raw, err := r.s.close(p)
	if err != nil {
		return err
	}
	if fault := parseAck(a, raw); fault != "" {
		return &InvalidError{line + 1, offset, fault}
	}
	return nil
}

// parseAck returns what is wrong with raw, if anything. Unknown fields are
// passed over, but not those of records and dead letters, which have keys and
// tokens too: where one of them arrives, loki-push is missing from the pipe or
// writes its dead letters into it, and no token would be safe to keep.
func parseAck(a *Ack, raw []byte) (fault string) {
	keyed := false
	for name, value := range members(raw) {
		ok, want := true, "a string"
		null := value[0] == 'n'
		switch string(name) {
		case "checkpoint_key":
			a.Key, ok = unquote(value)
			keyed = ok && !null
		case "checkpoint_value":
			a.Value, ok = unquote(value)
		case "ts":
			want = "an RFC 3339 time"
			var text string
			if text, ok = unquote(value); ok {
				a.Time, a.HasTime, ok = parseOptionalTime(text)
			}
		case "delivered":
			want = "a count"
			a.Delivered, ok = count(value)
		case "rejected":
			want = "a count"
			a.Rejected, ok = count(value)
		case "dropped":
			want = "a count"
			a.Dropped, ok = count(value)
		case "account":
			want = "an object"
			a.Account, ok = objectCopy(value)
		case "run":
			want = "an object"
			a.Run, ok = objectCopy(value)
		case "line", "labels", "reason":
			if !null {
				return "this is a record and no acknowledgement: nothing tells that it is settled"
			}
		}
		if !ok && fault == "" {
			fault = string(name) + " is not " + want
		}
	}
	if fault == "" && !keyed && a.Run == nil {
		fault = "the acknowledgement has neither checkpoint_key nor run"
	}
	return fault
}

func parseOptionalTime(text string) (ns int64, has, ok bool) {
	if text == "" {
		return 0, false, true
	}
	ns, err := ParseTime([]byte(text))
	return ns, err == nil, err == nil
}

func count(value []byte) (int64, bool) {
	if value[0] == 'n' {
		return 0, true
	}
	n, err := parseInteger(value)
	return n, err == nil && n >= 0
}

func objectCopy(value []byte) ([]byte, bool) {
	switch value[0] {
	case 'n':
		return nil, true
	case '{':
		return appendCompact(nil, value), true
	}
	return nil, false
}

// AppendAck appends a as one line. An ack with Run carries nothing else.
func AppendAck(dst []byte, a *Ack) []byte {
	if a.Run != nil {
		dst = appendCompact(append(dst, `{"run":`...), a.Run)
		return append(dst, '}', '\n')
	}
	dst = append(dst, `{"checkpoint_key":"`...)
	dst = AppendEscaped(dst, []byte(a.Key))
	dst = append(dst, `","checkpoint_value":"`...)
	if a.EscapedValue != nil {
		dst = append(dst, a.EscapedValue...)
	} else {
		dst = AppendEscaped(dst, []byte(a.Value))
	}
	dst = append(dst, '"')
	if a.HasTime {
		dst = AppendTime(append(dst, `,"ts":"`...), a.Time)
		dst = append(dst, '"')
	}
	dst = appendCounts(dst, a.Delivered, a.Rejected, a.Dropped)
	if a.Account != nil {
		dst = appendCompact(append(dst, `,"account":`...), a.Account)
	}
	return append(dst, '}', '\n')
}

func appendCounts(dst []byte, delivered, rejected, dropped int64) []byte {
	dst = strconv.AppendInt(append(dst, `,"delivered":`...), delivered, 10)
	dst = strconv.AppendInt(append(dst, `,"rejected":`...), rejected, 10)
	return strconv.AppendInt(append(dst, `,"dropped":`...), dropped, 10)
}
