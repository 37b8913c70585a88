package checkpoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/checkpointtest"
	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// feed is an input of acknowledgements that arrive when the test sends them.
type feed struct {
	acks chan record.Ack
	end  error
}

func newFeed() *feed { return &feed{acks: make(chan record.Ack), end: io.EOF} }

func (f *feed) Read(a *record.Ack) error {
	ack, ok := <-f.acks
	if !ok {
		return f.end
	}
	*a = ack
	return nil
}

func (f *feed) send(key, value string) { f.acks <- record.Ack{Key: key, Value: value} }

func (f *feed) run(program string, status ...int) {
	run := record.Run{Program: program, RunID: "r1"}
	if len(status) > 0 {
		run.Status = &status[0]
	}
	f.acks <- record.Ack{Run: record.AppendRunObject(nil, run)}
}

type runningJob struct {
	*checkpoint.Job
	feed  *feed
	store *checkpointtest.Memory
	done  chan error
}

func startJob(t *testing.T, ctx context.Context, change func(*checkpoint.JobConfig)) *runningJob {
	t.Helper()
	r := &runningJob{feed: newFeed(), store: new(checkpointtest.Memory), done: make(chan error, 1)}
	cfg := checkpoint.JobConfig{
		Acks: r.feed, Committer: committer(t, r.store, 0),
		Interval: 200 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	r.Job = checkpoint.NewJob(cfg)
	go func() { r.done <- r.Run(ctx) }()
	return r
}

// finish ends the input and returns the job's error.
func (r *runningJob) finish(end error) error {
	r.feed.end = end
	close(r.feed.acks)
	return <-r.done
}

func (r *runningJob) sum() (acks, written, superseded, refused int64) {
	for _, t := range r.Totals() {
		acks, written, superseded, refused = acks+t.Acks, written+t.Written, superseded+t.Superseded, refused+t.Refused
	}
	return
}

func (r *runningJob) wantSum(t *testing.T, acks, written, superseded, refused int64) {
	t.Helper()
	a, w, s, f := r.sum()
	if a != acks || w != written || s != superseded || f != refused {
		t.Errorf("acks=%d written=%d superseded=%d refused=%d; want %d %d %d %d", a, w, s, f, acks, written, superseded, refused)
	}
}

// #54: 1000 acknowledgements of 50 keys that come at once are one write.
func TestCoalescing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJob(t, t.Context(), nil)
		for i := range 1000 {
			j.feed.send(fmt.Sprintf("k%d", i%50), fmt.Sprint(i))
		}
		if err := j.finish(io.EOF); err != nil {
			t.Fatal(err)
		}
		if got := j.store.Calls(checkpointtest.Put); got != 1 {
			t.Errorf("%d writes", got)
		}
		j.wantSum(t, 1000, 50, 950, 0)
		if got := stored(t, j.store); !strings.Contains(got, "k49=999") || !strings.HasPrefix(got, "k0=950 ") {
			t.Errorf("stored %s", got)
		}
	})
}

func TestWriteInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJob(t, t.Context(), nil)
		for i := range 40 {
			j.feed.send("k", fmt.Sprint(i))
			time.Sleep(50 * time.Millisecond)
		}
		synctest.Wait()
		if got := j.store.Calls(checkpointtest.Put); got < 8 || got > 10 {
			t.Errorf("%d writes in 2 s, want one in 200 ms", got)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := stored(t, j.store); got != "k=39" {
			t.Errorf("while the input stays open: stored %s", got)
		}
		if err := j.finish(io.EOF); err != nil {
			t.Fatal(err)
		}
	})
}

func TestEndOfInputWritesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJob(t, t.Context(), func(c *checkpoint.JobConfig) { c.Interval = time.Hour })
		start := time.Now()
		j.feed.send("k", "1")
		if err := j.finish(io.EOF); err != nil {
			t.Fatal(err)
		}
		if time.Since(start) != 0 || stored(t, j.store) != "k=1" {
			t.Errorf("after %s stored %s", time.Since(start), stored(t, j.store))
		}
	})
}

