package checkpoint_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/checkpointtest"
	"sf2loki/pkg/sysexits"
)

var (
	errBusy  = sysexits.Errorf(sysexits.Unavailable, "503 slow down")
	errReset = sysexits.Errorf(sysexits.IOErr, "connection reset")
	errPerm  = sysexits.Errorf(sysexits.NoPerm, "403 forbidden")
)

func nothing() error { return nil }

func committer(t *testing.T, store checkpoint.Store, epoch uint64) *checkpoint.Committer {
	t.Helper()
	c, err := checkpoint.NewCommitter(t.Context(), store, epoch, checkpoint.DefaultRetry)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func commit(t *testing.T, c *checkpoint.Committer, pairs ...string) (checkpoint.Result, error) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		c.Stage(checkpoint.Position{Key: pairs[i], Value: pairs[i+1]})
	}
	return c.Write(t.Context(), nothing)
}

// fill makes the store hold text.
func fill(t *testing.T, store checkpoint.Store, text string) {
	t.Helper()
	_, gen, err := store.Get(t.Context())
	if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		t.Fatal(err)
	}
	if _, err := store.Put(t.Context(), []byte(text), gen); err != nil {
		t.Fatal(err)
	}
}

// stored is the document in short: key=value key=value.
func stored(t *testing.T, store checkpoint.Store) string {
	t.Helper()
	data, _, err := store.Get(t.Context())
	if errors.Is(err, checkpoint.ErrNotFound) {
		return "none"
	}
	if err != nil {
		t.Fatal(err)
	}
	doc, err := checkpoint.ParseDocument(data)
	if err != nil {
		t.Fatal(err)
	}
	var pairs []string
	for key, value := range doc.All() {
		pairs = append(pairs, key+"="+value)
	}
	return strings.Join(pairs, " ")
}

func wantStatus(t *testing.T, err error, code sysexits.Code, text string) {
	t.Helper()
	if sysexits.Of(err) != code || !strings.Contains(fmt.Sprint(err), text) {
		t.Errorf("got %v (%d), want %q (%d)", err, sysexits.Of(err), text, code)
	}
}

func TestKeysOfOthersAreMerged(t *testing.T) {
	store := new(checkpointtest.Memory)
	fill(t, store, `{"a":"1","b":"1","c":"1"}`)
	first, second := committer(t, store, 0), committer(t, store, 0)
	for i := 2; i < 5; i++ {
		value := fmt.Sprint(i)
		if _, err := commit(t, first, "a", value); err != nil {
			t.Fatal(err)
		}
		if _, err := commit(t, second, "b", value, "d", value); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := stored(t, store), "a=4 b=4 c=1 d=4"; got != want {
		t.Errorf("stored %s, want %s", got, want)
	}
}

// #48: a paused committer that comes back never takes a key back.
func TestKeyMovedByAnother(t *testing.T) {
	tests := []struct{ name, before, meanwhile, want string }{
		{"another value", `{"k":"1"}`, `{"k":"9"}`, "k=9 other=2"},
		{"made meanwhile", `{}`, `{"k":"9"}`, "k=9 other=2"},
		{"removed meanwhile", `{"k":"1"}`, `{}`, "other=2"},
		{"already there", `{"k":"1"}`, `{"k":"5"}`, "k=5 other=2"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			store := new(checkpointtest.Memory)
			fill(t, store, test.before)
			paused := committer(t, store, 0)
			fill(t, store, test.meanwhile)
			result, err := commit(t, paused, "k", "5", "other", "2")
			if test.name == "already there" {
				wantStatus(t, err, sysexits.OK, "")
			} else {
				wantStatus(t, err, sysexits.Protocol, "another writer moved k")
				if len(result.Refused) != 1 || len(result.Written) != 1 {
					t.Errorf("result %+v", result)
				}
			}
			if got := stored(t, store); got != test.want {
				t.Errorf("stored %s, want %s", got, test.want)
			}
		})
	}
}

// What others write is seen when the documents merge, and still is no licence
// to move their keys.
func TestMergingIsNotSeeing(t *testing.T) {
	store := new(checkpointtest.Memory)
	fill(t, store, `{"k":"1"}`)
	c := committer(t, store, 0)
	fill(t, store, `{"k":"9"}`)
	if _, err := commit(t, c, "other", "1"); err != nil {
		t.Fatal(err)
	}
	_, err := commit(t, c, "k", "2")
	wantStatus(t, err, sysexits.Protocol, `to "9", not from "1"`)
}

