package deploytest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/sftest"
)

// hour adds an hour of Login and returns its id and when it was made, as
// Salesforce writes it.
func (b *bench) hour(ago, rows int) (id, created string) {
	at := time.Now().UTC().Add(-time.Duration(ago) * 10 * time.Minute).Truncate(time.Second)
	start := time.Now().UTC().Truncate(time.Hour).Add(-time.Duration(ago) * time.Hour)
	id = b.org.AddHour(sftest.Hour{Type: "Login", Start: start, Rows: rows}, func(f *sftest.LogFile) { f.Created = at })
	b.rows += rows
	return id, at.Format("2006-01-02T15:04:05.000-0700")
}

// The daemon's document is gone on from as it is, or imported key by key; and
// the way back begins where we ended.
func TestSwitchOver(t *testing.T) {
	for _, way := range []string{"as it is", "imported"} {
		t.Run(way, func(t *testing.T) {
			b := newBench(t)
			id, created := b.hour(6, 30)
			write(t, b.Path("daemon.json"), fmt.Sprintf(`{"eventlogfile:Login": %q, "egress:budget": "{\"date\": \"2026-07-01\", \"bytes\": 5}", "__fence_epoch__": "4"}`,
				fmt.Sprintf(`{"ids": [["%s", "%s"]], "last_created": "%s"}`, id, created, created)), 0o600)
			b.hour(5, 20)
			pass := "sf-pull elf --event-type '*' --resume STATE | loki-push | ckpt commit STATE"
			state, org := "daemon.json", ""
			if way == "imported" {
				state, org = "ours.json", "--org prod"
				out := b.sh(0, b.programs("v1.0.0"), "ckpt import --org prod ours.json <daemon.json; ckpt list ours.json")
				if !strings.Contains(out, `from=eventlogfile:Login to="org=prod:eventlogfile:Login" fate=added`) || !strings.Contains(out, "\norg=prod:eventlogfile:Login ") {
					t.Errorf("it reports %s", out)
				}
			}
			pass = strings.ReplaceAll(strings.Replace(pass, "elf", "elf "+org, 1), "STATE", state)
			b.sh(0, b.programs("v1.0.0"), pass)
			if got := b.stored(); got != 20 {
				t.Errorf("%d entries, want those of the second file", got)
			}
			// Back, with what came meanwhile.
			out := b.sh(0, b.programs("v1.0.0"), "ckpt export --daemon "+state+" >back.json")
			if !strings.Contains(out, " positions=2 left_out=1 ") {
				t.Errorf("it reports %s", out)
			}
			back := read(t, b.Path("back.json"))
			if !strings.Contains(back, `eventlogfile:Login": "{\"ids\": [[\"`) || !strings.Contains(back, `"egress:budget": "{\"date\": \"2026-07-01\", \"bytes\": 5}"`) {
				t.Errorf("the daemon gets %s", back)
			}
			b.hour(4, 10)
			records := b.sh(0, b.programs("v1.0.0"), "sf-pull elf "+org+" --event-type '*' --resume back.json --log-level error")
			if got := strings.Count(records, `"line":`); got != 10 {
				t.Errorf("%d records from there, want those of the third file", got)
			}
		})
	}
}
