package feed

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sysexits"
)

// tokenVersion is the form of the positions that this release writes.
const tokenVersion = 1

// Position is how far rows have been read, in the order of (time, Id). Times
// are nanoseconds since the epoch, of whole milliseconds as Salesforce keeps
// them.
type Position struct {
	Set  bool
	Time int64  // of the last row
	ID   string // its Id, or EventIdentifier; empty: the rows of that time are still ahead

	// Start is where reading once began. No overlap reaches behind it: what lies
	// there was never asked for. 0: it is out of reach.
	Start int64

	// Done names rows that the existing daemon has pulled.
	Done []string

	Failing Failing
}

// Failing is the row behind the position that cannot be had.
type Failing struct {
	ID    string    `json:"id"`
	Since time.Time `json:"since"`
}

type token struct {
	V       int      `json:"v"`
	Org     string   `json:"org,omitempty"`
	TS      string   `json:"ts"`
	ID      string   `json:"id,omitempty"`
	Start   string   `json:"start,omitempty"`
	Failing *Failing `json:"failing,omitempty"`
}

// AppendToken appends p as it is stored: a small JSON object.
func (p *Position) AppendToken(dst []byte, org string) []byte {
	dst = append(dst, `{"v":`...)
	dst = strconv.AppendInt(dst, tokenVersion, 10)
	if org != "" {
		dst = record.AppendString(append(dst, `,"org":`...), []byte(org))
	}
	dst = append(appendMillis(append(dst, `,"ts":"`...), p.Time), '"')
	if p.ID != "" {
		dst = record.AppendString(append(dst, `,"id":`...), []byte(p.ID))
	}
	if p.Start != 0 {
		dst = append(appendMillis(append(dst, `,"start":"`...), p.Start), '"')
	}
	if p.Failing.ID != "" {
		b, _ := json.Marshal(p.Failing) // a string and a time of this century
		dst = append(append(dst, `,"failing":`...), b...)
	}
	return append(dst, '}')
}

// appendMillis writes a time as SOQL takes it.
func appendMillis(dst []byte, ns int64) []byte {
	return time.Unix(0, ns).UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
}

// DateTime is a SOQL literal.
func DateTime(ns int64) string { return string(appendMillis(nil, ns)) }

// Ahead is the error of a position that no clock explains: nothing would be
// pulled until its time has come, and what happens meanwhile be passed over.
func Ahead(at, now time.Time) error {
	if at.Sub(now) < 24*time.Hour {
		return nil
	}
	return sysexits.WithHint(sysexits.Errorf(sysexits.Config, "the position %s lies in the future", DateTime(at.UnixNano())),
		"ckpt set gives it another time, ckpt rm forgets it")
}

// Useless is a stored value that is no position. It can be done without.
type Useless struct{ text string }

func (e *Useless) Error() string { return e.text }

// Uselessf makes a Useless.
func Uselessf(format string, args ...any) error { return &Useless{fmt.Sprintf(format, args...)} }

// IsUseless tells whether err says that a stored value can be done without.
func IsUseless(err error) bool {
	var u *Useless
	return errors.As(err, &u)
}

// ParsePosition reads a stored value: a token of this release, one of the
// existing daemon, or a bare time. One of another org, or of a newer release,
// is an error that nothing may be built on; one that can be done without is
// IsUseless. Of a token whose Id is none the rest is returned beside the error.
func ParsePosition(text, org string) (Position, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &members); err != nil || members == nil {
		t, err := ParseBareTime(text)
		return Position{Set: err == nil, Time: t}, err
	}
	if _, ok := members["v"]; !ok {
		return parseDaemon([]byte(text))
	}
	if err := CheckVersion(members["v"], tokenVersion); err != nil {
		return Position{}, err
	}
	return parseToken(text, org)
}

// CheckVersion refuses the version of a token that is none, or newer than the
// one that is known.
func CheckVersion(raw json.RawMessage, known int) error {
	v, err := strconv.Atoi(string(raw))
	switch {
	case err != nil || v < 1:
		return Uselessf("version %.20q is none", raw)
	case v > known:
		return sysexits.Errorf(sysexits.Config, "the position has version %d, this release knows %d: a newer one wrote it", v, known)
	}
	return nil
}

// CheckOrg refuses the position of another org than this one. Either may be
// unknown.
func CheckOrg(of, this string) error {
	if of != "" && this != "" && of != this {
		return sysexits.Errorf(sysexits.Config, "the position is of org %.40q, this is %s", of, this)
	}
	return nil
}

func parseToken(text, org string) (Position, error) {
	var t token
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return Position{}, Uselessf("%.80q: %.200v", text, err)
	}
	if err := CheckOrg(t.Org, org); err != nil {
		return Position{}, err
	}
	at, ok := ParseTime([]byte(t.TS))
	if !ok {
		return Position{}, Uselessf("ts %.40q is no time", t.TS)
	}
	p := Position{Set: true, Time: at, ID: t.ID}
	p.Start, _ = ParseTime([]byte(t.Start))
	if t.Failing != nil {
		p.Failing = *t.Failing
	}
	if !usableID(t.ID) {
		p.ID = ""
		return p, Uselessf("%.40q is no id of a row: those of %s are read again", t.ID, t.TS)
	}
	return p, nil
}

// usableID tells whether an id, put into a query, could be one.
func usableID(id string) bool {
	if len(id) > 255 {
		return false
	}
	for _, c := range []byte(id) {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_' || c == '.' || c == ':') {
			return false
		}
	}
	return true
}

// parseDaemon reads {"ids": ["Id", ...], "last_ts": "..."}. The daemon has
// pulled what lies before last_ts, and the rows of these ids.
func parseDaemon(text []byte) (Position, error) {
	var old struct {
		IDs    []string `json:"ids"`
		LastTS *string  `json:"last_ts"`
	}
	if err := json.Unmarshal(text, &old); err != nil || old.LastTS == nil {
		return Position{}, Uselessf("%.80q is no position", text)
	}
	at, ok := ParseTime([]byte(*old.LastTS))
	if !ok {
		return Position{}, Uselessf("last_ts %.40q is no time", *old.LastTS)
	}
	return Position{Set: true, Time: at, Start: at, Done: old.IDs}, nil
}

// ParseBareTime reads a position that is just a time, or a date.
func ParseBareTime(text string) (int64, error) {
	text = strings.TrimSpace(text)
	if t, err := time.Parse(time.DateOnly, text); err == nil && record.Countable(t) {
		return t.UnixNano(), nil
	}
	if at, ok := ParseTime([]byte(text)); ok {
		return at, nil
	}
	return 0, Uselessf("%.80q is neither a position nor a time", text)
}

// ParseTime reads a time as REST gives it, 2026-07-01T10:00:00.000+0000, and
// every RFC 3339 form.
func ParseTime(text []byte) (int64, bool) {
	if n := len(text) - len("+0000"); n > 0 && n < 40 && string(text[n:]) == "+0000" {
		var buf [48]byte
		at, err := record.ParseTime(append(append(buf[:0], text[:n]...), 'Z'))
		return at, err == nil
	}
	if at, err := record.ParseTime(text); err == nil {
		return at, true
	}
	t, err := salesforce.ParseTime(string(text))
	if err != nil || !record.Countable(t) {
		return 0, false
	}
	return t.UnixNano(), true
}

// Millis cuts a time to whole milliseconds, which is what Salesforce compares.
func Millis(ns int64) int64 {
	m := ns / 1e6
	if ns < 0 && m*1e6 != ns {
		m--
	}
	return m * 1e6
}
