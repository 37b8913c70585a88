package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/checkpointtest"
	"sf2loki/pkg/sysexits"
)

func TestUpdate(t *testing.T) {
	set := func(doc *checkpoint.Document) error { doc.Set("k", "2"); return nil }
	tests := []struct {
		name, before string
		epoch        uint64
		edit         func(*checkpoint.Document) error
		code         sysexits.Code
		want         string
		puts         int
	}{
		{"change", `{"k":"1","j":"1"}`, 0, set, 0, "k=2 j=1", 1},
		{"no change", `{"k":"2"}`, 0, set, 0, "k=2", 0},
		{"refused by the edit", `{"k":"1"}`, 0, func(*checkpoint.Document) error { return errPerm }, 77, "k=1", 0},
		{"moved", `{"__moved_to__":"x"}`, 0, set, 76, "__moved_to__=x", 0},
		{"fenced", `{"__fence_epoch__":"2"}`, 1, set, 76, "__fence_epoch__=2", 0},
		{"corrupt", `{"k":1}`, 0, set, 78, "", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			store := new(checkpointtest.Memory)
			fill(t, store, test.before)
			before := store.Calls(checkpointtest.Put)
			err := checkpoint.Update(t.Context(), store, test.epoch, checkpoint.DefaultRetry, test.edit)
			wantStatus(t, err, test.code, "")
			if got := store.Calls(checkpointtest.Put) - before; got != test.puts {
				t.Errorf("%d writes, want %d", got, test.puts)
			}
			if test.want != "" && stored(t, store) != test.want {
				t.Errorf("stored %s, want %s", stored(t, store), test.want)
			}
		})
	}
}

// An edit that meets a quicker writer is made again on what that one wrote.
func TestUpdateMeetsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(checkpointtest.Memory)
		met := false
		store.Fault = func(call checkpointtest.Call) checkpointtest.Fault {
			if met || call != checkpointtest.Put {
				return checkpointtest.Fault{}
			}
			met = true
			return checkpointtest.Fault{Meet: func() { fill(t, store, `{"other":"1"}`) }}
		}
		err := checkpoint.Update(t.Context(), store, 0, checkpoint.DefaultRetry, func(doc *checkpoint.Document) error {
			doc.Set("k", "1")
			return nil
		})
		wantStatus(t, err, sysexits.OK, "")
		if got := stored(t, store); got != "other=1 k=1" {
			t.Errorf("stored %s", got)
		}
	})
}

// named is a Memory with a name of its own.
type named struct {
	*checkpointtest.Memory
	name string
}

func (n named) String() string { return n.name }

func TestMove(t *testing.T) {
	const moved = `{"b":"2","a":"1","__ts__:a":"2026-07-01T00:00:00.000000000Z","__fence_epoch__":"3"}`
	const there = "b=2 a=1 __ts__:a=2026-07-01T00:00:00.000000000Z"
	tests := []struct {
		name, from, to   string
		code             sysexits.Code
		wantFrom, wantTo string
	}{
		{"to nothing", moved, "", 0, "__moved_to__=TO __fence_epoch__=3", there + " __fence_epoch__=3 __copied_from__=FROM"},
		{"to another's document", moved, `{"c":"9","__fence_epoch__":"8"}`, 0,
			"__moved_to__=TO __fence_epoch__=3", "c=9 __fence_epoch__=8 " + there + " __copied_from__=FROM"},
		{"same position there", moved, `{"a":"1"}`, 0,
			"__moved_to__=TO __fence_epoch__=3", "a=1 b=2 __ts__:a=2026-07-01T00:00:00.000000000Z __fence_epoch__=3 __copied_from__=FROM"},
		{"another position there", `{"a":"1"}`, `{"a":"2"}`, 76, "a=1", "a=2"},
		{"back again", `{"a":"1"}`, `{"__moved_to__":"FROM"}`, 0, "__moved_to__=TO", "a=1 __copied_from__=FROM"},
		{"to what was moved elsewhere", `{"a":"1"}`, `{"__moved_to__":"X"}`, 76, "a=1", "__moved_to__=X"},
		{"once more", `{"__moved_to__":"TO"}`, `{"a":"1"}`, 0, "__moved_to__=TO", "a=1"},
		{"elsewhere already", `{"__moved_to__":"X"}`, `{"a":"1"}`, 76, "__moved_to__=X", "a=1"},
		{"nothing to move", "", `{"a":"1"}`, 65, "none", "a=1"},
		{"corrupt", `{"a":1}`, `{"a":"1"}`, 78, "", "a=1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			from, to := named{new(checkpointtest.Memory), "FROM"}, named{new(checkpointtest.Memory), "TO"}
			for store, text := range map[checkpoint.Store]string{from: test.from, to: test.to} {
				if text != "" {
					fill(t, store, text)
				}
			}
			_, err := checkpoint.Move(t.Context(), from, to, checkpoint.DefaultRetry)
			wantStatus(t, err, test.code, "")
			if test.wantFrom != "" && stored(t, from) != test.wantFrom {
				t.Errorf("FROM holds %s, want %s", stored(t, from), test.wantFrom)
			}
			if got := stored(t, to); got != test.wantTo {
				t.Errorf("TO holds %s, want %s", got, test.wantTo)
			}
		})
	}
}

