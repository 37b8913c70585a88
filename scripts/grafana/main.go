// Grafana writes the dashboards as JSON, each from a list of panels:
//
//	go run ./scripts/grafana [DIRECTORY]
//
// The directory is scripts/grafana unless it is named. What is in the
// repository is what this program writes; a test compares them.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	dir := "scripts/grafana"
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	for _, d := range dashboards() {
		text, err := d.json()
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, d.file()), text, 0o644)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "grafana: %v\n", err)
			os.Exit(1)
		}
	}
}
