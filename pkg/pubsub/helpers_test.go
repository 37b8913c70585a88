package pubsub

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"sf2loki/pkg/logtest"
	"sf2loki/pkg/outlet"
	"sf2loki/pkg/record"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sftest"
	"sf2loki/pkg/shape"
)

// rig is a simulated org's bus and a source of it, inside a bubble whose
// clock is its own.
type rig struct {
	t   *testing.T
	org *sftest.Org
	bus *sftest.Bus
	api *fakeAPI
	out *output
	cfg Config
}

// inBubble runs f with a rig whose time goes by as soon as everybody waits.
func inBubble(t *testing.T, bus sftest.BusConfig, f func(r *rig)) {
	t.Helper()
	org := sftest.NewOrg(sftest.Config{})
	defer org.Close()
	synctest.Test(t, func(t *testing.T) {
		ln := bufconn.Listen(1 << 20)
		bus.Listener = ln
		r := &rig{t: t, org: org, bus: org.NewBus(bus), out: newOutput()}
		defer r.bus.Close()
		r.api = &fakeAPI{org: org}
		sh, err := shape.New(shape.Config{Identity: shape.Identity{OrgID: org.ID}})
		if err != nil {
			t.Fatal(err)
		}
		r.cfg = Config{
			API: r.api, OrgID: org.ID, Endpoint: Endpoint{Addr: "bus", Plaintext: true},
			Dial:   func(ctx context.Context, _ string) (net.Conn, error) { return ln.DialContext(ctx) },
			Replay: Earliest, Lost: LostEarliest, Shape: sh, Log: r.out.log.Logger(slog.LevelDebug),
			Output: outlet.Output{Records: r.out.records, RunID: "run", Instance: "here"},
		}
		f(r)
	})
}

// order is the topic that most tests read.
const order = "/event/Order_Shipped__e"

