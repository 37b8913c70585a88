package lettertest

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// mark is one thing that a queue of dead letters can have, and commands that show
// that this one has it: of six letters in the spool dead, of alternating event
// types, each with a piece of metadata.
type mark struct {
	name   string
	before func(*bench)
	script string
	status int
	want   string // what the script prints, to the letter
}

// marks go by the columns of the comparison with other queues: what is kept, selective
// replay, edit, status, retention, order, loops, metrics, security, size, browsing,
// idempotence; then what none of the others has.
var marks = []mark{
	{name: "Meta: all that the record was", want: "true\n", script: `jq -s 'length == 6 and all(.ts and .ts_unix_nano and .labels.source and .labels.event_type and
		.structured_metadata.meta == "m" and .line and .checkpoint_key == "k" and .checkpoint_value and .origin)' dead/*.ndjson`},
	{name: "Meta: why, by whom, where, when", want: "true\n", script: `jq -s 'all(.reason == "line_too_long" and .truncated == false and (.captured_at | test("^20.*Z$")) and
		(.dead_letter | .v == 1 and (.id | test("^[0-9a-f]{32}$")) and .status == 400 and (.detail | test("exceeded")) and .stage == "push" and
		.attempts == 1 and .instance == "x" and (.run_id | length > 8) and (.first_captured_at | test("Z$"))))' dead/*.ndjson`},
	{name: "Meta: every refusal", before: refuseAll, want: "[1,2,1,1]\n", status: 0, script: `dl-replay run --spool dead -- loki-push --breaker=false >/dev/null
		jq -s -c '[(.[0].dead_letter | .attempts, (.errors | length)), ([.[].dead_letter.errors[0].reason] | unique | length), ([.[] | select(.dead_letter.errors[1].status == 400)] | length / 6)] | [.[1]-1, .[0], .[2], .[3]]' dead/*.failed`},
	{name: "Sel: by filters", want: "0AT:6\n0AT:4\n", script: `dl-replay cat --spool dead --event-type API --since 1h --grep 'N' --limit 2 | jq -r 'select(.origin).origin'`},
	{name: "Sel: by id, in a replay", want: "1 replayed\nnew\n", script: `id=$(jq -r 'select(.origin == "0AT:3").dead_letter.id' dead/*.ndjson)
		dl-replay run --spool dead --id $id -- loki-push | grep -o '1 replayed'; dl-replay show --spool dead --json --match origin=0AT:4 | jq -r .status`},
	{name: "Edit: by jq, in the middle", want: "6 replayed\n", script: `dl-replay run --spool dead -- sh -c "jq -c 'if .line then .line = \"edited\" else . end' | loki-push" | grep -o '6 replayed'`},
	{name: "Stat: of each record", want: `{"discarded":1,"new":3,"replayed":2}` + "\n", script: `dl-replay run --spool dead --limit 2 -- loki-push >/dev/null
		dl-replay discard --spool dead --match origin=0AT:1 --because test >/dev/null; dl-replay list --spool dead --json | jq -c .statuses`},
	{name: "Stat: in hand", want: "6\n6\n", script: `dl-replay run --spool dead -- sh -c 'cat >all; dl-replay list --spool dead --json | jq .statuses.pending >seen; loki-push <all' >/dev/null
		cat seen; dl-replay list --spool dead --json | jq .statuses.replayed`},
	{name: "Ret: by the age of the capture", want: "1\n0\n", script: `dl-replay prune --spool dead --unreplayed --older-than 1d; ls dead | wc -l; touch -d '2 days ago' dead/*
		dl-replay prune --spool dead --unreplayed --older-than 1d >/dev/null; ls dead | wc -l`},
	{name: "Ret: by the age of the event", want: "6 too old\n", status: 0, script: `dl-replay run --spool dead --max-age 5m -- loki-push >said; dl-replay list --spool dead --json --max-age 5m | jq -r '"\(.beyond) too old"'`},
	{name: "Ord: as captured", want: "same\n", script: `dl-replay run --spool dead -- sh -c 'tee sent | loki-push' >/dev/null
		jq -r 'select(.origin).origin' sent >a; jq -r .origin dead/*.replayed >b; cmp a b && echo same`},
	{name: "Ord: as the events happened", want: "6 5 4 3 2 1 \n", script: `dl-replay run --spool dead --order event -- sh -c 'tee sent | loki-push' >/dev/null
		jq -j 'select(.origin) | .origin[4:] + " "' sent; echo`},
	{name: "Loop: attempts", before: refuseAll, want: "6 failed\n6 out of attempts\n", script: `dl-replay run --spool dead -- loki-push --breaker=false | grep -o '6 failed'
		cat dead/*.failed >by-hand.ndjson; dl-replay run by-hand.ndjson --max-attempts 2 -- loki-push | grep -o '6 out of attempts'`},
	{name: "Loop: breaker", before: refuseAll, status: 78, script: `for i in $(seq 60); do cat captured; done >much; loki-push --spool much.dead <much >acks`},
	{name: "Met: of all that happens", want: metricNames, script: `loki-push --spool dead --metrics-file push.prom <captured >/dev/null
		dl-replay run --spool dead --metrics-file run.prom -- loki-push >/dev/null
		sed -n 's/^\(sf2loki_deadletter_[a-z_]*\).*/\1/p' push.prom run.prom | sort -u`},
	{name: "Met: derived from the disk", want: "sf2loki_deadletter_pending_entries 6\n", script: `dl-replay stats --spool dead --metrics-file m.prom --instance '' >/dev/null
		sed -n 's/^\(sf2loki_deadletter_pending_entries\){.*} \(.*\)/\1 \2/p' m.prom`},
	{name: "Sec: permissions", want: "700\n600\n", script: `stat -c %a dead dead/*`},
	{name: "Sec: nobody's directory", status: 78, script: `mkdir -m 777 open; loki-push --spool open <captured >acks`},
	{name: "Cap: the oldest go, counted", before: refuseAll, want: "000006\ntrue\n", script: `loki-push --breaker=false --batch-entries 1 --spool small --spool-bytes 2kB --spool-file-bytes 1kB --metrics-file m.prom <captured >/dev/null
		ls small | grep -o '00000[16]'
		pruned=$(sed -n 's/^sf2loki_deadletter_pruned_unreplayed_total{.*reason="line_too_long".*} //p' m.prom); kept=$(cat small/*.ndjson | wc -l)
		test $((pruned + kept)) = 6 && test "$pruned" -gt 0 && echo true`},
	{name: "Cap: or a stop", before: refuseAll, status: 74, script: `mkfifo gone; : <gone & loki-push --breaker=false --on-dead-letter-error stop 3>gone <captured >acks`},
	{name: "Browse: jq", want: "API 3\nLogin 3\n", script: `jq -r .labels.event_type dead/*.ndjson | sort | uniq -c | awk '{print $2, $1}'`},
	{name: "Browse: SQL", want: "API 3\nLogin 3\n", script: `dl-replay export --spool dead --format sqlite --output d.db >/dev/null
		python3 -c 'import sqlite3
for row in sqlite3.connect("d.db").execute("select entity, count(*) from dead_letters group by 1 order by 1"): print(*row)'`},
	{name: "Idem: the id is the entry's", before: refuseAll, want: "6\n", script: `jq -S -c . captured | loki-push --breaker=false --spool again >/dev/null
		jq -r .dead_letter.id dead/*.ndjson again/*.ndjson | sort | uniq -d | wc -l`},
	{name: "Idem: Loki folds a repeat", want: "6 replayed\n6 replayed\n", script: `cp dead/*.ndjson twice.ndjson
		for f in twice.ndjson dead/*.ndjson; do dl-replay run $f -- loki-push | grep -o '6 replayed'; done`},
	{name: "beyond: no position moves", want: "same\n", script: `ckpt set --raw state.json k 7; cp state.json was; dl-replay cat --spool dead | loki-push | ckpt commit state.json; cmp state.json was && echo same`},
	{name: "beyond: what will be too old tomorrow", want: "0 6\n", script: `dl-replay list --spool dead --json --max-age 1d | jq -r '"\(.beyond) \(.beyond_tomorrow)"'`},
	{name: "beyond: another tenant's stay away", status: 78, script: `loki-push --tenant other --dry-run <captured >/dev/null && jq -c '.dead_letter.tenant = "seven"' dead/*.ndjson | loki-push >/dev/null`},
}

