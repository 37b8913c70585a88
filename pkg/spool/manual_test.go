package spool

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The manual explains exactly the reasons of the closed set, in the same order.
func TestManualExplainsEveryReason(t *testing.T) {
	page, err := os.ReadFile("../../man/sf2loki-deadletter.5")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(page), "\n.Sh REASONS\n")
	if !ok {
		t.Fatal("no section REASONS")
	}
	section, _, _ = strings.Cut(section, "\n.Sh ")
	var listed, known []string
	for _, m := range regexp.MustCompile(`(?m)^\.It Cm (\S+)$`).FindAllStringSubmatch(section, -1) {
		listed = append(listed, m[1])
	}
	for _, e := range Reasons() {
		known = append(known, string(e.Reason))
		if e.Meaning == "" || e.Cure == "" {
			t.Errorf("%s is not explained", e.Reason)
		}
	}
	if !slices.Equal(listed, known) {
		t.Errorf("the page lists %q, the program %q", listed, known)
	}
}

// So does record.go, which declares them.
func TestReasonsAreThoseOfTheRecord(t *testing.T) {
	source, err := os.ReadFile("../record/record.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\s+\w+\s+Reason = "(\w+)"$`).FindAllStringSubmatch(string(source), -1) {
		if !slices.ContainsFunc(Reasons(), func(e Explanation) bool { return string(e.Reason) == m[1] }) {
			t.Errorf("%s is not explained", m[1])
		}
	}
}

// The example of the manual is read as it says.
func TestManualExample(t *testing.T) {
	page, err := os.ReadFile("../../man/sf2loki-deadletter.5")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(page), "\n{\"ts\":")
	example, _, _ = strings.Cut(example, "\n.Ed")
	text := strings.ReplaceAll(`{"ts":`+example+"\n", `\e`, `\`)
	var l Letter
	if err := NewReader(strings.NewReader(text), "page").Next(&l); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if l.Reason() != "too_old" || l.Attempts() != 1 || len(l.History()) != 1 || string(l.EntryLine()) != `{"EVENT_TYPE":"Login"}` {
		t.Errorf("read as %+v", l.Refusal())
	}
}
