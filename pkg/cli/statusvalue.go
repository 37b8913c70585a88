package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// node is a JSON value whose objects keep the order of their fields.
type node struct {
	kind  nodeKind
	value any      // of a scalar: string, json.Number, bool or nil
	keys  []string // of an object, one for each item
	items []*node
}

type nodeKind int

const (
	scalar nodeKind = iota
	array
	object
)

// field is the value of a field, nil if there is none.
func (n *node) field(name string) *node {
	for i, key := range n.keys {
		if key == name {
			return n.items[i]
		}
	}
	return nil
}

// holds tells whether any item is of the kind.
func (n *node) holds(kind nodeKind) bool {
	for _, item := range n.items {
		if item.kind == kind {
			return true
		}
	}
	return false
}

func (n *node) number() bool {
	_, ok := n.value.(json.Number)
	return ok
}

func parseNode(b []byte) (*node, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	return readNode(dec)
}

func readNode(dec *json.Decoder) (*node, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	n := &node{value: tok}
	switch tok {
	case json.Delim('['):
		n.kind = array
	case json.Delim('{'):
		n.kind = object
	default:
		return n, nil
	}
	for dec.More() {
		if n.kind == object {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			name, ok := key.(string)
			if !ok {
				return nil, errors.New("a key is no string")
			}
			n.keys = append(n.keys, name)
		}
		item, err := readNode(dec)
		if err != nil {
			return nil, err
		}
		n.items = append(n.items, item)
	}
	_, err = dec.Token()
	return n, err
}

// label is a field's name as people read it.
func label(name string) string {
	name = strings.TrimSuffix(name, "_ns")
	return strings.ReplaceAll(name, "_", " ")
}

// show is a plain value as people read it; the field's name tells its unit.
func (p *page) show(name string, value any) string {
	switch v := value.(type) {
	case nil:
		return "none"
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case string:
		if t, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return moment(t, p.now)
		}
		return v
	case json.Number:
		return p.showNumber(name, v)
	}
	return fmt.Sprint(value)
}

// isMoment tells the fields whose numbers are nanoseconds since 1970.
func isMoment(name string) bool { return name == "newest" || name == "position" }

func (p *page) showNumber(name string, v json.Number) string {
	i, err := v.Int64()
	if err != nil {
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	switch {
	case strings.HasSuffix(name, "_ns"):
		return time.Duration(i).Round(time.Millisecond).String()
	case isMoment(name):
		if i == 0 {
			return "none yet"
		}
		return moment(time.Unix(0, i), p.now)
	case name == "bytes" || strings.HasSuffix(name, "_bytes") || strings.HasPrefix(name, "bytes_"):
		return humanBytes(i)
	}
	return grouped(i)
}

// moment is a time and how long ago that is.
func moment(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	text := t.UTC().Format("2006-01-02 15:04:05 UTC")
	age := now.Sub(t).Round(time.Second)
	switch {
	case age < 0:
		return text + " (in " + span(-age) + ")"
	case age == 0:
		return text
	}
	return text + " (" + span(age) + " ago)"
}

// span is a duration by its one or two largest units.
func span(d time.Duration) string {
	seconds := int64(d / time.Second)
	for _, unit := range []struct {
		size, next   int64
		name, second string
	}{{86400, 3600, "d", "h"}, {3600, 60, "h", "min"}, {60, 1, "min", "s"}} {
		if seconds < unit.size {
			continue
		}
		text := fmt.Sprintf("%d %s", seconds/unit.size, unit.name)
		if rest := seconds % unit.size / unit.next; rest > 0 {
			text += fmt.Sprintf(" %d %s", rest, unit.second)
		}
		return text
	}
	return fmt.Sprintf("%d s", seconds)
}

func humanBytes(n int64) string {
	f := float64(n)
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if f < 1024 && f > -1024 {
			if unit == "B" {
				return fmt.Sprintf("%d B", n)
			}
			return fmt.Sprintf("%.1f %s", f, unit)
		}
		f /= 1024
	}
	return fmt.Sprintf("%.1f TiB", f)
}

// grouped has a comma between each three digits.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}
