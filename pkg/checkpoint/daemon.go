package checkpoint

import (
	"encoding/base64"
	"fmt"
	"time"
)

// daemonTime is how the existing daemon writes times: as Salesforce does.
const daemonTime = "2006-01-02T15:04:05.000-0700"

// Converted is what became of one position on its way to the existing daemon.
type Converted struct {
	From, To string // To is "" for one that has no form there
	Note     string // what is different there, or why it has none
}

// ForDaemon turns a document into the form of the existing daemon, as far as
// it has one: its keys know neither lanes nor windows, and files of one
// interval only. Where its form says less, it begins earlier and never later.
func ForDaemon(doc Document, daily bool) (out Document, done []Converted) {
	for key, value := range doc.Positions() {
		c := Converted{From: key}
		k := ParseKey(key)
		switch {
		case !startsWithSource(k.Source):
			c.To = key // not ours: as it came
		case k.Lane != "":
			c.Note = "the daemon has no lanes"
		case k.Window != "":
			c.Note = "the daemon keeps no windows"
		case k.Source == SourceFile:
			c.Note = "the daemon reads no files on disk"
		case k.Source == SourceELF && EventType(k.Object) == "*":
			c.Note = "the daemon looks for new types by itself"
		case k.Source == SourceELF && daily != (EventType(k.Object) != k.Object):
			c.Note = "the position is of files of another interval"
		default:
			k.Object = EventType(k.Object)
			c.To = k.String()
			value, c.Note = daemonValue(k, value)
			if value == "" {
				c.To = ""
			}
		}
		if c.To != "" {
			out.Set(c.To, value)
		}
		done = append(done, c)
	}
	return out, done
}

// daemonValue is the position in the daemon's form, "" when it has none, and
// what there is to say about it.
func daemonValue(k Key, value string) (text, note string) {
	if k.Source == SourcePubsub {
		return daemonReplay(value)
	}
	if at, ok := parseTime(value); ok {
		return daemonCursor(k, at, ""), ""
	}
	t, err := parseToken(value)
	if err != nil {
		return "", "not a position: " + err.Error()
	}
	if t.Version == nil {
		return value, "" // it is the daemon's
	}
	if *t.Version > tokenVersion {
		return "", fmt.Sprintf("version %d is newer than this release", *t.Version)
	}
	at, ok := t.time()
	switch {
	case !ok:
		return "", "the position has no time"
	case t.Rows > 0:
		t.ID, note = "", fmt.Sprintf("the file %s is read from its beginning", t.ID)
	}
	return daemonCursor(k, at, t.ID), note
}

func daemonReplay(value string) (text, note string) {
	if value == "earliest" || value == "latest" {
		return "", "the daemon begins by its own setting"
	}
	id := value
	if t, err := parseToken(value); err == nil {
		id = t.ID
	}
	if raw, err := base64.StdEncoding.DecodeString(id); err != nil || len(raw) == 0 {
		return "", "not a replay id"
	}
	return id, ""
}

// daemonCursor is what the daemon stores of files, and of rows.
func daemonCursor(k Key, at time.Time, id string) string {
	when, name, ids := quote(at.UTC().Format(daemonTime)), "last_ts", ""
	if id != "" {
		ids = quote(id)
	}
	if k.Source == SourceELF {
		name = "last_created"
		if id != "" {
			ids = fmt.Sprintf("[%s, %s]", ids, when)
		}
	}
	return fmt.Sprintf(`{"ids": [%s], "%s": %s}`, ids, name, when)
}
