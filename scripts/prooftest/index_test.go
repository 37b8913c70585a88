package prooftest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sf2loki/scripts/testbed"
)

// fault is a line of the index.
type fault struct{ id, text, proof string }

// readIndex reads the index of faults, and the ids that it must have.
func readIndex(t *testing.T) (faults []fault, ids []string) {
	t.Helper()
	data, err := os.ReadFile("testdata/faults.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if list, ok := strings.CutPrefix(line, "#ids "); ok {
			ids = append(ids, strings.Fields(list)...)
			continue
		}
		cells := strings.Split(line, "\t")
		switch {
		case strings.HasPrefix(line, "# "), line == "#":
		case len(cells) != 3 || cells[1] == "" || cells[2] == "":
			t.Errorf("a line has an id, a fault and a proof: %q", line)
		default:
			faults = append(faults, fault{cells[0], cells[1], cells[2]})
		}
	}
	return faults, ids
}

// Each fault of the list is in the index once, with a test that exists, or a
// reason why it cannot happen.
func TestFaultIndex(t *testing.T) {
	faults, ids := readIndex(t)
	var have []string
	tests := map[string]map[string]bool{}
	for _, f := range faults {
		have = append(have, f.id)
		if reason, ok := strings.CutPrefix(f.proof, "-"); ok {
			if len(strings.Fields(reason)) < 5 {
				t.Errorf("%s: %q is no reason", f.id, reason)
			}
			continue
		}
		for _, name := range strings.Fields(f.proof) {
			if !testExists(t, tests, name) {
				t.Errorf("%s (%s): there is no test %s", f.id, f.text, name)
			}
		}
	}
	if len(ids) < 200 {
		t.Errorf("the list has %d ids only", len(ids))
	}
	slices.Sort(have)
	slices.Sort(ids)
	if !slices.Equal(have, ids) {
		t.Errorf("the index has\n%q, the list\n%q", have, ids)
	}
}

// testExists tells whether there is PACKAGE.TEST or PACKAGE.TEST/SCRIPT, the
// latter by its file.
func testExists(t *testing.T, known map[string]map[string]bool, name string) bool {
	t.Helper()
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return false
	}
	dir := filepath.Join(testbed.Root, name[:dot])
	test, script, hasScript := strings.Cut(name[dot+1:], "/")
	if known[dir] == nil {
		known[dir] = testsOf(t, dir)
	}
	if !known[dir][test] || !hasScript {
		return known[dir][test]
	}
	files, err := filepath.Glob(filepath.Join(dir, "testdata", "*", script+".txtar"))
	return err == nil && len(files) > 0
}

// testsOf are the names of a package's tests.
func testsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		for _, decl := range parse(t, file).Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				names[f.Name.Name] = true
			}
		}
	}
	return names
}

// The manual counts fuzz targets, the inputs that are kept, and faults as they are.
func TestCountsOfTheManual(t *testing.T) {
	targets, inputs := 0, 0
	for _, dir := range []string{"pkg", "cmd", "scripts"} {
		err := filepath.WalkDir(filepath.Join(testbed.Root, dir), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || d.IsDir():
			case strings.Contains(path, "/testdata/fuzz/"):
				inputs++
			case strings.HasSuffix(path, "_test.go"):
				data, err := os.ReadFile(path)
				targets += strings.Count("\n"+string(data), "\nfunc Fuzz")
				return err
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	faults, _ := readIndex(t)
	page, err := os.ReadFile(filepath.Join(testbed.Root, "man/sf2loki-proof.7"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprintf("\n%d targets, with %d inputs ", targets, inputs), fmt.Sprintf("\nnames %d of them", len(faults))} {
		if !strings.Contains(string(page), text) {
			t.Errorf("the manual does not say %q", text)
		}
	}
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
