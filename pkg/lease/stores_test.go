//go:build stores

package lease_test

import (
	"errors"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/checkpointtest"
	"sf2loki/pkg/lease"
)

// Contenders for one lease on a real server: every epoch has one leader, whose
// commits alone are accepted.
func TestServers(t *testing.T) {
	for name, open := range checkpointtest.Servers(t, os.Getenv("STORES")) {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			seen := map[uint64]string{}
			var wg sync.WaitGroup
			for _, id := range []string{"a", "b", "c"} {
				wg.Go(func() {
					for range 5 {
						epoch, err := leadOnce(t, open, id)
						if err != nil {
							t.Errorf("%s: %v", id, err)
							return
						}
						mu.Lock()
						if other, twice := seen[epoch]; twice {
							t.Errorf("%s and %s lead in epoch %d", other, id, epoch)
						}
						seen[epoch] = id
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			if len(seen) != 15 {
				t.Errorf("%d terms", len(seen))
			}
		})
	}
}

func leadOnce(t *testing.T, open checkpointtest.Server, id string) (uint64, error) {
	document := open(t, "led.json")
	e := lease.New(lease.Config{Backend: lease.Documents(open(t, "led.lease")), Fences: []checkpoint.Store{document}, ID: id,
		TTL: 3 * time.Second, Renew: 200 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})
	term, err := e.Acquire(t.Context(), time.Minute)
	if err != nil {
		return 0, err
	}
	c, err := checkpoint.NewCommitter(t.Context(), document, term.Epoch(), checkpoint.DefaultRetry)
	if err == nil {
		c.Stage(checkpoint.Position{Key: "k", Value: id + time.Now().String()})
		_, err = c.Write(t.Context(), func() error { return nil })
	}
	return term.Epoch(), errors.Join(err, term.End(t.Context()))
}
