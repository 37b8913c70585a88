package loki

import (
	"slices"

	"sf2loki/pkg/record"
)

// AppendLabels appends the canonical label set of a stream, {a="b",c="d"}:
// names in byte order, values escaped. A label with an empty value is left
// out, as Loki does, so that two label sets that are one stream to Loki have
// one text: it is also the key of the stream. Names are written as they are;
// Limits.CheckLabels tells whether Loki can read them.
func AppendLabels(dst []byte, pairs []record.Pair) []byte {
	if !sortedPairs(pairs) {
		return appendUnsortedLabels(dst, pairs)
	}
	return appendLabels(dst, pairs)
}

//go:noinline
func appendUnsortedLabels(dst []byte, pairs []record.Pair) []byte {
	var stack [20]record.Pair
	pairs = append(stack[:0], pairs...)
	slices.SortStableFunc(pairs, comparePairs)
	return appendLabels(dst, pairs)
}

func appendLabels(dst []byte, pairs []record.Pair) []byte {
	dst = append(dst, '{')
	first := true
	for i := range pairs {
		p := &pairs[i]
		if len(p.Value) == 0 {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, p.Name...)
		dst = append(dst, '=', '"')
		dst = appendLabelValue(dst, p.Value)
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

const hexDigits = "0123456789abcdef"

// appendLabelValue escapes what may not stand inside a quoted string of
// Prometheus' label syntax: quotes, backslashes and line feeds; the other
// control characters too, so that logs and error texts stay readable.
func appendLabelValue(dst, v []byte) []byte {
	start := 0
	for i, c := range v {
		if c >= 0x20 && c != '"' && c != '\\' && c != 0x7f {
			continue
		}
		dst = append(dst, v[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(dst, v[start:]...)
}
