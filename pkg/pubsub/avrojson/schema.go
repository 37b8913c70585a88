// Package avrojson turns Avro binary into JSON text by the schema that it was
// written with: fields in the schema's order, unions bare, nothing in between.
// It knows Salesforce's change events, whose header lists fields as bitmaps.
// How values look is described in sf-pull(1), under "Topics".
package avrojson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sf2loki/pkg/record"
)

type kind uint8

const (
	kindNull kind = iota
	kindBoolean
	kindInt
	kindLong
	kindFloat
	kindDouble
	kindBytes
	kindString
	kindFixed
	kindEnum
	kindArray
	kindMap
	kindUnion
	kindRecord
	kindFieldList // an array of strings that are bitmaps of fields
	kindDecimal   // bytes or fixed
	kindUUID      // fixed
	kindDuration  // fixed
)

// node is a type, compiled. Named types are shared by those who refer to them,
// so a recursive schema is a cycle of nodes.
type node struct {
	kind     kind
	logical  string
	name     string // of a record, without its namespace
	fields   []field
	branches []*node  // of a union
	items    *node    // of an array, or a map's values
	symbols  [][]byte // of an enum, as JSON strings
	size     int      // of a fixed
	sized    bool     // a decimal of size bytes, not of a length that is told
	scale    int
}

type field struct {
	name   string
	prefix []byte // what stands in front of the value: `{"Name":` or `,"Name":`
	// escaped is the same as the inside of a JSON string.
	escaped []byte
	node    *node
}

// Schema is a record's schema, ready to decode with. It is safe for
// concurrent use; see NewDecoder.
type Schema struct {
	root   *node
	names  [][]byte // of the root's fields, escaped for JSON
	header int      // which field is the header of a change event; -1: it is none
	commit int      // which field of the header is commitTimestamp; -1: none
	size   int
}

// Size is about how many bytes of memory the schema takes.
func (s *Schema) Size() int { return s.size }

// Name is the record's name without its namespace: the event's API name.
func (s *Schema) Name() string { return s.root.name }

// Fields are the names of the record's fields, in order.
func (s *Schema) Fields() []string {
	names := make([]string, len(s.root.fields))
	for i, f := range s.root.fields {
		names[i] = f.name
	}
	return names
}

// IsChange tells whether this is the schema of a change event.
func (s *Schema) IsChange() bool { return s.header >= 0 }

// Parse reads a schema. It looks only at what decides the binary form: a
// default that does not fit its type, say, is nobody's loss here. Names are
// those of this schema alone.
func Parse(text []byte) (*Schema, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("the schema is %d bytes long", len(text))
	}
	p := &parser{named: map[string]*node{}}
	root, err := p.parse(text, "")
	if err != nil {
		return nil, err
	}
	if root.kind != kindRecord {
		return nil, errors.New("the schema is not that of a record")
	}
	s := &Schema{root: root, header: -1, commit: -1, size: len(text) + p.types*typeSize}
	for i, f := range root.fields {
		s.names = append(s.names, record.AppendEscaped(nil, []byte(f.name)))
		if f.name == "ChangeEventHeader" {
			s.findHeader(i)
		}
	}
	return s, nil
}

type parser struct {
	named map[string]*node
	depth int
	types int // that have been read
	read  int // bytes of their texts
}

// What a schema may be at most. That of an object with all the fields that
// Salesforce allows has three thousand types and 200 kB, four types deep.
const (
	maxNesting = 200
	maxTypes   = 20_000
	maxText    = 2 << 20
	// Each type is read from a copy of the text of the one around it.
	maxRead   = 16 << 20
	maxSymbol = 1 << 10 // what two bytes of a payload become
	typeSize  = 600     // about what a type takes in memory
)

var primitives = map[string]kind{
	"null": kindNull, "boolean": kindBoolean, "int": kindInt, "long": kindLong, "float": kindFloat,
	"double": kindDouble, "bytes": kindBytes, "string": kindString,
}

// parse compiles a type, inside the namespace ns.
func (p *parser) parse(text []byte, ns string) (*node, error) {
	if p.depth++; p.depth > maxNesting {
		return nil, errors.New("types are nested too deep")
	}
	defer func() { p.depth-- }()
	if p.types++; p.types > maxTypes {
		return nil, fmt.Errorf("the schema has more than %d types", maxTypes)
	}
	if p.read += len(text); p.read > maxRead {
		return nil, errors.New("types that are long are nested too deep")
	}
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return nil, errors.New("a type is missing")
	}
	switch text[0] {
	case '"':
		var name string
		if err := json.Unmarshal(text, &name); err != nil {
			return nil, err
		}
		return p.lookUp(name, ns)
	case '[':
		return p.union(text, ns)
	}
	var def definition
	if err := json.Unmarshal(text, &def); err != nil {
		return nil, err
	}
	return p.define(&def, ns)
}

