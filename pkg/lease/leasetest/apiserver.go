// Package leasetest offers an API server of Kubernetes that knows Leases, for
// tests of pkg/lease/k8s and of what uses it.
package leasetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// APIServer answers for Leases as kube-apiserver does: 409 with two reasons,
// 404, resourceVersion; and an update that changes nothing is taken whatever
// its version.
type APIServer struct {
	URL string

	mu      sync.Mutex
	leases  map[string]object // by namespace/name
	version int
	fault   func(w http.ResponseWriter, r *http.Request) bool
}

type object map[string]any

func (o object) metadata() map[string]any {
	m, ok := o["metadata"].(map[string]any)
	if !ok {
		m = map[string]any{}
		o["metadata"] = m
	}
	return m
}

// NewAPIServer starts one without any Lease.
func NewAPIServer(t testing.TB) *APIServer {
	t.Helper()
	s := &APIServer{leases: map[string]object{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Refuse answers with a Status.
func Refuse(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"the server's words","reason":%q,"code":%d}`, reason, code)
}

// Config is a configuration for kubectl that leads here, by a path of its own
// from which Asks tells who asks: without TLS no token is ever sent.
func (s *APIServer) Config(who string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c",
"clusters":[{"name":"c","cluster":{"server":%q}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
"users":[{"name":"u","user":{}}]}`, s.URL+asks+who)
}

const asks = "/asks/"

// Asks is who sent a request, by the configuration that it has.
func Asks(r *http.Request) string {
	rest, _ := strings.CutPrefix(r.URL.Path, asks)
	who, _, _ := strings.Cut(rest, "/apis/")
	return who
}

// Break has fn asked before every request; it answers those for which it says
// so.
func (s *APIServer) Break(fn func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fn
}

// Set lets somebody else write the Lease namespace/name.
func (s *APIServer) Set(name string, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var o object
	if err := json.Unmarshal(text, &o); err != nil {
		panic(err)
	}
	s.store(name, o)
}

// Remove takes a Lease away.
func (s *APIServer) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leases, name)
}

// Lease is the text of one; nil when there is none.
func (s *APIServer) Lease(name string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases[name] == nil {
		return nil
	}
	text, _ := json.Marshal(s.leases[name]) // it came as JSON
	return text
}

// Version is how many writes there were.
func (s *APIServer) Version() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

func (s *APIServer) store(name string, o object) object {
	s.version++
	namespace, own, _ := strings.Cut(name, "/")
	m := o.metadata()
	m["resourceVersion"], m["namespace"], m["name"] = strconv.Itoa(s.version), namespace, own
	o["kind"], o["apiVersion"] = "Lease", "coordination.k8s.io/v1"
	s.leases[name] = o
	return o
}

// ServeHTTP answers one request.
func (s *APIServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	s.mu.Lock()
	fault := s.fault
	s.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	path := r.URL.Path
	if strings.HasPrefix(path, asks) {
		path = strings.TrimPrefix(path, asks+Asks(r))
	}
	rest, ok := strings.CutPrefix(path, "/apis/coordination.k8s.io/v1/namespaces/")
	namespace, own, ok2 := strings.Cut(rest, "/leases")
	if !ok || !ok2 {
		Refuse(w, http.StatusNotFound, "NotFound")
		return
	}
	var sent object
	if r.Method != http.MethodGet && json.Unmarshal(body, &sent) != nil {
		Refuse(w, http.StatusBadRequest, "BadRequest")
		return
	}
	name := namespace + own
	if r.Method == http.MethodPost {
		name = fmt.Sprintf("%s/%s", namespace, sent.metadata()["name"])
	}
	s.answer(w, r.Method, name, sent)
}

func (s *APIServer) answer(w http.ResponseWriter, method, name string, sent object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.leases[name]
	switch {
	case method == http.MethodPost && now != nil:
		Refuse(w, http.StatusConflict, "AlreadyExists")
		return
	case method != http.MethodPost && now == nil:
		Refuse(w, http.StatusNotFound, "NotFound")
		return
	case method == http.MethodPut && !same(now, sent) && sent.metadata()["resourceVersion"] != now.metadata()["resourceVersion"]:
		Refuse(w, http.StatusConflict, "Conflict")
		return
	case method != http.MethodGet:
		now = s.store(name, sent)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(now) // the client may have gone
}

func same(a, b object) bool {
	return reflect.DeepEqual(a["spec"], b["spec"]) && reflect.DeepEqual(a.metadata()["annotations"], b.metadata()["annotations"])
}
