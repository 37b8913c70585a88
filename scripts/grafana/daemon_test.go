package main

import (
	"os"
	"strings"
	"testing"
)

// Dashboards and rules that were made for the daemon find here every metric,
// label and field that they ask for.
func TestDaemon(t *testing.T) {
	text, err := os.ReadFile("testdata/daemon.txt")
	if err != nil {
		t.Fatal(err)
	}
	metrics, columns := knownMetrics(t), eventColumns(t)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		switch fields[0] {
		case "metric":
			for _, problem := range unknownNames(metrics, fields[1], "") {
				t.Errorf("%s: %s", fields[1], problem)
			}
		case "event":
			if columns[fields[1]] == nil {
				t.Errorf("there is no event type %s", fields[1])
			}
			for _, name := range fields[2:] {
				if !columns[fields[1]][name] {
					t.Errorf("%s has no %s", fields[1], name)
				}
			}
		default:
			t.Errorf("what is %q", line)
		}
	}
}
