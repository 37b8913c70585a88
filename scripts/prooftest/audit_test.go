package prooftest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
	"sf2loki/scripts/testbed"
)

// found is a report of ckpt audit.
type found struct {
	Verdict  string
	Status   int
	Findings []struct{ Verdict, Kind, Text, Command string }
	Rows     []struct {
		EventType string `json:"event_type"`
		Rows      int64
		Delivered int64
		Loki      int64
	}
	Inputs []struct{ What, SHA256 string }
}

const pull = `sf-pull elf --event-type Login --event-type API --resume state.json | %s loki-push --spool dead | ckpt commit state.json --ledger state.ledger`

// audit audits the last two days, and says how that ended.
func (b *bench) audit(flags string) *found {
	b.T.Helper()
	window := "--since " + time.Now().AddDate(0, 0, -1).UTC().Format(time.DateOnly) +
		" --until " + time.Now().Add(-time.Hour).UTC().Format("2006-01-02T15:00:00Z")
	r := b.Run(fmt.Sprintf(`touch state.ledger; mkdir -p dead
sf-pull list --interval Hourly %[1]s >listing && loki-push count %[1]s >counts || exit
ckpt audit %[1]s --listing listing --counts counts --ledger state.ledger --spool dead --json --late 0s --page page.html %[2]s`, window, flags))
	f := &found{}
	if err := json.Unmarshal([]byte(r.Stdout), f); err != nil || f.Status != r.Status {
		b.T.Fatalf("%v: %v", err, r)
	}
	return f
}

// kinds are the kinds of the findings, each once.
func (f *found) kinds() string {
	var kinds []string
	for _, g := range f.Findings {
		if text := g.Verdict + ": " + g.Kind; !strings.Contains(strings.Join(kinds, ", "), text) {
			kinds = append(kinds, text)
		}
	}
	return strings.Join(kinds, ", ")
}

// fill runs the commands of all findings, again for what those uncover, until
// the window is complete.
func (b *bench) fill(f *found, flags string) {
	b.T.Helper()
	for round := 0; f.Verdict != "complete"; round++ {
		if round == 4 {
			b.T.Fatalf("still not complete: %+v", f.Findings)
		}
		for _, g := range f.Findings {
			if g.Command == "" {
				b.T.Fatalf("no command fills it: %+v", g)
			}
			b.OK(g.Command)
		}
		f = b.audit(flags)
	}
}