// Reading goes on while the store is slow, and only the last value of a key is
// kept.
func TestSlowStoreDoesNotHoldTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJob(t, t.Context(), nil)
		j.store.Fault = func(call checkpointtest.Call) checkpointtest.Fault {
			return checkpointtest.Fault{Meet: func() { time.Sleep(10 * time.Second) }}
		}
		start := time.Now()
		for i := range 100 {
			j.feed.send("k", fmt.Sprint(i))
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("the reader was held: %s", took)
		}
		if err := j.finish(io.EOF); err != nil {
			t.Fatal(err)
		}
		if got := j.store.Calls(checkpointtest.Put); got != 2 {
			t.Errorf("%d writes, want 2", got)
		}
	})
}

func TestVerdicts(t *testing.T) {
	torn := sysexits.Errorf(sysexits.IOErr, "torn: %w", io.ErrUnexpectedEOF)
	tests := []struct {
		name string
		feed func(f *feed)
		end  error
		code sysexits.Code
		want string
	}{
		{"only runs", func(f *feed) { f.run("a"); f.run("a", 0) }, io.EOF, 0, ""},
		{"no run lines", func(f *feed) { f.send("k", "1") }, io.EOF, 0, ""},
		{"all ended well", func(f *feed) { f.run("a"); f.run("b"); f.send("k", "1"); f.run("a", 0); f.run("b", 0) }, io.EOF, 0, ""},
		{"first status counts", func(f *feed) { f.run("a"); f.run("b"); f.run("a", 77); f.run("b", 75) }, io.EOF, 77, "the input is incomplete: a ended with status 77"},
		{"never ended", func(f *feed) { f.run("a"); f.run("b"); f.run("b", 0) }, io.EOF, 75, "the input is incomplete: a never told its end"},
		{"told before never ended", func(f *feed) { f.run("a"); f.run("b"); f.run("b", 69) }, io.EOF, 69, "status 69"},
		{"same program twice", func(f *feed) { f.run("a"); f.run("a"); f.run("a", 0) }, io.EOF, 75, "a never told its end"},
		{"a status that would be 0", func(f *feed) { f.run("a"); f.run("a", 256) }, io.EOF, 70, "status 256"},
		{"killed by a signal", func(f *feed) { f.run("a"); f.run("a", 137) }, io.EOF, 137, "status 137"},
		{"no run", func(f *feed) { f.acks <- record.Ack{Run: []byte(`{"program":5}`)} }, nil, 65, "run line"},
		{"empty", func(*feed) {}, io.EOF, 75, "empty"},
		{"torn", func(f *feed) { f.send("k", "1") }, torn, 74, "torn"},
		{"broken pipe of the reader", func(f *feed) { f.send("k", "1") }, errors.New("read |0: input/output error"), 74, "input/output"},
		{"deadletter", func(f *feed) { f.send("deadletter:x", "1"); f.send("k", "1") }, io.EOF, 65, "deadletter:x"},
		{"reserved", func(f *feed) { f.send("__fence_epoch__", "1"); f.send("k", "1") }, io.EOF, 65, "__fence_epoch__"},
		{"our own status first", func(f *feed) { f.run("a"); f.send("deadletter:x", "1"); f.run("a", 77) }, io.EOF, 65, "refused"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := startJob(t, t.Context(), nil)
				test.feed(j.feed)
				var err error
				if test.end != nil {
					err = j.finish(test.end)
				} else { // the job ends by itself
					err = <-j.done
				}
				wantStatus(t, err, test.code, test.want)
				acks, written, superseded, refused := j.sum()
				if acks != written+superseded+refused {
					t.Errorf("the account does not balance: %d != %d + %d + %d", acks, written, superseded, refused)
				}
				if test.code != 0 && strings.Contains(test.name, "deadletter") && stored(t, j.store) != "k=1" {
					t.Errorf("stored %s: the other key is to be written", stored(t, j.store))
				}
			})
		})
	}
}

func TestAllowEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJob(t, t.Context(), func(c *checkpoint.JobConfig) { c.AllowEmpty = true })
		wantStatus(t, j.finish(io.EOF), sysexits.OK, "")
	})
}

