package pubsub

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	message "google.golang.org/protobuf/proto"

	"sf2loki/pkg/pubsub/avrojson"
	"sf2loki/pkg/pubsub/eventbus"
)

func TestCodec(t *testing.T) {
	header := &eventbus.EventHeader{Key: "k"}
	event := &eventbus.ConsumerEvent{Event: &eventbus.ProducerEvent{Id: "1", Payload: []byte("x"), Headers: []*eventbus.EventHeader{header, header}}, ReplayId: []byte{1}}
	wire := func(m message.Message) []byte {
		text, err := message.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	good := wire(&eventbus.FetchResponse{Events: []*eventbus.ConsumerEvent{event, event}, PendingNumRequested: 5})
	empty, headers := []byte{0x0a, 0}, []byte{0x22, 0}
	inEvent := append([]byte{0x0a, 0xc4, 0xb8, 0x02, 0x0a, 0xc0, 0xb8, 0x02}, bytes.Repeat(headers, 20_000)...) // 40000 bytes of headers
	for _, c := range []struct {
		name  string
		text  []byte
		parts int
		err   string
	}{
		{"ordinary", good, 6, ""},
		{"as many as may be", bytes.Repeat(empty, maxParts), maxParts, ""},
		{"one more", bytes.Repeat(empty, maxParts+1), maxParts + 1, "a response of 20001 events and headers"},
		{"headers", inEvent, maxParts + 1, "a response of 20001"},
		{"unknown field", append([]byte{0xfa, 0x01, 3, 1, 2, 3}, good...), 6, ""},
		{"cut off", good[:len(good)-3], 6, "cannot parse"},
		{"nothing", nil, 0, ""},
	} {
		if n := parts(c.text); n != c.parts && c.name != "cut off" {
			t.Errorf("%s: %d parts, want %d", c.name, n, c.parts)
		}
		var r eventbus.FetchResponse
		err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(c.text)}, &r)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
		if len(r.ProtoReflect().GetUnknown()) > 0 {
			t.Errorf("%s: what is not known is kept", c.name)
		}
	}
	if err := newCodec().Unmarshal(nil, "text"); err == nil {
		t.Error("a text is decoded")
	}
	if n := weight(event); n < 3*partSize {
		t.Errorf("an event of two headers weighs %d", n)
	}
}

// Schemas that nobody needs any more do not fill the memory, and neither do
// those that are refused.
func TestSchemasAreBounded(t *testing.T) {
	wide := `{"type":"record","name":"A","fields":[` + strings.Repeat(`{"name":"x","type":"int"},`, 15_000) + `{"name":"y","type":"int"}]}`
	schema, err := avrojson.Parse([]byte(wide))
	if err != nil {
		t.Fatal(err)
	}
	c := newSchemas(nil)
	pending := &schemaEntry{ready: make(chan struct{})}
	c.byID["pending"] = pending
	most := 0
	for i := range 100 {
		id := strconv.Itoa(i)
		e := &schemaEntry{ready: make(chan struct{}), schema: schema}
		c.byID[id] = e
		c.keep(id, e)
		close(e.ready)
		most = max(most, len(c.byID)-1)
	}
	if want := maxSchemas / schema.Size(); most > want+1 || most < want {
		t.Errorf("%d schemas of %d bytes were kept, want %d", most, schema.Size(), want)
	}
	if c.byID["pending"] != pending {
		t.Error("one that was being fetched was forgotten")
	}
	for i := range 100_000 {
		id := "refused" + strconv.Itoa(i)
		e := &schemaEntry{ready: make(chan struct{}), err: errGone}
		c.byID[id] = e
		c.keep(id, e)
		close(e.ready)
	}
	if n := len(c.byID); n > maxSchemas>>10 {
		t.Errorf("%d refusals are kept", n)
	}
}

// An id that is as long as a response is not remembered.
func TestLongIDs(t *testing.T) {
	r := newRing(4)
	for range 2 {
		if !r.add(strings.Repeat("x", longestID+1)) {
			t.Error("it was remembered")
		}
	}
	if r.add("a"); r.add("a") {
		t.Error("an ordinary one was not")
	}
}
