package sobject

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/sftest"
	"sf2loki/pkg/shape"
)

// shaped has the rules, and what else shapes records, applied by new processes.
func (b *bench) shaped(cfg shape.Config, rules string) {
	b.t.Helper()
	if rules != "" {
		t, err := shape.ParseTransforms([]byte(rules), SourceLabel, []byte("pepper"))
		if err != nil {
			b.t.Fatal(err)
		}
		cfg.Transforms = t
	}
	sh, err := shape.New(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.config = func(c *Config) { c.Shape, c.Overlap = sh, 0 }
}

func TestRules(t *testing.T) {
	b := newBench(t)
	at := b.ago(2 * time.Hour).Truncate(time.Second)
	for i, ip := range []string{"203.0.113.7", "10.0.0.1", ""} {
		row := sftest.Row{"UserId": b.org.UserID, "LoginTime": at.Add(time.Duration(i) * time.Second), "Status": "Success", "SourceIp": ip}
		if ip == "" {
			delete(row, "SourceIp")
		}
		b.org.Insert("LoginHistory", row)
	}
	columns, err := shape.ParseLabelColumns([]string{"loginhistory=Status"})
	if err != nil {
		t.Fatal(err)
	}
	b.shaped(shape.Config{LabelColumns: columns, LabelValues: 3}, `
eventlog_objects:
  - {action: drop_row, match: {SourceIp: '10.*'}}
  - {action: hash, fields: [SourceIp]}
  - {action: drop_field, fields: [Id, UserId]}
  - {action: mask, fields: [NoSuch]}
`)
	rows := b.must("LoginHistory", "SetupAuditTrail")
	if len(rows) != 2 {
		t.Fatalf("rows: %+v", rows)
	}
	for i, want := range []any{"8fc212f188c11cc3", nil} {
		var row map[string]any
		if err := json.Unmarshal([]byte(rows[i].Line), &row); err != nil {
			t.Fatal(err)
		}
		if _, id := row["Id"]; id || row["SourceIp"] != want || row["LoginTime"] == nil || rows[i].Labels["Status"] != "Success" {
			t.Errorf("row %d: %s of %v", i, rows[i].Line, rows[i].Labels)
		}
	}
	for _, c := range b.last.Stats().Totals().Types {
		if c.EventType == "LoginHistory" && (c.Read != 3 || c.Written != 2 || c.Filtered != 1) {
			t.Errorf("counts: %+v", c)
		}
	}
	if n := strings.Count(b.log.String(), "column=NoSuch"); n != 1 {
		t.Errorf("the missing column is told %d times", n)
	}
	if rest := b.must("LoginHistory", "SetupAuditTrail"); len(rest) != 0 {
		t.Errorf("again: %+v", rest)
	}
}

// Rows that are all left out move the position too.
func TestLeftOutMoves(t *testing.T) { // #64
	for _, object := range []string{"LoginHistory", "LoginEvent"} {
		b := newBench(t)
		if object == "LoginEvent" {
			b.events(7, 0, false, b.ago(2*time.Hour), time.Second)
		} else {
			b.logins(7, b.ago(2*time.Hour), time.Second)
		}
		b.shaped(shape.Config{}, `eventlog_objects: [{action: drop_row, match: {Status: '*'}}]`)
		if rows := b.must(object); len(rows) != 0 {
			t.Fatalf("%s: rows %+v", object, rows)
		}
		c := b.last.Stats().Totals().Types[0]
		if c.Read != 7 || c.Filtered != 7 {
			t.Errorf("%s: counts %+v", object, c)
		}
		b.shaped(shape.Config{}, "")
		if rows := b.must(object); len(rows) != 0 {
			t.Errorf("%s: the rows come again: %d", object, len(rows))
		}
	}
}

// A Big Object's rows, which all have one Id, go into the sample by their
// EventIdentifiers.
func TestSample(t *testing.T) {
	rates, err := shape.ParseRates([]string{"Login*=0.5"})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range []string{"LoginHistory", "LoginEvent"} {
		b := newBench(t)
		if object == "LoginEvent" {
			b.events(40, 0, false, b.ago(2*time.Hour), time.Second)
		} else {
			b.logins(40, b.ago(2*time.Hour), time.Second)
		}
		b.shaped(shape.Config{Rates: rates}, "")
		n := len(b.must(object))
		c := b.last.Stats().Totals().Types[0]
		if n < 8 || n > 32 || c.SampledOut != int64(40-n) || c.Written != int64(n) {
			t.Errorf("%s: %d rows, counts %+v", object, n, c)
		}
	}
}
