package cli

import (
	"bytes"
	"flag"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"sf2loki/pkg/errtest"
)

// Durations are those of package time, with weeks and days; each is read as it
// is written.
func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{
		"0", "1h30m", "7d", "2w1d", "1.5h", ".5s", "5.s", "250ms10us3ns", "0.4ns", "0.5ns", "106751d23h47m16.854775807s", "106751d23h47m16.854775808s",
		"9999999999999w", "1..5s", "-1s", "1e3s", "5", "1h ", "1µs", "", strings.Repeat("7", 5000) + "x",
	} {
		f.Add(s, int64(len(s)))
	}
	f.Add("1s", int64(math.MaxInt64))
	f.Add("1s", int64(math.MaxInt64-1e9))
	f.Fuzz(func(t *testing.T, s string, n int64) {
		d, err := ParseDuration(s)
		if err != nil {
			errtest.OneLine(t, err)
		}
		want, wantErr := time.ParseDuration(s)
		plain := s != "" && strings.Trim(s, "0123456789.hmsun") == "" // no sign, no µ, no days
		if plain && (err == nil) != (wantErr == nil) && max(d, want) < math.MaxInt64-1000 {
			t.Fatalf("%q is %v, %v; package time says %v, %v", s, d, err, want, wantErr)
		}
		if plain && err == nil && wantErr == nil && (d-want).Abs() > time.Duration(len(s)) { // it cuts each part
			t.Fatalf("%q is %v, package time says %v", s, d, want)
		}
		if !plain && err == nil && strings.Trim(s, "0123456789.hmsundw") != "" {
			t.Fatalf("%q is %v", s, d)
		}
		for _, d := range []time.Duration{d, time.Duration(max(n, 0))} {
			if again, err := ParseDuration(FormatDuration(d)); err != nil || again != d {
				t.Fatalf("%d is written %q, which reads as %d, %v", d, FormatDuration(d), again, err)
			}
		}
	})
}

var sizeForm = regexp.MustCompile(`^(\d+\.?\d*|\.\d+)(?: *(?i:([kmgt]?)(i?)b))?$`)

// exactSize is the size that s says, by other means than ParseSize.
func exactSize(s string) (n int64, ok bool) {
	m := sizeForm.FindStringSubmatch(s)
	if m == nil || m[2] == "" && m[3] != "" {
		return 0, false
	}
	base := int64(1000)
	if m[3] != "" {
		base = 1024
	}
	unit := new(big.Int).Exp(big.NewInt(base), big.NewInt(int64(strings.Index("kmgt", strings.ToLower(m[2]))+1)), nil)
	if m[2] == "" {
		unit.SetInt64(1)
	}
	number, fraction, _ := strings.Cut(m[1], ".")
	digits, _ := new(big.Int).SetString("0"+number+fraction, 10)
	part := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(len(fraction))), nil)
	whole, rest := new(big.Int).QuoRem(digits.Mul(digits, unit), part, new(big.Int))
	return whole.Int64(), whole.IsInt64() && rest.Sign() == 0
}

// Sizes are the products of a number and a unit, and read as they are written.
func FuzzParseSize(f *testing.F) {
	for _, s := range []string{
		"0", "8MiB", "64kB", "1.5GiB", "512", "9007199254740993.0", "7.99TiB", "0.001kB", "0.0001kB", "1 MiB", "5k", "-1", "+1", "1e3", "0x10", "1_0", "1/2",
		"MiB", "b", "ib", "5ib", "010", "9223372036854775807", "9223372036854775808", "99999999TiB", "", strings.Repeat("7", 5000),
	} {
		f.Add(s, int64(len(s)))
	}
	f.Add("1KIB", int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, s string, n int64) {
		size, err := ParseSize(s)
		if err != nil {
			errtest.OneLine(t, err)
		}
		if want, ok := exactSize(s); ok != (err == nil) || ok && size != want {
			t.Fatalf("%q is %d, %v, want %d, %v", s, size, err, want, ok)
		}
		for _, n := range []int64{size, max(n, 0)} {
			if again, err := ParseSize(FormatSize(n)); err != nil || again != n {
				t.Fatalf("%d is written %q, which reads as %d, %v", n, FormatSize(n), again, err)
			}
		}
	})
}