// Each kind of hole is found, told by 65, and its command fills it.
func TestAudit(t *testing.T) {
	tests := []struct {
		name  string
		do    func(b *bench) // instead of a plain pull
		flags string
		want  string
	}{
		{"complete", func(b *bench) { b.OK(fmt.Sprintf(pull, "")) }, "", ""},
		{"too early", func(b *bench) {}, "--wait 5h", "too early: still to come"},
		{"the window has only just ended", func(b *bench) { b.OK(fmt.Sprintf(pull, "")) }, "--late 24h", "too early: still to come"},
		{"a file that was never pulled", func(b *bench) {
			b.OK(fmt.Sprintf(pull, ""))
			b.hour("Login", 7, 30, nil) // its hour is behind, but so is the position only for what was there
			b.OK("ckpt set state.json eventlogfile:Login " + time.Now().UTC().Format("2006-01-02T15:04:05Z"))
		}, "", "hole: not pulled"},
		{"rows missing in a file", func(b *bench) { b.OK(fmt.Sprintf(pull, "sed 17d |")) }, "", "hole: rows missing"},
		{"letters wait", func(b *bench) { b.hour("API", 5, 40, tooOld(10)); b.OK(fmt.Sprintf(pull, "")) }, "", "hole: dead letters wait"},
		{"letters were refused again", func(b *bench) {
			b.hour("API", 5, 40, tooOld(10))
			b.OK(fmt.Sprintf(pull, ""))
			b.Run("dl-replay run --spool dead --force -- loki-push")
		}, "", "hole: dead letters failed"},
		{"letters were discarded", func(b *bench) {
			b.hour("API", 5, 40, tooOld(10))
			b.OK(fmt.Sprintf(pull, "") + ` && dl-replay discard --spool dead --reason too_old --because "nobody wants them"`)
		}, "", "hole: dead letters discarded"},
		{"letters were discarded, and that is right", func(b *bench) {
			b.hour("API", 5, 40, tooOld(10))
			b.OK(fmt.Sprintf(pull, "") + ` && dl-replay discard --spool dead --reason too_old --because "nobody wants them"`)
		}, "--accept-discarded", ""},
		{"a file of the spool is lost", func(b *bench) {
			b.hour("API", 5, 40, tooOld(10))
			b.OK(fmt.Sprintf(pull, ""))
			names, _ := filepath.Glob(b.Path("dead/*.ndjson"))
			for _, name := range names {
				if err := os.Remove(name); err != nil {
					b.T.Fatal(err)
				}
			}
		}, "", "hole: dead letters lost"},
		{"refused, and captured nowhere", func(b *bench) {
			b.hour("API", 5, 40, tooOld(10))
			b.OK(strings.Replace(fmt.Sprintf(pull, ""), "--spool dead", "--dead-letter-fd -1", 1))
		}, "", "hole: dropped"},
		{"a run that was cut off had dropped some", func(b *bench) {
			b.hour("API", 5, 40, tooOld(10))
			r := b.Run("sf-pull elf --event-type API | head -n 60 | loki-push --dead-letter-fd -1 | ckpt commit state.json --ledger state.ledger")
			if r.Status == 0 {
				b.T.Errorf("%v", r)
			}
			b.OK(fmt.Sprintf(pull, ""))
		}, "", "hole: dropped"},
		{"Loki has lost some", func(b *bench) {
			b.srv.Script(func(n int, _ lokitest.Request) *lokitest.Answer {
				if n == 1 {
					return &lokitest.Answer{Status: 204}
				}
				return nil
			})
			b.OK(fmt.Sprintf(pull, ""))
		}, "", "hole: fewer in Loki"},
		{"a file was made again, longer", func(b *bench) {
			b.OK(fmt.Sprintf(pull, "") + ` && sed -i 's/"bytes":[0-9]*/"bytes":7/' state.ledger`)
		}, "", "hole: file changed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.Set("SF_PULL_LOG_LEVEL=error", "LOKI_PUSH_LOG_LEVEL=error", "CKPT_LOG_LEVEL=error", "DL_REPLAY_LOG_LEVEL=error")
			b.hour("Login", 4, 50, nil)
			b.hour("Login", 5, 20, nil)
			b.hour("API", 4, 30, nil)
			tt.do(b)
			f := b.audit(tt.flags)
			if got := f.kinds(); got != tt.want {
				t.Fatalf("findings %q, want %q: %+v", got, tt.want, f)
			}
			if !strings.HasPrefix(tt.want, "hole") {
				return
			}
			b.fill(f, tt.flags)
		})
	}
}

// The page is whole by itself, tells of versions and inputs, and what a server
// says is no markup in it.
func TestAuditPage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Write("listing", `{"source":"eventlogfile","id":"0ATxx0000000001GAA","event_type":"<script>x</script>'; touch owned; '","interval":"Hourly","log_date":"2026-07-01T10:00:00Z","created":"2026-07-01T13:00:00Z","bytes":10}`+"\n")
	b.Write("state.ledger", "")
	r := b.Run("ckpt audit --listing listing --ledger state.ledger --page page.html --json")
	page := b.Read("page.html")
	for _, want := range []string{"SHA-256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "ckpt audit ", "&lt;script&gt;x", "hole"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "<script") || strings.Contains(page, "http://") || strings.Contains(page, "https://") {
		t.Errorf("the page asks for more, or runs something: %s", page)
	}
	var f found
	if err := json.Unmarshal([]byte(r.Stdout), &f); err != nil || r.Status != 65 || len(f.Findings) != 1 {
		t.Fatalf("%v", r)
	}
	b.Run(f.Findings[0].Command) // fails, as there is no such type
	if _, err := os.Stat(b.Path("owned")); err == nil {
		t.Error("an event type ran a command")
	}
}

// What is no input is refused.
func TestAuditInputs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Write("empty", "")
	b.Write("page", "<html>\n")
	b.Write("newer", `{"v":2}`+"\n")
	for script, status := range map[string]int{
		"ckpt audit <empty":                                                                                  64,
		"ckpt audit --ledger empty <empty":                                                                   75,
		"ckpt audit --ledger empty --allow-empty <empty":                                                     0,
		"ckpt audit --ledger nowhere <empty":                                                                 78,
		"ckpt audit --ledger page --allow-empty <empty":                                                      65,
		"ckpt audit --ledger newer --allow-empty <empty":                                                     78,
		"ckpt audit --ledger empty <page":                                                                    65,
		"ckpt audit --ledger empty --counts page --allow-empty <empty":                                       65,
		"ckpt audit --ledger empty --since 2026-07-02 --until 2026-07-01 <empty":                             64,
		"loki-push count --since 2026-07-01":                                                                 64,
		"loki-push count --since 2026-07-01T00:00:00Z --until 2026-07-01T01:00:00Z --selector '{'":           78,
		"loki-push count --url http://127.0.0.1:1 --since 2026-07-01T00:00:00Z --until 2026-07-01T01:00:00Z": 69,
	} {
		if r := b.Run(script); r.Status != status {
			t.Errorf("want %d: %v", status, r)
		}
	}
}

