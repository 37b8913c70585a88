package scripts_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
)

// change edits a lane's file.
func (s *site) change(lane string, edit func(string) string) {
	s.t.Helper()
	s.write("conf/"+lane+".conf", edit(read(s.t, s.path("conf/"+lane+".conf"))))
}

// What is wrong with lanes, by themselves and together, is found without a
// request.
func TestCheckFinds(t *testing.T) {
	add := func(lines ...string) func(string) string {
		return func(text string) string { return text + strings.Join(lines, "\n") + "\n" }
	}
	set := func(name, value string) func(string) string {
		return func(text string) string {
			return regexp.MustCompile("(?m)^"+name+"=.*$").ReplaceAllLiteralString(text, name+"="+value)
		}
	}
	const tenant = `a|e&'"$(b)` // and a password in the URL of lane a
	for _, tt := range []struct {
		name string
		edit func(string) string // of lane b
		want string              // a failure of b, or of all lanes
	}{
		{"nothing", func(text string) string { return text }, ""},
		{"two lanes pull the same files", set("SF_PULL_ORG", "a"), `all lanes: position org=a:eventlogfile:API is moved by eventlogfile API of a and by eventlogfile API of b`},
		{"two sources bring the same events", func(text string) string {
			text = set("SF2LOKI_SOURCE", "objects")(set("SF_PULL_ORG", "a")(text))
			return regexp.MustCompile(`(?m)^SF_PULL_EVENT_TYPE=.*$`).ReplaceAllString(text, "SF_PULL_OBJECT=ApiEvent")
		}, `all lanes: api is pulled by eventlogfile API of a and by eventlog_objects ApiEvent of b`},
		{"a position twice in one document", func(text string) string {
			return set("SF_PULL_ORG", "a")(set("SF2LOKI_STATE", "@DIR@/a.json")(text))
		}, `all lanes: position org=a:eventlogfile:API of @DIR@/a.json is that of more than one`},
		{"a setting twice", add("SF_PULL_ORG=x"), `SF_PULL_ORG is there twice`},
		{"a setting that nobody knows", add("SF2LOKI_LANE=x"), `unknown setting SF2LOKI_LANE`},
		{"flags of every program", add("SF_PULL_MAX_AGE=1d", "LOKI_PUSH_TOKEN=x", "CKPT_TTL=45s", "DL_REPLAY_RATE=5"), ""},
		{"a misspelt flag of sf-pull", add("SF_PULL_LOOKBAK=1d"), `FAIL  b: @DIR@/conf/b.conf: SF_PULL_LOOKBAK: sf-pull has no such flag`},
		{"a misspelt secret", add("SF_PULL_LOG_FORMAT=json", "LOKI_PUSH_TOKN=x", "LOKI_PUSH_LOG_LEVEL=error"), `b: @DIR@/conf/b.conf: LOKI_PUSH_TOKN: loki-push has no such flag`},
		{"a misspelt flag of ckpt", add("  CKPT_LEDGR=x"), `b: @DIR@/conf/b.conf: CKPT_LEDGR: ckpt has no such flag`},
		{"a misspelt flag of dl-replay", add("DL_REPLAY_RAT=5"), `b: @DIR@/conf/b.conf: DL_REPLAY_RAT: dl-replay has no such flag`},
		{"a value that cannot be read", add("SF_PULL_LOOKBACK=soon"), `b: sf-pull elf --plan=static: status 64: `},
		{"a label that is none", add("LOKI_PUSH_LABEL=0x=1"), `b: loki-push: status 64: loki-push: --label: label name "0x" is not`},
		{"a label that records have", add("LOKI_PUSH_LABEL=source=1"), `b: loki-push: status 64: loki-push: --label source: `},
		{"a secret that cannot be read", add("LOKI_PUSH_TOKEN_FILE=@DIR@/none"), `b: LOKI_PUSH_TOKEN_FILE: @DIR@/none is missing, empty or unreadable`},
		{"an empty secret", set("SF_PULL_PRIVATE_KEY_FILE", "@DIR@/empty"), `b: SF_PULL_PRIVATE_KEY_FILE: @DIR@/empty is missing, empty or unreadable`},
		{"two of one secret", add("LOKI_PUSH_TOKEN=x", "LOKI_PUSH_TOKEN_FILE=@DIR@/a.pem"), `b: loki-push: status 78: `},
		{"a reason behind a warning", add("LOKI_PUSH_TOKN=x", "LOKI_PUSH_TOKEN=x", "LOKI_PUSH_TOKEN_FILE=@DIR@/a.pem"), `b: loki-push: status 78: loki-push: `},
		{"no document of positions", set("SF2LOKI_STATE", "@DIR@/none/b.json"), `b: @DIR@/none/b.json: its directory does not exist`},
		{"a port that another lane has", add("SF2LOKI_METRICS=127.0.0.1:9302"), `all lanes: metrics port 9302 is that of more than one`},
		{"one spool for two", set("LOKI_PUSH_SPOOL", "@DIR@/spool-a"), `all lanes: spool @DIR@/spool-a is that of more than one`},
		{"one lease for two", add("SF2LOKI_LEASE=@DIR@/lease"), `all lanes: lease @DIR@/lease is that of more than one`},
		{"two writers of one stream", func(text string) string {
			return set("LOKI_PUSH_TENANT", tenant)(set("SF2LOKI_SOURCE", "elf")(text)) + "SF_PULL_LANE=second\nLOKI_PUSH_HOUR_LABEL=none\n"
		}, `all lanes: stream of eventlogfile API of @URL@ in @LOKI@, tenant ` + tenant + ` is that of more than one`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "dash", lokitest.Config{})
			org, _ := newSiteOrg(t, "00Dxx0000001gPLEAY")
			s.lane("a", org, nil, "SF2LOKI_METRICS=127.0.0.1:9300", "SF2LOKI_LEASE="+s.path("lease"), "LOKI_PUSH_HOUR_LABEL=none")
			s.change("a", set("LOKI_PUSH_TENANT", tenant))
			s.change("a", set("LOKI_PUSH_URL", strings.Replace(s.loki.URL, "://", "://user:planted@", 1)))
			s.lane("b", org, nil)
			s.write("empty", "")
			s.env = append(s.env, "SF_PULL_OF_NO_LANE=x")
			here := strings.NewReplacer("@DIR@", s.dir, "@URL@", org.URL, "@LOKI@", s.loki.URL)
			s.change("b", func(text string) string { return here.Replace(tt.edit(text)) })
			org.ResetRequests()
			status, out := s.ask("check")
			if strings.Contains(out, "planted") {
				t.Errorf("a password is told:\n%s", out)
			}
			if requests := len(org.Requests("")) + s.loki.Stats().Requests; requests > 0 {
				t.Errorf("%d requests", requests)
			}
			want := here.Replace(tt.want)
			if tt.want == "" && (status != 0 || strings.Count(out, "PASS") != 2) || tt.want != "" && (status != 78 || !strings.Contains(out, want)) {
				t.Errorf("want %q: %d\n%s", want, status, out)
			}
			status, out = s.ask("check", "--json")
			for line := range strings.Lines(out) {
				var row struct{ Lane, Program, Level, Detail string }
				if err := json.Unmarshal([]byte(line), &row); err != nil && !strings.HasPrefix(line, "sf2loki: ") || err == nil && (row.Lane == "" || row.Level == "" || row.Program != "sf2loki") {
					t.Errorf("status %d, %v: %s", status, err, line)
				}
			}
		})
	}
}

