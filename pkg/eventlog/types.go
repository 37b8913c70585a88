package eventlog

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sf2loki/pkg/feed"
	"sf2loki/pkg/fnmatch"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sysexits"
)

// TypeList is what is to be pulled: names and patterns of event types, less
// those that match an exclusion. Case does not matter, as Salesforce itself
// spells some types in two ways.
type TypeList struct{ Include, Exclude []string }

// Check refuses what can be no name of an event type, before anything is asked.
func (l TypeList) Check() error {
	if len(l.Include) == 0 {
		return sysexits.Errorf(sysexits.Usage, "no event type: give --event-type NAME, or '*' for all")
	}
	for _, name := range slices.Concat(l.Include, l.Exclude) {
		if !salesforce.IsName(strings.NewReplacer("*", "x", "?", "x").Replace(name)) {
			return sysexits.Errorf(sysexits.Usage, "event type %q: a name has letters, digits and underscores; * and ? stand for some", name)
		}
	}
	for _, name := range l.Include {
		if !fnmatch.IsPattern(name) && l.excluded(name) {
			return sysexits.Errorf(sysexits.Usage, "event type %q is both named and excluded", name)
		}
	}
	return nil
}

// Wild reports whether types must be discovered.
func (l TypeList) Wild() bool { return slices.ContainsFunc(l.Include, fnmatch.IsPattern) }

func (l TypeList) excluded(name string) bool {
	return slices.ContainsFunc(l.Exclude, func(p string) bool { return fits(p, name) })
}

// names are the types that are named outright.
func (l TypeList) names() []string {
	var names []string
	for _, n := range l.Include {
		if !fnmatch.IsPattern(n) && !containsFold(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// Wanted reports whether a discovered type is to be pulled.
func (l TypeList) Wanted(name string) bool {
	return !l.excluded(name) && slices.ContainsFunc(l.Include, func(p string) bool { return fits(p, name) })
}

func containsFold(list []string, name string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(s, name) })
}

// fits matches a name, whatever its case, against a pattern.
func fits(pattern, name string) bool {
	p, err := fnmatch.Compile(strings.ToLower(pattern))
	return err == nil && p.Match(strings.ToLower(name))
}

// spell gives the names of the list as the org spells them. A name that the
// org does not know is an error: it would yield nothing for ever.
func (s *Source) spell(ctx context.Context) ([]string, error) {
	names := s.cfg.Types.names()
	known, err := s.list.picklist(ctx)
	if v := feed.Judge(err); err != nil && v != feed.Later && v != feed.Gone {
		return nil, fmt.Errorf("ask which event types there are: %w", err)
	}
	if err != nil || len(known) == 0 {
		if len(names) == 0 {
			return names, nil
		}
		attrs := []any{"event_types", names}
		if err != nil {
			attrs = append(attrs, "err", err)
		}
		s.log.Warn("the org does not tell which event types it knows: a misspelt one would find nothing", attrs...)
		return names, nil
	}
	for i, name := range names {
		at := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, name) })
		if at < 0 {
			return nil, sysexits.WithHint(sysexits.Errorf(sysexits.Config, "this org knows no event type %q", name), Nearest(known, name))
		}
		names[i] = known[at]
	}
	for _, name := range s.cfg.Types.Exclude {
		if !slices.ContainsFunc(known, func(k string) bool { return fits(name, k) }) {
			s.log.Warn("an exclusion fits no event type of this org", "exclude", name)
		}
	}
	return names, nil
}

// Nearest suggests the known name that is most like a misspelt one.
func Nearest(known []string, name string) string {
	best, least := "", len(name)/2+1
	for _, k := range known {
		if d := distance(strings.ToLower(k), strings.ToLower(name)); d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return "sf-pull list shows what the org has"
	}
	return fmt.Sprintf("did you mean %s?", best)
}

// distance counts the letters to add, remove or change.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		above := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := above
			if a[i] != b[j] {
				change++
			}
			above = row[j+1]
			row[j+1] = min(change, row[j]+1, above+1)
		}
	}
	return row[len(b)]
}
