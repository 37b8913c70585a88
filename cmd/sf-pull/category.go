package main

import (
	"flag"
	"strings"
	"unicode"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/overlap"
	"sf2loki/pkg/sobject"
)

// categoryFlag are the categories that another source pulls.
type categoryFlag struct{ categories []string }

func (f *categoryFlag) register(fs *flag.FlagSet) {
	cli.ListVar(fs, &f.categories, "exclude-category", "leave out what another source pulls, `NAMES` as check-plans tells them: login")
}

func (f *categoryFlag) check() error {
	for _, c := range f.categories {
		if c == "" || strings.ContainsFunc(c, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			return cli.Usagef("--exclude-category %q: a category has letters, digits and underscores", c)
		}
	}
	return nil
}

// topics are patterns for the topics of the categories.
func (f *categoryFlag) topics() []string {
	var patterns []string
	for _, c := range f.categories {
		ends := []string{"EventStream", "Event"}
		if strings.Contains(c, "__") {
			ends = []string{""} // of the org's own
		}
		for _, end := range ends {
			patterns = append(patterns, "*/"+anyCase(c)+end)
		}
	}
	return patterns
}

// anyCase is a pattern for a name in whatever case: a[Bb]c.
func anyCase(name string) string {
	var b strings.Builder
	for _, r := range name {
		if lower, upper := unicode.ToLower(r), unicode.ToUpper(r); lower != upper {
			b.WriteString("[" + string(upper) + string(lower) + "]")
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// objects refuses an object of one of the categories: there are none but those
// that are named.
func (f *categoryFlag) objects(list []sobject.Object) error {
	for _, o := range list {
		for _, c := range f.categories {
			if overlap.CategoryOf(sobject.SourceLabel, o.Name) == strings.ToLower(c) {
				return cli.Usagef("object %q is named, and its category %s excluded", o.Name, c)
			}
		}
	}
	return nil
}
