package pipetest

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
	"sf2loki/scripts/testbed"
)

// examples are the commands in the section EXAMPLES of a manual page.
func examples(t *testing.T, page string) []string {
	t.Helper()
	data, err := os.ReadFile(testbed.Root + "/man/" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(data), "\n.Sh EXAMPLES\n")
	section, _, _ = strings.Cut(section, "\n.Sh ")
	var found []string
	for _, part := range strings.Split(section, ".Bd -literal")[1:] {
		_, text, _ := strings.Cut(part, "\n")
		text, _, closed := strings.Cut(text, "\n.Ed")
		ok = ok && closed
		found = append(found, strings.NewReplacer(`\e`, `\`, `\&`, "", `\-`, "-").Replace(text))
	}
	if !ok || len(found) == 0 {
		t.Fatalf("%s has no examples that can be read", page)
	}
	return found
}

// The recipes of the manual, run as they are printed. Each test takes the
// example that has its text in it, and none may be left.
func TestRecipes(t *testing.T) {
	left := examples(t, "sf2loki-record.5")
	for _, tt := range []struct {
		name, has string
		test      func(*day, string)
	}{
		{"filter", `jq -c 'if .checkpoint_only or .reason or .labels.event_type == "Login"`, filterRecipe},
		{"edit a label", ".labels.environment", labelRecipe},
		{"edit the line", "del(.CLIENT_IP)", lineRecipe},
		{"change the time", "del(.ts_unix_nano)", timeRecipe},
		{"two destinations", "--lane audit", lanesRecipe},
		{"keep a copy", "tee copy.ndjson", copyRecipe},
		{"count by type", "uniq -c", countRecipe},
	} {
		i := slices.IndexFunc(left, func(s string) bool { return strings.Contains(s, tt.has) })
		if i < 0 {
			t.Fatalf("no recipe with %q", tt.has)
		}
		recipe := left[i]
		left = slices.Delete(left, i, i+1)
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDay(t)
			d.twoTypes(5, 40)
			tt.test(d, recipe)
		})
	}
	if len(left) > 0 {
		t.Errorf("nobody tries %q", left)
	}
}

// twoTypes publishes an hour of Login and one of API.
func (d *day) twoTypes(ago, rows int) {
	d.T.Helper()
	for _, eventType := range []string{"Login", "API"} {
		d.org.publish(d.org.AddHour(sftest.Hour{Type: eventType, Start: hoursAgo(ago), Rows: rows, Awkward: 10}, created(time.Duration(ago*10)*time.Minute)))
	}
}

// through runs a pipeline of both types with a filter in the middle.
func (d *day) through(filter string) {
	d.T.Helper()
	d.OK(`sf-pull elf --event-type '*' --resume state.json |
` + filter + ` |
loki-push --url "$LOKI" --spool dead | ckpt commit state.json`)
}

// only keeps the entries of one type.
func (want tally) only(eventType string) tally {
	part := maps.Clone(want)
	maps.DeleteFunc(part, func(e entry, _ int) bool { return !strings.Contains(e.labels, `event_type="`+eventType+`"`) })
	return part
}

// changed has each entry changed.
func (want tally) changed(f func(*entry)) tally {
	out := tally{}
	for e := range want {
		f(&e)
		out.add(e)
	}
	return out
}

// A filter does not lose the positions of what it takes out.
func filterRecipe(d *day, recipe string) {
	d.through(recipe)
	same(d.T, "Loki", held(d.srv), d.org.want.only("Login"))
	all := d.org.want
	d.org.want = tally{}
	d.twoTypes(4, 30)
	before := d.srv.Stats().Received
	d.through(recipe)
	if got, want := d.srv.Stats().Received-before, 30; got != want {
		d.T.Errorf("the second pass sent %d entries, want %d", got, want)
	}
	d.org.ResetRequests()
	d.OK(`sf-pull elf --event-type '*' --resume state.json > after`)
	if strings.Contains(d.Read("after"), `"line"`) {
		d.T.Errorf("records are left after both passes: %.500s", d.Read("after"))
	}
	maps.Copy(all, d.org.want)
	same(d.T, "Loki", held(d.srv), all.only("Login"))
}

func labelRecipe(d *day, recipe string) {
	d.through(recipe)
	same(d.T, "Loki", held(d.srv), d.org.want.changed(func(e *entry) {
		e.labels = strings.Replace(e.labels, `event_hour=`, `environment="test",event_hour=`, 1)
	}))
}

func lineRecipe(d *day, recipe string) {
	d.through(recipe)
	got := held(d.srv)
	if len(got) != len(d.org.want) {
		d.T.Errorf("%d entries, want %d", len(got), len(d.org.want))
	}
	plain := func(e entry) string { // jq writes numbers and escapes its own way
		var fields map[string]string
		if err := json.Unmarshal([]byte(e.line), &fields); err != nil {
			d.T.Fatalf("%v: %.300s", err, e.line)
		}
		return pairs(fields)
	}
	want := d.org.want.changed(func(e *entry) {
		var fields map[string]string
		if err := json.Unmarshal([]byte(e.line), &fields); err != nil {
			d.T.Fatal(err)
		}
		delete(fields, "CLIENT_IP")
		e.line = pairs(fields)
	})
	same(d.T, "Loki", got.changed(func(e *entry) { e.line = plain(*e) }), want)
}

