package cli

import "sf2loki/pkg/sysexits"

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
