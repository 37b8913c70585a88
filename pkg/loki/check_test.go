package loki

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"sf2loki/pkg/record"
)

// pairs makes a list of labels or metadata: name, value, name, value.
func pairs(texts ...string) []record.Pair {
	var list []record.Pair
	for i := 0; i < len(texts); i += 2 {
		list = append(list, record.Pair{Name: []byte(texts[i]), Value: []byte(texts[i+1])})
	}
	return list
}

func numbered(n int) []record.Pair {
	var list []record.Pair
	for i := range n {
		list = append(list, record.Pair{Name: fmt.Appendf(nil, "n%d", i), Value: []byte("v")})
	}
	return list
}

func TestCheckLabels(t *testing.T) {
	for _, tc := range []struct {
		name   string
		labels []record.Pair
		text   string // part of the problem's; "" none
	}{
		{"plain", pairs("source", "eventlogfile", "event_type", "Login"), ""},
		{"every character of a name", pairs("_aZ09", "x"), ""},
		{"one letter", pairs("a", "x"), ""},
		{"reserved look", pairs("__x__", "x", "__name__", "y"), ""},
		{"value of all kinds", pairs("a", "ü\n\"\\\x00日"), ""},
		{"an empty value beside another", pairs("a", "x", "b", ""), ""},
		{"15", numbered(15), ""},
		{"15 and an empty one", append(numbered(15), pairs("x", "")...), ""},
		{"16", numbered(16), "16 labels, limit 15"},
		{"value of 2048", pairs("a", strings.Repeat("v", 2048)), ""},
		{"value of 2049", pairs("a", strings.Repeat("v", 2049)), "2049 bytes, limit 2048"},
		{"name of 1024", pairs(strings.Repeat("n", 1024), "v"), ""},
		{"name of 1025", pairs(strings.Repeat("n", 1025), "v"), "1025 bytes, limit 1024"},
		{"none", nil, "no label with a value"},
		{"only empty ones", pairs("a", "", "b", ""), "no label with a value"},
		{"empty name", pairs("", "x"), "empty name"},
		{"dash", pairs("a-b", "x"), `"a-b" is not`},
		{"dot", pairs("a.b", "x"), `"a.b" is not`},
		{"leading digit", pairs("1a", "x"), `"1a" is not`},
		{"not ASCII", pairs("é", "x"), "is not"},
		{"bad name without a value", pairs("a b", "", "c", "x"), "is not"},
		{"twice", pairs("a", "1", "b", "2", "a", "3"), `"a" is there twice`},
		{"twice the same", pairs("a", "1", "a", "1"), "twice"},
		{"twice, one empty", pairs("a", "", "a", "1"), "twice"},
		{"backfill", pairs("__backfill__", "true"), "reserved"},
		{"backfill shard", pairs("__backfill_shard__", "x"), "reserved"},
		{"invalid UTF-8", pairs("a", "x\xff"), "U+FFFD"},
		{"replacement character", pairs("a", "x\uFFFDy"), "U+FFFD"},
		{"a character near it", pairs("a", "x\uFFFCy"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := DefaultLimits()
			p := l.CheckLabels(tc.labels)
			wantProblem(t, p, record.InvalidLabels, tc.text)
		})
	}
	var none Limits
	if p := none.CheckLabels(append(numbered(99), pairs(strings.Repeat("n", 5000), strings.Repeat("v", 5000))...)); p != nil {
		t.Errorf("without limits: %+v", p)
	}
}

func wantProblem(t *testing.T, p *Problem, reason record.Reason, text string) {
	t.Helper()
	switch {
	case p == nil && text != "":
		t.Errorf("no problem, want %s: %s", reason, text)
	case p != nil && text == "":
		t.Errorf("unexpected problem %+v", *p)
	case p != nil && (p.Reason != reason || !strings.Contains(p.Text, text)):
		t.Errorf("%+v, want %s: %s", *p, reason, text)
	}
}

