package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/errtest"
	"sf2loki/pkg/spool"
	"sf2loki/pkg/sysexits"
)

var now = time.Date(2026, 7, 2, 12, 0, 0, 0, time.UTC)

func listed(id, eventType string, hour int, bytes int) string {
	name, _ := json.Marshal(eventType)
	return fmt.Sprintf(`{"source":"eventlogfile","id":%q,"event_type":%s,"interval":"Hourly","log_date":"2026-07-01T%02d:00:00Z","created":"2026-07-01T%02d:30:00Z","bytes":%d}`+"\n",
		id, name, hour, hour+1, bytes)
}

func account(key, id, rest string) string {
	return fmt.Sprintf(`{"v":1,"at":"2026-07-01T20:00:00Z","run_id":"r","checkpoint_key":%q,"account":{"origin":%q,"event_type":"Login","log_date":"2026-07-01T10:00:00Z",%s}}`+"\n", key, id, rest)
}

// lossOf is what a run had dropped of file A when it was cut off.
func lossOf(n int) string {
	return fmt.Sprintf(`{"v":1,"at":"2026-07-01T20:00:00Z","run_id":"r","checkpoint_key":"eventlogfile:Login","loss":{"dropped":%d,"ts":"2026-07-01T10:10:00Z","checkpoint_value":"{\"id\":\"A\"}"}}`+"\n", n)
}

// join joins texts as an audit of the first of July.
func join(t *testing.T, listing, ledger, counts string, change func(*Config)) *Report {
	t.Helper()
	in := NewInputs()
	if err := in.Listing("listing", strings.NewReader(listing)); err != nil {
		t.Fatal(err)
	}
	if err := in.Ledger("ledger", strings.NewReader(ledger)); err != nil {
		t.Fatal(err)
	}
	if counts != "" {
		if err := in.Counts("counts", strings.NewReader(counts)); err != nil {
			t.Fatal(err)
		}
	}
	cfg := Config{Since: now.AddDate(0, 0, -1).Truncate(24 * time.Hour), Until: now.Truncate(24 * time.Hour), Now: now, Wait: time.Hour,
		Commands: Commands{Ledger: "l"}}
	if change != nil {
		change(&cfg)
	}
	return Join(cfg, in)
}

// kindsOf are the findings in short.
func kindsOf(r *Report) string {
	var kinds []string
	for _, f := range r.Findings {
		kinds = append(kinds, fmt.Sprintf("%s %d", f.Kind, f.Entries))
	}
	return strings.Join(kinds, ", ")
}

