package loki

import (
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"sf2loki/pkg/record"
)

// AppendJSON appends the JSON form of a PushRequest that AppendPush made: for
// looking at what is sent, and for servers that take nothing else.
//
//	{"streams":[{"stream":{"a":"b"},"values":[["1782936000000000000","line",{"level":"info"}]]}]}
//
// It is made from the encoded form so that both encodings always say the same.
func AppendJSON(dst, push []byte) ([]byte, error) {
	dst = append(dst, `{"streams":[`...)
	first := true
	err := eachField(push, func(tag byte, value []byte) (err error) {
		if tag != tagStreams {
			return errForm
		}
		dst = comma(dst, &first)
		dst, err = appendJSONStream(dst, value)
		return err
	})
	return append(dst, "]}"...), err
}

var errForm = errors.New("not a push request of ours")

func appendJSONStream(dst, stream []byte) ([]byte, error) {
	dst = append(dst, `{"stream":`...)
	first, hasLabels := true, false
	err := eachField(stream, func(tag byte, value []byte) (err error) {
		switch {
		case tag == tagLabels && !hasLabels:
			hasLabels = true
			if dst, err = appendJSONLabels(dst, value); err != nil {
				return err
			}
			dst = append(dst, `,"values":[`...)
			return nil
		case tag == tagEntries && hasLabels:
			dst = comma(dst, &first)
			dst, err = appendJSONEntry(dst, value)
			return err
		}
		return errForm
	})
	if err == nil && !hasLabels {
		err = errForm
	}
	return append(dst, "]}"...), err
}

func appendJSONEntry(dst, entry []byte) ([]byte, error) {
	var line []byte
	var ts int64
	err := eachField(entry, func(tag byte, value []byte) (err error) {
		switch tag {
		case tagTime:
			ts, err = readTime(value)
		case tagLine:
			line = value
		}
		return err
	})
	if err != nil {
		return dst, err
	}
	dst = append(dst, '[', '"')
	dst = strconv.AppendInt(dst, ts, 10)
	dst = append(dst, '"', ',')
	dst = record.AppendString(dst, line)
	dst, err = appendJSONMetadata(dst, entry)
	return append(dst, ']'), err
}

func appendJSONMetadata(dst, entry []byte) ([]byte, error) {
	first := true
	err := eachField(entry, func(tag byte, pair []byte) error {
		if tag != tagMetadata {
			return nil
		}
		if first {
			dst = append(dst, ',', '{')
		}
		dst = comma(dst, &first)
		var name, value []byte
		err := eachField(pair, func(tag byte, v []byte) error {
			if tag == tagName {
				name = v
			} else {
				value = v
			}
			return nil
		})
		dst = record.AppendString(dst, name)
		dst = append(dst, ':')
		dst = record.AppendString(dst, value)
		return err
	})
	if !first {
		dst = append(dst, '}')
	}
	return dst, err
}

// appendJSONLabels turns {a="b"} into {"a":"b"}. It reads what AppendLabels
// writes, whose escapes are Go's.
func appendJSONLabels(dst, labels []byte) ([]byte, error) {
	n := len(labels)
	if n < 2 || labels[0] != '{' || labels[n-1] != '}' {
		return dst, fmt.Errorf("%w: labels %.80q", errForm, labels)
	}
	rest := string(labels[1 : n-1])
	dst = append(dst, '{')
	first := true
	for rest != "" {
		if !first {
			if rest[0] != ',' {
				return dst, fmt.Errorf("%w: labels %.80q", errForm, labels)
			}
			rest = rest[1:]
		}
		dst = comma(dst, &first)
		eq := 0
		for eq < len(rest) && rest[eq] != '=' {
			eq++
		}
		if eq == len(rest) {
			return dst, fmt.Errorf("%w: labels %.80q", errForm, labels)
		}
		quoted, err := strconv.QuotedPrefix(rest[eq+1:])
		if err != nil {
			return dst, fmt.Errorf("%w: labels %.80q", errForm, labels)
		}
		value, err := strconv.Unquote(quoted)
		if err != nil {
			return dst, fmt.Errorf("%w: labels %.80q", errForm, labels)
		}
		dst = record.AppendString(dst, []byte(rest[:eq]))
		dst = append(dst, ':')
		dst = record.AppendString(dst, []byte(value))
		rest = rest[eq+1+len(quoted):]
	}
	return append(dst, '}'), nil
}

func comma(dst []byte, first *bool) []byte {
	if *first {
		*first = false
		return dst
	}
	return append(dst, ',')
}

// eachField calls f for each length-delimited field of a message.
func eachField(msg []byte, f func(tag byte, value []byte) error) error {
	for len(msg) > 0 {
		tag := msg[0]
		if protowire.Type(tag&7) != protowire.BytesType || tag >= 0x80 {
			return errForm
		}
		value, n := protowire.ConsumeBytes(msg[1:])
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := f(tag, value); err != nil {
			return err
		}
		msg = msg[1+n:]
	}
	return nil
}

// readTime reads a Timestamp, in nanoseconds.
func readTime(msg []byte) (int64, error) {
	var ns int64
	for len(msg) > 0 {
		v, n := protowire.ConsumeVarint(msg[1:])
		if n < 0 {
			return 0, protowire.ParseError(n)
		}
		switch msg[0] {
		case tagSeconds:
			ns += int64(v) * 1e9
		case tagNanos:
			ns += int64(v)
		default:
			return 0, errForm
		}
		msg = msg[1+n:]
	}
	return ns, nil
}
