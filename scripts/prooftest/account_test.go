package prooftest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
	"sf2loki/scripts/testbed"
)

// planted is a source of which a test knows what has to become of each event.
type planted struct {
	pull  string // the source, with its flags
	want  figures
	rules string

	ledger bool // the source has accounts for it
}

// a keeps count of what is planted: the events of a type, by their fate.
func (p *planted) a(of, fate string) {
	if p.want == nil {
		p.want = figures{}
	}
	p.want.add(of, fate, 1)
}

// kept tells whether a rate keeps what has this identity.
func kept(identity string, rate float64) bool {
	sum := sha256.Sum256([]byte(identity))
	return float64(binary.BigEndian.Uint64(sum[:8])%10000) < rate*10000
}

// The account of a pull holds to the row, by source and event type: against
// what was planted, what Loki stores, the dead letters, the acknowledgements
// and the ledger.
func TestAccountsOfPulls(t *testing.T) {
	for name, plant := range map[string]func(b *bench) planted{
		"elf": plantFiles, "elf, a window": plantWindow, "objects": plantRows, "objects, a window": plantRowsOfWindow, "pubsub": plantEvents,
		"pubsub, some": plantSomeEvents, "apexlog": plantLogs,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBenchWith(t, lokitest.Config{Limits: lokitest.Plain})
			p := plant(b)
			b.Set("SF_PULL_LOG_LEVEL=error", "LOKI_PUSH_LOG_LEVEL=error", "CKPT_LOG_LEVEL=error", "LOKI_PUSH_BATCH_ENTRIES=13")
			if p.rules != "" {
				b.Set("SF_PULL_TRANSFORMS=" + b.Write("rules.yaml", p.rules))
			}
			b.OK("sf-pull " + p.pull + " --report pull | tee records | loki-push --spool dead --report push | ckpt commit state.json --ledger ledger --report ckpt")
			b.pulled(&p)
		})
	}
}

// pulled checks everything that there is to compare.
func (b *bench) pulled(p *planted) {
	b.T.Helper()
	pull, push, ckpt := b.report("pull"), b.report("push"), b.report("ckpt")
	fates := []string{"written", "filtered", "sampled_out", "skipped_duplicate", "dead_lettered", "source_gaps"}
	same(b.T, "sf-pull against what was planted", pull.pick(fates...), p.want.pick(append(fates, "refused=written")...))
	same(b.T, "the records against sf-pull", b.records("records"), pull.pick("written", "dead_lettered", "source_gaps"))
	same(b.T, "loki-push reads what sf-pull writes", push.pick("read"), pull.pick("written=read", "dead_lettered=read", "source_gaps=read"))
	same(b.T, "loki-push against what was planted", push.pick("delivered", "dead_lettered"),
		p.want.pick("written=delivered", "refused=dead_lettered", "dead_lettered", "source_gaps=dead_lettered"))
	same(b.T, "Loki against loki-push", b.stored(), push.pick("delivered"))
	same(b.T, "the spool against loki-push", b.records("dead/*.ndjson").pick("dead_lettered", "source_gaps=dead_lettered"), push.pick("dead_lettered"))
	same(b.T, "ckpt against loki-push", sum(ckpt.pick("delivered", "rejected", "dropped")), sum(push.pick("delivered", "dead_lettered=rejected")))
	if !p.ledger {
		return
	}
	source, _, _ := strings.Cut(strings.Fields(pull.String())[0], " ")
	ledger := b.ledger("ledger", source)
	fates = []string{"filtered", "sampled_out", "skipped_duplicate", "dead_lettered", "source_gaps"}
	same(b.T, "the ledger against sf-pull", ledger.pick(append(fates, "rows=read")...), pull.pick(append(fates, "read")...))
	same(b.T, "the ledger against loki-push", ledger.pick("delivered", "rejected", "dropped"), push.pick("delivered", "dead_lettered=rejected"))
}

