// Package pkg_test holds the packages to the layers of the design: imports
// point down only, and the process belongs to the commands.
package pkg_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "sf2loki/"

// bad says which imports, direct or not, the packages may not have and why. A
// pattern is an import path below the module, or of another module after "//";
// "/..." at its end takes in all below.
var bad = []struct {
	packages []string
	except   []string
	imports  []string
	why      string
}{
	{
		packages: []string{"pkg/..."}, except: []string{"pkg/cli/clitest"}, imports: []string{"pkg/cli/..."},
		why: "only commands know flags, environment and exit",
	},
	{
		packages: []string{"pkg/sysexits", "pkg/fdio", "pkg/atomicfile", "pkg/backoff", "pkg/httpguard", "pkg/secret"},
		imports:  []string{"pkg/..."},
		why:      "a leaf imports nothing of the project",
	},
	{
		packages: []string{"pkg/record", "pkg/cli/..."},
		imports: []string{"pkg/loki/...", "pkg/spool", "pkg/checkpoint/...", "pkg/salesforce", "pkg/eventlog", "pkg/shape",
			"pkg/pubsub", "pkg/sobject", "pkg/apexlog", "pkg/lease/..."},
		why: "streams and command line know no program",
	},
	{
		packages: []string{"pkg/salesforce", "pkg/shape", "pkg/feed", "pkg/discover", "pkg/eventlog", "pkg/pubsub", "pkg/sobject", "pkg/apexlog"},
		imports:  []string{"pkg/loki/...", "pkg/spool", "pkg/lokitest/..."},
		why:      "a source never knows the sink",
	},
	{
		packages: []string{"pkg/salesforce", "pkg/shape", "pkg/feed", "pkg/discover", "pkg/eventlog", "pkg/pubsub", "pkg/sobject", "pkg/apexlog"},
		imports:  []string{"pkg/checkpoint/..."},
		why:      "a source is given its position as text; where it is kept is ckpt's affair",
	},
	{
		packages: []string{"pkg/salesforce", "pkg/shape", "pkg/feed", "pkg/tally", "pkg/outlet"},
		imports:  []string{"pkg/eventlog", "pkg/pubsub", "pkg/sobject", "pkg/apexlog"},
		why:      "what sources share imports none of them",
	},
	{
		packages: []string{"pkg/loki/..."},
		imports: []string{"pkg/salesforce", "pkg/shape", "pkg/eventlog", "pkg/pubsub", "pkg/sobject", "pkg/apexlog",
			"pkg/spool", "pkg/checkpoint/...", "pkg/sftest/..."},
		why: "the sink knows no source, no spool and no store",
	},
	{
		packages: []string{"pkg/spool"},
		imports: []string{"pkg/loki/...", "pkg/checkpoint/...", "pkg/salesforce", "pkg/shape", "pkg/eventlog", "pkg/pubsub",
			"pkg/sobject", "pkg/apexlog"},
		why: "dead letters are files of records, whoever wrote them",
	},
	{
		packages: []string{"pkg/checkpoint/...", "pkg/lease/..."},
		imports: []string{"pkg/loki/...", "pkg/spool", "pkg/salesforce", "pkg/shape", "pkg/eventlog", "pkg/pubsub", "pkg/sobject",
			"pkg/apexlog"},
		why: "positions are text to whoever keeps them",
	},
	{
		packages: []string{"cmd/ckpt", "cmd/dl-replay"},
		imports:  []string{"pkg/loki/...", "pkg/salesforce", "pkg/eventlog"},
		why:      "one binary, one job",
	},
	{packages: []string{"cmd/sf-pull"}, imports: []string{"pkg/loki/..."}, why: "sf-pull never pushes"},
	{packages: []string{"cmd/loki-push"}, imports: []string{"pkg/salesforce", "pkg/eventlog"}, why: "loki-push never pulls"},
	{
		packages: []string{"pkg/...", "cmd/..."},
		except:   []string{"pkg/cli/clitest", "pkg/sftest/...", "pkg/lokitest/...", "pkg/checkpoint/checkpointtest", "pkg/lease/leasetest", "pkg/errtest", "pkg/logtest"},
		imports:  []string{"pkg/sftest/...", "pkg/lokitest/...", "pkg/cli/clitest", "pkg/checkpoint/checkpointtest", "pkg/lease/leasetest", "pkg/errtest", "pkg/logtest", "//testing"},
		why:      "what serves tests is in no program",
	},
	{
		packages: []string{"pkg/...", "cmd/..."},
		except:   []string{"pkg/checkpoint/s3", "pkg/checkpoint/gcs", "pkg/checkpoint/azure", "pkg/lease/k8s", "cmd/ckpt"},
		imports: []string{"//github.com/aws/...", "//cloud.google.com/...", "//github.com/Azure/...", "//k8s.io/...",
			"//golang.org/x/oauth2/google"},
		why: "cloud libraries stay in their store's package",
	},
	{
		packages: []string{"pkg/..."}, except: []string{"pkg/cli/..."},
		imports: []string{"//github.com/peterbourgon/ff/...", "//github.com/prometheus/client_golang/..."},
		why:     "packages return counts and errors; flags and metrics are the commands'",
	},
}

