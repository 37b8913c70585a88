package shape

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"go.yaml.in/yaml/v3"

	"sf2loki/pkg/fnmatch"
)

// The actions of rules.
const (
	actionHash    = "hash"
	actionMask    = "mask"
	actionDrop    = "drop_field"
	actionReplace = "regex_replace"
	actionDropRow = "drop_row"
)

// Body is the field that stands for the text of a debug log, in the rules of
// apexlog.
const Body = "Body"

// sources are the lists that a file of rules may have: the values of the label
// source.
var sources = []string{"pubsub", "eventlog_objects", "eventlogfile", "apexlog"}

// ruleText is a rule as it stands in the file.
type ruleText struct {
	Name        string            `yaml:"name"`
	Action      string            `yaml:"action"`
	Fields      []string          `yaml:"fields"`
	Match       map[string]string `yaml:"match"`
	Pattern     *string           `yaml:"pattern"`
	Replacement *string           `yaml:"replacement"`
}

// Transforms are the rules of one source, in the order in which they are
// applied. Runs share nothing but their counters.
type Transforms struct{ rules []*rule }

// rule is a rule that was found to be one.
type rule struct {
	name     string
	action   string
	fields   []string // of drop_row: those that match names
	patterns []fnmatch.Pattern
	re       *regexp.Regexp
	template []byte
	salt     []byte

	filtered atomic.Int64
	seen     []atomic.Bool // by field: some row could have it
	told     []atomic.Bool
}

// ParseTransforms reads a file of rules, which has a list for each source, and
// returns those of one source. All lists are checked. salt goes before every
// text that is hashed.
func ParseTransforms(text []byte, source string, salt []byte) (*Transforms, error) {
	lists, err := decodeRules(text)
	if err != nil {
		return nil, err
	}
	t := &Transforms{}
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		if !slices.Contains(sources, name) {
			return nil, fmt.Errorf("%q is no source: it may be %s", name, strings.Join(sources, ", "))
		}
		rules, err := compileRules(lists[name], salt)
		if err != nil {
			return nil, fmt.Errorf("%s, %w", name, err)
		}
		if name == source {
			t.rules = rules
		}
	}
	return t, nil
}

func decodeRules(text []byte) (map[string][]ruleText, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	var lists map[string][]ruleText
	err := d.Decode(&lists)
	if errors.Is(err, io.EOF) || err == nil && lists == nil {
		return nil, errors.New("it is empty")
	}
	if err != nil {
		return nil, plainError(err)
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it holds more than one document")
	}
	return lists, nil
}

// plainError says the first fault of a text in the words of who wrote it.
func plainError(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	var faults *yaml.TypeError
	if errors.As(err, &faults) && len(faults.Errors) > 0 {
		text = faults.Errors[0]
	}
	if before, _, ok := strings.Cut(text, " not found in type "); ok {
		return errors.New(strings.Replace(before, "field ", "a rule has no member ", 1))
	}
	before, _, _ := strings.Cut(text, " into ")
	return errors.New(strings.Replace(before, "cannot unmarshal", "not expected here:", 1))
}

func compileRules(list []ruleText, salt []byte) ([]*rule, error) {
	var rules []*rule
	names := map[string]bool{}
	for i := range list {
		r, err := compileRule(&list[i], salt)
		if err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
		if r.name == "" {
			r.name = fmt.Sprintf("%s-%d", r.action, i)
		}
		if names[r.name] {
			return nil, fmt.Errorf("rule %d: another one is named %s", i+1, r.name)
		}
		names[r.name] = true
		rules = append(rules, r)
	}
	return rules, nil
}

func compileRule(t *ruleText, salt []byte) (*rule, error) {
	r := &rule{name: t.Name, action: t.Action, fields: t.Fields}
	switch t.Action {
	case actionHash:
		r.salt = salt
	case actionMask, actionDrop, actionReplace, actionDropRow:
	case "":
		return nil, errors.New("it has no action")
	default:
		return nil, fmt.Errorf("action %q: it may be hash, mask, drop_field, regex_replace or drop_row", t.Action)
	}
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("%s %w", t.Action, err)
	}
	if t.Action == actionDropRow {
		for _, field := range slices.Sorted(maps.Keys(t.Match)) {
			p, err := fnmatch.Compile(t.Match[field])
			if err != nil {
				return nil, err
			}
			r.fields, r.patterns = append(r.fields, field), append(r.patterns, p)
		}
	}
	if t.Action == actionReplace {
		if err := r.compilePattern(t); err != nil {
			return nil, err
		}
	}
	if slices.Contains(r.fields, "") {
		return nil, errors.New("a field has no name")
	}
	r.seen, r.told = make([]atomic.Bool, len(r.fields)), make([]atomic.Bool, len(r.fields))
	return r, nil
}

// check refuses what does not belong to the action.
func (t *ruleText) check() error {
	dropRow, replace := t.Action == actionDropRow, t.Action == actionReplace
	switch {
	case dropRow && len(t.Match) == 0:
		return errors.New("needs match")
	case dropRow && t.Fields != nil:
		return errors.New("takes match, not fields")
	case !dropRow && len(t.Fields) == 0:
		return errors.New("needs fields")
	case !dropRow && t.Match != nil:
		return errors.New("takes fields, not match")
	case replace && (t.Pattern == nil || *t.Pattern == ""):
		return errors.New("needs a pattern")
	case !replace && t.Pattern != nil:
		return errors.New("takes no pattern")
	case !replace && t.Replacement != nil:
		return errors.New("takes no replacement")
	}
	return nil
}

func (r *rule) compilePattern(t *ruleText) error {
	var err error
	if r.re, err = regexp.Compile(*t.Pattern); err != nil {
		return fmt.Errorf("pattern: %w", err)
	}
	if t.Replacement != nil {
		if r.template, err = compileTemplate(*t.Replacement, r.re); err != nil {
			return fmt.Errorf("replacement: %w", err)
		}
	}
	return nil
}

// Active tells whether there is any rule.
func (t *Transforms) Active() bool { return t != nil && len(t.rules) > 0 }

// Hashes tells whether some rule hashes.
func (t *Transforms) Hashes() bool {
	return t != nil && slices.ContainsFunc(t.rules, func(r *rule) bool { return r.action == actionHash })
}

// drops tells whether some rule drops a field.
func (t *Transforms) drops(field string) bool {
	return t != nil && slices.ContainsFunc(t.rules, func(r *rule) bool {
		return r.action == actionDrop && slices.Contains(r.fields, field)
	})
}
