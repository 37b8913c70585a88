package prooftest

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"sf2loki/pkg/pubsub/eventbus"
	"sf2loki/pkg/sftest"
	"sf2loki/scripts/testbed"
)

// busPeer is an event bus that means no good. What it does not say is answered
// as by a good one: a topic, a schema, three events.
type busPeer struct {
	name     string
	times    int64 // sf-pull is asked to stop when so many bad answers were not enough; 0: when it has waited
	more     int   // topics beside the one
	letter   bool  // the next event becomes a dead letter
	says     string
	unread   bool
	encoding string
	raw      func(c net.Conn, offered int64) // on the connection itself
	topic    busAnswer
	schema   busAnswer
	stream   busAnswer // after three events, or in their place where it says so
}

// busAnswer answers a call with what it writes, n-th of its kind.
type busAnswer func(b *badBus, w http.ResponseWriter, r *http.Request, n int64)

const (
	busCeiling      = 200 // MiB, of sf-pull pubsub, by its manual page
	busTopicCeiling = 64  // more for each topic beside the first
	busTopic        = "/event/Order_Shipped__e"
	busSchema       = `{"type":"record","name":"Order_Shipped__e","fields":[{"name":"CreatedDate","type":"long"},{"name":"Text","type":"string"}]}`
	busEvents       = 3 // that a good answer has
)

// frame is a message as it stands in the body of an answer.
func frame(m []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))), m...)
}

func frameOf(m proto.Message) []byte {
	text, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return frame(text)
}

func replayID(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// busEvent is event n, with a schema that may be had.
func busEvent(n int, schema string) *eventbus.ConsumerEvent {
	payload := binary.AppendVarint(nil, time.Now().UnixMilli())
	payload = append(binary.AppendVarint(payload, 4), "text"...)
	return &eventbus.ConsumerEvent{ReplayId: replayID(n), Event: &eventbus.ProducerEvent{Id: fmt.Sprintf("id-%d", n), SchemaId: schema, Payload: payload}}
}

// badBus serves HTTP/2 without TLS, so that answers are written as bytes.
type badBus struct {
	*busPeer
	offered int64
	calls   [3]atomic.Int64
	bad     atomic.Int64
	tired   func()
	events  atomic.Int64 // that it has, numbered from 1
}

func (b *badBus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/grpc")
	if b.encoding != "" {
		w.Header().Set("Grpc-Encoding", b.encoding)
	}
	kind, answer := 0, b.topic
	switch {
	case strings.HasSuffix(r.URL.Path, "GetSchema"):
		kind, answer = 1, b.schema
	case strings.HasSuffix(r.URL.Path, "Subscribe"):
		kind, answer = 2, b.stream
		first := b.begin(w, r)
		if first >= busEvents && answer == nil {
			<-r.Context().Done()
			return
		}
	}
	if answer == nil {
		b.good(w, kind)
		return
	}
	if b.bad.Add(1) == b.times+1 && b.times > 0 {
		b.tired() // it has come again, so it has seen enough
	}
	answer(b, w, r, b.calls[kind].Add(1))
	if status := http.TrailerPrefix + "Grpc-Status"; w.Header().Get(status) == "" {
		w.Header().Set(status, "14")
	}
}

// begin reads the first request of a stream, and sends what comes first of the
// events after its position, which it returns.
func (b *badBus) begin(w http.ResponseWriter, r *http.Request) (after int) {
	var head [5]byte
	_, _ = io.ReadFull(r.Body, head[:])
	text := make([]byte, binary.BigEndian.Uint32(head[1:]))
	_, _ = io.ReadFull(r.Body, text)
	var req eventbus.FetchRequest
	_ = proto.Unmarshal(text, &req)
	if len(req.ReplayId) == 8 {
		after = int(binary.BigEndian.Uint64(req.ReplayId))
	}
	go func() { _, _ = io.Copy(io.Discard, r.Body) }()
	if after < busEvents {
		answer := &eventbus.FetchResponse{PendingNumRequested: 90}
		for n := after + 1; n <= busEvents; n++ {
			answer.Events = append(answer.Events, busEvent(n, "good"))
		}
		b.write(w, frameOf(answer))
	}
	return after
}

func (b *badBus) write(w http.ResponseWriter, text []byte) bool {
	_, err := w.Write(text)
	_ = http.NewResponseController(w).Flush()
	return err == nil
}

func (b *badBus) good(w http.ResponseWriter, kind int) {
	switch kind {
	case 0:
		b.write(w, frameOf(&eventbus.TopicInfo{TopicName: busTopic, CanSubscribe: true, SchemaId: "good"}))
	case 1:
		b.write(w, frameOf(&eventbus.SchemaInfo{SchemaId: "good", SchemaJson: busSchema}))
	}
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
}

// waits answers nothing until the client leaves.
func waits(_ *badBus, _ http.ResponseWriter, r *http.Request, _ int64) { <-r.Context().Done() }

// next has an event come that names a schema of its own, whose answers are bad.
func next(schema func(n int64) string) busAnswer {
	return func(b *badBus, w http.ResponseWriter, r *http.Request, n int64) {
		b.events.Store(busEvents + 1)
		b.write(w, frameOf(&eventbus.FetchResponse{Events: []*eventbus.ConsumerEvent{busEvent(busEvents+1, schema(n))}}))
		<-r.Context().Done()
	}
}

// badSchema answers with a schema of such a text, other than for the first events.
func badSchema(text func(offered int64) string) busAnswer {
	return func(b *badBus, w http.ResponseWriter, r *http.Request, n int64) {
		if n == 1 {
			b.bad.Store(0)
			b.good(w, 1)
			return
		}
		b.write(w, frameOf(&eventbus.SchemaInfo{SchemaId: "bad", SchemaJson: text(b.offered)}))
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	}
}

func bad(int64) string { return "bad" }

func recordOf(fields string) string {
	return `{"type":"record","name":"Order_Shipped__e","fields":[{"name":"x","type":` + fields + `}]}`
}

// h2 are frames of HTTP/2 as they are on the wire.
func h2(kind, flags byte, stream uint32, body string) []byte {
	head := []byte{byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body)), kind, flags}
	return append(binary.BigEndian.AppendUint32(head, stream), body...)
}

