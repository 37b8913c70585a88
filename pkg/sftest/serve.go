package sftest

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// serve answers every request: first the faults, then what an org does.
func (o *Org) serve(w http.ResponseWriter, r *http.Request) {
	query := r.URL.RawQuery
	if decoded, err := url.QueryUnescape(query); err == nil {
		query = decoded
	}
	rec := Request{Method: r.Method, Path: r.URL.Path, Query: query, Header: r.Header.Clone(), At: time.Now()}
	if strings.HasSuffix(r.URL.Path, "/token") {
		if r.ParseForm() == nil {
			rec.Form = r.PostForm
		}
	}
	o.mu.Lock()
	fault := o.takeFault(rec.Line())
	o.log = append(o.log, rec)
	at := len(o.log) - 1
	o.came.Broadcast()
	now := o.now()
	o.mu.Unlock()

	w.Header().Set("Date", now.Format(http.TimeFormat))
	out := &writer{ResponseWriter: w, org: o, req: r, fault: fault}
	defer func() {
		o.locked(func() {
			if at < len(o.log) && o.log[at].At.Equal(rec.At) {
				o.log[at].Status = out.status
			}
		})
	}()
	if fault != nil && o.misbehave(out, fault) {
		return
	}
	o.route(out, r)
}

// misbehave answers as a fault says, and tells whether it did.
func (o *Org) misbehave(w *writer, f *Fault) bool {
	if f.Latency > 0 && !o.wait(w.req, f.Latency) {
		panic(http.ErrAbortHandler)
	}
	if f.Reset {
		reset(w.ResponseWriter)
	}
	for k, v := range f.Header {
		w.Header()[k] = v
	}
	switch {
	case f.Fixture != "":
		o.fixture(w, f.Fixture)
	case f.HTML:
		w.Header().Set("Content-Type", "text/html; charset=UTF-8")
		w.WriteHeader(max(f.Status, http.StatusOK))
		w.Write(fixtureBody("maintenance_200.html"))
	case f.Status != 0 || f.Body != "":
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", contentType(f))
		}
		w.WriteHeader(max(f.Status, http.StatusOK))
		io.WriteString(w, f.Body)
	default:
		return false
	}
	return true
}

func contentType(f *Fault) string {
	switch {
	case f.ContentType != "":
		return f.ContentType
	case strings.HasPrefix(f.Body, "{"), strings.HasPrefix(f.Body, "["):
		return jsonType
	case strings.HasPrefix(f.Body, "<"):
		return "text/html; charset=UTF-8"
	}
	return "text/plain;charset=UTF-8"
}

// wait tells whether d has gone by while somebody still waited for the answer.
func (o *Org) wait(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
	case <-o.done:
	}
	return false
}

// reset ends the connection without an answer, as a broken gateway does.
func reset(w http.ResponseWriter) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		if tcp, ok := conn.(*net.TCPConn); ok {
			tcp.SetLinger(0)
		}
		conn.Close()
	}
	panic(http.ErrAbortHandler)
}

// writer sends a body as its fault says.
type writer struct {
	http.ResponseWriter
	org    *Org
	req    *http.Request
	fault  *Fault
	status int
	sent   int
	cut    bool // a fault has ended the answer
}

func (w *writer) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	f := w.fault
	if f == nil {
		return w.ResponseWriter.Write(p)
	}
	total := len(p)
	for len(p) > 0 {
		n := min(len(p), w.org.cfg.ChunkSize)
		for _, end := range []int{f.CutAfter, f.StallAfter} {
			if end > 0 {
				n = min(n, end-w.sent)
			}
		}
		if n == 0 {
			w.end()
		}
		if f.Trickle > 0 && !w.org.wait(w.req, f.Trickle) {
			w.cut = true
			panic(http.ErrAbortHandler)
		}
		if _, err := w.ResponseWriter.Write(p[:n]); err != nil {
			return 0, err
		}
		w.sent += n
		p = p[n:]
		w.Flush()
	}
	return total, nil
}

// end is where a body stops that its fault cuts or stalls.
func (w *writer) end() {
	w.Flush()
	if w.fault.StallAfter > 0 && w.sent >= w.fault.StallAfter {
		select {
		case <-w.req.Context().Done():
		case <-w.org.done:
		}
	}
	w.cut = true
	panic(http.ErrAbortHandler)
}

// short is how many records the fault leaves out.
func (w *writer) short() int {
	if w.fault == nil {
		return 0
	}
	return w.fault.Short
}

func (w *writer) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

