package pubsub

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"time"

	"google.golang.org/grpc"
	connectBackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"sf2loki/pkg/backoff"
	"sf2loki/pkg/pubsub/eventbus"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sysexits"
)

const (
	maxMessage = 8 << 20  // Salesforce's responses end at 4 MB
	maxHeaders = 64 << 10 // of an answer, or its trailers; Salesforce's are a few hundred bytes
	flowWindow = 1 << 20  // bytes of a stream that wait here unread
)

// dial prepares the connection. It is made with the first call.
func (s *Source) dial() error {
	creds := insecure.NewCredentials()
	if !s.cfg.Endpoint.Plaintext {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if s.cfg.Endpoint.TLS != nil {
			config = s.cfg.Endpoint.TLS.Clone()
		}
		creds = credentials.NewTLS(config)
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.ForceCodecV2(newCodec())),
		grpc.WithMaxHeaderListSize(maxHeaders),
		// A connection that broke without a word is noticed in 40 seconds.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithInitialWindowSize(flowWindow),
		grpc.WithInitialConnWindowSize(4 * flowWindow),
		grpc.WithUserAgent("sf2loki/sf-pull"),
		grpc.WithDisableServiceConfig(),
		// Calls fail at once while there is no connection; the pauses between them
		// are ours, so those between two connections must not be much longer.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           connectBackoff.Config{BaseDelay: time.Second, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 15 * time.Second},
			MinConnectTimeout: 20 * time.Second,
		}),
	}
	target := "dns:///" + s.cfg.Endpoint.Addr
	if s.cfg.Dial != nil {
		target = "passthrough:///" + s.cfg.Endpoint.Addr
		opts = append(opts, grpc.WithContextDialer(s.cfg.Dial))
	}
	conn, err := grpc.NewClient(target, opts...)
	if err != nil {
		return sysexits.Errorf(sysexits.Config, "endpoint %s: %w", s.cfg.Endpoint.Addr, err)
	}
	s.conn, s.bus = conn, eventbus.NewPubSubClient(conn)
	return nil
}

// headers adds to ctx what every call must carry.
func (s *Source) headers(ctx context.Context, t salesforce.Token) context.Context {
	org := s.cfg.OrgID
	if org == "" {
		org = t.OrgID
	}
	return metadata.AppendToOutgoingContext(ctx,
		"accesstoken", t.Access, "instanceurl", t.InstanceURL, "tenantid", org, "x-client-trace-id", traceID())
}

// traceID is what Salesforce's support finds a call by.
func traceID() string {
	var u [16]byte
	rand.Read(u[:])
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// call makes a call that answers once, with one new session when Salesforce
// refuses the one at hand.
func (s *Source) call(ctx context.Context, do func(ctx context.Context, opts ...grpc.CallOption) error) *failure {
	for fresh := false; ; fresh = true {
		t, err := s.cfg.API.Token(ctx)
		if err != nil {
			f := judgeToken(err)
			return &f
		}
		var trailer metadata.MD
		inner, cancel := context.WithTimeout(s.headers(ctx, t), s.cfg.Timing.Call)
		err = do(inner, grpc.Trailer(&trailer))
		cancel()
		if err == nil {
			return nil
		}
		f := s.judge(err, trailer, false)
		if f.do != login || fresh {
			return &f
		}
		s.cfg.API.Drop(t)
	}
}

// firstTries is how often a call is tried at the start of the run, where
// somebody may be waiting to see whether it works.
const firstTries = 5

// patiently repeats a call while its failure may pass, so many times; 0: for ever.
func (s *Source) patiently(ctx context.Context, tries int, call func() *failure) *failure {
	wait := backoff.New(s.cfg.Timing.Min, s.cfg.Timing.Max)
	for n := 1; ; n++ {
		f := call()
		if f == nil || f.do != again && f.do != later || n == tries || ctx.Err() != nil {
			return f
		}
		s.log.Debug("trying again", "err", f.err, "attempt", n)
		if !sleep(ctx, wait.Next()) {
			return f
		}
	}
}

// sleep waits for d; false: ctx was done first.
func sleep(ctx context.Context, d time.Duration) bool { return backoff.Sleep(ctx, d) == nil }
