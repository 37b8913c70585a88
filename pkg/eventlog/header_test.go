package eventlog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func headerOf(t *testing.T, text string) *Row {
	t.Helper()
	row, err := NewScanner(strings.NewReader(text), 0).Header()
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func TestRepeatedNames(t *testing.T) {
	for in, want := range map[string]string{
		"A,B":             "A,B",
		"A,A,A":           "A,A_2,A_3",
		"A,A,A_2,A":       "A,A_3,A_2,A_4",
		"A_2,A,A,A_2":     "A_2,A,A_3,A_2_2",
		"A,A,B,B,A,B":     "A,A_2,B,B_2,A_3,B_3",
		",,":              ",_2,_3",
		"A_2,A_2,A,A,A_3": "A_2,A_2_2,A,A_4,A_3",
	} {
		names := uniqueNames(headerOf(t, in+"\n"))
		if got := strings.Join(names, ","); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
		if slices.Sort(names); len(slices.Compact(names)) != len(names) {
			t.Errorf("%s: a name is there twice", in)
		}
	}
}

// As many columns as there may be, all of one name, cost no more than others.
func TestManyRepeatedNames(t *testing.T) {
	row := headerOf(t, strings.Repeat("A,", mostColumns-1)+"A\n")
	if row.Bad != nil {
		t.Error(row.Bad)
	}
	names := uniqueNames(row)
	if want := fmt.Sprint("A_", mostColumns); names[mostColumns-1] != want {
		t.Errorf("the last one is %s, want %s", names[mostColumns-1], want)
	}
}

// A first row that is none of column names is an error, not a file without rows.
func TestImpossibleHeader(t *testing.T) {
	for in, want := range map[string]string{
		strings.Repeat(",", mostColumns) + "\n": "the header: not a row of the dialect: more than 10000 cells",
		"A,B\r1,2\r3,4\r":                       "carriage return",
	} {
		_, err := look(context.Background(), body{strings.NewReader(in), int64(len(in))}, 1<<20, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %s", in, err, want)
		}
	}
}
