package checkpoint

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// tokenVersion is the newest version of a token that this release knows.
const tokenVersion = 1

// token is what ckpt understands of the tokens of the sources. Those with a
// version are the toolkit's, the others the daemon's. Only the sources know
// the rest.
type token struct {
	Version     *int64          `json:"v"`
	Created     string          `json:"created"`
	ID          string          `json:"id"`
	Rows        int64           `json:"rows"`
	LastCreated string          `json:"last_created"` // the daemon's, of files
	LastTS      string          `json:"last_ts"`      // the daemon's, of objects and Apex logs
	TS          string          `json:"ts"`
	IDs         json.RawMessage `json:"ids"`
}

// parseToken reads a token that is a JSON object.
func parseToken(value string) (token, error) {
	var t token
	if !strings.HasPrefix(strings.TrimSpace(value), "{") {
		return t, errors.New("not a JSON object")
	}
	dec := json.NewDecoder(strings.NewReader(value))
	if err := dec.Decode(&t); err != nil {
		return t, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return t, errors.New("text after the JSON object")
	}
	return t, nil
}

// time is how far the token says that its source is read.
func (t token) time() (time.Time, bool) {
	for _, text := range []string{t.Created, t.TS, t.LastCreated, t.LastTS} {
		if when, ok := parseTime(text); ok {
			return when, true
		}
	}
	return time.Time{}, false
}

// parseTime reads a time as Salesforce writes it, as RFC 3339 has it, or a
// date, which is its midnight in UTC. A year that no source can go on from is no
// time.
func parseTime(text string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999Z0700", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), record.Countable(t)
		}
	}
	return time.Time{}, false
}

// PositionTime is the time that a position itself tells: of the file, the row
// or the log up to which its source is read. Replay ids tell none.
func PositionTime(key Key, value string) (time.Time, bool) {
	switch key.Source {
	case SourceELF, SourceObjects, SourceApexLog:
	default:
		return time.Time{}, false
	}
	if t, ok := parseTime(value); ok {
		return t, true
	}
	t, err := parseToken(value)
	if err != nil {
		return time.Time{}, false
	}
	return t.time()
}

// Describe words a position for people, in a few dozen bytes.
func Describe(key Key, value string) string {
	const enough = 48
	t, err := parseToken(value)
	if err != nil {
		return cut(value, enough)
	}
	var parts []string
	if when, ok := t.time(); ok {
		parts = append(parts, when.Format("2006-01-02T15:04:05.000Z"))
	}
	if t.ID != "" {
		parts = append(parts, cut(t.ID, enough))
	}
	if t.Rows > 0 {
		parts = append(parts, fmt.Sprintf("row %d", t.Rows))
	}
	if len(parts) == 0 {
		return cut(value, enough)
	}
	return strings.Join(parts, " ")
}

func cut(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return string(runes[:n-3]) + "..."
}

// CheckValue tells whether value is a position that the source of key
// understands, and returns it as it is to be stored. known is false for a key
// of no known source, of which nothing can be said.
func CheckValue(key, value string) (stored string, known bool, err error) {
	k := ParseKey(key)
	switch k.Source {
	case SourcePubsub:
		stored, err = checkReplay(k, value)
	case SourceELF, SourceObjects, SourceApexLog:
		stored, err = checkCursor(k, value)
	case SourceFile:
		stored, err = checkVersioned(value, "file position")
	default:
		return value, false, nil
	}
	if err != nil && !sysexits.Coded(err) {
		err = sysexits.Wrap(sysexits.DataErr, err)
	}
	return stored, true, err
}

func checkReplay(k Key, value string) (string, error) {
	if k.Object == "" {
		return "", errors.New("the key names no topic; pubsub:/event/NAME")
	}
	if value == "earliest" || value == "latest" {
		return value, nil
	}
	if strings.HasPrefix(value, "{") {
		return checkVersioned(value, "replay position")
	}
	if id, err := base64.StdEncoding.DecodeString(value); err != nil || len(id) == 0 {
		return "", fmt.Errorf("%q is no replay position: earliest, latest, or a replay id in base64", cut(value, 80))
	}
	return value, nil
}

func checkCursor(k Key, value string) (string, error) {
	if k.Object == "" && k.Source != SourceApexLog {
		return "", fmt.Errorf("the key names no event type or object; %s:NAME", k.Source)
	}
	if t, ok := parseTime(value); ok {
		return t.Format("2006-01-02T15:04:05.000Z"), nil
	}
	t, err := parseToken(value)
	if err != nil {
		return "", fmt.Errorf("%q is no position of %s: a time such as 2026-07-01T08:00:00Z, a date, or a token as ckpt get prints it (%w)", cut(value, 80), k.Source, err)
	}
	if t.Version != nil {
		return checkVersioned(value, "position")
	}
	if _, ok := t.time(); !ok {
		return "", errors.New("the token has neither a version (v) nor a time (last_created, last_ts)")
	}
	return value, nil
}

// checkVersioned wants a token of this toolkit.
func checkVersioned(value, what string) (string, error) {
	t, err := parseToken(value)
	switch {
	case err != nil:
		return "", fmt.Errorf("%q is no %s: %w", cut(value, 80), what, err)
	case t.Version == nil || *t.Version < 1:
		return "", fmt.Errorf("the %s has no version (v)", what)
	case *t.Version > tokenVersion:
		return "", sysexits.Errorf(sysexits.Config, "the %s has version %d, newer than this release knows", what, *t.Version)
	}
	if !strings.HasPrefix(value, "{") {
		return "", fmt.Errorf("the %s does not begin with {", what)
	}
	return value, nil
}
