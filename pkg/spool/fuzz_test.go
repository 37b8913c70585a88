package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"sf2loki/pkg/errtest"
	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// A name is ours when it can be put together again from its parts; every
// instance and number gives one that is.
func FuzzName(f *testing.F) {
	for _, name := range []string{
		"a-20261130-000001.ndjson", "a-20261130-000001.ndjson.failed.replayed", "a-20261130-000001.ndjson.failed.journal", "host-a-b-20261130-1000000.ndjson.journal",
		".a-20261130-000001.ndjson", "a-20261330-000001.ndjson", "a-20261130-000000.ndjson", "a-20261130-+1.ndjson", "a-20261130-.ndjson", "20261130-000001.ndjson",
		".failed", ".replayed.journal", "x.failed.failed", "dir/.replayed", "a-20261130-99999999999999999999.ndjson", "notes.ndjson", "",
	} {
		f.Add(name, name)
	}
	f.Fuzz(func(t *testing.T, name, instance string) {
		base, k := splitName(name)
		again := base
		if k.failed {
			again += failedSuffix
		}
		if k.replayed {
			again += replayedSuffix
		}
		if again != name {
			t.Fatalf("%q is %q, %+v", name, base, k)
		}
		if spoolFile(name) {
			first, _ := splitName(strings.TrimSuffix(name, journalSuffix))
			of, text, number := stemParts(strings.TrimSuffix(first, dataSuffix))
			day, err := time.Parse(dateLayout, text)
			if got, ok := numberOf(name, of, day); err != nil || !ok || got != number {
				t.Fatalf("%q has the number %d, %v, and not %d", name, got, ok, number)
			}
		}
		clean := cleanInstance(instance)
		number := len(name) + 1
		made := fileName(clean, testTime, number)
		if got, ok := numberOf(made, clean, testTime); !ok || got != number {
			t.Fatalf("%q has the number %d", made, got)
		}
		for _, suffix := range []string{"", failedSuffix, replayedSuffix, failedSuffix + replayedSuffix, journalSuffix, failedSuffix + journalSuffix} {
			if full := made + suffix; !spoolFile(full) || len(full) > 255 || strings.ContainsAny(full, "/\x00") || cleanInstance(clean) != clean {
				t.Fatalf("%q of %q is none of ours", full, instance)
			}
		}
	})
}

// referenceFates reads a journal with encoding/json. Lines of which it is not
// sure, a name twice say or what is no UTF-8, are not in question.
func referenceFates(data []byte) (of map[place]fate, bad int, sure bool) {
	of = map[place]fate{}
	for line := range bytes.Lines(data) {
		var e struct {
			V, Line, End json.RawMessage
			ID, Fate, At any
		}
		if line[len(line)-1] != '\n' {
			break
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(line, &members) != nil || members == nil || json.Unmarshal(line, &e) != nil {
			bad++
			continue
		}
		if bytes.Count(line, []byte{'"'}) > 2*2*len(members) || !exact(members) || !utf8.Valid(line) {
			return nil, 0, false
		}
		var v int
		var number int64
		asString := func(v any) string { s, _ := v.(string); return s }
		status := Status(asString(e.Fate))
		if json.Unmarshal(e.V, &v) != nil || v < 1 || json.Unmarshal(e.Line, &number) != nil || string(e.Line) == "null" || !slices.Contains(Statuses, status) {
			bad++
			continue
		}
		at := place{number, ParseID([]byte(asString(e.ID)))}
		was := of[at]
		if status == Pending {
			was.claimed = true
		} else {
			ns, _ := record.ParseTime([]byte(asString(e.At)))
			was = fate{status: status, at: ns}
		}
		of[at] = was
	}
	return of, bad, true
}

// exact tells that encoding/json has matched no name by its letters alone.
func exact(members map[string]json.RawMessage) bool {
	for name := range members {
		if !slices.Contains([]string{"v", "line", "end", "id", "fate", "at", "run", "because"}, name) {
			return false
		}
	}
	return true
}

// A journal says what encoding/json reads in it, and ends where its last whole
// line does.
func FuzzJournal(f *testing.F) {
	line := entry{line: 3, id: ParseID([]byte("x")), fate: Failed, at: testTime, run: "r1", because: "why", end: 77}
	var all []byte
	for _, status := range []Status{Pending, Replayed, Failed, Discarded, New} {
		line.fate = status
		all = line.append(all)
	}
	for _, s := range []string{
		string(all), string(all[:len(all)-9]), "", "\n", "\n\n{}\n", `{"v":0,"line":1,"id":"x","fate":"new"}` + "\n", `{"v":2,"line":1,"id":"x","fate":"new"}` + "\n",
		`{"v":1,"line":1,"id":"x","fate":"moved"}` + "\n", `{"v":1,"line":"1","id":7,"fate":"replayed","at":"never"}` + "\n", `{"v":1,"line":1e0,"fate":"replayed"}` + "\n",
		`{"v":1,"line":-1,"id":"\u0078","fate":"repl\u0061yed","at":"2026-11-30T12:00:00Z"} ` + "\r\n", `{"v":1,"line":1,"fate":"failed","end":9}x` + "\n", `[{"v":1}]` + "\n",
		strings.Repeat("x", 70<<10) + "\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := readJournal(bytes.NewReader(data), "j")
		if err != nil {
			errtest.OneLine(t, err)
			if code := sysexits.Of(err); code != sysexits.DataErr && code != sysexits.Config {
				t.Fatalf("status %v: %v", code, err)
			}
			return
		}
		if whole := bytes.LastIndexByte(data, '\n') + 1; got.size != int64(whole) {
			t.Fatalf("%d bytes are whole, not %d", whole, got.size)
		}
		want, bad, sure := referenceFates(data)
		if !sure {
			return
		}
		if got.bad != bad || len(got.of) != len(want) {
			t.Fatalf("%d bad, %d fates, want %d, %d", got.bad, len(got.of), bad, len(want))
		}
		for at, fate := range want {
			if got.of[at] != fate {
				t.Fatalf("line %d is %+v, want %+v", at.line, got.of[at], fate)
			}
		}
	})
}

