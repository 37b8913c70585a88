// Vulndb makes a database for govulncheck of the reports in a copy of
// golang.org/x/vulndb, so that the check needs no network:
//
//	vulndb REPORTS DIRECTORY
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// report is the part of a report that the indexes need.
type report struct {
	ID       string    `json:"id"`
	Modified time.Time `json:"modified"`
	Aliases  []string  `json:"aliases"`
	Affected []struct {
		Package struct {
			Name string `json:"name"`
		} `json:"package"`
		Ranges []struct {
			Events []struct {
				Fixed string `json:"fixed"`
			} `json:"events"`
		} `json:"ranges"`
	} `json:"affected"`
}

type vulnIndex struct {
	ID       string    `json:"id"`
	Modified time.Time `json:"modified"`
	Aliases  []string  `json:"aliases,omitempty"`
}

type moduleVuln struct {
	ID       string    `json:"id"`
	Modified time.Time `json:"modified"`
	Fixed    string    `json:"fixed,omitempty"`
}

type moduleIndex struct {
	Path  string       `json:"path"`
	Vulns []moduleVuln `json:"vulns"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: vulndb REPORTS DIRECTORY")
		os.Exit(64)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "vulndb:", err)
		os.Exit(1)
	}
}

func run(reports, out string) error {
	files, err := filepath.Glob(filepath.Join(reports, "*.json"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("there are no reports in " + reports)
	}
	for _, dir := range []string{"ID", "index"} {
		if err := os.MkdirAll(filepath.Join(out, dir), 0o755); err != nil {
			return err
		}
	}
	var vulns []vulnIndex
	modules := map[string][]moduleVuln{}
	newest := time.Time{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var r report
		if err := json.Unmarshal(data, &r); err != nil || r.ID == "" {
			return fmt.Errorf("%s is no report: %w", file, err)
		}
		if err := os.WriteFile(filepath.Join(out, "ID", r.ID+".json"), data, 0o644); err != nil {
			return err
		}
		vulns = append(vulns, vulnIndex{r.ID, r.Modified, r.Aliases})
		r.addTo(modules)
		if r.Modified.After(newest) {
			newest = r.Modified
		}
	}
	return writeIndexes(out, newest, vulns, modules)
}

// addTo enters the report at each of its modules, once.
func (r *report) addTo(modules map[string][]moduleVuln) {
	for _, affected := range r.Affected {
		v := moduleVuln{ID: r.ID, Modified: r.Modified}
		for _, ranges := range affected.Ranges {
			for _, event := range ranges.Events {
				if event.Fixed != "" {
					v.Fixed = event.Fixed
				}
			}
		}
		name := affected.Package.Name
		if !slices.ContainsFunc(modules[name], func(have moduleVuln) bool { return have.ID == r.ID }) {
			modules[name] = append(modules[name], v)
		}
	}
}

func writeIndexes(out string, newest time.Time, vulns []vulnIndex, modules map[string][]moduleVuln) error {
	index := make([]moduleIndex, 0, len(modules))
	for path, list := range modules {
		index = append(index, moduleIndex{path, list})
	}
	slices.SortFunc(index, func(a, b moduleIndex) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(vulns, func(a, b vulnIndex) int { return strings.Compare(a.ID, b.ID) })
	for name, v := range map[string]any{
		"db": struct {
			Modified time.Time `json:"modified"`
		}{newest},
		"modules": index, "vulns": vulns,
	} {
		data, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, "index", name+".json"), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