func TestCheckMetadata(t *testing.T) {
	for _, tc := range []struct {
		name     string
		metadata []record.Pair
		reason   record.Reason
		text     string
	}{
		{"none", nil, "", ""},
		{"plain", pairs("level", "info", "USER_ID", "005"), "", ""},
		{"rewritten names", pairs("a.b", "1", "My_Field__c", "2", "1a", "3", "naïve", "4"), "", ""},
		{"values with anything", pairs("a", "\n\x00\uFFFD"), "", ""},
		{"65536 bytes", pairs("aa", strings.Repeat("v", 65534)), "", ""},
		{"65537 bytes", pairs("aaa", strings.Repeat("v", 65534)), record.MetadataTooLarge, "65537 bytes, limit 65536"},
		{"128", numbered(128), "", ""},
		{"129", numbered(129), record.MetadataTooMany, "129"},
		{"empty name (Z33)", pairs("", "x"), record.InvalidMetadata, "no letter or digit"},
		{"empty name and value", pairs("", ""), record.InvalidMetadata, "no letter or digit"},
		{"underscore", pairs("_", "x"), record.InvalidMetadata, "no letter"},
		{"underscores", pairs("____", "x"), record.InvalidMetadata, "no letter"},
		{"punctuation", pairs("--", "x"), record.InvalidMetadata, "no letter"},
		{"not ASCII", pairs("日本", "x"), record.InvalidMetadata, "no letter"},
		{"not ASCII between underscores", pairs("__é__", "x"), record.InvalidMetadata, "no letter"},
		{"twice", pairs("a", "1", "b", "2", "a", "3"), record.InvalidMetadata, `"a" and "a"`},
		{"twice the same", pairs("a", "1", "a", "1"), "", ""},
		{"one name after rewriting", pairs("a.b", "1", "c", "2", "a_b", "3"), record.InvalidMetadata, `"a.b" and "a_b"`},
		{"one name, one value", pairs("a.b", "1", "a_b", "1"), "", ""},
		{"one of them empty", pairs("a.b", "", "a_b", "1"), record.InvalidMetadata, "two values"},
		{"runs of underscores", pairs("a__b", "1", "a_b", "2"), record.InvalidMetadata, "two values"},
		{"digit and key", pairs("1a", "1", "key_1a", "2"), record.InvalidMetadata, "two values"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := DefaultLimits()
			wantProblem(t, l.checkMetadata(tc.metadata, nil), tc.reason, tc.text)
			if tc.reason == "" || tc.reason == record.InvalidMetadata { // among very many the same
				problem, _ := checkMetadataNames(append(numbered(2000), tc.metadata...))
				wantProblem(t, problem, tc.reason, tc.text)
			}
		})
	}
	var none Limits
	if p := none.checkMetadata(append(numbered(300), pairs("a", strings.Repeat("v", 1<<20))...), nil); p != nil {
		t.Errorf("without limits: %+v", p)
	}
}

