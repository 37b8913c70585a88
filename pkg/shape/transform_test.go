package shape

import (
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
)

// shaped is what rules make of a row of two names, as JSON; nothing when the row
// is dropped.
func shaped(t *testing.T, salt, rules string, names []string, r Cells) (string, *Shape) {
	t.Helper()
	tr, err := ParseTransforms([]byte(rules), "eventlogfile", []byte(salt))
	if err != nil {
		t.Fatalf("%v in\n%s", err, rules)
	}
	s, err := New(Config{Transforms: tr})
	if err != nil {
		t.Fatal(err)
	}
	c := s.Columns(names)
	if !c.Take(r) {
		return "", s
	}
	line := []byte{'{'}
	for i, name := range names {
		if i > 0 {
			line = append(line, ',')
		}
		text, _ := json.Marshal(name)
		value := []byte("null")
		if cell := r.Cell(i); cell != nil {
			value, _ = json.Marshal(string(cell))
		}
		line = append(append(append(line, text...), ':'), value...)
	}
	return string(c.AppendLine(nil, append(line, '}'))), s
}

// cells is a row in which "-" stands for null.
type cells []string

func (c cells) Cell(i int) []byte {
	if c[i] == "-" {
		return nil
	}
	return []byte(c[i])
}

func TestRules(t *testing.T) {
	for _, tt := range []struct {
		name, salt, rules string
		row               cells // A, B
		want              string
	}{
		{"hash", "pepper", `[{action: hash, fields: [A]}]`, cells{"203.0.113.7", "x"}, `{"A":"8fc212f188c11cc3","B":"x"}`},
		{"hash without a salt", "", `[{action: hash, fields: [A]}]`, cells{"203.0.113.7", "x"}, `{"A":"fec52565aa0cf18f","B":"x"}`},
		{"null is not hashed", "", `[{action: hash, fields: [A, B]}]`, cells{"-", "203.0.113.7"}, `{"A":null,"B":"fec52565aa0cf18f"}`},
		{"mask", "", `[{action: mask, fields: [A, B]}]`, cells{"ada@acme.example", "10.0.20.255"}, `{"A":"***@acme.example","B":"10.0.20.x"}`},
		{"mask the first at", "", `[{action: mask, fields: [A, B]}]`, cells{"a@b@c", "10.0.0.256"}, `{"A":"***@b@c","B":"***"}`},
		{"mask what is no address", "", `[{action: mask, fields: [A, B]}]`, cells{"10.0.0.01", "1.2.3.4.5"}, `{"A":"***","B":"***"}`},
		{"mask IPv4 only", "", `[{action: mask, fields: [A, B]}]`, cells{"1.2.3", "255.0.10.0"}, `{"A":"***","B":"255.0.10.x"}`},
		{"mask nothing", "", `[{action: mask, fields: [A, B]}]`, cells{"", "1.2.3.-4"}, `{"A":"***","B":"***"}`},
		{"drop the first", "", `[{action: drop_field, fields: [A]}]`, cells{"1", "2"}, `{"B":"2"}`},
		{"drop the last", "", `[{action: drop_field, fields: [B]}]`, cells{"1", "2"}, `{"A":"1"}`},
		{"drop both", "", `[{action: drop_field, fields: [B, A]}]`, cells{"1", "2"}, `{}`},
		{"dropped is gone for the next", "", `[{action: drop_field, fields: [A]}, {action: hash, fields: [A]}]`, cells{"1", "2"}, `{"B":"2"}`},
		{"replace", "", `[{action: regex_replace, fields: [A], pattern: '(token=)[^&]*', replacement: '\1***'}]`, cells{"/x?token=abc&b=1", "2"}, `{"A":"/x?token=***&b=1","B":"2"}`},
		{"replace by nothing", "", `[{action: regex_replace, fields: [A], pattern: '[0-9]'}]`, cells{"a1b22", "2"}, `{"A":"ab","B":"2"}`},
		{"one after the other", "pepper", `[{action: regex_replace, fields: [A], pattern: '^.*=', replacement: ''}, {action: hash, fields: [A]}]`,
			cells{"ip=203.0.113.7", "2"}, `{"A":"8fc212f188c11cc3","B":"2"}`},
		{"drop the row", "", `[{action: drop_row, match: {A: 'monitoring@*'}}]`, cells{"monitoring@acme.example", "2"}, ``},
		{"another row", "", `[{action: drop_row, match: {A: 'monitoring@*'}}]`, cells{"Monitoring@acme.example", "2"}, `{"A":"Monitoring@acme.example","B":"2"}`},
		{"every pattern must fit", "", `[{action: drop_row, match: {A: '/*', B: '2*'}}]`, cells{"/a/b", "1"}, `{"A":"/a/b","B":"1"}`},
		{"and they do", "", `[{action: drop_row, match: {A: '/*', B: '[!13]'}}]`, cells{"/a/b", "2"}, ``},
		{"null counts as empty", "", `[{action: drop_row, match: {A: ''}}]`, cells{"-", "2"}, ``},
		{"no such field counts as empty", "", `[{action: drop_row, match: {C: '*', A: '1'}}]`, cells{"1", "2"}, ``},
		{"no such field and a pattern", "", `[{action: drop_row, match: {C: 'x'}}]`, cells{"1", "2"}, `{"A":"1","B":"2"}`},
		{"a number in a pattern", "", `[{action: drop_row, match: {A: 1}}]`, cells{"1", "2"}, ``},
		{"dropped by what a rule made", "", `[{action: mask, fields: [A]}, {action: drop_row, match: {A: '10.0.0.x'}}]`, cells{"10.0.0.7", "2"}, ``},
		{"the rules of another source", "", `[]
pubsub: [{action: drop_field, fields: [A]}]`, cells{"1", "2"}, `{"A":"1","B":"2"}`},
	} {
		if got, _ := shaped(t, tt.salt, "eventlogfile: "+tt.rules, []string{"A", "B"}, tt.row); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestReplacements(t *testing.T) {
	for _, tt := range []struct{ pattern, replacement, text, want string }{
		{`(a)(b)`, `\2\1`, "ab", "ba"},
		{`(a)(b)`, `$2$1`, "ab", "ba"},
		{`(a)`, `$1x`, "a", "ax"}, // not the group 1x
		{`(a)`, `\1x`, "a", "ax"},
		{`(a)`, `${1}0`, "a", "a0"},
		{`(?P<who>a)`, `[\g<who>]`, "a", "[a]"},
		{`(?P<who>a)`, `[${who}]`, "a", "[a]"},
		{`(a)`, `\g<1>0`, "a", "a0"},
		{`a`, `\0\0`, "a", "aa"},
		{`a`, `$$5`, "a", "$5"},
		{`a`, `cost: $`, "a", "cost: $"},
		{`a`, `$x`, "a", "$x"},
		{`a`, `\\1`, "a", `\1`},
		{`a`, `x\ny\t`, "a", "x\ny\t"},
		{`(?m)^.*secret.*$`, ``, "1\na secret\n3", "1\n\n3"},
		{`ä+`, `ö`, "xää", "xö"},
	} {
		rules, _ := json.Marshal(map[string]any{"eventlogfile": []any{map[string]any{
			"action": "regex_replace", "fields": []string{"A"}, "pattern": tt.pattern, "replacement": tt.replacement,
		}}})
		want, _ := json.Marshal(tt.want)
		if got, _ := shaped(t, "", string(rules), []string{"A"}, cells{tt.text}); got != `{"A":`+string(want)+`}` {
			t.Errorf("%s by %s: %s, want %s", tt.pattern, tt.replacement, got, want)
		}
	}
}

func TestBadRules(t *testing.T) {
	for want, rules := range map[string]string{
		"not expected here: !!str":            "rules",
		"empty":                               "",
		"is empty":                            "# nothing",
		"one document":                        "eventlogfile: []\n---\npubsub: []",
		"no source":                           "elf: []",
		"line 1":                              "eventlogfile: [",
		"line 1: a rule has no member feilds": "eventlogfile: [{action: hash, feilds: [A]}]",
		"rule 2: it has no action":            "eventlogfile: [{action: mask, fields: [A]}, {fields: [A]}]",
		`action "hide"`:                       "eventlogfile: [{action: hide, fields: [A]}]",
		"hash needs fields":                   "eventlogfile: [{action: hash}]",
		"mask needs fields":                   "eventlogfile: [{action: mask, fields: []}]",
		"hash takes fields":                   "eventlogfile: [{action: hash, fields: [A], match: {A: x}}]",
		"drop_row needs match":                "eventlogfile: [{action: drop_row}]",
		"drop_row takes match":                "eventlogfile: [{action: drop_row, match: {A: x}, fields: [A]}]",
		"regex_replace needs a patt":          "eventlogfile: [{action: regex_replace, fields: [A], replacement: x}]",
		"mask takes no pattern":               "eventlogfile: [{action: mask, fields: [A], pattern: x}]",
		"mask takes no replacement":           "eventlogfile: [{action: mask, fields: [A], replacement: x}]",
		"missing closing )":                   "eventlogfile: [{action: regex_replace, fields: [A], pattern: '('}]",
		"no group 2":                          `eventlogfile: [{action: regex_replace, fields: [A], pattern: '(a)', replacement: '\2'}]`,
		"no group who":                        `eventlogfile: [{action: regex_replace, fields: [A], pattern: '(a)', replacement: '${who}'}]`,
		`\d means nothing`:                    `eventlogfile: [{action: regex_replace, fields: [A], pattern: a, replacement: '\d'}]`,
		"at its end":                          `eventlogfile: [{action: regex_replace, fields: [A], pattern: a, replacement: 'x\'}]`,
		"has no ]":                            "eventlogfile: [{action: drop_row, match: {A: '[a'}}]",
		"another one is named x":              "eventlogfile: [{name: x, action: mask, fields: [A]}, {name: x, action: mask, fields: [B]}]",
		"a field has no name":                 "eventlogfile: [{action: mask, fields: ['']}]",
		"pubsub, rule 1: it has no a":         "eventlogfile: []\npubsub: [{fields: [A]}]",
	} {
		_, err := ParseTransforms([]byte(rules), "eventlogfile", nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s\ngives %v, want %q", rules, err, want)
		}
	}
}

func TestFilteredAndMissing(t *testing.T) {
	rules := `eventlogfile:
  - {action: drop_row, match: {A: x}}
  - {name: quiet, action: drop_row, match: {NONE: "?"}}
  - {action: hash, fields: [B, GONE]}`
	_, s := shaped(t, "", rules, []string{"A", "B"}, cells{"x", "y"})
	if got := s.Filtered(); !maps.Equal(got, map[string]int64{"drop_row-0": 1, "quiet": 0}) {
		t.Errorf("filtered: %v", got)
	}
	want := []Missing{{"rule quiet", "NONE"}, {"rule hash-2", "GONE"}}
	if got := s.Missing(); !slices.Equal(got, want) {
		t.Errorf("missing: %v", got)
	}
	if got := s.Missing(); got != nil {
		t.Errorf("told twice: %v", got)
	}
	unused, _ := New(Config{Transforms: s.cfg.Transforms})
	if got := unused.Missing(); got != nil {
		t.Errorf("missing without rows: %v", got)
	}
}

// A row is free of what the one before it was made of.
func TestRowsAreApart(t *testing.T) {
	tr, err := ParseTransforms([]byte(`eventlogfile: [{action: mask, fields: [A, B]}]`), "eventlogfile", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := New(Config{Transforms: tr, Metadata: []string{"A"}})
	c := s.Columns([]string{"A", "B"})
	typ := s.Type("eventlogfile", "Login")
	c.Take(cells{"1", "2"})
	if _, md := typ.Pairs(c); text(md) != "level=info A=*** " {
		t.Errorf("metadata is %s", text(md)) // what rules made, never the value itself
	}
	c.Take(cells{"-", "-"})
	if c.Edits() != nil || string(c.AppendLine(nil, []byte(`{"A":null,"B":null}`))) != `{"A":null,"B":null}` {
		t.Errorf("edits: %v", c.Edits())
	}
}

func TestAppendLine(t *testing.T) {
	tr, err := ParseTransforms([]byte(`eventlogfile: [{action: drop_field, fields: [Gone]}, {action: mask, fields: [Masked]}]`), "eventlogfile", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := New(Config{Transforms: tr})
	names := []string{"Gone", "Masked", "N", "O"}
	for line, want := range map[string]string{
		`{"Gone":{"a":[1,{"Masked":"}"}]},"N":-1.5e3,"Masked":{"x":"\"}"},"O":[true,null]}`: `{"N":-1.5e3,"Masked":"***","O":[true,null]}`,
		`{"Masked":17,"Gone":"a\\","N":"Masked"}`:                                           `{"Masked":"***","N":"Masked"}`,
		`{"Gone":null}`: `{}`,
		`{}`:            `{}`,
	} {
		c := s.Columns(names)
		c.Take(cells{"x", "y", "z", "o"})
		if got := string(c.AppendLine(nil, []byte(line))); got != want {
			t.Errorf("%s becomes %s, want %s", line, got, want)
		}
	}
}

func FuzzAppendLine(f *testing.F) {
	f.Add(`{"Gone":{"a":[1,"]"]},"N":1,"Masked":"\\\"","x":{}}`)
	f.Add(`{"N":[{"Gone":1}],"Gone":[],"Masked":null}`)
	tr, err := ParseTransforms([]byte(`eventlogfile: [{action: drop_field, fields: [Gone]}, {action: mask, fields: [Masked]}]`), "eventlogfile", nil)
	if err != nil {
		f.Fatal(err)
	}
	s, _ := New(Config{Transforms: tr})
	f.Fuzz(func(t *testing.T, text string) {
		var in map[string]json.RawMessage
		if json.Unmarshal([]byte(text), &in) != nil || in == nil {
			return
		}
		line, err := json.Marshal(in) // compact, each name once
		if err != nil {
			return
		}
		clear(in)
		if err := json.Unmarshal(line, &in); err != nil {
			t.Fatal(err)
		}
		c := s.Columns([]string{"Gone", "Masked"})
		c.Take(cells{"x", "y"})
		var out map[string]json.RawMessage
		if err := json.Unmarshal(c.AppendLine(nil, line), &out); err != nil {
			t.Fatalf("%s becomes %s: %v", line, c.AppendLine(nil, line), err)
		}
		delete(in, "Gone")
		if _, ok := in["Masked"]; ok {
			in["Masked"] = json.RawMessage(`"***"`)
		}
		if !maps.EqualFunc(in, out, func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
			t.Fatalf("%s becomes %s", line, c.AppendLine(nil, line))
		}
	})
}

func TestSampleVectors(t *testing.T) {
	for key, want := range map[string]uint64{"TID:1": 7575, "0HA000000000001": 4830, "000000000000000a": 4263, "abc": 74} {
		if got := share([]byte(key)); got != want {
			t.Errorf("%s lies at %d, want %d", key, got, want)
		}
	}
}

func TestRates(t *testing.T) {
	rates, err := ParseRates([]string{"0.5", "Login=0.75", "api*=1", "Rest*=0.0075"})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := New(Config{Rates: rates})
	for _, tt := range []struct {
		eventType, key string
		keep           bool
	}{
		{"login", "TID:1", false}, {"Login", "0HA000000000001", true}, // 0.7575, 0.4830
		{"API", "TID:1", true}, {"RestApi", "abc", true}, {"RestApi", "000000000000000a", false},
		{"URI", "0HA000000000001", true}, {"URI", "TID:1", false},
	} {
		typ := s.Type("eventlogfile", tt.eventType)
		if typ.Keep([]byte(tt.key)) != tt.keep {
			t.Errorf("%s of %s: kept is %t", tt.key, tt.eventType, !tt.keep)
		}
		if typ.Sampled() == (tt.eventType == "API") {
			t.Errorf("%s: sampled is %t", tt.eventType, typ.Sampled())
		}
	}
	if all, _ := New(Config{}); all.Type("x", "y").Sampled() || !all.Type("x", "y").Keep(nil) {
		t.Error("without a rate a row is left out")
	}
	if !s.Type("pubsub", "LoginEventStream", "/event/LoginEventStream").Keep([]byte("abc")) {
		t.Error("0.0074 is not below 0.5")
	}
	for _, bad := range [][]string{{"0"}, {"1.1"}, {"-1"}, {"NaN"}, {"half"}, {"Login="}, {"=0.5"}, {"[=0.5"}, {"0.1", "0.2"}, {"0.00001"}} {
		if _, err := ParseRates(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestLabelColumns(t *testing.T) {
	columns, err := ParseLabelColumns([]string{"Login=BROWSER", "log*=STATUS", "Login=BROWSER", "*=ZONE", "API=CLIENT"})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	s, err := New(Config{LabelColumns: columns, LabelValues: 2, Metadata: []string{"ZONE"}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	typ := s.Type("eventlogfile", "Login")
	c := s.Columns([]string{"BROWSER", "STATUS", "ZONE"})
	for _, tt := range []struct {
		row                  cells
		labels, metadataPart string
	}{
		{cells{"chrome", "S", ""}, "BROWSER=chrome STATUS=S event_type=Login source=eventlogfile ", "level=info "},
		{cells{"edge", "-", "eu"}, "BROWSER=edge ZONE=eu event_type=Login source=eventlogfile ", "level=info ZONE=eu "},
		{cells{"opera", "S", ""}, "STATUS=S event_type=Login source=eventlogfile ", "level=info BROWSER=opera "},
		{cells{"chrome", "S", ""}, "BROWSER=chrome STATUS=S event_type=Login source=eventlogfile ", "level=info "},
		{cells{"opera", "S", strings.Repeat("z", 2049)}, "STATUS=S event_type=Login source=eventlogfile ", "level=info ZONE=" + strings.Repeat("z", 2049) + " BROWSER=opera "},
	} {
		c.Take(tt.row)
		labels, md := typ.Pairs(c)
		if text(labels) != tt.labels || text(md) != tt.metadataPart {
			t.Errorf("%.60q gives %s and %.80s", tt.row, text(labels), text(md))
		}
	}
	if n := strings.Count(log.String(), "column=BROWSER"); n != 1 {
		t.Errorf("told %d times\n%s", n, &log)
	}
	over := map[string]int64{}
	for _, o := range s.Overflows() {
		over[o.EventType+" "+o.Column] = o.Records
	}
	if !maps.Equal(over, map[string]int64{"Login BROWSER": 2, "Login STATUS": 0, "Login ZONE": 1}) {
		t.Errorf("overflows: %v", over)
	}
	if got := s.Missing(); !slices.Equal(got, []Missing{{"label column API=CLIENT", "CLIENT"}}) {
		t.Errorf("missing: %v", got)
	}
	for _, bad := range []string{"BROWSER", "Login=", "=A", "Login=a-b", "Login=1a", "Login=__a", "Login=org", "Login=level", "Login=event_hour", "[=A"} {
		if _, err := ParseLabelColumns([]string{bad}); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

func TestLabelThatARuleDrops(t *testing.T) {
	columns, _ := ParseLabelColumns([]string{"Login=A"})
	tr, _ := ParseTransforms([]byte(`eventlogfile: [{action: drop_field, fields: [B, A]}]`), "eventlogfile", nil)
	if _, err := New(Config{LabelColumns: columns, Transforms: tr}); err == nil || !strings.Contains(err.Error(), "column A") {
		t.Errorf("it is taken: %v", err)
	}
}

// A label column holds what the rules made of it.
func TestLabelAfterRules(t *testing.T) {
	columns, _ := ParseLabelColumns([]string{"*=A"})
	tr, _ := ParseTransforms([]byte(`eventlogfile: [{action: mask, fields: [A]}]`), "eventlogfile", nil)
	s, err := New(Config{LabelColumns: columns, LabelValues: 5, Transforms: tr})
	if err != nil {
		t.Fatal(err)
	}
	c := s.Columns([]string{"A"})
	c.Take(cells{"ada@acme.example"})
	if labels, _ := s.Type("eventlogfile", "Login").Pairs(c); text(labels) != "A=***@acme.example event_type=Login source=eventlogfile " {
		t.Errorf("labels are %s", text(labels))
	}
}

func TestRowsAllocateNothing(t *testing.T) {
	columns, _ := ParseLabelColumns([]string{"*=A"})
	tr, _ := ParseTransforms([]byte(`eventlogfile: [{action: hash, fields: [A]}, {action: mask, fields: [B]}, {action: drop_row, match: {B: 'no*'}}]`), "eventlogfile", []byte("salt"))
	s, err := New(Config{LabelColumns: columns, LabelValues: 5, Transforms: tr})
	if err != nil {
		t.Fatal(err)
	}
	c := s.Columns([]string{"A", "B"})
	typ := s.Type("eventlogfile", "Login")
	r := &fixed{[]byte("x")}
	if n := testing.AllocsPerRun(100, func() { c.Take(r); typ.Pairs(c) }); n > 0 {
		t.Errorf("%v allocations per row", n)
	}
}
