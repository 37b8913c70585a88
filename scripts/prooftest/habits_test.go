package prooftest

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sf2loki/scripts/testbed"
)

// testFiles are all test files of the tree.
func testFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, dir := range []string{"cmd", "pkg", "scripts"} {
		err := filepath.WalkDir(filepath.Join(testbed.Root, dir), func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, "_test.go") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// A test waits for conditions, or in a bubble whose time costs nothing: no real
// sleep is much longer than a second.
func TestNoSleeps(t *testing.T) {
	bubbles := map[string]bool{} // packages that have some
	files := map[string]*ast.File{}
	for _, path := range testFiles(t) {
		files[path] = parse(t, path)
		for _, imported := range files[path].Imports {
			if imported.Path.Value == `"testing/synctest"` {
				bubbles[filepath.Dir(path)] = true
			}
		}
	}
	for path, file := range files {
		if bubbles[filepath.Dir(path)] {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if ok && len(call.Args) == 1 && isSelector(call.Fun, "time", "Sleep") && tooLong(call.Args[0]) {
				t.Errorf("%s sleeps for real", path)
			}
			return true
		})
	}
}

func isSelector(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg && s.Sel.Name == name
}

// tooLong tells a duration that says that it is more than a second or so.
func tooLong(e ast.Expr) bool {
	long := false
	ast.Inspect(e, func(n ast.Node) bool {
		if x, ok := n.(ast.Expr); ok && (isSelector(x, "time", "Second") || isSelector(x, "time", "Minute") || isSelector(x, "time", "Hour")) {
			long = true
		}
		if b, ok := n.(*ast.BinaryExpr); ok && b.Op == token.MUL && isSelector(b.Y, "time", "Millisecond") {
			if lit, ok := b.X.(*ast.BasicLit); ok {
				ms, err := strconv.Atoi(lit.Value)
				long = long || err != nil || ms > 1200
			}
		}
		return true
	})
	return long
}

// Whatever is downloaded is named with its version.
func TestPinned(t *testing.T) {
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(testbed.Root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if mod := read("go.mod"); !regexp.MustCompile(`(?m)^go \d+\.\d+\.\d+$|^toolchain go\d+\.\d+\.\d+$`).MatchString(mod) {
		t.Error("go.mod names no exact version of Go")
	} else if strings.Contains(mod, "\nreplace ") {
		t.Error("go.mod replaces a module")
	}
	download := regexp.MustCompile(`@latest|\b(curl|wget) +(-|"?http)`)
	tools := read("scripts/test-tools")
	modules := regexp.MustCompile(`(?m)^\t\S+\) echo (\S+) (\S+) ;;`).FindAllStringSubmatch(tools, -1)
	if len(modules) < 5 {
		t.Errorf("the tools are listed otherwise: %q", modules)
	}
	for _, m := range modules {
		if !regexp.MustCompile(`^v\d+\.\d+\.\d+(-\S+)?$`).MatchString(m[2]) {
			t.Errorf("the tool %s has the version %s", m[1], m[2])
		}
	}
	for _, name := range []string{"scripts/test-tools", "Makefile", ".ci/run"} {
		for line := range strings.Lines(read(name)) {
			if download.MatchString(line) {
				t.Errorf("%s takes what it gets: %s", name, line)
			}
		}
	}
}
