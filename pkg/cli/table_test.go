package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTable(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	app := &App{Stdout: out}
	at := time.Date(2026, 7, 1, 10, 0, 0, 5, time.FixedZone("x", 3600))
	table := app.NewTable("key", "last record", "n")
	table.Row("a\x1b[2J", at, 7)
	table.Row("", (*time.Time)(nil), int64(0))
	table.Row("long key", &at, "")
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	bare := app.NewTable()
	bare.Row("only", 1)
	if err := bare.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := app.PrintFinding(false, "login", "FAIL", "no", "do it", 77); err != nil {
		t.Fatal(err)
	}
	if err := app.PrintFinding(true, "login", "PASS", "yes", "", 0); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	want := "KEY         LAST RECORD           N\n" +
		`"a\x1b[2J"  2026-07-01T09:00:00Z  7` + "\n" +
		"-           -                     0\n" +
		"long key    2026-07-01T09:00:00Z  -\n" +
		"only  1\n" +
		"FAIL  login: no\n      do it\n" +
		`{"check":"login","level":"PASS","detail":"yes","status":0}` + "\n"
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPace(t *testing.T) {
	now := time.Unix(0, 0)
	p := &Pace{now: func() time.Time { return now }, samples: []paceSample{{at: now}}}
	for _, tt := range []struct {
		after       time.Duration
		done, total int64
		want        string
	}{
		{0, 0, 100, "0/s, no end in sight"},
		{10 * time.Second, 20, 100, "2.0/s, 40s left"},
		{10 * time.Second, 2000, 0, "100/s"},
		{10 * time.Second, 3000, 1003000, "100/s, 2h46m left"},
		{time.Minute, 3000, 9000, "0/s, no end in sight"},
		{10 * time.Second, 9000, 9000, "86/s"},
	} {
		now = now.Add(tt.after)
		if got := p.Text(tt.done, tt.total); got != tt.want {
			t.Errorf("%d of %d: %q, want %q", tt.done, tt.total, got, tt.want)
		}
	}
}
