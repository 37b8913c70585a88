package prooftest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// ackLines are n acknowledgements of a key, from a number on, each of three
// entries; the last one settles an account.
func ackLines(key string, from, n int) string {
	var b strings.Builder
	_, name, _ := strings.Cut(key, ":")
	for i := from; i < from+n; i++ {
		account := ""
		if i == from+n-1 {
			account = fmt.Sprintf(`,"account":{"origin":"0AT%d","event_type":%q,"rows":%d,"delivered":%d,"rejected":%d,"dropped":0}`, i, name, 3*n, 2*n, n)
		}
		fmt.Fprintf(&b, `{"checkpoint_key":%q,"checkpoint_value":"%d","delivered":2,"rejected":1,"dropped":0%s}`+"\n", key, i, account)
	}
	return b.String()
}

// The account of ckpt commit holds by source and event type, whatever becomes
// of the acknowledgements.
func TestAccountsOfCommits(t *testing.T) {
	const once = "ckpt commit state.json --write-interval 1h <input"
	login, daily, topic := ackLines("eventlogfile:Login", 1, 10), ackLines("eventlogfile:Daily:API", 1, 5), ackLines("pubsub:/event/Order__e", 1, 3)
	letters := ackLines("deadletter:a.ndjson", 1, 4)
	for _, tt := range []struct {
		name, input, script string
		status              int
		want                string // source and event type: acks written superseded refused, settled accounts
	}{
		{"the last one counts", login + daily + topic + ackLines("org=prod:lane=two:eventlogfile:Login", 1, 4), once, 0,
			"eventlogfile API: 5 1 4 0 1\neventlogfile Login: 14 2 12 0 2\npubsub /event/Order__e: 3 1 2 0 1\n"},
		{"keys that nobody knows", ackLines("something", 1, 3) + ackLines("", 1, 2) + login, once, 0,
			" : 2 1 1 0 1\neventlogfile Login: 10 1 9 0 1\nsomething : 3 1 2 0 1\n"},
		{"replays and reserved keys", letters + login + ackLines("__fence_epoch__", 1, 2), once, 65,
			"__fence_epoch__ : 2 0 0 2 1\ndeadletter a.ndjson: 4 0 0 4 1\neventlogfile Login: 10 1 9 0 1\n"},
		{"what follows is none", login + "[]\n", once, 65, "eventlogfile Login: 10 1 9 0 1\n"},
		{"what follows is torn", login + `{"checkpoint_key":`, once, 74, "eventlogfile Login: 10 1 9 0 1\n"},
		{"another writer", ackLines("some:thing", 1, 1), `{ cat input; until grep -q thing state.json; do sleep 0.02; done
ckpt set state.json some:thing mine >&2; sed s/some:/other:/ input; cat input; } | ckpt commit state.json --write-interval 0s`, 76,
			"other thing: 1 1 0 0 1\nsome thing: 2 1 0 1 2\n"},
		{"no room for the ledger", login + topic, tiny("head -c 2000000 /dev/zero >tiny/full 2>/dev/null; ckpt commit state.json --write-interval 1h --ledger tiny/ledger <input"), 74,
			"eventlogfile Login: 10 0 9 1 1\npubsub /event/Order__e: 3 0 2 1 1\n"},
		{"no place for the document", login + topic, "mkdir state.json; " + once, 73, ""},
		{"a fence", login, "CKPT_EPOCH=3 ckpt commit state.json </dev/null --allow-empty; echo '{\"__fence_epoch__\":\"7\"}' >state.json; CKPT_EPOCH=3 " + once, 76, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Set("CKPT_LOG_LEVEL=error", "CKPT_REPORT=report")
			b.Write("input", tt.input)
			if r := b.Run(tt.script); r.Status != tt.status {
				t.Errorf("want %d: %v", tt.status, r)
			}
			report := b.report("report")
			got := ""
			for _, of := range slices.Sorted(maps.Keys(report)) {
				n := report[of]
				if n["acks"] == 0 {
					continue // there was none at all
				}
				got += fmt.Sprintf("%s: %d %d %d %d %d\n", of, n["acks"], n["written"], n["superseded"], n["refused"], n["accounts"])
				if n["delivered"] != 2*n["acks"] || n["rejected"] != n["acks"] {
					t.Errorf("%s: %v", of, n)
				}
			}
			if got != tt.want {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
		})
	}
}
