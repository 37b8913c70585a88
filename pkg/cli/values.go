package cli

import (
	"flag"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"sf2loki/pkg/record"
)

// value is a flag.Value made of two functions.
type value struct {
	set func(string) error
	get func() string
}

func (v *value) Set(s string) error { return v.set(s) }
func (v *value) String() string {
	if v.get == nil { // the zero value that package flag makes for itself
		return ""
	}
	return v.get()
}

// parsed declares a flag whose text parse turns into a T.
func parsed[T any](fs *flag.FlagSet, p *T, name, usage string, parse func(string) (T, error), format func(T) string) {
	set := func(s string) (err error) {
		v, err := parse(s)
		if err == nil {
			*p = v
		}
		return err
	}
	fs.Var(&value{set, func() string { return format(*p) }}, name, usage)
}

// DurationVar declares a flag for a duration as ParseDuration reads it.
func DurationVar(fs *flag.FlagSet, p *time.Duration, name string, def time.Duration, usage string) {
	*p = def
	parsed(fs, p, name, usage, ParseDuration, FormatDuration)
}

// SizeVar declares a flag for a number of bytes as ParseSize reads it.
func SizeVar(fs *flag.FlagSet, p *int64, name string, def int64, usage string) {
	*p = def
	parsed(fs, p, name, usage, ParseSize, FormatSize)
}

// TimeVar declares a flag for a point in time as ParseTime reads it. The zero
// time means that it was not given.
func TimeVar(fs *flag.FlagSet, p *time.Time, name, usage string) {
	parsed(fs, p, name, usage, ParseTime, formatTime)
}

// TimeOrAgeVar is TimeVar that also takes an age, as 7d, counted back from now. The
// times are bounds, of any year.
func TimeOrAgeVar(fs *flag.FlagSet, p *time.Time, name, usage string, now func() time.Time) {
	parse := func(s string) (time.Time, error) {
		if t, err := anyTime(s); err == nil {
			return t, nil
		}
		if d, err := ParseDuration(s); err == nil {
			return now().Add(-d).UTC(), nil
		}
		return time.Time{}, fmt.Errorf("%q is no time, date or age: write 2026-07-01T10:00:00Z, 2026-07-01 or 7d", s)
	}
	parsed(fs, p, name, usage, parse, formatTime)
}

// EnumVar declares a flag that takes one of the words.
func EnumVar(fs *flag.FlagSet, p *string, name, def, usage string, words ...string) {
	*p = def
	set := func(s string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("it may be %s", strings.Join(words, ", "))
		}
		*p = s
		return nil
	}
	fs.Var(&value{set, func() string { return *p }}, name, usage+" ("+strings.Join(words, ", ")+")")
}

// ListVar declares a flag that may be repeated and takes several items
// separated by commas. What *p held before is its default, replaced by the
// first value given.
func ListVar(fs *flag.FlagSet, p *[]string, name, usage string) { listVar(fs, p, name, usage, ",") }

// RepeatVar is ListVar for items that contain commas: in the environment and
// in a configuration file several items are separated by line feeds, or by
// repeating the line.
func RepeatVar(fs *flag.FlagSet, p *[]string, name, usage string) { listVar(fs, p, name, usage, "\n") }

func listVar(fs *flag.FlagSet, p *[]string, name, usage, sep string) {
	given := false
	set := func(s string) error {
		if !given {
			*p, given = nil, true
		}
		for item := range strings.SplitSeq(s, sep) {
			if item = strings.TrimSpace(item); item != "" {
				*p = append(*p, item)
			}
		}
		return nil
	}
	fs.Var(&value{set, func() string { return strings.Join(*p, sep) }}, name, usage)
}

// durationUnits has ms before m, which begins it.
var durationUnits = []struct {
	name string
	unit time.Duration
}{
	{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}, {"h", time.Hour}, {"ms", time.Millisecond},
	{"m", time.Minute}, {"s", time.Second}, {"us", time.Microsecond}, {"ns", 1},
}

// cutUnit takes the unit off the beginning of s.
func cutUnit(s string) (unit time.Duration, rest string, ok bool) {
	for _, u := range durationUnits {
		if rest, ok := strings.CutPrefix(s, u.name); ok {
			return u.unit, rest, true
		}
	}
	return 0, s, false
}

// ParseDuration reads 90s, 5m, 1h30m, 7d, 2w, 1.5h and a plain 0; never a
// negative one.
func ParseDuration(s string) (time.Duration, error) {
	bad := fmt.Errorf("%.80q is no duration: write 90s, 5m, 1h30m, 7d or 0", s)
	if s == "0" {
		return 0, nil
	}
	if s == "" {
		return 0, bad
	}
	total := new(big.Rat)
	for rest := s; rest != ""; {
		n := len(rest) - len(strings.TrimLeft(rest, "0123456789."))
		amount, isNumber := new(big.Rat).SetString(rest[:n])
		unit, after, ok := cutUnit(rest[n:])
		if !isNumber || !ok {
			return 0, bad
		}
		total.Add(total, amount.Mul(amount, new(big.Rat).SetInt64(int64(unit))))
		rest = after
	}
	total.Add(total, big.NewRat(1, 2)) // to the nearest nanosecond
	whole := new(big.Int).Quo(total.Num(), total.Denom())
	if !whole.IsInt64() {
		return 0, fmt.Errorf("%.80q is too long", s)
	}
	return time.Duration(whole.Int64()), nil
}

// FormatDuration writes d as ParseDuration reads it: 7d, 1h30m, 250ms.
func FormatDuration(d time.Duration) string {
	if d%time.Second != 0 {
		return strings.Replace(d.String(), "µ", "u", 1)
	}
	text := ""
	for _, u := range []struct {
		name string
		unit time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		if n := d / u.unit; n != 0 {
			text += strconv.FormatInt(int64(n), 10) + u.name
			d -= n * u.unit
		}
	}
	if text == "" {
		return "0"
	}
	return text
}

var sizeUnits = []struct {
	name string
	unit int64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12}, {"b", 1},
}

// ParseSize reads 8MiB, 64kB, 1.5GiB and plain bytes. A bare k or M is refused:
// half of its readers take it for the other unit.
func ParseSize(s string) (int64, error) {
	number, unit := strings.ToLower(s), int64(1)
	for _, u := range sizeUnits {
		if n, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimRight(n, " "), u.unit
			break
		}
	}
	n, ok := new(big.Rat).SetString(number)
	if ok && strings.Trim(number, "0123456789.") == "" {
		n.Mul(n, new(big.Rat).SetInt64(unit))
		if n.IsInt() && n.Num().IsInt64() {
			return n.Num().Int64(), nil
		}
	}
	return 0, fmt.Errorf("%.80q is no size: write 8MiB, 64kB or a number of bytes", s)
}

// FormatSize writes n in the largest unit that divides it.
func FormatSize(n int64) string {
	for _, u := range []struct {
		name string
		unit int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"MB", 1e6}, {"kB", 1e3}} {
		if n != 0 && n%u.unit == 0 {
			return strconv.FormatInt(n/u.unit, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// ParseTime reads RFC 3339 with any offset and fraction, also without seconds,
// and a date, which is its midnight in UTC. Years that nanoseconds since the epoch
// have no number for are refused.
func ParseTime(s string) (time.Time, error) {
	t, err := anyTime(s)
	if err == nil && !record.Countable(t) {
		return time.Time{}, fmt.Errorf("%.80q is no time between 1700 and 2200", s)
	}
	return t, err
}

func anyTime(s string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%.80q is no time: write 2026-07-01T10:00:00Z or 2026-07-01", s)
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}
