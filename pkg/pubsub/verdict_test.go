package pubsub

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sftest"
	"sf2loki/pkg/sysexits"
)

// What becomes of a stream that ends with an error: once, and whenever it is
// opened.
type outcome struct {
	once   string // "resumes", "slowly", "relogs", "gap", or "" when it ends the run
	always sysexits.Code
}

const goesOn = sysexits.Code(-1) // for ever

var outcomes = map[string]outcome{
	"service.unavailable":                       {"resumes", goesOn},
	"service.auth.error":                        {"relogs", sysexits.NoPerm},
	"service.auth.headers.invalid":              {"", sysexits.Config},
	"service.auth.refresh.invalid":              {"", sysexits.Software},
	"service.protection.stream.limit.triggered": {"slowly", goesOn},
	"service.protection.triggered":              {"slowly", goesOn},
	"service.tenant.license":                    {"", sysexits.NoPerm},
	"concurrent.client.limit.exceeded":          {"slowly", goesOn},
	"topic.not.found":                           {"", sysexits.Config},
	"topic.meta.permission":                     {"", sysexits.NoPerm},
	"schema.meta.permission":                    {"", sysexits.NoPerm},
	"topic.api.unavailable":                     {"resumes", goesOn},
	"schema.api.unavailable":                    {"resumes", goesOn},
	"topic.validation.empty":                    {"", sysexits.Software},
	"schema.validation.failed":                  {"resumes", sysexits.Software},

	"subscription.fetch.replayid.corrupted":         {"gap", sysexits.Software}, // refused also where no position was given
	"subscription.fetch.replayid.validation.failed": {"gap", sysexits.Software},
	"subscription.fetch.replay.repeated":            {"resumes", goesOn},
	"subscription.limit.exceeded":                   {"slowly", goesOn},
	"subscription.fetch.overflow":                   {"resumes", sysexits.Software},
	"subscription.fetch.requested.events.invalid":   {"resumes", sysexits.Software},
	"subscription.fetch.topic.mismatch":             {"resumes", sysexits.Software},
	"subscription.fetch.request.invalid":            {"resumes", sysexits.Software},
	"subscription.topic.cannot.subscribe":           {"", sysexits.NoPerm},
	"subscription.internal.error":                   {"resumes", goesOn},

	"managed.subscription.already.active":                          {"slowly", goesOn},
	"managed.subscription.config.stopped":                          {"", sysexits.Config},
	"managed.subscription.config.deleted":                          {"", sysexits.Config},
	"managed.subscription.developer.name.not.found":                {"", sysexits.Config},
	"managed.subscription.subscription.id.not.found":               {"", sysexits.Config},
	"managed.subscription.subscription.id.invalid":                 {"", sysexits.Config},
	"managed.subscription.id.or.developer.name.empty":              {"", sysexits.Config},
	"managed.subscription.fetch.request.events.invalid":            {"resumes", sysexits.Software},
	"managed.subscription.fetch.request.invalid":                   {"resumes", sysexits.Software},
	"managed.subscription.fetch.request.commit.request.restricted": {"resumes", sysexits.Software},
	"managed.subscription.fetch.request.auth.request.restricted":   {"resumes", sysexits.Software},
}

func TestEveryErrorCode(t *testing.T) { // peers 62, 66, 67
	for _, code := range sftest.BusErrorCodes() {
		if _, ok := outcomes[code]; !ok {
			t.Errorf("no outcome is stated for %s", code)
		}
	}
	for code, want := range outcomes {
		t.Run(code, func(t *testing.T) {
			once(t, sftest.BusFault{After: 3, Error: code}, want)
			always(t, sftest.BusFault{Times: -1, Error: code}, want.always)
		})
	}
}

// Errors without the trailer are those of gateways.
func TestEveryCodeWithoutTrailer(t *testing.T) {
	for code, want := range map[string]outcome{
		"UNAVAILABLE":         {"resumes", goesOn},
		"INTERNAL":            {"resumes", goesOn},
		"UNKNOWN":             {"resumes", goesOn},
		"DEADLINE_EXCEEDED":   {"resumes", goesOn},
		"RESOURCE_EXHAUSTED":  {"resumes", goesOn},
		"ABORTED":             {"resumes", goesOn},
		"CANCELLED":           {"resumes", goesOn},
		"DATA_LOSS":           {"resumes", goesOn},
		"FAILED_PRECONDITION": {"resumes", goesOn},
		"OUT_OF_RANGE":        {"resumes", goesOn},
		"ALREADY_EXISTS":      {"resumes", goesOn},
		"UNAUTHENTICATED":     {"relogs", sysexits.NoPerm},
		"NOT_FOUND":           {"", sysexits.Config},
		"PERMISSION_DENIED":   {"", sysexits.NoPerm},
		"UNIMPLEMENTED":       {"", sysexits.Config},
		"INVALID_ARGUMENT":    {"resumes", sysexits.Software},
	} {
		t.Run(code, func(t *testing.T) {
			once(t, sftest.BusFault{After: 3, Code: code}, want)
			always(t, sftest.BusFault{Times: -1, Code: code}, want.always)
		})
	}
}