func TestFence(t *testing.T) {
	tests := []struct {
		name, doc string
		epoch     uint64
		code      sysexits.Code
		want      string
	}{
		{"no lease, no fence", `{}`, 0, 0, "k=1"},
		{"no lease, fence", `{"__fence_epoch__":"7"}`, 0, 0, "__fence_epoch__=7 k=1"},
		{"lower", `{"__fence_epoch__":"7"}`, 6, 76, "__fence_epoch__=7"},
		{"equal", `{"__fence_epoch__":"7"}`, 7, 0, "__fence_epoch__=7 k=1"},
		{"higher", `{"__fence_epoch__":"7"}`, 8, 0, "__fence_epoch__=8 k=1"},
		{"no fence yet", `{}`, 8, 0, "k=1 __fence_epoch__=8"},
		{"no number", `{"__fence_epoch__":"x"}`, 8, 78, "__fence_epoch__=x"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			store := new(checkpointtest.Memory)
			fill(t, store, test.doc)
			c, err := checkpoint.NewCommitter(t.Context(), store, test.epoch, checkpoint.DefaultRetry)
			if err == nil {
				_, err = commit(t, c, "k", "1")
			}
			if sysexits.Of(err) != test.code {
				t.Errorf("%v, want status %d", err, test.code)
			}
			if got := stored(t, store); got != test.want {
				t.Errorf("stored %s, want %s", got, test.want)
			}
		})
	}
}

// G7: a leader that lost its lease while it ran is stopped at its next write.
func TestFencedWhileRunning(t *testing.T) {
	store := new(checkpointtest.Memory)
	fill(t, store, `{"k":"1","__fence_epoch__":"1"}`)
	stale := committer(t, store, 1)
	fill(t, store, `{"k":"1","__fence_epoch__":"2"}`)
	_, err := commit(t, stale, "k", "5", "new", "1")
	wantStatus(t, err, sysexits.Protocol, "epoch 2 leads, ours is 1")
	if got, want := stored(t, store), "k=1 __fence_epoch__=2"; got != want {
		t.Errorf("stored %s, want %s", got, want)
	}
}

func TestMovedWhileRunning(t *testing.T) {
	store := new(checkpointtest.Memory)
	fill(t, store, `{"k":"1"}`)
	c := committer(t, store, 0)
	fill(t, store, `{"__moved_to__":"s3://b/k"}`)
	_, err := commit(t, c, "k", "2")
	wantStatus(t, err, sysexits.Protocol, "was moved to s3://b/k")
}

// #44: a blip of the store costs a moment, a refusal ends the run at once.
func TestStoreErrors(t *testing.T) {
	tests := []struct {
		name   string
		faults []checkpointtest.Fault // of the calls of Put, in turn
		code   sysexits.Code
		puts   int
		want   string
	}{
		{"busy twice", []checkpointtest.Fault{{Err: errBusy}, {Err: errBusy}}, 0, 3, "k=2"},
		{"reply lost", []checkpointtest.Fault{{Err: errReset, Done: true}}, 0, 1, "k=2"},
		{"reply lost after busy", []checkpointtest.Fault{{Err: errBusy}, {Err: errReset, Done: true}}, 0, 2, "k=2"},
		{"conflict that was our own write", []checkpointtest.Fault{{Err: checkpoint.ErrConflict, Done: true}}, 0, 1, "k=2"},
		{"forbidden", []checkpointtest.Fault{{Err: errPerm}}, 77, 1, "k=1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := new(checkpointtest.Memory)
				fill(t, store, `{"k":"1"}`)
				before := store.Calls(checkpointtest.Put)
				c := committer(t, store, 0)
				store.Fault = inTurn(checkpointtest.Put, test.faults)
				_, err := commit(t, c, "k", "2")
				if sysexits.Of(err) != test.code {
					t.Errorf("%v, want status %d", err, test.code)
				}
				if got := store.Calls(checkpointtest.Put) - before; got != test.puts {
					t.Errorf("%d writes, want %d", got, test.puts)
				}
				if got := stored(t, store); got != test.want {
					t.Errorf("stored %s, want %s", got, test.want)
				}
			})
		})
	}
}

func inTurn(call checkpointtest.Call, faults []checkpointtest.Fault) func(checkpointtest.Call) checkpointtest.Fault {
	return func(c checkpointtest.Call) checkpointtest.Fault {
		if c != call || len(faults) == 0 {
			return checkpointtest.Fault{}
		}
		fault := faults[0]
		faults = faults[1:]
		return fault
	}
}

