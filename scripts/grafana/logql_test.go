package main

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func logqlQueries(t *testing.T) []asked {
	t.Helper()
	var all []asked
	for _, d := range dashboards() {
		for _, r := range d.rows {
			for _, p := range r.panels {
				for _, q := range p.queries {
					if q.logql() {
						all = append(all, asked{d.name + ": " + p.title, q.text(), q.legend})
					}
				}
			}
		}
	}
	if len(all) < 40 {
		t.Fatalf("%d queries", len(all))
	}
	return all
}

// Every LogQL query has the form of one, and names event types and columns that
// fixtures have.
func TestLogQL(t *testing.T) {
	columns := eventColumns(t)
	for _, q := range logqlQueries(t) {
		if err := parseLogQL(grafana.Replace(q.expr)); err != nil {
			t.Errorf("%s: %v in %s", q.where, err, q.expr)
		}
		for _, problem := range unknownColumns(columns, q.expr, q.legend) {
			t.Errorf("%s: %s in %s", q.where, problem, q.expr)
		}
	}
}

// The check itself finds what is wrong.
func TestUnknownColumns(t *testing.T) {
	columns := map[string]map[string]bool{
		"eventlogfile/A": {"X": true, "Y": true}, "eventlogfile/B": {"X": true},
	}
	for expr, want := range map[string]string{
		`{source="eventlogfile",event_type="A",org=~"a|"} | json X="X", Y="Y"`:                        "",
		`sum by (Z, org) (count_over_time({source="eventlogfile",event_type="A"} | json Z="X" [5m]))`: "",
		`{source="eventlogfile",event_type=~"A|B"} | json Y="Y"`:                                      "column Y of eventlogfile/B",
		`{source="eventlogfile",event_type="C"}`:                                                      "event type eventlogfile/C",
		`{event_type="A"}`:                                                                            "no source",
		`sum by (Y) (count_over_time({source="eventlogfile",event_type="A"} | json X="X" [5m]))`:      "label Y",
		`sum(sum_over_time({source="eventlogfile",event_type="A"} | json X="X" | unwrap Y [5m]))`:     "label Y",
		`{source="eventlogfile",event_type="A"} | json X="X" | Y != "a"`:                              "label Y",
		`{source="eventlogfile",event_type="A"} | json X="X" | line_format "{{.X}} {{.Y}}"`:           "label Y",
		`{source="eventlogfile",event_type="A",user="b"}`:                                             "label user",
	} {
		if got := strings.Join(unknownColumns(columns, expr, ""), "; "); got != want {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}

// streamLabels are the labels of streams.
var streamLabels = []string{"source", "event_type", "org", "job", "service_name", "environment", "sf_org_id", "event_hour"}

var (
	selector  = regexp.MustCompile(`\{([^{}]*=[^{}]*)\}`)
	jsonStage = regexp.MustCompile(`\| json ((?:\w+="\w+"(?:, )?)+)`)
	extract   = regexp.MustCompile(`(\w+)="(\w+)"`)
	filter    = regexp.MustCompile(`\| (\w+) (?:=~|!~|!=|=|<|>|<=|>=) `)
	unwrapped = regexp.MustCompile(`\| unwrap (\w+)`)
	template  = regexp.MustCompile(`\{\{\s*\.(\w+)\s*\}\}`)
)

func unknownColumns(columns map[string]map[string]bool, expr, legend string) []string {
	var problems []string
	labels := map[string]bool{}
	for _, l := range streamLabels {
		labels[l] = true
	}
	for _, s := range selector.FindAllStringSubmatch(expr, -1) {
		at := map[string]string{}
		for _, m := range matcher.FindAllStringSubmatch(s[1], -1) {
			value := m[0][strings.Index(m[0], `"`)+1 : len(m[0])-1]
			at[m[1]] = value
			if !labels[m[1]] {
				problems = append(problems, "label "+m[1])
			}
		}
		if at["source"] == "" || at["event_type"] == "" {
			return append(problems, "no source")
		}
		for _, typ := range strings.Split(at["event_type"], "|") {
			key := at["source"] + "/" + typ
			if columns[key] == nil {
				problems = append(problems, "event type "+key)
				continue
			}
			for _, stage := range jsonStage.FindAllStringSubmatch(expr, -1) {
				for _, e := range extract.FindAllStringSubmatch(stage[1], -1) {
					labels[e[1]] = true
					if !columns[key][e[2]] {
						problems = append(problems, "column "+e[2]+" of "+key)
					}
				}
			}
		}
	}
	var used []string
	for _, re := range []*regexp.Regexp{filter, unwrapped, template} {
		for _, m := range re.FindAllStringSubmatch(expr, -1) {
			used = append(used, m[1])
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		used = append(used, strings.FieldsFunc(g[1], func(r rune) bool { return r == ',' || r == ' ' })...)
	}
	for _, l := range legendWord.FindAllStringSubmatch(legend, -1) {
		used = append(used, l[1])
	}
	for _, l := range used {
		if !labels[l] && l != "json" && !strings.HasPrefix(l, "__") {
			problems = append(problems, "label "+l)
		}
	}
	slices.Sort(problems)
	return slices.Compact(problems)
}

// eventColumns are the fields of lines, by source and event type: the headers
// of files, the schemas of topics, the rows of objects.
func eventColumns(t *testing.T) map[string]map[string]bool {
	t.Helper()
	all := map[string]map[string]bool{}
	note := func(source, typ string, names []string) {
		key := source + "/" + typ
		if all[key] == nil {
			all[key] = map[string]bool{}
		}
		for _, n := range names {
			all[key][n] = true
		}
	}
	for _, file := range glob(t, "../../pkg/eventlog/testdata/*.csv") {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		header, err := csv.NewReader(f).Read()
		f.Close()
		// Variants of a file, such as Report_truncated, are no types.
		if name := strings.TrimSuffix(filepath.Base(file), ".csv"); err == nil && !strings.Contains(name, "_") {
			note("eventlogfile", name, header)
		}
	}
	for _, file := range glob(t, "../../pkg/sftest/fixtures/avro/*.avsc") {
		var schema struct {
			Name   string
			Fields []struct{ Name string }
		}
		readJSON(t, file, &schema)
		for _, f := range schema.Fields {
			note("pubsub", strings.TrimSuffix(filepath.Base(file), ".avsc"), []string{f.Name})
		}
	}
	var trail struct{ Records []map[string]any }
	readJSON(t, "../../pkg/sftest/fixtures/rest/setupaudittrail.json", &trail)
	for name := range trail.Records[0] {
		note("eventlog_objects", "SetupAuditTrail", []string{name})
	}
	return all
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %v", pattern, files, err)
	}
	return files
}

func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
