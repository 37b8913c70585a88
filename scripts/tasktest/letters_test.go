package tasktest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

var letterTasks = []task{
	{"A burst of lines that are too long", []int{18}, tooLong},
	{"Replay what is older than Loki takes", []int{19}, tooOld},
	{"Replay what came too late", []int{20}, tooLate},
	{"Throw away what is known to be garbage", []int{21}, garbage},
	{"The disk of the spool is full", []int{35}, diskFull},
}

// records makes records of a line each.
func records(ago time.Duration, lines ...string) string {
	var text strings.Builder
	for i, line := range lines {
		data, err := json.Marshal(map[string]any{
			"ts":     time.Now().UTC().Add(time.Duration(i)*time.Second - ago).Format(time.RFC3339Nano),
			"labels": map[string]string{"source": "eventlogfile", "event_type": "API"}, "line": line,
		})
		if err != nil {
			panic(err)
		}
		text.Write(append(data, '\n'))
	}
	return text.String()
}

const toSpool = "loki-push --allow-empty --spool /var/spool/sf2loki/prod <in >acks"

// fakeLoki is the Loki of acme without tenants, whose limits can be exceeded.
func (b *bench) fakeLoki(args ...string) {
	b.T.Helper()
	b.loki(acmeLoki, append([]string{"--multi-tenant"}, args...)...)
	b.settings()
	b.Write("etc/sf2loki/loki.token", "secret\n")
}

func tooLong(b *bench, blocks []string) {
	b.fakeLoki()
	long := strings.Repeat("x", 300_000)
	b.Write("in", records(time.Minute, `{"ID":"1","QUERY":"`+long+`"}`, `{"ID":"2","QUERY":"short"}`, `{"ID":"3","QUERY":"`+long+`"}`))
	b.sh(0, strings.Replace(toSpool, "loki-push", "loki-push --max-line-bytes 0", 1))
	b.holds(`{event_type="API"}`, 1)
	b.sh(0, blocks[0], "line_too_long  API", `{"key":"QUERY","value":300000}`, "2 to send: 2 replayed")
	b.holds(`{event_type="API"}`, 3)
}

func tooOld(b *bench, blocks []string) {
	b.fakeLoki()
	b.Write("in", records(9*24*time.Hour, "a", "b", "c"))
	b.sh(0, toSpool)
	b.sh(0, blocks[0], "too_old:3", "3 to send: 3 replayed")
	b.holds(`{event_type="API"}`, 3)
	b.configured()
	b.Write("in", records(8*24*time.Hour, "d", "e"))
	b.sh(0, strings.Replace(toSpool, "sf2loki/prod", "sf2loki/hourly", 1))
	b.sh(0, blocks[1], "2 to send: 2 replayed")
	b.holds(`{event_type="API"}`, 5)
}

func tooLate(b *bench, blocks []string) {
	b.fakeLoki()
	push := strings.Replace(toSpool, "loki-push", "loki-push --hour-label none", 1)
	b.Write("in", records(time.Minute, "now"))
	b.sh(0, push)
	b.Write("in", records(3*time.Hour, "a", "b"))
	b.sh(0, push)
	b.holds(`{event_type="API"}`, 1)
	b.sh(0, blocks[0], "2 to send: 2 replayed")
	b.holds(`{event_type="API",replay="r1"}`, 2)
}

func garbage(b *bench, blocks []string) {
	b.fakeLoki("--poison", "garbage")
	b.Write("in", records(time.Minute, "garbage 1", "good", "garbage 2"))
	b.sh(0, toSpool)
	discard, requeue, _ := strings.Cut(strings.TrimSpace(blocks[0]), "\ndl-replay requeue")
	b.sh(0, discard, "2 records are discarded now")
	b.sh(0, "dl-replay stats --spool /var/spool/sf2loki/prod --by status", "discarded  2")
	b.sh(0, "dl-replay requeue"+requeue)
	b.sh(0, "dl-replay stats --spool /var/spool/sf2loki/prod --by status", "new     2")
}

// diskFull has dead letters go to a device that is always full.
func diskFull(b *bench, blocks []string) {
	b.acme("--hours", "3", "--rows", "40", "--types", "Login", "--poison")
	full := strings.Replace(blocks[0], "--spool /var/spool/sf2loki/prod", "3>/dev/full", 1)
	r := b.sh(74, full, "no space left on device")
	if b.state("prod.json") != "" {
		b.sh(0, "ckpt list /var/lib/sf2loki/prod.json")
	}
	// As the default has it: counted, said, and gone.
	drop := b.sh(0, strings.Replace(full, " --on-dead-letter-error stop", "", 1))
	if !strings.Contains(drop.Stderr, "no space left on device") {
		b.T.Errorf("%v", r)
	}
	// With room again nothing that was stopped for is missing.
	b.sh(0, "ckpt rm /var/lib/sf2loki/prod.json org=prod:eventlogfile:Login")
	b.sh(0, blocks[0])
	letters := strings.Count(b.sh(0, "dl-replay cat --spool /var/spool/sf2loki/prod | jq -c 'select(.reason)'").Stdout, "\n")
	if n := b.stored(acmeLoki, "7", `{event_type="Login"}`); letters == 0 || n+letters != b.rows("Login") {
		b.T.Errorf("%d stored, %d letters, %d rows: %s", n, letters, b.rows("Login"), fmt.Sprint(r))
	}
}
