// Package checkpointtest proves that a checkpoint.Store keeps its promises,
// and offers one in memory that breaks them on demand.
package checkpointtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"sf2loki/pkg/checkpoint"
)

// Run proves the promises of checkpoint.Store. fresh makes a place that holds
// no document yet and returns what opens a store on it, as another process
// would.
func Run(t *testing.T, fresh func(t *testing.T) (open func() checkpoint.Store)) {
	tests := []struct {
		name string
		run  func(t *testing.T, open func() checkpoint.Store)
	}{
		{"nothing there yet", testNothingYet},
		{"write and read", testWriteAndRead},
		{"first write only once", testFirstWriteOnce},
		{"wrong generation", testWrongGeneration},
		{"generation of a reader", testReadersGeneration},
		{"removed is not unchanged", testNeverExisted},
		{"large document", testLarge},
		{"any text", testText},
		{"cancelled", testCancelled},
		{"many writers", testManyWriters},
		{"many first writers", testManyFirst},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, fresh(t)) })
	}
}

func testNothingYet(t *testing.T, open func() checkpoint.Store) {
	data, gen, err := open().Get(t.Context())
	if !errors.Is(err, checkpoint.ErrNotFound) || data != nil || gen != "" {
		t.Fatalf("got %q, generation %q, %v; want ErrNotFound alone", data, gen, err)
	}
}

func testWriteAndRead(t *testing.T, open func() checkpoint.Store) {
	store, gen := open(), checkpoint.Generation("")
	for i := range 3 {
		text := fmt.Sprintf(`{"k":"%d"}`, i)
		next := put(t, store, text, gen)
		if next == "" || next == gen {
			t.Fatalf("write %d: generation %q after %q", i, next, gen)
		}
		gen = next
		wantContent(t, open(), text, gen)
	}
}

func testFirstWriteOnce(t *testing.T, open func() checkpoint.Store) {
	gen := put(t, open(), `{"a":"1"}`, "")
	wantConflict(t, open(), `{"a":"2"}`, "")
	wantContent(t, open(), `{"a":"1"}`, gen)
}

func testWrongGeneration(t *testing.T, open func() checkpoint.Store) {
	first := put(t, open(), `{"a":"1"}`, "")
	second := put(t, open(), `{"a":"2"}`, first)
	wantConflict(t, open(), `{"a":"3"}`, first)
	wantContent(t, open(), `{"a":"2"}`, second)
}

func testReadersGeneration(t *testing.T, open func() checkpoint.Store) {
	put(t, open(), `{"a":"1"}`, "")
	_, gen, err := open().Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put(t, open(), `{"a":"2"}`, gen)
}

func testNeverExisted(t *testing.T, open func() checkpoint.Store) {
	wantConflict(t, open(), `{"a":"1"}`, "0123456789abcdef0123456789abcdef")
	testNothingYet(t, open)
}

func testLarge(t *testing.T, open func() checkpoint.Store) {
	text := `{"a":"` + string(bytes.Repeat([]byte("0123456789abcdef"), 1<<16)) + `"}`
	gen := put(t, open(), text, "")
	wantContent(t, open(), text, gen)
}

func testText(t *testing.T, open func() checkpoint.Store) {
	text := "{\"/event/Ünï \u2028 \U0001f600\":\"\\u0000 \\\" \\\\ <>&\"}\r\n\n"
	gen := put(t, open(), text, "")
	wantContent(t, open(), text, gen)
}

func testCancelled(t *testing.T, open func() checkpoint.Store) {
	gen := put(t, open(), `{"a":"1"}`, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := open().Get(ctx); err == nil {
		t.Error("a cancelled Get succeeded")
	}
	// A cancelled Put may do either, but never half of it.
	next, err := open().Put(ctx, []byte(`{"a":"2"}`), gen)
	if err != nil {
		wantContent(t, open(), `{"a":"1"}`, gen)
		return
	}
	wantContent(t, open(), `{"a":"2"}`, next)
}

// testManyWriters lets writers count together: every success counts once.
func testManyWriters(t *testing.T, open func() checkpoint.Store) {
	const writers, each = 8, 10
	put(t, open(), "0", "")
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			store := open()
			for range each {
				if err := increment(t.Context(), store); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	data, _, err := open().Get(t.Context())
	if err != nil || string(data) != strconv.Itoa(writers*each) {
		t.Fatalf("%d increments made %q, %v", writers*each, data, err)
	}
}

func increment(ctx context.Context, store checkpoint.Store) error {
	for {
		data, gen, err := store.Get(ctx)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(data))
		if err != nil {
			return fmt.Errorf("a torn document: %w", err)
		}
		_, err = store.Put(ctx, []byte(strconv.Itoa(n+1)), gen)
		if !errors.Is(err, checkpoint.ErrConflict) {
			return err
		}
	}
}

func testManyFirst(t *testing.T, open func() checkpoint.Store) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var winners []string
	for i := range 8 {
		wg.Go(func() {
			text := fmt.Sprintf(`{"winner":"%d"}`, i)
			_, err := open().Put(t.Context(), []byte(text), "")
			if errors.Is(err, checkpoint.ErrConflict) {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			winners = append(winners, text)
		})
	}
	wg.Wait()
	if len(winners) != 1 {
		t.Fatalf("%d writers made the first document: %q", len(winners), winners)
	}
	data, _, err := open().Get(t.Context())
	if err != nil || string(data) != winners[0] {
		t.Fatalf("the winner wrote %q; stored is %q, %v", winners[0], data, err)
	}
}

func put(t *testing.T, store checkpoint.Store, text string, ifGen checkpoint.Generation) checkpoint.Generation {
	t.Helper()
	gen, err := store.Put(t.Context(), []byte(text), ifGen)
	if err != nil {
		t.Fatalf("write %.80q at generation %q: %v", text, ifGen, err)
	}
	return gen
}

func wantConflict(t *testing.T, store checkpoint.Store, text string, ifGen checkpoint.Generation) {
	t.Helper()
	if _, err := store.Put(t.Context(), []byte(text), ifGen); !errors.Is(err, checkpoint.ErrConflict) {
		t.Fatalf("write at the wrong generation %q: %v; want ErrConflict", ifGen, err)
	}
}

func wantContent(t *testing.T, store checkpoint.Store, text string, gen checkpoint.Generation) {
	t.Helper()
	data, got, err := store.Get(t.Context())
	if err != nil || string(data) != text || got != gen {
		t.Fatalf("stored is %.80q, generation %q, %v; want %.80q, %q", data, got, err, text, gen)
	}
}