// A commit that comes between the copy and the tombstone is taken along.
func TestMoveMeetsACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := named{new(checkpointtest.Memory), "FROM"}, named{new(checkpointtest.Memory), "TO"}
		fill(t, from, `{"a":"1"}`)
		lane := committer(t, from, 0)
		met := false
		to.Fault = func(call checkpointtest.Call) checkpointtest.Fault {
			if met || call != checkpointtest.Put {
				return checkpointtest.Fault{}
			}
			met = true
			return checkpointtest.Fault{Meet: func() {
				if _, err := commit(t, lane, "b", "2"); err != nil {
					t.Error(err)
				}
			}}
		}
		_, err := checkpoint.Move(t.Context(), from, to, checkpoint.DefaultRetry)
		wantStatus(t, err, sysexits.OK, "")
		if got, want := stored(t, to), "a=1 __copied_from__=FROM b=2"; got != want {
			t.Errorf("TO holds %s, want %s", got, want)
		}
		_, err = commit(t, lane, "a", "2")
		wantStatus(t, err, sysexits.Protocol, "FROM was moved to TO")
	})
}

func TestMoveOntoItself(t *testing.T) {
	store := new(checkpointtest.Memory)
	fill(t, store, `{"a":"1"}`)
	_, err := checkpoint.Move(t.Context(), named{store, "one"}, named{store, "two"}, checkpoint.DefaultRetry)
	wantStatus(t, err, sysexits.Usage, "one and two are the same document")
	if got := stored(t, store); got != "a=1" {
		t.Errorf("stored %s", got)
	}
}

