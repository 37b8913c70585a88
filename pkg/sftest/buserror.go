package sftest

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// errorPrefix begins every error-code of the bus.
const errorPrefix = "sfdc.platform.eventbus.grpc."

// busErrors are the codes of the bus, with the gRPC code that each comes with
// and what it says.
var busErrors = map[string]struct {
	code codes.Code
	text string
}{
	"service.unavailable":                       {codes.Internal, "The service is temporarily unavailable."},
	"service.auth.error":                        {codes.Unauthenticated, "An authentication exception occurred. Provide valid authentication via metadata headers."},
	"service.auth.headers.invalid":              {codes.InvalidArgument, "An authentication header is blank or malformed."},
	"service.auth.refresh.invalid":              {codes.InvalidArgument, "The auth_refresh field can't be used."},
	"service.protection.stream.limit.triggered": {codes.ResourceExhausted, "Too many requests on this stream."},
	"service.protection.triggered":              {codes.ResourceExhausted, "Too many requests."},
	"service.tenant.license":                    {codes.PermissionDenied, "The org is not licensed for this service."},
	"concurrent.client.limit.exceeded":          {codes.ResourceExhausted, "Too many clients."},
	"topic.not.found":                           {codes.NotFound, "The topic was not found, or you may not see it."},
	"topic.meta.permission":                     {codes.PermissionDenied, "You may not see this topic."},
	"schema.meta.permission":                    {codes.PermissionDenied, "You may not see this schema."},
	"topic.api.unavailable":                     {codes.Unavailable, "Topics are temporarily unavailable."},
	"schema.api.unavailable":                    {codes.Unavailable, "Schemas are temporarily unavailable."},
	"topic.validation.empty":                    {codes.InvalidArgument, "The topic name can't be blank."},
	"schema.validation.failed":                  {codes.InvalidArgument, "Schema validation failed. The schema ID can't be blank."},

	"subscription.fetch.replayid.corrupted":         {codes.InvalidArgument, "The Replay ID validation failed. Ensure that the Replay ID is valid."},
	"subscription.fetch.replayid.validation.failed": {codes.InvalidArgument, "A custom replay preset needs a Replay ID."},
	"subscription.fetch.replay.repeated":            {codes.InvalidArgument, "The Replay ID is lower than an earlier one."},
	"subscription.limit.exceeded":                   {codes.ResourceExhausted, "You have exceeded the event delivery limit for your org."},
	"subscription.fetch.overflow":                   {codes.InvalidArgument, "Too many events were requested."},
	"subscription.fetch.requested.events.invalid":   {codes.InvalidArgument, "The number of requested events must be more than 0."},
	"subscription.fetch.topic.mismatch":             {codes.InvalidArgument, "A stream has one topic."},
	"subscription.fetch.request.invalid":            {codes.InvalidArgument, "The request is invalid."},
	"subscription.topic.cannot.subscribe":           {codes.PermissionDenied, "You may not subscribe to this topic."},
	"subscription.internal.error":                   {codes.Internal, "An internal error occurred."},

	"managed.subscription.already.active":                          {codes.AlreadyExists, "The managed subscription has an active client."},
	"managed.subscription.config.stopped":                          {codes.FailedPrecondition, "The managed subscription is stopped."},
	"managed.subscription.config.deleted":                          {codes.NotFound, "The managed subscription was deleted."},
	"managed.subscription.developer.name.not.found":                {codes.NotFound, "No managed subscription has this developer name."},
	"managed.subscription.subscription.id.not.found":               {codes.NotFound, "No managed subscription has this ID."},
	"managed.subscription.subscription.id.invalid":                 {codes.InvalidArgument, "The subscription ID is invalid."},
	"managed.subscription.id.or.developer.name.empty":              {codes.InvalidArgument, "A subscription ID or a developer name is needed."},
	"managed.subscription.fetch.request.events.invalid":            {codes.InvalidArgument, "The number of requested events is invalid."},
	"managed.subscription.fetch.request.invalid":                   {codes.InvalidArgument, "The request is invalid."},
	"managed.subscription.fetch.request.commit.request.restricted": {codes.InvalidArgument, "The first request can't commit."},
	"managed.subscription.fetch.request.auth.request.restricted":   {codes.InvalidArgument, "The auth_refresh field can't be used."},
}