func TestJoin(t *testing.T) {
	const login = "eventlogfile:Login"
	all := `"bytes":9,"rows":10,"delivered":10`
	file := listed("A", "Login", 10, 9)
	tests := []struct {
		name, listing, ledger, counts string
		change                        func(*Config)
		want                          string
	}{
		{"complete", file, account(login, "A", all), "", nil, ""},
		{"of an org and a lane", file, account("org=x:lane=y:"+login, "A", all), "", nil, ""},
		{"of a window", file, account("window=2026-07-01T00:00:00Z/:"+login, "A", all), "", nil, ""},
		{"no account", file, "", "", nil, "not pulled 0"},
		{"no account yet", file, "", "", func(c *Config) { c.Wait = 48 * time.Hour }, "still to come 0"},
		{"files may still come", file, account(login, "A", all), "", func(c *Config) { c.Late = 13 * time.Hour }, "still to come 0"},
		{"left out by rules", file, account(login, "A", `"bytes":9,"rows":10,"filtered":2,"sampled_out":3,"skipped_duplicate":1,"delivered":4`), "", nil, ""},
		{"rows missing", file, account(login, "A", `"bytes":9,"rows":10,"delivered":7`), "", nil, "rows missing 3"},
		{"letters apart are no missing rows", file, account(login, "A", `"bytes":9,"rows":10,"dead_lettered":3,"delivered":7`), "", nil, "dead letters wait 3"},
		{"a gap is no row", file, account(login, "A", `"bytes":9,"rows":10,"source_gaps":1,"delivered":9,"rejected":1`), "", nil, "rows missing 1"},
		{"nor refused", file, account(login, "A", `"bytes":9,"rows":10,"source_gaps":1,"delivered":10,"rejected":1`), "", nil, ""},
		{"nor dropped", file, account(login, "A", `"bytes":9,"rows":10,"source_gaps":1,"delivered":10,"dropped":1`), "", nil, "dropped 1"},
		{"dropped", file, account(login, "A", `"bytes":9,"rows":10,"delivered":7,"dropped":3`), "", nil, "dropped 3"},
		{"another length", file, account(login, "A", `"bytes":8,"rows":10,"delivered":10`), "", nil, "file changed 0"},
		{"the best of several passes counts", file, account(login, "A", `"bytes":9,"rows":10,"delivered":7`) + account(login, "A", all), "", nil, ""},
		{"a pass that was resumed", file, account(login, "A", `"bytes":9,"rows":10,"resumed_after":6,"delivered":4`), "", nil, ""},
		{"a pass that was resumed proves nothing of the rows before", file, account(login, "A", `"bytes":9,"rows":10,"delivered":7,"dropped":1`) + account(login, "A", `"bytes":9,"rows":10,"resumed_after":8,"delivered":2`), "", nil, "dropped 1, rows missing 2"},
		{"one with letters before one that dropped", file, account(login, "A", `"bytes":9,"rows":10,"delivered":9,"rejected":1`) + account(login, "A", `"bytes":9,"rows":10,"delivered":9,"dropped":1`), "", nil, "dead letters wait 1"},
		{"one over the file as it is offered counts", file, account(login, "A", `"bytes":9,"rows":10,"delivered":9,"rejected":1`) + account(login, "A", `"bytes":8,"rows":9,"delivered":9`), "", nil, "dead letters wait 1"},
		{"a torn line comes again", file, account(login, "A", all) + `{"v":1,"acc`, "", nil, ""},
		{"Loki holds it", file, account(login, "A", all), `{"source":"eventlogfile","event_type":"Login","hour":"2026-07-01T10:00:00Z","entries":10}`, nil, ""},
		{"Loki holds less", file, account(login, "A", all), `{"source":"eventlogfile","event_type":"Login","hour":"2026-07-01T10:00:00Z","entries":9}`, nil, "fewer in Loki 1"},
		{"the window ends within a day", strings.Replace(strings.Replace(file, "Hourly", "Daily", 1), "T10:00", "T00:00", 1), account(login, "A", all),
			`{"source":"eventlogfile","event_type":"Login","hour":"2026-07-01T10:00:00Z","entries":6}`, func(c *Config) { c.Until = c.Until.Add(-time.Hour) }, ""},
		{"a late file may repeat rows", file + listed("B", "Login", 10, 9), account(login, "A", all) + account(login, "B", all),
			`{"source":"eventlogfile","event_type":"Login","hour":"2026-07-01T10:00:00Z","entries":15}`, nil, ""},
		{"or not", file + listed("B", "Login", 10, 9), account(login, "A", all) + account(login, "B", all),
			`{"source":"eventlogfile","event_type":"Login","hour":"2026-07-01T10:00:00Z","entries":15}`, func(c *Config) { c.StrictCounts = true }, "fewer in Loki 5"},
		{"what came before a cut is not known behind rules", file, account(login, "A", `"bytes":9,"rows":10,"resumed_after":6,"filtered":1,"delivered":3`),
			`{"source":"eventlogfile","event_type":"Login","hour":"2026-07-01T10:00:00Z","entries":3}`, nil, ""},
		{"a file that is not offered any more", file, account(login, "A", all) + account(login, "Z", `"bytes":9,"rows":10,"delivered":9`), "", nil, "rows missing 1"},
		{"one of another time", file, account(login, "A", all) + strings.Replace(account(login, "Z", `"rows":10`), "2026-07-01T10", "2026-06-01T10", 1), "", nil, ""},
		{"a page of rows", file, account(login, "A", all) + strings.Replace(account("eventlog_objects:LoginHistory", "q", `"rows":5,"delivered":3,"dropped":1`), `"log_date"`, `"x"`, 1), "", nil, "dropped 1, rows missing 1"},
		{"a run that was cut off", file, account(login, "A", all) + strings.Replace(account(login, "A", "x"), `"account":{"origin":"A","event_type":"Login","log_date":"2026-07-01T10:00:00Z",x}`, `"loss":{"dropped":2,"ts":"2026-07-01T10:10:00Z","checkpoint_value":"{\"id\":\"A\"}"}`, 1), "", nil, "dropped 2"},
		{"and has passed again since", file, strings.Replace(account(login, "A", "x"), `"account":{"origin":"A","event_type":"Login","log_date":"2026-07-01T10:00:00Z",x}`, `"loss":{"dropped":2,"checkpoint_value":"{\"id\":\"A\"}"}`, 1) +
			strings.NewReplacer(`"r"`, `"s"`, "20:00", "21:00").Replace(account(login, "A", all)), "", nil, ""},
		{"and whose id another run has as well", file, lossOf(2) + account(login, "A", `"bytes":9,"rows":10,"resumed_after":6,"delivered":4`), "", nil, "dropped 2"},
		{"lines of one run take each other's place", file, lossOf(1) + lossOf(2) + account(login, "A", `"bytes":9,"rows":10,"delivered":8,"dropped":2`), "", nil, "dropped 2"},
		{"a loss of no file", file, account(login, "A", all) + strings.Replace(account("pubsub:/event/X", "A", "x"), `"account":{"origin":"A","event_type":"Login","log_date":"2026-07-01T10:00:00Z",x}`, `"loss":{"dropped":2}`, 1), "", nil, "dropped 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := join(t, tt.listing, tt.ledger, tt.counts, tt.change)
			if got := kindsOf(r); got != tt.want {
				t.Errorf("found %q, want %q: %+v", got, tt.want, r.Findings)
			}
			if complete := r.Verdict == Complete; complete != (tt.want == "") || complete != (r.Status == 0) {
				t.Errorf("verdict %s, status %d", r.Verdict, r.Status)
			}
			for _, f := range r.Findings {
				if f.Verdict == Hole && f.Command == "" && f.Source != "pubsub" {
					t.Errorf("no command fills %+v", f)
				}
			}
			var table, page bytes.Buffer
			if err := r.Table(&table, strings.Clone); err != nil || !strings.HasSuffix(table.String(), "\n"+string(r.Verdict)+"\n") {
				t.Errorf("%v: %s", err, table.String())
			}
			if err := r.Page(&page); err != nil || !strings.Contains(page.String(), string(r.Verdict)) {
				t.Errorf("%v: %s", err, page.String())
			}
		})
	}
}

