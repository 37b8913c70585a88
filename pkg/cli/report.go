package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"sf2loki/pkg/atomicfile"
	"sf2loki/pkg/sysexits"
)

// Count is one number of an account.
type Count struct {
	Name string
	N    int64
	Loss bool // more than none is worth a warning
	Now  bool // what it is at the moment, so that it can become less
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

// Report sets what tells the account of the run; the last one set counts. At
// exit its sum is one line of the log, a warning when there is a loss, and
// --report FILE gets one flat JSON object for each row ("scope":"event_type")
// and one for their sum ("scope":"run"). An account that does not balance makes
// the status 70. rows may be called at any time, from any goroutine: metrics
// show the account while the program runs.
func (app *App) Report(rows func() []ReportRow) {
	app.mu.Lock()
	first := app.report == nil
	app.report = rows
	app.mu.Unlock()
	if first {
		app.Metrics.Collect(app.collectAccount)
	}
}

// rows is the account as it is now; nil when the program has none.
func (app *App) rows() []ReportRow {
	app.mu.Lock()
	report := app.report
	app.mu.Unlock()
	if report == nil {
		return nil
	}
	rows := slices.Clone(report())
	for i := range rows {
		if rows[i].In.Name == "" {
			rows[i].In.Name = "read"
		}
	}
	if rows == nil {
		rows = []ReportRow{}
	}
	return rows
}

// collectAccount has the account in the metrics. The sum of a program that has
// counted nothing stands for all rows to come, at zero.
func (app *App) collectAccount(s *Samples) {
	rows := app.rows()
	if len(rows) == 0 {
		rows = []ReportRow{sum(app.names, nil)}
	}
	for _, r := range rows {
		for _, c := range append([]Count{r.In}, r.Out...) {
			if !c.Now {
				s.Counter("account_entries_total", "The account: what came in, and what became of it.", float64(c.N),
					"program", app.Name, "source", r.Source, "event_type", r.EventType, "fate", c.Name)
			}
		}
	}
}

// imbalance is what is wrong with the account, an error of status 70: an entry
// without a fate, or with more than one.
func imbalance(rows []ReportRow) error {
	for i := range rows {
		r := &rows[i]
		if r.balanced() {
			continue
		}
		var what []string
		switch b := r.balance(); {
		case b > 0:
			what = append(what, fmt.Sprintf("%d of %d %s have no fate", b, r.In.N, r.In.Name))
		case b < 0:
			what = append(what, fmt.Sprintf("%d %s have %d fates", r.In.N, r.In.Name, r.In.N-b))
		}
		for _, c := range r.Out {
			if c.N < 0 {
				what = append(what, fmt.Sprintf("%s is %d", c.Name, c.N))
			}
		}
		return sysexits.Errorf(sysexits.Software, "the account of source %q, event type %q does not balance: %s: this is a bug",
			r.Source, r.EventType, strings.Join(what, ", "))
	}
	return nil
}

// balanced tells whether each that has come in has one fate: a number below
// zero is of one that had a second.
func (r *ReportRow) balanced() bool {
	return r.balance() == 0 && !slices.ContainsFunc(r.Out, func(c Count) bool { return c.N < 0 })
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
	total := ReportRow{In: Count{Name: cmp.Or(first.In.Name, "read")}}
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

// logAccount says the account in one line.
func (app *App) logAccount(rows []ReportRow) {
	if rows == nil {
		return
	}
	total := sum(app.names, rows)
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
	if imbalance(rows) != nil {
		lvl = slog.LevelWarn
		args = append(args, slog.Int64("unaccounted", total.balance()))
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
		app.appendRow(&buf, "event_type", &rows[i], nil, rows[i].balanced())
	}
	total := sum(app.names, rows)
	app.appendRow(&buf, "run", &total, &code, imbalance(rows) == nil)
	if err := atomicfile.Replace(app.common.report, buf.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// appendRow writes one line. The account of the whole has the status and no
// source.
func (app *App) appendRow(buf *bytes.Buffer, scope string, r *ReportRow, code *sysexits.Code, balanced bool) {
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
	field("balanced", balanced)
	buf.WriteString("}\n")
}
