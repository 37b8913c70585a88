package audit

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Table writes the report for people: one line for each source and event type,
// then what was found.
func (r *Report) Table(out io.Writer, printable func(string) string) error {
	w := bufio.NewWriter(out)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, strings.Join(columns, "\t")+"\t")
	for _, row := range r.Rows {
		for _, cell := range row.cells() {
			fmt.Fprintf(t, "%s\t", printable(cell))
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, f := range r.Findings {
		about := f.about()
		if about != "" {
			about += ": "
		}
		fmt.Fprintf(w, "\n%s: %s%s\n", f.Verdict, printable(about), printable(f.Text))
		if f.Command != "" {
			fmt.Fprintf(w, "    %s\n", printable(f.Command))
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "\nnote: %s\n", printable(note))
	}
	fmt.Fprintf(w, "\n%s\n", r.Verdict)
	return w.Flush()
}

var columns = []string{"SOURCE", "EVENT TYPE", "FILES", "PULLED", "ROWS", "LEFT OUT", "EARLIER", "DELIVERED", "REFUSED", "DROPPED",
	"REPLAYED", "WAITING", "FAILED", "DISCARDED", "LOKI", "VERDICT"}

func (row *Row) cells() []string {
	cells := []string{row.Source, row.EventType}
	for _, n := range []int64{row.Files, row.Pulled, row.Rows, row.LeftOut, row.Earlier, row.Delivered, row.Refused, row.Dropped,
		row.Replayed, row.Waiting, row.Failed, row.Discarded} {
		cells = append(cells, strconv.FormatInt(n, 10))
	}
	loki := "-"
	if row.Loki != nil {
		loki = strconv.FormatInt(*row.Loki, 10)
	}
	return append(cells, loki, string(row.Verdict))
}

// about is what a finding is about.
func (f *Finding) about() string {
	var parts []string
	for _, part := range []string{f.Source, f.EventType, f.LogDate, f.File} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, " ")
}
