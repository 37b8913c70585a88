package cli

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"
)

// addCompletion gives root the subcommand completion, which prints a script
// made from the command tree for a shell.
func (app *App) addCompletion(root *ffcli.Command) {
	root.Subcommands = append(root.Subcommands, &ffcli.Command{
		Name:       "completion",
		ShortUsage: app.Name + " completion bash|zsh|fish",
		ShortHelp:  "print a completion script for a shell",
		Exec: func(_ context.Context, args []string) error {
			if len(args) != 1 {
				return Usagef("completion of which shell? bash, zsh or fish")
			}
			script := ""
			switch args[0] {
			case "bash":
				script = bashCompletion(root)
			case "zsh":
				script = "#compdef " + root.Name + "\nautoload -U +X bashcompinit && bashcompinit\n" + bashCompletion(root)
			case "fish":
				script = fishCompletion(root)
			default:
				return Usagef("unknown shell %q: bash, zsh or fish", args[0])
			}
			_, err := fmt.Fprint(app.Stdout, script)
			return err
		},
	})
}

// words lists what may follow a command: its subcommands and its flags.
func words(cmd *ffcli.Command) []string {
	var list []string
	for _, sub := range cmd.Subcommands {
		list = append(list, sub.Name)
	}
	if cmd.FlagSet != nil {
		cmd.FlagSet.VisitAll(func(f *flag.Flag) { list = append(list, "--"+f.Name) })
	}
	return append(list, "--help", "--version")
}

// valued lists the flags of the whole tree that take a value: after one of
// them a file name is the best guess.
func valued(root *ffcli.Command) []string {
	seen := map[string]bool{}
	Walk(root, func(path []*ffcli.Command) {
		if fs := path[len(path)-1].FlagSet; fs != nil {
			fs.VisitAll(func(f *flag.Flag) {
				if !isBool(f) {
					seen["--"+f.Name], seen["-"+f.Name] = true, true
				}
			})
		}
	})
	var list []string
	for name := range seen {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func bashCompletion(root *ffcli.Command) string {
	fn := "_" + strings.ReplaceAll(root.Name, "-", "_")
	var b strings.Builder
	fmt.Fprintf(&b, "%s() {\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} path=%s i\n\tCOMPREPLY=()\n", fn, root.Name)
	fmt.Fprintf(&b, "\tcase ${COMP_WORDS[COMP_CWORD - 1]} in\n\t%s)\n\t\tCOMPREPLY=($(compgen -f -- \"$cur\"))\n\t\treturn\n\t\t;;\n\tesac\n", strings.Join(valued(root), " | "))
	b.WriteString("\tfor ((i = 1; i < COMP_CWORD; i++)); do\n\t\tcase \"$path ${COMP_WORDS[i]}\" in\n")
	Walk(root, func(path []*ffcli.Command) {
		if len(path) > 1 {
			fmt.Fprintf(&b, "\t\t\"%s\") path=\"$path ${COMP_WORDS[i]}\" ;;\n", commandName(path))
		}
	})
	b.WriteString("\t\tesac\n\tdone\n\tcase $path in\n")
	Walk(root, func(path []*ffcli.Command) {
		fmt.Fprintf(&b, "\t\"%s\") COMPREPLY=($(compgen -W \"%s\" -- \"$cur\")) ;;\n", commandName(path), strings.Join(words(path[len(path)-1]), " "))
	})
	fmt.Fprintf(&b, "\tesac\n\tif [[ ${#COMPREPLY[@]} -eq 0 && $cur != -* ]]; then\n\t\tCOMPREPLY=($(compgen -f -- \"$cur\"))\n\tfi\n}\ncomplete -F %s %s\n", fn, root.Name)
	return b.String()
}

func fishCompletion(root *ffcli.Command) string {
	var b strings.Builder
	Walk(root, func(path []*ffcli.Command) {
		cmd, when := path[len(path)-1], "__fish_use_subcommand"
		if len(path) > 1 {
			when = "__fish_seen_subcommand_from " + cmd.Name
		}
		for _, sub := range cmd.Subcommands {
			fmt.Fprintf(&b, "complete -c %s -n %q -f -a %s -d %q\n", root.Name, when, sub.Name, sub.ShortHelp)
		}
		if cmd.FlagSet == nil {
			return
		}
		cmd.FlagSet.VisitAll(func(f *flag.Flag) {
			_, text := flag.UnquoteUsage(f)
			value := " -r"
			if isBool(f) {
				value = ""
			}
			fmt.Fprintf(&b, "complete -c %s -n %q -l %s%s -d %q\n", root.Name, when, f.Name, value, text)
		})
	})
	return b.String()
}
