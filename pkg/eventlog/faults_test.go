package eventlog

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"sf2loki/pkg/sftest"
)

// #69: a token is a position and never a list, also behind one that was: a row
// bears as much of it when two hundred files have been read at one time.
func TestTokensStaySmall(t *testing.T) {
	b := newBench(t)
	at := now.Add(-time.Hour)
	var done []string
	for i := range 200 {
		id := b.org.AddLogFile(sftest.LogFile{EventType: "Login", LogDate: hourOf(i % 24), Created: at,
			Body: sftest.Hour{Type: "Login", Start: hourOf(i % 24), Rows: 1, Seed: uint64(i)}.CSV()})
		done = append(done, fmt.Sprintf("[%q,%q]", id, at.Format("2006-01-02T15:04:05.000+0000")))
	}
	b.doc["eventlogfile:Login"] = `{"ids":[` + strings.Join(done, ",") + `],"last_created":"` + at.Format("2006-01-02T15:04:05.000+0000") + `"}`
	b.org.AddHour(login(10, 500), created(at.Add(time.Minute)))
	if err := b.pull("Login"); err != nil {
		t.Fatal(err)
	}
	b.wantRows(500)
	for _, l := range b.lines {
		if len(l.Value) > 200 {
			t.Fatalf("a token of %d bytes: %.300s", len(l.Value), l.Value)
		}
	}
}

// meeting holds each download until several of them are under way.
type meeting struct {
	API
	mu   sync.Mutex
	left int
	full chan struct{}
}

func (m *meeting) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	m.mu.Lock()
	if m.left--; m.left == 0 {
		close(m.full)
	}
	m.mu.Unlock()
	select {
	case <-m.full:
		return m.API.Open(ctx, path)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// #25: as many types as --concurrency says are downloaded at once.
func TestTypesAtOnce(t *testing.T) {
	b := newBench(t)
	types := []string{"API", "Login", "Logout", "URI"}
	for _, name := range types {
		b.org.AddHour(sftest.Hour{Type: name, Start: hourOf(10), Rows: 3})
	}
	b.config = func(c *Config) { c.API = &meeting{API: c.API, left: c.Concurrency, full: make(chan struct{})} }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for those that never meet
	defer cancel()
	if err := b.pullContext(ctx, types...); err != nil {
		t.Fatal(err)
	}
	b.wantRows(3 * len(types))
}

// #68-1: each org's margin is judged by its own clock, also where one program
// asks two.
func TestTwoOrgsTwoClocks(t *testing.T) {
	late, right := newBench(t), newBench(t)
	late.org.SetSkew(-10 * time.Minute)
	for _, b := range []*bench{late, right} {
		b.org.AddHour(login(10, 5), created(now.Add(-6*time.Minute)))
	}
	for i, step := range []struct {
		b    *bench
		rows int
	}{{late, 0}, {right, 5}, {late, 0}} {
		if err := step.b.pull("Login"); err != nil {
			t.Fatal(err)
		}
		if got := len(step.b.rows()); got != step.rows {
			t.Errorf("step %d: %d rows, want %d", i, got, step.rows)
		}
	}
	late.org.SetSkew(0)
	if err := late.pull("Login"); err != nil {
		t.Fatal(err)
	}
	late.wantRows(5)
}
