package checkpointtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/sysexits"
)

// quick bounds attempts for tests.
var quick = checkpoint.Retry{Min: time.Millisecond, Max: 5 * time.Millisecond, For: 20 * time.Second}

// Refusal is an answer of a service, and what it has to mean.
type Refusal struct {
	Trouble
	Code sysexits.Code
	Text string // part of the message
}

// RunFaults proves what a store of objects makes of a service in trouble.
// fresh starts a service without any object; open opens the store, and name is
// that of its object. refusals are those of the vendor's own dialect.
func RunFaults(t *testing.T, name string, fresh func(t testing.TB) *Cloud, open func(t testing.TB, c *Cloud) checkpoint.Store, refusals []Refusal) {
	f := faults{name: name, fresh: fresh, open: open}
	t.Run("lost reply", f.testLostReply)
	t.Run("lost reply of the first write", f.testLostFirst)
	t.Run("reset in the body", f.testReset)
	t.Run("throttled", f.testThrottled)
	t.Run("torn and foreign documents", f.testForeign)
	t.Run("removed meanwhile", f.testRemoved)
	t.Run("ignored conditions", f.testDeaf)
	t.Run("opening changes nothing", f.testPrepare)
	t.Run("doctor", f.testDoctor)
	t.Run("same content again", f.testSameAgain)
	t.Run("no answer", f.testNoAnswer)
	t.Run("hangs", f.testHangs)
	t.Run("redirects", f.testRedirect)
	t.Run("answers without end", f.testEndless)
	refusals = append(refusals,
		Refusal{Trouble{Status: 403, Body: "<html>denied</html>"}, sysexits.NoPerm, "403"},
		Refusal{Trouble{Status: 401}, sysexits.NoPerm, "401"},
		Refusal{Trouble{Status: 400, Body: "x"}, sysexits.Config, "400"},
		Refusal{Trouble{Status: 429}, sysexits.Unavailable, "429"},
		Refusal{Trouble{Status: 500, Body: "<html>"}, sysexits.Unavailable, "500"},
		Refusal{Trouble{Status: 503}, sysexits.Unavailable, "503"},
	)
	for _, r := range refusals {
		t.Run(fmt.Sprintf("%d %.30s", r.Status, r.Text), func(t *testing.T) { f.testRefusal(t, r) })
	}
}

type faults struct {
	name  string
	fresh func(t testing.TB) *Cloud
	open  func(t testing.TB, c *Cloud) checkpoint.Store
}

func isWrite(r *http.Request) bool { return r.Method == http.MethodPut || r.Method == http.MethodPost }

// first breaks the first request that is meant.
func first(meant func(r *http.Request) bool, trouble Trouble) func(r *http.Request) Trouble {
	var done atomic.Bool
	return func(r *http.Request) Trouble {
		if !meant(r) || done.Swap(true) {
			return Trouble{}
		}
		return trouble
	}
}

func commitOne(t *testing.T, c *checkpoint.Committer, key, value string) error {
	t.Helper()
	c.Stage(checkpoint.Position{Key: key, Value: value})
	_, err := c.Write(t.Context(), func() error { return nil })
	return err
}

func (f faults) committer(t *testing.T, c *Cloud) *checkpoint.Committer {
	t.Helper()
	committer, err := checkpoint.NewCommitter(t.Context(), f.open(t, c), 0, quick)
	if err != nil {
		t.Fatal(err)
	}
	return committer
}

func (f faults) want(t *testing.T, c *Cloud, key, value string) {
	t.Helper()
	doc, _, err := checkpoint.Load(t.Context(), f.open(t, c))
	if got, _ := doc.Get(key); err != nil || got != value {
		t.Errorf("%s is %q, %v; want %q", key, got, err, value)
	}
}

