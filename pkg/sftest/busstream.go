package sftest

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"time"

	"google.golang.org/protobuf/proto"

	"sf2loki/pkg/pubsub/eventbus"
)

// busStream is one subscription that is open.
type busStream struct {
	bus    *Bus
	topic  *busTopic
	credit int
	after  uint64 // number of the last event that was sent, or passed
	sent   int
	fault  *BusFault

	wakeUp chan struct{} // there is something to look at
	over   chan struct{} // closed by end
	err    error         // why
	ended  bool
}

func (b *Bus) newStream(t *busTopic, after uint64, fault *BusFault) *busStream {
	s := &busStream{bus: b, topic: t, after: after, fault: fault, wakeUp: make(chan struct{}, 1), over: make(chan struct{})}
	b.streams[s] = true
	b.came.Broadcast()
	return s
}

// end ends the stream. The caller holds the bus's mu.
func (s *busStream) end(err error) {
	if !s.ended {
		s.ended, s.err = true, err
		close(s.over)
	}
}

func (s *busStream) wake() {
	select {
	case s.wakeUp <- struct{}{}:
	default:
	}
}

// wake has the streams of a topic look for new events. The caller holds mu.
func (b *Bus) wake(t *busTopic) {
	for s := range b.streams {
		if s.topic == t {
			s.wake()
		}
	}
}

func (b *Bus) drop(s *busStream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.streams, s)
	b.log("End %s", s.topic.name)
}

// grant adds to the credit, up to what a stream may have. The caller holds mu.
func (s *busStream) grant(n int32) {
	s.credit = min(s.credit+int(n), MaxCredit)
	s.bus.came.Broadcast()
	s.wake()
}

// Subscribe delivers a topic's events as far as the client has credit.
func (b *Bus) Subscribe(stream eventbus.PubSub_SubscribeServer) error {
	const method = "Subscribe"
	ctx := stream.Context()
	req, err := stream.Recv()
	if err != nil {
		return nil
	}
	line := method + " " + req.TopicName + " " + req.ReplayPreset.String()
	if len(req.ReplayId) > 0 {
		line += " " + base64.StdEncoding.EncodeToString(req.ReplayId)
	}
	fault, err := b.call(ctx, method, line)
	if err != nil {
		return err
	}
	if err := b.authenticate(ctx, method); err != nil {
		return err
	}
	s, err := b.open(ctx, req, fault)
	if err != nil {
		return err
	}
	defer b.drop(s)
	go s.listen(ctx, stream)
	return s.run(ctx, method, func(events []*eventbus.ConsumerEvent, latest []byte, pending int) error {
		return stream.Send(&eventbus.FetchResponse{Events: events, LatestReplayId: latest, RpcId: newUUID(), PendingNumRequested: int32(pending)})
	})
}

// open checks the first request and begins the stream where it says.
func (b *Bus) open(ctx context.Context, req *eventbus.FetchRequest, fault *BusFault) (*busStream, error) {
	const method = "Subscribe"
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topics[req.TopicName]
	switch {
	case req.TopicName == "":
		return nil, busError(ctx, method, "topic.validation.empty", "", "")
	case t == nil:
		return nil, busError(ctx, method, "topic.not.found", "", "")
	case t.CannotSubscribe:
		return nil, busError(ctx, method, "subscription.topic.cannot.subscribe", "", "")
	case req.AuthRefresh != "":
		return nil, busError(ctx, method, "service.auth.refresh.invalid", "", "")
	case req.NumRequested <= 0:
		return nil, busError(ctx, method, "subscription.fetch.requested.events.invalid", "", "")
	}
	b.purge(t, b.org.Now())
	after := b.counter
	switch req.ReplayPreset {
	case eventbus.ReplayPreset_EARLIEST:
		after = 0
	case eventbus.ReplayPreset_CUSTOM:
		if len(req.ReplayId) == 0 {
			return nil, busError(ctx, method, "subscription.fetch.replayid.validation.failed", "", "")
		}
		n, ok := b.knows(t, req.ReplayId)
		if !ok {
			return nil, busError(ctx, method, "subscription.fetch.replayid.corrupted", "", "")
		}
		after = t.repeat(n, b.cfg.Duplicates)
	}
	s := b.newStream(t, after, fault)
	s.grant(req.NumRequested)
	return s, nil
}

