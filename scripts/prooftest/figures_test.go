package prooftest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sf2loki/pkg/lokitest"
)

// figures are the numbers of each source and event type, named as "source type".
type figures map[string]map[string]int64

// told are numbers of reports that are no fates.
var told = []string{
	"files", "queries", "bytes", "timestamp_fallbacks", "source_gaps", "truncated", "streams",
	"delivered@ckpt", "rejected@ckpt", "dropped@ckpt", "accounts@ckpt",
}

// cameIn is what the numbers of a program add up to.
var cameIn = map[string]string{"sf-pull": "read", "loki-push": "read", "ckpt": "acks", "dl-replay": "selected"}

func (f figures) add(of, name string, n int64) {
	if f[of] == nil {
		f[of] = map[string]int64{}
	}
	f[of][name] += n
}

// pick are some of the numbers, or those whose names begin so, under other
// names; what is 0 is left out.
func (f figures) pick(names ...string) figures {
	picked := figures{}
	for of, numbers := range f {
		for _, pair := range names {
			name, other, renamed := strings.Cut(pair, "=")
			prefix, isPrefix := strings.CutSuffix(name, "*")
			for have, n := range numbers {
				if n == 0 || have != name && !(isPrefix && strings.HasPrefix(have, prefix)) {
					continue
				}
				if renamed {
					picked.add(of, other, n)
				} else {
					picked.add(of, have, n)
				}
			}
		}
	}
	return picked
}

func (f figures) String() string {
	var b strings.Builder
	for _, of := range slices.Sorted(maps.Keys(f)) {
		b.WriteString(of + ":")
		for _, name := range slices.Sorted(maps.Keys(f[of])) {
			fmt.Fprintf(&b, " %s=%d", name, f[of][name])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// same compares to the last number.
func same(t *testing.T, what string, got, want figures) {
	t.Helper()
	if got.String() != want.String() {
		t.Errorf("%s:\n%swant\n%s", what, got, want)
	}
}

// report reads the report of a program. Its rows add up, each by itself and to
// the account of the whole, whatever the program says of that.
func (b *bench) report(name string) figures {
	b.T.Helper()
	all, sum, whole := figures{}, map[string]int64{}, map[string]int64(nil)
	for line := range strings.Lines(b.Read(name)) {
		var fields map[string]any
		dec := json.NewDecoder(strings.NewReader(line))
		dec.UseNumber()
		if err := dec.Decode(&fields); err != nil {
			b.T.Fatalf("%s: %v: %s", name, err, line)
		}
		program := fields["program"].(string)
		numbers, fates := map[string]int64{}, int64(0)
		for name, v := range fields {
			number, ok := v.(json.Number)
			if !ok || name == "status" {
				continue
			}
			n, err := number.Int64()
			if err != nil {
				b.T.Fatal(err)
			}
			numbers[name] = n
			if name != cameIn[program] && !slices.Contains(told, name) && !slices.Contains(told, name+"@"+program) {
				fates += n
			}
		}
		if fields["balanced"] != true || fates != numbers[cameIn[program]] {
			b.T.Errorf("%s does not balance: %s", name, line)
		}
		if fields["scope"] == "run" {
			whole = numbers
			continue
		}
		of := fmt.Sprint(fields["source"], " ", fields["event_type"])
		if all[of] != nil {
			b.T.Errorf("%s has %q twice", name, of)
		}
		all[of] = numbers
		for name, n := range numbers {
			sum[name] += n
		}
	}
	if whole == nil {
		b.T.Fatalf("%s is no report: %q", name, b.Read(name))
	}
	for name, n := range whole {
		if sum[name] != n {
			b.T.Errorf("%s: %s is %d of the whole, %d of all types", name, name, n, sum[name])
		}
	}
	return all
}

// stored counts what Loki holds.
func (b *bench) stored() figures {
	all := figures{}
	for _, e := range b.srv.Entries("fake") {
		all.add(label(e, "source")+" "+label(e, "event_type"), "delivered", 1)
	}
	return all
}

func label(e lokitest.Entry, name string) string {
	for _, l := range e.Labels {
		if l.Name == name {
			return l.Value
		}
	}
	return ""
}

// records counts records and dead letters, but for copies of lines that were cut.
func (b *bench) records(pattern string) figures {
	b.T.Helper()
	all := figures{}
	names, _ := filepath.Glob(b.Path(pattern))
	for _, name := range names {
		b.each(name, func(r map[string]json.RawMessage) {
			var labels struct {
				Source    string `json:"source"`
				EventType string `json:"event_type"`
			}
			_ = json.Unmarshal(r["labels"], &labels) // of what is no record there are none
			of := labels.Source + " " + labels.EventType
			switch reason := string(r["reason"]); {
			case reason == `"source_gap"`:
				all.add(of, "source_gaps", 1)
			case reason != "" && reason != `"truncated_copy"`:
				all.add(of, "dead_lettered", 1)
			case reason == "" && r["checkpoint_only"] == nil:
				all.add(of, "written", 1)
			}
		})
	}
	return all
}

// ledger adds up the accounts of a ledger by event type.
func (b *bench) ledger(name, source string) figures {
	b.T.Helper()
	all := figures{}
	b.each(name, func(line map[string]json.RawMessage) {
		var fields map[string]any
		dec := json.NewDecoder(bytes.NewReader(line["account"]))
		dec.UseNumber()
		if err := dec.Decode(&fields); err != nil {
			b.T.Fatalf("%s: %v", name, err)
		}
		of := fmt.Sprint(source, " ", fields["event_type"])
		for name, v := range fields {
			if number, ok := v.(json.Number); ok && name != "bytes" {
				n, err := number.Int64()
				if err != nil {
					b.T.Fatal(err)
				}
				all.add(of, name, n)
			}
		}
	})
	return all
}

// each gives the objects of a file of lines.
func (b *bench) each(name string, fn func(map[string]json.RawMessage)) {
	b.T.Helper()
	for line := range strings.Lines(b.Read(name)) {
		var object map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			b.T.Fatalf("%s: %v: %s", name, err, line)
		}
		fn(object)
	}
}
