package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"sf2loki/pkg/sysexits"
)

// Table prints rows in columns, for people: programs ask for --json.
type Table struct{ w *tabwriter.Writer }

// NewTable begins a table on stdout. Without names it has no heading; names
// that are printed are capitals.
func (app *App) NewTable(names ...string) *Table {
	t := &Table{tabwriter.NewWriter(app.Stdout, 0, 8, 2, ' ', 0)}
	if len(names) > 0 {
		fmt.Fprintln(t.w, strings.ToUpper(strings.Join(names, "\t")))
	}
	return t
}

// Row adds a row. Texts are printed so that no terminal obeys them, times in
// UTC to the second; what is empty, or no time, is a dash.
func (t *Table) Row(cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = cellText(cell)
	}
	fmt.Fprintln(t.w, strings.Join(texts, "\t"))
}

func cellText(cell any) string {
	switch c := cell.(type) {
	case *time.Time:
		if c == nil {
			return "-"
		}
		return cellText(*c)
	case time.Time:
		if c.IsZero() {
			return "-"
		}
		return c.UTC().Format("2006-01-02T15:04:05Z")
	}
	if text := Printable(fmt.Sprint(cell)); text != "" {
		return text
	}
	return "-"
}

// Flush prints the table.
func (t *Table) Flush() error { return t.w.Flush() }

// PrintFinding prints what a doctor or a probe found: a line that begins with
// PASS, WARN, FAIL or SKIP, below it the cure; or an object of JSON.
func (app *App) PrintFinding(asJSON bool, check, level, detail, cure string, code sysexits.Code) error {
	detail, cure = app.Secrets.HideLong(detail), app.Secrets.HideLong(cure)
	if asJSON {
		return json.NewEncoder(app.Stdout).Encode(struct {
			Check  string `json:"check"`
			Level  string `json:"level"`
			Detail string `json:"detail"`
			Cure   string `json:"cure,omitempty"`
			Status int    `json:"status"`
		}{check, level, detail, cure, int(code)})
	}
	text := fmt.Sprintf("%s  %s: %s\n", level, check, detail)
	if cure != "" {
		text += fmt.Sprintf("      %s\n", cure)
	}
	_, err := app.Stdout.WriteString(text)
	return err
}