// More entries than rows are told: they may hide rows that are missing.
func TestMoreEntriesThanRows(t *testing.T) {
	for rest, want := range map[string]int{
		`"bytes":9,"rows":10,"delivered":12`:                                               1,
		`"bytes":9,"rows":10,"resumed_after":4,"filtered":1,"delivered":5,"rejected":1`:    1,
		`"bytes":9,"rows":10,"dead_lettered":1,"source_gaps":1,"delivered":9,"rejected":2`: 0,
		`"bytes":9,"rows":10,"resumed_after":4,"sampled_out":2,"delivered":3,"rejected":1`: 0,
	} {
		r := join(t, listed("A", "Login", 10, 9), account("eventlogfile:Login", "A", rest), "", nil)
		if len(r.Notes) != want || want > 0 && !strings.HasPrefix(r.Notes[0], "eventlogfile Login 2026-07-01T10:00:00Z A: ") {
			t.Errorf("%s: notes %q", rest, r.Notes)
		}
	}
}

// Where there is nothing to look at that is told.
func TestNothing(t *testing.T) {
	r := join(t, "", "", "", func(c *Config) { c.Late = 13 * time.Hour })
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "was anything pulled?") {
		t.Errorf("notes %q", r.Notes)
	}
	var table bytes.Buffer
	if err := r.Table(&table, strings.Clone); err != nil || !strings.Contains(table.String(), "\ntoo early: what is of the window may still come, until 2026-07-02T13:00:00Z\n") {
		t.Errorf("%v: %s", err, table.String())
	}
}

// The page says of what time it is, and on paper no column of it is cut off.
func TestPageOnPaper(t *testing.T) {
	for window, change := range map[string]func(*Config){
		"<p>Events from 2026-07-01T00:00:00Z until before 2026-07-02T00:00:00Z.": nil,
		"<p>Events of any time.": func(c *Config) { c.Since, c.Until = time.Time{}, time.Time{} },
	} {
		var page bytes.Buffer
		if err := join(t, "", "", "", change).Page(&page); err != nil {
			t.Fatal(err)
		}
		_, print, _ := strings.Cut(page.String(), "@media print {")
		if !strings.Contains(print, ".wide { overflow: visible; }") || !strings.Contains(page.String(), window) {
			t.Errorf("the page is\n%s", page.String())
		}
	}
}

