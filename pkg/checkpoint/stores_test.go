//go:build stores

package checkpoint_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/checkpointtest"
)

type server = checkpointtest.Server

func TestServers(t *testing.T) {
	for name, open := range checkpointtest.Servers(t, os.Getenv("STORES")) {
		t.Run(name, func(t *testing.T) {
			t.Run("conformance", func(t *testing.T) { conform(t, open) })
			t.Run("doctor", func(t *testing.T) { examine(t, open) })
			t.Run("two committers", func(t *testing.T) { commitTogether(t, open) })
			t.Run("same key", func(t *testing.T) { commitAgainst(t, open) })
		})
	}
}

var objects atomic.Int64

func conform(t *testing.T, open server) {
	checkpointtest.Run(t, func(t *testing.T) func() checkpoint.Store {
		key := fmt.Sprintf("conformance/%d.json", objects.Add(1))
		return func() checkpoint.Store { return open(t, key) }
	})
}

func examine(t *testing.T, open server) {
	store := open(t, "doctor.json")
	for range 2 {
		findings := checkpoint.Doctor(t.Context(), store)
		if err := checkpoint.Verdict(findings); err != nil {
			t.Errorf("%v: %+v", err, findings)
		}
		must(t, checkpoint.Update(t.Context(), store, 0, checkpoint.DefaultRetry, func(doc *checkpoint.Document) error {
			doc.Set("k", "1")
			return nil
		}))
	}
	if err := open(t, "doctor.json").(checkpoint.Preparer).Prepare(t.Context()); err != nil {
		t.Error(err)
	}
}

// Two committers with keys of their own share a document, at no more than a
// write an interval each.
func commitTogether(t *testing.T, open server) {
	const acks, interval = 10_000, 50 * time.Millisecond
	var wg sync.WaitGroup
	var writes atomic.Int64
	start := time.Now()
	for _, key := range []string{"a", "b"} {
		wg.Go(func() {
			c, err := checkpoint.NewCommitter(t.Context(), open(t, "shared.json"), 0, checkpoint.DefaultRetry)
			if err != nil {
				t.Error(err)
				return
			}
			due := time.NewTicker(interval)
			defer due.Stop()
			for i := 1; i <= acks; i++ {
				c.Stage(checkpoint.Position{Key: key, Value: strconv.Itoa(i)})
				if i%500 != 0 {
					continue
				}
				<-due.C
				writes.Add(1)
				if _, err := c.Write(t.Context(), func() error { return nil }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	doc, _, err := checkpoint.Load(t.Context(), open(t, "shared.json"))
	must(t, err)
	for _, key := range []string{"a", "b"} {
		if got, _ := doc.Get(key); got != strconv.Itoa(acks) {
			t.Errorf("%s is %s, want %d", key, got, acks)
		}
	}
	t.Logf("%d writes in %v", writes.Load(), time.Since(start))
}

func commitAgainst(t *testing.T, open server) {
	first, err := checkpoint.NewCommitter(t.Context(), open(t, "key.json"), 0, checkpoint.DefaultRetry)
	must(t, err)
	second, err := checkpoint.NewCommitter(t.Context(), open(t, "key.json"), 0, checkpoint.DefaultRetry)
	must(t, err)
	nothing := func() error { return nil }
	first.Stage(checkpoint.Position{Key: "k", Value: "1"})
	_, err = first.Write(t.Context(), nothing)
	must(t, err)
	second.Stage(checkpoint.Position{Key: "k", Value: "2"})
	if _, err = second.Write(t.Context(), nothing); err == nil || !strings.Contains(err.Error(), "another writer moved k") {
		t.Errorf("the second committer of a key: %v", err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
