// Package overlap finds what two plans of sf-pull would both pull. The same
// activity reaches an org's users by several ways: a login is an event of the
// bus, a row of an object, and a row of an event log file. Pulled by two of
// them it is in Loki twice, for the lines differ; pulled twice by one of them it
// folds, unless two programs move one position. What is told is described in
// sf-pull(1).
package overlap

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"sf2loki/pkg/fnmatch"
)

// Plan is what any source's plan says that matters here.
type Plan struct {
	File string `json:"-"`

	Source     string     `json:"source"`
	Static     bool       `json:"static"`
	Org        string     `json:"org"`
	OrgID      string     `json:"org_id"`
	Lane       string     `json:"lane"`
	Interval   string     `json:"interval"`
	Since      string     `json:"since"`
	Until      string     `json:"until"`
	Patterns   []string   `json:"patterns"`
	Include    []string   `json:"include"`
	Exclude    []string   `json:"exclude"`
	Categories []Category `json:"categories"`
}

// Category is one thing that a plan pulls.
type Category struct {
	EventType string `json:"event_type"`
	Topic     string `json:"topic"`
	Path      string `json:"path"`
	Key       string `json:"key"`
	Error     string `json:"error"`
}

// The sources, by their labels.
const (
	pubsub  = "pubsub"
	objects = "eventlog_objects"
	files   = "eventlogfile"
	apexlog = "apexlog"
)

// maxBytes is far beyond the plans of a file.
const maxBytes = 4 << 20

// Read reads the plans of one file: one JSON object after the other.
func Read(name string, r io.Reader) ([]Plan, error) {
	left := &io.LimitedReader{R: r, N: maxBytes + 1}
	d := json.NewDecoder(left)
	var plans []Plan
	for {
		p := Plan{File: name}
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) && len(plans) > 0 && left.N > 0 {
			return plans, nil
		}
		switch {
		case left.N == 0:
			return nil, fmt.Errorf("%s has more than %d MiB, and no plans have", name, maxBytes>>20)
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%s holds no plan", name)
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		case p.Source == "" || p.Categories == nil:
			return nil, fmt.Errorf("%s holds an object that is no plan", name)
		}
		plans = append(plans, p)
	}
}

// Overlap is what two plans both pull.
type Overlap struct {
	Category string `json:"category,omitempty"` // what both bring
	Key      string `json:"key,omitempty"`      // of a position that both move
	A        Part   `json:"a"`
	B        Part   `json:"b"`
}

// Part is one side of an Overlap.
type Part struct {
	File   string `json:"file"`
	Source string `json:"source"`
	Name   string `json:"name"` // of the event type, topic or object, or the pattern
}

func (p Part) String() string { return fmt.Sprintf("%s %s of %s", p.Source, p.Name, p.File) }

func (o Overlap) String() string {
	if o.Key != "" {
		return fmt.Sprintf("position %s is moved by %s and by %s", o.Key, o.A, o.B)
	}
	return fmt.Sprintf("%s is pulled by %s and by %s", o.Category, o.A, o.B)
}

// Find finds the overlaps of the plans of each org, also within one file.
func Find(plans []Plan) []Overlap {
	var all []Overlap
	for i := range plans {
		for j := i + 1; j < len(plans); j++ {
			if sameOrg(&plans[i], &plans[j]) {
				all = append(all, between(&plans[i], &plans[j])...)
			}
		}
	}
	return all
}

// sameOrg tells whether two plans may be of one org. An id tells for sure, but
// static plans have it only when it was given.
func sameOrg(a, b *Plan) bool {
	if a.OrgID != "" && b.OrgID != "" {
		return a.OrgID == b.OrgID
	}
	return a.Org == b.Org
}

func between(a, b *Plan) []Overlap {
	var found []Overlap
	seen := map[string]bool{}
	for _, x := range a.parts() {
		for _, y := range b.parts() {
			o := Overlap{A: Part{a.File, a.Source, x.name}, B: Part{b.File, b.Source, y.name}}
			switch {
			case a.Source == b.Source:
				o.Key = x.shares(&y)
			case a.Source != apexlog && b.Source != apexlog:
				o.Category = x.meets(&y)
			}
			if text := o.Key + "\x00" + o.Category; text != "\x00" && !seen[text] {
				seen[text] = true
				found = append(found, o)
			}
		}
	}
	return found
}

// part is a name or a pattern of a plan.
type part struct {
	plan *Plan
	name string // as the user knows it
	full string // of an event type, topic or object; or the pattern for some
	key  string // of a pattern of topics none
	wild bool
	disk bool // a file on disk: what is in it is not known
}

// parts are the names that a plan pulls and, of a static one, the patterns.
func (p *Plan) parts() []part {
	var parts []part
	for _, c := range p.Categories {
		name := cmp.Or(c.Topic, c.Path, c.EventType)
		if c.Error != "" || name == "" {
			continue
		}
		wild := p.Source == files && c.Path == "" && fnmatch.IsPattern(name)
		parts = append(parts, part{plan: p, name: name, full: cmp.Or(c.Topic, c.EventType), key: c.Key, wild: wild, disk: c.Path != ""})
	}
	if !p.Static || p.Source != pubsub {
		return parts
	}
	for _, pattern := range p.Patterns {
		if pattern != "*" {
			parts = append(parts, part{plan: p, name: pattern, full: pattern, wild: true})
			continue
		}
		for _, stream := range monitoring { // what the star means is known
			if topic := "/event/" + stream; p.takes(topic) {
				parts = append(parts, part{plan: p, name: "*", full: topic})
			}
		}
	}
	return parts
}

