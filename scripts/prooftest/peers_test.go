package prooftest

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sf2loki/scripts/testbed"
)

// peer is a program with something on its far side that means no good, and how
// much memory the program may take, by its manual page, in MiB.
type peer struct {
	name    string
	command string // the program and its flags
	ceiling int64
	input   func(w io.Writer, offered int64) // what comes in; nil: nothing
	file    func(w io.Writer, offered int64) // what is in letters.ndjson
	unread  bool                             // nobody reads what goes out
	answers *answers                         // nil: there is no server that means no good
	patient bool                             // it is asked to stop once, and ends its own command then
	output  *beginning                       // what goes out, when that is of interest
	says    string                           // what is told of the trouble, at least
}

// answers is what a server means by that: what it answers with, as much of it
// as is offered, and which requests it answers so.
type answers struct {
	to    string // a part of the path; "": all
	write func(w http.ResponseWriter, r *http.Request, offered int64)
	times int64 // after so many of them the program is asked to stop; 0: never
}

// offer is how many bytes a peer offers: PROOFTEST_OFFER_MB, 10000 by `make peers`.
func offer(t *testing.T) int64 {
	return int64(number(t, "PROOFTEST_OFFER_MB", 64)) << 20
}

// patience is how long a program is watched that nobody lets go on.
func patience(t *testing.T) time.Duration {
	return time.Duration(number(t, "PROOFTEST_HANG_SECONDS", 2)) * time.Second
}

// meet runs the program against its peer and looks at its memory. env is what
// the program finds its peer by.
func (p *peer) meet(t *testing.T, b *testbed.Bed, stop <-chan struct{}) {
	t.Helper()
	args := strings.Fields(p.command)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(testbed.Bin(t), args[0]), args[1:]...)
	cmd.Dir, cmd.Env = b.Dir, b.Env
	cmd.WaitDelay = time.Second
	said := &beginning{most: 16 << 10}
	cmd.Stderr = said
	if p.output != nil {
		cmd.Stdout = p.output
	}
	var in io.WriteCloser
	if p.input != nil {
		var err error
		if in, err = cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
	}
	if p.unread {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		cmd.Stdout = w
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var offered atomic.Int64
	if in != nil {
		go func() {
			defer in.Close()
			p.input(&counter{in, &offered}, offer(t))
		}()
	}
	most, ended := watch(cmd.Process.Pid), make(chan struct{})
	go func() {
		select {
		case <-stop:
			_ = cmd.Process.Signal(syscall.SIGTERM)
		case <-ended:
			return
		}
		if p.patient {
			return // at a second signal it would leave the command behind
		}
		again := time.NewTimer(5 * time.Second)
		defer again.Stop()
		select {
		case <-again.C: // what writes into a full pipe sees the first at its next line
			_ = cmd.Process.Signal(syscall.SIGTERM)
		case <-ended:
		}
	}()
	_ = cmd.Wait() // the status tells
	close(ended)
	peak := most()
	t.Logf("%s: %d MiB at most, ceiling %d, status %d, %d MB taken", p.name, peak>>20, p.ceiling, cmd.ProcessState.ExitCode(), offered.Load()>>20)
	ws, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	asked := ws.Signaled() && ws.Signal() == syscall.SIGTERM
	if status := ws.ExitStatus(); ctx.Err() != nil || status == 2 || status == 64 || status == 70 || status < 0 && !asked {
		t.Errorf("status %d, %v: %s", status, ctx.Err(), said)
	}
	if text := said.String(); !strings.Contains(text, p.says) || strings.Contains(text, "goroutine ") {
		t.Errorf("it does not tell of %q, or tells too much: %s", p.says, text)
	}
	if peak>>20 > p.ceiling {
		t.Errorf("%d MiB at most, the manual says less than %d\n%s", peak>>20, p.ceiling, said)
	}
}

// watch looks at how much memory a process has had at most, until the function
// is called that it returns. What the kernel tells of a process that has ended
// includes what its parent had when it was started.
func watch(pid int) func() int64 {
	var most atomic.Int64
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // it may have ended
			_, after, _ := strings.Cut(string(status), "VmHWM:")
			var kilobytes int64
			if _, err := fmt.Sscan(after, &kilobytes); err == nil {
				most.Store(max(most.Load(), kilobytes<<10))
			}
			select {
			case <-tick.C:
			case <-end:
				return
			}
		}
	}()
	return func() int64 {
		close(end)
		<-ended
		return most.Load()
	}
}

// beginning keeps the first bytes that are written to it.
type beginning struct {
	mu   sync.Mutex
	text []byte
	most int
}

func (b *beginning) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p[:min(len(p), b.most-len(b.text))]...)
	return len(p), nil
}

func (b *beginning) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}

type counter struct {
	w io.Writer
	n *atomic.Int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// flood writes the same text again and again, so many bytes in all, until the
// other side has had enough.
func flood(w io.Writer, text string, n int64) {
	page := bytes.Repeat([]byte(text), max(1, 1<<16/len(text)))
	for ; n > 0; n -= int64(len(page)) {
		if _, err := w.Write(page); err != nil {
			return
		}
	}
}

// raw answers with bytes of its own, on the connection itself.
func raw(w http.ResponseWriter, write func(c net.Conn)) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	write(c)
}

