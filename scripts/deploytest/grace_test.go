package deploytest

import (
	"regexp"
	"strconv"
	"testing"
)

// seconds are the numbers of a file that a pattern finds, the shortest of them.
func seconds(t *testing.T, path, pattern string) int {
	t.Helper()
	found := regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, root+"/"+path), -1)
	if found == nil {
		t.Fatalf("%s: nothing is like %s", path, pattern)
	}
	least := -1
	for _, m := range found {
		n, err := strconv.Atoi(m[1])
		must(t, err)
		if least < 0 || n < least {
			least = n
		}
	}
	return least
}

// #61: each of those that stop others waits longer than these take to drain.
func TestTimesOfGrace(t *testing.T) {
	const inSource = `"grace", (\d+)\*time\.Second`
	push, commit := seconds(t, "cmd/loki-push/push.go", inSource), seconds(t, "cmd/ckpt/commit.go", inSource)
	head, grace := seconds(t, "scripts/lib/conf.sh", `SF2LOKI_HEAD_GRACE:-(\d+)`), seconds(t, "scripts/lib/conf.sh", `SF2LOKI_GRACE:-(\d+)`)
	if commit <= push || grace <= commit {
		t.Errorf("loki-push drains for %d s, ckpt commit waits for %d s, the supervisor for %d s", push, commit, grace)
	}
	// The supervisor looks once a second, and gives a signal to the group one to arrive.
	const slack = 2
	for path, pattern := range map[string]string{
		"scripts/systemd/sf2loki@.service":          `(?m)^TimeoutStopSec=(\d+)$`,
		"scripts/systemd/sf2loki-backfill@.service": `(?m)^TimeoutStopSec=(\d+)$`,
		"scripts/systemd/sf2loki-replay@.service":   `(?m)^TimeoutStopSec=(\d+)$`,
		"scripts/kubernetes/sf2loki.yaml":           `terminationGracePeriodSeconds: (\d+)`,
	} {
		if stop := seconds(t, path, pattern); stop <= head+commit+slack || stop <= head+grace {
			t.Errorf("%s: all is killed after %d s, and draining takes %d s and %d s", path, stop, head, grace)
		}
	}
}
