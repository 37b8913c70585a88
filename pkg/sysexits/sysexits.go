// Package sysexits holds the exit codes of sysexits(3), which are part of the
// programs' contract, and carries them through wrapped errors. The table of
// what each means here stands in sf2loki-pipeline(7).
package sysexits

import (
	"errors"
	"fmt"
)

// Code is an exit status.
type Code int

// The codes that the programs use. 2 is left to a Go panic.
const (
	OK          Code = 0
	Usage       Code = 64 // flags, arguments
	DataErr     Code = 65 // input that is not the stream it should be
	Unavailable Code = 69 // gave up on a service
	Software    Code = 70 // our own fault
	CantCreat   Code = 73 // output or store cannot be made
	IOErr       Code = 74 // stdout, descriptor 3 or disk cannot be written; torn input
	TempFail    Code = 75 // temporary: run again
	Protocol    Code = 76 // fenced, or another writer was there first
	NoPerm      Code = 77 // credentials or permission
	Config      Code = 78 // configuration
)

type coded struct {
	code Code
	err  error
}

func (c *coded) Error() string { return c.err.Error() }
func (c *coded) Unwrap() error { return c.err }

// Wrap gives err the exit status code. The innermost code of a chain wins, so
// that the place which knows most decides. A nil err stays nil.
func Wrap(code Code, err error) error {
	if err == nil {
		return nil
	}
	return &coded{code, err}
}

// Errorf is Wrap of fmt.Errorf.
func Errorf(code Code, format string, args ...any) error {
	return &coded{code, fmt.Errorf(format, args...)}
}

// Of tells the exit status of err: OK for nil, Software for an error that
// nobody gave a code.
func Of(err error) Code {
	if err == nil {
		return OK
	}
	code := Software
	var c *coded
	for errors.As(err, &c) {
		code, err = c.code, c.err
	}
	return code
}

// Told is the exit status that another process told of itself. One that no
// process can have would end this one with its lowest eight bits, which may be
// those of OK.
func Told(status int) Code {
	if status < 0 || status > 255 {
		return Software
	}
	return Code(status)
}

// Coded reports whether err carries a code.
func Coded(err error) bool {
	var c *coded
	return errors.As(err, &c)
}

type hinted struct {
	error
	hint string
}

func (h *hinted) Unwrap() error { return h.error }
func (h *hinted) Hint() string  { return h.hint }

// WithHint adds to err what the user can do about it. A nil err stays nil, and
// an empty hint adds nothing.
func WithHint(err error, hint string) error {
	if err == nil || hint == "" {
		return err
	}
	return &hinted{err, hint}
}

// Hint is what the user can do about err, as WithHint or a method Hint of an
// error in its chain tells; empty: nothing is known.
func Hint(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}
