// Sf-pull turns Salesforce activity into records on standard output. Its
// manual is sf-pull(1).
package main

import (
	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/cli"
)

func main() { cli.Main("sf-pull", newRoot) }

func newRoot(app *cli.App) *ffcli.Command {
	return &ffcli.Command{
		Name:        "sf-pull",
		ShortUsage:  "sf-pull SOURCE [flags] > records",
		ShortHelp:   "turn Salesforce activity into records",
		FlagSet:     nil,
		Subcommands: []*ffcli.Command{newELF(app), newList(app)},
	}
}
