package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The files are what the source gives, and there are no others.
func TestFiles(t *testing.T) {
	var names []string
	for _, d := range dashboards() {
		want, err := d.json()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, d.file())
		if *update {
			if err := os.WriteFile(d.file(), want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(d.file()); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the source gives (%v): go run ./scripts/grafana", d.file(), err)
		}
	}
	files, err := filepath.Glob("*.json")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	if !slices.Equal(files, names) {
		t.Errorf("files %v, want %v", files, names)
	}
}

// shown is what a dashboard's file holds, as far as Grafana minds it.
type shown struct {
	UID, Title    string
	SchemaVersion int
	Templating    struct {
		List []struct {
			Name, Type string
			Query      any
		}
	}
	Panels []shownPanel
}

type shownPanel struct {
	ID          int
	Type, Title string
	GridPos     struct{ X, Y, W, H int }
	Datasource  *shownSource
	Targets     []struct {
		RefID, Expr string
		Datasource  shownSource
	}
}

type shownSource struct{ Type, UID string }

func load(t *testing.T, file string) *shown {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var d shown
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return &d
}

// What Grafana asks of a dashboard: ids that are there once, panels that do not
// lie on each other, datasources that are variables.
func TestSchema(t *testing.T) {
	uids := map[string]bool{}
	for _, src := range dashboards() {
		d := load(t, src.file())
		if d.UID == "" || len(d.UID) > 40 || uids[d.UID] || d.Title == "" || d.SchemaVersion < 36 {
			t.Errorf("%s: uid %q, title %q, schema %d", src.name, d.UID, d.Title, d.SchemaVersion)
		}
		uids[d.UID] = true
		variables := map[string]bool{}
		for _, v := range d.Templating.List {
			variables[v.Name] = true
		}
		if !variables["ds_prom"] || !variables["org"] {
			t.Errorf("%s: variables %v", src.name, variables)
		}
		ids, titles := map[int]bool{}, map[string]bool{}
		section := ""
		taken := map[[2]int]string{}
		for _, p := range d.Panels {
			if ids[p.ID] || p.ID <= 0 {
				t.Errorf("%s: id %d of %q is not its own", src.name, p.ID, p.Title)
			}
			ids[p.ID] = true
			if p.Type == "row" {
				section = p.Title
			}
			if key := section + "/" + p.Title + "/" + p.Type; titles[key] {
				t.Errorf("%s: two panels %q", src.name, key)
			} else {
				titles[key] = true
			}
			at := p.GridPos
			if at.W < 1 || at.H < 1 || at.X < 0 || at.X+at.W > 24 {
				t.Errorf("%s: %q lies at %+v", src.name, p.Title, at)
			}
			for x := at.X; x < at.X+at.W; x++ {
				for y := at.Y; y < at.Y+at.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" {
						t.Fatalf("%s: %q lies on %q", src.name, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			checkTargets(t, src.name, &p, variables)
		}
	}
}

func checkTargets(t *testing.T, name string, p *shownPanel, variables map[string]bool) {
	t.Helper()
	if p.Type == "row" {
		return
	}
	if len(p.Targets) == 0 || p.Datasource == nil {
		t.Errorf("%s: %q has no query", name, p.Title)
	}
	refs := map[string]bool{}
	for _, q := range p.Targets {
		variable := strings.Trim(q.Datasource.UID, "${}")
		want := map[string]string{"ds_prom": "prometheus", "ds_loki": "loki"}[variable]
		if q.Datasource.Type != want || !variables[variable] || q.Datasource != *p.Datasource {
			t.Errorf("%s: %q has the datasource %+v", name, p.Title, q.Datasource)
		}
		if refs[q.RefID] || q.RefID == "" || q.Expr == "" {
			t.Errorf("%s: %q has the query %q %q", name, p.Title, q.RefID, q.Expr)
		}
		refs[q.RefID] = true
		if !strings.Contains(q.Expr, orgMatcher) {
			t.Errorf("%s: %q pays no heed to org: %s", name, p.Title, q.Expr)
		}
	}
}
