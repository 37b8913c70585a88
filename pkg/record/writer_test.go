package record

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sf2loki/pkg/sysexits"
)

// chunks notes each write.
type chunks struct {
	mu     sync.Mutex
	writes []string
	err    error
}

func (c *chunks) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	c.writes = append(c.writes, string(p))
	return len(p), nil
}

func (c *chunks) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.writes)
}

func TestWriterFlushesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out chunks
		w := NewWriter(&out)
		for round := 1; round <= 3; round++ {
			_ = w.WriteRaw([]byte("{}\n"))
			_ = w.Write(&Record{CheckpointOnly: true})
			time.Sleep(FlushDelay - time.Millisecond)
			if len(out.all()) != round-1 {
				t.Errorf("round %d: written early: %q", round, out.all())
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if len(out.all()) != round || out.all()[round-1] != "{}\n{\"checkpoint_only\":true}\n" {
				t.Errorf("round %d: %q", round, out.all())
			}
		}
	})
}

func TestWriterBuffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out chunks
		w := NewWriter(&out)
		line := []byte(strings.Repeat("x", 1023) + "\n")
		for range 63 {
			_ = w.WriteRaw(line)
		}
		if len(out.all()) != 0 {
			t.Fatalf("%d writes before the buffer is full", len(out.all()))
		}
		_ = w.WriteRaw(line)
		if len(out.all()) != 1 || len(out.all()[0]) != 64<<10 {
			t.Fatalf("%d writes", len(out.all()))
		}
		huge := bytes.Repeat(line, 3<<10)
		_ = w.WriteRaw(huge)
		if err := w.Flush(); err != nil || len(out.all()) != 2 || out.all()[1] != string(huge) {
			t.Fatalf("%d writes, %v", len(out.all()), err)
		}
		if err := w.Flush(); err != nil || len(out.all()) != 2 {
			t.Fatalf("an empty buffer was written, %v", err)
		}
	})
}

// An error of the timer's write reaches the next call, and stays.
func TestWriterError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWriter(&chunks{err: syscall.EPIPE})
		if err := w.WriteRaw([]byte("{}\n")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(FlushDelay)
		synctest.Wait()
		for range 2 {
			for _, err := range []error{w.WriteRaw([]byte("{}\n")), w.Write(&Record{}), w.Flush()} {
				if !errors.Is(err, syscall.EPIPE) || sysexits.Of(err) != sysexits.IOErr {
					t.Fatalf("%v", err)
				}
			}
		}
	})
}

// The goroutine that writes and the timer do not disturb each other.
func TestWriterKeepsLinesWhole(t *testing.T) {
	pr, pw := io.Pipe()
	go func() {
		w := NewWriter(pw)
		for range 5000 {
			_ = w.Write(&Record{CheckpointOnly: true, Key: []byte("k")})
			_ = w.WriteRaw([]byte(login))
		}
		_ = w.Flush()
		pw.Close()
	}()
	recs, errs := readAll(pr)
	if len(recs) != 10000 || errs[len(errs)-1] != io.EOF {
		t.Errorf("%d records, %v", len(recs), errs[len(errs)-1])
	}
}
