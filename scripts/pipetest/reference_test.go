package pipetest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// An entry is what a store has to hold for a row. It is comparable.
type entry struct {
	nanos            int64
	labels, metadata string
	line             string
}

func (e entry) String() string {
	return fmt.Sprintf("%s {%s} {%s} %.120s", time.Unix(0, e.nanos).UTC().Format(time.RFC3339Nano), e.labels, e.metadata, e.line)
}

// tally counts entries.
type tally map[entry]int

func (t tally) add(e entry) { t[e]++ }

func (t tally) total() (n int) {
	for _, c := range t {
		n += c
	}
	return n
}

// folded has each entry once.
func (t tally) folded() tally {
	f := tally{}
	for e := range t {
		f[e] = 1
	}
	return f
}

// same fails unless got is want.
func same(t *testing.T, what string, got, want tally) {
	t.Helper()
	if maps.Equal(got, want) {
		return
	}
	var diff []string
	for e, n := range want {
		if got[e] != n {
			diff = append(diff, fmt.Sprintf("%d of %d: %v", got[e], n, e))
		}
	}
	for e, n := range got {
		if want[e] == 0 {
			diff = append(diff, fmt.Sprintf("%d of none: %v", n, e))
		}
	}
	slices.Sort(diff)
	t.Errorf("%s: %d entries, want %d; %d differ:\n%s", what, got.total(), want.total(), len(diff), strings.Join(diff[:min(len(diff), 4)], "\n"))
}

// pairs writes labels in the order of their names.
func pairs(m map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, "%s=%q,", name, m[name])
	}
	return strings.TrimSuffix(b.String(), ",")
}

// cells splits a file into its rows. It is a plain reading of RFC 4180, with
// blank lines left out, and what follows the last line feed: rest tells whether
// there is something.
func cells(data []byte) (rows [][]string, rest bool) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	var row []string
	var cell []byte
	quoted, was, any := false, false, false
	end := func() {
		if len(row) > 0 || len(cell) > 0 || was {
			rows = append(rows, append(row, string(cell)))
		}
		row, cell, was, any = nil, nil, false, false
	}
	for i := 0; i < len(data); i++ {
		c := data[i]
		any = true
		switch {
		case quoted && c == '"' && i+1 < len(data) && data[i+1] == '"':
			cell = append(cell, '"')
			i++
		case c == '"' && (quoted || len(cell) == 0):
			quoted, was = !quoted, true
		case quoted:
			cell = append(cell, c)
		case c == ',':
			row, cell, was = append(row, string(cell)), nil, false
		case c == '\r' && i+1 < len(data) && data[i+1] == '\n':
		case c == '\n':
			end()
		default:
			cell = append(cell, c)
		}
	}
	return rows, any
}

// names makes the names of columns unique: CPU_TIME, CPU_TIME_2.
func names(header []string) []string {
	var out []string
	for _, name := range header {
		try := name
		for n := 2; slices.Contains(out, try) || try != name && slices.Contains(header, try); n++ {
			try = fmt.Sprintf("%s_%d", name, n)
		}
		out = append(out, try)
	}
	return out
}

// valid writes U+FFFD for each byte that is not UTF-8.
func valid(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		b.WriteRune(r)
		s = s[n:]
	}
	return b.String()
}

// quote is a JSON string as short as it can be.
func quote(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
		return `"` + s + `"`
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(valid(s)); err != nil {
		panic(err)
	}
	// The encoder's care for JavaScript, and its short forms of two characters,
	// are not the streams'.
	return strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029", `\b`, `\u0008`, `\f`, `\u000c`).Replace(strings.TrimSuffix(b.String(), "\n"))
}

// flat is the line of a row.
func flat(names, row []string) string {
	var b strings.Builder
	for i, name := range names {
		value := ""
		if i < len(row) {
			value = row[i]
		}
		fmt.Fprintf(&b, "%c%s:%s", "{,"[min(i, 1)], quote(name), quote(value))
	}
	if len(row) > len(names) {
		fmt.Fprintf(&b, `,"_extra":%s`, quote(strings.Join(row[len(names):], ",")))
	}
	return b.String() + "}"
}

// stamp reads the time of a row.
func stamp(at func(string) string) (time.Time, bool) {
	if t, err := time.Parse(time.RFC3339Nano, at("TIMESTAMP_DERIVED")); err == nil {
		return t, true
	}
	t, err := time.Parse("20060102150405", at("TIMESTAMP")) // a fraction is read too
	return t, err == nil
}

// level says how a row ended.
func level(at func(string) string) string {
	says := func(name string) string {
		text := strings.ToLower(strings.TrimSpace(at(name)))
		return map[bool]string{true: "", false: text}[slices.Contains([]string{"0", "none", "null", "na", "n/a"}, text)]
	}
	if cmp.Or(says("EXCEPTION_MESSAGE"), says("EXCEPTION_TYPE"), says("ERROR_MESSAGE"), says("ERROR_CODE")) != "" {
		return "error"
	}
	if code := at("STATUS_CODE"); len(code) == 3 {
		return map[bool]string{true: "info", false: map[bool]string{true: "error", false: "warn"}[code >= "500"]}[code < "400"]
	}
	if s := says("REQUEST_STATUS"); s != "" {
		return map[bool]string{true: "info", false: "warn"}[s == "s"]
	}
	if s := says("LOGIN_STATUS"); s != "" {
		return map[bool]string{true: "info", false: "warn"}[s == "login_no_error"]
	}
	if s := cmp.Or(says("OPERATION_STATUS"), says("Status")); s != "" {
		return map[bool]string{true: "info", false: "warn"}[slices.Contains([]string{"s", "success", "successful", "ok", "complete", "completed", "true"}, s)]
	}
	return "info"
}

// expected are the entries that a file becomes. Rows without a time have that
// of the row before.
func expected(t *testing.T, data []byte, identity map[string]string) tally {
	t.Helper()
	want := tally{}
	rows, _ := cells(data)
	if len(rows) == 0 {
		return want
	}
	header := names(rows[0])
	var last time.Time
	for i, row := range rows[1:] {
		at := func(name string) string {
			if n := slices.Index(header, name); n >= 0 && n < len(row) {
				return row[n]
			}
			return ""
		}
		if when, ok := stamp(at); ok {
			last = when
		} else if i == 0 {
			t.Fatalf("the first row has no time: %q", row)
		}
		labels := map[string]string{
			"source": "eventlogfile", "event_type": at("EVENT_TYPE"), "job": "sf2loki", "service_name": "sf2loki",
			"event_hour": last.UTC().Format("2006-01-02T15"),
		}
		maps.Copy(labels, identity)
		want.add(entry{last.UnixNano(), pairs(labels), pairs(map[string]string{"level": level(at)}), flat(header, row)})
	}
	return want
}