// What pulls a file again has its rows be of the org that the others are of.
func TestCommandsOfAnOrg(t *testing.T) {
	const all, holed = `"bytes":9,"rows":10,"delivered":10`, `"bytes":9,"rows":10,"delivered":9`
	for _, tt := range []struct{ ledger, pull, want string }{
		{account("org=x:eventlogfile:Login", "B", all), "", " --interval Hourly --org x |"},
		{account("org=x:eventlogfile:Login", "A", holed), "", " --interval Hourly --org x |"},
		{account("org=x:eventlogfile:Login", "A", holed), "again", " --interval Hourly"},
		{account("org=x:eventlogfile:Login", "A", holed) + account("org=y:eventlogfile:Login", "B", all), "", " --interval Hourly |"},
		{account("eventlogfile:Login", "A", holed), "", " --interval Hourly |"},
	} {
		r := join(t, listed("A", "Login", 10, 9), tt.ledger, "", func(c *Config) { c.Commands.Pull = tt.pull })
		if len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Command+"$", tt.want) || strings.Contains(r.Findings[0].Command, "--org") != strings.Contains(tt.want, "--org") {
			t.Errorf("%swant a command with %q: %+v", tt.ledger, tt.want, r.Findings)
		}
	}
}

// What pulls a file again that is not listed is of its day or hour.
func TestCommandsOfFilesThatAreNotListed(t *testing.T) {
	const holed = `"rows":10,"delivered":9`
	for ledger, want := range map[string]string{
		account("eventlogfile:Login", "Z", `"interval":"Hourly",`+holed):                                                                         " --until 2026-07-01T11:00:00Z --event-type Login --interval Hourly |",
		strings.Replace(account("eventlogfile:Daily:Login", "Z", `"interval":"Daily",`+holed), "T10:00:00Z", "T00:00:00Z", 1):                    " --until 2026-07-02T00:00:00Z --event-type Login --interval Daily |",
		strings.NewReplacer("eventlogfile:Login", "eventlogfile:Daily:Login", "2026-07-01T10:10:00Z", "2026-07-01T00:10:00Z").Replace(lossOf(2)): " --until 2026-07-02T00:00:00Z --event-type Login --interval Daily |",
	} {
		r := join(t, "", ledger, "", nil)
		if len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Command, want) {
			t.Errorf("%swant a command with %q: %+v", ledger, want, r.Findings)
		}
	}
}

// A hostile name is no markup, and no command of a terminal.
func TestHostileNames(t *testing.T) {
	r := join(t, listed("A", "<script>\u009b\x1b[2J'", 10, 9), "", "", nil)
	var page bytes.Buffer
	if err := r.Page(&page); err != nil {
		t.Fatal(err)
	}
	if text := page.String(); strings.ContainsAny(text, "\x1b\u009b") || strings.Contains(text, "<script") || !strings.Contains(text, "&lt;script&gt;\ufffd\ufffd[2J&#39;") {
		t.Errorf("the page is\n%s", text)
	}
}

// letterOf is a dead letter of a row.
func letterOf(origin, reason, line string) string {
	return fmt.Sprintf(`{"ts":"2026-07-01T10:00:00Z","labels":{"source":"eventlogfile","event_type":"Login"},"line":%q,"origin":%q,"reason":%q,"captured_at":"2026-07-01T12:00:00Z","dead_letter":{"v":1}}`, line, origin, reason)
}

