package record

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"strconv"
	"time"
)

// AppendRecord appends rec as one line.
func AppendRecord(dst []byte, rec *Record) []byte {
	dst = append(dst, '{')
	start := len(dst)
	name := func(s string) {
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), s...), '"', ':')
	}
	text := func(s string, v []byte) {
		if v != nil {
			name(s)
			dst = AppendString(dst, v)
		}
	}
	raw := func(s string, v []byte) {
		if v != nil {
			name(s)
			dst = append(dst, v...)
		}
	}
	obj := func(s string, v []Pair) {
		if v == nil {
			return
		}
		name(s)
		dst = append(dst, '{')
		for i, p := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendString(append(AppendString(dst, p.Name), ':'), p.Value)
		}
		dst = append(dst, '}')
	}
	if rec.HasTime {
		name("ts")
		dst = append(AppendTime(append(dst, '"'), rec.Time), '"')
		name("ts_unix_nano")
		dst = strconv.AppendInt(dst, rec.Time, 10)
	}
	obj("labels", rec.Labels)
	obj("structured_metadata", rec.Metadata)
	if rec.EscapedLine != nil {
		name("line")
		dst = append(append(append(dst, '"'), rec.EscapedLine...), '"')
	} else {
		text("line", rec.Line)
	}
	text("checkpoint_key", rec.Key)
	text("checkpoint_value", rec.Value)
	text("origin", rec.Origin)
	if rec.CheckpointOnly {
		raw("checkpoint_only", []byte("true"))
	}
	raw("account", rec.Account)
	raw("run", rec.Run)
	text("reason", rec.Reason)
	raw("dead_letter", rec.DeadLetter)
	text("payload_base64", rec.PayloadBase64)
	text("schema_id", rec.SchemaID)
	return append(dst, '}', '\n')
}

// AppendLetter appends rec as a dead letter.
func AppendLetter(dst []byte, rec *Record, l *Letter) []byte {
	line := rec.Raw
	if line == nil {
		line = AppendRecord(nil, rec)
	}
	m := map[string]any{}
	_ = json.Unmarshal(line, &m)
	m["reason"], m["truncated"], m["captured_at"] = l.Reason, l.Truncated, l.CapturedAt
	m["dead_letter"] = map[string]any{"v": 1, "id": ID(rec), "status": l.Status, "detail": l.Detail, "stage": l.Stage, "attempts": 1,
		"first_captured_at": l.CapturedAt, "run_id": l.RunID, "instance": l.Instance, "org": l.Org, "tenant": l.Tenant}
	b, _ := json.Marshal(m)
	return append(append(dst, b...), '\n')
}

// ID returns the identity of the entry in 32 hex digits.
func ID(rec *Record) string {
	sum := sha256.Sum256(AppendRecord(nil, &Record{Time: rec.Time, HasTime: rec.HasTime, Labels: rec.Labels, Metadata: rec.Metadata, Line: rec.Line}))
	return hex.EncodeToString(sum[:16])
}

// Writer writes records.
type Writer struct {
	w   *bufio.Writer
	buf []byte
}

// NewWriter returns a buffered Writer.
func NewWriter(w io.Writer) *Writer { return &Writer{w: bufio.NewWriter(w)} }

// Write writes rec.
func (w *Writer) Write(rec *Record) error {
	w.buf = AppendRecord(w.buf[:0], rec)
	return w.WriteRaw(w.buf)
}

// WriteRaw writes a whole line.
func (w *Writer) WriteRaw(line []byte) error {
	if _, err := w.w.Write(line); err != nil {
		return err
	}
	return w.w.Flush()
}

// Flush writes out what is buffered.
func (w *Writer) Flush() error { return w.w.Flush() }

// LetterInfo is what a dead letter says of itself.
type LetterInfo struct {
	ID              string
	Reason          Reason
	Truncated       bool
	MaybeStored     bool
	CapturedAt      time.Time
	FirstCapturedAt time.Time
	Status          int
	Detail          string
	Stage           string
	Attempts        int
	Errors          []LetterError
	RunID           string
	Instance        string
	Org             string
	Tenant          string
}

// LetterError is one refusal in the history of a dead letter.
type LetterError struct {
	At     time.Time `json:"at"`
	Reason Reason    `json:"reason"`
	Status int       `json:"status"`
}

// ParseLetter reads what the dead letter rec says of itself.
func ParseLetter(rec *Record) (LetterInfo, error) {
	var l LetterInfo
	l.Reason = Reason(rec.Reason)
	return l, json.Unmarshal(rec.DeadLetter, &l)
}
