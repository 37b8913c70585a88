package pipetest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
)

func sorted(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

var shells = []string{"dash", "bash"}

// recent are rows of the last hours.
func (b *bench) recent(name string, rows int) tally {
	b.T.Helper()
	data := sftest.Hour{Type: "Login", Start: hoursAgo(4), Rows: rows, Span: 3 * time.Hour}.CSV()
	b.Write(name, string(data))
	return expected(b.T, data, nil).folded()
}

// The status of a pipeline is never 0 when a stage failed, in shells that look
// at the last one only.
func TestStatusOfFailures(t *testing.T) {
	refuse := func(status int) lokitest.Script {
		return func(int, lokitest.Request) *lokitest.Answer { return &lokitest.Answer{Status: status, Body: "no"} }
	}
	const pull, push, commit = "sf-pull elf --file a.csv", `loki-push --url "$LOKI"`, "ckpt commit state.json"
	for _, tt := range []struct {
		name, script string
		answer       int // of Loki; 0: as it is
		want         int
	}{
		{"all is well", pull + "|" + push + "|" + commit, 0, 0},
		{"all is well without ckpt", pull + "|" + push + ">acks", 0, 0},
		{"a flag of sf-pull", "sf-pull elf --fail a.csv|" + push + "|" + commit, 0, 64},
		{"a flag of sf-pull, without ckpt", "sf-pull elf --fail a.csv|" + push + ">acks", 0, 64},
		{"a source that is none", "sf-pull nothing|" + push + "|" + commit, 0, 64},
		{"a file that is not there", "sf-pull elf --file b.csv|" + push + "|" + commit, 0, 78},
		{"the second of two files is no CSV file", "sf-pull elf --file a.csv --file bad.csv|" + push + "|" + commit, 0, 65},
		{"a program that is not there", "sf-pul elf --file a.csv|" + push + "|" + commit, 0, 75},
		{"a program that is not there, without ckpt", "sf-pul elf --file a.csv|" + push + ">acks", 0, 75},
		{"a source that says nothing and ends well", "true|" + push + "|" + commit, 0, 75},
		{"a source that may say nothing", "true|" + push + " --allow-empty|" + commit, 0, 0},
		{"sf-pull is killed", "sh -c 'kill -9 $$'|" + push + "|" + commit, 0, 75},
		{"sf-pull is killed after some records", pull + "|head -n 20|" + push + "|" + commit, 0, 75},
		{"sf-pull is killed after some records, without ckpt", pull + "|head -n 20|" + push + ">acks", 0, 75},
		{"sf-pull is killed inside a record", pull + "|head -c 9000|" + push + "|" + commit, 0, 74},
		{"a flag of loki-push", pull + "|loki-push --nothing|" + commit, 0, 64},
		{"no URL", pull + "|loki-push|" + commit, 0, 64},
		{"loki-push is not there", pull + "|loki-pus|" + commit, 0, 75},
		{"loki-push is killed", pull + "|sh -c 'kill -9 $$'|" + commit, 0, 75},
		{"loki-push is killed after some acknowledgements", pull + "|" + push + " --batch-entries 10|head -n 4|" + commit, 0, 75},
		{"Loki is away", pull + "|loki-push --url http://127.0.0.1:9 --give-up 1s|" + commit, 0, 69},
		{"Loki is away, without ckpt", pull + "|loki-push --url http://127.0.0.1:9 --give-up 1s>acks", 0, 69},
		{"Loki is out of order", pull + "|" + push + " --give-up 1s|" + commit, http.StatusServiceUnavailable, 69},
		{"an entry is refused, strictly", pull + `|jq -c 'if .line then .labels["0"]="x" else . end'|` + push + " --strict --breaker=false|" + commit, 0, 65},
		{"jq has a fault", pull + "|jq -c '.['|" + push + "|" + commit, 0, 75},
		{"jq fails at the end", pull + "|jq -c 'if .run.status then error else . end'|" + push + "|" + commit, 0, 75},
		{"jq takes the tokens' end away", pull + "|jq -c 'select(.line)'|" + push + "|" + commit, 0, 0},
		{"jq writes no stream", pull + "|jq -r '.line'|" + push + "|" + commit, 0, 65},
		{"no directory for the document", pull + "|" + push + "|ckpt commit nowhere/state.json", 0, 73},
		{"the document is none", pull + "|" + push + "|ckpt commit a.csv", 0, 78},
		{"ckpt is not there", pull + "|" + push + "|ckp commit state.json", 0, 127},
		{"ckpt is killed", pull + "|" + push + "|sh -c 'kill -9 $$'", 0, 137},
		{"no kind of store", pull + "|" + push + "|ckpt commit ftp://x/y", 0, 78},
	} {
		for _, shell := range shells {
			t.Run(tt.name+", "+shell, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.Shell = shell
				want := b.recent("a.csv", 120)
				b.Write("bad.csv", `[{"message":"Session expired or invalid","errorCode":"INVALID_SESSION_ID"}]`)
				srv := loki(t, lokitest.Config{Limits: lokitest.Plain})
				if tt.answer != 0 {
					srv.Script(refuse(tt.answer))
				}
				r := b.set("LOKI=" + srv.URL).Run(tt.script)
				if r.Status != tt.want {
					t.Errorf("want %d: %v", tt.want, r)
				}
				if r.Status == 0 && !strings.HasPrefix(tt.name, "a source") {
					same(t, "Loki", held(srv), want)
				}
			})
		}
	}
}

