package spool

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"sf2loki/pkg/record"
)

// ID tells entries apart: the dead letter's own, as bytes.
type ID [16]byte

// ParseID reads an id as it stands in a dead letter. A text that is not one of
// ours, from another program perhaps, still gives an id of its own.
func ParseID(s []byte) ID {
	var id ID
	if len(s) == 2*len(id) {
		if _, err := hex.Decode(id[:], s); err == nil {
			return id
		}
	}
	sum := sha256.Sum256(s)
	copy(id[:], sum[:])
	return id
}

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Letter is one record of a dead-letter file, read as far as selecting and
// replaying need it. Its slices alias the reader's buffer: they are valid until
// the next letter is read.
type Letter struct {
	Line   int64 // the line of the file on which it begins, from 1
	Offset int64 // where it begins, in bytes
	Raw    []byte

	// FateAt is when the record's status was decided, in nanoseconds; 0 when
	// nobody did. File.Read sets it.
	FateAt int64

	// The texts of the values, as they stand in the object; nil when absent.
	ts, tsNano, labels, metadata, line, reason, captured []byte
	deadLetter, key, value, origin, payload, checkpoint  []byte
	truncated, maybeStored                               []byte

	id     ID
	hasID  bool
	parsed record.Record
}

// parse reads the object at the beginning of raw and returns its length.
func (l *Letter) parse(raw []byte) (int, error) {
	*l = Letter{}
	n, err := scanObject(raw, 0, l.member)
	if err != nil {
		return 0, err
	}
	l.Raw = raw[:n]
	return n, nil
}

func (l *Letter) member(name, value []byte) {
	if len(value) == 4 && value[0] == 'n' { // null is absent
		value = nil
	}
	switch string(name) {
	case `"ts"`:
		l.ts = value
	case `"ts_unix_nano"`:
		l.tsNano = value
	case `"labels"`:
		l.labels = value
	case `"structured_metadata"`:
		l.metadata = value
	case `"line"`:
		l.line = value
	case `"reason"`:
		l.reason = value
	case `"captured_at"`:
		l.captured = value
	case `"dead_letter"`:
		l.deadLetter = value
	case `"checkpoint_key"`:
		l.key = value
	case `"checkpoint_value"`:
		l.value = value
	case `"origin"`:
		l.origin = value
	case `"payload_base64"`:
		l.payload = value
	case `"truncated"`:
		l.truncated = value
	case `"maybe_stored"`:
		l.maybeStored = value
	case `"checkpoint_only"`:
		l.checkpoint = value
	}
}

// carriesNothing tells a line that only moves a checkpoint or begins or ends a
// run, and so is no record to replay.
func (l *Letter) carriesNothing() bool {
	return string(l.checkpoint) == "true" && l.reason == nil
}

// Reason is why the record became a dead letter; empty when it does not say.
func (l *Letter) Reason() record.Reason { return record.Reason(asText(l.reason)) }

// HasLine reports whether there is an entry to push.
func (l *Letter) HasLine() bool { return len(l.line) > 0 && l.line[0] == '"' }

// EntryLine is the text of the entry.
func (l *Letter) EntryLine() []byte {
	s, _ := text(l.line)
	return s
}

// Time is the entry's own time.
func (l *Letter) Time() (ns int64, ok bool) {
	if s, ok := text(l.ts); ok {
		ns, err := record.ParseTime(s)
		return ns, err == nil
	}
	digits := l.tsNano
	if s, ok := text(digits); ok {
		digits = s
	}
	ns, err := strconv.ParseInt(string(digits), 10, 64)
	return ns, err == nil
}

// Captured is when the record became a dead letter, the last time that it did.
func (l *Letter) Captured() (ns int64, ok bool) {
	s, ok := text(l.captured)
	if !ok {
		return 0, false
	}
	ns, err := record.ParseTime(s)
	return ns, err == nil
}

// Label is the value of a label, empty when there is none of that name.
func (l *Letter) Label(name string) string { return asText(member(l.labels, name)) }

// Org is the org that the record came from.
func (l *Letter) Org() string {
	if org := l.Envelope("org"); org != "" {
		return org
	}
	return l.Label("org")
}

// Envelope is a text of the dead_letter object: run_id, instance, detail and so on.
func (l *Letter) Envelope(name string) string { return asText(member(l.deadLetter, name)) }

// Refusal is what the letter says of how it was refused the last time.
func (l *Letter) Refusal() *record.Letter {
	r := &record.Letter{
		Reason:      l.Reason(),
		Truncated:   string(l.truncated) == "true",
		MaybeStored: string(l.maybeStored) == "true",
		Detail:      l.Envelope("detail"),
		Stage:       l.Envelope("stage"),
		RunID:       l.Envelope("run_id"),
		Instance:    l.Envelope("instance"),
		Org:         l.Envelope("org"),
		Tenant:      l.Envelope("tenant"),
	}
	if ns, ok := l.Captured(); ok {
		r.CapturedAt = time.Unix(0, ns).UTC()
	}
	// A status that is no number is none.
	r.Status, _ = strconv.Atoi(string(member(l.deadLetter, "status")))
	return r
}