// repeat goes some events back from a position.
func (t *busTopic) repeat(n uint64, events int) uint64 {
	passed := len(t.events) - len(t.after(n))
	if events == 0 || passed == 0 {
		return n
	}
	if passed <= events {
		return 0
	}
	return t.events[passed-events-1].n
}

// listen takes the further requests of a stream.
func (s *busStream) listen(ctx context.Context, stream eventbus.PubSub_SubscribeServer) {
	const method = "Subscribe"
	for {
		req, err := stream.Recv()
		s.bus.mu.Lock()
		switch {
		case errors.Is(err, io.EOF):
			s.end(nil)
		case err != nil:
			s.end(err)
		default:
			s.bus.log("Fetch %s %d", s.topic.name, req.NumRequested)
			switch {
			case req.TopicName != "" && req.TopicName != s.topic.name:
				s.end(busError(ctx, method, "subscription.fetch.topic.mismatch", "", ""))
			case req.NumRequested <= 0:
				s.end(busError(ctx, method, "subscription.fetch.requested.events.invalid", "", ""))
			default:
				s.grant(req.NumRequested)
			}
		}
		s.bus.mu.Unlock()
		if err != nil {
			return
		}
	}
}

type sendFunc func(events []*eventbus.ConsumerEvent, latest []byte, pending int) error

// run sends what there is until the stream ends.
func (s *busStream) run(ctx context.Context, method string, send sendFunc) error {
	cfg := &s.bus.cfg
	quiet, broke := time.Now(), time.Now()
	for {
		batch, latest, pending, verdict := s.next(ctx, method)
		if verdict != nil {
			return verdict.err
		}
		if pending > 0 || len(batch) > 0 {
			broke = time.Now()
		}
		wait := cfg.ZeroCredit - time.Since(broke)
		if pending > 0 {
			wait = cfg.Keepalive - time.Since(quiet)
		}
		switch {
		case len(batch) > 0:
		case wait > 0:
			if !s.wait(ctx, wait) {
				return s.outcome(ctx)
			}
			continue
		case pending == 0:
			return nil // no credit for too long
		}
		if err := send(batch, latest, pending); err != nil {
			return err
		}
		quiet = time.Now()
	}
}

// wait tells whether the stream is to go on, after something happened or d.
func (s *busStream) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.wakeUp:
	case <-s.over:
		return false
	case <-ctx.Done():
		return false
	}
	return true
}

func (s *busStream) outcome(ctx context.Context) error {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	if s.ended {
		return s.err
	}
	return ctx.Err()
}

type verdict struct{ err error }

// next gives the next response: events, or none when there is no credit or no
// event. A verdict ends the stream.
func (s *busStream) next(ctx context.Context, method string) (batch []*eventbus.ConsumerEvent, latest []byte, pending int, v *verdict) {
	if f := s.fault; f != nil && s.sent >= f.After {
		s.fault = nil
		if f.Stall {
			select {
			case <-s.over:
			case <-ctx.Done():
			}
			return nil, nil, 0, &verdict{s.outcome(ctx)}
		}
		return nil, nil, 0, &verdict{f.err(ctx, method)}
	}
	b := s.bus
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.ended {
		return nil, nil, 0, &verdict{s.err}
	}
	room := min(s.credit, b.cfg.MaxBatch)
	if s.fault != nil {
		room = min(room, s.fault.After-s.sent)
	}
	size := 0
	for _, e := range s.topic.after(s.after) {
		if len(batch) == room {
			break
		}
		c := e.consumer()
		if size += proto.Size(c); size > maxResponse && len(batch) > 0 {
			break
		}
		batch = append(batch, c)
		s.after = e.n
	}
	s.sent += len(batch)
	s.credit -= len(batch)
	if len(batch) > 0 {
		b.came.Broadcast()
		return batch, batch[len(batch)-1].ReplayId, s.credit, nil
	}
	// The sign of life names the newest id of the org, whoever's it is.
	return nil, replayID(b.counter), s.credit, nil
}