func (p *parser) lookUp(name, ns string) (*node, error) {
	if k, ok := primitives[name]; ok {
		return &node{kind: k}, nil
	}
	for _, full := range []string{fullName(name, ns), name} {
		if n := p.named[full]; n != nil {
			return n, nil
		}
	}
	return nil, fmt.Errorf("type %.100q is not defined", name)
}

func fullName(name, ns string) string {
	if ns == "" || strings.Contains(name, ".") {
		return name
	}
	return ns + "." + name
}

func (p *parser) union(text []byte, ns string) (*node, error) {
	var branches []json.RawMessage
	if err := json.Unmarshal(text, &branches); err != nil {
		return nil, err
	}
	n := &node{kind: kindUnion}
	for _, b := range branches {
		branch, err := p.parse(b, ns)
		if err != nil {
			return nil, err
		}
		n.branches = append(n.branches, branch)
	}
	return n, nil
}

// definition is a type that is a JSON object.
type definition struct {
	Type      json.RawMessage `json:"type"`
	Name      string          `json:"name"`
	Namespace *string         `json:"namespace"`
	Fields    []struct {
		Name string          `json:"name"`
		Type json.RawMessage `json:"type"`
	} `json:"fields"`
	Symbols []string        `json:"symbols"`
	Items   json.RawMessage `json:"items"`
	Values  json.RawMessage `json:"values"`
	Size    int             `json:"size"`
	Logical any             `json:"logicalType"`
	Scale   int             `json:"scale"`
}

func (p *parser) define(def *definition, ns string) (*node, error) {
	var word string
	if json.Unmarshal(def.Type, &word) != nil {
		return p.parse(def.Type, ns) // {"type": {...}}
	}
	n := &node{scale: max(def.Scale, 0)}
	n.logical, _ = def.Logical.(string)
	var err error
	switch word {
	case "array":
		n.kind = kindArray
		n.items, err = p.parse(def.Items, ns)
		return n, err
	case "map":
		n.kind = kindMap
		n.items, err = p.parse(def.Values, ns)
		return n, err
	case "record", "error":
		return n, p.record(n, def, ns)
	case "enum":
		n.kind = kindEnum
		for _, s := range def.Symbols {
			if len(s) > maxSymbol {
				return n, fmt.Errorf("a symbol of %.100q is %d bytes long", def.Name, len(s))
			}
			n.symbols = append(n.symbols, record.AppendString(nil, []byte(s)))
		}
		return n, p.name(n, def, &ns)
	case "fixed":
		n.fixed(def)
		return n, p.name(n, def, &ns)
	}
	k, ok := primitives[word]
	if !ok {
		return p.lookUp(word, ns)
	}
	n.kind = k
	if k == kindBytes && n.logical == "decimal" {
		n.kind = kindDecimal
	}
	return n, nil
}

func (n *node) fixed(def *definition) {
	n.kind, n.size = kindFixed, def.Size
	switch {
	case n.logical == "decimal":
		n.kind, n.sized = kindDecimal, true
	case n.logical == "uuid" && n.size == 16:
		n.kind = kindUUID
	case n.logical == "duration" && n.size == 12:
		n.kind = kindDuration
	}
}

// name enters a named type, and makes *ns what its inside inherits.
func (p *parser) name(n *node, def *definition, ns *string) error {
	if def.Size < 0 {
		return fmt.Errorf("size %d of %.100q", def.Size, def.Name)
	}
	if def.Name == "" {
		return errors.New("a named type has no name")
	}
	if def.Namespace != nil {
		*ns = *def.Namespace
	}
	full := fullName(def.Name, *ns)
	if p.named[full] != nil {
		return fmt.Errorf("type %.100q is defined twice", full)
	}
	p.named[full] = n
	*ns, n.name = "", full
	if dot := strings.LastIndexByte(full, '.'); dot >= 0 {
		*ns, n.name = full[:dot], full[dot+1:]
	}
	return nil
}

func (p *parser) record(n *node, def *definition, ns string) error {
	n.kind = kindRecord
	if err := p.name(n, def, &ns); err != nil {
		return err
	}
	open := byte('{')
	for _, f := range def.Fields {
		sub, err := p.parse(f.Type, ns)
		if err != nil {
			return fmt.Errorf("field %.100q: %w", f.Name, err)
		}
		prefix := append(record.AppendString([]byte{open}, []byte(f.Name)), ':')
		n.fields = append(n.fields, field{name: f.Name, prefix: prefix, escaped: record.AppendEscaped(nil, prefix), node: sub})
		open = ','
	}
	return nil
}
