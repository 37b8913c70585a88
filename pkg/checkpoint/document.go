// Package checkpoint keeps the positions of pipelines: the document that holds
// them, the stores that hold the document, and the committer that turns
// acknowledgements into positions without ever moving one backwards. ckpt(1)
// describes it from the outside.
package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sf2loki/pkg/sysexits"
)

// Reserved keys. A position never has one of these names.
const (
	reservedPrefix = "__"
	timePrefix     = "__ts__:"         // + key: time of the last record behind it
	fenceKey       = "__fence_epoch__" // the least epoch that may write
	movedKey       = "__moved_to__"    // the document lives elsewhere now
	copiedKey      = "__copied_from__" // where ckpt mv took it from
	leaseKey       = "__lease__"       // under which lease the fence was raised, and by whom
	sequenceKey    = "__sequence__"    // tells two documents apart that are otherwise equal
)

// timeLayout is the streams' form of a time: it sorts as text.
const timeLayout = "2006-01-02T15:04:05.000000000Z"

// What a document holds at most, so that one that is broken or hostile takes no
// more memory than the largest there can be: 50,000 positions, each with the time
// of its last record.
const (
	MaxBytes   = 16 << 20
	maxMembers = 100_000
)

var (
	errLong = fmt.Errorf("more than %d MiB, and no document has more", MaxBytes>>20)
	errMany = fmt.Errorf("more than %d keys, and no document has more", maxMembers)
)

// fits refuses what is more than a document holds.
func fits(size, members int) error {
	switch {
	case size > MaxBytes:
		return sysexits.Wrap(sysexits.Config, errLong)
	case members > maxMembers:
		return sysexits.Wrap(sysexits.Config, errMany)
	}
	return nil
}

// ErrEmpty is what ParseDocument says to input that holds nothing at all. It
// is never an empty document: what was to print one may have failed.
var ErrEmpty = errors.New("empty, not even {}")

// Document is one flat JSON object from key to position. It keeps the order
// of its keys. The zero Document is empty and ready for use.
type Document struct {
	keys   []string
	values map[string]string
}

// Reserved reports whether key is one of those that are no positions.
func Reserved(key string) bool { return strings.HasPrefix(key, reservedPrefix) }

// ParseDocument reads a document: one JSON object whose members are strings.
// Members that repeat or are no strings are refused by name, because either
// would silently lose a position.
func ParseDocument(data []byte) (Document, error) {
	var doc Document
	if len(data) > MaxBytes {
		return doc, errLong
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return doc, ErrEmpty
	}
	if !utf8.Valid(data) {
		return doc, errors.New("not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // of any size: it is no string
	tok, err := dec.Token()
	if err != nil {
		return doc, notJSON(err, len(data))
	}
	if tok != json.Delim('{') {
		return doc, errors.New("not a JSON object")
	}
	for dec.More() {
		if err := doc.parseMember(dec, len(data)); err != nil {
			return Document{}, err
		}
	}
	if _, err := dec.Token(); err != nil {
		return Document{}, notJSON(err, len(data))
	}
	if _, err := dec.Token(); err != io.EOF {
		return Document{}, fmt.Errorf("text after the JSON object, at byte %d", dec.InputOffset())
	}
	return doc, nil
}

func (d *Document) parseMember(dec *json.Decoder, size int) error {
	tok, err := dec.Token()
	if err != nil {
		return notJSON(err, size)
	}
	key := tok.(string) // the decoder takes nothing else for a member's name
	if tok, err = dec.Token(); err != nil {
		return notJSON(err, size)
	}
	value, ok := tok.(string)
	if !ok {
		return fmt.Errorf("the value of %.80q is not a string", key)
	}
	if _, ok := d.Get(key); ok {
		return fmt.Errorf("the key %.80q is there twice", key)
	}
	if d.Len() == maxMembers {
		return errMany
	}
	d.Set(key, value)
	return nil
}

func notJSON(err error, size int) error {
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("not JSON at byte %d: %w", syntax.Offset, err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("not JSON: it ends inside the object, after %d bytes", size)
	}
	return fmt.Errorf("not JSON: %w", err)
}

// Get tells the value of key, and whether there is one.
func (d Document) Get(key string) (string, bool) {
	value, ok := d.values[key]
	return value, ok
}

// Set gives key a value. A new key goes to the end.
func (d *Document) Set(key, value string) {
	if d.values == nil {
		d.values = make(map[string]string)
	}
	if _, ok := d.values[key]; !ok {
		d.keys = append(d.keys, key)
	}
	d.values[key] = value
}

// Delete removes key and reports whether it was there.
func (d *Document) Delete(key string) bool {
	if _, ok := d.values[key]; !ok {
		return false
	}
	delete(d.values, key)
	d.keys = slices.DeleteFunc(d.keys, func(k string) bool { return k == key })
	return true
}

// All ranges over every member in order, the reserved ones included.
func (d Document) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, key := range d.keys {
			if !yield(key, d.values[key]) {
				return
			}
		}
	}
}

