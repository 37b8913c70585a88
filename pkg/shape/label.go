package shape

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"sf2loki/pkg/fnmatch"
	"sf2loki/pkg/record"
)

// LabelColumn is a column that becomes a stream label of some event types.
type LabelColumn struct {
	flag       string
	eventTypes fnmatch.Pattern // lower case
	name       string
}

var labelName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// taken are the labels, and the metadata, that the programs of a pipeline make
// themselves.
var taken = []string{
	"source", "event_type", "job", "service_name", "environment", "sf_org_id", "org", LevelName,
	"event_hour", "event_time", "backfill",
}

// ParseLabelColumns reads label columns as flags have them: TYPE=COLUMN, where
// TYPE may be a pattern.
func ParseLabelColumns(items []string) ([]LabelColumn, error) {
	var columns []LabelColumn
	for _, item := range items {
		eventType, name, ok := strings.Cut(item, "=")
		switch {
		case !ok:
			return nil, fmt.Errorf("%q: it is written TYPE=COLUMN", item)
		case !labelName.MatchString(name) || strings.HasPrefix(name, "__"):
			return nil, fmt.Errorf("%q: %s cannot be the name of a label", item, name)
		case slices.Contains(taken, name):
			return nil, fmt.Errorf("%q: the label %s is made by the programs themselves", item, name)
		}
		p, err := compileType(eventType)
		if err != nil {
			return nil, err
		}
		columns = append(columns, LabelColumn{item, p, name})
	}
	return columns, nil
}

// labelColumn is a LabelColumn of a run.
type labelColumn struct {
	LabelColumn
	seen, told atomic.Bool
}

// maxLabelValue is the longest value of a label that Loki takes by default, in
// bytes.
const maxLabelValue = 2048

// maxLabelSets bounds how many sets of labels a Type keeps ready.
const maxLabelSets = 4096

// maxTypes is how many event types a Shape remembers, more than an org has.
// Further ones are made anew each time, and have no label columns.
const maxTypes = 1000

// Type makes the labels of the records of one event type. It is safe for
// concurrent use.
type Type struct {
	shape *Shape
	name  string
	base  []record.Pair
	part  float64 // of the rows that is kept

	promoted []*promoted
	mu       sync.Mutex
	sets     map[string][]record.Pair // by the values of promoted
	key      []byte
}

// promoted is a column that becomes a label.
type promoted struct {
	number int // among the label columns of the run
	name   []byte
	values map[string]bool
	over   atomic.Int64 // records whose value came too late
}

// Type returns the Type of an event type, the same one each time for the first
// thousand of them. aka are further names under which flags may mean it.
func (s *Shape) Type(source, eventType string, aka ...string) *Type {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.types[eventType]; t != nil {
		return t
	}
	names := append([]string{eventType}, aka...)
	t := &Type{shape: s, name: eventType, base: s.Labels(source, eventType), part: s.rateOf(names...), sets: map[string][]record.Pair{}}
	if len(s.types) >= maxTypes {
		return t
	}
	for i := range s.columns {
		l := &s.columns[i]
		fits := slices.ContainsFunc(names, func(n string) bool { return l.eventTypes.Match(strings.ToLower(n)) })
		double := slices.ContainsFunc(t.promoted, func(p *promoted) bool { return string(p.name) == l.name })
		if fits && !double {
			t.promoted = append(t.promoted, &promoted{number: i, name: []byte(l.name), values: map[string]bool{}})
		}
	}
	s.types[eventType] = t
	return t
}

// Labels are the labels that all records of the type have.
func (t *Type) Labels() []record.Pair { return t.base }

// Pairs are the labels and the structured metadata of the row that c has taken
// last. The labels are not to be changed, the metadata is valid until the next
// call with c.
func (t *Type) Pairs(c *Columns) (labels, metadata []record.Pair) {
	labels = t.base
	c.late = c.late[:0]
	if len(t.promoted) > 0 {
		labels = t.promote(c)
	}
	return labels, c.metadataPairs()
}

// promote gives the labels with the values of columns among them. Values that
// there is no room for are left in c.late.
func (t *Type) promote(c *Columns) []record.Pair {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.key = t.key[:0]
	for _, p := range t.promoted {
		value := c.text(c.labels[p.number])
		if len(value) > 0 && !t.admit(p, value) {
			c.late = append(c.late, record.Pair{Name: p.name, Value: value})
			value = nil
		}
		t.key = binary.AppendUvarint(t.key, uint64(len(value)))
		t.key = append(t.key, value...)
	}
	if set, ok := t.sets[string(t.key)]; ok {
		return set
	}
	if len(t.sets) >= maxLabelSets {
		clear(t.sets)
	}
	set := t.labelSet(bytes.Clone(t.key))
	t.sets[string(t.key)] = set
	return set
}

// labelSet makes the labels of which key has the promoted values.
func (t *Type) labelSet(key []byte) []record.Pair {
	set := slices.Clone(t.base)
	for _, p := range t.promoted {
		size, n := binary.Uvarint(key)
		value := key[n : n+int(size)]
		key = key[n+int(size):]
		if size > 0 {
			set = append(set, record.Pair{Name: p.name, Value: value})
		}
	}
	slices.SortFunc(set, func(a, b record.Pair) int { return bytes.Compare(a.Name, b.Name) })
	return set
}

// admit tells whether a value may be a label: those that came first may, as
// many as the cap allows, for the rest of the run.
func (t *Type) admit(p *promoted, value []byte) bool {
	if p.values[string(value)] {
		return true
	}
	if len(value) <= maxLabelValue && len(p.values) < t.shape.cfg.LabelValues {
		p.values[string(value)] = true
		return true
	}
	if p.over.Add(1) == 1 && t.shape.cfg.Log != nil {
		t.shape.cfg.Log.Warn("a label column has more values than are allowed, or a value too long for a label: further ones go into structured metadata",
			"event_type", t.name, "column", string(p.name), "values", len(p.values), "most", t.shape.cfg.LabelValues)
	}
	return false
}

// Overflow counts records of an event type whose value of a label column went
// into structured metadata.
type Overflow struct {
	EventType, Column string
	Records           int64
}

// Overflows are the label columns of all types that there are, in no order.
func (s *Shape) Overflows() []Overflow {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Overflow
	for _, t := range s.types {
		for _, p := range t.promoted {
			all = append(all, Overflow{t.name, string(p.name), p.over.Load()})
		}
	}
	return all
}
