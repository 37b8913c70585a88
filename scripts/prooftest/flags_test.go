package prooftest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sf2loki/scripts/testbed"
)

// wiring is what the files of a program do with the fields that flags set.
type wiring struct{ set, read map[string]bool }

func (w *wiring) look(file *ast.File) {
	targets := map[ast.Node]bool{} // fields whose address a flag takes
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && strings.HasSuffix(f.Sel.Name, "Var") {
				for _, arg := range n.Args {
					if addr, ok := arg.(*ast.UnaryExpr); ok && addr.Op == token.AND {
						field, ok := addr.X.(*ast.SelectorExpr)
						if !ok {
							continue
						}
						targets[field] = true
						// The fields of a structure that goes on as a whole are read elsewhere.
						if _, own := field.X.(*ast.Ident); own {
							w.set[field.Sel.Name] = true
						}
					}
				}
			}
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				targets[left] = true
			}
		case *ast.SelectorExpr:
			if !targets[n] {
				w.read[n.Sel.Name] = true
			}
		}
		return true
	})
}

// unread are the fields that a flag sets and nobody reads.
func (w *wiring) unread() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(w.set)) {
		if !w.read[name] {
			names = append(names, name)
		}
	}
	return names
}

// A flag that is understood and documented, and that nobody reads, does nothing
// (#115).
func TestFlagsAreRead(t *testing.T) {
	for _, program := range []string{"sf-pull", "loki-push", "dl-replay", "ckpt"} {
		files, err := filepath.Glob(filepath.Join(testbed.Root, "cmd", program, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		w := &wiring{map[string]bool{}, map[string]bool{}}
		for _, name := range files {
			if !strings.HasSuffix(name, "_test.go") {
				w.look(parse(t, name))
			}
		}
		if names := w.unread(); len(names) > 0 || len(w.set) < 5 {
			t.Errorf("%s: of %d fields of flags nobody reads %v", program, len(w.set), names)
		}
	}
}

// The check itself finds what is wrong.
func TestUnreadFlagIsFound(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "", `package x
func (f *flags) register() {
	fs.IntVar(&f.n, "n", 1, "")
	cli.ListVar(fs, &f.list, "list", "")
	fs.BoolVar(&f.lost, "lost", false, "")
}
func (f *flags) run() { f.lost = f.list == nil; do(f.n) }
`, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	w := &wiring{map[string]bool{}, map[string]bool{}}
	w.look(file)
	if got := w.unread(); !slices.Equal(got, []string{"lost"}) {
		t.Errorf("unread are %v", got)
	}
}
