package pubsub

import (
	"encoding/json"
	"errors"
	"testing"

	"sf2loki/pkg/sftest"
)

func TestPlan(t *testing.T) {
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		r.cfg.Topics.Names = []string{order, "*"}
		r.define()
		ids := r.publish(0, 1)
		r.bus.DefineTopic(sftest.Topic{Name: "/event/LoginEventStream", CannotSubscribe: true})
		r.api.setObjects("LoginEventStream")
		r.cfg.KeyPrefix = "lane=b:"
		r.cfg.Resume = func(key string) (string, bool) { return b64(ids[0]), key == "lane=b:pubsub:"+order }
		plan, err := New(r.cfg).Plan(r.t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(plan)
		if err != nil {
			t.Fatal(err)
		}
		want := `{"source":"pubsub","static":false,"org_id":"` + r.org.ID + `","patterns":["*"],"categories":[` +
			`{"source":"pubsub","event_type":"Order_Shipped__e","topic":"` + order + `","key":"lane=b:pubsub:` + order + `","begin":"` + b64(ids[0]) + `","cause":"the stored position","can_subscribe":true},` +
			`{"source":"pubsub","event_type":"LoginEventStream","topic":"/event/LoginEventStream","key":"lane=b:pubsub:/event/LoginEventStream","begin":"earliest","cause":"no position is stored","can_subscribe":false,"error":"topic /event/LoginEventStream: the user may not subscribe to it"}],` +
			`"total":{"api_calls":2,"topics":1}}`
		if string(got) != want {
			t.Errorf("the plan is\n%s\nwant\n%s", got, want)
		}
		if calls := r.bus.Calls("Subscribe"); len(calls) != 0 {
			t.Errorf("read: %q", calls)
		}
		r.api.getErr = errors.New("down")
		if _, err := New(r.cfg).Plan(r.t.Context()); err == nil {
			t.Error("an org that cannot be asked has a plan")
		}
		r.cfg.Managed, r.cfg.Topics = "Mine", TopicList{}
		if p := StaticPlan(&r.cfg); len(p.Categories) != 1 || p.Categories[0].Key != "lane=b:pubsub:managed:Mine" || p.Categories[0].EventType != "" || !p.Static {
			t.Errorf("the plan of a managed subscription is %+v", p)
		}
	})
}
