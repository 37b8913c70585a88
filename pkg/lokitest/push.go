package lokitest

import (
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/golang/snappy"
)

const pushPath = "/loki/api/v1/push"

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(pushPath, s.servePush)
	mux.HandleFunc("GET /ready", s.serveReady)
	mux.HandleFunc("GET /metrics", s.serveMetrics)
	mux.HandleFunc("POST /flush", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /loki/api/v1/status/buildinfo", s.serveBuildInfo)
	mux.HandleFunc("GET /loki/api/v1/query_range", s.serveQueryRange)
	mux.HandleFunc("GET /loki/api/v1/query", s.serveQuery)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.admitted(r) {
			w.Header().Set("WWW-Authenticate", `Basic realm="loki"`)
			http.Error(w, "unauthorized", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// servePush reads a push, asks the script, and answers.
func (s *Server) servePush(w http.ResponseWriter, r *http.Request) {
	req := Request{Time: s.config.Now(), Method: r.Method, Header: r.Header.Clone()}
	tenant, refused := s.tenantOf(r)
	req.Tenant = tenant
	if r.Method != http.MethodPost {
		refused = &refusal{status: http.StatusMethodNotAllowed}
	}
	var streams []pushed
	var labels [][]Label
	if refused == nil {
		streams, labels, refused = s.decode(r, &req)
	}
	script := s.begin(&req, streams)
	var answer *Answer
	if script != nil {
		answer = script(req.N, req)
	}
	if answer == nil {
		answer = &Answer{Store: true, Delay: s.config.Latency}
	}
	s.wait(r, answer.Delay)
	if answer.Store {
		if refused == nil {
			refused = s.store(&req, r.Header.Get("X-Loki-Backfill-Shard"), streams, labels)
		}
		if answer.Status == 0 && answer.Body == "" && refused != nil {
			answer.Status, answer.Body = refused.status, refused.text
		}
	}
	if answer.Hang {
		s.wait(r, time.Duration(1<<62))
	}
	if answer.Status == 0 {
		answer.Status = http.StatusNoContent
	}
	s.end(&req, answer)
	send(w, answer)
}

// wait waits, and no longer than the client or the server does.
func (s *Server) wait(r *http.Request, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	case <-s.done:
	}
}

// begin notes that a request came, and returns the script for it.
func (s *Server) begin(req *Request, streams []pushed) Script {
	for _, p := range streams {
		st := Stream{Labels: p.labels}
		if !s.config.Forget {
			for _, e := range p.entries {
				st.Entries = append(st.Entries, Entry{Stream: p.labels, Nanos: e.seconds*1e9 + int64(e.nanos), Line: e.line, Metadata: e.metadata})
			}
		}
		req.Streams = append(req.Streams, st)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	req.N = s.stats.Requests
	s.stats.Requests++
	if !s.config.Forget {
		s.requests = append(s.requests, *req)
	}
	s.running++
	s.stats.MaxInFlight = max(s.stats.MaxInFlight, s.running)
	for _, p := range streams {
		s.stats.Received += len(p.entries)
		key := req.Tenant + "\x00" + p.labels
		s.inFlight[key]++
		s.stats.MaxInFlightPerStream = max(s.stats.MaxInFlightPerStream, s.inFlight[key])
	}
	return s.script
}

// end notes the answer, before the client sees it.
func (s *Server) end(req *Request, a *Answer) {
	status := a.Status
	if a.Reset {
		status = 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	for _, st := range req.Streams {
		key := req.Tenant + "\x00" + st.Labels
		if s.inFlight[key]--; s.inFlight[key] == 0 {
			delete(s.inFlight, key)
		}
	}
	s.stats.Statuses[status]++
	if !s.config.Forget {
		s.requests[req.N].Status, s.requests[req.N].Answer = status, a.Body
	}
}

func (s *Server) store(req *Request, backfill string, streams []pushed, labels [][]Label) *refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.emptyRing {
		return refuse(http.StatusInternalServerError, "empty ring")
	}
	return s.push(req.Tenant, backfill, streams, labels)
}

// send writes the answer, or breaks off.
func send(w http.ResponseWriter, a *Answer) {
	if a.Reset {
		reset(w)
		return
	}
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	if a.Body == "" && !a.Cut {
		w.WriteHeader(a.Status)
		return
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
	}
	body := a.Body
	if !strings.HasSuffix(body, "\n") && a.Header.Get("Content-Type") == "" {
		body += "\n"
	}
	if a.Cut {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)+100))
	}
	w.WriteHeader(a.Status)
	_, _ = io.WriteString(w, body)
	if a.Cut {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// reset ends the connection so that the client sees a reset, where it can.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// decode reads the body, in Loki's order: encoding, type, size, compression,
// form, labels.
func (s *Server) decode(r *http.Request, req *Request) ([]pushed, [][]Label, *refusal) {
	s.mu.Lock()
	limits := s.tenant(req.Tenant).limits
	s.mu.Unlock()
	encoding := r.Header.Get("Content-Encoding")
	switch encoding {
	case "", "snappy", "gzip", "deflate":
	default:
		return nil, nil, refuse(http.StatusBadRequest, "Content-Encoding %q not supported", encoding)
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return nil, nil, refuse(http.StatusBadRequest, "%s", err)
	}
	raw, refused := readBody(r, limits.MaxRecvMsgSize)
	if refused != nil {
		return nil, nil, refused
	}
	if !s.config.Forget {
		req.Body = raw
	}
	body, refused := decompress(raw, encoding, kind == "application/json", limits.MaxDecompressedSize)
	if refused != nil {
		return nil, nil, refused
	}
	req.Size = len(body)
	var streams []pushed
	if kind == "application/json" {
		streams, err = decodeJSON(body)
	} else {
		streams, err = decodeProtobuf(body)
	}
	if err != nil {
		return nil, nil, refuse(http.StatusBadRequest, "%s", err)
	}
	labels, refused := parseAll(streams)
	return streams, labels, refused
}

func parseAll(streams []pushed) ([][]Label, *refusal) {
	if len(streams) == 0 {
		return nil, refuse(http.StatusUnprocessableEntity, "error at least one valid stream is required for ingestion")
	}
	all := make([][]Label, len(streams))
	for i, p := range streams {
		labels, err := parseLabels(p.labels)
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "couldn't parse labels: %s", err)
		}
		for _, l := range labels {
			if l.Name == "__backfill__" || l.Name == "__backfill_shard__" {
				return nil, refuse(http.StatusBadRequest, "streams must not contain the reserved labels __backfill__ or __backfill_shard__; "+
					"set the X-Loki-Backfill-Shard header to mark a push as backfill data")
			}
		}
		all[i] = labels
	}
	return all, nil
}