// With --live the programs ask for every lane, and the highest status counts.
func TestCheckLive(t *testing.T) {
	for _, shell := range these("dash") {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, shell, lokitest.Config{Tokens: []string{"good"}})
			good, bad := s.write("good", "good"), s.write("bad", "bad")
			one, bus := newSiteOrg(t, "00Dxx0000001gPLEAY")
			two, _ := newSiteOrg(t, "00Dxx0000001gPMEAY")
			one.DefineObjects()
			s.lane("one", one, bus, "LOKI_PUSH_TOKEN_FILE="+good)
			s.lane("two", two, nil, "LOKI_PUSH_TOKEN_FILE="+good, "SF2LOKI_LEASE="+s.path("lease"))
			v := s.serve("one") // beside lanes that run
			s.eventually("a lane that runs", func() bool { return bus.Streams(topic) == 1 })
			status, out := s.ask("check", "--live")
			for _, want := range []string{"PASS  one: sf-pull: login: ", "PASS  two: sf-pull: login: ", "PASS  one: loki-push: push: ", "PASS  two: ckpt: compare-and-swap: ", "PASS  two: ckpt: lease: "} {
				if !strings.Contains(out, "\n"+want) {
					t.Errorf("no line %q", want)
				}
			}
			if status != 0 || strings.Contains(out, "FAIL") {
				t.Errorf("status %d\n%s", status, out)
			}

			two.Fault("/services/oauth2/token", sftest.Fault{Times: -1, Status: 400, Body: `{"error":"invalid_grant","error_description":"invalid assertion"}`})
			s.change("one", func(text string) string {
				return strings.Replace(text, "LOKI_PUSH_TOKEN_FILE="+good, "LOKI_PUSH_TOKEN_FILE="+bad, 1)
			})
			must(t, os.WriteFile(s.path("two.json"), []byte("{"), 0o600))
			status, out = s.ask("check", "--live", "--json")
			found := map[string]int{} // lane, program: the highest status
			for line := range strings.Lines(out) {
				var row struct {
					Lane, Program, Level, Check, Detail string
					Status                              int
				}
				if err := json.Unmarshal([]byte(line), &row); err != nil || row.Lane == "" {
					t.Errorf("%v: %s", err, line)
				}
				if row.Level == "FAIL" {
					found[row.Lane+" "+row.Program] = max(found[row.Lane+" "+row.Program], row.Status)
				}
			}
			if status != 78 || found["one loki-push"] != 77 || found["two sf-pull"] != 77 || found["two ckpt"] != 78 || len(found) != 4 {
				t.Errorf("status %d, failures %v\n%s", status, found, out)
			}
			v.stop()
		})
	}
}

