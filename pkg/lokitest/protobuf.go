package lokitest

import (
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// entry is an Entry on its way in.
type entry struct {
	seconds  int64
	nanos    int32
	line     string
	metadata []Label
}

// pushed is one stream of a request.
type pushed struct {
	labels  string
	entries []entry
}

// fields walks the fields of a message. A decoder for a field returns what it
// could not take; fields that have none are skipped.
func fields(b []byte, names map[protowire.Number]string, field func(num protowire.Number, v []byte, n uint64) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return wireError(n)
		}
		b = b[n:]
		name, known := names[num]
		want := protowire.BytesType
		if name == "Seconds" || name == "Nanos" {
			want = protowire.VarintType
		}
		if known && typ != want {
			return fmt.Errorf("proto: wrong wireType = %d for field %s", typ, name)
		}
		if !known {
			if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
				return wireError(n)
			}
			b = b[n:]
			continue
		}
		var v []byte
		var x uint64
		if typ == protowire.BytesType {
			v, n = protowire.ConsumeBytes(b)
		} else {
			x, n = protowire.ConsumeVarint(b)
		}
		if n < 0 {
			return wireError(n)
		}
		b = b[n:]
		if err := field(num, v, x); err != nil {
			return err
		}
	}
	return nil
}

func wireError(n int) error {
	if err := protowire.ParseError(n); !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return io.ErrUnexpectedEOF
}

var (
	pushNames   = map[protowire.Number]string{1: "Streams"}
	streamNames = map[protowire.Number]string{1: "Labels", 2: "Entries"}
	entryNames  = map[protowire.Number]string{1: "Timestamp", 2: "Line", 3: "StructuredMetadata"}
	timeNames   = map[protowire.Number]string{1: "Seconds", 2: "Nanos"}
	pairNames   = map[protowire.Number]string{1: "Name", 2: "Value"}
)

func decodeProtobuf(b []byte) ([]pushed, error) {
	var streams []pushed
	err := fields(b, pushNames, func(_ protowire.Number, v []byte, _ uint64) error {
		s, err := decodeStream(v)
		streams = append(streams, s)
		return err
	})
	return streams, err
}

func decodeStream(b []byte) (s pushed, err error) {
	err = fields(b, streamNames, func(num protowire.Number, v []byte, _ uint64) error {
		if num == 1 {
			s.labels = string(v)
			return nil
		}
		e, err := decodeEntry(v)
		s.entries = append(s.entries, e)
		return err
	})
	return s, err
}

func decodeEntry(b []byte) (e entry, err error) {
	err = fields(b, entryNames, func(num protowire.Number, v []byte, _ uint64) error {
		switch num {
		case 1:
			return decodeTime(v, &e)
		case 2:
			e.line = string(v)
		case 3:
			var l Label
			err := fields(v, pairNames, func(num protowire.Number, v []byte, _ uint64) error {
				if num == 1 {
					l.Name = string(v)
				} else {
					l.Value = string(v)
				}
				return nil
			})
			e.metadata = append(e.metadata, l)
			return err
		}
		return nil
	})
	return e, err
}

// The seconds of the years 1 and 10000, between which a Timestamp must lie.
const (
	minSeconds = -62135596800
	maxSeconds = 253402300800
)

func decodeTime(b []byte, e *entry) error {
	err := fields(b, timeNames, func(num protowire.Number, _ []byte, x uint64) error {
		if num == 1 {
			e.seconds = int64(x)
		} else {
			e.nanos = int32(x)
		}
		return nil
	})
	if err != nil {
		return err
	}
	what := fmt.Sprintf("timestamp: &types.Timestamp{Seconds: %d,\nNanos: %d,\n}", e.seconds, e.nanos)
	switch {
	case e.seconds < minSeconds:
		return errors.New(what + " before 0001-01-01")
	case e.seconds >= maxSeconds:
		return errors.New(what + " after 10000-01-01")
	case e.nanos < 0 || e.nanos >= 1e9:
		return errors.New(what + ": nanos not in range [0, 1e9)")
	}
	return nil
}

// grpcSize is the size of the request that a distributor makes of streams for
// its ingester: each stream also carries a hash of about nine bytes.
func grpcSize(streams []accepted) int {
	size := 0
	for _, s := range streams {
		n := bytesSize(len(s.labels)) + 10
		for i := range s.entries {
			n += bytesSize(entrySize(&s.entries[i]))
		}
		size += bytesSize(n)
	}
	return size
}

func entrySize(e *Entry) int {
	seconds, nanos := e.Nanos/1e9, e.Nanos%1e9
	stamp := 0
	if seconds != 0 {
		stamp += 1 + protowire.SizeVarint(uint64(seconds))
	}
	if nanos != 0 {
		stamp += 1 + protowire.SizeVarint(uint64(nanos))
	}
	n := bytesSize(stamp) + bytesSize(len(e.Line))
	for _, l := range e.Metadata {
		n += bytesSize(bytesSize(len(l.Name)) + bytesSize(len(l.Value)))
	}
	return n
}

// bytesSize is the size of a field with a tag of one byte.
func bytesSize(n int) int { return 1 + protowire.SizeBytes(n) }
