package avrojson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/avro"

	"sf2loki/pkg/record"
)

// maker makes schemas and values of them at random. A value stands beside what
// its JSON reads as.
type maker struct {
	*rand.Rand
	names int
}

func (m *maker) name(prefix string) string {
	m.names++
	return fmt.Sprintf("%s%d", prefix, m.names)
}

// shape is a schema with a way to make values of it.
type shape struct {
	schema any
	make   func() (native, want any)
}

func (m *maker) shape(depth int) shape {
	if depth == 0 {
		return m.primitive()
	}
	switch m.IntN(7) {
	case 0:
		return m.record(depth)
	case 1:
		item := m.shape(depth - 1)
		return shape{map[string]any{"type": "array", "items": item.schema}, func() (any, any) {
			native, want := []any{}, []any{}
			for range m.IntN(4) {
				n, w := item.make()
				native, want = append(native, n), append(want, w)
			}
			return native, want
		}}
	case 2:
		value := m.shape(depth - 1)
		return shape{map[string]any{"type": "map", "values": value.schema}, func() (any, any) {
			native, want := map[string]any{}, map[string]any{}
			for i := range m.IntN(4) {
				n, w := value.make()
				key := fmt.Sprintf("k\"%d", i)
				native[key], want[key] = n, w
			}
			return native, want
		}}
	case 3:
		symbols := []any{"A", "B_1", "C"}
		return shape{map[string]any{"type": "enum", "name": m.name("E"), "symbols": symbols}, func() (any, any) {
			s := symbols[m.IntN(len(symbols))]
			return s, s
		}}
	case 4: // three ways
		rec := m.record(depth)
		return shape{[]any{"null", "string", rec.schema}, func() (any, any) {
			switch m.IntN(3) {
			case 0:
				return nil, nil
			case 1:
				return "either", "either"
			}
			return rec.make()
		}}
	case 5:
		p := m.primitive()
		branches := []any{"null", p.schema}
		if m.IntN(4) == 0 {
			branches = []any{p.schema, "null"}
		}
		return shape{branches, func() (any, any) {
			if m.IntN(2) == 0 {
				return nil, nil
			}
			return p.make()
		}}
	}
	return m.primitive()
}

func (m *maker) record(depth int) shape {
	fields := []any{}
	parts := map[string]shape{}
	for range 1 + m.IntN(5) {
		name, part := m.name("f"), m.shape(depth-1)
		parts[name] = part
		fields = append(fields, map[string]any{"name": name, "type": part.schema})
	}
	return shape{map[string]any{"type": "record", "name": m.name("R"), "fields": fields}, func() (any, any) {
		native, want := map[string]any{}, map[string]any{}
		for name, part := range parts {
			native[name], want[name] = part.make()
		}
		return native, want
	}}
}

func (m *maker) primitive() shape {
	switch m.IntN(6) {
	case 0:
		return shape{"long", func() (any, any) {
			v := int64(m.Uint64()) >> m.IntN(64)
			return v, json.Number(fmt.Sprint(v))
		}}
	case 1:
		return shape{"int", func() (any, any) {
			v := int32(m.Uint32()) >> m.IntN(32)
			return v, json.Number(fmt.Sprint(v))
		}}
	case 2:
		return shape{"boolean", func() (any, any) {
			v := m.IntN(2) == 0
			return v, v
		}}
	case 3:
		return shape{"double", func() (any, any) {
			v := math.Float64frombits(m.Uint64())
			if math.IsNaN(v) || math.IsInf(v, 0) {
				v = m.Float64()
			}
			return v, v
		}}
	case 4:
		return shape{"float", func() (any, any) {
			v := float32(m.NormFloat64())
			return v, v
		}}
	}
	return shape{"string", func() (any, any) {
		v := strings.Repeat("ä\"\\\x01 x", m.IntN(3)) + strings.Repeat("z", m.IntN(200))
		return v, v
	}}
}

