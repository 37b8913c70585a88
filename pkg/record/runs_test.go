package record

import (
	"strconv"
	"strings"
	"testing"

	"sf2loki/pkg/sysexits"
)

func TestRuns(t *testing.T) {
	status := func(n int) *int { return &n }
	many := make([]Run, mostRuns+1)
	for i := range many {
		many[i] = Run{Program: "p", RunID: strconv.Itoa(i)}
	}
	ended := append([]Run(nil), many...)
	for i := range many {
		ended = append(ended, Run{Program: "p", RunID: strconv.Itoa(i), Status: status(0)})
	}
	for _, tt := range []struct {
		name string
		runs []Run
		code sysexits.Code
		text string
	}{
		{"none", nil, sysexits.OK, ""},
		{"ended", []Run{{Program: "a", RunID: "1"}, {Program: "a", RunID: "1", Status: status(0)}}, sysexits.OK, ""},
		{"the first bad status", []Run{{Program: "a", Status: status(0)}, {Program: "b", Status: status(77)}, {Program: "c", Status: status(75)}}, 77, "b ended with status 77"},
		{"open", []Run{{Program: "a", RunID: "1"}, {Program: "b", RunID: "1"}, {Program: "b", RunID: "1", Status: status(0)}}, sysexits.TempFail, "a never told its end"},
		{"one of two of a name", []Run{{Program: "a", RunID: "1"}, {Program: "a", RunID: "1"}, {Program: "a", RunID: "1", Status: status(0)}}, sysexits.TempFail, "a never told its end"},
		{"the same id, another program", []Run{{Program: "a", RunID: "1"}, {Program: "b", RunID: "1", Status: status(0)}}, sysexits.TempFail, "a never told its end"},
		{"more than are kept", many, sysexits.TempFail, "p never told its end"},
		{"all ended that are kept", ended, sysexits.TempFail, "of more than 1000 runs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r Runs
			for _, run := range tt.runs {
				if err := r.Note(AppendRunObject(nil, run)); err != nil {
					t.Fatal(err)
				}
			}
			err := r.Err()
			if sysexits.Of(err) != tt.code || err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%v, status %d; want %d, %q", err, sysexits.Of(err), tt.code, tt.text)
			}
			if len(r.open) > mostRuns {
				t.Errorf("%d runs are kept", len(r.open))
			}
			if len(tt.runs) > 0 && r.ID != tt.runs[0].RunID {
				t.Errorf("the id is %q", r.ID)
			}
		})
	}
	if err := new(Runs).Note([]byte(`[]`)); sysexits.Of(err) != sysexits.DataErr {
		t.Errorf("what is no run: %v", err)
	}
}
