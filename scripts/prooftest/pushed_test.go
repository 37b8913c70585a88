package prooftest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
)

// mixed is input of three event types in turn, and what has to become of it.
type mixed struct {
	lines strings.Builder
	want  figures
}

const lineBytes = 100

// tiny runs a script with a small file system in the directory tiny.
func tiny(script string) string {
	flags := "-m"
	if os.Geteuid() != 0 {
		flags = "-rm"
	}
	return "mkdir tiny; unshare " + flags + " sh -c 'mount -t tmpfs -o size=1m none tiny && " + script + "'"
}

// newMixed has n entries of each type. bad has some of them refused, and other
// things among them: letters, and objects that are no records.
func newMixed(n int, bad bool) *mixed {
	m := &mixed{want: figures{}}
	for i := range n {
		for t, name := range []string{"Login", "API", "URI"} {
			r := map[string]any{
				"ts":     time.Now().Add(time.Duration(i-2*n) * time.Second).UTC().Format(time.RFC3339Nano),
				"labels": map[string]string{"source": "eventlogfile", "event_type": name}, "line": fmt.Sprintf("%0*d", lineBytes, 3*i+t),
				"checkpoint_key": "eventlogfile:" + name, "checkpoint_value": fmt.Sprint(i),
			}
			fate, of := "delivered", "eventlogfile "+name
			if bad {
				fate, of = spoil(r, i+7*t, fate, of)
			}
			text, _ := json.Marshal(r)
			fmt.Fprintf(&m.lines, "%s\n", text)
			m.want.add(of, fate, 1)
		}
	}
	return m
}

// spoil makes a record one that Loki refuses, for one of several reasons.
func spoil(r map[string]any, i int, fate, of string) (string, string) {
	labels := r["labels"].(map[string]string)
	switch i % 17 {
	case 2:
		r["ts"] = time.Now().Add(-oldAge - time.Duration(i)*time.Second).UTC().Format(time.RFC3339Nano)
		return "too_old", of
	case 4:
		r["line"] = strings.Repeat("x", 300<<10)
		return "line_too_long", of
	case 6:
		labels["not a name"] = "x"
		return "invalid_labels", of
	case 8:
		r["structured_metadata"] = map[string]string{"big": strings.Repeat("x", 70<<10)}
		return "metadata_too_large", of
	case 10: // a letter of the source
		delete(r, "line")
		r["reason"], r["payload_base64"] = "decode_error", "AQID"
		return "decode_error", of
	case 12: // one that somebody brings back
		r["reason"], r["dead_letter"] = "too_new", map[string]any{"v": 1, "attempts": 1}
		return fate, of
	case 14: // no record
		delete(r, "labels")
		return "invalid_record", " "
	}
	return fate, of
}

// The account of loki-push holds by source and event type whatever becomes of
// what is refused: against what was planted, what Loki stores, what is captured
// and what is acknowledged.
func TestAccountsOfPushes(t *testing.T) {
	const n = 120
	tests := []struct {
		name, push string
		bad        bool
		status     int
		reasons    string                                     // what a reason is in the account: its name follows
		answer     lokitest.Script                            // of Loki
		more       string                                     // of the input, behind the records
		check      func(t *testing.T, m *mixed, push figures) // instead of comparing with what was planted
	}{
		{name: "captured", push: "loki-push --spool dead", bad: true},
		{name: "captured on a descriptor", push: "loki-push 3>dead/a.ndjson", bad: true},
		{name: "nobody takes letters", push: "loki-push --dead-letter-fd -1", bad: true, reasons: "discarded_"},
		{name: "letters cannot be written", push: "loki-push 3>/dev/full", bad: true, reasons: "discarded_"},
		{name: "room for some letters", push: tiny("loki-push --spool tiny/dead --spool-bytes 1GiB && cp tiny/dead/*.ndjson dead"), bad: true, check: someCaptured},
		{name: "letters have to be written", push: "loki-push --on-dead-letter-error stop 3>/dev/full", bad: true, status: 74, check: someLeft},
		{name: "a budget", push: fmt.Sprintf("loki-push --dead-letter-fd -1 --daily-bytes %d --daily-action drop", 200*lineBytes), check: overBudget("dropped_budget")},
		{name: "a budget, captured", push: fmt.Sprintf("loki-push --spool dead --dead-letter-budget-drops --daily-bytes %d --daily-action drop", 200*lineBytes), check: overBudget("dead_lettered")},
		{name: "one type is not taken", push: "loki-push --spool dead --give-up 1s", status: 69, check: someLeft,
			answer: func(_ int, r lokitest.Request) *lokitest.Answer {
				for _, s := range r.Streams {
					if strings.Contains(s.Labels, "URI") {
						return &lokitest.Answer{Status: http.StatusServiceUnavailable}
					}
				}
				return nil
			}},
		{name: "the breaker", push: "loki-push --spool dead --max-line-bytes 0", status: 78, check: someLeft,
			more: strings.Repeat(`{"ts":"`+time.Now().UTC().Format(time.RFC3339)+`","labels":{"source":"eventlogfile","event_type":"Login","not a name":"x"},"line":"x","checkpoint_key":"eventlogfile:Login"}`+"\n", 1500)},
		{name: "what follows is no record", push: "loki-push --spool dead", bad: true, status: 65, more: "[]\n"},
		{name: "what follows is torn", push: "loki-push --spool dead", bad: true, status: 74, more: `{"ts":`},
		{name: "a dry run", push: "loki-push --dry-run", bad: true, reasons: "would_be_refused_"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBenchWith(t, lokitest.Config{Limits: lokitest.Plain})
			b.srv.Script(tt.answer)
			b.Set("LOKI_PUSH_LOG_LEVEL=error", "CKPT_LOG_LEVEL=error", "LOKI_PUSH_BATCH_ENTRIES=50", "LOKI_PUSH_MAX_LINE_BYTES=0", "LOKI_PUSH_REPORT=push")
			m := newMixed(n, tt.bad)
			b.Write("input", m.lines.String()+tt.more)
			r := b.Run("mkdir -m 700 dead; " + tt.push + " <input | ckpt commit state.json --allow-empty --report ckpt")
			if r.Status != tt.status {
				t.Errorf("want %d: %v", tt.status, r)
			}
			push, captured := b.report("push"), b.records("dead/*.ndjson")
			if tt.status != 74 || tt.more != "" { // what Loki has stored of a batch that cannot be settled is pushed again
				same(t, "Loki against loki-push", b.stored(), push.pick("delivered"))
			}
			same(t, "the letters against loki-push", captured, push.pick("dead_lettered"))
			if tt.status == 0 {
				same(t, "ckpt against loki-push", sum(b.report("ckpt").pick("delivered", "rejected", "dropped")),
					sum(push.pick("delivered", "dead_lettered=rejected", "discarded_*=dropped", "dropped_budget=dropped")))
			}
			if tt.check != nil {
				tt.check(t, m, push)
				return
			}
			same(t, "loki-push against what was planted", push.pick("delivered", "would_be_delivered=delivered", "dead_lettered", "discarded_*", "would_be_refused_*"), m.fates(tt.reasons))
		})
	}
}

