package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

const rulesDir = "../prometheus/"

type rule struct {
	Alert, Record, Expr string
	Labels, Annotations map[string]string
}

// rulesOf are the rules of a file of Prometheus or of Loki's ruler.
func rulesOf(t *testing.T, file string) []rule {
	t.Helper()
	var f struct{ Groups []struct{ Rules []rule } }
	readYAML(t, rulesDir+file, &f)
	var all []rule
	for _, g := range f.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// The alerts fire, and do not, by Prometheus's own tool.
func TestRules(t *testing.T) {
	for _, args := range [][]string{
		{"check", "rules", "lanes.rules.yml"}, {"test", "rules", "lanes_test.yml", "lanes_days_test.yml"}, {"check", "config", "scrape.yml"},
	} {
		cmd := exec.Command("promtool", args...)
		cmd.Dir = rulesDir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// Each alert has a test in which it fires and one in which it does not.
func TestRulesAreTested(t *testing.T) {
	fires, calm := map[string]bool{}, map[string]bool{}
	for _, file := range []string{"lanes_test.yml", "lanes_days_test.yml"} {
		var f struct {
			Tests []struct {
				Cases []struct {
					Alert  string `yaml:"alertname"`
					Alerts []any  `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			}
		}
		readYAML(t, rulesDir+file, &f)
		for _, test := range f.Tests {
			for _, c := range test.Cases {
				if len(c.Alerts) > 0 {
					fires[c.Alert] = true
				} else {
					calm[c.Alert] = true
				}
			}
		}
	}
	n := 0
	for _, r := range rulesOf(t, "lanes.rules.yml") {
		if r.Alert == "" {
			continue
		}
		n++
		if !fires[r.Alert] || !calm[r.Alert] {
			t.Errorf("%s: a test in which it fires: %v; in which it does not: %v", r.Alert, fires[r.Alert], calm[r.Alert])
		}
	}
	if n < 25 {
		t.Errorf("%d alerts", n)
	}
}

// Every metric and label of a rule is one that the programs write, Prometheus
// makes, or another rule records.
func TestRuleMetrics(t *testing.T) {
	known := knownMetrics(t)
	rules := rulesOf(t, "lanes.rules.yml")
	for _, r := range rules {
		if r.Record == "" {
			continue
		}
		f := &family{kind: "gauge", labels: map[string]bool{}}
		if known[r.Record] != nil {
			f = known[r.Record]
		}
		for l := range r.Labels {
			f.labels[l] = true
		}
		for _, g := range grouping.FindAllStringSubmatch(r.Expr, -1) {
			for _, l := range strings.Split(g[1], ",") {
				f.labels[strings.TrimSpace(l)] = true
			}
		}
		known[r.Record] = f
	}
	for _, r := range rules {
		for _, problem := range unknownNames(known, r.Expr, "") {
			t.Errorf("%s%s: %s", r.Alert, r.Record, problem)
		}
	}
}

// The rules of the data are LogQL, and name event types and columns that
// fixtures have.
func TestLokiRules(t *testing.T) {
	columns := eventColumns(t)
	rules := rulesOf(t, "loki.rules.yml")
	if len(rules) < 5 {
		t.Fatalf("%d rules", len(rules))
	}
	for _, r := range rules {
		if err := parseLogQL(r.Expr); err != nil {
			t.Errorf("%s%s: %v", r.Alert, r.Record, err)
		}
		for _, problem := range unknownColumns(columns, r.Expr, "") {
			t.Errorf("%s%s: %s", r.Alert, r.Record, problem)
		}
	}
}

// lateRange is a range of LogQL, and how far it lies back.
var lateRange = regexp.MustCompile(`\[([^\]]+)\](?: offset (\w+))?`)

// reach is how old events of a range may be; a range that follows what is
// looked at reaches as far as that.
func reach(t *testing.T, text, offset string) time.Duration {
	t.Helper()
	var sum time.Duration
	for _, part := range []string{text, offset} {
		switch {
		case strings.HasPrefix(part, "$__"):
			return 24 * time.Hour
		case part != "":
			d, err := model.ParseDuration(part)
			if err != nil {
				t.Fatal(err)
			}
			sum += time.Duration(d)
		}
	}
	return sum
}

// Event log files come three to six hours late: five minutes that end now hold
// none of their rows, ever (#106).
func TestRangesReachLateFiles(t *testing.T) {
	queries := logqlQueries(t)
	for _, r := range rulesOf(t, "loki.rules.yml") {
		queries = append(queries, asked{where: r.Alert + r.Record, expr: r.Expr})
	}
	ranges := 0
	for _, q := range queries {
		if !strings.Contains(q.expr, `source="eventlogfile"`) {
			continue
		}
		for _, m := range lateRange.FindAllStringSubmatch(q.expr, -1) {
			ranges++
			if d := reach(t, m[1], m[2]); d < 6*time.Hour {
				t.Errorf("%s: %s reaches back %v only", q.where, m[0], d)
			}
		}
	}
	if ranges < 20 {
		t.Errorf("%d ranges", ranges)
	}
	if reach(t, "5m", "") >= 6*time.Hour || reach(t, "5m", "8h") < 6*time.Hour {
		t.Error("what reaches is not told from what does not")
	}
}

var runbook = regexp.MustCompile(`^man (\d) ([a-z0-9-]+), ([A-Z ]+)$`)

// Each alert, of every file, has a severity and an entry in the section of the
// manual that it names.
func TestRunbooks(t *testing.T) {
	for _, file := range glob(t, rulesDir+"*.rules.yml") {
		alerts := 0
		for _, r := range rulesOf(t, filepath.Base(file)) {
			if r.Alert == "" {
				continue
			}
			alerts++
			m := runbook.FindStringSubmatch(r.Annotations["runbook"])
			if m == nil {
				t.Errorf("%s: runbook %q", r.Alert, r.Annotations["runbook"])
				continue
			}
			if !entries(t, m[2]+"."+m[1], m[3])[r.Alert] {
				t.Errorf("%s has no entry in %s", r.Alert, m[0])
			}
			if s := r.Labels["severity"]; s != "warning" && s != "critical" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s: severity %q, annotations %v", r.Alert, s, r.Annotations)
			}
		}
		if alerts == 0 {
			t.Errorf("%s has no alert", file)
		}
	}
}

// entries are the words of the list items in a section of a manual page.
func entries(t *testing.T, page, section string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../man/" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, part, found := strings.Cut(string(text), "\n.Sh "+section+"\n")
	if !found {
		t.Fatalf("%s has no section %s", page, section)
	}
	part, _, _ = strings.Cut(part, "\n.Sh ")
	all := map[string]bool{}
	for line := range strings.Lines(part) {
		if words := strings.Fields(line); len(words) > 2 && words[0] == ".It" {
			for _, w := range words[2:] {
				all[w] = true
			}
		}
	}
	delete(all, ",")
	return all
}

// The manual lists every metric, and no other.
func TestManualMetrics(t *testing.T) {
	listed := entries(t, "sf2loki-metrics.7", "METRICS")
	known := knownMetrics(t)
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if strings.HasPrefix(name, "sf2loki_") && !listed[name] {
			t.Errorf("the manual has no %s", name)
		}
	}
	for name := range listed {
		if known[name] == nil {
			t.Errorf("the manual has %s, which no program writes", name)
		}
	}
	boards := entries(t, "sf2loki-metrics.7", "DESCRIPTION")
	for _, d := range dashboards() {
		if !boards[d.name] {
			t.Errorf("the manual has no dashboard %s", d.name)
		}
	}
	alerts := entries(t, "sf2loki-metrics.7", "ALERTS")
	for _, r := range append(rulesOf(t, "lanes.rules.yml"), rulesOf(t, "loki.rules.yml")...) {
		delete(alerts, r.Alert)
	}
	if len(alerts) > 0 {
		t.Errorf("the manual has alerts that no file has: %v", alerts)
	}
}
