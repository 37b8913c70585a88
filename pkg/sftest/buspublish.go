package sftest

import (
	"context"
	"errors"
	"io"

	"sf2loki/pkg/pubsub/eventbus"
)

func (b *Bus) accept(ctx context.Context, method string, req *eventbus.PublishRequest) (*eventbus.PublishResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topics[req.TopicName]
	if t == nil || t.CannotPublish {
		return nil, busError(ctx, method, "topic.not.found", "", "")
	}
	resp := &eventbus.PublishResponse{SchemaId: t.schemaID, RpcId: newUUID()}
	for _, e := range req.Events {
		result := &eventbus.PublishResult{CorrelationKey: e.Id}
		id, err := b.publish(req.TopicName, Event{ID: e.Id, SchemaID: e.SchemaId, Payload: append([]byte{}, e.Payload...)})
		if err != nil {
			result.Error = &eventbus.Error{Code: eventbus.ErrorCode_PUBLISH, Msg: err.Error()}
		}
		result.ReplayId = id
		resp.Results = append(resp.Results, result)
	}
	return resp, nil
}

// publisher is the part of the API that takes events; Bus itself has a method
// of that name for tests.
type publisher struct{ *Bus }

// Publish takes events.
func (p publisher) Publish(ctx context.Context, req *eventbus.PublishRequest) (*eventbus.PublishResponse, error) {
	const method = "Publish"
	if _, err := p.call(ctx, method, "Publish "+req.TopicName); err != nil {
		return nil, err
	}
	if err := p.authenticate(ctx, method); err != nil {
		return nil, err
	}
	return p.accept(ctx, method, req)
}

// PublishStream takes events as they come.
func (p publisher) PublishStream(stream eventbus.PubSub_PublishStreamServer) error {
	const method = "PublishStream"
	ctx := stream.Context()
	if err := p.authenticate(ctx, method); err != nil {
		return err
	}
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := p.call(ctx, method, "PublishStream "+req.TopicName); err != nil {
			return err
		}
		resp, err := p.accept(ctx, method, req)
		if err != nil {
			return err
		}
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
}