const (
	h2Headers, h2Settings, h2Ping, h2Continuation = 1, 4, 6, 9
	endStream, endHeaders                         = 1, 4
)

// called reads until a call begins, and tells its stream.
func called(c net.Conn) (stream uint32, ok bool) {
	_, _ = io.ReadFull(c, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
	_, _ = c.Write(h2(h2Settings, 0, 0, ""))
	for {
		var head [9]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return 0, false
		}
		size := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if _, err := io.CopyN(io.Discard, c, size); err != nil {
			return 0, false
		}
		switch {
		case head[3] == h2Headers:
			go func() { _, _ = io.Copy(io.Discard, c) }()
			return binary.BigEndian.Uint32(head[5:]), true
		case head[3] == h2Settings && head[4]&1 == 0:
			_, _ = c.Write(h2(h2Settings, 1, 0, ""))
		}
	}
}

// lines of headers: ":status: 200", "content-type: application/grpc", and one
// that means nothing.
var (
	grpcHeader = "\x88\x0f\x10\x10application/grpc"
	idleHeader = strings.Repeat("\x00\x01a\x7e"+strings.Repeat("y", 126), 100)
)

func rawHeaders(trailers bool) func(net.Conn, int64) {
	return func(c net.Conn, offered int64) {
		stream, ok := called(c)
		if !ok {
			return
		}
		flags := byte(0)
		if trailers {
			_, _ = c.Write(h2(h2Headers, endHeaders, stream, grpcHeader))
			flags = endStream
			_, _ = c.Write(h2(h2Headers, flags, stream, idleHeader))
		} else {
			_, _ = c.Write(h2(h2Headers, flags, stream, grpcHeader))
		}
		flood(c, string(h2(h2Continuation, 0, stream, idleHeader)), offered)
	}
}

