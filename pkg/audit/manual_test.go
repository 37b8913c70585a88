package audit

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// The manual names the members of a report, and no others.
func TestManual(t *testing.T) {
	page, err := os.ReadFile("../../man/ckpt.1")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "is one JSON object, with the members\n")
	section, _, _ = strings.Cut(section, "\n.Sh ")
	named := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^\.(?:It )?Li (.*)$`).FindAllStringSubmatch(section, -1) {
		for _, word := range strings.FieldsFunc(line[1], func(r rune) bool { return strings.ContainsRune(" ,;.", r) }) {
			named[word] = word != "Li"
		}
	}
	delete(named, "Li")
	for _, of := range []any{Report{}, Row{}, Finding{}, Input{}} {
		for field := range reflect.TypeOf(of).Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if _, ok := named[name]; !ok {
				t.Errorf("ckpt(1) does not name the member %s of %T", name, of)
			}
			named[name] = false
		}
	}
	for name, only := range named {
		if only {
			t.Errorf("ckpt(1) names %s, and no report has it", name)
		}
	}
}
