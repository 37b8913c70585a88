package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
	"sf2loki/scripts/testbed"
)

func TestMain(m *testing.M) { os.Exit(testbed.Main(m)) }

var update = flag.Bool("update", false, "rewrite testdata/metrics.txt and the dashboards")

// runs use every program that has metrics, with all that makes a series
// appear. Each leaves a metrics file.
const runs = `
set -u
sf-pull elf --event-type Login,RestApi --lane live --transforms rules.yaml --label-column RestApi=REQUEST_ID --label-values 1 --metrics-file elf.prom 3>>letters |
	loki-push --spool dead --metrics-file push.prom | ckpt commit state.json --ledger state.ledger --metrics-file commit.prom || exit
sf-pull objects --object LoginHistory --metrics-file objects.prom >/dev/null || exit
sf-pull apexlog --traced-user "$SF_PULL_USERNAME" --metrics-file apexlog.prom >/dev/null || exit
sf-pull pubsub --topic /event/LoginEventStream --idle-exit 500ms --lane live --metrics-file pubsub.prom 3>>letters |
	loki-push --spool dead | ckpt commit topics.json --metrics-file topics.prom || exit
sf-pull limits --metrics-file limits.prom >/dev/null || exit
dl-replay run --spool dead --metrics-file replay.prom -- loki-push
dl-replay prune --spool dead --metrics-file prune.prom >/dev/null || exit
sf-pull list --event-type Login >listing || exit
ckpt audit --ledger state.ledger --listing listing --metrics-file audit.prom
ckpt lease lease.json --fence state.json --metrics-file lease.prom -- sleep 0.1 || exit
`

// exposition are the families that the programs write when they run.
func exposition(t *testing.T) map[string]*family {
	t.Helper()
	b := testbed.New(t)
	org := sftest.NewOrg(sftest.Config{})
	t.Cleanup(org.Close)
	org.Fill(sftest.Believable{Types: []string{"Login", "RestApi"}, Hours: 1, Rows: 20})
	org.DefineObjects()
	org.Insert("LoginHistory", sftest.Row{"LoginTime": time.Now().Add(-time.Hour), "Status": "Success"})
	org.AddApexLog(sftest.ApexLog{Start: time.Now().Add(-time.Hour), Body: "a body"})
	bus := org.NewBus(sftest.BusConfig{})
	bus.DefineSamples()
	bus.Publish("/event/LoginEventStream", sftest.Sample("/event/LoginEventStream", 0, time.Now()))
	bus.Publish("/event/LoginEventStream", sftest.Event{ID: "e1", Payload: []byte{1, 2, 3}})
	srv := lokitest.NewServer(lokitest.Config{Limits: lokitest.Plain})
	t.Cleanup(srv.Close)

	b.Write("key.pem", org.PrivateKeyPEM())
	b.Write("rules.yaml", "eventlogfile: [{name: guests, action: drop_row, match: {USER_TYPE: Guest}}]\n")
	b.Set(
		"SF_PULL_LOGIN_URL="+org.URL, "SF_PULL_CLIENT_ID="+org.ClientID, "SF_PULL_USERNAME="+org.Username, "SF_PULL_PRIVATE_KEY_FILE=key.pem",
		"SF_PULL_ENDPOINT=http://"+bus.Addr, "SF_PULL_ORG=prod", "LOKI_PUSH_ORG=prod", "LOKI_PUSH_URL="+srv.URL, "LOKI_PUSH_FLUSH_INTERVAL=50ms",
	)
	r := b.OK(runs)
	files, err := filepath.Glob(b.Path("*.prom"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*family{}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families, err := parser.TextToMetricFamilies(f)
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", filepath.Base(name), err)
		}
		add(t, all, slices.Collect(maps.Values(families)))
	}
	add(t, all, processFamilies(t))
	if t.Failed() {
		t.Log(r)
	}
	return all
}

// processFamilies are those of the process itself, which /metrics has and the
// metrics file has not.
func processFamilies(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// add adds families. A metric of two programs means the same in both: one
// collector may read the files of all.
func add(t *testing.T, all map[string]*family, families []*dto.MetricFamily) {
	t.Helper()
	for _, f := range families {
		is := all[f.GetName()]
		if is == nil {
			is = &family{kind: strings.ToLower(f.GetType().String()), help: f.GetHelp(), labels: map[string]bool{}}
			all[f.GetName()] = is
		}
		if is.help != f.GetHelp() {
			t.Errorf("%s is %q in one program and %q in another", f.GetName(), is.help, f.GetHelp())
		}
		for _, m := range f.Metric {
			for _, l := range m.Label {
				is.labels[l.GetName()] = true
			}
		}
	}
}

// family is a metric: its type, and the labels that its series may have.
type family struct {
	kind   string
	labels map[string]bool
	help   string
}

func (f *family) String() string {
	return strings.TrimSpace(f.kind + " " + strings.Join(slices.Sorted(maps.Keys(f.labels)), ","))
}

// metricsList is what the dashboards and rules are held against: NAME TYPE
// LABEL,LABEL of each metric.
const metricsList = "testdata/metrics.txt"

func knownMetrics(t *testing.T) map[string]*family {
	t.Helper()
	text, err := os.ReadFile(metricsList)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*family{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] == "#" {
			continue
		}
		f := &family{kind: fields[1], labels: map[string]bool{}}
		if len(fields) > 2 {
			for _, l := range strings.Split(fields[2], ",") {
				f.labels[l] = true
			}
		}
		all[fields[0]] = f
	}
	return all
}

// The list is what the programs write.
func TestExposition(t *testing.T) {
	t.Parallel()
	got := exposition(t)
	if *update {
		var b strings.Builder
		fmt.Fprintln(&b, "# metrics, their types and labels, as the programs write them: go test ./scripts/grafana -update")
		for _, name := range slices.Sorted(maps.Keys(got)) {
			fmt.Fprintf(&b, "%s %s\n", name, got[name])
		}
		if err := os.WriteFile(metricsList, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := knownMetrics(t)
	for name, f := range want {
		if g := got[name]; g == nil {
			t.Errorf("no program writes %s any more", name)
		} else if g.String() != f.String() {
			t.Errorf("%s is %s, listed as %s", name, g, f)
		}
	}
	for name := range got {
		if want[name] == nil {
			t.Errorf("%s is not listed", name)
		}
	}
}

// A counter's name ends with _total, and no other's; the version is on the one
// series that tells it, so that a new build doubles no other (#58, #82).
func TestNamesAndVersion(t *testing.T) {
	for name, f := range knownMetrics(t) {
		if strings.HasSuffix(name, "_total") != (f.kind == "counter") {
			t.Errorf("%s is a %s", name, f.kind)
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if strings.HasSuffix(name, suffix) {
				t.Errorf("%s looks like a part of a histogram", name)
			}
		}
		if f.labels["version"] != (name == "sf2loki_build_info") || f.labels["service_version"] {
			t.Errorf("%s has the labels %v", name, f.labels)
		}
	}
}