func TestImport(t *testing.T) {
	tests := []struct {
		name, doc, in string
		mapping       checkpoint.Mapping
		code          sysexits.Code
		want          string
		fates         string
	}{
		{"into nothing", `{}`, `{"a":"1","b":"2","__fence_epoch__":"9","__ts__:a":"x"}`, checkpoint.Mapping{}, 0, "a=1 b=2", "[added added]"},
		{"beside others", `{"c":"3"}`, `{"a":"1"}`, checkpoint.Mapping{}, 0, "c=3 a=1", "[added]"},
		{"the same again", `{"a":"1","__ts__:a":"x"}`, `{"a":"1"}`, checkpoint.Mapping{}, 0, "a=1 __ts__:a=x", "[same]"},
		{"another value", `{"a":"1"}`, `{"b":"1","a":"2"}`, checkpoint.Mapping{}, 76, "", ""},
		{"replaced", `{"a":"1","__ts__:a":"x"}`, `{"a":"2"}`, checkpoint.Mapping{Replace: true}, 0, "a=2", "[replaced]"},
		{"org", `{}`, `{"pubsub:/e":"1","org=x:pubsub:/e":"2","lane=l:apexlog":"3","egress:budget":"4"}`, checkpoint.Mapping{Org: "prod"}, 0,
			"org=prod:pubsub:/e=1 org=x:pubsub:/e=2 org=prod:lane=l:apexlog=3 egress:budget=4", "[added added added added]"},
		{"the org's own key wins", `{}`, `{"pubsub:/e":"1","org=prod:pubsub:/e":"2"}`, checkpoint.Mapping{Org: "prod"}, 0,
			"org=prod:pubsub:/e=2", "[ignored added]"},
		{"daily", `{}`, `{"eventlogfile:Login":"1","eventlogfile:Daily:API":"2","eventlog_objects:X":"3"}`, checkpoint.Mapping{Daily: true, Org: "a"}, 0,
			"org=a:eventlogfile:Daily:Login=1 org=a:eventlogfile:Daily:API=2 org=a:eventlog_objects:X=3", "[added added added]"},
		{"once", `{"org=a:eventlogfile:Daily:Login":"1"}`, `{"eventlogfile:Login":"1"}`, checkpoint.Mapping{Daily: true, Org: "a"}, 0,
			"org=a:eventlogfile:Daily:Login=1", "[same]"},
		{"once, and moved since", `{"org=a:apexlog":"2"}`, `{"apexlog":"1"}`, checkpoint.Mapping{Org: "a"}, 76, "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			store := new(checkpointtest.Memory)
			fill(t, store, test.doc)
			in, err := checkpoint.ParseDocument([]byte(test.in))
			if err != nil {
				t.Fatal(err)
			}
			var done []checkpoint.Imported
			err = checkpoint.Update(t.Context(), store, 0, checkpoint.DefaultRetry, func(doc *checkpoint.Document) (err error) {
				done, err = checkpoint.Import(doc, in, test.mapping)
				return err
			})
			wantStatus(t, err, test.code, "")
			if test.code != 0 {
				test.want = stored(t, store)
				if fill(t, store, test.doc); stored(t, store) != test.want {
					t.Errorf("a refused import changed the document to %s", test.want)
				}
				return
			}
			var fates []checkpoint.Fate
			for _, d := range done {
				fates = append(fates, d.Fate)
			}
			if got := stored(t, store); got != test.want || fmt.Sprint(fates) != test.fates {
				t.Errorf("stored %s, %v; want %s, %s", got, fates, test.want, test.fates)
			}
		})
	}
}

// careless is a store without compare-and-swap.
type careless struct{ *checkpointtest.Memory }

func (careless) Inspect(context.Context) []checkpoint.Finding { return nil }

func (c careless) Scratch(context.Context) (checkpoint.Store, func(context.Context) error, error) {
	return carelessScratch{new(checkpointtest.Memory)}, func(context.Context) error { return nil }, nil
}

type carelessScratch struct{ *checkpointtest.Memory }

func (c carelessScratch) Put(ctx context.Context, data []byte, _ checkpoint.Generation) (checkpoint.Generation, error) {
	_, gen, err := c.Get(ctx)
	if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		return "", err
	}
	return c.Memory.Put(ctx, data, gen)
}

// Z23: a store that ignores conditions is found out.
func TestDoctorFindsCarelessStore(t *testing.T) {
	findings := checkpoint.Doctor(t.Context(), careless{new(checkpointtest.Memory)})
	wantStatus(t, checkpoint.Verdict(findings), sysexits.Config, "compare-and-swap")
}

func TestDoctorReadsTheDocument(t *testing.T) {
	tests := []struct {
		doc  string
		code sysexits.Code
		want string
	}{
		{`{"eventlogfile:Login":"2026-07-01T00:00:00Z"}`, 0, "[PASS]"},
		{`{"pubsub:/event/X":"!!"}`, 0, "[PASS WARN]"},
		{`{"__moved_to__":"x"}`, 76, "[FAIL]"},
		{`{"__fence_epoch__":"x"}`, 78, "[FAIL]"},
		{`[]`, 78, "[FAIL]"},
	}
	for _, test := range tests {
		store := new(checkpointtest.Memory)
		fill(t, store, test.doc)
		findings := checkpoint.Doctor(t.Context(), store)
		var levels []checkpoint.Level
		for _, f := range findings {
			levels = append(levels, f.Level)
		}
		if got := sysexits.Of(checkpoint.Verdict(findings)); got != test.code || fmt.Sprint(levels) != test.want {
			t.Errorf("%s: %v, status %d; want %s, %d", test.doc, levels, got, test.want, test.code)
		}
	}
}
