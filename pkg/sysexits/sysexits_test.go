package sysexits

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

// Whatever is wrapped around an error, the place that knows most has decided
// its status, and callers still find what it is.
func TestOf(t *testing.T) {
	coded := Wrap(NoPerm, io.ErrUnexpectedEOF)
	tests := []struct {
		name string
		err  error
		want Code
	}{
		{"none", nil, OK},
		{"without a code", io.EOF, Software},
		{"with one", coded, NoPerm},
		{"with one, wrapped", fmt.Errorf("read: %w", coded), NoPerm},
		{"with two", Wrap(TempFail, fmt.Errorf("read: %w", coded)), NoPerm},
		{"with one of a cause", Errorf(TempFail, "read: %w", coded), NoPerm},
		{"with one that is joined", errors.Join(io.EOF, Wrap(IOErr, io.EOF)), IOErr},
		{"with a hint", WithHint(coded, "log in"), NoPerm},
		{"of nothing", Wrap(IOErr, nil), OK},
	}
	for _, tt := range tests {
		if got := Of(tt.err); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
		if got := Coded(tt.err); got != (tt.want != OK && tt.want != Software) {
			t.Errorf("%s: coded %t", tt.name, got)
		}
	}
	if err := Wrap(TempFail, coded); !errors.Is(err, io.ErrUnexpectedEOF) || err.Error() != io.ErrUnexpectedEOF.Error() {
		t.Errorf("a code changes the error: %v", err)
	}
}

func TestHint(t *testing.T) {
	err := fmt.Errorf("pull: %w", WithHint(WithHint(io.EOF, "inner"), "outer"))
	if got := Hint(err); got != "outer" || !errors.Is(err, io.EOF) || err.Error() != "pull: EOF" {
		t.Errorf("hint %q of %v", got, err)
	}
	if got := Hint(io.EOF); got != "" {
		t.Errorf("hint %q of nothing", got)
	}
	if WithHint(nil, "x") != nil || WithHint(io.EOF, "") != io.EOF {
		t.Error("a hint of nothing, or an empty one, is something")
	}
}

// A status that no process can have must not become one that means success.
func TestTold(t *testing.T) {
	for status, want := range map[int]Code{0: OK, 78: Config, 137: 137, 255: 255, 256: Software, -1: Software, 512: Software} {
		if got := Told(status); got != want {
			t.Errorf("%d becomes %d, want %d", status, got, want)
		}
	}
}
