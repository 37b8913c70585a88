package spool

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/sysexits"
)

func parsed(t *testing.T, text string) *Letter {
	t.Helper()
	l := &Letter{}
	if _, err := l.parse([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return l
}

// Within one kind of condition any value will do, and all kinds have to be met;
// what a record does not have matches nothing.
func TestSelection(t *testing.T) {
	l := parsed(t, `{"ts":"2026-07-01T20:00:00Z","labels":{"source":"eventlogfile","event_type":"Login"},"structured_metadata":{"level":"info","source":"meta"},`+
		`"line":"user 007 \"quoted\"","reason":"too_old","captured_at":"2026-07-02T08:00:00Z","more":7,"dead_letter":{"run_id":"r1","org":"prod","id":"00112233445566778899aabbccddeeff"}}`)
	bare := parsed(t, `{"payload_base64":"eA==","reason":"decode_error"}`)
	day := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	captured := day.Add(32 * time.Hour)
	re := func(text string) []*regexp.Regexp {
		return []*regexp.Regexp{regexp.MustCompile(text), regexp.MustCompile("^never$")}
	}
	tests := []struct {
		name         string
		sel          Selection
		status       Status
		want, ofBare bool
	}{
		{"nothing asked", Selection{}, New, true, true},
		{"it has moved", Selection{}, Moved, false, false},
		{"a status", Selection{Statuses: []Status{Failed, New}}, New, true, true},
		{"another status", Selection{Statuses: []Status{Failed}}, New, false, false},
		{"a reason", Selection{Reasons: []string{"oversized", "too_old"}}, New, true, false},
		{"a type", Selection{EventTypes: []string{"Login"}}, New, true, false},
		{"another type", Selection{EventTypes: []string{"login"}}, New, false, false},
		{"a source", Selection{Sources: []string{"eventlogfile"}}, New, true, false},
		{"an org", Selection{Orgs: []string{"prod"}}, New, true, false},
		{"no org", Selection{Orgs: []string{""}}, New, false, true},
		{"a run", Selection{RunIDs: []string{"r1"}}, New, true, false},
		{"a reason of another type", Selection{Reasons: []string{"too_old"}, EventTypes: []string{"Report"}}, New, false, false},
		{"captured from then on", Selection{Since: captured}, New, true, false},
		{"captured after then", Selection{Since: captured.Add(1)}, New, false, false},
		{"captured before then", Selection{Until: captured}, New, false, false},
		{"captured until then", Selection{Until: captured.Add(1)}, New, true, false},
		{"of that day", Selection{EventSince: day, EventUntil: day.AddDate(0, 0, 1)}, New, true, false},
		{"of the day before", Selection{EventSince: day.AddDate(0, 0, -1), EventUntil: day}, New, false, false},
		{"an id", Selection{IDs: []string{"00112233445566778899aabbccddeeff"}}, New, true, false},
		{"the beginning of one", Selection{IDs: []string{"ffff", "0011"}}, New, true, false},
		{"the end of one", Selection{IDs: []string{"eeff"}}, New, false, false},
		{"a label before metadata", Selection{Match: []Match{{"source", "eventlogfile"}}}, New, true, false},
		{"metadata behind a label", Selection{Match: []Match{{"source", "meta"}}}, New, false, false},
		{"metadata", Selection{Match: []Match{{"level", "warn"}, {"level", "info"}}}, New, true, false},
		{"a field that is no text", Selection{Match: []Match{{"more", "7"}}}, New, true, false},
		{"two names", Selection{Match: []Match{{"level", "info"}, {"more", "8"}}}, New, false, false},
		{"values of two names, swapped", Selection{Match: []Match{{"level", "7"}, {"more", "info"}}}, New, false, false},
		{"a field that is not there", Selection{Match: []Match{{"none", ""}}}, New, false, false},
		{"a line", Selection{Grep: re(`00. "q`)}, New, true, false},
		{"another line", Selection{Grep: re(`\\`)}, New, false, false},
	}
	for _, tt := range tests {
		if got := tt.sel.Matches(l, tt.status); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
		if got := tt.sel.Matches(bare, tt.status); got != tt.ofBare {
			t.Errorf("%s, of a letter without most: %t", tt.name, got)
		}
	}
}

// A letter of another program has an id of its own, whatever its form, and can
// be asked for by the text that stands in it.
func TestForeignID(t *testing.T) {
	l := parsed(t, `{"line":"x","dead_letter":{"id":"JOB-17"}}`)
	for text, want := range map[string]bool{"JOB-17": true, "JOB-18": false, l.ID().String()[:8]: true} {
		if got := (&Selection{IDs: []string{text}}).Matches(l, New); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
	if ParseID([]byte(strings.Repeat("z", 32))) == ParseID([]byte(strings.Repeat("y", 32))) {
		t.Error("texts that are no hexadecimal digits have one id")
	}
}

// What a person looks at of a letter stands on one line, however it was written.
func TestTextsOfALetter(t *testing.T) {
	l := parsed(t, "{\"labels\": {\n\"a\" : \"b\"\n},\n\"line\":\"x\",\"dead_letter\":{\"attempts\":99999999999999999999,\"errors\": [\n{\"at\":\"2026-07-01T20:00:00Z\",\"reason\":\"too_old\"}],\"note\": \"n\"}}")
	for what, pair := range map[string][2]string{
		"labels":   {l.Text("labels"), `{"a":"b"}`},
		"none":     {l.Text("none"), ""},
		"note":     {l.EnvelopeText("note"), `"n"`},
		"errors":   {l.EnvelopeText("errors"), `[{"at":"2026-07-01T20:00:00Z","reason":"too_old"}]`},
		"history":  {fmt.Sprint(len(l.History()), " ", l.History()[0].Reason), "1 too_old"},
		"the line": {string(l.AppendLine(nil)), `{"labels":{"a":"b"},"line":"x","dead_letter":{"attempts":99999999999999999999,"errors":[{"at":"2026-07-01T20:00:00Z","reason":"too_old"}],"note":"n"}}` + "\n"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %q, want %q", what, pair[0], pair[1])
		}
	}
	if s, ok := l.TopField("line"); s != "x" || !ok {
		t.Errorf("line %q, %t", s, ok)
	}
	if s, ok := l.TopField("labels"); ok {
		t.Errorf("labels are the text %q", s)
	}
	if l.Attempts() < 1<<30 { // more than can be counted is more than allowed
		t.Errorf("%d attempts", l.Attempts())
	}
	if h := parsed(t, `{"dead_letter":{"errors":7,"attempts":-3}}`); h.History() != nil || h.Attempts() != 0 {
		t.Errorf("history %v, attempts %d", h.History(), h.Attempts())
	}
}

// Files are found once, whatever they are called, and what is none says so.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	for _, name := range []string{"a-20261130-000010.ndjson", "a-20261130-000009.ndjson", "b-20261129-000001.ndjson.failed", "b-20261129-000001.ndjson.journal", "README"} {
		mustWrite(t, filepath.Join(dir, name), sample(1, "too_old"))
	}
	must(t, os.Symlink("README", filepath.Join(dir, "link")))
	log := slog.New(slog.DiscardHandler)
	set, err := Find([]string{dir}, []string{filepath.Join(dir, "link"), filepath.Join(dir, "README"), filepath.Join(dir, "a-20261130-000009.ndjson")}, log)
	must(t, err)
	defer set.Close()
	var got []string
	for _, f := range set.Files {
		got = append(got, filepath.Base(f.Path))
	}
	want := []string{"b-20261129-000001.ndjson.failed", "a-20261130-000009.ndjson", "a-20261130-000010.ndjson", "link"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("found %q, want %q", got, want)
	}
	if !set.Files[0].Failed() || set.Files[1].Failed() || set.Files[1].Replayed() {
		t.Error("the names are not told apart")
	}
	for _, tt := range []struct {
		dirs, files []string
		want        sysexits.Code
	}{
		{nil, []string{filepath.Join(dir, "none")}, sysexits.Usage},
		{nil, []string{dir}, sysexits.Usage},
		{nil, []string{filepath.Join(dir, "b-20261129-000001.ndjson.journal")}, sysexits.Usage},
		{nil, []string{filepath.Join(dir, "README", "x")}, sysexits.CantCreat},
		{[]string{filepath.Join(dir, "none")}, nil, sysexits.Config},
		{[]string{filepath.Join(dir, "README")}, nil, sysexits.CantCreat},
	} {
		if set, err := Find(tt.dirs, tt.files, log); sysexits.Of(err) != tt.want {
			t.Errorf("%q, %q: %v, %v; want %d", tt.dirs, tt.files, set, err, tt.want)
		}
	}
}

// A file's state is another as soon as a record of it has another fate.
func TestState(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, filepath.Join(dir, capture), sample(1, "too_old"), sample(2, "too_old"))
	state := func() string {
		set, err := Find([]string{dir}, nil, slog.New(slog.DiscardHandler))
		must(t, err)
		defer set.Close()
		return set.Files[0].State()
	}
	before := state()
	if again := state(); again != before {
		t.Errorf("%s becomes %s by itself", before, again)
	}
	c := mustTake(t, dir)
	items := index(t, c, New)
	must(t, c.Replayed(&items[0]))
	must(t, c.Commit())
	c.Release()
	if after := state(); after == before {
		t.Errorf("a fate changes nothing: %s", after)
	}
}