// ills are the answers that any client may get.
var ills = map[string]func(w http.ResponseWriter, r *http.Request, offered int64){
	"body without end": func(w http.ResponseWriter, _ *http.Request, n int64) {
		_, _ = io.WriteString(w, `{"done":true,"totalSize":1,"records":[{"Id":"`)
		flood(w, "x", n)
	},
	"blanks without end": func(w http.ResponseWriter, _ *http.Request, n int64) { flood(w, " ", n) },
	"compressed": func(w http.ResponseWriter, _ *http.Request, n int64) {
		w.Header().Set("Content-Encoding", "gzip")
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		flood(z, "\x00", n)
		_ = z.Close()
	},
	"compressed refusal": func(w http.ResponseWriter, _ *http.Request, n int64) {
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusServiceUnavailable)
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		flood(z, "\x00", n)
		_ = z.Close()
	},
	"refusal without end": func(w http.ResponseWriter, _ *http.Request, n int64) {
		w.WriteHeader(http.StatusServiceUnavailable)
		flood(w, "[", n)
	},
	"nested": func(w http.ResponseWriter, _ *http.Request, n int64) {
		_, _ = io.WriteString(w, `{"done":true,"totalSize":1,"records":[`)
		flood(w, `{"a":[`, n)
	},
	// What is nested, or has keys, just below the most that a client reads.
	"nested, whole": func(w http.ResponseWriter, _ *http.Request, _ int64) {
		const deep = 9000
		for range 3 << 20 / (2 * deep) {
			_, _ = io.WriteString(w, "["+strings.Repeat("[", deep)+strings.Repeat("]", deep)+"]")
		}
	},
	"keys, whole": func(w http.ResponseWriter, _ *http.Request, _ int64) {
		_, _ = io.WriteString(w, `{"done":true,"totalSize":1,"records":[{"Id":"07Lxx0000000001AAA"`)
		var page []byte
		for i := range 300_000 {
			page = fmt.Appendf(page[:0], `,"k%d":%d`, i, i)
			_, _ = w.Write(page)
		}
		_, _ = io.WriteString(w, "}]}")
	},
	"records, whole": func(w http.ResponseWriter, _ *http.Request, _ int64) {
		_, _ = io.WriteString(w, `{"done":true,"totalSize":1000000,"records":[{}`)
		flood(w, `,{}`, 3<<20)
		_, _ = io.WriteString(w, "]}")
	},
	"headers without end": func(w http.ResponseWriter, _ *http.Request, n int64) {
		raw(w, func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			flood(c, "X-A: "+strings.Repeat("y", 1000)+"\r\n", n)
		})
	},
	"short headers without end": func(w http.ResponseWriter, _ *http.Request, n int64) {
		raw(w, func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			flood(c, "a:\r\n", n)
		})
	},
	"one long header": func(w http.ResponseWriter, _ *http.Request, n int64) {
		raw(w, func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX-A: ")
			flood(c, "y", min(n, 100<<20))
			_, _ = io.WriteString(c, "\r\n\r\n")
		})
	},
	"informational answers without end": func(w http.ResponseWriter, _ *http.Request, n int64) {
		raw(w, func(c net.Conn) { flood(c, "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n", n) })
	},
	"trailers without end": func(w http.ResponseWriter, _ *http.Request, n int64) {
		raw(w, func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n")
			flood(c, "X-A: "+strings.Repeat("y", 1000)+"\r\n", n)
		})
	},
	"chunk extensions without end": func(w http.ResponseWriter, _ *http.Request, n int64) {
		raw(w, func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			flood(c, "1;"+strings.Repeat("y", 1000)+"\r\n \r\n", n)
		})
	},
	"length without a body": func(w http.ResponseWriter, _ *http.Request, _ int64) {
		raw(w, func(c net.Conn) {
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n{", int64(math.MaxInt64))
			_, _ = io.Copy(io.Discard, c) // until it is closed
		})
	},
	"a byte a second": func(w http.ResponseWriter, r *http.Request, _ int64) {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for r.Context().Err() == nil {
			if _, err := w.Write([]byte(" ")); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case <-tick.C:
			case <-r.Context().Done():
			}
		}
	},
	"nothing": func(_ http.ResponseWriter, r *http.Request, _ int64) { <-r.Context().Done() },
}

// hangs are those that a program has to be asked to stop at.
var hangs = map[string]bool{"a byte a second": true, "nothing": true, "length without a body": true, "informational answers without end": true}

// badly serves answers, and hands the requests that they are not for on to next.
// The channel is closed when the program has had its fill.
func badly(t *testing.T, a *answers, next http.Handler) (http.Handler, <-chan struct{}) {
	enough := make(chan struct{})
	var once sync.Once
	var n atomic.Int64
	tired := func() { once.Do(func() { close(enough) }) }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a == nil || !strings.Contains(r.URL.Path, a.to) {
			next.ServeHTTP(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		if a.times < 0 {
			timer := time.AfterFunc(patience(t), tired)
			defer timer.Stop()
		}
		a.write(w, r, offer(t))
		if n.Add(1) == a.times {
			tired()
		}
	}), enough
}
