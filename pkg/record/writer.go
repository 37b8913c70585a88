package record

import (
	"fmt"
	"io"
	"sync"
	"time"

	"sf2loki/pkg/sysexits"
)

// FlushDelay is how long a Writer keeps a line back at most.
const FlushDelay = 200 * time.Millisecond

// Writer writes lines through a buffer of 64 KiB, which it writes out when it
// is full and by itself after FlushDelay. One goroutine may use it.
type Writer struct {
	mu    sync.Mutex // between that goroutine and the timer
	w     io.Writer
	buf   []byte
	err   error
	timer *time.Timer
	armed bool
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer {
	return &Writer{w: w, buf: make([]byte, 0, bufferSize+4096)}
}

// Write writes rec as AppendRecord forms it. An error of the underlying
// writer, also one met between two calls, comes from every call after it.
func (w *Writer) Write(rec *Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.buf = AppendRecord(w.buf, rec)
	}
	return w.wrote()
}

// WriteRaw writes line, which ends with its line feed.
func (w *Writer) WriteRaw(line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.buf = append(w.buf, line...)
	}
	return w.wrote()
}

// Flush writes out what is buffered.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flush()
}

func (w *Writer) wrote() error {
	if w.err != nil || len(w.buf) >= bufferSize {
		return w.flush()
	}
	if !w.armed && len(w.buf) > 0 {
		w.armed = true
		if w.timer == nil {
			w.timer = time.AfterFunc(FlushDelay, w.expired)
		} else {
			w.timer.Reset(FlushDelay)
		}
	}
	return nil
}

func (w *Writer) expired() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
	_ = w.flush() // kept for the next call
}

func (w *Writer) flush() error {
	if w.err != nil || len(w.buf) == 0 {
		return w.err
	}
	if _, err := w.w.Write(w.buf); err != nil {
		w.err = sysexits.Wrap(sysexits.IOErr, fmt.Errorf("write records: %w", err))
	}
	w.buf = w.buf[:0]
	if cap(w.buf) > keepSize {
		w.buf = make([]byte, 0, bufferSize+4096)
	}
	return w.err
}
