package loki

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"sf2loki/pkg/loki/pushpb"
)

// Under light load no entry waits longer for its batch to fill than the flush
// interval, whatever else comes in and however many streams there are.
func TestNothingWaitsForAFullBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t)
		pushed := &punctual{sent: map[string]time.Time{}}
		tr.cfg.Push = pushed
		tr.cfg.FlushInterval = 700 * time.Millisecond
		in, out := io.Pipe()
		go func() {
			rng := rand.New(rand.NewPCG(1, 2))
			for n := range 2000 {
				time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
				line := fmt.Sprint("line ", n)
				tr.typed(fmt.Sprint("Type", rng.IntN(20)), "k", fmt.Sprint(n), line, 0)
				pushed.note(line)
				out.Write(tr.input.Next(tr.input.Len())) // the engine reads to the end
			}
			out.Close()
		}()
		tr.run(context.Background(), in)
		if tr.err != nil || pushed.entries != 2000 {
			t.Fatal(tr.err, pushed.entries)
		}
		if pushed.most > tr.cfg.FlushInterval {
			t.Errorf("an entry waited for %v, longer than %v", pushed.most, tr.cfg.FlushInterval)
		}
		if pushed.most < tr.cfg.FlushInterval/2 {
			t.Errorf("no entry waited longer than %v: batches of one are wasteful", pushed.most)
		}
	})
}

// punctual stores everything and knows how long it took.
type punctual struct {
	mu      sync.Mutex
	sent    map[string]time.Time
	entries int
	most    time.Duration
}

func (p *punctual) note(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent[line] = time.Now()
}

func (p *punctual) Push(_ context.Context, push []byte) Answer {
	var req pushpb.PushRequest
	if err := proto.Unmarshal(push, &req); err != nil {
		return Answer{Err: err}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range req.Streams[0].Entries {
		p.entries++
		p.most = max(p.most, time.Since(p.sent[e.Line]))
	}
	return Answer{Status: 204}
}