// Checkpoint is the key and the value under which the record travels.
func (l *Letter) Checkpoint() (key, value string) { return asText(l.key), asText(l.value) }

// Attempts is how often the record was refused.
func (l *Letter) Attempts() int {
	n, err := strconv.Atoi(string(member(l.deadLetter, "attempts")))
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	return max(n, 0)
}

// ID is the id that the dead letter names, else the one that its content gives.
func (l *Letter) ID() ID {
	if l.hasID {
		return l.id
	}
	if s, ok := text(member(l.deadLetter, "id")); ok && len(s) > 0 {
		l.id = ParseID(s)
	} else {
		l.id = ParseID([]byte(record.ID(l.Record())))
	}
	l.hasID = true
	return l.id
}

// Record is the letter in the form that package record works with. What is no
// record still has its Raw.
func (l *Letter) Record() *record.Record {
	r := record.NewReader(bytes.NewReader(append(bytes.Clone(l.Raw), '\n')))
	r.SetLimit(len(l.Raw) + 1)
	if err := r.Read(&l.parsed); err != nil && l.parsed.Raw == nil {
		l.parsed.Raw = bytes.Clone(l.Raw)
	}
	return &l.parsed
}

// Field is the text of a label, a piece of metadata or a top-level field, in
// that order.
func (l *Letter) Field(name string) (string, bool) {
	for _, object := range [][]byte{l.labels, l.metadata, l.Raw} {
		if v := member(object, name); v != nil {
			if s, ok := text(v); ok {
				return string(s), true
			}
			return string(v), true
		}
	}
	return "", false
}

// AppendLine appends the record as one line of NDJSON.
func (l *Letter) AppendLine(dst []byte) []byte {
	return append(appendCompact(dst, l.Raw), '\n')
}

// AppendForReplay appends the record as a replay sends it: its content as it
// is, under the replay's checkpoint, and with those labels that it does not
// have yet.
func (l *Letter) AppendForReplay(dst []byte, key, value string, labels []record.Pair) []byte {
	start := len(dst)
	dst = append(dst, '{')
	put := func(name, value []byte) {
		if len(dst) > start+1 {
			dst = append(dst, ',')
		}
		dst = append(dst, name...)
		dst = append(dst, ':')
		dst = appendCompact(dst, value)
	}
	hasLabels := false
	_, _ = scanObject(l.Raw, 0, func(name, value []byte) { // checked when it was read
		switch string(name) {
		case `"checkpoint_key"`, `"checkpoint_value"`:
		case `"labels"`:
			hasLabels = true
			put(name, addLabels(value, labels))
		default:
			put(name, value)
		}
	})
	if !hasLabels && len(labels) > 0 {
		put([]byte(`"labels"`), addLabels([]byte("{}"), labels))
	}
	put([]byte(`"checkpoint_key"`), record.AppendString(nil, []byte(key)))
	put([]byte(`"checkpoint_value"`), record.AppendString(nil, []byte(value)))
	return append(dst, '}', '\n')
}

func addLabels(object []byte, labels []record.Pair) []byte {
	if len(labels) == 0 || len(object) == 0 || object[0] != '{' {
		return object
	}
	out := bytes.TrimRight(object[:len(object)-1], " \t\r\n")
	out = bytes.Clone(out)
	for _, label := range labels {
		if member(object, string(label.Name)) != nil {
			continue
		}
		if out[len(out)-1] != '{' {
			out = append(out, ',')
		}
		out = record.AppendString(out, label.Name)
		out = append(out, ':')
		out = record.AppendString(out, label.Value)
	}
	return append(out, '}')
}

// appendCompact appends a JSON text without line feeds. One that has none is
// taken as it is.
func appendCompact(dst, text []byte) []byte {
	if bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') < 0 {
		return append(dst, text...)
	}
	buf := bytes.NewBuffer(dst)
	if err := json.Compact(buf, text); err != nil {
		return append(dst, text...)
	}
	return buf.Bytes()
}

func asText(value []byte) string {
	s, ok := text(value)
	if !ok {
		return ""
	}
	return string(s)
}

// History is how the record was refused each time, the oldest first. A history
// that cannot be read is none.
func (l *Letter) History() []record.LetterError {
	var history []record.LetterError
	if err := json.Unmarshal(member(l.deadLetter, "errors"), &history); err != nil {
		return nil
	}
	return history
}

// EnvelopeText is the JSON text of a member of the dead_letter object, on one
// line, empty when there is none.
func (l *Letter) EnvelopeText(name string) string {
	return string(appendCompact(nil, member(l.deadLetter, name)))
}

// Text is the JSON text of a top-level field on one line, empty when there is
// none.
func (l *Letter) Text(name string) string {
	return string(appendCompact(nil, member(l.Raw, name)))
}

// TopField is the text of a top-level field.
func (l *Letter) TopField(name string) (string, bool) {
	s, ok := text(member(l.Raw, name))
	return string(s), ok
}