// When the time for draining is over, what came is stored and the rest is not
// waited for.
func TestTimeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		j := startJob(t, ctx, func(c *checkpoint.JobConfig) { c.Interval = time.Hour })
		j.feed.send("k", "1")
		synctest.Wait()
		over := sysexits.Errorf(sysexits.TempFail, "time is over")
		cancel(over)
		if err := <-j.done; !errors.Is(err, over) {
			t.Errorf("got %v", err)
		}
		if got := stored(t, j.store); got != "k=1" {
			t.Errorf("stored %s", got)
		}
		close(j.feed.acks)
	})
}

func TestTimeOverWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		j := startJob(t, ctx, nil)
		j.store.Fault = func(checkpointtest.Call) checkpointtest.Fault { return checkpointtest.Fault{Err: errBusy} }
		j.feed.send("k", "1")
		time.Sleep(5 * time.Second)
		start := time.Now()
		cancel(sysexits.Errorf(sysexits.TempFail, "time is over"))
		if err := <-j.done; sysexits.Of(err) == sysexits.OK {
			t.Error("ended with 0")
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("ended only after %s", took)
		}
		j.wantSum(t, 1, 0, 0, 1)
		close(j.feed.acks)
	})
}

// Input that names more keys than a document has ends, whether or not anything
// is ever written.
func TestKeysWithoutEnd(t *testing.T) {
	for name, ack := range map[string]func(n int) record.Ack{
		"positions": func(n int) record.Ack { return record.Ack{Key: strconv.Itoa(n), Value: "1"} },
		"accounts":  func(n int) record.Ack { return record.Ack{Key: strconv.Itoa(n), Delivered: 1} },
		"values":    func(n int) record.Ack { return record.Ack{Key: strconv.Itoa(n), Value: strings.Repeat("x", 1<<20)} },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := startJob(t, t.Context(), func(cfg *checkpoint.JobConfig) { cfg.Interval = time.Hour })
			for n := range 100_100 {
				select {
				case r.feed.acks <- ack(n):
				case err := <-r.done:
					wantStatus(t, err, sysexits.Config, "no document has more")
					return
				}
			}
			t.Errorf("%s: no end: %v", name, r.finish(io.EOF))
		})
	}
}

func TestConflictEndsTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJob(t, t.Context(), nil)
		fill(t, j.store, `{"k":"9"}`)
		j.feed.send("k", "1")
		j.feed.send("k", "2")
		j.feed.send("other", "1")
		wantStatus(t, <-j.done, sysexits.Protocol, "another writer moved k")
		j.wantSum(t, 3, 1, 1, 1)
		if got := stored(t, j.store); got != "k=9 other=1" {
			t.Errorf("stored %s", got)
		}
		close(j.feed.acks)
	})
}

func TestObservers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var id string
		var got []checkpoint.Position
		j := startJob(t, t.Context(), func(c *checkpoint.JobConfig) {
			c.OnRun = func(runID string) { id = runID }
			c.OnWrite = func(p []checkpoint.Position) { got = append(got, p...) }
		})
		j.feed.run("a")
		j.feed.acks <- record.Ack{Key: "k", Value: "1", Time: 5, HasTime: true, Delivered: 3, Rejected: 2, Dropped: 1}
		j.feed.run("a", 0)
		wantStatus(t, j.finish(io.EOF), sysexits.OK, "")
		want := checkpoint.Position{Key: "k", Value: "1", Time: time.Unix(0, 5).UTC()}
		if id != "r1" || len(got) != 1 || got[0] != want {
			t.Errorf("run %q, stored %+v", id, got)
		}
		totals := j.Totals()[0]
		if totals.Delivered != 3 || totals.Rejected != 2 || totals.Dropped != 1 {
			t.Errorf("totals %+v", totals)
		}
	})
}

