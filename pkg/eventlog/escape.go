package eventlog

import (
	"bytes"

	"sf2loki/pkg/record"
)

// appendTwice appends the text of a cell as it stands in the record: inside a
// JSON string (the line) that is itself inside a JSON string. With doubled, two
// quotes in a row are one.
func appendTwice(dst, text []byte, doubled bool) []byte {
	for doubled {
		q := bytes.IndexByte(text, '"')
		if q < 0 {
			break
		}
		dst = record.AppendTwice(dst, text[:q+1])
		text = text[q+2:]
	}
	return record.AppendTwice(dst, text)
}
