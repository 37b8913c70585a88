package prooftest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
	"sf2loki/scripts/testbed"
)

// site is several lanes of several orgs, audited together as cron does it.
type site struct {
	*bench
	sf2loki string
	day     time.Time
	lanes   []string
	mended  atomic.Bool // Loki takes what it did not take before
}

// newSite has the day before yesterday of two orgs, whose events are the same
// but for the org, all of it pulled.
func newSite(t *testing.T) *site {
	t.Helper()
	script, err := filepath.Abs(filepath.Join(testbed.Root, "scripts/sf2loki"))
	if err != nil {
		t.Fatal(err)
	}
	s := &site{sf2loki: "sh " + script, day: time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -2)}
	s.bench = newBenchWith(t, lokitest.Config{Limits: lokitest.Plain, Refuse: func(e lokitest.Entry) string {
		if strings.Contains(e.Line, "Poison") && !s.mended.Load() {
			return "poison"
		}
		return ""
	}})
	for _, dir := range []string{"conf", "pages"} {
		if err := os.MkdirAll(s.Path(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"prod", "test"} {
		org := sftest.NewOrg(sftest.Config{})
		t.Cleanup(org.Close)
		org.DefineObjects()
		for _, eventType := range []string{"Login", "API"} {
			for n := range 3 {
				org.AddHour(sftest.Hour{Type: eventType, Start: s.day.Add(time.Duration(n) * time.Hour), Rows: 20, Edit: tooOld(10)},
					func(f *sftest.LogFile) { f.Created = time.Now().Add(-3 * time.Hour) })
			}
		}
		for n := range 33 {
			status := "Success"
			if n%11 == 3 {
				status = "Poison"
			}
			org.Insert("LoginHistory", sftest.Row{"UserId": org.UserID, "LoginTime": s.day.Add(time.Duration(n) * time.Minute), "Status": status})
		}
		key := s.Write(name+".pem", org.PrivateKeyPEM())
		for lane, source := range map[string]string{
			"files": "SF2LOKI_SOURCE=elf\nSF_PULL_EVENT_TYPE=Login,API", "rows": "SF2LOKI_SOURCE=objects\nSF_PULL_OBJECT=LoginHistory",
		} {
			at := s.Path(name + "-" + lane)
			s.Write("conf/"+name+"-"+lane+".conf", strings.Join([]string{
				source, "SF2LOKI_STATE=" + at + ".json", "CKPT_LEDGER=" + at + ".ledger", "SF2LOKI_RUN_DIR=" + s.Path("run"), "SF_PULL_ORG=" + name, "LOKI_PUSH_ORG=" + name,
				"SF_PULL_LOGIN_URL=" + org.URL, "SF_PULL_CLIENT_ID=" + org.ClientID, "SF_PULL_USERNAME=" + org.Username, "SF_PULL_PRIVATE_KEY_FILE=" + key,
				"LOKI_PUSH_URL=" + s.srv.URL, "LOKI_PUSH_SPOOL=" + at + ".dead", "LOKI_PUSH_ON_DEAD_LETTER_ERROR=stop", "",
			}, "\n"))
			s.lanes = append(s.lanes, name+"-"+lane)
		}
	}
	s.Set("SF2LOKI_CONF_DIR="+s.Path("conf"), "SF_PULL_LOG_LEVEL=error", "LOKI_PUSH_LOG_LEVEL=error", "CKPT_LOG_LEVEL=error", "DL_REPLAY_LOG_LEVEL=error")
	for _, lane := range s.lanes {
		s.OK(s.sf2loki + " backfill " + lane + " --since " + s.day.Format(time.DateOnly) + " --until " + s.day.AddDate(0, 0, 1).Format(time.DateOnly))
	}
	return s
}

// holes are what an audit of all lanes names, by lane.
func (s *site) holes() (status int, holes, commands []string) {
	s.T.Helper()
	r := s.Run(s.sf2loki + " audit --days-ago 2 --loki --pages pages")
	lane := ""
	for line := range strings.Lines(r.Stdout) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case regexp.MustCompile(`^[a-z-]+:$`).MatchString(line):
			lane = line
		case strings.HasPrefix(line, "hole: "):
			holes = append(holes, lane+" "+line)
		case strings.HasPrefix(line, "    sf2loki "):
			commands = append(commands, strings.TrimPrefix(line, "    sf2loki "))
		}
	}
	if r.Status != 0 && len(holes) == 0 {
		s.T.Fatalf("%v", r)
	}
	return r.Status, holes, commands
}

// edit changes a file of a lane by sed.
func (s *site) edit(name, script string) {
	s.T.Helper()
	before := s.Read(name)
	s.OK(fmt.Sprintf("sed -i '%s' %s", script, name))
	if s.Read(name) == before {
		s.T.Fatalf("%s changes nothing in %s:\n%s", script, name, before)
	}
}

// A hole of one lane of one org is found there and nowhere else, and the
// command that the audit prints fills it.
func TestAuditOfOrgs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	// The rows that Loki does not take are in the spools of their lanes, and are replayed.
	_, holes, commands := s.holes()
	if len(holes) != 6 || len(commands) != 6 {
		t.Fatalf("holes %q", holes)
	}
	s.mended.Store(true)
	for _, command := range commands {
		s.OK(s.sf2loki + " " + command)
	}
	if status, holes, _ := s.holes(); status != 0 {
		t.Fatalf("still %q", holes)
	}
	for _, tt := range []struct {
		name, want string
		plant      func()
	}{
		{"a file without an account", "prod-files: hole: eventlogfile API", func() { s.edit("prod-files.ledger", `0,/"event_type":"API"/{/"event_type":"API"/d}`) }},
		{"rows of a file without a fate", "test-files: hole: eventlogfile Login", func() {
			s.edit("test-files.ledger", `/"event_type":"Login"/{s/"delivered":18/"delivered":17/;:a;n;ba}`)
		}},
		{"rows of an object without a fate", "prod-rows: hole: eventlog_objects LoginHistory", func() { s.edit("prod-rows.ledger", `s/"delivered":30/"delivered":29/`) }},
		{"letters of an object lost", "test-rows: hole: eventlog_objects LoginHistory", func() { s.OK("rm test-rows.dead/*") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.plant()
			status, holes, commands := s.holes()
			if status != 65 || len(holes) != 1 || len(commands) != 1 || !strings.HasPrefix(holes[0], tt.want) {
				t.Fatalf("%d: holes %q, want one of %s", status, holes, tt.want)
			}
			s.OK(s.sf2loki + " " + commands[0])
			if status, holes, _ := s.holes(); status != 0 {
				t.Fatalf("after %s: still %q", commands[0], holes)
			}
		})
	}
	if pages, _ := filepath.Glob(s.Path("pages/*.html")); len(pages) != 4 {
		t.Errorf("pages %q", pages)
	}
}