func readBody(r *http.Request, limit int) ([]byte, *refusal) {
	if r.ContentLength > int64(limit) {
		return nil, refuse(http.StatusRequestEntityTooLarge, "request body too large: message size too large than max (%d vs %d)", r.ContentLength, limit)
	}
	raw, err := io.ReadAll(io.LimitReader(r.Body, int64(limit)+1))
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "%s", err)
	}
	if len(raw) > limit {
		return nil, refuse(http.StatusRequestEntityTooLarge, "request body too large: message size too large than max (%d vs %d)", limit+1, limit)
	}
	return raw, nil
}

// decompress undoes the encoding of the transport, and, for what is not JSON,
// the snappy block inside it.
func decompress(raw []byte, encoding string, isJSON bool, limit int) ([]byte, *refusal) {
	tooLarge := func(n int) *refusal {
		return refuse(http.StatusRequestEntityTooLarge, "request body too large: decompressed message size too large than max (%d vs %d)", n, limit)
	}
	var src io.Reader
	var err error
	switch encoding {
	case "gzip":
		src, err = gzip.NewReader(strings.NewReader(string(raw)))
	case "deflate":
		src = flate.NewReader(strings.NewReader(string(raw)))
	}
	if err == nil && src != nil {
		raw, err = io.ReadAll(io.LimitReader(src, int64(limit)+1))
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), err != nil && encoding == "deflate":
		return nil, refuse(http.StatusBadRequest, "EOF")
	case err != nil:
		return nil, refuse(http.StatusBadRequest, "%s", err)
	case len(raw) > limit && (isJSON || src != nil):
		return nil, tooLarge(len(raw))
	case isJSON:
		return raw, nil
	}
	n, err := snappy.DecodedLen(raw)
	if err == nil && n > limit {
		return nil, tooLarge(n)
	}
	body, err := snappy.Decode(nil, raw)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "%s", err)
	}
	return body, nil
}
