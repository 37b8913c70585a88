package pubsub

import (
	"context"

	"google.golang.org/grpc/metadata"

	"sf2loki/pkg/pubsub/eventbus"
)

// response is what a stream brings: events, a sign of life, or the answer to a
// commit.
type response struct {
	events  []*eventbus.ConsumerEvent
	size    int    // what they weigh
	latest  []byte // replay id up to which the stream has been read
	pending int    // credit that is left, by the server's count
	commit  *eventbus.CommitReplayResponse
}

// stream is an open subscription. One goroutine receives, one asks and commits.
type stream interface {
	ask(n int) error
	commit(id []byte) error
	recv() (*response, error)
	trailer() metadata.MD
}

type plainStream struct {
	eventbus.PubSub_SubscribeClient
}

func openPlain(ctx context.Context, bus eventbus.PubSubClient, topic string, at position, n int) (stream, error) {
	st, err := bus.Subscribe(ctx)
	if err != nil {
		return nil, err
	}
	req := &eventbus.FetchRequest{TopicName: topic, NumRequested: int32(n)}
	at.request(req)
	// What an error of Send means, the first Recv tells.
	_ = st.Send(req)
	return plainStream{st}, nil
}

func (p plainStream) ask(n int) error {
	return p.Send(&eventbus.FetchRequest{NumRequested: int32(n)})
}

func (p plainStream) commit([]byte) error  { return nil }
func (p plainStream) trailer() metadata.MD { return p.Trailer() }
func (p plainStream) recv() (*response, error) {
	r, err := p.Recv()
	if err != nil {
		return nil, err
	}
	return &response{events: r.Events, size: sizeOf(r.Events), latest: r.LatestReplayId, pending: int(r.PendingNumRequested)}, nil
}

func sizeOf(events []*eventbus.ConsumerEvent) int {
	n := 0
	for _, e := range events {
		n += weight(e)
	}
	return n
}

type managedStream struct {
	eventbus.PubSub_ManagedSubscribeClient
}

func openManaged(ctx context.Context, bus eventbus.PubSubClient, name string, n int) (stream, error) {
	st, err := bus.ManagedSubscribe(ctx)
	if err != nil {
		return nil, err
	}
	req := &eventbus.ManagedFetchRequest{NumRequested: int32(n)}
	if isManagedID(name) {
		req.SubscriptionId = name
	} else {
		req.DeveloperName = name
	}
	_ = st.Send(req)
	return managedStream{st}, nil
}

func (m managedStream) ask(n int) error {
	return m.Send(&eventbus.ManagedFetchRequest{NumRequested: int32(n)})
}

func (m managedStream) commit(id []byte) error {
	return m.Send(&eventbus.ManagedFetchRequest{CommitReplayIdRequest: &eventbus.CommitReplayRequest{CommitRequestId: traceID(), ReplayId: id}})
}

func (m managedStream) trailer() metadata.MD { return m.Trailer() }

func (m managedStream) recv() (*response, error) {
	r, err := m.Recv()
	if err != nil {
		return nil, err
	}
	return &response{events: r.Events, size: sizeOf(r.Events), latest: r.LatestReplayId, pending: int(r.PendingNumRequested), commit: r.CommitResponse}, nil
}
