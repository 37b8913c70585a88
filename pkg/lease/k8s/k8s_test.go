package k8s

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/checkpointtest"
	"sf2loki/pkg/lease"
	"sf2loki/pkg/lease/leasetest"
	"sf2loki/pkg/sysexits"
)

// apiServer has one Lease, lanes/emea.
type apiServer struct{ *leasetest.APIServer }

func newServer(t *testing.T) apiServer { return apiServer{leasetest.NewAPIServer(t)} }

func (s apiServer) lease() *coordinationv1.Lease {
	var l coordinationv1.Lease
	if text := s.Lease("lanes/emea"); text != nil && json.Unmarshal(text, &l) != nil {
		panic("not a Lease: " + string(text))
	}
	return &l
}

// change lets somebody else write the lease, kubectl say.
func (s apiServer) change(edit func(l *coordinationv1.Lease)) {
	l := s.lease()
	edit(l)
	text, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	s.Set("lanes/emea", text)
}

func (s apiServer) remove() { s.Remove("lanes/emea") }

func location(t *testing.T, text string) checkpoint.Location {
	t.Helper()
	loc, err := checkpoint.ParseLocation(text)
	must(t, err)
	return loc
}

func (s apiServer) open(t *testing.T) *Backend {
	t.Helper()
	b, err := newBackend(location(t, "k8s://lanes/emea"), func() (*rest.Config, error) { return &rest.Config{Host: s.URL, QPS: -1}, nil })
	must(t, err)
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sample(holder, term string, count uint64) lease.Record {
	return lease.Record{Holder: holder, Epoch: 5, TTL: 45 * time.Second, Renewed: time.Date(2026, 7, 1, 10, 0, 0, 123456000, time.UTC), Term: term, Count: count}
}

func TestReadWhatWasWritten(t *testing.T) {
	s := newServer(t)
	if _, _, err := s.open(t).Read(t.Context()); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Fatalf("nothing there: %v", err)
	}
	gen, err := s.open(t).Write(t.Context(), sample("a", "t", 1), "")
	must(t, err)
	r, now, err := s.open(t).Read(t.Context())
	must(t, err)
	if now != gen || !r.Renewed.Equal(sample("", "", 0).Renewed) {
		t.Errorf("generation %s, then %s; %v", gen, now, r.Renewed)
	}
	r.Renewed = sample("", "", 0).Renewed
	if r != sample("a", "t", 1) {
		t.Errorf("got %+v", r)
	}
	spec := s.lease().Spec
	if *spec.HolderIdentity != "a" || *spec.LeaseDurationSeconds != 45 || *spec.LeaseTransitions != 5 || spec.AcquireTime == nil {
		t.Errorf("for others it says %+v", spec)
	}
}

func TestConflicts(t *testing.T) {
	s := newServer(t)
	b := s.open(t)
	gen, err := b.Write(t.Context(), sample("a", "t", 1), "")
	must(t, err)
	next, err := b.Write(t.Context(), sample("a", "t", 2), gen)
	must(t, err)
	for what, ifGen := range map[string]checkpoint.Generation{"a first write": "", "an old version": gen} {
		if _, err := s.open(t).Write(t.Context(), sample("b", "u", 1), ifGen); !errors.Is(err, checkpoint.ErrConflict) {
			t.Errorf("%s: %v", what, err)
		}
	}
	s.remove()
	if _, err := b.Write(t.Context(), sample("a", "t", 3), next); !errors.Is(err, checkpoint.ErrConflict) {
		t.Errorf("onto a lease that was removed: %v", err)
	}
}

// What others keep in the object stays.
func TestOthersPartsStay(t *testing.T) {
	s := newServer(t)
	s.change(func(l *coordinationv1.Lease) {
		l.Labels, l.Annotations = map[string]string{"team": "x"}, map[string]string{"note": "y"}
	})
	b := s.open(t)
	_, gen, err := b.Read(t.Context())
	must(t, err)
	_, err = b.Write(t.Context(), sample("a", "t", 1), gen)
	must(t, err)
	if l := s.lease(); l.Labels["team"] != "x" || l.Annotations["note"] != "y" {
		t.Errorf("left are %v and %v", l.Labels, l.Annotations)
	}
}

