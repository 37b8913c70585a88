package cli

import (
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// The bounds of what serves metrics and status. A scrape is small and Prometheus
// gives it 10 s; one that keeps its connection comes again within minutes.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = time.Minute
	idleTimeout   = 3 * time.Minute
	headerBytes   = 16 << 10
	mostClients   = 64
)

// newServer returns a server that no client can hold up or fill: each has its
// time for everything, and there are so many at most.
func newServer(h http.Handler) *http.Server {
	c := &clients{active: map[net.Conn]bool{}}
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: headerBytes,
		ConnState:      c.changed,
	}
}

// clients are the connections that are open. One too many takes the place of
// another, so that those who ask for nothing keep nobody out.
type clients struct {
	mu     sync.Mutex
	open   []net.Conn // in the order in which they came
	active map[net.Conn]bool
}

func (c *clients) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		if len(c.open) >= mostClients {
			victim := c.open[c.idlest()]
			c.forget(victim)
			victim.Close()
		}
		c.open = append(c.open, conn)
	case http.StateActive:
		c.active[conn] = true
	case http.StateIdle:
		delete(c.active, conn)
	case http.StateClosed, http.StateHijacked:
		c.forget(conn)
	}
}

// idlest is the oldest of those that wait for a request, or of all when none does.
func (c *clients) idlest() int {
	return max(0, slices.IndexFunc(c.open, func(conn net.Conn) bool { return !c.active[conn] }))
}

func (c *clients) forget(conn net.Conn) {
	delete(c.active, conn)
	if i := slices.Index(c.open, conn); i >= 0 {
		c.open = slices.Delete(c.open, i, i+1)
	}
}
