package eventlog

import (
	"encoding/json"
	"fmt"
	"time"

	"sf2loki/pkg/feed"
	"sf2loki/pkg/salesforce"
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

	failing feed.Failing // the file behind the position that cannot be had

	// done names the files at created that the existing daemon has read; they
	// need not be in the order of their Ids.
	done map[string]bool
}

type token struct {
	V       int           `json:"v"`
	Org     string        `json:"org,omitempty"`
	Created string        `json:"created"`
	ID      string        `json:"id,omitempty"`
	Len     int64         `json:"len,omitempty"`
	Order   int           `json:"order,omitempty"`
	Rows    int64         `json:"rows,omitempty"`
	Failing *feed.Failing `json:"failing,omitempty"`
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

// parsePosition reads a stored value: a token of this release, one of the
// existing daemon, or a bare time. One of another org, or of a newer release,
// is an error that nothing may be built on; one that can be done without is
// feed.IsUseless. Of a token whose Id is none the rest is returned beside the
// error.
func parsePosition(text, org string) (position, error) {
	var p position
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &members); err != nil || members == nil {
		at, err := feed.ParseBareTime(text)
		if err != nil {
			return p, err
		}
		return position{created: time.Unix(0, at).UTC()}, nil
	}
	if _, ok := members["v"]; !ok {
		return parseDaemon([]byte(text))
	}
	if err := feed.CheckVersion(members["v"], tokenVersion); err != nil {
		return p, err
	}
	var t token
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return p, feed.Uselessf("%.80q: %.200v", text, err)
	}
	if err := feed.CheckOrg(t.Org, org); err != nil {
		return p, err
	}
	created, err := salesforce.ParseTime(t.Created)
	if err != nil {
		return p, feed.Uselessf("created %.40q is no time", t.Created)
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
		err := feed.Uselessf("%.40q is no Id of a file: those created at %s are read again", p.id, salesforce.DateTime(p.created))
		p.id, p.rows = "", 0
		return err
	}
	return nil
}

// parseDaemon reads {"ids": [["Id","CreatedDate"], "Id", ...], "last_created": "..."}.
func parseDaemon(text []byte) (position, error) {
	var old struct {
		IDs         []json.RawMessage `json:"ids"`
		LastCreated *string           `json:"last_created"`
	}
	if err := json.Unmarshal(text, &old); err != nil || old.LastCreated == nil {
		return position{}, feed.Uselessf("%.80q is no position", text)
	}
	created, err := salesforce.ParseTime(*old.LastCreated)
	if err != nil {
		return position{}, feed.Uselessf("last_created %.40q is no time", *old.LastCreated)
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
			return position{}, feed.Uselessf("%.80q is no file of a position", raw)
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
		return p, feed.Uselessf("%.80q is no position of a file", text)
	}
	if err := feed.CheckVersion(members["v"], tokenVersion); err != nil {
		return p, err
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return filePosition{}, feed.Uselessf("%.80q: %.200v", text, err)
	}
	return p, nil
}
