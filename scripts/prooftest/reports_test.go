package prooftest

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"sf2loki/scripts/testbed"
)

// Each member of a report is named where reports are described, for all programs
// or for one.
func TestMembersOfReports(t *testing.T) {
	t.Parallel()
	named := func(page, from, to string) map[string]bool {
		text, err := os.ReadFile(testbed.Root + "/man/" + page)
		if err != nil {
			t.Fatal(err)
		}
		i := strings.LastIndex(string(text), from)
		section, _, ok := strings.Cut(string(text)[max(i, 0):], to)
		if i < 0 || !ok {
			t.Fatalf("%s: there is no %q that %q ends", page, from, to)
		}
		names := map[string]bool{}
		for _, line := range regexp.MustCompile(`(?m)^\.(?:It )?Li (.*)$`).FindAllStringSubmatch(section, -1) {
			for word := range strings.FieldsFuncSeq(line[1], func(r rune) bool { return strings.ContainsRune(" ,;.()", r) }) {
				names[word] = true
			}
		}
		return names
	}
	common := named("sf2loki-pipeline.7", "\n.Ss Reports\n", "\n.Sh ")
	b := newBench(t)
	b.org.DefineObjects()
	b.hour("Login", 5, 40, tooOld(10))
	b.Set("SF_PULL_LOG_LEVEL=error", "LOKI_PUSH_LOG_LEVEL=error", "CKPT_LOG_LEVEL=error", "DL_REPLAY_LOG_LEVEL=error", "SF_PULL_LOOKBACK=2d")
	b.OK(`sf-pull elf --event-type Login --report sf-pull.1 | tee records | loki-push --spool dead --report loki-push.1 | ckpt commit state.json --report ckpt.1
sf-pull objects --object LoginHistory --report sf-pull.2 >/dev/null
loki-push --dead-letter-fd -1 --report loki-push.2 <records >/dev/null
loki-push --dry-run --report loki-push.3 <records >/dev/null
dl-replay run --spool dead --ts now --limit 2 --report dl-replay.1 -- loki-push
dl-replay cat --spool dead --limit 1 --report dl-replay.2 >/dev/null
dl-replay discard --spool dead --limit 1 --reason too_old --because x --report dl-replay.3
dl-replay requeue --spool dead --status discarded --report dl-replay.4
dl-replay export --spool dead --format sqlite --output letters --report dl-replay.5
dl-replay prune --spool dead --older-than 1ns --unreplayed --report dl-replay.6`)
	for program, reports := range map[string]string{"sf-pull": "12", "loki-push": "123", "ckpt": "1", "dl-replay": "123456"} {
		names, seen := named(program+".1", "\n.It Fl -report Ar file\n", "\n.Sh "), map[string]bool{}
		for _, n := range reports {
			for line := range strings.Lines(b.Read(program + "." + string(n))) {
				var members map[string]any
				if err := json.Unmarshal([]byte(line), &members); err != nil {
					t.Fatalf("%v: %s", err, line)
				}
				for name := range members {
					seen[name] = true
					reason := regexp.MustCompile(`^(discarded_|would_be_refused_).*`).ReplaceAllString(name, "$1")
					if !common[name] && !names[name] && !names[reason] {
						t.Errorf("%s.%c: %s(1) does not name the member %s", program, n, program, name)
					}
				}
			}
		}
		for name := range common {
			if !seen[name] && name != "Li" && name != "run" {
				t.Errorf("no report of %s has %s", program, name)
			}
		}
	}
}