// A write whose reply is lost counts once, and is no conflict.
func (f faults) testLostReply(t *testing.T) {
	for _, trouble := range []Trouble{{Done: true, Cut: true}, {Done: true, Status: 503}, {Done: true, Status: 500}} {
		c := f.fresh(t)
		c.Set(f.name, `{"k":"1"}`)
		committer := f.committer(t, c)
		c.Break(first(isWrite, trouble))
		if err := commitOne(t, committer, "k", "2"); err != nil {
			t.Errorf("%+v: %v", trouble, err)
		}
		f.want(t, c, "k", "2")
		if err := commitOne(t, committer, "k", "3"); err != nil {
			t.Errorf("the next write: %v", err)
		}
	}
}

func (f faults) testLostFirst(t *testing.T) {
	c := f.fresh(t)
	committer := f.committer(t, c)
	c.Break(first(isWrite, Trouble{Done: true, Cut: true}))
	if err := commitOne(t, committer, "k", "1"); err != nil {
		t.Error(err)
	}
	f.want(t, c, "k", "1")
}

// #130: what breaks off in the middle of the body is read again.
func (f faults) testReset(t *testing.T) {
	c := f.fresh(t)
	c.Set(f.name, `{"k":"`+strings.Repeat("x", 100_000)+`"}`)
	c.Break(first(func(*http.Request) bool { return true }, Trouble{Cut: true}))
	if _, _, err := f.open(t, c).Get(t.Context()); sysexits.Of(err) != sysexits.Unavailable {
		t.Errorf("half a body: %v", err)
	}
	c.Break(first(func(*http.Request) bool { return true }, Trouble{Cut: true}))
	f.want(t, c, "k", strings.Repeat("x", 100_000))
}

