package lettertest

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// proof is a test: a Go function of a file, or a text that stands in a script.
type proof struct{ file, name string }

// required are the tests that dead letters have to pass.
var required = []string{"D1", "D2", "D3", "D4", "D5", "D6", "D7", "D8", "D9", "D10", "D11", "D12", "D14", "D15", "D16", "D17", "D18", "D19",
	"D20", "D21", "D24", "D25", "D27", "D28", "D30", "D32", "D33", "D34"}

const (
	here    = "scripts/lettertest/"
	scripts = "cmd/dl-replay/testdata/script/"
)

// marks are what a queue of dead letters can have, and where it is proven that
// this one has it.
var marks = map[string][]proof{
	"Meta: the record and why":         {{"pkg/record/letter_test.go", "func Test"}, {here + "capture_test.go", "func TestD3("}},
	"Meta: all errors, each time":      {{here + "replay_test.go", "func TestD16("}},
	"Sel: selective replay":            {{here + "replay_test.go", "func TestD25("}, {scripts + "select.txtar", "# D25"}},
	"Edit: before a replay":            {{here + "replay_test.go", "func TestD14("}, {scripts + "filter.txtar", "#"}},
	"Stat: status of each record":      {{scripts + "run.txtar", "# D16"}, {here + "roundtrip_test.go", "func TestKill("}},
	"Stat: discarded, with a reason":   {{scripts + "mark.txtar", "# discard asks which and why"}},
	"Ret: by age of capture":           {{"pkg/spool/prune_test.go", "func TestRetention("}, {scripts + "prune.txtar", "# prune removes"}},
	"Ret: by age of the event":         {{here + "replay_test.go", "func TestD20("}},
	"Ord: captured or event":           {{scripts + "order.txtar", "--order event"}},
	"Loop: attempts":                   {{scripts + "mark.txtar", "# the guard holds for a .failed file"}},
	"Loop: breaker":                    {{here + "capture_test.go", "func TestD5("}},
	"Met: metrics":                     {{scripts + "metrics.txtar", "# the metrics of a spool"}},
	"Met: alerts":                      {{"scripts/prometheus/deadletter_test.yml", "exp_alerts"}, {here + "table_test.go", "func TestAlerts("}},
	"Sec: permissions":                 {{here + "capture_test.go", "func TestD12("}, {"pkg/spool/writer_test.go", "func TestModesWhateverTheUmask("}},
	"Sec: encryption by a pipe":        {{here + "ship_test.go", "func TestEncryption("}},
	"Cap: size, oldest first, loud":    {{here + "capture_test.go", "func TestD10("}, {here + "capture_test.go", "func TestDefaultBudget("}},
	"Cap: or stop":                     {{here + "capture_test.go", "func TestD7("}},
	"Browse: jq":                       {{here + "replay_test.go", "func TestD14("}},
	"Browse: SQL":                      {{"scripts/dl-iceberg/iceberg_test.go", "func TestFormatsAgree("}, {"pkg/spool/table/table_test.go", "func TestSQLite("}},
	"Idem: id":                         {{here + "capture_test.go", "func TestD8("}},
	"Idem: what Loki folds":            {{here + "roundtrip_test.go", "func TestRoundTrip("}, {here + "roundtrip_test.go", "func TestKill("}},
	"beyond: windows of the target":    {{here + "replay_test.go", "func TestD21("}, {here + "replay_test.go", "func TestD20("}},
	"beyond: gaps fetched again":       {{here + "replay_test.go", "func TestD28("}},
	"beyond: positions stay":           {{here + "replay_test.go", "func TestD17("}},
	"beyond: rate of a replay":         {{here + "replay_test.go", "func TestD24("}},
	"beyond: only what is the entry's": {{here + "capture_test.go", "func TestD6("}, {here + "capture_test.go", "func TestD33("}},
}

// Every mark has a test, and every required test is there by its name.
func TestMarks(t *testing.T) {
	for mark, proofs := range marks {
		for _, p := range proofs {
			data, err := os.ReadFile(root + "/" + p.file)
			if err != nil || !bytes.Contains(data, []byte(p.name)) {
				t.Errorf("%s: no %q in %s (%v)", mark, p.name, p.file, err)
			}
		}
	}
	var all strings.Builder
	for _, name := range []string{"capture_test.go", "replay_test.go"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	for _, name := range required {
		if !strings.Contains(all.String(), "\nfunc Test"+name+"(t *testing.T) {") {
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
	served := b.read("push.prom") + b.read("replay.prom") + b.read("prune.prom")
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

func must(s string, err error) string {
	if err != nil {
		panic(fmt.Sprint(err))
	}
	return s
}
