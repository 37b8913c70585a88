package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// letterFile makes a file of letters, larger than any pipe.
func letterFile(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&text, `{"ts":"2026-07-01T00:00:00Z","labels":{"source":"s","event_type":"t"},"line":"%d %s","reason":"too_old","captured_at":"2026-07-30T12:00:00Z","dead_letter":{"v":1,"id":"%016x"}}`+"\n",
			i, strings.Repeat("x", 200), i)
	}
	path := filepath.Join(t.TempDir(), "letters.ndjson")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// await waits for a condition.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}

// full tells whether a pipe takes no more.
func full(w *os.File) bool {
	poll := []unix.PollFd{{Fd: int32(w.Fd()), Events: unix.POLLOUT}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n == 0
}

// One signal ends a cat whose reader hangs, and the status says that records
// are left; when the reader goes on, all that was read is out, and 0.
func TestCatIsStopped(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		for _, hangs := range []bool{true, false} {
			letters := letterFile(t)
			report := filepath.Join(filepath.Dir(letters), "report")
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			var stderr bytes.Buffer
			cmd := &exec.Cmd{Path: exe, Args: []string{"dl-replay", "cat", "--report", report, letters}, Stdout: w, Stderr: &stderr}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			await(t, "the pipe is full", func() bool { return full(w) })
			if err := errors.Join(w.Close(), cmd.Process.Signal(signal)); err != nil {
				t.Fatal(err)
			}
			var out []byte
			if !hangs {
				if out, err = io.ReadAll(r); err != nil {
					t.Fatal(err)
				}
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case <-ended:
			case <-time.After(time.Minute):
				_ = cmd.Process.Kill()
				<-ended
			}
			want, text := 75, "records are left"
			if !hangs {
				want, text = 0, "account"
			}
			if status := cmd.ProcessState.ExitCode(); status != want || !strings.Contains(stderr.String(), text) {
				t.Errorf("%v, hangs %t: status %d (%v): %s", signal, hangs, status, cmd.ProcessState, &stderr)
			}
			account, err := os.ReadFile(report)
			if err != nil || bytes.Contains(account, []byte(`"balanced":false`)) || hangs == bytes.Contains(account, []byte(`"unwritten":0,`)) {
				t.Errorf("%v, hangs %t: %s, %v", signal, hangs, account, err)
			}
			if lines := bytes.Count(out, []byte("\n")); !hangs && (lines < 10 || lines >= 2000 || !bytes.HasSuffix(out, []byte(`"status":0}}`+"\n"))) {
				t.Errorf("%v: %d lines that end with %.100q", signal, lines, out[len(out)-100:])
			}
		}
	}
}
