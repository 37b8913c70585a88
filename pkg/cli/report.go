package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"sf2loki/pkg/atomicfile"
	"sf2loki/pkg/sysexits"
)

// Count is one number of an account.
type Count struct {
	Name string
	N    int64
	Loss bool // more than none is worth a warning
}

// ReportRow is the account of one source and event type: what came In must be
// the sum of what went Out. Info are further numbers, bytes for instance.
type ReportRow struct {
	Source, EventType string
	In                Count // its name is read if it has none
	Out               []Count
	Info              []Count
}

// Account names the numbers that the account of every run has, also of one that
// ended before there was anything to count.
func (app *App) Account(names ReportRow) { app.names = names }

// Report sets the account of the run; the last one set counts. At exit its sum
// is one line of the log, a warning when it does not balance or there is a
// loss, and --report FILE gets one flat JSON object for each row
// ("scope":"event_type") and one for their sum ("scope":"run").
func (app *App) Report(rows []ReportRow) {
	app.mu.Lock()
	defer app.mu.Unlock()
	app.report = slices.Clone(rows)
	for i := range app.report {
		if app.report[i].In.Name == "" {
			app.report[i].In.Name = "read"
		}
	}
}

func (app *App) rows() []ReportRow {
	app.mu.Lock()
	defer app.mu.Unlock()
	return app.report
}

// balance is what has come in and is not accounted for.
func (r *ReportRow) balance() int64 {
	n := r.In.N
	for _, c := range r.Out {
		n -= c.N
	}
	return n
}

// sum adds up rows, in the order in which names first appear, those of first
// before all.
func sum(first ReportRow, rows []ReportRow) ReportRow {
	total := ReportRow{In: Count{Name: "read"}}
	addCounts(&total.Out, first.Out)
	addCounts(&total.Info, first.Info)
	for _, r := range rows {
		total.In.Name = r.In.Name
		total.In.N += r.In.N
		addCounts(&total.Out, r.Out)
		addCounts(&total.Info, r.Info)
	}
	return total
}

func addCounts(to *[]Count, counts []Count) {
	for _, c := range counts {
		i := slices.IndexFunc(*to, func(have Count) bool { return have.Name == c.Name })
		if i < 0 {
			*to = append(*to, c)
			continue
		}
		(*to)[i].N += c.N
		(*to)[i].Loss = (*to)[i].Loss || c.Loss
	}
}

// logAccount says the account in one line, and one more for each row that does
// not balance although the sum may.
func (app *App) logAccount() {
	rows := app.rows()
	if rows == nil {
		return
	}
	total := sum(app.names, rows)
	for _, r := range rows {
		if b := r.balance(); b != 0 {
			app.Log.Warn("account does not balance", "source", r.Source, "event_type", r.EventType, "unaccounted", b)
		}
	}
	lvl := slog.LevelInfo
	args := []any{slog.Int64(total.In.Name, total.In.N)}
	for _, c := range total.Out {
		args = append(args, slog.Int64(c.Name, c.N))
		if c.Loss && c.N > 0 {
			lvl = slog.LevelWarn
		}
	}
	for _, c := range total.Info {
		args = append(args, slog.Int64(c.Name, c.N))
	}
	if b := total.balance(); b != 0 {
		lvl = slog.LevelWarn
		args = append(args, slog.Int64("unaccounted", b))
	}
	app.Log.Log(context.Background(), lvl, "account", args...)
}

func (app *App) writeReport(code sysexits.Code) error {
	if app.common.report == "" {
		return nil
	}
	var buf bytes.Buffer
	rows := app.rows()
	for i := range rows {
		app.appendRow(&buf, "event_type", &rows[i], nil)
	}
	total := sum(app.names, rows)
	app.appendRow(&buf, "run", &total, &code)
	if err := atomicfile.Write(app.common.report, buf.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// appendRow writes one line. The account of the whole has the status and no
// source.
func (app *App) appendRow(buf *bytes.Buffer, scope string, r *ReportRow, code *sysexits.Code) {
	sep := byte('{')
	field := func(name string, v any) {
		buf.WriteByte(sep)
		sep = ','
		key, _ := json.Marshal(name)
		val, _ := json.Marshal(v) // strings and numbers only
		buf.Write(key)
		buf.WriteByte(':')
		buf.Write(val)
	}
	field("program", app.Name)
	field("run_id", app.RunID())
	field("instance", app.Instance)
	field("scope", scope)
	if code == nil {
		field("source", r.Source)
		field("event_type", r.EventType)
	} else {
		field("start", app.start.UTC().Format(time.RFC3339Nano))
		field("end", time.Now().UTC().Format(time.RFC3339Nano))
		field("status", int(*code))
	}
	if r.In.Name != "" {
		field(r.In.Name, r.In.N)
	}
	for _, c := range slices.Concat(r.Out, r.Info) {
		field(c.Name, c.N)
	}
	field("balanced", r.balance() == 0)
	buf.WriteString("}\n")
}