// A service that accepts requests and says nothing holds nobody for longer than
// the store's patience, here that of the caller.
func (f faults) testHangs(t *testing.T) { // peers 77
	c := f.fresh(t)
	c.Set(f.name, `{"k":"1"}`)
	store := f.open(t, c)
	data, gen, err := store.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Break(func(*http.Request) Trouble { return Trouble{Hang: true} })
	for name, call := range map[string]func(ctx context.Context) error{
		"get": func(ctx context.Context) error { _, _, err := store.Get(ctx); return err },
		"put": func(ctx context.Context) error { _, err := store.Put(ctx, data, gen); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := call(ctx); !checkpoint.Retryable(err) {
			t.Errorf("%s: %v (%d), which is not worth another try", name, err, sysexits.Of(err))
		}
		cancel()
	}
	c.Break(nil)
	f.want(t, c, "k", "1")
}

func (f faults) testThrottled(t *testing.T) {
	c := f.fresh(t)
	var count atomic.Int32
	c.Break(func(*http.Request) Trouble {
		if n := count.Add(1) % 4; n == 1 || n == 2 {
			return Trouble{Status: []int{429, 503}[n-1]}
		}
		return Trouble{}
	})
	committer := f.committer(t, c)
	for i := range 3 {
		if err := commitOne(t, committer, "k", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	c.Break(nil)
	f.want(t, c, "k", "2")
}

func (f faults) testForeign(t *testing.T) {
	for _, text := range []string{"", `{"a":"1"`, `{"a":1}`, "not json", "[]", "<html></html>"} {
		c := f.fresh(t)
		c.Set(f.name, text)
		_, err := checkpoint.NewCommitter(t.Context(), f.open(t, c), 0, quick)
		if sysexits.Of(err) != sysexits.Config {
			t.Errorf("%q: %v (%d); want 78", text, err, sysexits.Of(err))
		}
		if now, _ := c.Object(f.name); now != text {
			t.Errorf("%q became %q", text, now)
		}
	}
}

// A document that vanishes is not made anew with what this committer has seen.
func (f faults) testRemoved(t *testing.T) {
	c := f.fresh(t)
	c.Set(f.name, `{"k":"1"}`)
	committer := f.committer(t, c)
	c.Remove(f.name)
	if err := commitOne(t, committer, "k", "2"); sysexits.Of(err) != sysexits.Protocol {
		t.Errorf("a write onto nothing: %v", err)
	}
	if text, there := c.Object(f.name); there {
		t.Errorf("there is %q", text)
	}
}

// Z23: a store that ignores conditions is found out before it does harm.
func (f faults) testDeaf(t *testing.T) {
	for _, text := range []string{"", `{"k":"1"}`} {
		c := f.fresh(t)
		if text != "" {
			c.Set(f.name, text)
		}
		c.Deafen()
		_, err := checkpoint.NewCommitter(t.Context(), f.open(t, c), 0, quick)
		if sysexits.Of(err) != sysexits.Config || !strings.Contains(err.Error(), "ignores conditions") {
			t.Errorf("%v", err)
		}
		if now, _ := c.Object(f.name); text != "" && now != text {
			t.Errorf("%q became %q", text, now)
		}
		findings := checkpoint.Doctor(t.Context(), f.open(t, c))
		if sysexits.Of(checkpoint.Verdict(findings)) != sysexits.Config {
			t.Errorf("the doctor finds %+v", findings)
		}
		if c.Names() != 1 {
			t.Errorf("%d objects are left", c.Names())
		}
	}
}

func (f faults) testPrepare(t *testing.T) {
	c := f.fresh(t)
	f.committer(t, c)
	if c.Names() != 0 {
		t.Error("opening made an object")
	}
	c.Set(f.name, `{"k":"1"}`)
	f.committer(t, c)
	if now, _ := c.Object(f.name); now != `{"k":"1"}` {
		t.Errorf("opening made it %q", now)
	}
}

func (f faults) testDoctor(t *testing.T) {
	c := f.fresh(t)
	for _, text := range []string{"", `{"k":"1"}`} {
		if text != "" {
			c.Set(f.name, text)
		}
		findings := checkpoint.Doctor(t.Context(), f.open(t, c))
		if err := checkpoint.Verdict(findings); err != nil || len(findings) != 3 {
			t.Errorf("%v: %+v", err, findings)
		}
		if now, _ := c.Object(f.name); now != text {
			t.Errorf("the doctor made it %q", now)
		}
	}
	if c.Names() != 1 {
		t.Errorf("%d objects are left", c.Names())
	}
}

// A position that goes and comes back gives a document of its own each time,
// or one who has slept meanwhile would not notice.
func (f faults) testSameAgain(t *testing.T) {
	c := f.fresh(t)
	store := f.open(t, c)
	seen := map[checkpoint.Generation]bool{}
	for i := range 6 {
		err := checkpoint.Update(t.Context(), store, 0, quick, func(doc *checkpoint.Document) error {
			doc.Set("k", fmt.Sprint(i%2))
			return nil
		})
		_, gen, e := store.Get(t.Context())
		if err := errors.Join(err, e); err != nil || seen[gen] {
			t.Fatalf("write %d: %v, generation %q once more", i, err, gen)
		}
		seen[gen] = true
	}
}

func (f faults) testNoAnswer(t *testing.T) {
	c := f.fresh(t)
	store := f.open(t, c)
	c.Break(func(*http.Request) Trouble { return Trouble{Cut: true} })
	_, _, getErr := store.Get(t.Context())
	_, putErr := store.Put(t.Context(), []byte("{}"), "")
	for _, err := range []error{getErr, putErr} {
		if sysexits.Of(err) != sysexits.Unavailable || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v (%d)", err, sysexits.Of(err))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.Put(ctx, []byte("{}"), ""); err == nil {
		t.Error("a cancelled write succeeded")
	}
}

func (f faults) testRefusal(t *testing.T, r Refusal) {
	c := f.fresh(t)
	store := f.open(t, c)
	c.Break(func(*http.Request) Trouble { return r.Trouble })
	_, _, getErr := store.Get(t.Context())
	_, putErr := store.Put(t.Context(), []byte("{}"), "")
	for call, err := range map[string]error{"Get": getErr, "Put": putErr} {
		if errors.Is(err, checkpoint.ErrNotFound) || errors.Is(err, checkpoint.ErrConflict) ||
			sysexits.Of(err) != r.Code || !strings.Contains(err.Error(), r.Text) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v (%d); want %d and %q", call, err, sysexits.Of(err), r.Code, r.Text)
		}
	}
}
