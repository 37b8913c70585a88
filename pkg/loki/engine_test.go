package loki

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// trial is one run of an engine against a model Loki, in a bubble of time.
type trial struct {
	t       *testing.T
	loki    *modelLoki
	cfg     EngineConfig
	input   bytes.Buffer
	engine  *Engine
	acks    []record.Ack
	runs    []string
	letters []record.Record
	lines   [][]byte
	err     error
	took    time.Duration

	mu         sync.Mutex
	captureErr error
	noCapture  bool
	n          int
}

func newTrial(t *testing.T) *trial {
	return &trial{t: t, loki: newModelLoki(), cfg: EngineConfig{
		Limits: DefaultLimits(), HourLabel: "event_hour", Breaker: true, MaxLine: 256 << 10, AllowEmpty: true,
		StreamRate: 1200e3, NewStreams: 2000, Tenant: "7", Instance: "here", RunID: "own",
	}}
}

// entry writes a record of the event type Login.
func (tr *trial) entry(key, value, line string, age time.Duration) {
	tr.typed("Login", key, value, line, age)
}

func (tr *trial) typed(eventType, key, value, line string, age time.Duration) {
	tr.write(&record.Record{
		Time: time.Now().Add(-age).UnixNano() + int64(tr.n), HasTime: true,
		Labels: []record.Pair{{Name: []byte("source"), Value: []byte("eventlogfile")}, {Name: []byte("event_type"), Value: []byte(eventType)}},
		Line:   []byte(line), Key: orNil(key), Value: orNil(value),
	})
}

func (tr *trial) only(key, value string) {
	tr.write(&record.Record{CheckpointOnly: true, Key: orNil(key), Value: orNil(value)})
}

func orNil(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

func (tr *trial) write(rec *record.Record) {
	tr.n++
	tr.input.Write(record.AppendRecord(nil, rec))
}

func (tr *trial) capture(_ context.Context, letters [][]byte) (bool, error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.captureErr != nil {
		return false, tr.captureErr
	}
	for _, l := range letters {
		tr.lines = append(tr.lines, bytes.Clone(l))
	}
	return true, nil
}

// Write takes acknowledgements as they are written.
func (tr *trial) Write(p []byte) (int, error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	r := record.NewAckReader(bytes.NewReader(p))
	for {
		var a record.Ack
		err := r.Read(&a)
		if err == io.EOF {
			return len(p), nil
		}
		if err != nil {
			tr.t.Errorf("acknowledgement: %v in %q", err, p)
			return len(p), nil
		}
		if a.Run != nil {
			tr.runs = append(tr.runs, string(a.Run))
			continue
		}
		a.Account = bytes.Clone(a.Account)
		tr.acks = append(tr.acks, a)
	}
}

func (tr *trial) run(ctx context.Context, in io.Reader) {
	tr.t.Helper()
	if tr.cfg.Push == nil {
		tr.cfg.Push = tr.loki
	}
	if !tr.noCapture {
		tr.cfg.Capture = tr.capture
	}
	e, err := NewEngine(tr.cfg)
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.mu.Lock()
	tr.engine = e
	tr.mu.Unlock()
	began := time.Now()
	tr.err = e.Run(ctx, in, tr)
	tr.took = time.Since(began)
	tr.check()
}

// start runs what has been written so far as the whole input.
func (tr *trial) start() {
	tr.t.Helper()
	tr.run(context.Background(), &tr.input)
}

// check looks at what must be so after every run.
func (tr *trial) check() {
	tr.t.Helper()
	r := record.NewReader(bytes.NewReader(bytes.Join(tr.lines, nil)))
	for {
		var rec record.Record
		err := r.Read(&rec)
		var invalid *record.InvalidError
		if err == io.EOF {
			break
		}
		if err != nil && !errors.As(err, &invalid) {
			tr.t.Fatalf("dead letter: %v", err)
		}
		rec.Line, rec.Reason, rec.Raw = bytes.Clone(rec.Line), bytes.Clone(rec.Reason), bytes.Clone(rec.Raw)
		rec.DeadLetter, rec.Key = bytes.Clone(rec.DeadLetter), bytes.Clone(rec.Key)
		tr.letters = append(tr.letters, rec)
	}
	for _, text := range tr.loki.trouble {
		tr.t.Error("the client did what it must not: " + text)
	}
	for _, a := range tr.engine.Accounts() {
		sum := a.Delivered + a.DeadLettered + a.DroppedBudget + a.Unsettled
		for _, n := range a.Discarded {
			sum += n
		}
		if sum != a.Read {
			tr.t.Errorf("the account of %s does not balance: %+v", a.EventType, a)
		}
	}
}

// last is the last token acknowledged for a key.
func (tr *trial) last(key string) string {
	value := ""
	for _, a := range tr.acks {
		if a.Key == key {
			value = a.Value
		}
	}
	return value
}

func (tr *trial) reasons() map[record.Reason]int {
	n := map[record.Reason]int{}
	for _, l := range tr.letters {
		n[record.Reason(l.Reason)]++
	}
	return n
}

func (tr *trial) code() sysexits.Code { return sysexits.Of(tr.err) }

func (tr *trial) total() SourceAccount {
	var sum SourceAccount
	for _, a := range tr.engine.Accounts() {
		sum.Read += a.Read
		sum.Delivered += a.Delivered
		sum.DeadLettered += a.DeadLettered
		sum.DroppedBudget += a.DroppedBudget
		sum.Unsettled += a.Unsettled
	}
	return sum
}

func bubble(t *testing.T, fn func(t *testing.T, tr *trial)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { fn(t, newTrial(t)) })
}

func TestPushesInputAndAcknowledges(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		for i := range 2500 {
			tr.entry("k", fmt.Sprint(i), fmt.Sprintf(`{"n":%d}`, i), 10*time.Minute)
		}
		tr.only("k", "end")
		tr.start()
		if tr.err != nil {
			t.Fatal(tr.err)
		}
		if n := len(tr.loki.stored); n != 2500 {
			t.Errorf("%d entries stored", n)
		}
		if tr.last("k") != "end" || len(tr.acks) > 4 {
			t.Errorf("last token %q in %d acknowledgements", tr.last("k"), len(tr.acks))
		}
		sum := int64(0)
		for _, a := range tr.acks {
			sum += a.Delivered
		}
		if sum != 2500 || len(tr.letters) != 0 {
			t.Errorf("%d delivered by the acknowledgements, %d letters", sum, len(tr.letters))
		}
		for _, p := range tr.loki.requests {
			if p.size > 256<<10+64 {
				t.Errorf("a request of %d bytes", p.size)
			}
			if !strings.Contains(p.labels, `event_hour="`) {
				t.Errorf("labels %s", p.labels)
			}
		}
	})
}