func matches(pattern, importPath string) bool {
	full := module + pattern
	if after, ok := strings.CutPrefix(pattern, "//"); ok {
		full = after
	}
	if base, ok := strings.CutSuffix(full, "/..."); ok {
		return importPath == base || strings.HasPrefix(importPath, base+"/")
	}
	return importPath == full
}

func matchesAny(patterns []string, importPath string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, importPath) })
}

type listed struct {
	ImportPath string
	Deps       []string
}

func list(t *testing.T) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-e", "-json=ImportPath,Deps", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var packages []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	if len(packages) < 5 {
		t.Fatalf("go list names %d packages only", len(packages))
	}
	return packages
}

func violations(packages []listed) []string {
	var found []string
	for _, p := range packages {
		for _, rule := range bad {
			if !matchesAny(rule.packages, p.ImportPath) || matchesAny(rule.except, p.ImportPath) {
				continue
			}
			for _, dep := range p.Deps {
				if matchesAny(rule.imports, dep) {
					found = append(found, fmt.Sprintf("%s imports %s: %s", p.ImportPath, dep, rule.why))
				}
			}
		}
	}
	return found
}

func TestImportDirections(t *testing.T) {
	for _, v := range violations(list(t)) {
		t.Error(v)
	}
}

func TestImportRulesBite(t *testing.T) {
	for _, p := range []listed{
		{"sf2loki/pkg/loki", []string{"fmt", "sf2loki/pkg/spool"}},
		{"sf2loki/pkg/fdio", []string{"sf2loki/pkg/sysexits"}},
		{"sf2loki/pkg/eventlog", []string{"sf2loki/pkg/loki/internal/x"}},
		{"sf2loki/cmd/sf-pull", []string{"github.com/aws/aws-sdk-go-v2/service/s3"}},
		{"sf2loki/cmd/ckpt", []string{"testing"}},
		{"sf2loki/pkg/record", []string{"sf2loki/pkg/cli"}},
	} {
		if len(violations([]listed{p})) == 0 {
			t.Errorf("%s may import %s", p.ImportPath, p.Deps)
		}
	}
	fine := listed{"sf2loki/cmd/ckpt", []string{"sf2loki/pkg/cli", "github.com/aws/smithy-go", "sf2loki/pkg/checkpoint/file"}}
	if v := violations([]listed{fine}); v != nil {
		t.Errorf("%s may not import: %s", fine.ImportPath, v)
	}
}

// process are the ways to reach past what a package was given; "*" is
// everything of an import.
var process = map[string][]string{
	"os":       {"Exit", "Args", "Getenv", "LookupEnv", "Environ", "ExpandEnv", "Setenv", "Stdin", "Stdout", "Stderr"},
	"flag":     {"*"},
	"log":      {"*"},
	"log/slog": {"Default", "SetDefault", "Debug", "Info", "Warn", "Error", "Log"},
}

// reaches lists where file, of the package at dir, uses one of process.
func reaches(fset *token.FileSet, file *ast.File) []string {
	names := map[string]string{}
	var found []string
	for _, spec := range file.Imports {
		importPath, err := strconv.Unquote(spec.Path.Value)
		if err != nil || process[importPath] == nil {
			continue
		}
		name := path.Base(importPath)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = importPath
		if process[importPath][0] == "*" {
			found = append(found, fmt.Sprintf("%s: import %q", fset.Position(spec.Pos()), importPath))
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := sel.X.(*ast.Ident)
		if ok && x.Obj == nil && slices.Contains(process[names[x.Name]], sel.Sel.Name) {
			found = append(found, fmt.Sprintf("%s: %s.%s", fset.Position(sel.Pos()), x.Name, sel.Sel.Name))
		}
		return true
	})
	return found
}

func TestProcessBelongsToCommands(t *testing.T) {
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (file == "cli" || d.Name() == "cmd" || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		tree, err := parser.ParseFile(fset, file, nil, 0)
		if err != nil {
			return err
		}
		for _, r := range reaches(fset, tree) {
			t.Errorf("%s: only cmd and pkg/cli touch the process", r)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestProcessRuleBites(t *testing.T) {
	const src = `package p
import ("flag"; xos "os"; "log/slog")
var os struct{ Exit func(int) }
func f() { xos.Exit(1); slog.Default(); flag.Parse(); slog.New(nil); os.Exit(2) }`
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, "p.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := reaches(fset, tree); len(got) != 3 {
		t.Errorf("found %q, want flag, xos.Exit and slog.Default", got)
	}
}
