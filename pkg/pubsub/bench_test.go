package pubsub

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/avro"

	"sf2loki/pkg/outlet"
	"sf2loki/pkg/pubsub/avrojson"
	"sf2loki/pkg/pubsub/eventbus"
	"sf2loki/pkg/shape"
)

// BenchmarkEventToRecord measures the way from an event of 40 fields, as gRPC
// delivers it, to its record in the output: here, and as one would with a
// library for Avro and encoding/json.
func BenchmarkEventToRecord(b *testing.B) {
	e, events := benchEmitter(b)
	b.Run("here", func(b *testing.B) {
		ctx := context.Background()
		perCPU(b, func(n int) error {
			if ok, err := e.event(ctx, events[n%len(events)]); !ok || err != nil {
				return fmt.Errorf("%v %w", ok, err)
			}
			e.taken++
			if len(e.block) >= outlet.BlockSize {
				return e.flush()
			}
			return nil
		})
	})
	b.Run("standard", func(b *testing.B) {
		text, _ := wide(b)
		schema := avro.MustParse(text)
		enc := json.NewEncoder(io.Discard)
		perCPU(b, func(n int) error { return standardRecord(enc, schema, events[n%len(events)]) })
	})
}

// perCPU runs fn b.N times and reports how often it ran in a second of
// processor time.
func perCPU(b *testing.B, fn func(n int) error) {
	b.Helper()
	b.ReportAllocs()
	begin := cpu(b)
	for n := 0; b.Loop(); n++ {
		if err := fn(n); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/(cpu(b)-begin).Seconds(), "events/cpu-s")
}

// cpu is the processor time of the whole process, the collector's included.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// standardRecord makes the same record with an Avro library and encoding/json.
func standardRecord(enc *json.Encoder, schema *avro.Schema, ev *eventbus.ConsumerEvent) error {
	var value map[string]any
	if _, err := schema.Decode(ev.GetEvent().GetPayload(), &value); err != nil {
		return err
	}
	line, err := json.Marshal(value)
	if err != nil {
		return err
	}
	t := time.UnixMilli(value["CreatedDate"].(int64)).UTC()
	return enc.Encode(map[string]any{
		"ts": t.Format(time.RFC3339Nano), "ts_unix_nano": t.UnixNano(),
		"labels":              map[string]string{"source": SourceLabel, "event_type": "Wide__e", "job": "sf2loki"},
		"structured_metadata": map[string]string{"level": "info"},
		"line":                string(line), "checkpoint_key": "pubsub:/event/Wide__e",
		"checkpoint_value": base64.StdEncoding.EncodeToString(ev.ReplayId),
	})
}

func TestEventAllocatesNothing(t *testing.T) {
	e, events := benchEmitter(t)
	n := 0
	one := func() {
		if ok, err := e.event(context.Background(), events[n%len(events)]); !ok || err != nil {
			t.Fatal(ok, err)
		}
		n++
		if err := e.flush(); err != nil {
			t.Fatal(err)
		}
	}
	const many = 500
	allocs := testing.AllocsPerRun(1, func() { // all of them, as what is below one for each is rounded down
		for range many {
			one()
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations of %d events", allocs, many)
	}
}

// benchEmitter is an emitter with more events than its memory of ids holds.
func benchEmitter(t testing.TB) (*emitter, []*eventbus.ConsumerEvent) {
	text, value := wide(t)
	payload, err := avro.MustParse(text).Encode(value)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := avrojson.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	sh, err := shape.New(shape.Config{Identity: shape.Identity{Job: "sf2loki", ServiceName: "sf2loki", OrgID: orgID}})
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{OrgID: orgID, Topics: TopicList{Names: []string{"/event/Wide__e"}}, Shape: sh, Log: slog.New(slog.DiscardHandler),
		Output: outlet.Output{Records: func(lines []byte) error { _, err := io.Discard.Write(lines); return err }}})
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

// wide is the schema of an event of 40 fields, and one such event.
func wide(t testing.TB) (schema string, value map[string]any) {
	t.Helper()
	fields := []map[string]any{{"name": "CreatedDate", "type": "long"}, {"name": "CreatedById", "type": "string"}}
	value = map[string]any{"CreatedDate": int64(1782900000523), "CreatedById": "005xx000001Sv6AAAS"}
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
	return string(text), value
}
