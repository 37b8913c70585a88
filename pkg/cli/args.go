package cli

import (
	"flag"
	"slices"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/sysexits"
)

// invocation is a command line taken apart.
type invocation struct {
	path     []*ffcli.Command // from the root to cmd
	cmd      *ffcli.Command
	flags    []string // each as -name=value
	operands []string
	dash     int
	help     bool
	version  bool
}

// pick finds the command that args name and sorts them into flags, wherever
// they stand, and operands. After an error in the flags of a known command it
// still tells which command it was.
func pick(root *ffcli.Command, args []string) (invocation, error) {
	inv := invocation{path: []*ffcli.Command{root}, cmd: root, dash: -1}
	var problem error
	keep := func(err error) {
		if problem == nil {
			problem = err
		}
	}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			inv.dash = len(inv.operands)
			inv.operands = append(inv.operands, args[i+1:]...)
			i = len(args)
		case strings.HasPrefix(arg, "-") && arg != "-":
			rest := args[i+1:]
			used, err := inv.addFlag(arg, rest)
			keep(err)
			if used {
				i++
			}
		case len(inv.cmd.Subcommands) > 0 && len(inv.operands) == 0:
			if sub := subcommand(inv.cmd, arg); sub != nil {
				inv.cmd, inv.path = sub, append(inv.path, sub)
				continue
			}
			if inv.cmd.Exec == nil || arg != "-" {
				keep(sysexits.WithHint(Usagef("unknown subcommand %q", arg), "it may be "+subcommandNames(inv.cmd)))
			}
			inv.operands = append(inv.operands, arg)
		default:
			inv.operands = append(inv.operands, arg)
		}
	}
	if inv.help || inv.version {
		return inv, nil
	}
	if problem == nil {
		problem = inv.check()
	}
	if inv.cmd.Exec == nil {
		inv.cmd = nil
	}
	return inv, problem
}

// addFlag takes the flag arg, and the next argument if it is the flag's value.
func (inv *invocation) addFlag(arg string, rest []string) (usedNext bool, err error) {
	name, value, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
	f := lookup(inv.cmd, name)
	switch {
	case f == nil && (name == "h" || name == "help"):
		inv.help = true
		return false, nil
	case f == nil && name == "version":
		inv.version = true
		return false, nil
	case f == nil:
		return false, unknownFlag(inv.path, name)
	case isBool(f) && !hasValue:
		value = "true"
	case !hasValue && len(rest) == 0:
		return false, Usagef("flag --%s needs a value", name)
	case !hasValue:
		value, usedNext = rest[0], true
	}
	inv.flags = append(inv.flags, "-"+name+"="+value)
	return usedNext, nil
}

// check looks at what can only be told when the whole line is known.
func (inv *invocation) check() error {
	if inv.cmd.Exec == nil {
		return sysexits.WithHint(Usagef("a subcommand is needed"), "it may be "+subcommandNames(inv.cmd))
	}
	for _, f := range inv.flags {
		name, _, _ := strings.Cut(f[1:], "=")
		if inv.cmd.FlagSet == nil || inv.cmd.FlagSet.Lookup(name) == nil {
			return unknownFlag(inv.path, name)
		}
	}
	return nil
}

func unknownFlag(path []*ffcli.Command, name string) error {
	return sysexits.WithHint(Usagef("unknown flag --%s", name), "see "+commandName(path)+" --help")
}

func commandName(path []*ffcli.Command) string {
	var names []string
	for _, c := range path {
		names = append(names, c.Name)
	}
	return strings.Join(names, " ")
}

func subcommand(cmd *ffcli.Command, name string) *ffcli.Command {
	for _, sub := range cmd.Subcommands {
		if sub.Name == name {
			return sub
		}
	}
	return nil
}

func subcommandNames(cmd *ffcli.Command) string {
	var names []string
	for _, sub := range cmd.Subcommands {
		names = append(names, sub.Name)
	}
	return strings.Join(names, ", ")
}

// lookup finds the flag name of cmd or of a command below it: a flag may stand
// before the subcommand that it belongs to.
func lookup(cmd *ffcli.Command, name string) *flag.Flag {
	if cmd.FlagSet != nil {
		if f := cmd.FlagSet.Lookup(name); f != nil {
			return f
		}
	}
	for _, sub := range cmd.Subcommands {
		if f := lookup(sub, name); f != nil {
			return f
		}
	}
	return nil
}

func isBool(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// Walk calls fn for cmd and every command below it, with the path that leads
// there.
func Walk(cmd *ffcli.Command, fn func(path []*ffcli.Command)) { walk(nil, cmd, fn) }

func walk(above []*ffcli.Command, cmd *ffcli.Command, fn func(path []*ffcli.Command)) {
	path := append(slices.Clone(above), cmd)
	fn(path)
	for _, sub := range cmd.Subcommands {
		walk(path, sub, fn)
	}
}

// Usagef is an error in how the program was called: status 64.
func Usagef(format string, args ...any) error {
	return sysexits.Errorf(sysexits.Usage, format, args...)
}

// NoOperands is an error, 64, unless args is empty.
func NoOperands(args []string) error {
	if len(args) > 0 {
		return Usagef("unexpected operand %q", args[0])
	}
	return nil
}