// The ledger shows a file before its position moves, and a position does not
// move when the ledger cannot be written.
func TestLedgerGoesFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	ledger, err := checkpoint.OpenLedger(path, func() time.Time { return time.Unix(0, 0) })
	if err != nil {
		t.Fatal(err)
	}
	account := []byte(`{"origin":"0AT1","rows":5,"delivered":5}`)
	early := false
	j := startJob(t, t.Context(), func(c *checkpoint.JobConfig) { c.Ledger, c.Interval = ledger, 0 })
	j.store.Fault = func(call checkpointtest.Call) checkpointtest.Fault {
		text, _ := os.ReadFile(path)
		early = early || call == checkpointtest.Put && !strings.Contains(string(text), "0AT1")
		return checkpointtest.Fault{}
	}
	j.feed.run("a")
	j.feed.acks <- record.Ack{Key: "k", Value: "1", Account: account}
	j.feed.run("a", 0)
	wantStatus(t, j.finish(io.EOF), sysexits.OK, "")
	if early {
		t.Error("the position moved before the ledger showed the account")
	}
	var line struct {
		V       int             `json:"v"`
		At      string          `json:"at"`
		RunID   string          `json:"run_id"`
		Key     string          `json:"checkpoint_key"`
		Account json.RawMessage `json:"account"`
	}
	text, _ := os.ReadFile(path)
	if err := json.Unmarshal(text, &line); err != nil {
		t.Fatal(err)
	}
	if line.V != 1 || line.At != "1970-01-01T00:00:00.000000000Z" || line.RunID != "r1" || line.Key != "k" || string(line.Account) != string(account) {
		t.Errorf("the ledger holds %s", text)
	}

	if err := ledger.Close(); err != nil {
		t.Fatal(err)
	}
	j = startJob(t, t.Context(), func(c *checkpoint.JobConfig) { c.Ledger, c.Interval = ledger, 0 })
	j.feed.acks <- record.Ack{Key: "k", Value: "1", Account: account}
	wantStatus(t, <-j.done, sysexits.IOErr, "write the ledger")
	if got := stored(t, j.store); got != "none" {
		t.Errorf("stored %s", got)
	}
	j.wantSum(t, 1, 0, 0, 1)
	close(j.feed.acks)
}

// The ledger tells of entries that were captured nowhere before a position
// passes them, as no account may come any more; the account of their file tells
// of them too.
func TestLossesInTheLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	ledger, err := checkpoint.OpenLedger(path, func() time.Time { return time.Unix(0, 0) })
	if err != nil {
		t.Fatal(err)
	}
	early := ""
	j := startJob(t, t.Context(), func(c *checkpoint.JobConfig) { c.Ledger, c.Interval = ledger, 0 })
	moved := make(chan struct{}, 3)
	j.store.Fault = func(call checkpointtest.Call) checkpointtest.Fault {
		if call == checkpointtest.Put {
			text, _ := os.ReadFile(path)
			early += fmt.Sprint(strings.Count(string(text), "\n"))
			moved <- struct{}{}
		}
		return checkpointtest.Fault{}
	}
	j.feed.run("a")
	j.feed.acks <- record.Ack{Key: "k", Value: "1", Dropped: 2, Time: 1, HasTime: true}
	<-moved
	j.feed.acks <- record.Ack{Key: "k", Value: "2", Dropped: 1}
	<-moved
	j.feed.acks <- record.Ack{Key: "k", Value: "3", Account: []byte(`{"origin":"0AT1","dropped":3}`)}
	<-moved
	j.feed.run("a", 0)
	if err := errors.Join(j.finish(io.EOF), ledger.Close()); err != nil {
		t.Fatal(err)
	}
	const head = `{"v":1,"at":"1970-01-01T00:00:00.000000000Z","run_id":"r1","checkpoint_key":"k",`
	text, _ := os.ReadFile(path)
	if want := head + `"loss":{"dropped":2,"ts":"1970-01-01T00:00:00.000000001Z","checkpoint_value":"1"}}` + "\n" +
		head + `"loss":{"dropped":3,"checkpoint_value":"2"}}` + "\n" +
		head + `"account":{"origin":"0AT1","dropped":3}}` + "\n"; string(text) != want || early != "123" {
		t.Errorf("lines when positions moved: %s; the ledger holds\n%swant\n%s", early, text, want)
	}
}