// spoolOf is a directory with these letters.
func spoolOf(t *testing.T, letters ...string) string {
	t.Helper()
	dir := t.TempDir()
	w, err := spool.Open(spool.Config{Dir: dir, Instance: "a", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	lines := make([][]byte, len(letters))
	for i, text := range letters {
		lines[i] = []byte(text + "\n")
	}
	if err := errors.Join(w.Append(lines), w.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// inputsOf reads texts, and the spool in dir.
func inputsOf(t *testing.T, listing, ledger, dir string) *Inputs {
	t.Helper()
	set, err := spool.Find([]string{dir}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	in := NewInputs()
	err = errors.Join(in.Listing("listing", strings.NewReader(listing)), in.Ledger("ledger", strings.NewReader(ledger)), in.Spool(set))
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// Letters are counted by what became of them, each entry once, and their
// commands select them.
func TestLetters(t *testing.T) {
	dir := spoolOf(t,
		letterOf("A:1", "too_old", "one"), letterOf("A:1", "too_old", "one"), letterOf("A:2", "line_too_long", "two"),
		letterOf("A:3", "truncated_copy", "three"), letterOf("Z:1", "bad_request", "of no file"),
		`{"ts":"2026-07-01T11:00:00Z","labels":{"source":"eventlogfile","event_type":"API"},"origin":"B","reason":"source_gap","captured_at":"2026-07-01T12:00:00Z"}`)
	in := inputsOf(t, listed("A", "Login", 10, 9)+listed("B", "API", 11, 9), account("eventlogfile:Login", "A", `"bytes":9,"rows":10,"delivered":6,"rejected":4`), dir)
	r := Join(Config{Now: now, Commands: Commands{Ledger: "l", Spools: []string{dir}}}, in)
	const want = "gap of the source 0, dead letters wait 1, dead letters wait 1, dead letters wait 1, dead letters lost 2"
	if got := kindsOf(r); got != want {
		t.Errorf("found %q, want %q", got, want)
	}
	now := 0
	for _, f := range r.Findings {
		if strings.HasPrefix(f.Command, "dl-replay run --spool ") && strings.Contains(f.Command, " --ts now -- loki-push") {
			now++
		}
	}
	if now != 1 {
		t.Errorf("%d commands change times: %+v", now, r.Findings)
	}
}

// Rows of several files, and of one, may be the same entry: each has a letter of
// its own, and one of them that was delivered is enough for all.
func TestLettersOfSameEntry(t *testing.T) {
	dir := spoolOf(t, letterOf("A:1", "too_old", "one"), letterOf("A:1", "too_old", "one"), letterOf("A:7", "too_old", "one"), letterOf("B:5", "too_old", "one"))
	in := inputsOf(t, listed("A", "Login", 10, 9)+listed("B", "Login", 10, 9),
		account("eventlogfile:Login", "A", `"bytes":9,"rows":10,"delivered":8,"rejected":2`)+account("eventlogfile:Login", "B", `"bytes":9,"rows":10,"delivered":9,"rejected":1`), dir)
	r := Join(Config{Now: now, Commands: Commands{Ledger: "l", Spools: []string{dir}}}, in)
	if got := kindsOf(r); got != "dead letters wait 3" || r.Rows[0].Refused != r.Rows[0].Waiting {
		t.Errorf("found %q: %+v", got, r.Rows[0])
	}
	journal := fmt.Sprintf(`{"v":1,"line":4,"id":%q,"fate":"replayed","at":"2026-07-01T12:00:00Z"}`+"\n", in.entry(t))
	files, err := filepath.Glob(filepath.Join(dir, "*.ndjson"))
	if err := errors.Join(err, os.WriteFile(files[0]+".journal", []byte(journal), 0o600)); err != nil {
		t.Fatal(err)
	}
	in = inputsOf(t, listed("A", "Login", 10, 9), account("eventlogfile:Login", "A", `"bytes":9,"rows":10,"delivered":8,"rejected":2`), dir)
	r = Join(Config{Now: now, Commands: Commands{Ledger: "l"}}, in)
	if r.Verdict != Complete {
		t.Errorf("after one was replayed: %+v", r.Findings)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{journal, string(data)} {
		want := Input{What: "spool", Name: files[0] + []string{".journal", ""}[i], Bytes: int64(len(text)), SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(text)))}
		if got := r.Inputs[2+i]; got != want {
			t.Errorf("the report has the input %+v, want %+v", got, want)
		}
	}
}

// entry is the id of the only entry among the letters.
func (in *Inputs) entry(t *testing.T) string {
	t.Helper()
	for id := range in.fates {
		return id
	}
	t.Fatal("there are no letters")
	return ""
}

// What could not be decoded has no line that could be pushed: no command sends it.
func TestLettersWithoutLine(t *testing.T) {
	dir := spoolOf(t, `{"labels":{"source":"eventlogfile","event_type":"Login"},"payload_base64":"AA==","origin":"A:3","reason":"decode_error","captured_at":"2026-07-01T12:00:00Z"}`)
	in := inputsOf(t, listed("A", "Login", 10, 9), account("eventlogfile:Login", "A", `"bytes":9,"rows":10,"dead_lettered":1,"delivered":9`), dir)
	r := Join(Config{Now: now, Commands: Commands{Ledger: "l", Spools: []string{"dead"}}}, in)
	if got := kindsOf(r); got != "dead letters wait 1" || r.Findings[0].Command != "dl-replay show --spool dead --reason decode_error --source eventlogfile --event-type Login" {
		t.Errorf("%+v", r.Findings)
	}
}

// pageOf is the account of a page of rows, by a run.
func pageOf(key, run, rest string) string {
	return fmt.Sprintf(`{"v":1,"at":"2026-07-01T20:00:00Z","run_id":%q,"checkpoint_key":%q,"account":{"origin":"LoginHistory 2026-07-01T10:00:00.000Z/2026-07-01T11:00:00.000Z","event_type":"LoginHistory",%s}}`+"\n", run, key, rest)
}

// An hour of a topic is checked by its account; no run mends what another has
// lost.
func TestTopics(t *testing.T) {
	hour := func(run, rest string) string {
		return fmt.Sprintf(`{"v":1,"at":"2026-07-01T20:00:00Z","run_id":%q,"checkpoint_key":"pubsub:/event/Orders__chn","account":{"origin":"/event/Orders__chn 2026-07-01T10:00:00.000Z/2026-07-01T10:59:00.000Z","event_type":"Orders__chn",%s}}`+"\n", run, rest)
	}
	for _, tt := range []struct{ name, ledger, want string }{
		{"whole", hour("r", `"rows":5,"skipped_duplicate":1,"delivered":4`), "dead letters wait 1"},
		{"lost on the way", hour("r", `"rows":5,"delivered":3`) + hour("s", `"rows":5,"delivered":5`), "dead letters wait 1, rows missing 2"},
		{"one refused", hour("r", `"rows":5,"delivered":4,"rejected":1`), "dead letters wait 1"},
		{"two refused", hour("r", `"rows":5,"delivered":3,"rejected":2`), "dead letters wait 1, dead letters lost 1"},
	} {
		in := NewInputs()
		if err := in.Ledger("ledger", strings.NewReader(tt.ledger)); err != nil {
			t.Fatal(err)
		}
		in.hasSpool = true
		in.letters[copied{}] = &letter{origin: "/event/Orders__chn", source: "pubsub", eventType: "Order__e", at: now.AddDate(0, 0, -1).Truncate(24 * time.Hour).Add(10*time.Hour + 30*time.Minute).UnixNano(), status: spool.New, reason: "too_old"}
		r := Join(Config{Now: now, Commands: Commands{Ledger: "l"}}, in)
		if got := kindsOf(r); got != tt.want {
			t.Errorf("%s: found %q, want %q: %+v", tt.name, got, tt.want, r.Findings)
		}
	}
}

// What becomes of rows that no file lists is checked by their accounts, by org,
// and letters of the refused ones have to be somewhere.
func TestPages(t *testing.T) {
	const key = "eventlog_objects:LoginHistory"
	whole := pageOf("org=a:"+key, "s", `"rows":5,"delivered":5`)
	refused := pageOf("org=a:"+key, "r", `"rows":5,"delivered":2,"rejected":3`)
	for _, tt := range []struct {
		name, ledger string
		letters      []string // their times; nil: there is no spool
		want         string
		org          string // of the letters
	}{
		{"whole", whole, nil, "", ""},
		{"another run has passed over them", pageOf("org=a:"+key, "r", `"rows":5,"delivered":3,"dropped":2`) + whole, nil, "", ""},
		{"one of another org", pageOf("org=b:"+key, "r", `"rows":5,"delivered":3,"dropped":2`) + whole, nil, "dropped 2", ""},
		{"refused, and nobody looks for letters", refused, nil, "dead letters wait 3", ""},
		{"letters are there", refused, []string{"10:00:00", "10:59:59.999", "11:00:00"}, "dead letters wait 3", ""},
		{"letters of another time", refused, []string{"09:59:59.999", "10:59:59", "11:00:00.001"}, "dead letters wait 3, dead letters lost 2", ""},
		{"all letters are lost", refused, []string{}, "dead letters lost 3", ""},
		{"all were delivered since", refused + whole, []string{}, "", ""},
		{"some were refused again", refused + pageOf("org=a:"+key, "s", `"rows":5,"delivered":4,"rejected":1`), []string{"10:30:00"}, "dead letters wait 1, dead letters lost 2", ""},
		{"letters of the org", refused, []string{"10:00:00", "10:30:00", "11:00:00"}, "dead letters wait 3", "a"},
		{"letters of another org", refused, []string{"10:00:00", "10:30:00", "11:00:00"}, "dead letters wait 3, dead letters lost 3", "b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := NewInputs()
			if err := in.Ledger("ledger", strings.NewReader(tt.ledger)); err != nil {
				t.Fatal(err)
			}
			in.hasSpool = tt.letters != nil
			for i, at := range tt.letters {
				when, err := time.Parse(time.RFC3339, "2026-07-01T"+at+"Z")
				if err != nil {
					t.Fatal(err)
				}
				in.letters[copied{entry: fmt.Sprint(i)}] = &letter{origin: "id", source: "eventlog_objects", eventType: "LoginHistory", org: tt.org, at: when.UnixNano(), status: spool.New, reason: "too_old"}
			}
			r := Join(Config{Now: now, Commands: Commands{Ledger: "l"}}, in)
			if got := kindsOf(r); got != tt.want {
				t.Errorf("found %q, want %q: %+v", got, tt.want, r.Findings)
			}
			for _, f := range r.Findings {
				if f.File != "" && !strings.HasPrefix(f.Command, "sf-pull objects --since 2026-07-01T10:00:00Z --until 2026-07-01T11:00:00.001Z --object LoginHistory --org ") {
					t.Errorf("%s: the command is %s", f.Kind, f.Command)
				}
			}
		})
	}
}

// What got lost of rows that reach over midnight is a hole of both days, and of
// no other.
func TestPagesOverMidnight(t *testing.T) {
	in := NewInputs()
	ledger := strings.Replace(pageOf("eventlog_objects:LoginHistory", "r", `"rows":5,"delivered":4`), "T10:00:00.000Z/2026-07-01T11", "T10:00:00.000Z/2026-07-02T11", 1)
	if err := in.Ledger("ledger", strings.NewReader(ledger)); err != nil {
		t.Fatal(err)
	}
	for day, want := range map[int]string{-2: "", -1: "rows missing 1", 0: "rows missing 1", 1: ""} {
		since := now.Truncate(24*time.Hour).AddDate(0, 0, day)
		r := Join(Config{Since: since, Until: since.AddDate(0, 0, 1), Now: since.AddDate(0, 0, 2)}, in)
		if got := kindsOf(r); got != want {
			t.Errorf("%s: found %q, want %q: %+v", since.Format(time.DateOnly), got, want, r.Findings)
		}
	}
}

// Of a ledger nothing is kept that the window does not need, and a run that
// began before it mends all the same what it has passed over.
func TestLedgerOfYears(t *testing.T) {
	page := func(run, span, rest string) string {
		return strings.Replace(pageOf("eventlog_objects:LoginHistory", run, rest), "2026-07-01T10:00:00.000Z/2026-07-01T11:00:00.000Z", span, 1)
	}
	holed := page("r", "2026-06-30T23:00:00Z/2026-07-01T01:00:00Z", `"rows":5,"delivered":4`)
	for ledger, want := range map[string]string{
		holed: "rows missing 1",
		holed + page("s", "2026-06-30T22:00:00Z/2026-06-30T23:30:00Z", `"rows":2,"delivered":2`) + page("s", "2026-06-30T23:30:00Z/2026-07-01T02:00:00Z", `"rows":3,"delivered":3`): "",
	} {
		in := NewInputs()
		in.Since, in.Until = now.Truncate(24*time.Hour).AddDate(0, 0, -1), now.Truncate(24*time.Hour)
		old := strings.Replace(account("eventlogfile:Login", "Z", `"rows":10`), "2026-07-01T10", "2026-06-01T10", 1)
		if err := in.Ledger("ledger", strings.NewReader(old+ledger)); err != nil {
			t.Fatal(err)
		}
		r := Join(Config{Since: in.Since, Until: in.Until, Now: now}, in)
		if got := kindsOf(r); got != want || len(in.passes["Z"]) > 0 {
			t.Errorf("found %q, want %q; passes %v", got, want, in.passes)
		}
	}
}

// What is no input is refused.
func TestInputs(t *testing.T) {
	for _, tt := range []struct {
		read func(*Inputs, string) error
		text string
		want sysexits.Code
	}{
		{func(in *Inputs, s string) error { return in.Listing("x", strings.NewReader(s)) }, "{}\n", sysexits.DataErr},
		{func(in *Inputs, s string) error { return in.Ledger("x", strings.NewReader(s)) }, "{}\n", sysexits.DataErr},
		{func(in *Inputs, s string) error { return in.Ledger("x", strings.NewReader(s)) }, `{"v":9}` + "\n", sysexits.Config},
		{func(in *Inputs, s string) error { return in.Counts("x", strings.NewReader(s)) }, "[]\n", sysexits.DataErr},
	} {
		if err := tt.read(NewInputs(), tt.text); sysexits.Of(err) != tt.want {
			t.Errorf("%q: %v", tt.text, err)
		}
	}
}

// endless is a line without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestEndlessLine(t *testing.T) {
	in := NewInputs()
	for what, read := range map[string]func(string, io.Reader) error{"listing": in.Listing, "ledger": in.Ledger, "counts": in.Counts} {
		if err := read("x", endless{}); sysexits.Of(err) != sysexits.DataErr || !strings.Contains(err.Error(), "line 1: more than") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What is put into a command stays one word of it.
func TestQuote(t *testing.T) {
	for text, want := range map[string]string{
		"Login": "Login", "": "''", "a b": "'a b'", "x'; rm -rf ~; '": `'x'\''; rm -rf ~; '\'''`, "$(id)": "'$(id)'", "a\nb": "'a\nb'",
	} {
		if got := quote(text); got != want {
			t.Errorf("quote(%q) = %s, want %s", text, got, want)
		}
	}
}

func TestSourceOf(t *testing.T) {
	for key, want := range map[string]string{
		"eventlogfile:Login": "eventlogfile", "eventlogfile:Daily:Login": "eventlogfile", "org=a:apexlog": "apexlog",
		"org=a:lane=b:pubsub:/event/X": "pubsub", "window=2026-07-01T00:00:00Z/2026-07-02T00:00:00Z:eventlog_objects:LoginHistory": "eventlog_objects",
		"file:a.csv": "eventlogfile", "window=2026-07-01T00:00:00Z/:apexlog": "apexlog",
	} {
		if got := sourceOf(checkpoint.ParseKey(key)); got != want {
			t.Errorf("sourceOf(%q) = %s, want %s", key, got, want)
		}
	}
}

// No input ends the program or makes a message of more than a line, and every
// report can be shown.
func FuzzInputs(f *testing.F) {
	list, count := listed("A", "Login", 10, 9)+listed("B", "API", 11, 9), `{"source":"eventlogfile","event_type":"Login","hour":"2026-07-01T10:00:00Z","entries":3}`
	loss := `{"v":1,"at":"2026-07-01T20:00:00Z","run_id":"r","checkpoint_key":"eventlogfile:Login","loss":{"dropped":3,"ts":"2026-07-01T10:00:00Z","checkpoint_value":"x"}}` + "\n"
	rows := pageOf("eventlog_objects:LoginHistory", "r", `"rows":10,"delivered":8,"dropped":1`)
	for _, ledger := range []string{
		account("eventlogfile:Login", "A", `"rows":10,"delivered":9`), account("eventlogfile:Daily:Login", "A", `"rows":10,"delivered":7,"rejected":1,"dropped":1,"filtered":1`) + loss, loss + account("eventlogfile:Login", "A", `"rows":10,"resumed_after":9,"delivered":1`),
		rows, rows + rows + loss, account("apexlog", "07L 2026/x", `"rows":-5`), account("org=a:window=2026-07-01/2026-07-02:pubsub:/event/X", "", `"rows":1`), account("file:a.csv", "A", `"rows":9223372036854775807,"dropped":9223372036854775807`),
		"", "\n", loss + `{"v":1,"acc`, `{"v":2}` + "\n", `{"v":0}` + "\n", `{"v":` + strings.Repeat("7", 5000) + "}\n", strings.Repeat("7", 5000) + "\n",
	} {
		f.Add(list, ledger, count)
		f.Add("", ledger, "")
	}
	for _, text := range []string{"{}\n", "[]", strings.Repeat("7", 5000), `{"id":"A","log_date":"never"}`, `{"id":"A","interval":"Daily","log_date":"2026-07-01T00:00:00Z"}`, `{"hour":"2026-07-01T10:00:00Z","entries":-1}`, `{"entries":` + strings.Repeat("7", 5000) + `}`} {
		f.Add(text, account("eventlogfile:Login", "A", `"rows":1`), count)
		f.Add(list, account("eventlogfile:Login", "A", `"rows":1`), text)
	}
	f.Fuzz(func(t *testing.T, listing, ledger, counts string) {
		in := NewInputs()
		for _, err := range []error{in.Listing("a", strings.NewReader(listing)), in.Ledger("b", strings.NewReader(ledger)), in.Counts("c", strings.NewReader(counts))} {
			if err != nil {
				errtest.OneLine(t, err)
				return
			}
		}
		r := Join(Config{Now: now}, in)
		if err := errors.Join(r.Table(&bytes.Buffer{}, strings.Clone), r.Page(&bytes.Buffer{})); err != nil {
			t.Error(err)
		}
		alone := NewInputs()
		if err := alone.Listing("a", strings.NewReader(listing)); err != nil {
			t.Fatal(err)
		}
		if r := Join(Config{Now: now}, alone); alone.Files() > 0 && r.Verdict == Complete {
			t.Errorf("%q is complete without a ledger: %+v", listing, r.Rows[0])
		}
	})
}