// A pull that is cut off accounts for what it has written, and loki-push for
// what it has read of it.
func TestAccountsOfCutPulls(t *testing.T) {
	tests := []struct {
		name, pull, push string
		until            func(b *bench) bool // then the signal comes
		signal           string
		status           int
		read             bool // loki-push reads to the end
	}{
		{"sf-pull is stopped", "elf --event-type Login", "--max-lines-per-second 800",
			func(b *bench) bool { return len(b.srv.Entries("fake")) > 100 }, "kill -TERM $(cat pull.pid)", 0, true},
		{"sf-pull is stopped while it looks again and again", "objects --object LoginHistory --follow --poll 50ms", "",
			func(b *bench) bool { return len(b.org.Requests("FROM LoginHistory")) > 5 }, "kill -TERM $(cat pull.pid)", 0, true},
		{"loki-push is stopped", "elf --event-type Login", "--max-lines-per-second 100 --grace 100ms",
			func(b *bench) bool { return len(b.srv.Entries("fake")) > 20 }, "kill -TERM $(cat push.pid)", 75, false},
		{"nobody reads on", "elf --event-type Login", "--max-lines-per-second 100",
			func(b *bench) bool { return len(b.srv.Entries("fake")) > 20 }, "kill -KILL $(cat push.pid)", 75, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBenchWith(t, lokitest.Config{Limits: lokitest.Plain})
			b.useOrg(sftest.Config{})
			b.Set("SF_PULL_LOG_LEVEL=error", "LOKI_PUSH_LOG_LEVEL=error", "CKPT_LOG_LEVEL=error", "LOKI_PUSH_BATCH_ENTRIES=13")
			b.Set("LOKI_PUSH_BUFFER_BYTES=64KiB") // so that a pull waits for Loki
			b.hour("Login", 4, 3000, nil)
			for range 30 {
				b.org.Insert("LoginHistory", sftest.Row{"UserId": b.org.UserID, "LoginTime": time.Now().Add(-6 * time.Minute), "Status": "Success"})
			}
			r := b.Start(fmt.Sprintf(`stage() { name=$1; shift; exec sh -c 'echo $$ >"$0.new" && mv "$0.new" "$0.pid" && exec "$@"' "$name" "$@"; }
stage pull sf-pull %s --report pull | tee records | stage push loki-push %s --spool dead --report push | ckpt commit state.json --ledger ledger --report ckpt`, tt.pull, tt.push))
			testbed.Eventually(t, "that is far enough", func() bool { return tt.until(b) })
			b.OK(tt.signal)
			if r := r.Wait(); r.Status != tt.status {
				t.Errorf("want %d: %v", tt.status, r)
			}
			pull, ckpt := b.report("pull"), b.report("ckpt")
			if tt.read {
				same(t, "the records against sf-pull", b.records("records"), pull.pick("written"))
			}
			if b.Read("push") == "" {
				return // it was killed
			}
			push := b.report("push")
			same(t, "Loki against loki-push", b.stored(), push.pick("delivered"))
			if tt.read {
				same(t, "loki-push reads what sf-pull writes", push.pick("read"), pull.pick("written=read"))
				same(t, "ckpt against loki-push", sum(ckpt.pick("delivered")), sum(push.pick("delivered")))
			} else if sum(push)["all"]["unsettled"] == 0 || sum(push)["all"]["delivered"] != sum(ckpt)["all"]["delivered"] {
				t.Errorf("nothing was left: %s%s", push, ckpt)
			}
			if n := sum(pull)["all"]["skipped_duplicate"]; strings.Contains(tt.pull, "--follow") != (n > 0) || n%30 != 0 {
				t.Errorf("came again: %s", pull)
			}
		})
	}
}

// sum makes one row of all.
func sum(f figures) figures {
	all := figures{}
	for _, numbers := range f {
		for name, n := range numbers {
			all.add("all", name, n)
		}
	}
	return all
}

const oldAge = 9 * 24 * time.Hour // Loki takes a week