// A file is refused at one of its lines, or sets what its lines say: those of
// another subcommand's flags nothing.
func FuzzConfig(f *testing.F) {
	for _, s := range []string{
		"url http://x/#a\n# note\n\nlabel = a=b\nlabel c=d\n", "follow", "follow false\n", "follow = \"maybe\"\n", "url", "url \"x", `url "a\tb" # no`, "other 1\n", "config x",
		"= x", "nothing 1", "poll 5x", "poll 5m\r\n", "url\u2028x", strings.Repeat("n", 5000) + " x", "poll " + strings.Repeat("7", 5000), "url \x00\n", "url \"\\x00\\n\"",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fs := flag.NewFlagSet("a", flag.ContinueOnError)
		url := fs.String("url", "", "")
		fs.Bool("follow", false, "")
		var labels []string
		var poll time.Duration
		RepeatVar(fs, &labels, "label", "")
		DurationVar(fs, &poll, "poll", 0, "")
		fs.String("config", "", "")
		other := flag.NewFlagSet("b", flag.ContinueOnError)
		other.String("other", "", "")
		root := &ffcli.Command{Name: "p", Subcommands: []*ffcli.Command{{Name: "a", FlagSet: fs}, {Name: "b", FlagSet: other}}}
		wantURL := ""
		err := parseLines("f", text, root, fs, func(name, value string) error {
			if name == "url" {
				wantURL = value
			}
			return fs.Set(name, value)
		})
		if err != nil {
			errtest.OneLine(t, err)
			if line, _, ok := strings.Cut(strings.TrimPrefix(err.Error(), "f:"), ":"); !ok || len(line) > len(strconv.Itoa(len(text))) {
				t.Fatalf("no line: %v", err)
			}
			return
		}
		if *url != wantURL {
			t.Fatalf("url is %q, and not %q", *url, wantURL)
		}
		for line := range strings.Lines(text) {
			name, value, err := parseLine(line)
			if err != nil || name != "" && fs.Lookup(name) == nil && name != "other" {
				t.Fatalf("%q was taken: %v", line, err)
			}
			if value == nil {
				continue
			}
			if _, again, err := parseLine(name + "=" + strconv.Quote(*value)); err != nil || *again != *value {
				t.Fatalf("%q of %q is not the same in quotes", *value, line)
			}
		}
	})
}

// Counters go on from whatever the file holds, into a file that can be read
// again.
func FuzzTextfile(f *testing.F) {
	for _, s := range []string{
		"# TYPE sf2loki_a_total counter\nsf2loki_a_total{instance_name=\"i\",x=\"1\"} 5\nsf2loki_a_total{instance_name=\"i\",x=\"2\"} 7\nsf2loki_a_total{instance_name=\"j\"} 9\n",
		"# TYPE sf2loki_h histogram\nsf2loki_h_bucket{instance_name=\"i\",le=\"1\"} 2\nsf2loki_h_bucket{instance_name=\"i\",le=\"+Inf\"} 3\nsf2loki_h_sum{instance_name=\"i\"} 4\nsf2loki_h_count{instance_name=\"i\"} 3\n",
		"# TYPE sf2loki_a_total gauge\nsf2loki_a_total 5\n", "sf2loki_a_total{x=\"1\"} NaN\n", "sf2loki_a_total " + strings.Repeat("x", 5000) + "\n", "# TYPE sf2loki_a_total counter\nsf2loki_a_total{instance_name=\"i\"} -1\nsf2loki_a_total{instance_name=\"i\"} +Inf\n",
		"# TYPE sf2loki_h histogram\nsf2loki_h_count{instance_name=\"i\"} -3\n", "", "{", "# HELP sf2loki_a_total x\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "m")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		base, err := readTextfile(path)
		if err != nil {
			errtest.OneLine(t, err)
			return
		}
		var buf bytes.Buffer
		for _, family := range gathered() {
			base.addTo(family, "i")
			if _, err := expfmt.MetricFamilyToText(&buf, family); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(path, buf.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := readTextfile(path)
		if err != nil {
			t.Fatalf("%s: %v", buf.Bytes(), err)
		}
		seen := map[string]bool{}
		for _, series := range again["sf2loki_a_total"].GetMetric() {
			if key := labelKey(series); seen[key] || !(series.Counter.GetValue() >= 1) && labelValue(series, "x") == "1" {
				t.Fatalf("%s: %s twice, or less than before", buf.Bytes(), key)
			} else {
				seen[key] = true
			}
		}
	})
}

// gathered is a counter and a histogram, as a run has them.
func gathered() []*dto.MetricFamily {
	labels := []*dto.LabelPair{{Name: ptr("x"), Value: ptr("1")}, {Name: ptr("instance_name"), Value: ptr("i")}}
	return []*dto.MetricFamily{
		{Name: ptr("sf2loki_a_total"), Type: dto.MetricType_COUNTER.Enum(), Metric: []*dto.Metric{{Label: labels, Counter: &dto.Counter{Value: ptr(1.0)}}}},
		{Name: ptr("sf2loki_h"), Type: dto.MetricType_HISTOGRAM.Enum(), Metric: []*dto.Metric{{Label: labels[1:], Histogram: &dto.Histogram{
			SampleCount: ptr(uint64(2)), SampleSum: ptr(1.5), Bucket: []*dto.Bucket{{UpperBound: ptr(1.0), CumulativeCount: ptr(uint64(1))}}}}}},
	}
}

func ptr[T any](v T) *T { return &v }
