package sftest

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"sf2loki/pkg/pubsub/eventbus"
)

// Managed is a managed event subscription: a topic with a position that the
// org keeps.
type Managed struct {
	ID            string // "18xxx0000000001AAA"
	DeveloperName string
	Topic         string
	Latest        bool // begins with new events; else with the earliest
	Stopped       bool
}

type managedSub struct {
	Managed
	active    bool
	committed []byte
}

// DefineManaged adds a managed subscription, or changes it and keeps its
// position.
func (b *Bus) DefineManaged(m Managed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.managed[m.ID]; old != nil {
		old.Managed = m
		return
	}
	b.managed[m.ID] = &managedSub{Managed: m}
}

// Committed is the position of a managed subscription; nil: none yet.
func (b *Bus) Committed(id string) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m := b.managed[id]; m != nil {
		return m.committed
	}
	return nil
}

// WaitCommitted waits until the position of a managed subscription is replay.
func (b *Bus) WaitCommitted(id string, replay []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.managed[id] == nil || string(b.managed[id].committed) != string(replay) {
		b.came.Wait()
	}
}

// ManagedSubscribe delivers a topic's events from where the last commit was.
func (b *Bus) ManagedSubscribe(stream eventbus.PubSub_ManagedSubscribeServer) error {
	const method = "ManagedSubscribe"
	ctx := stream.Context()
	req, err := stream.Recv()
	if err != nil {
		return nil
	}
	fault, err := b.call(ctx, method, "ManagedSubscribe "+or(req.SubscriptionId, req.DeveloperName))
	if err != nil {
		return err
	}
	if err := b.authenticate(ctx, method); err != nil {
		return err
	}
	m, s, err := b.openManaged(ctx, req, fault)
	if err != nil {
		return err
	}
	defer func() {
		b.drop(s)
		b.mu.Lock()
		m.active = false
		b.mu.Unlock()
	}()
	c := &committer{bus: b, sub: m, stream: s, idle: time.AfterFunc(b.cfg.CommitIdle, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		s.end(status.Errorf(codes.DeadlineExceeded, "No CommitReplayRequests sent in the last %d seconds. Closing managed subscription.", int(b.cfg.CommitIdle.Seconds())))
	})}
	defer c.idle.Stop()
	var sending sync.Mutex // commits are answered between two responses
	send := func(r *eventbus.ManagedFetchResponse) error {
		sending.Lock()
		defer sending.Unlock()
		r.RpcId = newUUID()
		return stream.Send(r)
	}
	go c.listen(ctx, stream, send)
	return s.run(ctx, method, func(events []*eventbus.ConsumerEvent, latest []byte, pending int) error {
		return send(&eventbus.ManagedFetchResponse{Events: events, LatestReplayId: latest, PendingNumRequested: int32(pending)})
	})
}

func (b *Bus) openManaged(ctx context.Context, req *eventbus.ManagedFetchRequest, fault *BusFault) (*managedSub, *busStream, error) {
	refuse := func(suffix string) (*managedSub, *busStream, error) {
		return nil, nil, busError(ctx, "ManagedSubscribe", "managed.subscription."+suffix, "", "")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var m *managedSub
	for _, each := range b.managed {
		if req.SubscriptionId != "" && each.ID == req.SubscriptionId || req.SubscriptionId == "" && each.DeveloperName == req.DeveloperName {
			m = each
		}
	}
	switch {
	case req.SubscriptionId == "" && req.DeveloperName == "":
		return refuse("id.or.developer.name.empty")
	case req.CommitReplayIdRequest != nil:
		return refuse("fetch.request.commit.request.restricted")
	case req.AuthRefresh != "":
		return refuse("fetch.request.auth.request.restricted")
	case m == nil && req.SubscriptionId != "":
		return refuse("subscription.id.not.found")
	case m == nil:
		return refuse("developer.name.not.found")
	case m.Stopped:
		return refuse("config.stopped")
	case m.active:
		return refuse("already.active")
	case req.NumRequested <= 0:
		return refuse("fetch.request.events.invalid")
	}
	t := b.topics[m.Topic]
	if t == nil {
		return refuse("config.deleted")
	}
	b.purge(t, b.org.Now())
	after := uint64(0)
	if m.Latest {
		after = b.counter
	}
	if n, ok := b.knows(t, m.committed); ok {
		after = n
	}
	m.active = true
	s := b.newStream(t, after, fault)
	s.grant(req.NumRequested)
	return m, s, nil
}

// committer takes the further requests of a managed stream.
type committer struct {
	bus    *Bus
	sub    *managedSub
	stream *busStream
	idle   *time.Timer
}

func (c *committer) listen(ctx context.Context, stream eventbus.PubSub_ManagedSubscribeServer, send func(*eventbus.ManagedFetchResponse) error) {
	b, s := c.bus, c.stream
	for {
		req, err := stream.Recv()
		b.mu.Lock()
		var answer *eventbus.CommitReplayResponse
		switch {
		case errors.Is(err, io.EOF):
			s.end(nil)
		case err != nil:
			s.end(err)
		case req.NumRequested < 0 || req.NumRequested == 0 && req.CommitReplayIdRequest == nil:
			s.end(busError(ctx, "ManagedSubscribe", "managed.subscription.fetch.request.events.invalid", "", ""))
		default:
			if req.NumRequested > 0 {
				b.log("Fetch %s %d", s.topic.name, req.NumRequested)
				s.grant(req.NumRequested)
			}
			if req.CommitReplayIdRequest != nil {
				answer = c.commit(req.CommitReplayIdRequest)
			}
		}
		pending, over := s.credit, s.ended
		b.mu.Unlock()
		if answer != nil {
			err = errors.Join(err, send(&eventbus.ManagedFetchResponse{CommitResponse: answer, PendingNumRequested: int32(pending)}))
		}
		if err != nil || over {
			return
		}
	}
}

// commit takes a position. The caller holds mu.
func (c *committer) commit(req *eventbus.CommitReplayRequest) *eventbus.CommitReplayResponse {
	c.idle.Reset(c.bus.cfg.CommitIdle)
	c.bus.log("Commit %s %s", c.sub.ID, base64.StdEncoding.EncodeToString(req.ReplayId))
	answer := &eventbus.CommitReplayResponse{CommitRequestId: req.CommitRequestId, ReplayId: req.ReplayId, ProcessTime: c.bus.org.Now().UnixMilli()}
	if _, ok := c.bus.knows(c.stream.topic, req.ReplayId); !ok {
		answer.Error = &eventbus.Error{Code: eventbus.ErrorCode_COMMIT, Msg: "The replay ID can't be committed."}
		return answer
	}
	c.sub.committed = req.ReplayId
	c.bus.came.Broadcast()
	return answer
}
