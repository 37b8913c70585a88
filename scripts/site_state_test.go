package scripts_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
)

// runbook are the commands in the section RUNBOOK of ckpt(1), with other paths.
func (s *site) runbook() (scripts []string) {
	s.t.Helper()
	_, section, ok := strings.Cut(read(s.t, "../man/ckpt.1"), "\n.Sh RUNBOOK\n")
	section, _, _ = strings.Cut(section, "\n.Sh ")
	here := strings.NewReplacer(`\e`, `\`, "/var/lib/sf2loki", s.dir, "/srv/sf2loki", s.path("srv"), "/etc/sf2loki", s.path("conf"),
		"/var/spool/sf2loki/", s.path("spool-"), "sf2loki stop", s.path("sf2loki")+" stop", "sf2loki check", s.path("sf2loki")+" check")
	for _, part := range strings.Split(section, ".Bd -literal -offset indent\n")[1:] {
		text, _, closed := strings.Cut(part, "\n.Ed")
		ok = ok && closed
		scripts = append(scripts, here.Replace(text))
	}
	if !ok || len(scripts) != 6 {
		s.t.Fatalf("%d scripts in the runbook of ckpt(1)", len(scripts))
	}
	return scripts
}

// The runbook of ckpt(1), run as it is printed, on a lane that runs.
func TestRunbookOfPositions(t *testing.T) {
	t.Parallel()
	s := newSite(t, "dash", lokitest.Config{})
	org, _ := newSiteOrg(t, "00Dxx0000001gPLEAY")
	l := s.lane("prod", org, nil)
	s.change("prod", func(text string) string {
		return strings.Replace(text, "SF_PULL_EVENT_TYPE=API", "SF_PULL_EVENT_TYPE=API,Login", 1)
	})
	script, err := os.Getwd()
	must(t, err)
	must(t, os.Symlink(script+"/sf2loki", s.path("sf2loki")))
	must(t, os.Mkdir(s.path("srv"), 0o755))
	book := s.runbook()
	step := func(n int, replace ...string) string {
		t.Helper()
		text := strings.NewReplacer(replace...).Replace(book[n])
		status, out := s.shellRun("sh", "-ec", text)
		if status != 0 {
			t.Fatalf("%s: %d\n%s", text, status, out)
		}
		return out
	}
	position := func(store, key string) string {
		status, out := s.shellRun("ckpt", "get", s.path(store), "org=prod:eventlogfile:"+key)
		if status != 0 {
			return ""
		}
		return out
	}
	logins := 0
	login := func() { // rows of the second type
		logins += 4
		org.AddHour(sftest.Hour{Type: "Login", Start: l.hour, Rows: logins}, func(f *sftest.LogFile) { f.Created = time.Now().Add(-2 * time.Second) })
	}
	stored := func(what string) {
		t.Helper()
		s.eventually(what, func() bool { return len(s.loki.Entries("prod")) == int(l.made.Load())+logins })
	}

	s.serve("prod")
	l.make()
	login()
	stored("what came first")
	s.eventually("both positions", func() bool { return position("prod.json", "API") != "" && position("prod.json", "Login") != "" })

	step(0) // backup, while the lane runs
	saved := position("prod.json", "API")
	l.make()
	stored("what came after the backup")
	s.eventually("a position behind it", func() bool { return position("prod.json", "API") != saved })

	step(1) // restore
	if got := position("prod.json", "API"); got != saved {
		t.Errorf("restored %s, want %s", got, saved)
	}
	repeats := func(what string, n int) {
		t.Helper()
		before := s.loki.Stats().Duplicates
		s.serve("prod")
		s.eventually(what, func() bool { return s.loki.Stats().Duplicates >= before+n })
		stored("nothing else")
	}
	repeats("what came after the backup is pushed again", 5)

	step(2, "2026-07-01", l.hour.Format("2006-01-02")) // rewind
	repeats("the whole type is pushed again", int(l.made.Load()))

	if out := step(3); !strings.Contains(out, "PASS  prod: sf-pull elf, positions in "+s.path("srv/prod.json")) { // mv
		t.Errorf("check: %s", out)
	}
	if status, out := s.shellRun("sh", "-c", "ckpt commit prod.json --allow-empty </dev/null"); status != 76 || !strings.Contains(out, s.path("srv/prod.json")) {
		t.Errorf("a commit to the old document: %d, %s", status, out)
	}
	s.serve("prod")
	l.make()
	stored("what came after the move")
	s.eventually("a position in the new document", func() bool { return position("srv/prod.json", "API") != saved })

	step(4) // a type less
	if text := read(t, s.path("srv/prod.json")); strings.Contains(text, "eventlogfile:Login") {
		t.Errorf("the position is there still: %s", text)
	}
	s.serve("prod")
	login()
	logins -= 4
	l.make()
	stored("rows of the other type only")

	step(5) // an org less
	if _, err := os.Stat(s.path("srv/prod.json")); err == nil || !regexp.MustCompile(`"org=prod:eventlogfile:API"`).MatchString(read(t, s.path("srv/prod.gone"))) {
		t.Errorf("the document: %v; its copy: %s", err, read(t, s.path("srv/prod.gone")))
	}
	if status, out := s.ask("run"); status != 78 || !strings.Contains(out, "there is no") {
		t.Error(fmt.Sprint("run: ", status, out))
	}
}
