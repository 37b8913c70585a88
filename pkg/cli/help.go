package cli

import (
	"flag"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/peterbourgon/ff/v3/ffcli"
)

// printHelp prints what --help asks for, on stdout: somebody wants to read it.
func (app *App) printHelp(inv invocation) error {
	_, err := fmt.Fprint(app.Stdout, app.usage(inv.path))
	return err
}

func (app *App) usage(path []*ffcli.Command) string {
	cmd := path[len(path)-1]
	var b strings.Builder
	use := cmd.ShortUsage
	if use == "" {
		use = commandName(path) + " [flags]"
	}
	fmt.Fprintf(&b, "usage: %s\n\n", use)
	if cmd.ShortHelp != "" {
		fmt.Fprintf(&b, "%s\n\n", cmd.ShortHelp)
	}
	if cmd.LongHelp != "" {
		fmt.Fprintf(&b, "%s\n\n", strings.TrimSpace(cmd.LongHelp))
	}
	tw := tabwriter.NewWriter(&b, 0, 2, 2, ' ', 0)
	if len(cmd.Subcommands) > 0 {
		fmt.Fprintln(tw, "subcommands:")
		for _, sub := range cmd.Subcommands {
			fmt.Fprintf(tw, "  %s\t%s\n", sub.Name, sub.ShortHelp)
		}
		fmt.Fprintln(tw)
	}
	if cmd.FlagSet != nil {
		fmt.Fprintln(tw, "flags:")
		cmd.FlagSet.VisitAll(func(f *flag.Flag) { flagHelp(tw, f) })
		fmt.Fprintln(tw)
	}
	tw.Flush()
	fmt.Fprintf(&b, "Flags may also be set by environment variables (%s_...) and by --config FILE.\nSee %s(1).\n", app.Prefix(), path[0].Name)
	return b.String()
}

func flagHelp(tw *tabwriter.Writer, f *flag.Flag) {
	arg, text := flag.UnquoteUsage(f)
	if arg == "value" {
		arg = "VALUE"
	}
	if arg != "" {
		arg = " " + arg
	}
	if f.DefValue != "" && f.DefValue != "false" {
		text += " (" + f.DefValue + ")"
	}
	fmt.Fprintf(tw, "  --%s%s\t%s\n", f.Name, arg, text)
}