// metricNames are those of dead letters.
const metricNames = `sf2loki_deadletter_bytes_written_total
sf2loki_deadletter_entries_written_total
sf2loki_deadletter_oldest_pending_event_timestamp_seconds
sf2loki_deadletter_oldest_pending_timestamp_seconds
sf2loki_deadletter_pending_entries
sf2loki_deadletter_pruned_unreplayed_total
sf2loki_deadletter_replay_failed_total
sf2loki_deadletter_replayed_total
sf2loki_deadletter_spool_bytes
sf2loki_deadletter_spool_files
sf2loki_deadletter_spool_limit_bytes
sf2loki_deadletter_write_errors_total
`

// refuseAll makes every line too long.
func refuseAll(b *bench) { b.lineLimit(1) }

// What takes more than a few commands has tests of its own: that one of them is
// gone does not compile.
var _ = map[string]func(*testing.T){
	"Ret: too old stays new, clamp delivers": TestD20, "Loop: three attempts": TestD16, "Met: alerts": TestAlerts, "Sec: encryption by a pipe": TestEncryption,
	"Sec: whatever the umask": TestD12, "Cap: of tens of megabytes": TestD10, "Cap: full disk": TestD7, "Idem: captured twice": TestD8, "Idem: kills": TestKill,
	"Edit: to the byte": TestRoundTrip, "beyond: late for its stream": TestD21, "beyond: gaps are fetched again": TestD28, "beyond: rate": TestD24,
	"beyond: trouble is no letter": TestD6, "beyond: nor is an outage": TestD33, "beyond: any program writes letters": TestConnector, "beyond: runbook": TestRunbook,
}

