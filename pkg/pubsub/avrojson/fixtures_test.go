package avrojson

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const fixtureDir = "../../sftest/fixtures/avro"

type fixtureEvent struct {
	SchemaID string          `json:"schema_id"`
	Payload  []byte          `json:"payload_b64"`
	Decoded  json.RawMessage `json:"decoded"`
	Expanded json.RawMessage `json:"expanded"`
}

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(fixtureDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func fixtureSchema(t testing.TB, name string) *Schema {
	t.Helper()
	s, err := Parse(fixture(t, name+".avsc"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func fixtureEvents(t testing.TB, name string) []fixtureEvent {
	t.Helper()
	var events []fixtureEvent
	if err := json.Unmarshal(fixture(t, name+".events.json"), &events); err != nil {
		t.Fatal(err)
	}
	return events
}

func fixtureNames(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(fixtureDir, "*.avsc"))
	if err != nil || len(paths) < 7 {
		t.Fatalf("%d schemas: %v", len(paths), err)
	}
	var names []string
	for _, p := range paths {
		names = append(names, strings.TrimSuffix(filepath.Base(p), ".avsc"))
	}
	return names
}

func object(t testing.TB, text []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// fieldOrder lists the keys of a JSON object.
func fieldOrder(t testing.TB, text []byte) []string {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(text)))
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key.(string))
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
	return keys
}

func TestFixtures(t *testing.T) {
	for _, name := range fixtureNames(t) {
		s := fixtureSchema(t, name)
		d := NewDecoder(s)
		for i, e := range fixtureEvents(t, name) {
			bothWays(t, s, nil, e.Payload)
			line, err := d.Decode(nil, e.Payload)
			if err != nil {
				t.Fatalf("%s event %d: %v", name, i, err)
			}
			got, want := object(t, line), object(t, e.Decoded)
			if e.Expanded != nil {
				for field, list := range object(t, e.Expanded) {
					want["ChangeEventHeader"].(map[string]any)[field] = list
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s event %d is\n%s\nwant\n%v", name, i, line, want)
			}
			if order := fieldOrder(t, line); !reflect.DeepEqual(order, s.Fields()) {
				t.Errorf("%s event %d has its fields in the order %q", name, i, order)
			}
		}
	}
}

// The element lists of bitmap_cases.json go through a real payload.
func TestBitmaps(t *testing.T) { // peers 71, 72
	var file struct {
		Cases []struct{ In, Out []string }
	}
	if err := json.Unmarshal(fixture(t, "bitmap_cases.json"), &file); err != nil || len(file.Cases) < 19 {
		t.Fatalf("%d cases: %v", len(file.Cases), err)
	}
	s := fixtureSchema(t, "AccountChangeEvent")
	for _, c := range file.Cases {
		out := []byte("[")
		for _, e := range c.In {
			out = s.appendFields(out, []byte(e))
		}
		out = append([]byte(strings.TrimSuffix(string(out), ",")), ']')
		var got []string
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if len(got)+len(c.Out) > 0 && !reflect.DeepEqual(got, c.Out) {
			t.Errorf("%q gives %q, want %q", c.In, got, c.Out)
		}
	}
}

func TestBitmapOddities(t *testing.T) {
	s := fixtureSchema(t, "AccountChangeEvent")
	for in, want := range map[string]string{
		"0x":                 `"0x",`,
		"0xG0":               `"0xG0",`,
		"6-":                 `"6-",`,
		"6-0x":               `"6-0x",`,
		"-0x01":              `"-0x01",`,
		"99-0x01":            `"99-0x01",`,
		"9999999999999-0x01": `"9999999999999-0x01",`,
		"6-0x00":             ``,
		"6-0x0400":           ``, // beyond the children
		"0x4":                `"Type",`,
		"":                   `"",`,
		`a"b`:                `"a\"b",`,
	} {
		if got := string(s.appendFields(nil, []byte(in))); got != want {
			t.Errorf("%q gives %s, want %s", in, got, want)
		}
	}
}

func TestCells(t *testing.T) {
	s := fixtureSchema(t, "Order_Shipped__e")
	d := NewDecoder(s)
	e := fixtureEvents(t, "Order_Shipped__e")
	buf, err := d.Decode([]byte("before"), e[0].Payload)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(buf), `before{"CreatedDate":1782900000523,`) {
		t.Errorf("the line is %s", buf)
	}
	for i, want := range []string{"1782900000523", "005xx000001Sv6AAAS", "A-100", "3.25", "true", "1782900000123", "hello"} {
		if got := string(d.Cell(i)); got != want {
			t.Errorf("cell %d is %q, want %q", i, got, want)
		}
	}
	if _, err = d.Decode(nil, e[1].Payload); err != nil {
		t.Fatal(err)
	}
	if got := d.Cell(3); got != nil {
		t.Errorf("a null is %q", got)
	}
	if got := string(d.Cell(6)); !strings.Contains(got, "\n") || !strings.Contains(got, `"quoted"`) {
		t.Errorf("a string is %q", got)
	}
}

func TestEveryPartOfAPayloadIsNone(t *testing.T) { // redpanda 4689
	for _, name := range fixtureNames(t) {
		d := NewDecoder(fixtureSchema(t, name))
		for _, e := range fixtureEvents(t, name) {
			for n := range e.Payload {
				if _, err := d.Decode(nil, e.Payload[:n]); err == nil {
					t.Fatalf("%s: the first %d bytes of %d are an event", name, n, len(e.Payload))
				}
			}
			if _, err := d.Decode(nil, append(e.Payload[:len(e.Payload):len(e.Payload)], 0)); err == nil {
				t.Fatalf("%s: a byte left over is not noticed", name)
			}
		}
	}
}

// A payload of one version of a schema is not taken for one of another.
func TestOtherVersion(t *testing.T) {
	d := NewDecoder(fixtureSchema(t, "Order_Shipped__e"))
	for i, e := range fixtureEvents(t, "Order_Shipped__e.v2") {
		if line, err := d.Decode(nil, e.Payload); err == nil {
			t.Errorf("event %d is %s", i, line)
		}
	}
}
