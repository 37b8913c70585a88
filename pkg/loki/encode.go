package loki

import (
	"bytes"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"sf2loki/pkg/record"
)

// The push API's messages, by field number:
//
//	PushRequest{1: repeated Stream}
//	Stream{1: labels string, 2: repeated Entry}
//	Entry{1: Timestamp{1: int64 seconds, 2: int32 nanos}, 2: line, 3: repeated LabelPair{1: name, 2: value}}
//
// Every field number is below 16 and every field but the two numbers is
// length-delimited, so a tag is one byte.
const (
	tagStreams  = 1<<3 | byte(protowire.BytesType)
	tagLabels   = 1<<3 | byte(protowire.BytesType)
	tagEntries  = 2<<3 | byte(protowire.BytesType)
	tagTime     = 1<<3 | byte(protowire.BytesType)
	tagLine     = 2<<3 | byte(protowire.BytesType)
	tagMetadata = 3<<3 | byte(protowire.BytesType)
	tagName     = 1<<3 | byte(protowire.BytesType)
	tagValue    = 2<<3 | byte(protowire.BytesType)
	tagSeconds  = 1<<3 | byte(protowire.VarintType)
	tagNanos    = 2<<3 | byte(protowire.VarintType)
)

// AppendEntry appends one `entries` field of a Stream: its tag, its length and
// the Entry message. ts is in nanoseconds since the epoch and may be negative.
// Metadata is written in the order of its names, so that an entry has one
// encoding whatever the key order of the record it came in; md itself stays as
// it is. Nothing is checked here: see Limits.
func AppendEntry(dst []byte, ts int64, line []byte, md []record.Pair) []byte {
	if !sortedPairs(md) {
		return appendUnsortedEntry(dst, ts, line, md)
	}
	return appendEntry(dst, ts, line, md)
}

// appendUnsortedEntry keeps the copy of the pairs out of AppendEntry's frame.
//
//go:noinline
func appendUnsortedEntry(dst []byte, ts int64, line []byte, md []record.Pair) []byte {
	var stack [32]record.Pair
	md = append(stack[:0], md...)
	slices.SortStableFunc(md, comparePairs)
	return appendEntry(dst, ts, line, md)
}

func appendEntry(dst []byte, ts int64, line []byte, md []record.Pair) []byte {
	seconds, nanos := splitTime(ts)
	timeSize := sizeNumber(uint64(seconds)) + sizeNumber(uint64(nanos))
	size := 1 + sizeBytes(timeSize) + sizeField(len(line))
	for i := range md {
		size += 1 + sizeBytes(sizePair(&md[i]))
	}

	dst = appendLen(dst, tagEntries, size)
	dst = appendLen(dst, tagTime, timeSize)
	dst = appendNumber(dst, tagSeconds, uint64(seconds))
	dst = appendNumber(dst, tagNanos, uint64(nanos))
	dst = appendField(dst, tagLine, line)
	for i := range md {
		dst = appendLen(dst, tagMetadata, sizePair(&md[i]))
		dst = appendField(dst, tagName, md[i].Name)
		dst = appendField(dst, tagValue, md[i].Value)
	}
	return dst
}

// AppendPush appends an uncompressed PushRequest that holds one stream. labels
// is what AppendLabels made; each element of entries holds one or more entries
// of AppendEntry, so a run of entries that lie side by side in one buffer can
// be one element.
func AppendPush(dst []byte, labels []byte, entries [][]byte) []byte {
	stream := streamSize(labels, entries)
	dst = slices.Grow(dst, 1+sizeBytes(stream))
	dst = appendLen(dst, tagStreams, stream)
	dst = appendField(dst, tagLabels, labels)
	for _, e := range entries {
		dst = append(dst, e...)
	}
	return dst
}

// PushSize is the length in bytes of what AppendPush would append.
func PushSize(labels []byte, entries [][]byte) int {
	return 1 + sizeBytes(streamSize(labels, entries))
}

func streamSize(labels []byte, entries [][]byte) int {
	size := sizeField(len(labels))
	for _, e := range entries {
		size += len(e)
	}
	return size
}

// splitTime splits nanoseconds into the seconds and the never negative rest
// that a protobuf Timestamp has.
func splitTime(ts int64) (seconds, nanos int64) {
	seconds, nanos = ts/1e9, ts%1e9
	if nanos < 0 {
		seconds, nanos = seconds-1, nanos+1e9
	}
	return seconds, nanos
}

func sizePair(p *record.Pair) int { return sizeField(len(p.Name)) + sizeField(len(p.Value)) }

// sizeBytes is the size of a length and the n bytes after it.
func sizeBytes(n int) int { return protowire.SizeVarint(uint64(n)) + n }

// sizeField is the size of a string field of n bytes; an empty one is left out.
func sizeField(n int) int {
	if n == 0 {
		return 0
	}
	return 1 + sizeBytes(n)
}

// sizeNumber is the size of a varint field; zero is left out.
func sizeNumber(n uint64) int {
	if n == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(n)
}

func appendLen(dst []byte, tag byte, n int) []byte {
	return protowire.AppendVarint(append(dst, tag), uint64(n))
}

func appendField(dst []byte, tag byte, v []byte) []byte {
	if len(v) == 0 {
		return dst
	}
	return append(appendLen(dst, tag, len(v)), v...)
}

func appendNumber(dst []byte, tag byte, n uint64) []byte {
	if n == 0 {
		return dst
	}
	return protowire.AppendVarint(append(dst, tag), n)
}

func comparePairs(a, b record.Pair) int { return bytes.Compare(a.Name, b.Name) }

func sortedPairs(pairs []record.Pair) bool {
	for i := 1; i < len(pairs); i++ {
		if bytes.Compare(pairs[i-1].Name, pairs[i].Name) > 0 {
			return false
		}
	}
	return true
}
