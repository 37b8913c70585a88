package pubsub

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sf2loki/pkg/sftest"
)

func TestPull(t *testing.T) {
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		r.define()
		ids := r.publish(0, 250)
		run := r.start()
		r.out.wait(250)
		r.wantNumbers(count(0, 250))
		for i, w := range r.out.all() {
			if string(w.Key) != "pubsub:"+order || string(w.Origin) != order+":"+b64(ids[i]) || w.Time != int64(1782900000000+1000*i)*1e6 {
				t.Fatalf("record %d is %s", i, w.Raw)
			}
			at, err := parsePosition(string(w.Value), r.org.ID)
			if err != nil || b64(at.id) != b64(ids[i]) || at.time != w.Time {
				t.Fatalf("record %d has the position %s: %v", i, w.Value, err)
			}
		}
		labels := ""
		for _, l := range r.out.all()[0].Labels {
			labels += string(l.Name) + "=" + string(l.Value) + " "
		}
		if want := "event_type=Order_Shipped__e sf_org_id=" + r.org.ID + " source=pubsub "; labels != want {
			t.Errorf("labels %s, want %s", labels, want)
		}
		if err := run.end(); !errors.Is(err, errStop) {
			t.Errorf("the end is %v", err)
		}
		c := run.totals().Types[0]
		if c.Read != 250 || c.Written != 250 || c.EventType != "Order_Shipped__e" {
			t.Errorf("counted %+v", c)
		}
	})
}

func TestSignsOfLife(t *testing.T) { // C10
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		r.define()
		r.publish(0, 1)
		run := r.start()
		r.out.wait(1)
		time.Sleep(minutes(10))
		synctest.Wait()
		if n := len(r.out.all()); n != 1 {
			t.Errorf("%d lines although nothing has changed", n)
		}
		id := r.bus.Tick()
		time.Sleep(minutes(10))
		synctest.Wait()
		all := r.out.all()
		if len(all) != 2 || !all[1].CheckpointOnly || all[1].Line != nil {
			t.Fatalf("%d lines: %s", len(all), r.out.text.String())
		}
		at, err := parsePosition(string(all[1].Value), r.org.ID)
		if err != nil || b64(at.id) != b64(id) || at.time != all[0].Time {
			t.Errorf("the position is %s", all[1].Value)
		}
		if c := run.topic(order); c.Reconnects != 0 || !c.Up || c.Credit != 99 {
			t.Errorf("the topic is %+v", c)
		}
		run.end()
	})
}