// Every mark is shown by commands.
func TestMarks(t *testing.T) {
	for _, m := range marks {
		t.Run(m.name, func(t *testing.T) {
			b := newBench(t)
			b.capture(6, func(r *rec) {
				r.typ, r.meta, r.ago = []string{"API", "Login"}[r.n%2], "m", time.Duration(r.n)*time.Second
			})
			if m.before != nil {
				m.before(b)
			}
			if r := b.want(m.status, m.script); r.Stdout != m.want {
				t.Errorf("want %q: %v", m.want, r)
			}
		})
	}
}

// All that has to be shown by its name is there.
func TestNames(t *testing.T) {
	all := ""
	for _, name := range []string{"capture_test.go", "replay_test.go"} {
		all += must(os.ReadFile(name))
	}
	for _, name := range strings.Fields("D1 D2 D3 D4 D5 D6 D7 D8 D9 D10 D11 D12 D14 D15 D16 D17 D18 D19 D20 D21 D24 D25 D27 D28 D30 D32 D33 D34") {
		if !strings.Contains(all, "\nfunc Test"+name+"(t *testing.T) {") {
			t.Errorf("no test %s", name)
		}
	}
}

// The alerts fire, and do not, by Prometheus's own tool; each names a metric
// that the programs have.
func TestAlerts(t *testing.T) {
	b := newBench(t)
	b.want(0, `cd "`+must(os.Getwd())+`/../prometheus" && promtool check rules deadletter.rules.yml && promtool test rules deadletter_test.yml`)
	rules, err := os.ReadFile("../prometheus/deadletter.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	b.lineLimit(100)
	b.input("in", 2, poison(1))
	b.want(0, "loki-push --spool dead --metrics-file push.prom <in >acks; dl-replay run --spool dead --metrics-file replay.prom -- loki-push; dl-replay prune --spool dead --metrics-file prune.prom")
	served := b.Read("push.prom") + b.Read("replay.prom") + b.Read("prune.prom")
	names := regexp.MustCompile(`sf2loki_\w+`).FindAllString(string(rules), -1)
	for _, name := range names {
		if !strings.Contains(served, "\n"+name) {
			t.Errorf("no program has %s", name)
		}
	}
	if len(names) < 8 {
		t.Errorf("metrics %v", names)
	}
}

func must[T string | []byte](s T, err error) string {
	if err != nil {
		panic(fmt.Sprint(err))
	}
	return string(s)
}