// A lost reply, and another writer on top of it before we look.
func TestReplyLostAndAnotherOnTop(t *testing.T) {
	for name, on := range map[string]string{"another key": `{"k":"2","j":"9"}`, "our key": `{"k":"9"}`} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := new(checkpointtest.Memory)
				fill(t, store, `{"k":"1"}`)
				c := committer(t, store, 0)
				failed := false
				store.Fault = func(call checkpointtest.Call) checkpointtest.Fault {
					switch {
					case call == checkpointtest.Put && !failed:
						failed = true
						return checkpointtest.Fault{Err: errReset, Done: true}
					case call == checkpointtest.Get:
						store.Fault = nil
						return checkpointtest.Fault{Meet: func() { fill(t, store, on) }}
					}
					return checkpointtest.Fault{}
				}
				_, err := commit(t, c, "k", "2")
				if name == "our key" {
					wantStatus(t, err, sysexits.Protocol, "another writer moved k")
				} else {
					wantStatus(t, err, sysexits.OK, "")
				}
			})
		})
	}
}

func TestStoreDownForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(checkpointtest.Memory)
		c := committer(t, store, 0)
		store.Fault = func(checkpointtest.Call) checkpointtest.Fault { return checkpointtest.Fault{Err: errBusy} }
		start := time.Now()
		result, err := commit(t, c, "k", "2")
		wantStatus(t, err, sysexits.Unavailable, "503 slow down")
		if took := time.Since(start); took > checkpoint.DefaultRetry.For || took < checkpoint.DefaultRetry.For/4 {
			t.Errorf("gave up after %s", took)
		}
		if len(result.Refused) != 1 {
			t.Errorf("result %+v", result)
		}
		_, err = checkpoint.NewCommitter(t.Context(), store, 0, checkpoint.DefaultRetry)
		wantStatus(t, err, sysexits.Unavailable, "503 slow down")
	})
}

func TestContentionForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(checkpointtest.Memory)
		c := committer(t, store, 0)
		n := 0
		meet := func() {
			store.Fault = nil
			n++
			fill(t, store, fmt.Sprintf(`{"busy":"%d"}`, n))
		}
		var quicker func(call checkpointtest.Call) checkpointtest.Fault
		quicker = func(call checkpointtest.Call) checkpointtest.Fault {
			if call != checkpointtest.Put {
				return checkpointtest.Fault{}
			}
			return checkpointtest.Fault{Meet: func() { meet(); store.Fault = quicker }}
		}
		store.Fault = quicker
		_, err := commit(t, c, "k", "2")
		wantStatus(t, err, sysexits.TempFail, "has changed meanwhile")
	})
}

// What could not be read again is not written.
func TestFullDocument(t *testing.T) {
	store := new(checkpointtest.Memory)
	c := committer(t, store, 0)
	long := strings.Repeat("x", checkpoint.MaxBytes/2)
	if _, err := commit(t, c, "a", long); err != nil {
		t.Fatal(err)
	}
	_, err := commit(t, c, "b", long)
	wantStatus(t, err, sysexits.Config, "more than 16 MiB")
	c = committer(t, store, 0)
	if _, there := c.Document().Get("b"); there || c.Document().Len() != 1 {
		t.Errorf("%d keys are stored", c.Document().Len())
	}
}

func TestNothingIsWrittenWhenBeforeFails(t *testing.T) {
	store := new(checkpointtest.Memory)
	c := committer(t, store, 0)
	c.Stage(checkpoint.Position{Key: "k", Value: "1"})
	result, err := c.Write(t.Context(), func() error { return errReset })
	if !errors.Is(err, errReset) || len(result.Refused) != 1 || stored(t, store) != "none" {
		t.Errorf("%v, %+v, stored %s", err, result, stored(t, store))
	}
}

func TestRecordTimes(t *testing.T) {
	store := new(checkpointtest.Memory)
	c := committer(t, store, 0)
	c.Stage(checkpoint.Position{Key: "k", Value: "1", Time: time.Unix(1, 5)})
	if _, err := c.Write(t.Context(), nothing); err != nil {
		t.Fatal(err)
	}
	if got, want := stored(t, store), "k=1 __ts__:k=1970-01-01T00:00:01.000000005Z"; got != want {
		t.Errorf("stored %s, want %s", got, want)
	}
	if _, err := commit(t, c, "k", "2"); err != nil {
		t.Fatal(err)
	}
	if got, want := stored(t, store), "k=2"; got != want {
		t.Errorf("a record without a time: stored %s, want %s", got, want)
	}
}

func TestCorruptDocument(t *testing.T) {
	store := new(checkpointtest.Memory)
	for _, text := range []string{"", "{", "[]", `{"a":1}`, `{"a":"1","a":"2"}`} {
		fill(t, store, text)
		_, err := checkpoint.NewCommitter(t.Context(), store, 0, checkpoint.DefaultRetry)
		wantStatus(t, err, sysexits.Config, "memory is not a checkpoint document")
	}
}
