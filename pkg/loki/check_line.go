package loki

import (
	"strconv"
	"unicode/utf8"
)

// AppendCut appends line cut down to at most max bytes, on a UTF-8 boundary
// and with a marker that tells the original length, inside the max:
//
//	…[truncated, original 300000 bytes]
//
// A max that leaves no room for the marker gives a plain cut. A line that fits
// is appended as it is.
func AppendCut(dst, line []byte, max int) []byte {
	if len(line) <= max {
		return append(dst, line...)
	}
	var stack [64]byte
	marker := append(stack[:0], "…[truncated, original "...)
	marker = strconv.AppendInt(marker, int64(len(line)), 10)
	marker = append(marker, " bytes]"...)
	if len(marker) > max {
		marker = nil
	}
	dst = append(dst, line[:cutAt(line, max-len(marker))]...)
	return append(dst, marker...)
}

// cutAt is the largest place up to max at which line can be cut without
// splitting a character. Bytes that are no UTF-8 are characters of their own.
func cutAt(line []byte, max int) int {
	for at := max; at >= 0 && at > max-utf8.UTFMax; at-- {
		if utf8.RuneStart(line[at]) {
			return at
		}
	}
	return max
}
