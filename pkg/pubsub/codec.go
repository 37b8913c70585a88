package pubsub

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	message "google.golang.org/protobuf/proto"

	"sf2loki/pkg/pubsub/eventbus"
)

// maxParts is how many events and headers of events a response may have.
// Salesforce's have as many events as were asked for, 100 at most.
const maxParts = 20_000

// codec decodes what the bus sends. An empty event is two bytes on the wire and
// a hundred in memory, so events are counted before they are decoded; and what
// is not known is not kept.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Name is empty, so that calls have the content type that they have by default.
func (codec) Name() string { return "" }

// Unmarshal decodes a message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(message.Message)
	if !ok {
		return fmt.Errorf("%T is no message", v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	switch m.(type) {
	case *eventbus.FetchResponse, *eventbus.ManagedFetchResponse:
		if n := parts(buf.ReadOnlyData()); n > maxParts {
			return fmt.Errorf("a response of %d events and headers", n)
		}
	}
	return message.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(buf.ReadOnlyData(), m)
}

// parts counts the events of a response, and their headers.
func parts(response []byte) (n int) {
	eachPart(response, 1, func(event []byte) {
		n++
		eachPart(event, 1, func(producer []byte) {
			eachPart(producer, 4, func([]byte) { n++ })
		})
	})
	return n
}

// eachPart calls fn with each value of a field that is a message. What cannot
// be read is left to who decodes it.
func eachPart(b []byte, field protowire.Number, fn func(value []byte)) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return
		}
		if num == field && typ == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(b)
			fn(value)
		}
		b = b[n:]
	}
}

// partSize is about what an event takes in memory beside its bytes.
const partSize = 300

// weight is about what an event takes in memory.
func weight(e *eventbus.ConsumerEvent) int {
	event := e.GetEvent()
	n := partSize + len(e.GetReplayId()) + len(event.GetPayload()) + len(event.GetId()) + len(event.GetSchemaId())
	for _, h := range event.GetHeaders() {
		n += partSize + len(h.GetKey()) + len(h.GetValue())
	}
	return n
}