// equal compares what was read from JSON with what was to be written.
func equal(got, want any) bool {
	switch w := want.(type) {
	case float64:
		var v float64
		n, ok := got.(json.Number)
		return ok && json.Unmarshal([]byte(n), &v) == nil && v == w
	case float32:
		var v float32
		n, ok := got.(json.Number)
		return ok && json.Unmarshal([]byte(n), &v) == nil && v == w
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for i := range w {
			if !equal(g[i], w[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for k := range w {
			if !equal(g[k], w[k]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(got, want)
}

func TestRandomSchemas(t *testing.T) {
	m := &maker{Rand: rand.New(rand.NewPCG(1, 2))}
	for range 300 {
		made := m.record(3)
		text, err := json.Marshal(made.schema)
		if err != nil {
			t.Fatal(err)
		}
		oracle, err := avro.Parse(string(text))
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		s, err := Parse(text)
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		for range 5 {
			native, want := made.make()
			payload, err := oracle.Encode(native)
			if err != nil {
				t.Fatalf("%v: %v of %s", err, native, text)
			}
			line, err := bothWays(t, s, nil, payload)
			if err != nil {
				t.Fatalf("%v: %x of %s", err, payload, text)
			}
			dec := json.NewDecoder(strings.NewReader(string(line)))
			dec.UseNumber()
			var got any
			if err := dec.Decode(&got); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			if !equal(got, want) {
				t.Fatalf("%s is not %v, by %s", line, want, text)
			}
		}
	}
}

// bothWays decodes a payload, and sees to it that the escaped form says the same.
func bothWays(t testing.TB, s *Schema, dst, payload []byte) ([]byte, error) {
	t.Helper()
	d, e := NewDecoder(s), NewDecoder(s)
	line, err := d.Decode(dst, payload)
	escaped, errEscaped := e.DecodeEscaped(dst, payload)
	if fmt.Sprint(err) != fmt.Sprint(errEscaped) {
		t.Fatalf("%x: %v, escaped %v", payload, err, errEscaped)
	}
	if err != nil {
		return line, err
	}
	if want := record.AppendEscaped(nil, line[len(dst):]); !bytes.Equal(escaped[len(dst):], want) {
		t.Fatalf("escaped %s, want %s", escaped[len(dst):], want)
	}
	for i := range s.Fields() {
		if got, want := e.Cell(i), d.Cell(i); !bytes.Equal(got, want) || (got == nil) != (want == nil) {
			t.Fatalf("cell %d is %q, escaped %q", i, want, got)
		}
		at, ok := d.Time(i)
		if got, has := e.Time(i); got != at || has != ok {
			t.Fatalf("time %d is %d, escaped %d", i, at, got)
		}
	}
	at, ok := d.CommitTime()
	if got, has := e.CommitTime(); got != at || has != ok {
		t.Fatalf("commit time %d, escaped %d", at, got)
	}
	return line, nil
}

// FuzzDecode feeds payloads that may be none: no panic, and what is taken is
// JSON and what the oracle reads too.
func FuzzDecode(f *testing.F) {
	names := fixtureNames(f)
	schemas := make([]*Schema, len(names))
	oracles := make([]*avro.Schema, len(names))
	for i, name := range names {
		text := fixture(f, name+".avsc")
		var err error
		if schemas[i], err = Parse(text); err != nil {
			f.Fatal(err)
		}
		if oracles[i], err = avro.Parse(string(text)); err != nil {
			f.Fatal(err)
		}
		for _, e := range fixtureEvents(f, name) {
			f.Add(uint8(i), e.Payload)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, payload []byte) {
		i := int(which) % len(schemas)
		line, err := bothWays(t, schemas[i], nil, payload)
		if err != nil {
			return
		}
		if !json.Valid(line) {
			t.Fatalf("not JSON: %s", line)
		}
		var v any
		rest, err := oracles[i].Decode(payload, &v)
		if err != nil || len(rest) != 0 {
			t.Fatalf("%x by %s is %s, but not for the oracle: %v, %d left over", payload, names[i], line, err, len(rest))
		}
	})
}

// FuzzParse feeds schemas: no panic, payloads of zeros end, and what is taken
// the oracle takes too.
func FuzzParse(f *testing.F) {
	for _, name := range fixtureNames(f) {
		f.Add(fixture(f, name+".avsc"), []byte{0, 0, 0})
	}
	f.Add([]byte(`{"type":"record","name":"A","fields":[{"name":"a","type":"A"}]}`), []byte{})
	f.Add([]byte(`{"type":"record","name":"A","fields":[{"name":"a","type":{"type":"array","items":"null"}}]}`), []byte{0xfe, 0xff, 0xff, 0xff, 0x0f})
	for _, typ := range []string{
		`{"type":"map","values":"long"}`, `{"type":"array","items":{"type":"map","values":"string"}}`, `{"type":"enum","name":"E","symbols":["x","y"]}`, `{"type":"fixed","name":"F","size":4}`,
		`{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}`, `{"type":"fixed","name":"D","size":4,"logicalType":"decimal","precision":9,"scale":2}`, `{"type":"long","logicalType":"timestamp-millis"}`, `{"type":"long","logicalType":"timestamp-micros"}`,
		`["null",{"type":"record","name":"R","fields":[{"name":"b","type":["null","R"]}]}]`, `"float"`, `"double"`, `"bytes"`, `"boolean"`, `"int"`, `{"type":"string"}`, `"nothing"`, `["null","null"]`, `{"type":"fixed","name":"F","size":-1}`,
	} {
		for _, payload := range [][]byte{{0}, {2, 2, 'k', 4, 0}, {8, 0, 1, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8}, {1, 4, 2, 0}} {
			f.Add([]byte(`{"type":"record","name":"A","fields":[{"name":"a","type":`+typ+`}]}`), payload)
		}
	}
	f.Fuzz(func(t *testing.T, text, payload []byte) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		line, err := bothWays(t, s, nil, payload)
		if err == nil && !json.Valid(line) {
			t.Fatalf("not JSON: %q", line)
		}
		oracle, oracleErr := avro.Parse(string(text))
		if err != nil || oracleErr != nil {
			return
		}
		var v any
		if rest, err := oracle.Decode(payload, &v); err != nil || len(rest) != 0 {
			t.Fatalf("%x by %s is %s, but not for the oracle: %v, %d left over", payload, text, line, err, len(rest))
		}
	})
}
