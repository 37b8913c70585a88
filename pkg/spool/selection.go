package spool

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// Selection picks records. Within one kind of condition any of its values will
// do, and all kinds that have a value must be met.
type Selection struct {
	Since, Until           time.Time // captured: from, and before
	EventSince, EventUntil time.Time // the entry's own time

	Reasons    []string
	EventTypes []string
	Sources    []string
	Orgs       []string
	IDs        []string // whole ids, or their beginnings
	RunIDs     []string
	Statuses   []Status
	Match      []Match // one kind for each name
	Grep       []*regexp.Regexp
}

// Match asks for a value of a label, a piece of metadata or a top-level field.
type Match struct{ Name, Value string }

// Matches reports whether a record of that status is selected. A record that
// has moved is not: it is found where it went.
func (s *Selection) Matches(l *Letter, status Status) bool {
	if status == Moved || len(s.Statuses) > 0 && !slices.Contains(s.Statuses, status) {
		return false
	}
	return s.matchesContent(l)
}

func (s *Selection) matchesContent(l *Letter) bool {
	return oneOf(s.Reasons, func() string { return string(l.Reason()) }) &&
		oneOf(s.EventTypes, func() string { return l.Label("event_type") }) &&
		oneOf(s.Sources, func() string { return l.Label("source") }) &&
		oneOf(s.Orgs, l.Org) &&
		oneOf(s.RunIDs, func() string { return l.Envelope("run_id") }) &&
		within(s.Since, s.Until, l.Captured) &&
		within(s.EventSince, s.EventUntil, l.Time) &&
		s.matchesID(l) && s.matchesFields(l) && s.matchesLine(l)
}

func oneOf(values []string, get func() string) bool {
	return len(values) == 0 || slices.Contains(values, get())
}

// within takes a time that the record does not have for one that is outside.
func within(since, until time.Time, get func() (int64, bool)) bool {
	if since.IsZero() && until.IsZero() {
		return true
	}
	ns, ok := get()
	at := time.Unix(0, ns) // a bound may lie outside of what nanoseconds can say
	return ok && (since.IsZero() || !at.Before(since)) && (until.IsZero() || at.Before(until))
}

func (s *Selection) matchesID(l *Letter) bool {
	if len(s.IDs) == 0 {
		return true
	}
	id := l.ID().String()
	return slices.ContainsFunc(s.IDs, func(want string) bool {
		return strings.HasPrefix(id, want) || len(want) != len(id) && ParseID([]byte(want)).String() == id
	})
}

func (s *Selection) matchesFields(l *Letter) bool {
	for _, m := range s.Match {
		got, ok := l.Field(m.Name)
		if !slices.ContainsFunc(s.Match, func(other Match) bool {
			return other.Name == m.Name && ok && other.Value == got
		}) {
			return false
		}
	}
	return true
}

func (s *Selection) matchesLine(l *Letter) bool {
	if len(s.Grep) == 0 {
		return true
	}
	line := l.EntryLine()
	return slices.ContainsFunc(s.Grep, func(re *regexp.Regexp) bool { return re.Match(line) })
}