// Whether a group is in somebody's hands can be seen without taking it.
func TestInUse(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, filepath.Join(dir, capture), sample(1, "too_old"))
	set, err := Find([]string{dir}, nil, slog.New(slog.DiscardHandler))
	must(t, err)
	defer set.Close()
	group := set.Groups()[0]
	c := mustTake(t, dir)
	if used, err := InUse(group); !used || err != nil {
		t.Errorf("in hand: %t, %v", used, err)
	}
	c.Release()
	if used, err := InUse(group); used || err != nil {
		t.Errorf("given back: %t, %v", used, err)
	}
	must(t, os.Remove(filepath.Join(dir, capture)))
	if used, err := InUse(group); used || err != nil {
		t.Errorf("removed: %t, %v", used, err)
	}
}

// Each kind of damage and fault has the status that tells what to do.
func TestStatuses(t *testing.T) {
	unread := sysexits.Errorf(sysexits.NoPerm, "not yours")
	for want, d := range map[sysexits.Code]*Damage{
		sysexits.IOErr:   {Path: "f", Line: 2, Torn: true, Text: "torn"},
		sysexits.DataErr: {Path: "f", Line: 2, Text: "what"},
		sysexits.NoPerm:  {Path: "f", Err: unread},
	} {
		if d.Code() != want {
			t.Errorf("%v: status %d, want %d", d, d.Code(), want)
		}
	}
	for kind, want := range map[FaultKind]sysexits.Code{
		FaultTorn: sysexits.IOErr, FaultDamage: sysexits.DataErr, FaultRecord: sysexits.DataErr, FaultMode: sysexits.OK, FaultJournal: sysexits.OK,
	} {
		if kind.Code() != want || kind.Serious() != (want != sysexits.OK) {
			t.Errorf("%s: status %d, serious %t", kind, kind.Code(), kind.Serious())
		}
	}
}