// A code that is not known yet goes by the gRPC code.
func TestUnknownCode(t *testing.T) {
	once(t, sftest.BusFault{After: 3, Error: "something.new", Code: "INVALID_ARGUMENT"}, outcome{once: "resumes"}) // #65
	once(t, sftest.BusFault{After: 3, Error: "something.new", Code: "PERMISSION_DENIED"}, outcome{"", sysexits.NoPerm})
}

func once(t *testing.T, fault sftest.BusFault, want outcome) {
	t.Helper()
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		r.define()
		ids := r.publish(0, 5)
		r.bus.Fault("Subscribe", fault)
		begin := time.Now()
		run := r.start()
		if want.once == "" {
			r.out.wait(3)
			if err := <-run.err; sysexits.Of(err) != want.always || err == nil {
				t.Errorf("the end is %v, %d; want %d", err, sysexits.Of(err), want.always)
			}
			return
		}
		lines := 5
		if want.once == "gap" {
			lines++
		}
		r.out.wait(lines)
		r.wantNumbers(count(0, 5))
		second := "Subscribe " + order + " CUSTOM " + b64(ids[2])
		if want.once == "gap" {
			second = "Subscribe " + order + " EARLIEST"
		}
		if calls := r.bus.Calls("Subscribe"); len(calls) != 2 || calls[1] != second {
			t.Errorf("calls %q, want %s", calls, second)
		}
		if gaps := r.out.letters(record.SourceGap); (len(gaps) == 1) != (want.once == "gap") {
			t.Errorf("%d gaps", len(gaps))
		}
		took := time.Since(begin)
		if slow := took >= 30*time.Second; slow != (want.once == "slowly") {
			t.Errorf("went on after %v", took)
		}
		logins := 1
		if want.once == "relogs" {
			logins = 2
		}
		if r.api.logins != logins {
			t.Errorf("%d logins, want %d", r.api.logins, logins)
		}
		run.end()
	})
}

func always(t *testing.T, fault sftest.BusFault, want sysexits.Code) {
	t.Helper()
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		r.define()
		r.bus.Fault("Subscribe", fault)
		run := r.start()
		if want != goesOn {
			if err := <-run.err; sysexits.Of(err) != want || err == nil {
				t.Errorf("the end is %v, %d; want %d", err, sysexits.Of(err), want)
			}
			return
		}
		time.Sleep(minutes(60))
		tries := len(r.bus.Calls("Subscribe"))
		if tries < 5 || tries > 600 {
			t.Errorf("%d tries in an hour", tries)
		}
		contains(t, r.out.log.String(), "level=WARN")
		r.bus.ClearFaults()
		r.publish(0, 1)
		r.out.wait(1)
		run.end()
	})
}

// An error without a trailer says nothing of the position, until it has come
// some times.
func TestDoubt(t *testing.T) { // #65
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		r.define()
		ids := r.publish(0, 3)
		r.cfg.Resume = func(string) (string, bool) { return b64(ids[0]), true }
		r.bus.Fault("CUSTOM", sftest.BusFault{Times: -1, Code: "INVALID_ARGUMENT", Text: "bad argument"})
		run := r.start()
		r.out.wait(4)
		r.wantNumbers(count(0, 3))
		if n := len(r.bus.Calls("CUSTOM")); n != patience+1 {
			t.Errorf("the position was tried %d times", n)
		}
		run.end()
	})
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		r.define()
		ids := r.publish(0, 3)
		r.cfg.Resume = func(string) (string, bool) { return b64(ids[0]), true }
		r.bus.Fault("CUSTOM", sftest.BusFault{Code: "INVALID_ARGUMENT", Text: "The Replay ID validation failed."})
		run := r.start()
		r.out.wait(4)
		if n := len(r.bus.Calls("CUSTOM")); n != 1 {
			t.Errorf("the position was tried %d times", n)
		}
		run.end()
	})
}

func TestLostAndFail(t *testing.T) {
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		r.define()
		r.cfg.Lost = LostFail
		r.cfg.Resume = func(string) (string, bool) { return "Z2FyYmFnZQ==", true }
		_, err := r.pull()
		if sysexits.Of(err) != sysexits.Config {
			t.Errorf("the end is %v", err)
		}
		contains(t, err.Error(), "refuses the position Z2FyYmFnZQ==")
	})
}

