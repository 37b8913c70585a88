package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Labels that come with the target of a scrape, not from the programs.
var targetLabels = []string{"job", "instance", "lane", "org"}

// asked is a query of a panel.
type asked struct {
	where, expr, legend string
}

func promql(t *testing.T) []asked {
	t.Helper()
	var all []asked
	for _, d := range dashboards() {
		for _, r := range d.rows {
			for _, p := range r.panels {
				for _, q := range p.queries {
					if !q.logql() {
						all = append(all, asked{d.name + ": " + p.title, q.text(), q.legend})
					}
				}
			}
		}
	}
	if len(all) < 50 {
		t.Fatalf("%d queries", len(all))
	}
	return all
}

// variables are what Grafana puts into queries.
var grafana = strings.NewReplacer("$__rate_interval", "5m", "$__interval", "1m", "$__range", "6h", "$org", ".*")

// Prometheus's own parser takes every query.
func TestPromQL(t *testing.T) {
	var b strings.Builder
	fmt.Fprintln(&b, "groups: [{name: dashboards, rules: [")
	for i, q := range promql(t) {
		fmt.Fprintf(&b, "{record: 'panel:query:%d', expr: '%s'},\n", i, strings.ReplaceAll(grafana.Replace(q.expr), "'", "''"))
	}
	fmt.Fprintln(&b, "]}]")
	file := t.TempDir() + "/rules.yml"
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("promtool", "check", "rules", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// Every metric and label of a panel is one that the programs write.
func TestPanelMetrics(t *testing.T) {
	known := knownMetrics(t)
	for _, q := range promql(t) {
		for _, problem := range unknownNames(known, q.expr, q.legend) {
			t.Errorf("%s: %s in %s", q.where, problem, q.expr)
		}
	}
}

// The check itself finds what is wrong.
func TestUnknownNames(t *testing.T) {
	known := map[string]*family{
		"sf2loki_a_total": {"counter", map[string]bool{"x": true}, ""},
		"sf2loki_h":       {"histogram", map[string]bool{"y": true}, ""},
	}
	for expr, want := range map[string]string{
		`sum by (x, org) (rate(sf2loki_a_total{x="1"}[5m]))`:                   "",
		`histogram_quantile(0.9, sum by (le, y) (rate(sf2loki_h_bucket[5m])))`: "",
		`sf2loki_h_sum / sf2loki_h_count`:                                      "",
		`sf2loki_h`:                                                            "metric sf2loki_h",
		`sf2loki_b_total`:                                                      "metric sf2loki_b_total",
		`sf2loki_a_total{y=~"a,b",x!="z"}`:                                     "label y of sf2loki_a_total",
		`sum by (z) (sf2loki_a_total)`:                                         "label z",
		`sum without (le) (sf2loki_a_total)`:                                   "label le",
		`sf2loki_a_total_bucket`:                                               "metric sf2loki_a_total_bucket",
	} {
		if got := strings.Join(unknownNames(known, expr, ""), "; "); got != want {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
	if got := unknownNames(known, "sf2loki_a_total", "{{x}} {{ y }}"); len(got) != 1 || got[0] != "label y" {
		t.Errorf("legend: %q", got)
	}
}

var (
	metricWord = regexp.MustCompile(`\b(?:sf2loki|process|node)[_:][a-z0-9_:]+(\{[^}]*\})?`)
	matcher    = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"(?:[^"\\]|\\.)*"`)
	grouping   = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	legendWord = regexp.MustCompile(`\{\{\s*\.?(\w+)\s*\}\}`)
)

// unknownNames are the metrics, and the labels in matchers, groupings and the
// legend, that no program writes.
func unknownNames(known map[string]*family, expr, legend string) []string {
	var problems []string
	labels := map[string]bool{}
	for _, l := range targetLabels {
		labels[l] = true
	}
	for _, m := range metricWord.FindAllStringSubmatch(expr, -1) {
		name, _, _ := strings.Cut(m[0], "{")
		f := lookUp(known, name)
		if f == nil {
			problems = append(problems, "metric "+name)
			continue
		}
		if f.kind == "histogram" {
			labels["le"] = true
		}
		for l := range f.labels {
			labels[l] = true
		}
		for _, l := range matcher.FindAllStringSubmatch(m[1], -1) {
			if !labels[l[1]] || l[1] != "le" && !f.labels[l[1]] && !slices.Contains(targetLabels, l[1]) {
				problems = append(problems, "label "+l[1]+" of "+name)
			}
		}
	}
	var used []string
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		used = append(used, strings.FieldsFunc(g[1], func(r rune) bool { return r == ',' || r == ' ' })...)
	}
	for _, l := range legendWord.FindAllStringSubmatch(legend, -1) {
		used = append(used, l[1])
	}
	for _, l := range used {
		if !labels[l] {
			problems = append(problems, "label "+l)
		}
	}
	return problems
}

// lookUp finds the metric of a series' name.
func lookUp(known map[string]*family, name string) *family {
	f := known[name]
	if f != nil && f.kind != "histogram" {
		return f
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && known[base] != nil && known[base].kind == "histogram" {
			return known[base]
		}
	}
	return nil
}
