package cli

import (
	"flag"
	"slices"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	good := map[string]time.Duration{
		"0": 0, "90s": 90 * time.Second, "5m": 5 * time.Minute, "7d": 7 * day, "2w": 14 * day,
		"1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute, "250ms": 250 * time.Millisecond, "1d12h": 36 * time.Hour,
		"10us": 10 * time.Microsecond, "0s": 0, "010s": 10 * time.Second,
	}
	for s, want := range good {
		got, err := ParseDuration(s)
		if err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", s, got, err, want)
		}
		if again, err := ParseDuration(FormatDuration(got)); err != nil || again != got {
			t.Errorf("%v is written %q, which reads as %v, %v", got, FormatDuration(got), again, err)
		}
	}
	for _, s := range []string{"", "5", "-5m", "+5m", "m", "5 m", "5x", "1..5s", "5m3", "9999999w", "1e3s", "5m ", "NaNs"} {
		if d, err := ParseDuration(s); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", s, d)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0": 0, "7d": 168 * time.Hour, "1h30m": 90 * time.Minute, "25s": 25 * time.Second, "1h": time.Hour,
		"200ms": 200 * time.Millisecond, "1d2h": 26 * time.Hour,
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("FormatDuration(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestParseSize(t *testing.T) {
	good := map[string]int64{
		"0": 0, "512": 512, "8MiB": 8 << 20, "64kB": 64000, "256KiB": 256 << 10, "1GiB": 1 << 30, "1.5MB": 1500000, "010": 10,
		"10 MB": 10e6, "100B": 100, "2tib": 2 << 40, "9223372036854775807": 9223372036854775807,
	}
	for s, want := range good {
		got, err := ParseSize(s)
		if err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", s, got, err, want)
		}
		if again, err := ParseSize(FormatSize(got)); err != nil || again != got {
			t.Errorf("%d is written %q, which reads as %d, %v", got, FormatSize(got), again, err)
		}
	}
	for _, s := range []string{"", "k", "5k", "5M", "-1", "+1", "1.5", "1e3", "0x10", "MiB", "99999999TiB", "9223372036854775808", "inf"} {
		if n, err := ParseSize(s); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", s, n)
		}
	}
}

func TestParseTime(t *testing.T) {
	good := map[string]string{
		"2026-07-01":                     "2026-07-01T00:00:00Z",
		"2026-07-01T10:00:00Z":           "2026-07-01T10:00:00Z",
		"2026-07-01T10:00:00.5+02:00":    "2026-07-01T08:00:00.5Z",
		"2026-07-01T10:00Z":              "2026-07-01T10:00:00Z",
		"2026-07-01T10:00:00.123456789Z": "2026-07-01T10:00:00.123456789Z",
		"1700-01-01":                     "1700-01-01T00:00:00Z",
	}
	for s, want := range good {
		got, err := ParseTime(s)
		if err != nil || got.Format(time.RFC3339Nano) != want {
			t.Errorf("ParseTime(%q) = %v, %v, want %s", s, got, err, want)
		}
	}
	for _, s := range []string{"", "yesterday", "2026-07-01T10:00:00", "2026-7-1", "7d", "1782936000", "0001-01-01", "1600-01-01", "2300-01-01T00:00:00Z"} {
		if got, err := ParseTime(s); err == nil {
			t.Errorf("ParseTime(%q) = %v, want an error", s, got)
		}
	}
}

func TestTimeOrAge(t *testing.T) {
	now := time.Date(2026, 7, 8, 12, 0, 0, 0, time.UTC)
	var got time.Time
	fs := flag.NewFlagSet("x", flag.ContinueOnError)
	TimeOrAgeVar(fs, &got, "since", "", func() time.Time { return now })
	for s, want := range map[string]time.Time{"7d": now.AddDate(0, 0, -7), "2026-07-01": time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)} {
		if err := fs.Set("since", s); err != nil || !got.Equal(want) {
			t.Errorf("%s = %v, %v, want %v", s, got, err, want)
		}
	}
	if err := fs.Set("since", "soon"); err == nil {
		t.Error("soon was taken for a time")
	}
}

func TestLists(t *testing.T) {
	list, repeat := []string{"default"}, []string(nil)
	fs := flag.NewFlagSet("x", flag.ContinueOnError)
	ListVar(fs, &list, "list", "")
	RepeatVar(fs, &repeat, "repeat", "")
	if err := fs.Parse([]string{"-list=a, b", "-list", "c", "-repeat", "a,b", "-repeat", "c\nd"}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(list, want) {
		t.Errorf("list = %q, want %q", list, want)
	}
	if want := []string{"a,b", "c", "d"}; !slices.Equal(repeat, want) {
		t.Errorf("repeat = %q, want %q", repeat, want)
	}
}

func TestParseLine(t *testing.T) {
	null := "\x00"
	tests := []struct{ line, name, value string }{
		{"", "", null}, {"  # note", "", null}, {"url", "url", null},
		{"url http://x/#a", "url", "http://x/#a"}, {"url = http://x", "url", "http://x"}, {"url=http://x", "url", "http://x"},
		{"label k=v", "label", "k=v"}, {"label=k=v", "label", "k=v"}, {`label "k= v"`, "label", "k= v"},
		{`x ""`, "x", ""}, {"x =", "x", ""}, {"x\ty z", "x", "y z"}, {"  x 1 # 2  ", "x", "1 # 2"},
	}
	for _, tt := range tests {
		name, value, err := parseLine(tt.line)
		got := null
		if value != nil {
			got = *value
		}
		if err != nil || name != tt.name || got != tt.value {
			t.Errorf("parseLine(%q) = %q, %q, %v, want %q, %q", tt.line, name, got, err, tt.name, tt.value)
		}
	}
	for _, line := range []string{"= x", `x "open`, `x "a" b`} {
		if name, _, err := parseLine(line); err == nil {
			t.Errorf("parseLine(%q) = %q, want an error", line, name)
		}
	}
}