func timeRecipe(d *day, recipe string) {
	begin := time.Now().Truncate(time.Second)
	d.through(recipe)
	got := held(d.srv)
	for e := range got {
		if e.nanos < begin.UnixNano() || e.nanos > time.Now().UnixNano() {
			d.T.Errorf("time of %v", e)
		}
	}
	lines := func(all tally) tally {
		return all.changed(func(e *entry) { e.nanos, e.labels = 0, "" })
	}
	same(d.T, "Loki", lines(got), lines(d.org.want))
}

func lanesRecipe(d *day, recipe string) {
	other := loki(d.T, lokitest.Config{})
	script := strings.NewReplacer("http://audit.example:3100", d.srv.URL, "http://rest.example:3100", other.URL).Replace(recipe)
	for range 2 {
		d.OK("set -e\n" + script)
		same(d.T, "audit", held(d.srv), d.org.want.only("Login"))
		same(d.T, "rest", held(other), d.org.want.only("API"))
		d.twoTypes(3, 20)
	}
	for _, lane := range []string{"audit", "rest"} {
		if text := d.Read(lane + ".json"); !strings.Contains(text, `"lane=`+lane+":eventlogfile:Login") || !strings.Contains(text, "eventlogfile:API") {
			d.T.Errorf("%s.json: %s", lane, text)
		}
	}
}

func copyRecipe(d *day, recipe string) {
	script := strings.Replace(recipe, "http://127.0.0.1:3100", d.srv.URL, 1)
	d.OK(script)
	d.stored()
	second := loki(d.T, lokitest.Config{})
	d.OK("loki-push --url " + second.URL + " < copy.ndjson > acks")
	same(d.T, "what the copy gives", held(second), d.org.want)
}

func countRecipe(d *day, recipe string) {
	r := d.OK(`sf-pull elf --event-type '*' > copy.ndjson; <copy.ndjson ` + recipe)
	if got := strings.Fields(r.Stdout); !slices.Equal(got, []string{"40", "API", "40", "Login"}) {
		d.T.Errorf("counts: %q", got)
	}
}

// The pipelines of the overview, with addresses of this test.
func TestPipelineExamples(t *testing.T) {
	all := examples(t, "sf2loki-pipeline.7")
	if len(all) != 3 {
		t.Fatalf("%d examples: %q", len(all), all)
	}
	for i, name := range []string{"cron", "edit and copy", "replay"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDay(t)
			d.twoTypes(5, 40)
			script := strings.ReplaceAll(all[i], "https://loki.example.org", d.srv.URL)
			if name == "replay" {
				overviewReplay(d, script)
				return
			}
			d.OK(script)
			if name == "cron" {
				d.stored()
				return
			}
			if got := held(d.srv); len(got) != len(d.org.want) || d.Read("copy.ndjson") == "" || d.Read("refused.ndjson") != "" {
				t.Errorf("%d entries, want %d; refused %.300s", len(got), len(d.org.want), d.Read("refused.ndjson"))
			}
		})
	}
}

// overviewReplay makes two letters for the example to repair.
func overviewReplay(d *day, script string) {
	d.srv.SetLimits("fake", func(l *lokitest.Limits) { l.MaxLineSize = 1000 })
	long := strings.Repeat("0123456789", 25_000)
	records := ""
	for _, line := range []string{long + "a", "short", long + "b"} {
		data, err := json.Marshal(map[string]any{
			"ts": time.Now().UTC().Format(time.RFC3339Nano), "labels": map[string]string{"source": "x", "event_type": "y"}, "line": line,
		})
		if err != nil {
			d.T.Fatal(err)
		}
		records += string(data) + "\n"
	}
	d.Write("records", records)
	d.OK(`loki-push --url "$LOKI" --spool dead < records > acks`)
	if letters := d.letters("dead"); len(letters) != 2 || letters[0].Reason != "line_too_long" {
		d.T.Fatalf("%.300v", letters)
	}
	d.srv.SetLimits("fake", func(l *lokitest.Limits) { l.MaxLineSize = 256 << 10 })
	r := d.OK(script)
	if !strings.Contains(r.Stdout, "line_too_long") {
		d.T.Errorf("%v", r)
	}
	sizes := map[int]int{}
	for e := range held(d.srv) {
		sizes[len(e.line)]++
	}
	if want := map[int]int{5: 1, 200_000: 2}; !maps.Equal(sizes, want) {
		d.T.Errorf("lines of %v, want %v", sizes, want)
	}
}