// BusErrorCodes gives the error codes that the bus knows, without their prefix.
func BusErrorCodes() []string {
	var list []string
	for code := range busErrors {
		list = append(list, code)
	}
	return list
}

// busError is an error of the service itself, with its trailers. code and text
// replace those that it usually has.
func busError(ctx context.Context, method, suffix, code, text string) error {
	known := busErrors[suffix]
	if known.code == codes.OK {
		known.code = codes.Unknown
	}
	if text == "" {
		text = known.text
	}
	if c, ok := codeNamed(code); ok {
		known.code = c
	}
	id := newUUID()
	grpc.SetTrailer(ctx, metadata.Pairs("error-code", errorPrefix+suffix, "rpc-id", id, "type", method))
	return status.Error(known.code, text+" rpcId: "+id)
}

// codeNamed is the gRPC code of a name as UNAVAILABLE.
func codeNamed(name string) (codes.Code, bool) {
	var c codes.Code
	if name == "" || c.UnmarshalJSON([]byte(`"`+name+`"`)) != nil {
		return 0, false
	}
	return c, true
}

func header(ctx context.Context, name string) string {
	md, _ := metadata.FromIncomingContext(ctx)
	if v := md.Get(name); len(v) > 0 {
		return strings.TrimSpace(v[0])
	}
	return ""
}

// BusFault is a failure of the bus on demand.
type BusFault struct {
	Times int `json:"times"` // how often; 0: once, negative: until ClearFaults
	Skip  int `json:"skip"`  // matching calls that pass first

	After int `json:"after"` // a stream sends so many events first

	Error string `json:"error"` // an error-code without its prefix, with all trailers
	Code  string `json:"code"`  // gRPC code as UNAVAILABLE; alone: an error without trailers, as of a gateway
	Text  string `json:"text"`
	End   bool   `json:"end"`   // the stream ends without an error
	Stall bool   `json:"stall"` // the stream stays open, and says nothing any more

	Latency time.Duration `json:"-"` // before anything is done
}

type armedBusFault struct {
	BusFault
	match string
}

// Fault makes calls fail that contain match, in the form of Calls; the first
// fault that matches takes effect.
func (b *Bus) Fault(match string, f BusFault) {
	if f.Times == 0 {
		f.Times = 1
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, &armedBusFault{f, match})
}

// ClearFaults ends all faults.
func (b *Bus) ClearFaults() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = nil
}

// takeFault gives the fault for a call, or nil. The caller holds mu.
func (b *Bus) takeFault(call string) *BusFault {
	for _, f := range b.faults {
		if f.Times == 0 || !strings.Contains(call, f.match) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times > 0 {
			f.Times--
		}
		copied := f.BusFault
		return &copied
	}
	return nil
}

// err is what the fault ends a call with.
func (f *BusFault) err(ctx context.Context, method string) error {
	if f.Error != "" {
		return busError(ctx, method, f.Error, f.Code, f.Text)
	}
	if c, ok := codeNamed(f.Code); ok {
		return status.Error(c, or(f.Text, "upstream connect error or disconnect/reset before headers"))
	}
	return nil
}

// call logs a call and lets its fault have its way first.
func (b *Bus) call(ctx context.Context, method, line string) (*BusFault, error) {
	b.mu.Lock()
	b.log("%s", line)
	f := b.takeFault(line)
	b.mu.Unlock()
	if f == nil {
		return nil, nil
	}
	if f.Latency > 0 {
		select {
		case <-time.After(f.Latency):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if f.After > 0 || f.Stall || f.End {
		return f, nil
	}
	return nil, f.err(ctx, method)
}
