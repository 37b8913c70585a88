package pubsub

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sftest"
)

// accounts are what was written of the topic: its span and its rows.
func (o *output) accounts(t *testing.T) (list []string) {
	t.Helper()
	for _, w := range o.everything() {
		if w.Account == nil {
			continue
		}
		var a record.Account
		if err := json.Unmarshal(w.Account, &a); err != nil || a.EventType != "Order_Shipped__e" || !w.CheckpointOnly || len(w.Value) == 0 {
			t.Fatalf("%v: %s", err, w.Raw)
		}
		list = append(list, fmt.Sprintf("%s: %d", strings.TrimPrefix(a.Origin, order+" "), a.Rows))
	}
	return list
}

func wantAccounts(t *testing.T, r *rig, want ...string) {
	t.Helper()
	if got := r.out.accounts(t); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("accounts\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// There is an account for each hour of the events that came, also when none
// come any more, and one for what there was at the end. Late events count where
// they come, and those that are ahead of their time end no hour.
func TestAccounts(t *testing.T) {
	inBubble(t, sftest.BusConfig{MaxBatch: 3}, func(r *rig) {
		r.define()
		time.Sleep(24 * time.Hour)
		n := 0
		publish := func(minutes ...int) {
			for _, m := range minutes {
				ev := orderEvent(n)
				n++
				ev.Value["CreatedDate"] = time.Now().Add(time.Duration(m) * time.Minute).UnixMilli()
				r.bus.Publish(order, ev)
			}
		}
		publish(-170, -150, -100, -110, -20, 600, 600, -10) // before midnight
		run := r.start()
		r.out.waitEvents(n)
		wantAccounts(t, r,
			"2000-01-01T21:10:00.000Z/2000-01-01T21:30:00.000Z: 2",
			"2000-01-01T22:10:00.000Z/2000-01-01T22:20:00.000Z: 2",
			"2000-01-01T23:40:00.000Z/2000-01-01T23:40:00.000Z: 1")
		time.Sleep(2 * time.Hour)
		publish(0)
		r.out.waitEvents(n)
		run.end()
		all := r.out.accounts(t)
		if want := []string{
			"2000-01-01T23:50:00.000Z/2000-01-02T10:00:00.000Z: 3", "2000-01-02T02:00:00.000Z/2000-01-02T02:00:00.000Z: 1",
		}; len(all) != 5 || fmt.Sprint(all[3:]) != fmt.Sprint(want) {
			t.Errorf("accounts %q, want %q at the end", all, want)
		}
		list := r.out.everything()
		if at := list[len(list)-2:]; string(at[0].Value) != string(at[1].Value) {
			t.Errorf("the account is of %s, and the last event at %s", at[1].Value, at[0].Value)
		}
	})
}
