package cli

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are of memory, so that the clock of a
// test is theirs too.
type pipes struct {
	conns chan net.Conn
	open  atomic.Int64
}

type pipe struct {
	net.Conn
	once atomic.Bool
	l    *pipes
}

func (p *pipe) Close() error {
	if !p.once.Swap(true) {
		p.l.open.Add(-1)
	}
	return p.Conn.Close()
}

func (l *pipes) Accept() (net.Conn, error) {
	c, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (l *pipes) Close() error   { return nil }
func (l *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

func (l *pipes) dial() net.Conn {
	client, server := net.Pipe()
	l.open.Add(1)
	l.conns <- &pipe{Conn: server, l: l}
	return client
}

// listening starts a server in a bubble; stop ends it.
func listening(t *testing.T, h http.HandlerFunc) (l *pipes, stop func()) {
	l = &pipes{conns: make(chan net.Conn)}
	srv := newServer(h)
	done := make(chan struct{})
	go func() {
		_ = srv.Serve(l) // ends with net.ErrClosed
		close(done)
	}()
	return l, func() {
		close(l.conns)
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		<-done
		time.Sleep(time.Minute) // a connection lingers for a moment
	}
}

func longPage(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, strings.Repeat("a long page\n", 100_000)) // the client may go
}

// Nobody who is slow, in whatever, keeps a connection for long.
func TestSlowClients(t *testing.T) {
	const request = "GET / HTTP/1.1\r\nHost: x\r\n"
	drip := func(text string, answer bool) func(net.Conn) {
		return func(c net.Conn) {
			if answer {
				go io.Copy(io.Discard, c)
			}
			for i := 0; ; i++ {
				b := byte('x')
				if i < len(text) {
					b = text[i]
				}
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}
	}
	for name, test := range map[string]struct {
		do   func(net.Conn)
		most time.Duration
	}{
		"no byte":              {func(c net.Conn) { io.Copy(io.Discard, c) }, headerTimeout},
		"a byte a second":      {drip(request, true), headerTimeout},
		"a body by the second": {func(c net.Conn) { io.WriteString(c, request+"Content-Length: 1000\r\n\r\n"); drip("", true)(c) }, readTimeout},
		"reads nothing":        {func(c net.Conn) { io.WriteString(c, request+"\r\n"); time.Sleep(time.Hour) }, writeTimeout},
		"reads a byte a second": {func(c net.Conn) {
			io.WriteString(c, request+"\r\n")
			for b := make([]byte, 1); ; time.Sleep(time.Second) {
				if _, err := c.Read(b); err != nil {
					return
				}
			}
		}, writeTimeout},
		"comes never again": {func(c net.Conn) {
			io.WriteString(c, request+"\r\n")
			io.Copy(io.Discard, c)
		}, idleTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, stop := listening(t, longPage)
				c := l.dial()
				begun := time.Now()
				go test.do(c)
				for l.open.Load() > 0 && time.Since(begun) < time.Hour {
					time.Sleep(100 * time.Millisecond)
				}
				if took := time.Since(begun); took > test.most+2*time.Second {
					t.Errorf("open for %v", took)
				}
				c.Close()
				time.Sleep(2 * time.Hour)
				stop()
			})
		})
	}
}

func get(c net.Conn) (status int, size int64, err error) {
	if _, err := fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return 0, 0, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	size, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, size, err
}

// However many connect, so many are open, and who comes last is served; so is
// who comes every two minutes by the same connection, among those who never ask.
func TestManyClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, stop := listening(t, longPage)
		var all []net.Conn
		for range 1000 {
			all = append(all, l.dial())
			synctest.Wait()
			if n := l.open.Load(); n > mostClients {
				t.Fatalf("%d are open", n)
			}
		}
		c := l.dial()
		if status, size, err := get(c); status != 200 || size != 1_200_000 || err != nil {
			t.Errorf("the last one: %d, %d bytes, %v", status, size, err)
		}
		for range 3 {
			time.Sleep(2 * time.Minute)
			if status, _, err := get(c); status != 200 || err != nil {
				t.Errorf("again: %d, %v", status, err)
			}
		}
		synctest.Wait()
		if n := l.open.Load(); n != 1 {
			t.Errorf("%d are open, those who never asked are to be gone", n)
		}
		c.Close()
		for _, c := range all {
			c.Close()
		}
		stop()
	})
}

func TestLongHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, stop := listening(t, longPage)
		c := l.dial()
		go func() {
			fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n", strings.Repeat("x", 1<<20))
		}()
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%+v, %v", resp, err)
		}
		c.Close()
		stop()
	})
}
