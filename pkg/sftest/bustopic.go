package sftest

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/twmb/avro"

	"sf2loki/pkg/pubsub/eventbus"
)

// Topic is a topic or a channel of the bus.
type Topic struct {
	Name            string   // "/event/Order_Shipped__e"
	Schema          string   // Avro; empty: a channel, whose events have schemas of their own
	Members         []string // of a channel: topics whose events come on it too
	CannotSubscribe bool
	CannotPublish   bool
}

type busTopic struct {
	Topic
	name     string
	schemaID string
	events   []*busEvent // in the order of their numbers
	purged   uint64      // number of the last event that is no longer kept
}

type busEvent struct {
	event *eventbus.ProducerEvent
	n     uint64 // its replay id, as a number
	at    time.Time
}

func (e *busEvent) consumer() *eventbus.ConsumerEvent {
	return &eventbus.ConsumerEvent{Event: e.event, ReplayId: replayID(e.n)}
}

type busSchema struct {
	text   string
	hidden bool
	codec  *avro.Schema // nil: not even Avro
}

// DefineTopic adds a topic, or changes what it is and keeps its events.
func (b *Bus) DefineTopic(t Topic) {
	b.mu.Lock()
	defer b.mu.Unlock()
	topic := b.topics[t.Name]
	if topic == nil {
		topic = &busTopic{name: t.Name}
		b.topics[t.Name] = topic
	}
	topic.Topic = t
	if t.Schema != "" {
		topic.schemaID = b.addSchema(t.Schema)
	}
	kind, name, _ := strings.Cut(strings.TrimPrefix(t.Name, "/"), "/")
	switch channel, custom := strings.CutSuffix(name, "__chn"); {
	case custom:
		b.org.Insert("PlatformEventChannel", Row{"Id": ID18(fmt.Sprintf("0YLxx%010d", len(b.topics))), "DeveloperName": channel, "MasterLabel": channel, "ChannelType": kind})
	case name != "ChangeEvents":
		b.org.announce(name)
	}
}

// announce has an object in the describe of the org that cannot be queried.
func (o *Org) announce(name string) {
	o.locked(func() {
		if !slices.Contains(o.announced, name) {
			o.announced = append(o.announced, name)
		}
	})
}

// RemoveTopic makes a topic unknown.
func (b *Bus) RemoveTopic(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.topics, name)
}

// AddSchema makes a schema known and returns its id: the MD5 of its canonical
// form, or of its text when it is not even Avro.
func (b *Bus) AddSchema(text string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.addSchema(text)
}

func (b *Bus) addSchema(text string) string {
	var sum []byte
	codec, err := avro.Parse(text, avro.WithLaxNames(func(string) error { return nil }))
	if err == nil {
		sum = codec.Fingerprint(md5.New())
	} else {
		codec = nil
		h := md5.Sum([]byte(text))
		sum = h[:]
	}
	id := base64.RawURLEncoding.EncodeToString(sum)
	if b.schemas[id] == nil {
		b.schemas[id] = &busSchema{text: text, codec: codec}
	}
	return id
}

// AddSchemaAs makes a schema known by an id that is not its own.
func (b *Bus) AddSchemaAs(id, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.schemas[id] = b.schemas[b.addSchema(text)]
}

// HideSchema makes a schema impossible to fetch, or possible again.
func (b *Bus) HideSchema(id string, hidden bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.schemas[id]; s != nil {
		s.hidden = hidden
	}
}

// Event is an event to publish.
type Event struct {
	ID       string         // empty: a new one
	Schema   string         // Avro; empty: that of SchemaID, or the topic's
	SchemaID string         // need not be known
	Value    map[string]any // as encoding/json gives it; encoded by the schema
	Payload  []byte         // instead of Value
	At       time.Time      // when it was published; zero: now
}

// Publish adds events to a topic and returns their replay ids. It panics on an
// unknown topic, and on a value that its schema has no place for.
func (b *Bus) Publish(topic string, events ...Event) [][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids [][]byte
	for _, e := range events {
		id, err := b.publish(topic, e)
		if err != nil {
			panic(fmt.Sprintf("sftest: publish to %s: %v", topic, err))
		}
		ids = append(ids, id)
	}
	return ids
}

func (b *Bus) publish(name string, e Event) ([]byte, error) {
	t := b.topics[name]
	if t == nil {
		return nil, fmt.Errorf("no such topic")
	}
	if e.Schema != "" {
		e.SchemaID = b.addSchema(e.Schema)
	}
	e.SchemaID = or(e.SchemaID, t.schemaID)
	if e.Payload == nil {
		s := b.schemas[e.SchemaID]
		if s == nil || s.codec == nil {
			return nil, fmt.Errorf("no schema %q to encode with", e.SchemaID)
		}
		var err error
		if e.Payload, err = s.codec.Encode(e.Value); err != nil {
			return nil, err
		}
	}
	if len(e.Payload) > maxEvent {
		return nil, fmt.Errorf("an event of %d bytes", len(e.Payload))
	}
	if e.At.IsZero() {
		e.At = b.org.Now()
	}
	event := &eventbus.ProducerEvent{Id: or(e.ID, newUUID()), SchemaId: e.SchemaID, Payload: e.Payload}
	id := b.store(t, event, e.At)
	for _, channel := range b.topics {
		if slices.Contains(channel.Members, name) {
			b.store(channel, event, e.At)
		}
	}
	return id, nil
}