// plantFiles has rows that rules drop, that no sample takes, that Loki refuses,
// stretches that are no rows, and files that are gone.
func plantFiles(b *bench) planted {
	p := planted{pull: "elf --event-type Login,API --sample Login=0.757", ledger: true, rules: `
eventlogfile:
  - {action: drop_row, match: {REQUEST_ID: "robot*"}}
  - {action: drop_field, fields: [SESSION_KEY]}
`}
	edit := func(of string) func(int, map[string]string) {
		return func(i int, cells map[string]string) {
			fate := "written"
			cells["REQUEST_ID"] = "TID:2"
			switch {
			case i%10 == 3:
				cells["TIMESTAMP_DERIVED"] = time.Now().Add(-oldAge).UTC().Format("2006-01-02T15:04:05.000Z")
				fate = "refused"
			case i%7 == 2:
				cells["REQUEST_ID"] = fmt.Sprint("robot", i)
				fate = "filtered"
			case i%11 == 4:
				cells["REQUEST_ID"] = "TID:1"
				if of == "eventlogfile Login" {
					fate = "sampled_out"
				}
			}
			p.a(of, fate)
		}
	}
	for _, name := range []string{"Login", "API"} {
		of := "eventlogfile " + name
		for back := 6; back > 3; back-- {
			start := time.Now().UTC().Truncate(time.Hour).Add(-time.Duration(back) * time.Hour)
			body := sftest.Hour{Type: name, Start: start, Rows: 37 + back, Seed: uint64(back), Edit: edit(of)}.CSV()
			if back == 5 {
				body = append(body, `"`+name+`","20260701100000","a" and more`+"\n"...)
				p.a(of, "dead_lettered")
			}
			b.org.AddLogFile(sftest.LogFile{EventType: name, LogDate: start, Body: body, Created: time.Now().Add(-time.Duration(back*30) * time.Minute)})
		}
		b.org.AddLogFile(sftest.LogFile{EventType: name, Body: []byte("x"), LogDate: time.Now().UTC().Truncate(time.Hour).Add(-5 * time.Hour), Created: time.Now().Add(-160 * time.Minute), Gone: true})
		p.a(of, "source_gaps")
	}
	return p
}

// plantWindow has files before, in and after a window.
func plantWindow(b *bench) planted {
	p := planted{ledger: true}
	hour := time.Now().UTC().Truncate(time.Hour)
	for back := 9; back > 3; back-- {
		back := back
		b.hour("Login", back, 20+back, func(int, map[string]string) {
			if back == 7 || back == 6 {
				p.a("eventlogfile Login", "written")
			}
		})
	}
	p.pull = fmt.Sprintf("elf --event-type Login --since %s --until %s", hour.Add(-7*time.Hour).Format(time.RFC3339), hour.Add(-5*time.Hour).Format(time.RFC3339))
	return p
}

// useOrg has the bench pull from another org.
func (b *bench) useOrg(cfg sftest.Config) {
	b.org = sftest.NewOrg(cfg)
	b.T.Cleanup(b.org.Close)
	b.Set("SF_PULL_LOGIN_URL="+b.org.URL, "SF_PULL_CLIENT_ID="+b.org.ClientID, "SF_PULL_USERNAME="+b.org.Username,
		"SF_PULL_PRIVATE_KEY_FILE="+b.Write("key.pem", b.org.PrivateKeyPEM()))
	b.org.DefineObjects()
}

func identifier(n int) string { return fmt.Sprintf("5f1c3b60-0000-4000-8000-%012d", n) }

// plantRows has rows of an object and of a Big Object, on many pages.
func plantRows(b *bench) planted {
	b.useOrg(sftest.Config{PageSize: 7})
	p := planted{pull: "objects --object LoginHistory,LoginEvent --lookback 10d --sample LoginHistory=0.5", ledger: true, rules: `
eventlog_objects:
  - {action: drop_row, match: {Status: Failed}}
  - {action: drop_field, fields: [SourceIp]}
`}
	for n := range 60 {
		status, fate := "Success", "written"
		at := time.Now().Add(-5*time.Hour + time.Duration(n/4)*time.Minute)
		switch {
		case n%9 == 3:
			at, fate = at.Add(-oldAge), "refused"
		case n%5 == 1:
			status, fate = "Failed", "filtered"
		}
		b.org.Insert("LoginEvent", sftest.Row{"EventDate": at, "EventIdentifier": identifier(n), "Status": status})
		p.a("eventlog_objects LoginEvent", fate)
		id := b.org.Insert("LoginHistory", sftest.Row{"UserId": b.org.UserID, "LoginTime": at, "Status": status, "SourceIp": "192.0.2.1"})[0]
		if fate != "filtered" && !kept(id, 0.5) {
			fate = "sampled_out"
		}
		p.a("eventlog_objects LoginHistory", fate)
	}
	return p
}

// plantRowsOfWindow has a window that begins and ends within a page.
func plantRowsOfWindow(b *bench) planted {
	b.useOrg(sftest.Config{PageSize: 7})
	begin := time.Now().UTC().Truncate(time.Minute).Add(-5 * time.Hour)
	p := planted{ledger: true, pull: fmt.Sprintf("objects --object LoginHistory,LoginEvent --since %s --until %s",
		begin.Add(4*time.Minute).Format(time.RFC3339), begin.Add(11*time.Minute).Format(time.RFC3339))}
	for n := range 60 {
		at := begin.Add(time.Duration(n/4) * time.Minute)
		b.org.Insert("LoginEvent", sftest.Row{"EventDate": at, "EventIdentifier": identifier(n), "Status": "Success"})
		b.org.Insert("LoginHistory", sftest.Row{"UserId": b.org.UserID, "LoginTime": at, "Status": "Success"})
		if n/4 >= 4 && n/4 < 11 {
			p.a("eventlog_objects LoginEvent", "written")
			p.a("eventlog_objects LoginHistory", "written")
		}
	}
	return p
}