// #62: whatever is missing, nobody holds it then.
func TestEmptySpec(t *testing.T) {
	for name, edit := range map[string]func(l *coordinationv1.Lease){
		"nothing":     func(l *coordinationv1.Lease) { l.Spec = coordinationv1.LeaseSpec{} },
		"no duration": func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = nil },
		"no renewal":  func(l *coordinationv1.Lease) { l.Spec.RenewTime = nil },
		"no holder":   func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil },
	} {
		s := newServer(t)
		s.change(func(l *coordinationv1.Lease) { fill(l, sample("a", "t", 1)); edit(l) })
		r, _, err := s.open(t).Read(t.Context())
		if err != nil || r.Holder != "" || r.Epoch != 5 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// Somebody who changes the specification only is not taken for us.
func TestForeignHolder(t *testing.T) {
	s := newServer(t)
	_, err := s.open(t).Write(t.Context(), sample("a", "t", 1), "")
	must(t, err)
	s.change(func(l *coordinationv1.Lease) {
		other, later := "other", metav1.NewMicroTime(time.Date(2026, 7, 1, 11, 0, 0, 0, time.UTC))
		l.Spec.HolderIdentity, l.Spec.RenewTime = &other, &later
	})
	r, _, err := s.open(t).Read(t.Context())
	if err != nil || r.Holder != "other" || r.Term != "" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		code   int
		reason metav1.StatusReason
		want   sysexits.Code
	}{
		{401, metav1.StatusReasonUnauthorized, sysexits.NoPerm},
		{403, metav1.StatusReasonForbidden, sysexits.NoPerm},
		{404, metav1.StatusReasonNotFound, sysexits.Config}, // of a namespace, when a lease is made
		{422, metav1.StatusReasonInvalid, sysexits.Config},
		{500, metav1.StatusReasonInternalError, sysexits.Unavailable},
		{503, metav1.StatusReasonServiceUnavailable, sysexits.Unavailable},
		{504, metav1.StatusReasonTimeout, sysexits.Unavailable},
	}
	for _, test := range tests {
		s := newServer(t)
		s.Break(func(w http.ResponseWriter, _ *http.Request) bool {
			leasetest.Refuse(w, test.code, string(test.reason))
			return true
		})
		if _, err := s.open(t).Write(t.Context(), sample("a", "t", 1), ""); sysexits.Of(err) != test.want {
			t.Errorf("%d: %v (%d); want %d", test.code, err, sysexits.Of(err), test.want)
		}
	}
	s := newServer(t)
	s.Break(func(w http.ResponseWriter, _ *http.Request) bool { panic(http.ErrAbortHandler) })
	if _, _, err := s.open(t).Read(t.Context()); sysexits.Of(err) != sysexits.Unavailable {
		t.Errorf("no answer: %v", err)
	}
}

// What answers all with the same proves that nobody holds a lease, and that
// everybody does.
func TestNoLease(t *testing.T) {
	for _, body := range []string{`{}`, `{"error":"log in first"}`, `{"metadata":{"name":"emea"}}`, `{"metadata":{"name":"other","resourceVersion":"1"}}`} {
		s := newServer(t)
		s.Break(func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, body)
			return true
		})
		if _, _, err := s.open(t).Read(t.Context()); sysexits.Of(err) != sysexits.Unavailable {
			t.Errorf("%s was read: %v", body, err)
		}
		for _, gen := range []checkpoint.Generation{"", "7"} {
			if _, err := s.open(t).Write(t.Context(), sample("a", "t", 1), gen); sysexits.Of(err) != sysexits.Unavailable {
				t.Errorf("%s was written: %v", body, err)
			}
		}
	}
}