var busPeers = []busPeer{
	{name: "connects and hangs", raw: func(c net.Conn, _ int64) { _, _ = io.Copy(io.Discard, c) }},
	{name: "never answers", topic: waits},
	{name: "no answer on a stream", stream: waits},
	{name: "no schema", stream: next(bad), schema: func(b *badBus, w http.ResponseWriter, r *http.Request, n int64) {
		if n == 1 {
			b.good(w, 1)
			return
		}
		<-r.Context().Done()
	}},
	{name: "headers without end", raw: rawHeaders(false)},
	{name: "trailers without end", raw: rawHeaders(true)},
	{name: "pings without end", raw: func(c net.Conn, offered int64) {
		if _, ok := called(c); ok {
			flood(c, string(h2(h2Ping, 0, 0, "12345678")), offered)
		}
	}},
	{name: "settings without end", raw: func(c net.Conn, offered int64) {
		if _, ok := called(c); ok {
			flood(c, string(h2(h2Settings, 0, 0, "\x00\x03\x00\x00\x00\x64")), offered)
		}
	}},
	{name: "bytes that are no frames", raw: func(c net.Conn, offered int64) { flood(c, "\xff", offered) }},
	{name: "two gigabytes, by its length", times: 3, says: "received message larger than max", stream: func(b *badBus, w http.ResponseWriter, r *http.Request, _ int64) {
		b.write(w, []byte{0, 0x7f, 0xff, 0xff, 0xff})
		<-r.Context().Done()
	}},
	{name: "two gigabytes", times: 3, says: "received message larger than max", stream: func(b *badBus, w http.ResponseWriter, _ *http.Request, _ int64) {
		_, _ = w.Write([]byte{0, 0x7f, 0xff, 0xff, 0xff})
		flood(w, "\x0a\x00", min(b.offered, 2<<30))
	}},
	{name: "compressed", encoding: "gzip", says: "Decompressor is not installed", stream: func(b *badBus, w http.ResponseWriter, _ *http.Request, n int64) {
		var small bytes.Buffer
		z, _ := gzip.NewWriterLevel(&small, gzip.BestSpeed)
		flood(z, "\x00", min(b.offered, 1<<30))
		_ = z.Close()
		text := frame(small.Bytes())
		text[0] = 1
		b.write(w, text)
	}},
	{name: "a million events in one", times: 3, says: "a response of 1000000 events", stream: func(b *badBus, w http.ResponseWriter, _ *http.Request, _ int64) {
		b.write(w, frame(bytes.Repeat([]byte{0x0a, 0}, 1_000_000)))
	}},
	{name: "tiny events without end", stream: func(b *badBus, w http.ResponseWriter, _ *http.Request, _ int64) {
		flood(w, string(frame(bytes.Repeat([]byte{0x0a, 0}, 19_000))), b.offered/100)
		b.tired()
	}},
	{name: "tiny events, nobody reads", unread: true, stream: func(b *badBus, w http.ResponseWriter, _ *http.Request, _ int64) {
		flood(w, string(frame(bytes.Repeat([]byte{0x0a, 0}, 19_000))), b.offered)
	}},
	{name: "large events, nobody reads", unread: true, stream: largeEvents},
	{name: "large events of ten topics, nobody reads", unread: true, more: 9, stream: largeEvents},
	{name: "long ids", stream: func(b *badBus, w http.ResponseWriter, _ *http.Request, _ int64) {
		for n := range max(b.offered>>20, 4) {
			e := busEvent(9, "good")
			e.ReplayId = fmt.Appendf(nil, "%d%s", n, strings.Repeat("r", 1<<20))
			e.Event.Id = fmt.Sprintf("%d%s", n, strings.Repeat("i", 1<<20))
			if !b.write(w, frameOf(&eventbus.FetchResponse{Events: []*eventbus.ConsumerEvent{e}})) {
				return
			}
		}
		b.tired()
	}},
	{name: "fields that nobody knows", stream: func(b *badBus, w http.ResponseWriter, _ *http.Request, _ int64) {
		e := busEvent(9, "good")
		e.ProtoReflect().SetUnknown(append([]byte{0xfa, 0x01, 0x80, 0x80, 0xc0, 0x01}, make([]byte, 3<<20)...))
		flood(w, string(frameOf(&eventbus.FetchResponse{Events: []*eventbus.ConsumerEvent{e}})), b.offered)
		b.tired()
	}},
	{name: "signs of life only", stream: signsOfLife},
	{name: "signs of life, nobody reads", unread: true, stream: signsOfLife},
	{name: "schema of 100 MB", times: 3, says: "received message larger than max", stream: next(bad), schema: badSchema(func(int64) string {
		return recordOf(`"` + strings.Repeat("x", 100<<20) + `"`)
	})},
	{name: "schema of 7 MB", letter: true, stream: next(bad), schema: badSchema(func(int64) string {
		return recordOf(`"` + strings.Repeat("x", 7<<20) + `"`)
	})},
	{name: "nested schema", letter: true, stream: next(bad), schema: badSchema(func(int64) string {
		return recordOf(strings.Repeat(`{"type":"array","items":`, 80_000) + `"int"` + strings.Repeat("}", 80_000))
	})},
	{name: "long schema that is nested", letter: true, stream: next(bad), schema: badSchema(func(int64) string {
		return recordOf(strings.Repeat(`{"type":"array","items":`, 150) + `{"type":"enum","name":"E","symbols":["` + strings.Repeat(`a","`, 400_000) + `"]}` + strings.Repeat("}", 150))
	})},
	{name: "schema of brackets", letter: true, stream: next(bad), schema: badSchema(func(int64) string { return strings.Repeat("[", 1<<20) })},
	{name: "schema of a million fields", times: 3, says: "received message larger than max", stream: next(bad), schema: badSchema(fieldsOf(1_000_000, ""))},
	{name: "schema of many fields", letter: true, stream: next(bad), schema: badSchema(fieldsOf(19_000, ""))},
	{name: "schemas without end", stream: func(b *badBus, w http.ResponseWriter, r *http.Request, _ int64) {
		for n := range max(b.offered>>20, 4) {
			e := &eventbus.ConsumerEvent{ReplayId: replayID(int(100 + n)), Event: &eventbus.ProducerEvent{SchemaId: fmt.Sprint("bad", n)}}
			if !b.write(w, frameOf(&eventbus.FetchResponse{Events: []*eventbus.ConsumerEvent{e}})) {
				return
			}
		}
		<-r.Context().Done()
	}, schema: func(b *badBus, w http.ResponseWriter, r *http.Request, n int64) {
		badSchema(fieldsOf(19_000, fmt.Sprint(n)))(b, w, r, n)
		if n == max(b.offered>>20, 4) {
			b.tired()
		}
	}},
	{name: "an event that becomes much", letter: true, stream: next(bad), schema: badSchema(func(int64) string {
		return recordOf(`{"type":"array","items":"null"}`)
	})},
}

