// Package logtest keeps what is logged under test, by whatever goroutine.
package logtest

import (
	"bytes"
	"log/slog"
	"sync"
)

// Log is what was logged so far.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Logger logs into l what is at least of that level.
func (l *Log) Logger(least slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: least}))
}
