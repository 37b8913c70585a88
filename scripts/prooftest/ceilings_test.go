package prooftest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"sf2loki/scripts/testbed"
)

// What the tests of peers hold the programs to is what their pages promise.
func TestCeilingsOfManuals(t *testing.T) {
	t.Parallel()
	for _, promise := range []struct {
		page, text string
		mib        int
	}{
		{"loki-push.1", "less than %d MiB, whatever the size of the input", pushCeiling},
		{"ckpt.1", "stays below %d MiB of memory with ordinary acknowledgements", commitCeiling},
		{"ckpt.1", "whatever is in the document and whatever a store answers, the program stays below %d MiB", storeCeiling},
		{"dl-replay.1", "with ordinary records below %d MiB up to 100,000 of them", replayCeiling},
		{"dl-replay.1", "one record, of whatever size, takes less than %d MiB", storeCeiling},
		{"dl-replay.1", "stays below %d MiB with 24,000, whatever its command does", runCeiling},
		{"sf-pull.1", "stays below %d MiB with ordinary rows", filesCeiling},
		{"sf-pull.1", "one of 32 MiB takes up to %d MiB", rowCeiling},
		{"sf-pull.1", "a query takes up to %d MiB while one is read", pullCeiling},
		{"sf-pull.1", "eight queries at a time take up to %d MiB", manyCeiling},
		{"sf-pull.1", "memory stays below %d MiB with one topic", busCeiling},
		{"sf-pull.1", "and %d MiB more", busTopicCeiling},
	} {
		data, err := os.ReadFile(testbed.Root + "/man/" + promise.page)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf(promise.text, promise.mib)
		if !strings.Contains(strings.Join(strings.Fields(string(data)), " "), text) {
			t.Errorf("%s does not say: %s", promise.page, text)
		}
	}
}