func largeEvents(b *badBus, w http.ResponseWriter, _ *http.Request, _ int64) {
	e := busEvent(9, "good")
	e.Event.Payload = bytes.Repeat([]byte("x"), 7<<20)
	flood(w, string(frameOf(&eventbus.FetchResponse{Events: []*eventbus.ConsumerEvent{e}})), b.offered)
}

func signsOfLife(b *badBus, w http.ResponseWriter, r *http.Request, _ int64) {
	for n := 1000; r.Context().Err() == nil; n++ {
		if !b.write(w, frameOf(&eventbus.FetchResponse{LatestReplayId: replayID(n), PendingNumRequested: 100})) {
			return
		}
	}
}

func fieldsOf(n int, suffix string) func(int64) string {
	return func(int64) string {
		var text strings.Builder
		fmt.Fprintf(&text, `{"type":"record","name":"A%s","fields":[`, suffix)
		for i := range n {
			fmt.Fprintf(&text, `{"name":"f%d","type":"int"},`, i)
		}
		return text.String() + `{"name":"z","type":"int"}]}`
	}
}

// Whatever the event bus sends, memory stays below what the manual says, the
// end is an orderly one, and no event is passed over without a record or a
// dead letter. PROOFTEST_ALL asks for those too that take their time.
func TestBusPeers(t *testing.T) {
	for _, p := range busPeers {
		if os.Getenv("PROOFTEST_ALL") == "" && p.times == 0 && !p.letter {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			b := testbed.New(t)
			org := sftest.NewOrg(sftest.Config{})
			t.Cleanup(org.Close)
			enough := make(chan struct{})
			var once sync.Once
			end := func() { once.Do(func() { close(enough) }) }
			out := &beginning{most: 256 << 20}
			bus := &badBus{busPeer: &p, offered: offer(t)}
			bus.tired = func() {
				tick := time.NewTicker(10 * time.Millisecond)
				defer tick.Stop()
				for !p.unread && bus.tells() && strings.Count(out.String(), `"origin":`) < busEvents { // a signal that is quicker proves nothing
					select {
					case <-tick.C:
					case <-enough:
						return
					}
				}
				end()
			}
			bus.events.Store(busEvents)
			b.Set("SF_PULL_LOGIN_URL="+org.URL, "SF_PULL_AUTH=client-credentials", "SF_PULL_CLIENT_ID="+org.ClientID, "SF_PULL_CLIENT_SECRET="+org.ClientSecret)
			late := time.AfterFunc(10*patience(t), end)
			t.Cleanup(func() { late.Stop() })
			said := &peer{name: "bus, " + p.name, command: "sf-pull pubsub --topic " + busTopic + " --endpoint http://" + bus.serve(t), ceiling: busCeiling, unread: p.unread, says: p.says}
			for n := range p.more {
				said.command += fmt.Sprintf(" --topic %s%d", strings.TrimSuffix(busTopic, "__e"), n) + "__e"
			}
			said.ceiling += int64(p.more) * busTopicCeiling
			if p.letter {
				said.command += fmt.Sprintf(" --max-events %d", busEvents+1)
			}
			if !p.unread {
				said.output = out
			}
			said.meet(t, b, enough)
			if !p.unread {
				if n := bus.nothingPassed(t, said.output.String()); p.letter && n != busEvents+1 {
					t.Errorf("%d events were told of, want %d", n, busEvents+1)
				}
			}
		})
	}
}