func schemaText(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../sftest/fixtures/avro", name+".avsc"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// define adds the topic order.
func (r *rig) define() {
	r.bus.DefineTopic(sftest.Topic{Name: order, Schema: schemaText(r.t, "Order_Shipped__e")})
	if len(r.cfg.Topics.Names) == 0 {
		r.cfg.Topics.Names = []string{order}
	}
}

// orderEvent is an event whose number shows in its line.
func orderEvent(n int) sftest.Event {
	return sftest.Event{Value: map[string]any{
		"CreatedDate": int64(1782900000000 + 1000*n), "CreatedById": "005", "Order_Number__c": fmt.Sprint(n),
		"Weight_Kg__c": nil, "Express__c": nil, "Shipped_At__c": nil, "Notes__c": nil,
	}}
}

func (r *rig) publish(from, to int) (ids [][]byte) {
	for n := from; n < to; n++ {
		ids = append(ids, r.bus.Publish(order, orderEvent(n))...)
	}
	return ids
}

// running is a source at work.
type running struct {
	*Source
	r    *rig
	stop context.CancelCauseFunc
	err  chan error
}

var errStop = errors.New("stopped by the test")

func (r *rig) start() *running {
	ctx, stop := context.WithCancelCause(r.t.Context())
	run := &running{Source: New(r.cfg), r: r, stop: stop, err: make(chan error, 1)}
	go func() { run.err <- run.Pull(ctx) }()
	return run
}

// end stops the source and returns what it says.
func (run *running) end() error {
	run.stop(errStop)
	return <-run.err
}

// pull runs a source to its own end.
func (r *rig) pull() (*Source, error) {
	run := r.start()
	return run.Source, <-run.err
}

// numbers are the numbers of the order events that were written.
func (r *rig) numbers() (list []string) {
	for _, rec := range r.out.all() {
		if rec.line != nil {
			list = append(list, fmt.Sprint(rec.line["Order_Number__c"]))
		}
	}
	return list
}

func count(from, to int) (list []string) {
	for n := from; n < to; n++ {
		list = append(list, fmt.Sprint(n))
	}
	return list
}

func (r *rig) wantNumbers(want []string) {
	r.t.Helper()
	if got := r.numbers(); !slices.Equal(got, want) {
		r.t.Errorf("events %v, want %v\n%s", got, want, r.out.log.String())
	}
}

// totals are the counters when all is quiet.
func (run *running) totals() Totals {
	synctest.Wait()
	return run.Stats().Totals()
}

// topic is the count of one topic.
func (run *running) topic(name string) TopicCount {
	for _, c := range run.totals().Topics {
		if c.Topic == name {
			return c
		}
	}
	return TopicCount{}
}

// output keeps what a source writes. It may be made to block.
type output struct {
	mu            sync.Mutex
	cond          *sync.Cond
	text          bytes.Buffer
	shut          bool
	lines, events int
	err           error
	log           logtest.Log
}

func newOutput() *output {
	o := &output{}
	o.cond = sync.NewCond(&o.mu)
	return o
}

func (o *output) records(lines []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.shut {
		o.cond.Wait()
	}
	if o.err != nil {
		return o.err
	}
	o.text.Write(lines)
	o.lines += bytes.Count(lines, []byte("\n")) - bytes.Count(lines, []byte(`"account":{`))
	o.events += bytes.Count(lines, []byte(`"line":"`))
	o.cond.Broadcast()
	return nil
}

// block has writers wait, or go on.
func (o *output) block(shut bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shut = shut
	o.cond.Broadcast()
}

// wait waits until n lines have been written, besides accounts.
func (o *output) wait(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.lines < n {
		o.cond.Wait()
	}
}

// waitEvents waits until n events have been written.
func (o *output) waitEvents(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.events < n {
		o.cond.Wait()
	}
}

type written struct {
	record.Record
	line map[string]any
}

// all gives what was written but for accounts, each record a copy.
func (o *output) all() []written {
	return slices.DeleteFunc(o.everything(), func(w written) bool { return w.Account != nil })
}

func (o *output) everything() (list []written) {
	o.mu.Lock()
	text := bytes.Clone(o.text.Bytes())
	o.mu.Unlock()
	for line := range bytes.Lines(text) {
		w := written{}
		if err := record.NewReader(bytes.NewReader(line)).Read(&w.Record); err != nil && !errors.Is(err, io.EOF) {
			var invalid *record.InvalidError
			if !errors.As(err, &invalid) {
				panic(fmt.Sprintf("%v: %s", err, line))
			}
		}
		if w.Line != nil {
			if err := json.Unmarshal(w.Line, &w.line); err != nil {
				panic(err)
			}
		}
		list = append(list, w)
	}
	return list
}

// letters are the dead letters with a reason.
func (o *output) letters(reason record.Reason) (list []written) {
	for _, w := range o.all() {
		if string(w.Reason) == string(reason) {
			list = append(list, w)
		}
	}
	return list
}

// fakeAPI hands out sessions of the org without its REST API.
type fakeAPI struct {
	org *sftest.Org

	mu      sync.Mutex
	token   string
	logins  int
	objects []string
	err     error // of Token
	getErr  error

	channels   []string
	toolingErr error
}

func (a *fakeAPI) Token(context.Context) (salesforce.Token, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return salesforce.Token{}, a.err
	}
	if a.token == "" {
		a.token = a.org.Session()
		a.logins++
	}
	return salesforce.Token{Access: a.token, InstanceURL: a.org.URL, OrgID: a.org.ID}, nil
}

func (a *fakeAPI) Drop(t salesforce.Token) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.token == t.Access {
		a.token = ""
	}
}

func (a *fakeAPI) Get(_ context.Context, path string) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if path != "sobjects/" {
		return nil, fmt.Errorf("asked for %s", path)
	}
	if a.getErr != nil {
		return nil, a.getErr
	}
	var list []map[string]string
	for _, name := range a.objects {
		list = append(list, map[string]string{"name": name})
	}
	return json.Marshal(map[string]any{"sobjects": list})
}

func (a *fakeAPI) QueryTooling(_ context.Context, soql string) iter.Seq2[json.RawMessage, error] {
	a.mu.Lock()
	defer a.mu.Unlock()
	channels, err := a.channels, a.toolingErr
	return func(yield func(json.RawMessage, error) bool) {
		if !strings.Contains(soql, "FROM PlatformEventChannel") {
			err = fmt.Errorf("asked %s", soql)
		}
		for _, c := range channels {
			if !yield(json.RawMessage(c), nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func (a *fakeAPI) setObjects(names ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.objects = names
}

func b64(id []byte) string { return base64.StdEncoding.EncodeToString(id) }

func minutes(n int) time.Duration { return time.Duration(n) * time.Minute }

func contains(t *testing.T, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("%q does not contain %q", text, want)
	}
}