func (b *Bus) store(t *busTopic, event *eventbus.ProducerEvent, at time.Time) []byte {
	stored := &busEvent{event: event, n: b.nextNumber(), at: at}
	t.events = append(t.events, stored)
	b.wake(t)
	return replayID(stored.n)
}

// nextNumber leaves gaps, as ids are those of the whole org. The caller holds mu.
func (b *Bus) nextNumber() uint64 {
	b.gaps = b.gaps*6364136223846793005 + 1442695040888963407
	b.counter += 1 + b.gaps>>60
	return b.counter
}

// Tick moves the ids of the org on without an event, as other topics do.
func (b *Bus) Tick() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return replayID(b.nextNumber())
}

// replayID has ten bytes, eight of which count.
func replayID(n uint64) []byte {
	return append(binary.BigEndian.AppendUint64(nil, n), 0, 0)
}

func replayNumber(id []byte) (uint64, bool) {
	if len(id) != 8 && (len(id) != 10 || !bytes.Equal(id[8:], []byte{0, 0})) {
		return 0, false
	}
	return binary.BigEndian.Uint64(id), true
}

// knows tells whether a stream of the topic may begin behind an id. The caller
// holds mu.
func (b *Bus) knows(t *busTopic, id []byte) (uint64, bool) {
	n, ok := replayNumber(id)
	return n, ok && n > b.floor && n > t.purged && n <= b.counter
}

// purge drops what is older than the retention. The caller holds mu.
func (b *Bus) purge(t *busTopic, now time.Time) {
	keep := sort.Search(len(t.events), func(i int) bool { return now.Sub(t.events[i].at) <= b.cfg.Retention })
	if keep > 0 {
		t.purged = t.events[keep-1].n
		t.events = t.events[keep:]
	}
}

// after gives the events behind number n. The caller holds mu.
func (t *busTopic) after(n uint64) []*busEvent {
	return t.events[sort.Search(len(t.events), func(i int) bool { return t.events[i].n > n }):]
}

// Reset makes all replay ids so far invalid, as a migration of the org does.
// The events are still there, under new ones.
func (b *Bus) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.floor = b.counter
	for _, t := range b.topics {
		for i, e := range t.events {
			t.events[i] = &busEvent{event: e.event, n: b.nextNumber(), at: e.at}
		}
	}
	b.endStreams(nil)
}

// Events is how many events a topic holds.
func (b *Bus) Events(topic string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.topics[topic]; t != nil {
		return len(t.events)
	}
	return 0
}

// GetTopic tells what a topic is.
func (b *Bus) GetTopic(ctx context.Context, req *eventbus.TopicRequest) (*eventbus.TopicInfo, error) {
	const method = "GetTopic"
	if _, err := b.call(ctx, method, "GetTopic "+req.TopicName); err != nil {
		return nil, err
	}
	if err := b.authenticate(ctx, method); err != nil {
		return nil, err
	}
	if req.TopicName == "" {
		return nil, busError(ctx, method, "topic.validation.empty", "", "")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topics[req.TopicName]
	if t == nil {
		return nil, busError(ctx, method, "topic.not.found", "", "")
	}
	return &eventbus.TopicInfo{TopicName: t.name, TenantGuid: "core/prod/" + b.org.ID, CanPublish: !t.CannotPublish,
		CanSubscribe: !t.CannotSubscribe, SchemaId: t.schemaID, RpcId: newUUID()}, nil
}

// GetSchema gives a schema, also one that no topic uses any more.
func (b *Bus) GetSchema(ctx context.Context, req *eventbus.SchemaRequest) (*eventbus.SchemaInfo, error) {
	const method = "GetSchema"
	if _, err := b.call(ctx, method, "GetSchema "+req.SchemaId); err != nil {
		return nil, err
	}
	if err := b.authenticate(ctx, method); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.schemas[req.SchemaId]
	if s == nil || s.hidden {
		text := ""
		if req.SchemaId != "" {
			text = "Schema validation failed. No schema has this ID."
		}
		return nil, busError(ctx, method, "schema.validation.failed", "", text)
	}
	return &eventbus.SchemaInfo{SchemaJson: s.text, SchemaId: req.SchemaId, RpcId: newUUID()}, nil
}
