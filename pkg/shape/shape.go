// Package shape turns what a source read into the parts of a record that do
// not depend on the source: it applies the rules of --transforms, samples, and
// makes labels, the level and structured metadata. What ends up in a record is
// described in sf-pull(1).
//
// A source asks for the Type of each event type and for the Columns of each
// header, schema or list of fields, and keeps both: names are resolved once,
// and rows pay nothing for what nobody asked for. Then, for each row:
//
//	if !columns.Take(row) {
//		count.Filtered++ // a rule drops it
//		continue
//	}
//	line = columns.AppendLine(line[:0], whole) // or by Edits, when writing the line at all
//	if !typ.Keep(key) {
//		count.SampledOut++
//		continue
//	}
//	rec.Labels, rec.Metadata = typ.Pairs(columns)
//
// The row is Cells: Cell(i) is the text of column i, nil when it has none or a
// null, empty and not nil when it is empty. The key of Keep is the row's own
// identity: a REQUEST_ID, the Id of a record, the replay id in lower-case
// hexadecimal digits; the line, when a row has none. It costs, so ask Sampled
// first. A record's time and event type come from the row as it was.
//
// A row that is left out moves the position all the same: where nothing after
// it carries the position, a checkpoint_only record does.
//
// The text of a debug log is a column named Body, beside those of its listing.
// When it is dropped there is no need to ask for it.
//
// When there are Rules, whatever has not been through them must not leave the
// program: a dead letter of undecodable input is written without its payload.
//
// At the end of each pass, or of all files, a source logs what is Missing.
package shape

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"sf2loki/pkg/record"
)

// LevelName is the name of the metadata that every record has.
const LevelName = "level"

// Config is what the flags say about the shape of records.
type Config struct {
	Identity Identity
	Metadata []string // columns that go into structured metadata

	Transforms   *Transforms // of the source; nil: none
	Rates        []Rate      // of sampling
	LabelColumns []LabelColumn
	LabelValues  int // most values of a label column

	Log *slog.Logger // for a label column with too many values
}

// Identity are the labels that tell whose events these are. Empty ones are
// left out.
type Identity struct {
	Job, ServiceName, Environment, OrgID, Org string
}

// Shape makes the parts of records of one run. It is safe for concurrent use.
type Shape struct {
	cfg      Config
	columns  []labelColumn
	resolved atomic.Bool // there have been rows

	mu    sync.Mutex
	types map[string]*Type
}

// New checks cfg and returns its Shape.
func New(cfg Config) (*Shape, error) {
	seen := map[string]bool{LevelName: true}
	for _, name := range cfg.Metadata {
		if name == LevelName {
			return nil, fmt.Errorf("metadata field %q is made by the program itself", name)
		}
		if seen[name] {
			return nil, fmt.Errorf("metadata field %q is named twice", name)
		}
		seen[name] = true
	}
	s := &Shape{cfg: cfg, columns: make([]labelColumn, len(cfg.LabelColumns)), types: map[string]*Type{}}
	for i, l := range cfg.LabelColumns {
		if cfg.Transforms.drops(l.name) {
			return nil, fmt.Errorf("column %s is to be a label, and a rule drops it", l.name)
		}
		s.columns[i].LabelColumn = l
	}
	return s, nil
}

// Labels returns the stream labels of the records of one event type, in the
// order of their names.
func (s *Shape) Labels(source, eventType string) []record.Pair {
	id := s.cfg.Identity
	var labels []record.Pair
	for _, l := range [...]struct{ name, value string }{
		{"environment", id.Environment},
		{"event_type", eventType},
		{"job", id.Job},
		{"org", id.Org},
		{"service_name", id.ServiceName},
		{"sf_org_id", id.OrgID},
		{"source", source},
	} {
		if l.value != "" {
			labels = append(labels, record.Pair{Name: []byte(l.name), Value: []byte(l.value)})
		}
	}
	return labels
}

// Cells is one row, by the numbers of its columns. The text of a cell is
// valid until the next row.
type Cells interface{ Cell(i int) []byte }

// Columns is what a Shape needs of the rows under one header. It is for one
// goroutine, and holds one row at a time.
type Columns struct {
	at       map[string]int
	level    levelColumns
	metadata []metadataColumn
	steps    []step
	labels   []int // of the label columns of the run, -1: not there

	row     Cells
	edits   []Edit // by column; of those not in touched the zero one
	touched []int
	buf     []byte        // what the rules wrote
	late    []record.Pair // values of label columns that there is no room for
	pairs   []record.Pair // reused from row to row
}

type metadataColumn struct {
	name   []byte
	column int
}

// Columns resolves the names of a header.
func (s *Shape) Columns(names []string) *Columns {
	s.resolved.Store(true)
	c := &Columns{at: make(map[string]int, len(names))}
	for i, name := range names {
		c.at[name] = i
	}
	c.level = newLevelColumns(c.at)
	for _, name := range s.cfg.Metadata {
		if i, ok := c.at[name]; ok {
			c.metadata = append(c.metadata, metadataColumn{[]byte(name), i})
		}
	}
	if c.steps = s.cfg.Transforms.resolve(c.at); len(c.steps) > 0 {
		c.edits = make([]Edit, len(names))
	}
	for i := range s.columns {
		column, ok := c.at[s.columns[i].name]
		if ok {
			s.columns[i].seen.Store(true)
		} else {
			column = -1
		}
		c.labels = append(c.labels, column)
	}
	return c
}

var levelName = []byte(LevelName)

// metadataPairs are the structured metadata of the row that was taken: its
// level, told by the row as it came, the configured columns that are not empty,
// and label columns that there is no room for. Valid until the next call.
func (c *Columns) metadataPairs() []record.Pair {
	c.pairs = append(c.pairs[:0], record.Pair{Name: levelName, Value: c.level.of(c.row)})
	for _, m := range c.metadata {
		if text := c.text(m.column); len(text) > 0 {
			c.pairs = append(c.pairs, record.Pair{Name: m.name, Value: text})
		}
	}
	for _, l := range c.late {
		if !c.hasPair(l.Name) {
			c.pairs = append(c.pairs, l)
		}
	}
	return c.pairs
}

func (c *Columns) hasPair(name []byte) bool {
	return slices.ContainsFunc(c.pairs, func(p record.Pair) bool { return string(p.Name) == string(name) })
}