// found is what a Reader gave: letters and damages, with their places.
type found struct {
	line, offset int64
	raw, damage  string
	torn         bool
}

func findAll(t *testing.T, r io.Reader) (all []found, letters [][]byte) {
	s := NewReader(r, "f")
	for {
		var l Letter
		var d *Damage
		err := s.Next(&l)
		switch {
		case errors.Is(err, io.EOF):
			return all, letters
		case errors.As(err, &d):
			errtest.OneLine(t, d)
			all = append(all, found{line: d.Line, offset: d.Offset, damage: d.Text, torn: d.Torn})
		case err != nil:
			t.Fatal(err)
		default:
			examine(t, &l)
			all = append(all, found{line: l.Line, offset: l.Offset, raw: string(l.Raw)})
			letters = append(letters, bytes.Clone(l.Raw))
		}
	}
}

// examine asks a letter all that a selection and a replay ask.
func examine(t *testing.T, l *Letter) {
	sent := l.AppendForReplay(nil, "deadletter:f", "7", []record.Pair{{Name: []byte("a"), Value: []byte("b")}})
	var members map[string]json.RawMessage
	if err := json.Unmarshal(sent, &members); err != nil || bytes.IndexByte(sent, '\n') != len(sent)-1 || string(members["checkpoint_value"]) != `"7"` {
		t.Fatalf("sent as %q: %v", sent, err)
	}
	var compact bytes.Buffer
	if line := l.AppendLine(nil); json.Compact(&compact, l.Raw) != nil || bytes.IndexByte(line, '\n') != len(line)-1 || !json.Valid(line) {
		t.Fatalf("written as %q", line)
	}
	sel := Selection{
		Since: testTime, EventUntil: testTime, Reasons: []string{string(l.Reason())}, EventTypes: []string{l.Label("event_type")}, Sources: []string{l.Label("source")},
		Orgs: []string{l.Org()}, IDs: []string{l.ID().String()}, RunIDs: []string{l.Envelope("run_id")},
	}
	captured, isCaptured := l.Captured()
	at, hasTime := l.Time()
	want := isCaptured && captured >= testTime.UnixNano() && hasTime && at < testTime.UnixNano()
	if got := sel.Matches(l, New); got != want {
		t.Fatalf("%q is selected: %v", l.Raw, got)
	}
	if l.Attempts() < 0 {
		t.Fatalf("%d attempts", l.Attempts())
	}
	l.Refusal()
	l.History()
	if rec := l.Record(); rec.Raw == nil {
		t.Fatalf("%q has no record", l.Raw)
	}
}

// Letters and damage stand where they say, in order, whatever pieces the file
// comes in; a file of whole records holds what package record reads in it.
func FuzzReader(f *testing.F) {
	whole := string(sample(1, record.TooOld)) + string(sample(2, record.InvalidRecord))
	for _, s := range []string{
		whole, whole[:len(whole)-1], whole[:len(whole)-20], "not json\n" + whole, "{\n \"line\": \"x\"\n}\n{}\n", "{} {}\n{}{}\n", "\n\n \t{}\r\n", "{\"a\":\n{\"b\":1}\n", "[]\n{\n", "{\"a\":1}x\n{}\n",
		strings.Repeat("{\"a\":", 300) + "1" + strings.Repeat("}", 300) + "\n{}\n", strings.Repeat("{\"a\":", 10001) + "1" + strings.Repeat("}", 10001) + "\n{}\n", `{"line":"\u00e9\ud83d","dead_letter":{"id":"x","attempts":99999999999999999999,"errors":[{"at":1}]},"ts":"x"}` + "\n",
		`{"ts_unix_nano":"17","labels":[],"dead_letter":null,"reason":7,"captured_at":"2026-11-30T12:00:00.5Z"}` + "\n", "{\"a\":\"}\n{\"b\":1}\n", "\xff\n{\"\xff\":\"\xff\"}\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		all, letters := findAll(t, bytes.NewReader(in))
		end := int64(0)
		for _, x := range all {
			if x.offset < end || x.offset >= int64(len(in)) || !bytes.HasPrefix(in[x.offset:], []byte(x.raw)) || x.line != 1+int64(bytes.Count(in[:x.offset], []byte{'\n'})) {
				t.Fatalf("%+v is not there", x)
			}
			end = x.offset + max(int64(len(x.raw)), 1)
		}
		if pieces, _ := findAll(t, iotest.OneByteReader(bytes.NewReader(in))); !slices.Equal(pieces, all) {
			t.Fatalf("in pieces %+v, whole %+v", pieces, all)
		}
		r := record.NewReader(bytes.NewReader(in))
		for i := 0; ; i++ {
			var rec record.Record
			var invalid *record.InvalidError
			err := r.Read(&rec)
			if errors.Is(err, io.EOF) && i != len(letters) {
				t.Fatalf("%d letters of %d records", len(letters), i)
			}
			if err != nil && !errors.As(err, &invalid) {
				return
			}
			if i >= len(letters) || !bytes.Equal(rec.Raw, letters[i]) {
				t.Fatalf("record %d, %q, is no letter", i, rec.Raw)
			}
		}
	})
}
