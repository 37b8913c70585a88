package pubsub

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sftest"
	"sf2loki/pkg/sysexits"
)

func TestChoose(t *testing.T) { // #122, peers 70
	objects := []string{"LoginEventStream", "LoginEvent", "ApiAnomalyEvent", "ApiAnomalyEventStore", "AccountChangeEvent", "My__e", "BigThing__b", "Event", "EventStore"}
	for _, c := range []struct {
		list TopicList
		want []string
	}{
		{TopicList{Names: []string{"*"}}, []string{"/event/ApiAnomalyEvent", "/event/LoginEventStream"}},
		{TopicList{Names: []string{"*"}, Exclude: []string{"*Anomaly*"}}, []string{"/event/LoginEventStream"}},
		{TopicList{Names: []string{"*"}, Include: []string{"/event/Api*", "/event/B*"}}, []string{"/event/ApiAnomalyEvent"}},
		{TopicList{Names: []string{"/event/*__e"}}, []string{"/event/My__e"}},
		{TopicList{Names: []string{"/data/*"}}, []string{"/data/AccountChangeEvent"}},
		{TopicList{Names: []string{"*", "/data/*"}}, []string{"/data/AccountChangeEvent", "/event/ApiAnomalyEvent", "/event/LoginEventStream"}},
		{TopicList{Names: []string{"/event/Nothing*"}}, nil},
		{TopicList{Names: []string{"/event/*__chn"}}, []string{"/event/Own__chn"}},
		{TopicList{Names: []string{"/*/*__chn"}, Exclude: []string{"/event/*"}}, []string{"/data/Own__chn"}},
	} {
		if got := c.list.choose(append(TopicsOf(objects), Topic{Name: "/event/Own__chn", Channel: true}, Topic{Name: "/data/Own__chn", Channel: true})); !slices.Equal(got, c.want) {
			t.Errorf("%+v chooses %q, want %q", c.list, got, c.want)
		}
	}
}

func TestCheckList(t *testing.T) {
	for _, c := range []struct {
		list TopicList
		want string
	}{
		{TopicList{}, "no topic"},
		{TopicList{Names: []string{"LoginEventStream"}}, "a topic is /event/NAME"},
		{TopicList{Names: []string{"/event/O'Brien"}}, "a topic is /event/NAME"},
		{TopicList{Names: []string{"/event/"}}, "a topic is /event/NAME"},
		{TopicList{Names: []string{"/event/[a"}}, "has no ]"},
		{TopicList{Names: []string{"*"}, Exclude: []string{"[!"}}, "has no ]"},
		{TopicList{Names: []string{"*"}, Include: []string{"["}}, "has no ]"},
		{TopicList{Names: []string{"/event/A__e"}, Include: []string{"*"}}, "--include"},
		{TopicList{Names: []string{"/event/A__e"}, Exclude: []string{"/event/A*"}}, "both named and excluded"},
	} {
		err := c.list.Check()
		if sysexits.Of(err) != sysexits.Usage {
			t.Errorf("%+v: %v", c.list, err)
			continue
		}
		contains(t, err.Error(), c.want)
	}
	for name, want := range map[string]string{
		"LoginEventStream": "did you mean /event/LoginEventStream?", "AccountChangeEvent": "did you mean /data/AccountChangeEvent?",
		"/topic/X": "did you mean /event/X?", "": "", "O'Brien": "",
	} {
		if got := suggest(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if err := (TopicList{Names: []string{"/data/ChangeEvents", "/event/X__chn", "*"}}).Check(); err != nil {
		t.Error(err)
	}
}

func TestEventType(t *testing.T) {
	for topic, want := range map[string]struct {
		name      string
		severally bool
	}{
		"/event/LoginEventStream":  {"LoginEventStream", false},
		"/data/AccountChangeEvent": {"AccountChangeEvent", false},
		"/data/ChangeEvents":       {"ChangeEvents", true},
		"/event/Mine__chn":         {"Mine__chn", true},
		"/data/Mine__chn":          {"Mine__chn", true},
	} {
		if name, severally := eventType(topic); name != want.name || severally != want.severally {
			t.Errorf("%s: %s, %v", topic, name, severally)
		}
	}
}

// A topic that may not be read is found before the first record.
func TestTopicsAreChecked(t *testing.T) { // #119, peers 70, 75
	for name, c := range map[string]struct {
		prepare func(r *rig)
		want    sysexits.Code
		text    string
	}{
		"unknown": {func(r *rig) { r.bus.RemoveTopic(order) }, sysexits.Config, "not found"},
		"no right": {func(r *rig) {
			r.bus.Fault("GetTopic", sftest.BusFault{Error: "topic.not.found", Code: "PERMISSION_DENIED"})
		}, sysexits.Config, "not found"},
		"hidden":       {func(r *rig) { r.bus.Fault("GetTopic", sftest.BusFault{Error: "topic.meta.permission"}) }, sysexits.NoPerm, "may not see"},
		"no subscribe": {func(r *rig) { r.bus.DefineTopic(sftest.Topic{Name: order, CannotSubscribe: true}) }, sysexits.NoPerm, "may not subscribe"},
		"down":         {func(r *rig) { r.bus.Fault("GetTopic", sftest.BusFault{Times: -1, Error: "topic.api.unavailable"}) }, sysexits.TempFail, "unavailable"},
		"no session":   {func(r *rig) { r.bus.Fault("GetTopic", sftest.BusFault{Times: -1, Error: "service.auth.error"}) }, sysexits.NoPerm, "authentication"},
		"down a while": {func(r *rig) { r.bus.Fault("GetTopic", sftest.BusFault{Times: 3, Error: "topic.api.unavailable"}) }, sysexits.OK, ""},
		"expired":      {func(r *rig) { r.bus.Fault("GetTopic", sftest.BusFault{Error: "service.auth.error"}) }, sysexits.OK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, sftest.BusConfig{}, func(r *rig) {
				r.define()
				r.publish(0, 1)
				r.cfg.MaxEvents = 1
				c.prepare(r)
				_, err := r.pull()
				if sysexits.Of(err) != c.want {
					t.Errorf("the end is %v", err)
				}
				if err == nil {
					r.wantNumbers(count(0, 1))
					return
				}
				contains(t, err.Error(), "topic "+order)
				contains(t, err.Error(), c.text)
				var h interface{ Hint() string }
				if c.want != sysexits.TempFail && name != "no session" && (!errors.As(err, &h) || h.Hint() == "") {
					t.Errorf("%v has no hint", err)
				}
				if r.out.lines != 0 || len(r.bus.Calls("Subscribe")) != 0 {
					t.Errorf("something was read: %s", r.out.text.String())
				}
			})
		})
	}
}