func TestStatusAsJSON(t *testing.T) {
	in(t, these("dash"), func(t *testing.T, l *lane) {
		var got struct {
			Lane, State, Since string
			Supervisor, Runs   int
			Stages             map[string]int
			Last               *struct {
				At, Stage string
				Status    int
			}
		}
		ask := func() int {
			got.Last, got.Stages, got.Supervisor = nil, nil, 0
			status, out := l.ask("status", "--json")
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			return status
		}
		if status := ask(); status != 69 || got.Lane != "prod" || got.State != "not running" || got.Last != nil || got.Supervisor != 0 {
			t.Errorf("before: %d, %+v", status, got)
		}
		l.plan("loki-push", "exit 77", "work")
		s := l.run()
		s.awaitLog(1, `status=77 retry_in`)
		l.awaitStages(2, `sf-pull start`)
		s.awaitLog(6, `pid=\d+ msg=started$`)
		if status := ask(); status != 0 || got.State != "running" || got.Runs != 2 || len(got.Stages) != 3 || got.Last == nil || got.Last.Status != 77 ||
			got.Last.Stage != "loki-push" || got.Supervisor != s.cmd.Process.Pid {
			t.Errorf("while it runs: %d, %+v", status, got)
		}
		l.ask("stop", "prod")
		if status := ask(); status != 69 || got.State != "not running" || got.Last == nil || got.Last.Status != 0 || got.Stages != nil {
			t.Errorf("afterwards: %d, %+v", status, got)
		}
	})
}