// serve starts the bus and returns its address.
func (b *badBus) serve(t *testing.T) string {
	if b.raw == nil {
		srv := httptest.NewUnstartedServer(b)
		srv.Config.Protocols = new(http.Protocols)
		srv.Config.Protocols.SetUnencryptedHTTP2(true)
		srv.Start()
		t.Cleanup(srv.Close)
		return srv.Listener.Addr().String()
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b.raw(c, b.offered)
			}()
		}
	}()
	return ln.Addr().String()
}

// tells is whether the good events can be had at all.
func (b *badBus) tells() bool { return b.topic == nil && b.raw == nil }

// nothingPassed looks at the positions that were written: each event up to them
// must have a record or a dead letter.
func (b *badBus) nothingPassed(t *testing.T, output string) (events int) {
	told := map[string]bool{}
	for line := range strings.Lines(output) {
		var rec struct {
			Origin string `json:"origin"`
			Value  string `json:"checkpoint_value"`
		}
		if !strings.HasSuffix(line, "\n") {
			break // it was stopped, or more came than is kept
		}
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			t.Fatalf("%v: %.200q", err, line)
		}
		if _, id, ok := strings.Cut(rec.Origin, ":"); ok {
			told[id] = true
		}
		var token struct{ ID []byte }
		if rec.Value == "" {
			continue
		}
		if err := json.Unmarshal([]byte(rec.Value), &token); err != nil {
			t.Fatalf("%v: %.200q", err, rec.Value)
		}
		if len(token.ID) != 8 {
			continue
		}
		for n := 1; n <= min(int(binary.BigEndian.Uint64(token.ID)), int(b.events.Load())); n++ {
			if !told[base64.StdEncoding.EncodeToString(replayID(n))] {
				t.Fatalf("the position is behind event %d, of which nothing was told:\n%.2000s", n, output)
			}
		}
	}
	if b.tells() && len(told) < busEvents {
		t.Errorf("%d events were told of, want %d", len(told), busEvents)
	}
	return len(told)
}