const jsonType = "application/json;charset=UTF-8"

// maxURI is the longest request line that an org takes.
const maxURI = 16384

func (o *Org) route(w *writer, r *http.Request) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	switch {
	case len(r.RequestURI) > maxURI:
		o.fixture(w, "err_414_uri_too_long.html")
	case path == "/services/oauth2/token":
		o.token(w, r)
	case path == "/services/oauth2/userinfo":
		o.userinfo(w, r)
	case path == "/services/data":
		o.fixture(w, "services_data.json")
	case strings.HasPrefix(path, "/services/data/v"):
		version, rest, _ := strings.Cut(strings.TrimPrefix(path, "/services/data/"), "/")
		o.data(w, r, version, rest)
	case strings.HasPrefix(path, controlPath):
		o.control(w, r, strings.TrimPrefix(path, controlPath))
	default:
		w.Header().Set("Content-Type", "text/html; charset=UTF-8")
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, "<html><body>URL No Longer Exists</body></html>")
	}
}

// data answers below /services/data/vNN.0, where a session is needed and every
// call counts.
func (o *Org) data(w *writer, r *http.Request, version, rest string) {
	if !o.session(w, r) {
		return
	}
	if !versions()[version] {
		o.fixture(w, "err_404_not_found.json")
		return
	}
	if !o.count(w) {
		o.fixture(w, "err_403_request_limit.json")
		return
	}
	if r.Method != http.MethodGet {
		o.fail(w, http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED", "HTTP Method '"+r.Method+"' not allowed. Allowed are GET")
		return
	}
	parts := strings.Split(rest, "/")
	tooling := parts[0] == "tooling" && len(parts) > 1
	if tooling {
		parts = parts[1:]
	}
	switch {
	case rest == "":
		o.json(w, map[string]string{"limits": "/services/data/" + version + "/limits", "query": "/services/data/" + version + "/query", "sobjects": "/services/data/" + version + "/sobjects"})
	case parts[0] == "query" && len(parts) == 1:
		o.query(w, r, version, tooling)
	case parts[0] == "query" && len(parts) == 2:
		o.more(w, version, parts[1])
	case rest == "limits":
		o.limits(w)
	case rest == "sobjects":
		o.describeGlobal(w)
	case parts[0] == "sobjects" && len(parts) == 3 && parts[2] == "describe":
		o.describe(w, parts[1])
	case parts[0] == "sobjects" && len(parts) == 3:
		o.record(w, version, parts[1], parts[2])
	case parts[0] == "sobjects" && len(parts) == 4:
		o.blob(w, r, parts[1], parts[2], parts[3])
	default:
		o.fixture(w, "err_404_not_found.json")
	}
}

var versions = sync.OnceValue(func() map[string]bool {
	var list []struct{ Version string }
	if err := json.Unmarshal(fixtureBody("services_data.json"), &list); err != nil {
		panic(fmt.Sprintf("sftest: %v", err))
	}
	known := map[string]bool{}
	for _, v := range list {
		known["v"+v.Version] = true
	}
	return known
})

// count adds one to the calls of the day and shows them; false: none are left.
func (o *Org) count(w *writer) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	left := o.used < o.cfg.DailyCalls
	if left {
		o.used++
	}
	w.Header().Set("Sforce-Limit-Info", fmt.Sprintf("api-usage=%d/%d; per-app-api-usage=17/250(appName=simulated)", o.used, o.cfg.DailyCalls))
	return left
}

func (o *Org) fixture(w *writer, name string) {
	f := mustFixture(name)
	for k, v := range f.header() {
		if k != "Sforce-Limit-Info" || w.Header().Get(k) == "" {
			w.Header()[k] = v
		}
	}
	w.WriteHeader(f.Status)
	w.Write(f.Body)
}

func (o *Org) fail(w *writer, status int, code, message string) {
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(status)
	json.NewEncoder(w).Encode([]map[string]string{{"message": message, "errorCode": code}})
}

func (o *Org) json(w *writer, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("sftest: %v", err))
	}
	o.raw(w, data)
}

func (o *Org) raw(w *writer, data []byte) {
	w.Header().Set("Content-Type", jsonType)
	body, done := o.body(w, w.req)
	defer done()
	body.Write(data)
}

// body compresses what is written when the org does and the client takes it.
func (o *Org) body(w *writer, r *http.Request) (io.Writer, func()) {
	if !o.cfg.Gzip || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		return w, func() {}
	}
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	return z, func() {
		if !w.cut { // its writer is not to be used again
			z.Close()
		}
	}
}
