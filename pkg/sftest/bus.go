package sftest

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"sf2loki/pkg/pubsub/eventbus"
)

// BusConfig says how the org's event bus behaves. The zero value is the
// documented behaviour.
type BusConfig struct {
	Listen   string       // empty: 127.0.0.1:0
	Listener net.Listener // instead of Listen
	TLS      bool         // with a certificate of CA; else plaintext

	Keepalive  time.Duration // longest silence of a stream that has credit; 0: 270 s
	ZeroCredit time.Duration // how long a stream stays open without credit; 0: 60 s
	CommitIdle time.Duration // how long a managed stream stays open without a commit; 0: 1800 s
	Retention  time.Duration // of events; 0: 72 h
	MaxBatch   int           // most events of a response; 0: 100
	Duplicates int           // events at a stream's position that are sent again
}

// MaxCredit is the most events that a stream may have asked for and not got:
// more is not refused, but not heard.
const MaxCredit = 100

// maxEvent is the longest payload that is published.
const maxEvent = 1 << 20

// maxResponse is how much a response holds at most, unless one event is longer.
const maxResponse = 3 << 20

// Bus is the Pub/Sub API of an org, on a port of its own.
type Bus struct {
	eventbus.UnimplementedPubSubServer // its Publish is hidden: see publisher

	Addr string // HOST:PORT
	CA   string // PEM; empty without TLS

	org *Org
	cfg BusConfig
	in  *busListener
	tls *tls.Config

	mu      sync.Mutex
	came    *sync.Cond // something was logged, or a stream has changed
	server  *grpc.Server
	closed  bool
	topics  map[string]*busTopic
	schemas map[string]*busSchema
	managed map[string]*managedSub
	streams map[*busStream]bool
	faults  []*armedBusFault
	calls   []string
	counter uint64 // of the last replay id
	floor   uint64 // replay ids up to here are of another life of the org
	gaps    uint64
}

// StartBus starts the org's event bus. Org.Close stops it.
func (o *Org) StartBus(cfg BusConfig) (*Bus, error) {
	orDuration(&cfg.Keepalive, 270*time.Second)
	orDuration(&cfg.ZeroCredit, time.Minute)
	orDuration(&cfg.CommitIdle, 30*time.Minute)
	orDuration(&cfg.Retention, 72*time.Hour)
	if cfg.MaxBatch <= 0 {
		cfg.MaxBatch = MaxCredit
	}
	ln := cfg.Listener
	if ln == nil {
		var err error
		if ln, err = net.Listen("tcp", or(cfg.Listen, "127.0.0.1:0")); err != nil {
			return nil, err
		}
	}
	b := &Bus{
		Addr: ln.Addr().String(), org: o, cfg: cfg, in: newBusListener(ln),
		topics: map[string]*busTopic{}, schemas: map[string]*busSchema{}, managed: map[string]*managedSub{},
		streams: map[*busStream]bool{}, counter: 0x5a95e5,
	}
	b.came = sync.NewCond(&b.mu)
	if cfg.TLS {
		ca, config, err := testTLS()
		if err != nil {
			ln.Close()
			return nil, err
		}
		b.CA, b.tls = ca, config
	}
	b.server = b.newServer()
	go b.in.accept()
	go b.server.Serve(b.in.face())
	o.locked(func() { o.buses = append(o.buses, b) })
	return b, nil
}

// NewBus is StartBus for tests. It panics when it cannot listen.
func (o *Org) NewBus(cfg BusConfig) *Bus {
	b, err := o.StartBus(cfg)
	if err != nil {
		panic(fmt.Sprintf("sftest: %v", err))
	}
	return b
}

func orDuration(d *time.Duration, other time.Duration) {
	if *d <= 0 {
		*d = other
	}
}

func (b *Bus) newServer() *grpc.Server {
	opts := []grpc.ServerOption{
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.MaxRecvMsgSize(8 << 20),
	}
	if b.tls != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(b.tls)))
	}
	s := grpc.NewServer(opts...)
	eventbus.RegisterPubSubServer(s, publisher{Bus: b})
	return s
}

// Close ends all streams and stops listening.
func (b *Bus) Close() {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return
	}
	b.closed = true
	server := b.server
	b.endStreams(nil)
	b.mu.Unlock()
	b.in.close()
	server.Stop()
}

// Cut resets all connections, as a broken network does.
func (b *Bus) Cut() { b.in.cut() }

// GoAway tells all clients that this server goes out of service, and ends
// their streams; new connections reach another.
func (b *Bus) GoAway() {
	b.mu.Lock()
	old := b.server
	b.server = b.newServer()
	fresh := b.server
	b.mu.Unlock()
	go fresh.Serve(b.in.face())
	b.mu.Lock()
	b.endStreams(nil)
	b.mu.Unlock()
	old.GracefulStop()
}