// One topic that cannot be read does not keep others from being read.
func TestOneTopicOfTwo(t *testing.T) {
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		other := "/event/Other__e"
		r.bus.DefineTopic(sftest.Topic{Name: other, Schema: schemaText(t, "Order_Shipped__e")})
		r.cfg.Topics.Names = []string{order, other}
		r.cfg.Rediscover = time.Hour
		r.define()
		r.publish(0, 2)
		r.bus.Publish(other, orderEvent(10))
		r.bus.Fault("Subscribe "+other, sftest.BusFault{After: 1, Error: "subscription.topic.cannot.subscribe"})
		run := r.start()
		r.out.wait(3)
		synctest.Wait()
		contains(t, run.topic(other).GivenUp, "may not subscribe")
		r.publish(2, 3)
		r.bus.Publish(other, orderEvent(11))
		r.out.waitEvents(5) // the other is tried again, behind its last event
		got := r.numbers()
		slices.Sort(got)
		if !slices.Equal(got, []string{"0", "1", "10", "11", "2"}) {
			t.Errorf("events %v", got)
		}
		run.end()
	})
}

// A run that ends well must have read all of its topics.
func TestGivenUpIsNotDone(t *testing.T) {
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		other := "/event/Other__e"
		r.bus.DefineTopic(sftest.Topic{Name: other, Schema: schemaText(t, "Order_Shipped__e")})
		r.cfg.Topics.Names = []string{order, other}
		r.cfg.IdleExit = 10 * time.Second
		r.define()
		r.publish(0, 1)
		r.bus.Fault("Subscribe "+other, sftest.BusFault{Error: "subscription.topic.cannot.subscribe"})
		if _, err := r.pull(); sysexits.Of(err) != sysexits.NoPerm {
			t.Errorf("the end is %v", err)
		}
	})
}

// A session that has died is replaced once, for all streams that had it.
func TestSessionExpires(t *testing.T) { // C12
	inBubble(t, sftest.BusConfig{}, func(r *rig) {
		other := "/event/Other__e"
		r.bus.DefineTopic(sftest.Topic{Name: other, Schema: schemaText(t, "Order_Shipped__e")})
		r.cfg.Topics.Names = []string{order, other}
		r.define()
		run := r.start()
		r.bus.WaitCredit(order, 100)
		r.bus.WaitCredit(other, 100)
		r.org.ExpireTokens() // a stream that is open goes on
		r.publish(0, 1)
		r.bus.Publish(other, orderEvent(1))
		r.bus.Cut()
		r.publish(1, 2)
		r.bus.Publish(other, orderEvent(2))
		r.out.wait(4)
		if r.api.logins != 2 {
			t.Errorf("%d logins", r.api.logins)
		}
		run.end()
	})
}

func TestLoginFails(t *testing.T) {
	for kind, want := range map[salesforce.Kind]sysexits.Code{
		salesforce.KindAuth:   sysexits.NoPerm,
		salesforce.KindConfig: sysexits.Config,
	} {
		inBubble(t, sftest.BusConfig{}, func(r *rig) {
			r.define()
			r.api.err = sysexits.Wrap(kind.ExitCode(), &salesforce.Error{Op: "log in", Kind: kind})
			if _, err := r.pull(); sysexits.Of(err) != want {
				t.Errorf("the end is %v, want %d", err, want)
			}
		})
	}
	inBubble(t, sftest.BusConfig{}, func(r *rig) { // in the middle, for a while
		r.define()
		r.publish(0, 1)
		run := r.start()
		r.out.wait(1)
		r.api.mu.Lock()
		r.api.err = sysexits.Wrap(sysexits.TempFail, &salesforce.Error{Op: "log in", Kind: salesforce.KindTransient})
		r.api.mu.Unlock()
		r.bus.Cut()
		time.Sleep(minutes(30))
		r.api.mu.Lock()
		r.api.err = nil
		r.api.mu.Unlock()
		r.publish(1, 2)
		r.out.wait(2)
		run.end()
	})
}

func TestJudgeWordsOneLine(t *testing.T) {
	f := (&Source{}).judge(errors.New("a\n  b"), nil, false)
	if strings.ContainsAny(f.err.Error(), "\n") {
		t.Errorf("%q", f.err)
	}
}

// A topic that is only tried again is not ready, until something comes.
func TestReadiness(t *testing.T) { // #17, peers 49
	for name, fault := range map[string]sftest.BusFault{
		"down": {Times: -1, Code: "UNAVAILABLE"},
		"ends": {Times: -1, End: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, sftest.BusConfig{}, func(r *rig) {
				r.define()
				r.publish(0, 3)
				r.bus.Fault("Subscribe", fault)
				run := r.start()
				time.Sleep(minutes(10))
				synctest.Wait()
				if err := run.Stats().Ready(); err != nil {
					t.Errorf("after ten minutes: %v", err)
				}
				time.Sleep(minutes(10))
				synctest.Wait()
				if err := run.Stats().Ready(); err == nil || !strings.HasPrefix(err.Error(), "topic "+order+" has failed for 20m") {
					t.Errorf("after twenty minutes: %v", err)
				}
				r.bus.ClearFaults()
				r.out.waitEvents(3)
				if err := run.Stats().Ready(); err != nil {
					t.Errorf("when events come: %v", err)
				}
				run.end()
			})
		})
	}
}
