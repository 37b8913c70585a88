package pubsub

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sf2loki/pkg/sftest"
)

const subscription = "18xxx0000000001AAA"

// document is where the other end of the pipe stores positions.
type document struct {
	mu    sync.Mutex
	value map[string]string
	err   error
}

func (d *document) set(key, value string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.value == nil {
		d.value = map[string]string{}
	}
	d.value[key] = value
}

func (d *document) get(key string) (string, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, ok := d.value[key]
	return v, ok, d.err
}

func managedRig(r *rig) (*document, string) {
	doc := &document{}
	r.define()
	r.bus.DefineManaged(sftest.Managed{ID: subscription, DeveloperName: "Mine", Topic: order})
	r.cfg.Managed, r.cfg.Stored = subscription, doc.get
	r.cfg.Topics = TopicList{}
	return doc, "pubsub:managed:" + subscription
}

// Salesforce hears of a position when it has been stored, not before.
func TestManaged(t *testing.T) { // #146, peers 78
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		doc, key := managedRig(r)
		ids := r.publish(0, 10)
		run := r.start()
		r.out.waitEvents(10)
		time.Sleep(minutes(2))
		synctest.Wait()
		if calls := r.bus.Calls("Commit"); len(calls) != 0 {
			t.Fatalf("committed what nobody has stored: %q", calls)
		}
		w := r.out.all()[4]
		if string(w.Key) != key {
			t.Errorf("the key is %s", w.Key)
		}
		contains(t, string(w.Raw), `"event_type":"Order_Shipped__e"`)
		doc.set(key, string(w.Value))
		r.bus.WaitCommitted(subscription, ids[4])
		// Without news the position is committed once more now and then, or
		// the bus would close the subscription.
		time.Sleep(minutes(120))
		if n := len(r.bus.Calls("Commit")); n < 4 || n > 60 {
			t.Errorf("%d commits in two hours", n)
		}
		if n := len(r.bus.Calls("ManagedSubscribe")); n != 1 {
			t.Errorf("opened %d times", n)
		}
		run.end()
		r.bus.WaitStreams(order, 0)

		// Another run goes on behind what was committed.
		r.out = newOutput()
		r.cfg.Output.Records = r.out.records
		r.cfg.Managed = "Mine"
		doc.set("pubsub:managed:Mine", b64(ids[4]))
		run = r.start()
		r.out.waitEvents(5)
		r.wantNumbers(count(5, 10))
		run.end()
	})
}

// After an interruption what was not committed comes again, and is passed over.
func TestManagedInterrupted(t *testing.T) {
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		doc, key := managedRig(r)
		r.publish(0, 10)
		run := r.start()
		r.out.waitEvents(10)
		r.bus.Cut()
		r.bus.WaitCalls("ManagedSubscribe", 2)
		r.publish(10, 12)
		r.out.waitEvents(12)
		r.wantNumbers(count(0, 12))
		doc.set(key, `{"v":1,"id":"Z2FyYmFnZQ=="}`)
		r.bus.WaitCalls("Commit", 1)
		synctest.Wait()
		if c := run.topic(managedTopic(subscription)); c.CommitErrors != 1 {
			t.Errorf("the topic is %+v", c)
		}
		contains(t, r.out.log.String(), "does not take a position")
		run.end()
	})
}

// The place that another client holds is waited for.
func TestManagedIsTaken(t *testing.T) {
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		managedRig(r)
		r.publish(0, 1)
		first := r.start()
		r.out.waitEvents(1)
		second := r.start()
		r.bus.WaitCalls("ManagedSubscribe", 3)
		contains(t, r.out.log.String(), "another client reads it")
		first.end()
		r.out.waitEvents(2)
		second.end()
	})
}

func TestManagedID(t *testing.T) {
	for name, want := range map[string]bool{subscription: true, "18xxx0000000001": true, "Mine": false, "18x": false, "28xxx0000000001AAA": false} {
		if isManagedID(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}
