package eventlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sysexits"
)

// tokenVersion is the form of the positions that this release writes.
const tokenVersion = 1

// position is how far the files of one event type have been read. Files are
// in the order of (CreatedDate, Id).
type position struct {
	created time.Time // of the last file that was begun
	id      string    // its Id; empty: everything created at that time is still ahead

	// A file that was begun and not ended: its length, and how many of its
	// rows, in the order version 1, are behind.
	length, rows int64
	order        int

	failing failing

	// done names the files at created that the existing daemon has read; they
	// need not be in the order of their Ids.
	done map[string]bool
}

// failing is the file behind the position that cannot be had.
type failing struct {
	ID    string    `json:"id"`
	Since time.Time `json:"since"`
}

type token struct {
	V       int      `json:"v"`
	Org     string   `json:"org,omitempty"`
	Created string   `json:"created"`
	ID      string   `json:"id,omitempty"`
	Len     int64    `json:"len,omitempty"`
	Order   int      `json:"order,omitempty"`
	Rows    int64    `json:"rows,omitempty"`
	Failing *failing `json:"failing,omitempty"`
}

// set tells whether there is a position at all.
func (p *position) set() bool { return !p.created.IsZero() }

// inside tells whether p is a position inside the file f that can be gone on
// from: nothing about the file may have changed.
func (p *position) inside(f *File) bool {
	return p.begun(f) && p.length == f.Length && p.order == orderVersion
}

// begun tells whether rows of the file f, as it was then, have been passed.
func (p *position) begun(f *File) bool {
	return p.rows > 0 && p.id == f.ID && p.created.Equal(f.Created)
}

func (p *position) token(org string) []byte {
	t := token{V: tokenVersion, Org: org, Created: salesforce.DateTime(p.created), ID: p.id}
	if p.rows > 0 {
		t.Len, t.Order, t.Rows = p.length, p.order, p.rows
	}
	if p.failing.ID != "" {
		t.Failing = &p.failing
	}
	b, _ := json.Marshal(t) // strings, numbers and a time in this century
	return b
}

// rowsToken is the beginning of the token of a position inside the file f; the
// number of rows and a brace complete it.
func rowsToken(org string, f *File) []byte {
	return fmt.Appendf(nil, `{"v":%d,"org":%q,"created":%q,"id":%q,"len":%d,"order":%d,"rows":`,
		tokenVersion, org, salesforce.DateTime(f.Created), f.ID, f.Length, orderVersion)
}

// shapeError is a stored value that is no position.
type shapeError struct{ text string }

func (e *shapeError) Error() string { return e.text }

// parsePosition reads a stored value: a token of this release, one of the
// existing daemon, or a bare time. One of another org, or of a newer release,
// is an error that nothing may be built on; a *shapeError is a value that can
// be done without.
func parsePosition(text, org string) (position, error) {
	var p position
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &members); err != nil || members == nil {
		t, err := parseBareTime(text)
		if err != nil {
			return p, &shapeError{fmt.Sprintf("%.80q is neither a position nor a time", text)}
		}
		p.created = t
		return p, nil
	}
	if _, ok := members["v"]; !ok {
		return parseDaemon([]byte(text))
	}
	if err := checkVersion(members["v"]); err != nil {
		return p, err
	}
	var t token
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return p, &shapeError{fmt.Sprintf("%.80q: %v", text, err)}
	}
	if t.Org != "" && org != "" && t.Org != org {
		return p, sysexits.Errorf(sysexits.Config, "the position is of org %s, this is %s", t.Org, org)
	}
	created, err := salesforce.ParseTime(t.Created)
	if err != nil {
		return p, &shapeError{fmt.Sprintf("created %.40q is no time", t.Created)}
	}
	p = position{created: created, id: t.ID, length: t.Len, order: t.Order, rows: t.Rows}
	if t.Failing != nil {
		p.failing = *t.Failing
	}
	return p, p.checkID()
}