func TestDiscovery(t *testing.T) { // #14
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		const login, logout = "/event/LoginEventStream", "/event/LogoutEventStream"
		r.bus.DefineTopic(sftest.Topic{Name: login, Schema: schemaText(t, "Order_Shipped__e")})
		r.bus.DefineTopic(sftest.Topic{Name: "/event/ApiEventStream", Schema: schemaText(t, "Order_Shipped__e"), CannotSubscribe: true})
		r.cfg.Topics.Names = []string{"*"}
		r.cfg.Rediscover = time.Hour
		r.api.setObjects("LoginEventStream", "LoginEvent", "ApiEventStream", "NotThereEventStream")
		r.bus.Publish(login, orderEvent(0))
		run := r.start()
		r.out.waitEvents(1)
		synctest.Wait()
		if got := len(run.eachFollower()); got != 1 {
			t.Errorf("%d topics are read", got)
		}
		contains(t, r.out.log.String(), "topic left out")

		// A new channel; the old one is no longer listed, which says nothing.
		r.bus.DefineTopic(sftest.Topic{Name: logout, Schema: schemaText(t, "Order_Shipped__e")})
		r.bus.Publish(logout, orderEvent(1))
		r.api.setObjects("LogoutEventStream")
		begin := time.Now()
		r.out.waitEvents(2)
		if d := time.Since(begin); d < 54*time.Minute || d > 66*time.Minute {
			t.Errorf("found after %v", d)
		}
		r.bus.Publish(login, orderEvent(2))
		r.out.waitEvents(3)

		// An org that cannot be asked for a while.
		r.api.mu.Lock()
		r.api.getErr = errors.New("down")
		r.api.mu.Unlock()
		time.Sleep(3 * time.Hour)
		contains(t, r.out.log.String(), "topics could not be looked for")
		r.bus.Publish(login, orderEvent(3))
		r.out.waitEvents(4)
		run.end()
	})
}

func TestDiscoveryAtStart(t *testing.T) {
	inBubble(t, sftest.BusConfig{}, func(r *rig) { // nothing there
		r.cfg.Topics.Names = []string{"*"}
		r.api.setObjects("Account")
		if _, err := r.pull(); sysexits.Of(err) != sysexits.Config {
			t.Errorf("the end is %v", err)
		}
	})
	inBubble(t, sftest.BusConfig{}, func(r *rig) { // not to be asked
		r.cfg.Topics.Names = []string{"*"}
		r.api.getErr = sysexits.Errorf(sysexits.TempFail, "down")
		if _, err := r.pull(); sysexits.Of(err) != sysexits.TempFail {
			t.Errorf("the end is %v", err)
		}
	})
	inBubble(t, sftest.BusConfig{}, func(r *rig) { // not to be asked, but there is something to read
		r.cfg.Topics.Names = []string{"*", order}
		r.define()
		r.publish(0, 1)
		r.api.getErr = errors.New("down")
		run := r.start()
		r.out.waitEvents(1)
		contains(t, r.out.log.String(), "could not be discovered")
		run.end()
	})
	inBubble(t, sftest.BusConfig{}, func(r *rig) { // twice the same events
		r.bus.DefineTopic(sftest.Topic{Name: "/data/ChangeEvents"})
		r.bus.DefineTopic(sftest.Topic{Name: "/data/AccountChangeEvent"})
		r.cfg.Topics.Names = []string{"/data/AccountChangeEvent", "/data/ChangeEvents"}
		run := r.start()
		r.bus.WaitStreams("/data/ChangeEvents", 1)
		contains(t, r.out.log.String(), "events come twice")
		run.end()
	})
}

