package main

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/cli"
)

// The line that ends a good run waits for a slow reader, however long it
// takes; after a signal, not for ever.
func TestTheLastLineWaitsForASlowReader(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if _, err := w.Write(make([]byte, 64<<10)); err != nil { // all that fits
			t.Fatal(err)
		}
		app := cli.NewApp("loki-push")
		app.Stdout = w
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		p := &push{app: app, asked: ctx, begun: true}
		ended := make(chan error, 1)
		began := time.Now()
		go func() {
			status := 0
			ended <- p.runLine(&status)
		}()
		if stopped {
			stop()
			if err := <-ended; err == nil || time.Since(began) < lastLine {
				t.Errorf("stopped: %v after %s", err, time.Since(began))
			}
			w.Close()
			continue
		}
		select {
		case err := <-ended:
			t.Errorf("it did not wait: %v", err)
		case <-time.After(lastLine + 200*time.Millisecond):
		}
		text := make(chan string)
		go func() {
			all, _ := io.ReadAll(r)
			text <- string(all)
		}()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		w.Close()
		if got := <-text; !strings.Contains(got, `"status":0`) {
			t.Errorf("the last line is %q", strings.Trim(got, "\x00"))
		}
	}
}
