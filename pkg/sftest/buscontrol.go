package sftest

import (
	"fmt"
	"strings"
	"time"
)

// BusControl is what a control request says to the event bus.
type BusControl struct {
	BusFault
	LatencyMS int    `json:"latency_ms"`
	Topic     string `json:"topic"` // of publish: a sample topic
	Count     int    `json:"count"` // of publish
	First     int    `json:"first"` // of publish: number of the first event
	Schema    string `json:"schema"`
	Payload   []byte `json:"payload"` // of publish: instead of a sample
}

// control answers bus-fault, bus-clear, bus-publish, bus-hide-schema,
// bus-cut, bus-goaway, bus-reset, bus-tick and bus-calls.
func (b *Bus) control(verb, match string, c BusControl, answer map[string]any) error {
	switch strings.TrimPrefix(verb, "bus-") {
	case "fault":
		c.Latency = time.Duration(c.LatencyMS) * time.Millisecond
		b.Fault(match, c.BusFault)
	case "clear":
		b.ClearFaults()
	case "publish":
		return b.controlPublish(c)
	case "hide-schema":
		b.HideSchema(c.Schema, true)
	case "cut":
		b.Cut()
	case "goaway":
		b.GoAway()
	case "reset":
		b.Reset()
	case "tick":
		b.Tick()
	case "calls":
		answer["calls"] = b.Calls(match)
	default:
		return fmt.Errorf("no such verb: %s", verb)
	}
	return nil
}

func (b *Bus) controlPublish(c BusControl) error {
	b.mu.Lock()
	known := b.topics[c.Topic] != nil
	b.mu.Unlock()
	if !known {
		return fmt.Errorf("no topic %q", c.Topic)
	}
	if c.Payload != nil {
		b.Publish(c.Topic, Event{Payload: c.Payload, SchemaID: c.Schema})
		return nil
	}
	if sampleTopics[c.Topic] == "" {
		return fmt.Errorf("topic %q has no samples", c.Topic)
	}
	for i := range max(c.Count, 1) {
		b.Publish(c.Topic, Sample(c.Topic, c.First+i, b.org.Now()))
	}
	return nil
}