// endStreams ends all streams with an error, or well. The caller holds mu.
func (b *Bus) endStreams(err error) {
	for s := range b.streams {
		s.end(err)
	}
}

// Calls lists what clients have called, those that contain match: "GetTopic
// /event/X", "GetSchema ID", "Subscribe /event/X CUSTOM BASE64", "Fetch
// /event/X 100", "ManagedSubscribe ID", "Commit ID BASE64", "End /event/X".
func (b *Bus) Calls(match string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.matching(match)
}

func (b *Bus) matching(match string) []string {
	var out []string
	for _, c := range b.calls {
		if strings.Contains(c, match) {
			out = append(out, c)
		}
	}
	return out
}

// WaitCalls waits until there have been n calls that contain match.
func (b *Bus) WaitCalls(match string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.matching(match)) < n {
		b.came.Wait()
	}
}

// ResetCalls empties the list of calls.
func (b *Bus) ResetCalls() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = nil
}

func (b *Bus) log(format string, args ...any) {
	b.calls = append(b.calls, fmt.Sprintf(format, args...))
	b.came.Broadcast()
}

// Streams is how many streams of a topic are open; "" counts all.
func (b *Bus) Streams(topic string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for s := range b.streams {
		if topic == "" || s.topic.name == topic {
			n++
		}
	}
	return n
}

// Credit is how many events the streams of a topic may still be sent.
func (b *Bus) Credit(topic string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.credit(topic)
}

func (b *Bus) credit(topic string) int {
	n := 0
	for s := range b.streams {
		if s.topic.name == topic {
			n += s.credit
		}
	}
	return n
}

// WaitCredit waits until the streams of a topic may be sent n events.
func (b *Bus) WaitCredit(topic string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.credit(topic) != n {
		b.came.Wait()
	}
}

// WaitStreams waits until n streams of a topic are open.
func (b *Bus) WaitStreams(topic string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		open := 0
		for s := range b.streams {
			if s.topic.name == topic {
				open++
			}
		}
		if open == n {
			return
		}
		b.came.Wait()
	}
}

func newUUID() string {
	var u [16]byte
	rand.Read(u[:])
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// busListener hands the connections of one port to the server of the moment.
type busListener struct {
	net.Listener
	mu    sync.Mutex
	face_ *busFace
	conns []net.Conn
	done  chan struct{}
}

func newBusListener(ln net.Listener) *busListener {
	return &busListener{Listener: ln, done: make(chan struct{})}
}

// busFace is what one server listens on.
type busFace struct {
	l     *busListener
	conns chan net.Conn
	over  chan struct{}
	once  sync.Once
}

// face makes a new face the one that gets the connections.
func (l *busListener) face() *busFace {
	f := &busFace{l: l, conns: make(chan net.Conn), over: make(chan struct{})}
	l.mu.Lock()
	l.face_ = f
	l.mu.Unlock()
	return f
}

func (l *busListener) accept() {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return
		}
		l.mu.Lock()
		f := l.face_
		l.conns = append(l.conns, c)
		l.mu.Unlock()
		if f == nil {
			c.Close()
			continue
		}
		select {
		case f.conns <- c:
		case <-f.over:
			c.Close()
		case <-l.done:
			c.Close()
			return
		}
	}
}

func (l *busListener) cut() {
	l.mu.Lock()
	conns := slices.Clone(l.conns)
	l.conns = nil
	l.mu.Unlock()
	for _, c := range conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			tcp.SetLinger(0)
		}
		c.Close()
	}
}

func (l *busListener) close() {
	close(l.done)
	l.Listener.Close()
}

func (f *busFace) Accept() (net.Conn, error) {
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.over:
		return nil, net.ErrClosed
	case <-f.l.done:
		return nil, net.ErrClosed
	}
}

func (f *busFace) Close() error {
	f.once.Do(func() { close(f.over) })
	return nil
}

func (f *busFace) Addr() net.Addr { return f.l.Addr() }

// authenticate wants the three headers of every call.
func (b *Bus) authenticate(ctx context.Context, method string) error {
	token, org, instance := header(ctx, "accesstoken"), header(ctx, "tenantid"), header(ctx, "instanceurl")
	if token == "" || org == "" || !strings.HasPrefix(instance, "http") {
		return busError(ctx, method, "service.auth.headers.invalid", "", "")
	}
	o := b.org
	o.mu.Lock()
	defer o.mu.Unlock()
	last, known := o.tokens[token]
	now := o.now()
	if !known || now.Sub(last) > o.cfg.TokenLife || org != o.ID && org != o.ID[:15] {
		return busError(ctx, method, "service.auth.error", "", "")
	}
	o.tokens[token] = now
	return nil
}
