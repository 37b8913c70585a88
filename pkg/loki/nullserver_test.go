package loki

import (
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
)

// nullServer answers 204 to everything and counts it: what it costs beside a
// client is next to nothing, so a benchmark against it measures the client.
type nullServer struct {
	URL      string
	requests atomic.Int64
	bytes    atomic.Int64 // of bodies, as sent
}

func newNullServer(tb testing.TB) *nullServer {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &nullServer{URL: "http://" + l.Addr().String()}
	server := &http.Server{Handler: s}
	go func() { _ = server.Serve(l) }() // ends with Close
	tb.Cleanup(func() { server.Close() })
	return s
}

func (s *nullServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, _ := io.Copy(io.Discard, r.Body)
	s.requests.Add(1)
	s.bytes.Add(n)
	w.WriteHeader(http.StatusNoContent)
}