// Each stage is killed while records are on their way.
func TestStatusOfKills(t *testing.T) {
	for _, shell := range shells {
		for i, stage := range stages {
			t.Run(stage+", "+shell, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.Shell = shell
				want := b.recent("a.csv", 3000)
				srv := loki(t, lokitest.Config{Limits: lokitest.Plain})
				b.set("LOKI="+srv.URL, "PULL=--file a.csv", "PUSH=--batch-entries 10 --in-flight 1")
				r := b.start(killable)
				killed := make(chan bool, 1)
				srv.Script(func(n int, _ lokitest.Request) *lokitest.Answer {
					if n == 3 {
						killed <- r.kill(stage)
					}
					return nil
				})
				end := r.Wait()
				did := <-killed
				// The last record of a killed sf-pull may be torn.
				if want := [][]int{{75, 74}, {75}, {137}}[i]; did && !slices.Contains(want, end.Status) {
					t.Errorf("want one of %v: %v", want, end)
				}
				srv.Script(nil)
				b.OK(killable)
				same(t, "Loki", held(srv), want)
				if !did && stage != "pull" {
					t.Errorf("%s was not there to be killed: %v", stage, end)
				}
			})
		}
	}
}

// What could not be read is not taken for a first start.
func TestExportFails(t *testing.T) {
	for _, shell := range shells {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Shell = shell
			want := b.recent("a.csv", 50)
			srv := loki(t, lokitest.Config{Limits: lokitest.Plain})
			b.set("LOKI=" + srv.URL)
			const pipeline = `ckpt export "$FROM" | sf-pull elf --file a.csv --resume - | loki-push --url "$LOKI" | ckpt commit state.json`
			b.Write("torn.json", `{"file:a.csv": "{\"v\":1`)
			for _, from := range []string{"torn.json", ".", "a.csv"} {
				if r := b.Run(fmt.Sprintf("FROM=%s; ", from) + pipeline); r.Status != 65 {
					t.Errorf("want 65: %v", r)
				}
				if text, got := b.Read("state.json"), srv.Stats().Received; text != "" || got != 0 {
					t.Errorf("%d entries were sent, the document is %q", got, text)
				}
			}
			b.OK("FROM=state.json; " + pipeline) // a store that is not there yet is no failure
			same(t, "Loki", held(srv), want)
			b.OK("FROM=state.json; " + pipeline)
			if got := srv.Stats().Received; got != len(want) {
				t.Errorf("%d entries were sent, want %d", got, len(want))
			}
		})
	}
}