// The supervisor audits its lanes, each with its own settings, in any shell:
// the worst counts, a page is kept of each, and a command fills the hole.
func TestAuditOfLanes(t *testing.T) {
	script, err := filepath.Abs(filepath.Join(testbed.Root, "scripts/sf2loki"))
	if err != nil {
		t.Fatal(err)
	}
	for _, shell := range []string{"dash", "bash", "busybox ash"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			day := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -2)
			for n := range 3 {
				b.org.AddHour(sftest.Hour{Type: "Login", Start: day.Add(time.Duration(n) * time.Hour), Rows: 20},
					func(f *sftest.LogFile) { f.Created = time.Now().Add(-3 * time.Hour) })
			}
			if err := os.MkdirAll(b.Path("conf"), 0o700); err != nil {
				t.Fatal(err)
			}
			for _, lane := range []string{"one", "two"} {
				b.Write("conf/"+lane+".conf", strings.Join([]string{
					"SF2LOKI_SOURCE=elf", "SF2LOKI_STATE=" + b.Path(lane+".json"), "SF2LOKI_RUN_DIR=" + b.Path("run"),
					"SF_PULL_EVENT_TYPE=Login", "SF_PULL_LOGIN_URL=" + b.org.URL, "SF_PULL_CLIENT_ID=" + b.org.ClientID,
					"SF_PULL_USERNAME=" + b.org.Username, "SF_PULL_PRIVATE_KEY_FILE=" + b.Path("key.pem"), "SF_PULL_LANE=" + lane,
					"LOKI_PUSH_URL=" + b.srv.URL, "LOKI_PUSH_SPOOL=" + b.Path("dead-"+lane), "",
				}, "\n"))
			}
			b.Set("SF2LOKI_CONF_DIR="+b.Path("conf"), "SF_PULL_LOG_LEVEL=error")
			sf2loki := shell + " " + script
			b.OK("sf-pull elf --event-type Login --lane one | loki-push | ckpt commit one.json --ledger one.ledger && touch two.ledger && mkdir pages")
			r := b.Run(sf2loki + " audit --days-ago 2 --loki --pages pages")
			if r.Status != 65 {
				t.Fatalf("%v", r)
			}
			b.Run(sf2loki + " audit one --since " + day.Format(time.DateOnly) + "T00:00:00Z --until " + day.Add(time.Hour).Format(time.RFC3339) + " --pages pages")
			pages, _ := filepath.Glob(b.Path("pages/audit-*.html"))
			if len(pages) != 3 {
				t.Errorf("pages %q", pages)
			}
			var commands []string
			for line := range strings.Lines(r.Stdout) {
				if text, ok := strings.CutPrefix(line, "    sf2loki "); ok {
					commands = append(commands, strings.TrimSpace(text))
				}
			}
			if len(commands) != 3 || !strings.Contains(commands[0], "/two.conf --fill ") || !strings.Contains(r.Stdout, "two:\n") {
				t.Fatalf("commands %q: %v", commands, r)
			}
			for _, command := range commands {
				b.OK(sf2loki + " " + command)
			}
			b.OK(sf2loki + " audit --days-ago 2 --loki --pages pages")
			for _, command := range []string{
				"audit --days-ago 2 one", "audit --wait 3h --json --days-ago=2 one", "audit --days-ago 2 --late=6h one --loki",
			} {
				if r := b.OK(sf2loki + " " + command); strings.Contains(r.Stdout, "two") || !strings.Contains(r.Stdout, "complete") {
					t.Errorf("%s: %v", command, r)
				}
			}
			for command, status := range map[string]int{
				"audit one": 64, "audit one --days-ago x": 64, "audit one --days-ago 08": 64, "audit --fill --days-ago 2": 64, "audit one --since": 64,
				"audit nowhere --days-ago 2": 78, "audit one --days-ago 2 --nonsense": 64,
			} {
				if r := b.Run(sf2loki + " " + command); r.Status != status {
					t.Errorf("want %d: %v", status, r)
				}
			}
		})
	}
}
