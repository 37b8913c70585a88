package pubsub

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"testing"

	"github.com/twmb/avro"

	"sf2loki/pkg/pubsub/avrojson"
	"sf2loki/pkg/pubsub/eventbus"
	"sf2loki/pkg/shape"
)

// BenchmarkEventToRecord measures the way from an event of 40 fields, as gRPC
// delivers it, to its record in the output.
func BenchmarkEventToRecord(b *testing.B) {
	e, events := benchEmitter(b)
	b.ReportAllocs()
	ctx := context.Background()
	for n := 0; b.Loop(); n++ {
		ev := events[n%len(events)]
		if ok, err := e.event(ctx, ev); !ok || err != nil {
			b.Fatal(ok, err)
		}
		e.taken++
		if len(e.block) >= blockSize {
			if err := e.flush(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func TestEventAllocatesNothing(t *testing.T) {
	e, events := benchEmitter(t)
	n := 0
	allocs := testing.AllocsPerRun(500, func() {
		if ok, err := e.event(context.Background(), events[n%len(events)]); !ok || err != nil {
			t.Fatal(ok, err)
		}
		n++
		if err := e.flush(); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations per event", allocs)
	}
}

// benchEmitter is an emitter with more events than its memory of ids holds.
func benchEmitter(t testing.TB) (*emitter, []*eventbus.ConsumerEvent) {
	fields := []map[string]any{{"name": "CreatedDate", "type": "long"}, {"name": "CreatedById", "type": "string"}}
	value := map[string]any{"CreatedDate": int64(1782900000523), "CreatedById": "005xx000001Sv6AAAS"}
	for i := range 38 {
		name, typ := fmt.Sprintf("Field_%d__c", i), "string"
		var v any = fmt.Sprintf("value %d of it", i)
		switch i % 8 {
		case 1:
			typ, v = "long", int64(1782900000000+i)
		case 3:
			typ, v = "double", 3.25
		case 5:
			typ, v = "boolean", true
		case 6:
			v = nil
		}
		fields = append(fields, map[string]any{"name": name, "type": []string{"null", typ}})
		value[name] = v
	}
	text, err := json.Marshal(map[string]any{"type": "record", "name": "Wide__e", "fields": fields})
	if err != nil {
		t.Fatal(err)
	}
	payload, err := avro.MustParse(string(text)).Encode(value)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := avrojson.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	sh, err := shape.New(shape.Config{Identity: shape.Identity{Job: "sf2loki", ServiceName: "sf2loki", OrgID: orgID}})
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{OrgID: orgID, Topics: TopicList{Names: []string{"/event/Wide__e"}}, Shape: sh, Log: slog.New(slog.DiscardHandler),
		Output: Output{Records: func(lines []byte) error { _, err := io.Discard.Write(lines); return err }}})
	s.schemas = newSchemas(s)
	entry := &schemaEntry{ready: make(chan struct{}), schema: schema}
	close(entry.ready)
	s.schemas.byID["id"] = entry
	var events []*eventbus.ConsumerEvent
	for n := range 4 * recentEvents {
		events = append(events, &eventbus.ConsumerEvent{ReplayId: []byte{0, 0, 0, 0, 0, 0, byte(n >> 8), byte(n), 0, 0},
			Event: &eventbus.ProducerEvent{Id: fmt.Sprintf("1e398f10-12bd-4ace-baec-%012x", n), SchemaId: "id", Payload: payload}})
	}
	return s.newFollower("/event/Wide__e").emitter, events
}