// fates are the planted ones as an account calls them: captured, or by reason.
func (m *mixed) fates(reasons string) figures {
	all := figures{}
	for of, numbers := range m.want {
		for fate, n := range numbers {
			switch {
			case fate == "delivered":
			case reasons == "":
				fate = "dead_lettered"
			case reasons == "would_be_refused_" && fate == "line_too_long":
				fate = "delivered" // as far as anybody can tell who does not ask Loki
			default:
				fate = reasons + fate
			}
			all.add(of, fate, n)
		}
	}
	return all
}

// someCaptured is when there was room for some letters, but not for all.
func someCaptured(t *testing.T, m *mixed, push figures) {
	same(t, "loki-push against what was planted", push.pick("delivered", "dead_lettered", "discarded_*=dead_lettered"), m.fates(""))
	if all := sum(push.pick("dead_lettered", "discarded_*=discarded"))["all"]; all["dead_lettered"] == 0 || all["discarded"] == 0 {
		t.Errorf("all or nothing was captured: %s", push)
	}
}

// someLeft is when a run ended before all was settled.
func someLeft(t *testing.T, _ *mixed, push figures) {
	if all := sum(push)["all"]; all["unsettled"] == 0 {
		t.Errorf("nothing is left: %s", push)
	}
}

// overBudget is when the last lines are beyond the budget of the day.
func overBudget(fate string) func(*testing.T, *mixed, figures) {
	return func(t *testing.T, m *mixed, push figures) {
		same(t, "loki-push against what was planted", push.pick("delivered", fate+"=delivered"), m.want)
		if all := sum(push)["all"]; all["delivered"] != 200 || all[fate] != all["read"]-200 {
			t.Errorf("the budget is for 200: %s", push)
		}
	}
}

// What dl-replay does with letters, each command accounts for by source and
// event type, and a replay for what loki-push has made of it.
func TestAccountsOfReplays(t *testing.T) {
	t.Parallel()
	b := newBenchWith(t, lokitest.Config{Limits: lokitest.Plain})
	b.Set("LOKI_PUSH_LOG_LEVEL=error", "DL_REPLAY_LOG_LEVEL=error", "LOKI_PUSH_BREAKER=false", "LOKI_PUSH_KEEP_FULL_LINES=false")
	b.Write("input", newMixed(120, true).lines.String())
	b.OK("loki-push --spool dead --max-line-bytes 0 <input >acks --report push")
	letters := b.report("push").pick("dead_lettered=selected")

	b.Run("dl-replay run --spool dead --force --report replay -- loki-push --report again")
	replay, again := b.report("replay"), b.report("again")
	same(t, "run takes all letters", replay.pick("selected"), letters)
	same(t, "run against loki-push", replay.pick("replayed", "failed"), again.pick("delivered=replayed", "dead_lettered=failed"))
	if all := sum(replay)["all"]; all["replayed"] == 0 || all["failed"] == 0 {
		t.Errorf("all the same: %s", replay)
	}
	failed, waiting := replay.pick("failed=selected"), replay.pick("failed=selected", "only_when_asked_for=selected")
	for _, step := range []struct {
		command string
		fate    string
		want    figures
	}{
		{"requeue --spool dead --dry-run", "unchanged", failed},
		{"requeue --spool dead", "requeued", failed},
		{"requeue --spool dead", "requeued", figures{}},
		{"cat --spool dead --status new", "written", waiting},
		{"export --spool dead --format parquet --output dead.parquet", "exported", letters},
		{"prune --spool dead --dry-run", "unchanged", figures{}},
		{"discard --spool dead --status new --because x", "discarded", waiting},
		{"prune --spool dead", "removed", letters},
		{"export --spool dead --format sqlite --output dead.db", "exported", figures{}},
	} {
		b.OK("dl-replay " + step.command + " --report step >out")
		got := b.report("step")
		same(t, step.command, got.pick("selected"), step.want)
		same(t, step.command, got.pick(step.fate), step.want.pick("selected="+step.fate))
	}
}
