package bench

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/golang/snappy"

	"sf2loki/pkg/sftest"
)

const topic = "/event/LoginEventStream"

// events is a simulated org with events on its bus, and sf-pull that follows it.
type events struct {
	bus   *sftest.Bus
	env   []string
	flags stage
}

func newEvents(tb testing.TB, n int) *events {
	tb.Helper()
	org := sftest.NewOrg(sftest.Config{})
	tb.Cleanup(org.Close)
	bus := org.NewBus(sftest.BusConfig{})
	bus.DefineSamples()
	for i := range n {
		bus.Publish(topic, sftest.Sample(topic, i, time.Now()))
	}
	key := filepath.Join(tb.TempDir(), "key.pem")
	if err := os.WriteFile(key, []byte(org.PrivateKeyPEM()), 0o600); err != nil {
		tb.Fatal(err)
	}
	return &events{bus, []string{
		"SF_PULL_LOGIN_URL=" + org.URL, "SF_PULL_CLIENT_ID=" + org.ClientID, "SF_PULL_USERNAME=" + org.Username,
		"SF_PULL_PRIVATE_KEY_FILE=" + key, "SF_PULL_ENDPOINT=http://" + bus.Addr, "SF_PULL_LOG_LEVEL=warn",
	}, stage{"sf-pull", "pubsub", "--topic", topic}}
}

// BenchmarkEvents is sf-pull pubsub as a whole: gRPC, Avro, records.
func BenchmarkEvents(b *testing.B) {
	n := number(b, "BENCH_EVENTS", 50_000)
	e := newEvents(b, n)
	for _, pair := range e.env {
		name, value, _ := bytes.Cut([]byte(pair), []byte("="))
		b.Setenv(string(name), string(value))
	}
	measure(b, "events", float64(n), func() usage {
		return run(b, null, null, append(slices.Clone(e.flags), "--max-events", fmt.Sprint(n)))[0]
	}, nil)
}

// BenchmarkLatency is the time from when Salesforce has an event until Loki has
// the request with it, one event at a time, with the default flags. Most of it
// is loki-push's --flush-interval of a second.
func BenchmarkLatency(b *testing.B) {
	e := newEvents(b, 0)
	n := number(b, "BENCH_LATENCY_EVENTS", 30)
	arrivals := newArrivals(b)
	pull := exec.Command(program(b, "sf-pull"), e.flags[1:]...)
	push := exec.Command(program(b, "loki-push"), "--log-level", "error", "--url", arrivals.URL)
	pull.Env = append(os.Environ(), e.env...)
	pull.Stderr, push.Stderr = os.Stderr, os.Stderr
	var err error
	if push.Stdin, err = pull.StdoutPipe(); err != nil {
		b.Fatal(err)
	}
	for _, cmd := range []*exec.Cmd{push, pull} {
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
	}
	e.bus.WaitCredit(topic, sftest.MaxCredit)
	var all []time.Duration
	for b.Loop() {
		for range n {
			time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond) // the load
			id := fmt.Sprintf("bench-%d", len(all))
			event := sftest.Sample(topic, len(all), time.Now())
			event.Value["EventIdentifier"] = id
			sent := time.Now()
			e.bus.Publish(topic, event)
			all = append(all, arrivals.wait(b, id).Sub(sent))
		}
	}
	if err := pull.Process.Signal(syscall.SIGTERM); err != nil {
		b.Fatal(err)
	}
	for _, cmd := range []*exec.Cmd{pull, push} {
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
}

// arrivals is a server that remembers what came.
type arrivals struct {
	URL  string
	mu   sync.Mutex
	came *sync.Cond
	text []byte
	at   time.Time
}

func newArrivals(tb testing.TB) *arrivals {
	a := &arrivals{}
	a.came = sync.NewCond(&a.mu)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := time.Now()
		body, err := io.ReadAll(r.Body)
		if err == nil {
			body, err = snappy.Decode(nil, body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.text, a.at = body, at
		a.came.Broadcast()
		w.WriteHeader(http.StatusNoContent)
	}))
	tb.Cleanup(server.Close)
	a.URL = server.URL
	return a
}

// wait waits for the request that holds a text, and tells when it came.
func (a *arrivals) wait(tb testing.TB, text string) time.Time {
	tb.Helper()
	late := time.AfterFunc(time.Minute, func() { panic("no request with " + text) })
	defer late.Stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	for !bytes.Contains(a.text, []byte(text)) {
		a.came.Wait()
	}
	return a.at
}
