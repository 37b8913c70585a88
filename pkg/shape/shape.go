// Package shape turns what a source read into the parts of a record that do
// not depend on the source: the labels, the level, and the structured
// metadata. Sources resolve the names of their columns once per header and
// then pay nothing per row for columns that nobody asked for. What ends up in
// a record is described in sf2loki-record(5).
package shape

import (
	"fmt"

	"sf2loki/pkg/record"
)

// LevelName is the name of the metadata that every record has.
const LevelName = "level"

// Config is what the flags say about the shape of records.
type Config struct {
	Identity Identity
	Metadata []string // columns that go into structured metadata
}

// Identity are the labels that tell whose events these are. Empty ones are
// left out.
type Identity struct {
	Job, ServiceName, Environment, OrgID, Org string
}

// Shape makes the parts of records of one run.
type Shape struct{ cfg Config }

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
	return &Shape{cfg}, nil
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

// Columns is what a Shape needs of the rows under one header.
type Columns struct {
	level    levelColumns
	metadata []metadataColumn
	pairs    []record.Pair // reused from row to row
}

type metadataColumn struct {
	name   []byte
	column int
}

// Columns resolves the names of a header.
func (s *Shape) Columns(names []string) *Columns {
	at := make(map[string]int, len(names))
	for i, name := range names {
		at[name] = i
	}
	c := &Columns{level: newLevelColumns(at)}
	for _, name := range s.cfg.Metadata {
		if i, ok := at[name]; ok {
			c.metadata = append(c.metadata, metadataColumn{[]byte(name), i})
		}
	}
	return c
}

var levelName = []byte(LevelName)

// Metadata returns the structured metadata of a row: its level, and the
// configured columns that are not empty. It is valid until the next call.
func (c *Columns) Metadata(row Cells) []record.Pair {
	c.pairs = append(c.pairs[:0], record.Pair{Name: levelName, Value: c.level.of(row)})
	for _, m := range c.metadata {
		if text := row.Cell(m.column); len(text) > 0 {
			c.pairs = append(c.pairs, record.Pair{Name: m.name, Value: text})
		}
	}
	return c.pairs
}
