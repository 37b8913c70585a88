package cli

import (
	"errors"

	"sf2loki/pkg/sysexits"
)

type hinted struct {
	error
	hint string
}

func (h *hinted) Unwrap() error { return h.error }
func (h *hinted) Hint() string  { return h.hint }

// WithHint adds to err what the user can do about it. A nil err stays nil.
func WithHint(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &hinted{err, hint}
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

func hintOf(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}