// Positions ranges over the members that are positions, in order.
func (d Document) Positions() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for key, value := range d.All() {
			if !Reserved(key) && !yield(key, value) {
				return
			}
		}
	}
}

// Len is the number of members, the reserved ones included.
func (d Document) Len() int { return len(d.keys) }

// Clone returns a copy that shares nothing with d.
func (d Document) Clone() Document {
	return Document{keys: slices.Clone(d.keys), values: maps.Clone(d.values)}
}

// Equal reports whether both hold the same members, in whatever order.
func (d Document) Equal(o Document) bool {
	if d.Len() != o.Len() {
		return false
	}
	for key, value := range d.All() {
		if other, ok := o.Get(key); !ok || other != value {
			return false
		}
	}
	return true
}

// Bytes is the document's text, one member a line so that diff and grep work
// on it.
func (d Document) Bytes() []byte {
	if d.Len() == 0 {
		return []byte("{}\n")
	}
	var out bytes.Buffer
	out.WriteByte('{')
	for i, key := range d.keys {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
		writeString(&out, key)
		out.WriteString(": ")
		writeString(&out, d.values[key])
	}
	out.WriteString("\n}\n")
	return out.Bytes()
}

// writeString writes s as a JSON string that leaves <, > and & readable.
func writeString(out *bytes.Buffer, s string) {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	out.Truncate(out.Len() - len("\n"))
}

func quote(s string) string {
	var out bytes.Buffer
	writeString(&out, s)
	return out.String()
}

// RecordTime tells the time of the last record behind key's position, when
// the acknowledgement that moved it had one.
func (d Document) RecordTime(key string) (time.Time, bool) {
	text, ok := d.Get(timePrefix + key)
	if !ok {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	return t, err == nil
}

// SetRecordTime notes the time of the last record behind key's position.
func (d *Document) SetRecordTime(key string, t time.Time) {
	d.Set(timePrefix+key, t.UTC().Format(timeLayout))
}

// ClearRecordTime forgets it, as becomes a position that was set by hand.
func (d *Document) ClearRecordTime(key string) { d.Delete(timePrefix + key) }

// MovedTo tells where the document lives now, when ckpt mv took it away. The
// positions of such a document must not be used.
func (d Document) MovedTo() (string, bool) { return d.Get(movedKey) }

// FenceEpoch is the least epoch that may write the document; 0 when no lease
// ever did.
func (d Document) FenceEpoch() (uint64, error) {
	text, ok := d.Get(fenceKey)
	if !ok {
		return 0, nil
	}
	epoch, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, sysexits.Errorf(sysexits.Config, "%s is no number: %.80q", fenceKey, text)
	}
	return epoch, nil
}

// SetFenceEpoch raises or sets the fence.
func (d *Document) SetFenceEpoch(epoch uint64) {
	d.Set(fenceKey, strconv.FormatUint(epoch, 10))
}
