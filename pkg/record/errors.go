package record

import (
	"fmt"
	"io"

	"sf2loki/pkg/sysexits"
)

// SyntaxError says that the input is not a sequence of JSON objects, or that
// an object of it is beyond the limit. There is no way back into the stream:
// the Reader repeats the error. Its exit status is 65.
type SyntaxError struct {
	Line   int64 // from 1
	Offset int64 // bytes of the input before the fault
	Text   string
}

func (e *SyntaxError) Error() string { return position(e.Line, e.Offset) + e.Text }

// Unwrap carries the exit status.
func (e *SyntaxError) Unwrap() error { return errData }

// InvalidError says that an object is JSON, and yet not what the stream is
// made of. The next Read goes on behind it. Its exit status, for a caller that
// wants to end there, is 65.
type InvalidError struct {
	Line   int64
	Offset int64
	Text   string
}

func (e *InvalidError) Error() string { return position(e.Line, e.Offset) + e.Text }

// Unwrap carries the exit status.
func (e *InvalidError) Unwrap() error { return errData }

// errData is a value and not made per error, for errors.As to find.
var errData = sysexits.Errorf(sysexits.DataErr, "input is not the stream it should be")

// torn is the error for input that ends where it must not.
func torn(line, offset int64) error {
	return sysexits.Errorf(sysexits.IOErr, "%sinput ends inside this object or before its line feed: %w",
		position(line, offset), io.ErrUnexpectedEOF)
}

func position(line, offset int64) string {
	return fmt.Sprintf("line %d, byte %d: ", line, offset)
}
