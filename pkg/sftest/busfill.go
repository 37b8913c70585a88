package sftest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// sampleTopics are the topics that Fill knows, with the fixture that each is
// made of.
var sampleTopics = map[string]string{
	"/event/LoginEventStream":  "LoginEventStream",
	"/event/LogoutEventStream": "LogoutEventStream",
	"/event/ApiEventStream":    "ApiEventStream",
	"/event/ReportEventStream": "ReportEventStream",
	"/event/Order_Shipped__e":  "Order_Shipped__e",
	"/data/AccountChangeEvent": "AccountChangeEvent",
}

// SampleTopics gives the names of the topics that DefineSamples defines.
func SampleTopics() []string { return slices.Sorted(maps.Keys(sampleTopics)) }

// DefineSamples adds the topics of a usual org, with /data/ChangeEvents.
func (b *Bus) DefineSamples() {
	for _, name := range SampleTopics() {
		b.DefineTopic(Topic{Name: name, Schema: string(avroFixture(sampleTopics[name] + ".avsc"))})
	}
	b.DefineTopic(Topic{Name: "/data/ChangeEvents", Members: []string{"/data/AccountChangeEvent"}})
}

func avroFixture(name string) []byte {
	data, err := fixtureFiles.ReadFile("fixtures/avro/" + name)
	if err != nil {
		panic(fmt.Sprintf("sftest: no fixture %q", name))
	}
	return data
}

// Sample gives the nth event of a sample topic, as of that time. The same
// arguments always give the same event.
func Sample(topic string, n int, at time.Time) Event {
	name := sampleTopics[topic]
	var list []struct{ Decoded map[string]any }
	dec := json.NewDecoder(bytes.NewReader(avroFixture(name + ".events.json")))
	dec.UseNumber()
	if err := dec.Decode(&list); err != nil {
		panic(fmt.Sprintf("sftest: fixtures/avro/%s: %v", name, err))
	}
	value := list[n%len(list)].Decoded
	ms := json.Number(fmt.Sprint(at.UnixMilli()))
	for _, field := range []string{"EventDate", "CreatedDate"} {
		if value[field] != nil {
			value[field] = ms
		}
	}
	rng := rand.New(rand.NewPCG(uint64(n), uint64(len(topic))))
	if _, ok := value["EventIdentifier"]; ok {
		value["EventIdentifier"] = fmt.Sprintf("%08x-0000-4000-8000-%012x", rng.Uint32(), n)
	}
	if header, ok := value["ChangeEventHeader"].(map[string]any); ok {
		header["commitTimestamp"], header["commitNumber"] = ms, json.Number(fmt.Sprint(10_566_000_000_000+n))
	}
	return Event{Value: value, At: at, ID: fmt.Sprintf("%08x-%04x-4000-9000-%012x", rng.Uint32(), len(topic), n)}
}

// Fill publishes n events on each sample topic, spread over the time before
// now, and tells how many each topic then has.
func (b *Bus) Fill(n int, span time.Duration) map[string]int {
	begin := b.org.Now().Add(-span)
	for i := range n {
		for _, topic := range SampleTopics() {
			b.Publish(topic, Sample(topic, i, begin.Add(span*time.Duration(i)/time.Duration(n))))
		}
	}
	have := map[string]int{}
	for _, topic := range append(SampleTopics(), "/data/ChangeEvents") {
		have[topic] = b.Events(topic)
	}
	return have
}

// Live publishes so many events a second on the sample topics, in turn, until
// ctx is done. first is the number of the first event of each topic.
func (b *Bus) Live(ctx context.Context, first int, perSecond float64) {
	if perSecond <= 0 {
		return
	}
	tick := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
	defer tick.Stop()
	topics := SampleTopics()
	for i := 0; ; i++ {
		select {
		case <-tick.C:
			topic := topics[i%len(topics)]
			b.Publish(topic, Sample(topic, first+i/len(topics), b.org.Now()))
		case <-ctx.Done():
			return
		}
	}
}
