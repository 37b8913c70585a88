package shape

import (
	"bytes"

	"sf2loki/pkg/record"
)

// AppendLine appends line, a flat or nested JSON object without white space
// whose members at the top are the columns of the row, with the edits of the
// rules in it. What a rule has changed is a string from then on.
func (c *Columns) AppendLine(dst, line []byte) []byte {
	if len(c.touched) == 0 || len(line) < 2 {
		return append(dst, line...)
	}
	dst = append(dst, '{')
	first := true
	for rest := line[1:]; len(rest) > 1; {
		name := jsonValue(rest)
		value := jsonValue(rest[name+1:])
		member := rest[:name+1+value]
		rest = rest[min(len(member)+1, len(rest)):] // and the comma
		var e Edit
		if i, ok := c.at[string(member[1:name-1])]; ok {
			e = c.edits[i]
		}
		if e.Dropped {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		if !e.Changed {
			dst = append(dst, member...)
			continue
		}
		dst = append(dst, member[:name+1]...)
		dst = record.AppendString(dst, e.Text)
	}
	return append(dst, '}')
}

// jsonValue is the length of the JSON value that text begins with. The text is
// what a program of ours wrote.
func jsonValue(text []byte) int {
	depth := 0
	for i := 0; i < len(text); {
		switch text[i] {
		case '"':
			i += stringLen(text[i:])
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
			i++
		case ',', ':':
			if depth == 0 {
				return i
			}
			i++
			continue
		default:
			i++
			continue
		}
		if depth == 0 {
			return i
		}
	}
	return len(text)
}

// stringLen is the length of the string literal that text begins with.
func stringLen(text []byte) int {
	for i := 1; ; i++ {
		n := bytes.IndexAny(text[i:], `"\`)
		if n < 0 {
			return len(text)
		}
		i += n
		if text[i] == '"' {
			return i + 1
		}
		i++
		if i >= len(text) {
			return len(text)
		}
	}
}
