package checkpointtest

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
)

// testRedirect: neither the document nor a credential goes where an answer says.
func (f faults) testRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was redirected, with %v", r.Method, r.Header)
	}))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		c := f.fresh(t)
		c.Break(func(*http.Request) Trouble {
			return Trouble{Status: status, Header: map[string]string{"Location": elsewhere.URL + "/bucket/key"}}
		})
		if _, _, err := f.open(t, c).Get(t.Context()); err == nil {
			t.Errorf("%d: a redirect was taken for a document", status)
		}
		if _, err := f.open(t, c).Put(t.Context(), []byte("{}"), ""); err == nil {
			t.Errorf("%d: a redirect was taken for a write", status)
		}
	}
}

// testEndless: an answer without end is read to its bound, a refusal too.
func (f faults) testEndless(t *testing.T) {
	page := bytes.Repeat([]byte("x"), 1<<20)
	for status, most := range map[int]uint64{200: 600, 403: 20, 412: 20, 500: 20} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"e"`)
			w.Header().Set("X-Goog-Generation", "1")
			w.WriteHeader(status)
			for r.Context().Err() == nil {
				if _, err := w.Write(page); err != nil {
					return
				}
			}
		}))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := f.open(t, &Cloud{URL: srv.URL}).Get(t.Context())
		runtime.ReadMemStats(&after)
		if err == nil || strings.Contains(err.Error(), "xxxx") && len(err.Error()) > 2000 {
			t.Errorf("%d: %.300v", status, err)
		}
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > most {
			t.Errorf("%d: %d MB for an answer without end", status, took)
		}
		srv.Close()
	}
}
