package pipetest

import (
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/checkpoint/checkpointtest"
	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
)

// #133: a backfill keeps its position where the live one is, in an object
// store, and resumes from there when it was cut short; it moves nothing else,
// and leaves nothing in the directory that it runs in.
func TestBackfillInAnObjectStore(t *testing.T) {
	d := newDay(t)
	cloud := checkpointtest.NewS3(t)
	d.set("STATE=s3://bucket/state.json?endpoint="+url.QueryEscape(cloud.URL), "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test",
		"AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_EC2_METADATA_DISABLED=true")
	const live = `"eventlogfile:Login":"2026-01-01T00:00:00.000Z"`
	cloud.Set("bucket/state.json", "{"+live+"}")
	for ago := 30; ago > 26; ago-- {
		d.hour(ago, 40, 0, time.Duration(ago)*time.Hour-time.Hour)
	}
	before := d.names()
	pipeline := `ckpt export "$STATE" | sf-pull elf --event-type Login --since ` + hoursAgo(30).Format(time.RFC3339) + ` --until ` +
		hoursAgo(26).Format(time.RFC3339) + ` --resume - | CUT loki-push --url "$LOKI" | ckpt commit --write-interval 0 "$STATE"`
	if r := d.Run(strings.Replace(pipeline, "CUT", "head -n 95 |", 1)); r.Status == 0 {
		t.Fatalf("a run that was cut short is well: %v", r)
	}
	first := d.srv.Stats().Received
	if first == 0 || first >= 160 {
		t.Fatalf("%d entries of the run that was cut short", first)
	}
	d.OK(strings.Replace(pipeline, "CUT", "", 1))
	same(t, "Loki", held(d.srv), d.org.want)
	if again := d.srv.Stats().Received - first; again > 160-first+1 {
		t.Errorf("%d entries first, %d by the next run: it did not resume", first, again)
	}
	text, _ := cloud.Object("bucket/state.json")
	if text = strings.ReplaceAll(text, ": ", ":"); !strings.Contains(text, live) || strings.Count(text, `"window=`) != 1 || cloud.Names() != 1 {
		t.Errorf("%d objects, the document is %s", cloud.Names(), text)
	}
	if after := d.names(); !slices.Equal(after, before) {
		t.Errorf("files were %q and are %q", before, after)
	}
}

// names are the files of the directory that everything runs in.
func (b *bench) names() (names []string) {
	b.T.Helper()
	entries, err := os.ReadDir(b.Dir)
	if err != nil {
		b.T.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A file of a window is no more in memory than one of the live lane, whatever
// its size (#104, peers 26).
func TestMemoryOfABackfill(t *testing.T) {
	b := newBench(t)
	org := newOrg(t)
	b.use(org).Limit = 10 * time.Minute
	data := sftest.Hour{Type: "API", Start: hoursAgo(30), Rows: 20_000}.CSV()
	header, rows, _ := strings.Cut(string(data), "\n")
	body := header + "\n" + strings.Repeat(rows, int(number(t, "PIPETEST_FILE_MB", 20))<<22/len(rows))
	org.AddLogFile(sftest.LogFile{EventType: "API", LogDate: hoursAgo(30), Created: time.Now().Add(-29 * time.Hour), Body: []byte(body)})
	srv := loki(t, lokitest.Config{Limits: lokitest.Plain})
	srv.Script(func(int, lokitest.Request) *lokitest.Answer { return &lokitest.Answer{Status: 204} }) // it need not hold them
	b.set("LOKI="+srv.URL, "LOKI_PUSH_MAX_AGE=0", "LOKI_PUSH_STREAM_BYTES_PER_SECOND=0", "PUSH=",
		"PULL=--event-type API --since "+hoursAgo(31).Format(time.RFC3339)+" --until "+hoursAgo(29).Format(time.RFC3339)+" --report report --tmpdir .")
	run := b.start(killable)
	memory := run.memory() // which holds it against what each stage may take
	if r := run.Wait(); r.Status != 0 || !strings.Contains(b.Read("report"), `"files":1,`) {
		t.Errorf("%s, %v", b.Read("report"), r)
	}
	t.Logf("%d MB: %s", len(body)>>20, strings.Join(memory, ", "))
}