// plantEvents has events that cannot be decoded, that rules drop, and that come
// again after a stream was cut off.
func plantEvents(b *bench) planted {
	bus := b.org.NewBus(sftest.BusConfig{MaxBatch: 5, Duplicates: 3})
	bus.DefineSamples()
	topics := []string{"/event/LoginEventStream", "/event/Order_Shipped__e", "/data/AccountChangeEvent"}
	p := planted{pull: "pubsub --endpoint http://" + bus.Addr + " --idle-exit 1s --sample LoginEventStream=0.5", ledger: true, rules: `
pubsub:
  - {action: drop_row, match: {Username: "robot@*"}}
`}
	for _, topic := range topics {
		p.pull += " --topic " + topic
		_, name, _ := strings.Cut(topic[1:], "/")
		for n := range 41 {
			ev := sftest.Sample(topic, n, time.Now().Add(time.Duration(n-100)*time.Minute))
			fate := "written"
			switch {
			case n%10 == 4:
				ev = sftest.Event{ID: ev.ID, Payload: []byte{1, 2, 3}, At: ev.At}
				fate = "dead_lettered"
			case n%6 == 1 && topic == topics[0]:
				ev.Value["Username"] = "robot@example.com"
				fate = "filtered"
			}
			replay := bus.Publish(topic, ev)[0]
			if topic == topics[0] && fate == "written" && !kept(hex.EncodeToString(replay), 0.5) {
				fate = "sampled_out"
			}
			p.a("pubsub "+name, fate)
		}
	}
	bus.Fault("Subscribe "+topics[1], sftest.BusFault{After: 12, Error: "server.unavailable", Code: "UNAVAILABLE"})
	for range 3 {
		p.a("pubsub Order_Shipped__e", "skipped_duplicate")
	}
	return p
}

// plantSomeEvents has more events than are asked for, and one of them is none.
func plantSomeEvents(b *bench) planted {
	bus := b.org.NewBus(sftest.BusConfig{MaxBatch: 50})
	bus.DefineSamples()
	const topic = "/event/LoginEventStream"
	p := planted{pull: "pubsub --endpoint http://" + bus.Addr + " --max-events 33 --topic " + topic, ledger: true}
	for n := range 90 {
		ev := sftest.Sample(topic, n, time.Now().Add(time.Duration(n-100)*time.Minute))
		fate := "written"
		if n == 7 {
			ev, fate = sftest.Event{ID: ev.ID, Payload: []byte{1, 2, 3}, At: ev.At}, "dead_lettered"
		}
		bus.Publish(topic, ev)
		if n < 33 {
			p.a("pubsub LoginEventStream", fate)
		}
	}
	return p
}

// plantLogs has debug logs without bodies, that rules drop, and that no sample
// takes.
func plantLogs(b *bench) planted {
	b.useOrg(sftest.Config{PageSize: 7})
	p := planted{pull: "apexlog --lookback 10d --sample 0.5", ledger: true, rules: `
apexlog:
  - {action: drop_row, match: {Status: "Out of*"}}
`}
	for n := range 50 {
		l := sftest.ApexLog{
			Start: time.Now().Add(-5*time.Hour + time.Duration(n)*time.Minute).Truncate(time.Second),
			Body:  fmt.Sprintf("12:00:00.0 (%d)|USER_DEBUG|x\n", n),
		}
		fate := "written"
		switch {
		case n%9 == 3:
			l.Start, fate = l.Start.Add(-oldAge), "refused"
		case n%5 == 1:
			l.Status, fate = "Out of memory", "filtered"
		case n%8 == 2:
			l.Gone = true
		}
		if id := b.org.AddApexLog(l); !kept(id, 0.5) { // asked before the rules: it saves the body
			fate = "sampled_out"
		}
		p.a("apexlog ApexLog", fate)
		if l.Gone && fate == "written" {
			p.a("apexlog ApexLog", "source_gaps")
		}
	}
	return p
}
