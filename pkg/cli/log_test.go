package cli

import (
	"os"
	"testing"
	"time"
)

func TestFit(t *testing.T) {
	for _, test := range []struct {
		width int
		want  string
	}{{0, "zwölf Zeilen"}, {13, "zwölf Zeilen"}, {12, "zwölf Zeile"}, {4, "zwö"}, {1, ""}} {
		if got := fit("zwölf Zeilen", test.width); got != test.want {
			t.Errorf("%d columns: %q, want %q", test.width, got, test.want)
		}
	}
}

// The head of a pipeline and those behind it never show a line at one time.
func TestTurn(t *testing.T) {
	pipe, end, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pipe.Close(); end.Close() })
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { null.Close() })
	head, middle, alone := &App{Stdin: null, Stdout: end}, &App{Stdin: pipe, Stdout: end}, &App{Stdin: null, Stdout: null}
	turns := 0
	for second := range int64(8) {
		at := time.Unix(second, 0)
		if head.turn()(at) == middle.turn()(at) {
			t.Errorf("second %d: both or none", second)
		}
		if !alone.turn()(at) {
			t.Errorf("second %d: whoever is alone waits", second)
		}
		if head.turn()(at) {
			turns++
		}
	}
	if turns != 4 {
		t.Errorf("the head shows its line in %d of 8 seconds", turns)
	}
}