// The names as Loki 3's normaliser (prometheus/otlptranslator v1.0.0) rewrites
// them, recorded from it.
func TestNormalName(t *testing.T) {
	for name, want := range map[string]string{
		"_": "_", "__": "_", "___": "_", "____": "____", "_____": "_____", "__a__": "__a__", "__é__": "_____",
		"__1__": "__1__", "1a": "key_1a", "٣a": "_a", "_a": "_a", "__x": "_x", "a__": "a_", "a__b": "a_b", "a b": "a_b",
		"é1": "_1", "__a_b__c__": "__a_b_c__", "a\xffb": "a_b", "___a___": "___a___", "__--a__": "___a__",
		"__.1__": "___1__", "-1": "_1", "_1": "_1", "": "",
		"label.name__with&&special##chars": "label_name_with_special_chars", "trailing_underscores___": "trailing_underscores_",
		"label_with_foreign_characters_字符": "label_with_foreign_characters_",
	} {
		if got := appendNormalName(nil, []byte(name)); string(got) != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestCheckTime(t *testing.T) {
	now := at("2026-11-30T12:00:00Z")
	l := DefaultLimits()
	week, grace := int64(7*24*time.Hour), int64(10*time.Minute)
	for _, tc := range []struct {
		ts     int64
		reason record.Reason
		text   string
	}{
		{now, "", ""},
		{now - week, "", ""},
		{now - week - 1, record.TooOld, "time 2026-11-23T11:59:59.999999999Z, oldest acceptable 2026-11-23T12:00:00Z"},
		{0, record.TooOld, "1970"},
		{-1 << 63, record.TooOld, "1677"},
		{now + grace, "", ""},
		{now + grace + 1, record.TooNew, "newest acceptable 2026-11-30T12:10:00Z"},
		{1<<63 - 1, record.TooNew, "2262"},
	} {
		wantProblem(t, l.CheckTime(tc.ts, now), tc.reason, tc.text)
	}
	l.MaxAge, l.MaxFuture = 0, 0
	for _, ts := range []int64{-1 << 63, 0, 1<<63 - 1} {
		if p := l.CheckTime(ts, now); p != nil {
			t.Errorf("without limits: %+v", p)
		}
	}
	l = DefaultLimits()
	l.MaxAge = 1<<63 - 1 // older than time itself
	if p := l.CheckTime(0, -10); p != nil {
		t.Errorf("endless age: %+v", p)
	}
}

func TestCheckAllocatesNothing(t *testing.T) {
	l := DefaultLimits()
	labels := pairs("source", "eventlogfile", "event_type", "Login", "event_hour", "2026-07-01T17", "org", "Prod ü")
	metadata := pairs("level", "info", "My_Field__c", "x", "a.b", "y", "USER_ID", "005")
	if n := testing.AllocsPerRun(100, func() {
		if l.CheckLabels(labels) != nil || l.CheckTime(10, 10) != nil || l.checkMetadata(metadata, nil) != nil {
			t.Error("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAppendCut(t *testing.T) {
	for _, tc := range []struct {
		line string
		max  int
		want string
	}{
		{strings.Repeat("a", 100), 50, strings.Repeat("a", 16) + "…[truncated, original 100 bytes]"},
		{strings.Repeat("é", 40), 50, strings.Repeat("é", 8) + "…[truncated, original 80 bytes]"},
		{strings.Repeat("a", 100), 20, strings.Repeat("a", 20)},
		{strings.Repeat("a", 100), 34, "…[truncated, original 100 bytes]"},
		{strings.Repeat("a", 100), 33, strings.Repeat("a", 33)},
		{strings.Repeat("é", 40), 5, "éé"},
		{"日本", 1, ""},
		{"日本", 0, ""},
		{"fits", 4, "fits"},
		{"", 0, ""},
		{strings.Repeat("\x80", 100), 50, strings.Repeat("\x80", 16) + "…[truncated, original 100 bytes]"},
	} {
		if got := AppendCut([]byte("> "), []byte(tc.line), tc.max); string(got) != "> "+tc.want {
			t.Errorf("%.10q at %d: %q, want %q", tc.line, tc.max, got, "> "+tc.want)
		}
	}
}

func FuzzAppendCut(f *testing.F) {
	f.Add([]byte("日本 and more"), 7)
	f.Add(bytes.Repeat([]byte("é"), 40), 50)
	f.Fuzz(func(t *testing.T, line []byte, limit int) {
		limit = min(max(limit, 0), len(line)+1)
		cut := AppendCut(nil, line, limit)
		if len(cut) > limit && len(line) > limit {
			t.Fatalf("%d bytes, at most %d are wanted", len(cut), limit)
		}
		if len(line) <= limit && !bytes.Equal(cut, line) {
			t.Fatal("a line that fits was changed")
		}
		if utf8.Valid(line) && !utf8.Valid(cut) {
			t.Fatal("a character was split")
		}
		if len(line) > limit && limit-len(cut) >= utf8.UTFMax {
			t.Fatalf("%d bytes of %d are left unused", limit-len(cut), limit)
		}
	})
}