// The usual configuration: KUBECONFIG, or a plain word about what is missing.
func TestUsualConfiguration(t *testing.T) {
	s := newServer(t)
	path := filepath.Join(t.TempDir(), "config")
	must(t, os.WriteFile(path, s.Config("x"), 0o600))
	t.Setenv("KUBECONFIG", path)
	b, err := New(location(t, "k8s://lanes/emea"), nil)
	must(t, err)
	if _, _, err := b.Read(t.Context()); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("with a configuration: %v", err)
	}
	t.Setenv("KUBECONFIG", path+".none")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	b, err = New(location(t, "k8s://lanes/emea"), nil)
	must(t, err)
	if _, _, err := b.Read(t.Context()); sysexits.Of(err) != sysexits.Config {
		t.Errorf("without one: %v", err)
	}
	for _, text := range []string{"k8s://lanes", "k8s://lanes/", "k8s://lanes/a/b", "k8s:///a", "k8s://lanes/a?x=1"} {
		if _, err := New(location(t, text), nil); sysexits.Of(err) != sysexits.Config {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func contender(b lease.Backend, document checkpoint.Store, id string) *lease.Elector {
	return lease.New(lease.Config{Backend: b, Fences: []checkpoint.Store{document}, ID: id,
		TTL: 600 * time.Millisecond, Renew: 100 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})
}

// Contenders on one server: every epoch has one leader, through releases,
// removals and failures.
func TestContenders(t *testing.T) {
	s, document := newServer(t), new(checkpointtest.Memory)
	var mu sync.Mutex
	seen := map[uint64]string{}
	var wg sync.WaitGroup
	for _, id := range []string{"a", "b", "c"} {
		wg.Go(func() {
			for round := range 4 {
				term, err := contender(s.open(t), document, id).Acquire(t.Context(), 30*time.Second)
				if err != nil {
					t.Errorf("%s: %v", id, err)
					return
				}
				mu.Lock()
				if other, twice := seen[term.Epoch()]; twice {
					t.Errorf("%s and %s lead in epoch %d", other, id, term.Epoch())
				}
				seen[term.Epoch()] = id
				mu.Unlock()
				if round == 2 {
					s.remove()
				}
				if err := term.End(t.Context()); err != nil && !errors.Is(err, lease.ErrLost) {
					t.Errorf("%s: %v", id, err)
				}
			}
		})
	}
	wg.Wait()
}

// C20, #111: 409 and 404 at a renewal end the term at once, 500 does not.
func TestRenewals(t *testing.T) {
	for name, test := range map[string]struct {
		hurt func(s apiServer)
		lost bool
	}{
		"removed": {func(s apiServer) { s.remove() }, true},
		"taken": {func(s apiServer) {
			s.change(func(l *coordinationv1.Lease) { fill(l, sample("other", "x", 1)) })
		}, true},
		"failing once": {func(s apiServer) {
			once := false
			s.Break(func(w http.ResponseWriter, _ *http.Request) bool {
				if once {
					return false
				}
				once = true
				leasetest.Refuse(w, 500, "InternalError")
				return true
			})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			term, err := contender(s.open(t), new(checkpointtest.Memory), "a").Acquire(t.Context(), 0)
			must(t, err)
			before := s.Version()
			test.hurt(s)
			if test.lost {
				<-term.Doubt()
			} else {
				for s.Version() < before+3 {
					select {
					case <-term.Doubt():
						t.Fatal("one failure ended the term")
					case <-time.After(time.Millisecond):
					}
				}
			}
			if err := term.End(t.Context()); errors.Is(err, lease.ErrLost) != test.lost {
				t.Errorf("the end: %v", err)
			}
		})
	}
}

// The token does not go where a redirect leads, and no answer fills the memory.
func TestHostileServer(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was redirected, with %v", r.Method, r.Header)
	}))
	defer elsewhere.Close()
	for _, status := range []int{200, 302, 307, 403} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", elsewhere.URL)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			for page := make([]byte, 1<<20); r.Context().Err() == nil; {
				if _, err := w.Write(page); err != nil {
					return
				}
			}
		}))
		b, err := newBackend(location(t, "k8s://lanes/emea"), func() (*rest.Config, error) {
			return &rest.Config{Host: srv.URL, BearerToken: "secret"}, nil
		})
		must(t, err)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, _, err := b.Read(t.Context()); err == nil || len(err.Error()) > 10_000 {
			t.Errorf("read, %d: %.300v", status, err)
		}
		if _, err := b.Write(t.Context(), sample("a", "t", 1), ""); err == nil {
			t.Errorf("written, %d", status)
		}
		runtime.ReadMemStats(&after)
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 100 {
			t.Errorf("%d: %d MB for answers without end", status, took)
		}
		srv.Close()
	}
}
