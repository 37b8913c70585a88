// Sf-pull turns Salesforce activity into records on standard output. Its
// manual is sf-pull(1).
package main

import (
	"github.com/peterbourgon/ff/v3/ffcli"
	"golang.org/x/term"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/tally"
)

func main() { cli.Main("sf-pull", newRoot) }

func newRoot(app *cli.App) *ffcli.Command {
	app.Account(accountRow(tally.Count{}))
	root := &ffcli.Command{
		Name:       "sf-pull",
		ShortUsage: "sf-pull SOURCE [flags] > records",
		ShortHelp:  "turn Salesforce activity into records",
		FlagSet:    nil,
		Subcommands: []*ffcli.Command{
			newPubsub(app), newObjects(app), newELF(app), newApexLog(app), newList(app), newLimits(app), newDiscover(app),
			newDoctor(app), newCheckPlans(app),
		},
	}
	app.OnRun(root, func(status *int) error {
		if term.IsTerminal(int(app.Stdout.Fd())) {
			return nil // nobody reads records there
		}
		return (&output{app: app}).runLine(status)
	})
	return root
}
