package clitest

import (
	"slices"
	"testing"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/cli"
)

const goodPage = `.Sh OPTIONS
.Bl -tag
.It Fl -config Ar file
.It Fl -instance Ar name
.It Fl -log-format Ar text | json
.It Fl -log-level Ar level
.It Fl -metrics-file Ar path
.It Fl -metrics-listen Ar addr
.It Fl -report Ar file
.It Fl -url Ar URL
.It Fl h , Fl -help
.El
.Sh EXIT STATUS
`

func TestCompare(t *testing.T) {
	newRoot := func(subs ...*ffcli.Command) *ffcli.Command {
		fs := cli.NewApp("x").FlagSet("x")
		fs.String("url", "", "")
		return &ffcli.Command{Name: "x", FlagSet: fs, Subcommands: subs}
	}
	tests := []struct {
		name string
		page string
		root *ffcli.Command
		want []string
	}{
		{"agrees", goodPage, newRoot(), nil},
		{"flag missing", "\n.Sh EXIT STATUS\n" + goodPage[len(".Sh OPTIONS\n.Bl -tag\n.It Fl -config Ar file\n"):], newRoot(),
			[]string{"flag --config has no .It Fl"}},
		{"too many", ".It Fl -uri\n" + goodPage, newRoot(), []string{".It Fl uri is no flag of the program"}},
		{"subcommand missing", goodPage, newRoot(&ffcli.Command{Name: "probe"}), []string{"subcommand probe has no .Cm"}},
		{"no exit status", goodPage[:len(goodPage)-len(".Sh EXIT STATUS\n")], newRoot(), []string{"section EXIT STATUS is missing"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := compare(tt.page, tt.root); !slices.Equal(got, tt.want) {
				t.Errorf("compare = %q, want %q", got, tt.want)
			}
		})
	}
}
