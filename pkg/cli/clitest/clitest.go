// Package clitest checks a program's manual page against its commands.
//
// Each program calls it in one test:
//
//	func TestManual(t *testing.T) { clitest.Manual(t, "loki-push", newRoot) }
//
// A page lists a flag as `.It Fl -url Ar URL`, or several on one line as
// `.It Fl h , Fl -help`, with one dash or two. The flags that all commands
// share are in no set of their own: each page has
//
//	.It Fl -config Ar file
//	.It Fl -instance Ar name
//	.It Fl -log-format Ar text | json
//	.It Fl -log-level Ar debug | info | warn | error
//	.It Fl -metrics-file Ar path
//	.It Fl -metrics-listen Ar addr
//	.It Fl -report Ar file
package clitest

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/cli"
)

// Manual fails t unless man/NAME.1 lists exactly the flags of the program's
// commands, names each subcommand as `Cm`, and has the section EXIT STATUS.
func Manual(t *testing.T, name string, newRoot func(app *cli.App) *ffcli.Command) {
	t.Helper()
	page := filepath.Join(moduleRoot(t), "man", name+".1")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range compare(string(text), newRoot(cli.NewApp(name))) {
		t.Errorf("%s: %s", filepath.Base(page), problem)
	}
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
}

// compare returns what is wrong with the page.
func compare(page string, root *ffcli.Command) []string {
	var problems []string
	documented := listed(page)
	declared := map[string]bool{}
	cli.Walk(root, func(path []*ffcli.Command) {
		cmd := path[len(path)-1]
		if len(path) > 1 && !strings.Contains(page, "Cm "+cmd.Name) {
			problems = append(problems, "subcommand "+cmd.Name+" has no .Cm")
		}
		if cmd.FlagSet != nil {
			cmd.FlagSet.VisitAll(func(f *flag.Flag) { declared[f.Name] = true })
		}
	})
	for name := range declared {
		if !documented[name] {
			problems = append(problems, "flag --"+name+" has no .It Fl")
		}
	}
	for name := range documented {
		if builtin := name == "h" || name == "help" || name == "version"; !builtin && !declared[name] {
			problems = append(problems, ".It Fl "+name+" is no flag of the program")
		}
	}
	if !strings.Contains(page, "\n.Sh EXIT STATUS\n") {
		problems = append(problems, "section EXIT STATUS is missing")
	}
	slices.Sort(problems)
	return problems
}

// listed finds the flags in the `.It` lines of a page.
func listed(page string) map[string]bool {
	flags := map[string]bool{}
	for line := range strings.Lines(page) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != ".It" {
			continue
		}
		for i, w := range words[:len(words)-1] {
			if w != "Fl" {
				continue
			}
			name, _, _ := strings.Cut(strings.TrimLeft(words[i+1], "-"), "=")
			flags[strings.ReplaceAll(name, `\-`, "-")] = true
		}
	}
	return flags
}
