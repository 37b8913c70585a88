package record

import (
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// maxErrors bounds the history that a dead letter carries: the newest are kept.
const maxErrors = 16

const (
	// maxID is more than any program makes an identity of; a longer one is
	// replaced by ours.
	maxID = 256
	// maxAttempts is where counting ends.
	maxAttempts = 1<<31 - 2
)

// AppendLetter appends rec as a dead letter, one line. The fields of the record
// stay as they came, those that this release does not know too, in their order;
// what makes it a letter is replaced. A record that was a letter before keeps
// its id and the time of its first capture, and gains an attempt.
func AppendLetter(dst []byte, rec *Record, l *Letter) []byte {
	if rec.Raw == nil {
		plain := *rec
		plain.Reason, plain.DeadLetter = nil, nil
		dst = appendFields(dst, &plain)
	} else {
		dst = append(dst, '{')
		start := len(dst)
		for name, value := range members(rec.Raw) {
			if !isEnvelope(name) {
				dst = appendMember(dst, start, name, value)
			}
		}
	}
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = AppendString(append(dst, `"reason":`...), []byte(l.Reason))
	dst = strconv.AppendBool(append(dst, `,"truncated":`...), l.Truncated)
	dst = AppendTime(append(dst, `,"captured_at":"`...), l.CapturedAt.UnixNano())
	if l.MaybeStored {
		dst = append(dst, `","maybe_stored":true,"dead_letter":`...)
	} else {
		dst = append(dst, `","dead_letter":`...)
	}
	return append(appendHistory(dst, rec, l), '}', '\n')
}

// isEnvelope tells the fields that a dead letter adds to its record.
func isEnvelope(name []byte) bool {
	switch string(name) {
	case "reason", "truncated", "captured_at", "maybe_stored", "dead_letter":
		return true
	}
	return false
}

// earlier is what the dead_letter object of a letter's last capture hands on.
type earlier struct {
	id, firstCapturedAt string
	attempts            int64
	errors              [][]byte
	unknown             []byte // members of a newer release, each with a comma before it
}

func parseEarlier(object []byte) earlier {
	var e earlier
	for name, value := range members(object) {
		switch string(name) {
		case "id":
			if e.id, _ = unquote(value); len(e.id) > maxID {
				e.id = ""
			}
		case "first_captured_at":
			text, _ := unquote(value)
			if _, err := ParseTime([]byte(text)); err == nil {
				e.firstCapturedAt = text
			}
		case "attempts":
			n, _ := count(value)
			e.attempts = min(max(n, 0), maxAttempts)
		case "errors":
			if value[0] == '[' {
				e.errors = slices.Collect(elements(value))
			}
		case "v", "status", "detail", "stage", "run_id", "instance", "org", "tenant":
		default:
			e.unknown = appendMember(append(e.unknown, ','), len(e.unknown)+1, name, value)
		}
	}
	return e
}

// appendHistory appends the dead_letter object.
func appendHistory(dst []byte, rec *Record, l *Letter) []byte {
	var e earlier
	if rec.DeadLetter != nil {
		e = parseEarlier(rec.DeadLetter)
	}
	if e.id == "" {
		e.id = ID(rec)
	}
	dst = AppendString(append(dst, `{"v":1,"id":`...), []byte(e.id))
	dst = strconv.AppendInt(append(dst, `,"status":`...), int64(l.Status), 10)
	dst = AppendString(append(dst, `,"detail":`...), cut(l.Detail, MaxDetail))
	dst = AppendString(append(dst, `,"stage":`...), []byte(l.Stage))
	dst = strconv.AppendInt(append(dst, `,"attempts":`...), e.attempts+1, 10)
	dst = append(dst, `,"first_captured_at":"`...)
	if e.firstCapturedAt != "" {
		dst = append(dst, e.firstCapturedAt...)
	} else {
		dst = AppendTime(dst, l.CapturedAt.UnixNano())
	}
	dst = append(dst, `","errors":[`...)
	for _, old := range e.errors[max(0, len(e.errors)-maxErrors+1):] {
		dst = append(appendCompact(dst, old), ',')
	}
	dst = AppendTime(append(dst, `{"at":"`...), l.CapturedAt.UnixNano())
	dst = AppendString(append(dst, `","reason":`...), []byte(l.Reason))
	dst = strconv.AppendInt(append(dst, `,"status":`...), int64(l.Status), 10)
	dst = append(dst, '}', ']')
	for _, f := range [...]struct{ name, value string }{
		{`,"run_id":`, l.RunID}, {`,"instance":`, l.Instance}, {`,"org":`, l.Org}, {`,"tenant":`, l.Tenant},
	} {
		if f.value != "" {
			dst = AppendString(append(dst, f.name...), []byte(f.value))
		}
	}
	return append(append(dst, e.unknown...), '}')
}

// cut shortens s to n bytes at most, and to whole characters.
func cut(s string, n int) []byte {
	if len(s) <= n {
		return []byte(s)
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return []byte(s[:n])
}

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
	At     time.Time
	Reason Reason
	Status int
}

// ParseLetter reads what rec, as a Reader returned it, says of itself as a dead
// letter. What is absent stays zero; the error names a field that is not what
// sf2loki-deadletter(5) says.
func ParseLetter(rec *Record) (LetterInfo, error) {
	l := LetterInfo{Reason: Reason(rec.Reason)}
	f := fields{}
	if rec.Raw != nil {
		for name, value := range members(rec.Raw) {
			switch string(name) {
			case "truncated":
				f.bool("truncated", value, &l.Truncated)
			case "maybe_stored":
				f.bool("maybe_stored", value, &l.MaybeStored)
			case "captured_at":
				f.time("captured_at", value, &l.CapturedAt)
			}
		}
	}
	if rec.DeadLetter != nil {
		for name, value := range members(rec.DeadLetter) {
			f.history(&l, string(name), value)
		}
	}
	return l, f.err
}

// fields reads JSON values and keeps the first error.
type fields struct{ err error }

func (f *fields) history(l *LetterInfo, name string, value []byte) {
	switch name {
	case "id":
		f.string(name, value, &l.ID)
	case "status":
		f.int(name, value, &l.Status)
	case "detail":
		f.string(name, value, &l.Detail)
	case "stage":
		f.string(name, value, &l.Stage)
	case "attempts":
		f.int(name, value, &l.Attempts)
	case "first_captured_at":
		f.time(name, value, &l.FirstCapturedAt)
	case "run_id":
		f.string(name, value, &l.RunID)
	case "instance":
		f.string(name, value, &l.Instance)
	case "org":
		f.string(name, value, &l.Org)
	case "tenant":
		f.string(name, value, &l.Tenant)
	case "errors":
		if value[0] != '[' {
			f.wrong(name, value[0] == 'n')
			return
		}
		for object := range elements(value) {
			l.Errors = append(l.Errors, f.refusal(object))
		}
	}
}

func (f *fields) refusal(object []byte) (e LetterError) {
	if object[0] != '{' {
		f.wrong("errors", false)
		return e
	}
	for name, value := range members(object) {
		switch string(name) {
		case "at":
			f.time("errors.at", value, &e.At)
		case "reason":
			f.string("errors.reason", value, (*string)(&e.Reason))
		case "status":
			f.int("errors.status", value, &e.Status)
		}
	}
	return e
}

func (f *fields) wrong(name string, ok bool) {
	if !ok && f.err == nil {
		f.err = fmt.Errorf("%s of the dead letter is not what it should be", name)
	}
}

func (f *fields) string(name string, value []byte, dst *string) {
	var ok bool
	*dst, ok = unquote(value)
	f.wrong(name, ok)
}

func (f *fields) bool(name string, value []byte, dst *bool) {
	*dst = value[0] == 't'
	f.wrong(name, value[0] == 't' || value[0] == 'f' || value[0] == 'n')
}

func (f *fields) int(name string, value []byte, dst *int) {
	n, ok := count(value)
	*dst = int(n)
	f.wrong(name, ok)
}

func (f *fields) time(name string, value []byte, dst *time.Time) {
	text, ok := unquote(value)
	if ok && value[0] != 'n' {
		ns, err := ParseTime([]byte(text))
		*dst, ok = time.Unix(0, ns).UTC(), err == nil
	}
	f.wrong(name, ok)
}