// scope is what keeps the positions of two plans of one source apart.
func (p *Plan) scope() string {
	since := ""
	if p.Until != "" {
		since = p.Since
	}
	return strings.Join([]string{p.Lane, cmp.Or(p.Interval, "Hourly"), since, p.Until}, "\x00")
}

// shares is the position that two parts of one source both move.
func (x *part) shares(y *part) string {
	if x.key != "" && x.key == y.key {
		return x.key
	}
	if x.disk || y.disk || x.plan.scope() != y.plan.scope() || !meet(x.full, y.full) || x.leavesOut(y) || y.leavesOut(x) {
		return ""
	}
	switch {
	case !x.wild:
		return cmp.Or(x.key, y.key, x.full)
	case !y.wild:
		return cmp.Or(y.key, y.full)
	}
	return cmp.Or(x.key, y.key, x.full)
}

// leavesOut tells whether the choice of x takes nothing of y, of the same source.
func (x *part) leavesOut(y *part) bool {
	switch {
	case !x.wild:
		return false
	case y.wild:
		return x.plan.covers(y.full)
	}
	return !x.plan.takes(y.full)
}

// takes tells whether the choice of a plan among what is discovered takes a name.
func (p *Plan) takes(name string) bool {
	return (len(p.Include) == 0 || matchAny(p.Include, name, p.Source == files)) && !matchAny(p.Exclude, name, p.Source == files)
}

// matchAny matches a name. The case of event types does not matter.
func matchAny(patterns []string, name string, fold bool) bool {
	return slices.ContainsFunc(patterns, func(text string) bool {
		if fold {
			text, name = strings.ToLower(text), strings.ToLower(name)
		}
		p, err := fnmatch.Compile(text)
		return err == nil && p.Match(name)
	})
}

// suffixes are what names of one activity differ by; the longest counts.
var suffixes = []string{"EventStream", "EventStore", "EventLog", "Event", ""}

// CategoryOf is what a name of a source stands for.
func CategoryOf(source, name string) string {
	c := strings.ToLower(strings.ReplaceAll(name[strings.LastIndexByte(name, '/')+1:], " ", ""))
	if source != files {
		for _, s := range suffixes {
			if rest, ok := strings.CutSuffix(c, strings.ToLower(s)); ok && rest != "" {
				c = rest
				break
			}
		}
	}
	if c == "loginhistory" {
		return "login"
	}
	return c
}

// categories are patterns for what a part stands for.
func (x *part) categories() []string {
	switch {
	case !x.wild:
		return []string{CategoryOf(x.plan.Source, x.full)}
	case x.plan.Source == files:
		return []string{strings.ToLower(x.full)}
	}
	var all []string
	for _, dir := range directories {
		for _, s := range suffixes {
			all = append(all, without(dir, x.full, s)...)
		}
	}
	return all
}

// directories are what topics begin with.
var directories = []string{"/event/", "/data/"}

// meets is what both parts stand for, a category or two patterns for some;
// empty: nothing.
func (x *part) meets(y *part) string {
	switch {
	case x.disk || y.disk:
		return ""
	case x.wild && y.wild:
		return x.meetsPattern(y)
	case x.wild:
		return y.meets(x)
	}
	c := x.categories()[0]
	if y.wild && y.plan.Source == files && !isLogType(c) {
		return "" // a pattern is for types that there are
	}
	fits := slices.ContainsFunc(y.categories(), func(p string) bool { return meet(c, p) })
	if !fits || y.excludes(x, c) {
		return ""
	}
	return c
}

func isLogType(c string) bool {
	return slices.ContainsFunc(logTypes, func(name string) bool { return CategoryOf(files, name) == c })
}

// meetsPattern is meets of two patterns: it is enough that they could.
func (x *part) meetsPattern(y *part) string {
	for _, a := range x.categories() {
		for _, b := range y.categories() {
			if meet(a, b) && !x.excludes(y, b) && !y.excludes(x, a) {
				return strings.ToLower(x.name + " and " + y.name)
			}
		}
	}
	return ""
}

// excludes tells whether the plan of x leaves out the category that y, of
// another source, stands for.
func (x *part) excludes(y *part, c string) bool {
	switch {
	case !x.wild || len(x.plan.Include)+len(x.plan.Exclude) == 0:
		return false
	case y.wild:
		return x.plan.Source == files && x.plan.covers(c)
	case x.plan.Source == files:
		return !x.plan.takes(c)
	}
	ends := []string{"EventStream", "Event"} // of topics that are not the org's own
	if strings.Contains(c, "__") {
		ends = append(ends, "")
	}
	for _, dir := range directories {
		for _, s := range ends {
			// How the org spells it is not known: the case of exclusions is not minded.
			name := dir + c + s
			if meet(x.full, name) && (len(x.plan.Include) == 0 || matchAny(x.plan.Include, name, true)) && !matchAny(x.plan.Exclude, name, true) {
				return false
			}
		}
	}
	return true
}

// covers tells whether an exclusion takes away all that a pattern stands for:
// one that fits the text of the pattern does.
func (p *Plan) covers(pattern string) bool {
	return slices.ContainsFunc(p.Exclude, func(e string) bool {
		return !strings.ContainsAny(e, "?[") && matchAny([]string{e}, pattern, true)
	})
}