// checkID drops an Id that could not be Salesforce's, and with it what hangs
// on it. The files of that moment are then read again.
func (p *position) checkID() error {
	if p.rows < 0 || p.id == "" {
		p.rows = 0
	}
	if p.id != "" && !validID(p.id) {
		err := &idError{fmt.Sprintf("%.40q is no Id of a file: those created at %s are read again", p.id, salesforce.DateTime(p.created))}
		p.id, p.rows = "", 0
		return err
	}
	return nil
}

// idError is a stored Id that is none; the rest of the position is good.
type idError struct{ text string }

func (e *idError) Error() string { return e.text }

func checkVersion(raw json.RawMessage) error {
	v, err := strconv.Atoi(string(raw))
	if err != nil || v < 1 {
		return &shapeError{fmt.Sprintf("version %.20s is none", raw)}
	}
	if v > tokenVersion {
		return sysexits.Errorf(sysexits.Config, "the position has version %d, this release knows %d: a newer one wrote it", v, tokenVersion)
	}
	return nil
}

func parseBareTime(text string) (time.Time, error) {
	text = strings.TrimSpace(text)
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t, nil
	}
	return salesforce.ParseTime(text)
}

// parseDaemon reads {"ids": [["Id","CreatedDate"], "Id", ...], "last_created": "..."}.
func parseDaemon(text []byte) (position, error) {
	var old struct {
		IDs         []json.RawMessage `json:"ids"`
		LastCreated *string           `json:"last_created"`
	}
	if err := json.Unmarshal(text, &old); err != nil || old.LastCreated == nil {
		return position{}, &shapeError{fmt.Sprintf("%.80q is no position", text)}
	}
	created, err := salesforce.ParseTime(*old.LastCreated)
	if err != nil {
		return position{}, &shapeError{fmt.Sprintf("last_created %.40q is no time", *old.LastCreated)}
	}
	p := position{created: created, done: map[string]bool{}}
	for _, raw := range old.IDs {
		var id string
		var pair []string
		if json.Unmarshal(raw, &id) == nil {
			p.done[id] = true
			continue
		}
		if json.Unmarshal(raw, &pair) != nil || len(pair) != 2 {
			return position{}, &shapeError{fmt.Sprintf("%.80q is no file of a position", raw)}
		}
		if t, err := salesforce.ParseTime(pair[1]); err == nil && !t.Before(created) {
			p.done[pair[0]] = true
		}
	}
	return p, nil
}

// filePosition is how far a file on disk has been read. Its content, not its
// date, tells whether it is still the same.
type filePosition struct {
	V     int    `json:"v"`
	Size  int64  `json:"size"`
	CRC   string `json:"crc"`
	Order int    `json:"order"`
	Rows  int64  `json:"rows"`
}

func fileToken(size int64, sum uint32) []byte {
	return fmt.Appendf(nil, `{"v":%d,"size":%d,"crc":"%08x","order":%d,"rows":`, tokenVersion, size, sum, orderVersion)
}

// passed tells how many rows of a file are behind its stored position, and
// whether the position is one of that content.
func (p *filePosition) passed(size int64, sum uint32) (int64, bool) {
	if p.V == 0 || p.Size != size || p.CRC != fmt.Sprintf("%08x", sum) || p.Order != orderVersion {
		return 0, false
	}
	return max(p.Rows, 0), true
}

func parseFilePosition(text string) (filePosition, error) {
	var p filePosition
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &members); err != nil || members["v"] == nil {
		return p, &shapeError{fmt.Sprintf("%.80q is no position of a file", text)}
	}
	if err := checkVersion(members["v"]); err != nil {
		return p, err
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return filePosition{}, &shapeError{fmt.Sprintf("%.80q: %v", text, err)}
	}
	return p, nil
}

// useless tells whether a stored value can be done without.
func useless(err error) bool {
	var shape *shapeError
	return errors.As(err, &shape)
}
