package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"time"
)

// Reader reads records.
type Reader struct {
	r     *bufio.Reader
	limit int
}

// SyntaxError says that the input is no sequence of JSON objects.
type SyntaxError struct {
	Line, Offset int64
	Text         string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, byte %d: %s", e.Line, e.Offset, e.Text)
}

// InvalidError says that a JSON object is no record.
type InvalidError struct {
	Line, Offset int64
	Text         string
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("line %d, byte %d: %s", e.Line, e.Offset, e.Text)
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader { return &Reader{r: bufio.NewReader(r)} }

// SetLimit sets the most bytes of one object.
func (r *Reader) SetLimit(n int) { r.limit = n }

// Read reads the next record.
func (r *Reader) Read(rec *Record) error {
	raw, err := r.object()
	*rec = Record{}
	if err != nil {
		return err
	}
	rec.Raw = raw
	var v struct {
		TS      string            `json:"ts"`
		Nano    json.Number       `json:"ts_unix_nano"`
		Labels  map[string]string `json:"labels"`
		Meta    map[string]string `json:"structured_metadata"`
		Line    *string           `json:"line"`
		Key     *string           `json:"checkpoint_key"`
		Value   *string           `json:"checkpoint_value"`
		Origin  *string           `json:"origin"`
		Only    bool              `json:"checkpoint_only"`
		Account json.RawMessage   `json:"account"`
		Run     json.RawMessage   `json:"run"`
		Reason  *string           `json:"reason"`
		DL      json.RawMessage   `json:"dead_letter"`
		Payload *string           `json:"payload_base64"`
		Schema  *string           `json:"schema_id"`
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return &InvalidError{Text: err.Error()}
	}
	b := func(s *string) []byte {
		if s == nil {
			return nil
		}
		return []byte(*s)
	}
	rec.Labels, rec.Metadata = pairs(v.Labels), pairs(v.Meta)
	rec.Line, rec.Key, rec.Value, rec.Origin = b(v.Line), b(v.Key), b(v.Value), b(v.Origin)
	rec.Reason, rec.PayloadBase64, rec.SchemaID = b(v.Reason), b(v.Payload), b(v.Schema)
	rec.CheckpointOnly, rec.Account, rec.Run, rec.DeadLetter = v.Only, v.Account, v.Run, v.DL
	if v.TS != "" {
		if rec.Time, err = ParseTime([]byte(v.TS)); err != nil {
			return &InvalidError{Text: err.Error()}
		}
		rec.HasTime = true
	} else if v.Nano != "" {
		rec.Time, err = v.Nano.Int64()
		rec.HasTime = err == nil
	}
	if !rec.CheckpointOnly && !(rec.Reason != nil && rec.Line == nil) && (rec.Line == nil || len(rec.Labels) == 0 || !rec.HasTime) {
		return &InvalidError{Text: "no record"}
	}
	return nil
}

func pairs(m map[string]string) []Pair {
	if m == nil {
		return nil
	}
	p := []Pair{}
	for k, v := range m {
		p = append(p, Pair{[]byte(k), []byte(v)})
	}
	sort.Slice(p, func(i, j int) bool { return bytes.Compare(p[i].Name, p[j].Name) < 0 })
	return p
}

func (r *Reader) object() ([]byte, error) {
	line, err := r.r.ReadBytes('\n')
	if err == io.EOF && len(line) > 0 {
		return nil, fmt.Errorf("input ends inside a record: %w", io.ErrUnexpectedEOF)
	}
	if err != nil {
		return nil, err
	}
	raw := bytes.TrimSpace(line)
	if !json.Valid(raw) || raw[0] != '{' {
		return nil, &SyntaxError{Text: "not a JSON object"}
	}
	return raw, nil
}

// AckReader reads acknowledgements.
type AckReader struct{ r *Reader }

// NewAckReader returns an AckReader of r.
func NewAckReader(r io.Reader) *AckReader { return &AckReader{NewReader(r)} }

// Read reads the next acknowledgement.
func (r *AckReader) Read(a *Ack) error {
	*a = Ack{}
	raw, err := r.r.object()
	if err != nil {
		return err
	}
	var v struct {
		Key     string          `json:"checkpoint_key"`
		Value   string          `json:"checkpoint_value"`
		TS      string          `json:"ts"`
		D       int64           `json:"delivered"`
		R       int64           `json:"rejected"`
		X       int64           `json:"dropped"`
		Account json.RawMessage `json:"account"`
		Run     json.RawMessage `json:"run"`
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return &InvalidError{Text: err.Error()}
	}
	*a = Ack{Key: v.Key, Value: v.Value, Delivered: v.D, Rejected: v.R, Dropped: v.X, Account: v.Account, Run: v.Run}
	if v.TS != "" {
		a.Time, err = ParseTime([]byte(v.TS))
		a.HasTime = err == nil
	}
	return nil
}

// AppendAck appends a's line.
func AppendAck(dst []byte, a *Ack) []byte {
	if a.Run != nil {
		dst = append(dst, `{"run":`...)
		dst = append(dst, a.Run...)
		return append(dst, '}', '\n')
	}
	dst = AppendString(append(dst, `{"checkpoint_key":`...), []byte(a.Key))
	dst = AppendString(append(dst, `,"checkpoint_value":`...), []byte(a.Value))
	if a.HasTime {
		dst = append(AppendTime(append(dst, `,"ts":"`...), a.Time), '"')
	}
	dst = fmt.Appendf(dst, `,"delivered":%d,"rejected":%d,"dropped":%d`, a.Delivered, a.Rejected, a.Dropped)
	if a.Account != nil {
		dst = append(append(dst, `,"account":`...), a.Account...)
	}
	return append(dst, '}', '\n')
}

// AppendRun appends the record line that carries run.
func AppendRun(dst []byte, run Run) []byte {
	dst = AppendRunObject(append(dst, `{"checkpoint_only":true,"run":`...), run)
	return append(dst, '}', '\n')
}

// AppendRunObject appends run alone, as a JSON object: what Record.Run and
// Ack.Run hold.
func AppendRunObject(dst []byte, run Run) []byte {
	b, _ := json.Marshal(run)
	return append(dst, b...)
}

// ParseRun parses the object that Record.Run and Ack.Run hold.
func ParseRun(b []byte) (run Run, err error) { return run, json.Unmarshal(b, &run) }

// AppendAccount appends a as a JSON object: what Record.Account holds.
func AppendAccount(dst []byte, a *Account) []byte {
	b, _ := json.Marshal(a)
	return append(dst, b...)
}

// AppendSettled appends account, a JSON object, with delivered, rejected and
// dropped added: what Ack.Account holds.
func AppendSettled(dst, account []byte, delivered, rejected, dropped int64) []byte {
	dst = append(dst, bytes.TrimSuffix(account, []byte("}"))...)
	return fmt.Appendf(dst, `,"delivered":%d,"rejected":%d,"dropped":%d}`, delivered, rejected, dropped)
}

// ParseAccount parses the object that Record.Account and Ack.Account hold.
func ParseAccount(b []byte) (a Account, err error) { return a, json.Unmarshal(b, &a) }

// AppendString appends s as a JSON string with its quotes.
func AppendString(dst, s []byte) []byte {
	return append(AppendEscaped(append(dst, '"'), s), '"')
}

// AppendEscaped appends s as the inside of a JSON string.
func AppendEscaped(dst, s []byte) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(string(s))
	return append(dst, b.Bytes()[1:b.Len()-2]...)
}

// AppendTime appends ns as 2026-07-01T20:00:00.000000000Z.
func AppendTime(dst []byte, ns int64) []byte {
	return time.Unix(0, ns).UTC().AppendFormat(dst, "2006-01-02T15:04:05.000000000Z")
}

// ParseTime parses an RFC 3339 time.
func ParseTime(b []byte) (int64, error) {
	t, err := time.Parse(time.RFC3339Nano, string(b))
	return t.UnixNano(), err
}
