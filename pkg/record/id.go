package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
)

// ID identifies the entry of rec by 32 hexadecimal digits: a hash of labels,
// time, line and structured metadata, as Loki tells entries apart, and of
// nothing else. The order of names does not count. A record without a line,
// which is no entry, is identified by all that it says besides its checkpoint
// and its being a dead letter.
func ID(rec *Record) string {
	h := sha256.New()
	// Each part has its length before it, so that no two entries have one text.
	b := appendSorted(make([]byte, 0, 1024), rec.Labels)
	if rec.HasTime {
		b = binary.BigEndian.AppendUint64(append(b, 't'), uint64(rec.Time))
	}
	line := rec.Line
	if rec.EscapedLine != nil {
		line = unescapeLine(rec.EscapedLine)
	}
	if line != nil { // which may be very long: it is not copied
		h.Write(binary.AppendUvarint(append(b, 'l'), uint64(len(line))))
		h.Write(line)
		b = b[:0]
	}
	b = appendSorted(b, rec.Metadata)
	if line == nil {
		raw := rec.Raw
		if raw == nil {
			raw = AppendRecord(nil, rec)
		}
		b = appendOthers(b, rec, raw)
	}
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func appendPart(b, part []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(part)))
	return append(b, part...)
}

func appendSorted(b []byte, pairs []Pair) []byte {
	b = binary.AppendUvarint(b, uint64(len(pairs)))
	if !slices.IsSortedFunc(pairs, comparePairs) {
		pairs = slices.Clone(pairs)
		slices.SortStableFunc(pairs, comparePairs)
	}
	for i := range pairs {
		b = appendPart(appendPart(b, pairs[i].Name), pairs[i].Value)
	}
	return b
}

func comparePairs(a, b Pair) int { return bytes.Compare(a.Name, b.Name) }

// appendOthers appends the members of an object that is no entry.
func appendOthers(b []byte, rec *Record, raw []byte) []byte {
	var others []Pair
	for name, value := range members(raw) {
		skip := isEnvelope(name)
		switch string(name) {
		case "checkpoint_key", "checkpoint_value":
			skip = true
		case "ts", "ts_unix_nano":
			skip = rec.HasTime
		case "labels":
			skip = rec.Labels != nil
		case "structured_metadata":
			skip = rec.Metadata != nil
		}
		if !skip {
			others = append(others, Pair{bytes.Clone(name), appendCompact(nil, value)})
		}
	}
	return appendSorted(b, others)
}

func unescapeLine(escaped []byte) []byte {
	quoted := append(append([]byte{'"'}, escaped...), '"')
	s, _ := unquote(quoted)
	return []byte(s)
}