// A bus that is not there refuses no topic: it is neither a licence that lacks
// nor a reason to pass over a topic until the next look.
func TestBusIsDownAtStart(t *testing.T) {
	const login = "/event/LoginEventStream"
	setUp := func(r *rig) {
		r.cfg.Topics.Names = []string{"*"}
		r.api.setObjects("LoginEventStream", "LogoutEventStream")
		r.bus.DefineTopic(sftest.Topic{Name: login, Schema: schemaText(t, "Order_Shipped__e")})
		r.bus.DefineTopic(sftest.Topic{Name: "/event/LogoutEventStream", Schema: schemaText(t, "Order_Shipped__e")})
		r.bus.Publish(login, orderEvent(0))
	}
	inBubble(t, sftest.BusConfig{}, func(r *rig) { // for all of them
		setUp(r)
		r.bus.Fault("GetTopic", sftest.BusFault{Times: -1, Code: "UNAVAILABLE"})
		if _, err := r.pull(); sysexits.Of(err) != sysexits.Unavailable || strings.Contains(err.Error(), "no topic of this org") {
			t.Errorf("the end is %v", err)
		}
	})
	inBubble(t, sftest.BusConfig{}, func(r *rig) { // for one of them
		setUp(r)
		r.bus.Fault("GetTopic "+login, sftest.BusFault{Times: -1, Error: "topic.api.unavailable"})
		run := r.start()
		r.out.waitEvents(1)
		contains(t, r.out.log.String(), "not known yet")
		run.end()
	})
}

func TestChannels(t *testing.T) {
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		r.api.channels = []string{
			`{"DeveloperName":"Orders","NamespacePrefix":null,"ChannelType":"event"}`,
			`{"DeveloperName":"Sales__chn","NamespacePrefix":"acme","ChannelType":"data"}`,
			`{"DeveloperName":"ChangeEvents","NamespacePrefix":null,"ChannelType":"data"}`,
			`{"DeveloperName":"O'Brien","NamespacePrefix":null,"ChannelType":"event"}`,
		}
		list, err := Channels(t.Context(), r.api)
		if err != nil || len(list) != 2 || list[0].Name != "/event/Orders__chn" || list[1].Name != "/data/acme__Sales__chn" {
			t.Fatalf("channels are %v, %v", list, err)
		}
		r.bus.DefineTopic(sftest.Topic{Name: order, Schema: schemaText(t, "Order_Shipped__e")})
		r.bus.DefineTopic(sftest.Topic{Name: "/event/Orders__chn", Members: []string{order}})
		r.publish(0, 2)
		r.cfg.Topics.Names = []string{"/event/*__chn"}
		r.api.setObjects("Order_Shipped__e")
		run := r.start()
		r.out.waitEvents(2)
		if got := r.out.all(); string(got[0].Key) != "pubsub:/event/Orders__chn" {
			t.Errorf("the key is %s", got[0].Key)
		}
		run.end()
	})
	for kind, want := range map[salesforce.Kind]sysexits.Code{salesforce.KindPermission: sysexits.Config, salesforce.KindLimitTotal: sysexits.TempFail} {
		inBubble(t, sftest.BusConfig{}, func(r *rig) {
			r.api.toolingErr = sysexits.Wrap(kind.ExitCode(), &salesforce.Error{Op: "query", Kind: kind})
			r.cfg.Topics.Names = []string{"/event/*__chn"}
			r.api.setObjects("Account")
			if _, err := r.pull(); sysexits.Of(err) != want {
				t.Errorf("%v: the end is %v", kind, err)
			}
		})
	}
}

// A schema whose id is another's is used, and said.
func TestSchemaIDs(t *testing.T) {
	text := schemaText(t, "Order_Shipped__e")
	if id := schemaID(text); id != "lHOwsJsoXEt86CEVjVjZKA" {
		t.Errorf("the id is %q", id)
	}
	if schemaID("nonsense") != "" {
		t.Error("nonsense has an id")
	}
	for _, id := range []string{"", "AAAAAAAAAAAAAAAAAAAAAA"} {
		inBubble(t, sftest.BusConfig{}, func(r *rig) {
			r.define()
			r.bus.AddSchemaAs("AAAAAAAAAAAAAAAAAAAAAA", text)
			e := orderEvent(0)
			e.SchemaID = id
			r.bus.Publish(order, e, e)
			run := r.start()
			r.out.waitEvents(2)
			run.end()
			if n := strings.Count(r.out.log.String(), "the id of a schema is not"); n != len(id)/22 {
				t.Errorf("schema id %q: said %d times", id, n)
			}
		})
	}
}
