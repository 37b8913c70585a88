package main

import (
	"os"
	"strings"
	"testing"

	"sf2loki/pkg/spool"
	"sf2loki/pkg/spool/table"
)

// queries are those of the manual page.
func queries(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../man/sf2loki-deadletter.5")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(page), "\n.Ss Queries\n")
	section, _, _ = strings.Cut(section, "\n.Sh ")
	var found []string
	for _, part := range strings.Split(section, ".Bd -literal -offset indent\n")[1:] {
		text, _, closed := strings.Cut(part, "\n.Ed")
		ok = ok && closed
		found = append(found, strings.TrimSuffix(text, ";"))
	}
	if !ok || len(found) == 0 {
		t.Fatal("no queries in the page")
	}
	return found
}

// Every query of the manual runs as it is printed.
func TestManualQueries(t *testing.T) {
	b := newBench(t)
	b.capture(0, 60)
	b.settle(6)
	b.appendLetters()
	for file, format := range map[string]string{"letters.parquet": table.Parquet, "letters.db": table.SQLite} {
		f, err := table.Create(b.path(file), format, "test")
		if err != nil {
			t.Fatal(err)
		}
		set := b.find()
		for _, file := range set.Files {
			_, err := file.Read(func(l *spool.Letter, s spool.Status) error {
				row := table.RowOf(file.Path, l, s)
				if row.FileLine == 7 {
					row.Attempts = 2
				}
				return f.Write(&row)
			}, func(d *spool.Damage) { t.Error(d) })
			if err != nil {
				t.Fatal(err)
			}
		}
		set.Close()
		if err := f.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		`["line_too_long","API","10"`,
		`["bad_request","API","9","2026-11-01 12:00:00.123456+00"]`,
		"0AT000000000000|60|too_old,line_too_long,bad_request",
		"|2|too_old|too_old|",
		`["new","54"]`,
	}
	all := queries(t)
	if len(all) != len(want) {
		t.Fatalf("%d queries, want %d", len(all), len(want))
	}
	for i, query := range all {
		var got string
		if strings.Contains(query, "from dead_letters") {
			got = b.output(b.cmd("sqlite3", "-readonly", "letters.db", query))
		} else {
			got = strings.Join(b.duck(query), "\n")
		}
		if !strings.Contains(got, want[i]) {
			t.Errorf("%s\ngives %s\nwithout %s", query, got, want[i])
		}
	}
}
