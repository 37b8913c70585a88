package scripts_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
)

// A bulk backlog beside the streaming lane of the same org: events go on to
// arrive. SUPERVISOR_BACKLOG_MB is the size of the backlog; with it, the delay
// of all but one in a hundred events has to be less than two seconds.
func TestBacklogBesideAStream(t *testing.T) {
	t.Parallel()
	size := number(t, "SUPERVISOR_BACKLOG_MB", 0)
	var mu sync.Mutex
	var delays []time.Duration
	var bulk, stream atomic.Int64
	s := newSite(t, "dash", lokitest.Config{Forget: true, Refuse: func(e lokitest.Entry) string { // refuses none
		if strings.Contains(e.Stream, `org="bulk"`) {
			bulk.Add(1)
			return ""
		}
		mu.Lock()
		defer mu.Unlock()
		delays = append(delays, time.Since(time.Unix(0, e.Nanos)))
		stream.Add(1)
		return ""
	}})
	org, bus := newSiteOrg(t, "00Dxx0000001gPLEAY")
	s.lane("stream", org, bus)
	s.lane("bulk", org, nil, "LOKI_PUSH_STREAM_BYTES_PER_SECOND=0")
	const files = 8
	rows, bytes := 400, 0
	if size > 0 {
		sample := len(sftest.Hour{Type: "API", Start: time.Now(), Rows: 1000}.CSV())
		rows = size << 20 / files * 1000 / sample
	}
	hour := time.Now().UTC().Truncate(time.Hour)
	for n := range files {
		org.AddHour(sftest.Hour{Type: "API", Start: hour.Add(-time.Duration(n+2) * time.Hour), Rows: rows},
			func(f *sftest.LogFile) {
				f.Created = time.Now().Add(-time.Minute)
				bytes += int(f.Length) + len(f.Body)
			})
	}
	v := s.serve()
	s.eventually("both lanes are there", func() bool { return bus.Streams(topic) == 1 && bulk.Load() > 0 })
	begun, made := time.Now(), 0
	for bulk.Load() < int64(files*rows) || made < 60 {
		bus.Publish(topic, sftest.Sample(topic, made, time.Now()))
		made++
		time.Sleep(50 * time.Millisecond) // the rate of the events
	}
	took := time.Since(begun)
	s.eventually("all events are stored", func() bool { return stream.Load() >= int64(made) })
	v.stop()
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(delays)
	p99 := delays[len(delays)*99/100]
	t.Logf("backlog of %d MB in %v; %d events, delay p50 %v, p99 %v, at most %v", bytes>>20, took.Round(time.Millisecond), len(delays),
		delays[len(delays)/2].Round(time.Millisecond), p99.Round(time.Millisecond), delays[len(delays)-1].Round(time.Millisecond))
	if size > 0 && p99 >= 2*time.Second {
		t.Errorf("p99 %v", p99)
	}
}

// runs is how often each lane's pipeline was started.
func (s *site) runs() string {
	_, out := s.ask("status", "--json")
	return fmt.Sprintf("%d running, %v", strings.Count(out, `"state":"running"`), regexp.MustCompile(`"runs":\d+`).FindAllString(out, -1))
}

// Loki's token, the client secret and the key of the certificate are replaced
// while rows arrive: no stage is started again, and no row is lost.
func TestSecretsReplaced(t *testing.T) {
	t.Parallel()
	s := newSite(t, "dash", lokitest.Config{Tokens: []string{"first"}})
	token := s.write("token", "first\n")
	byKey, _ := newSiteOrg(t, "00Dxx0000001gPLEAY")
	bySecret, _ := newSiteOrg(t, "00Dxx0000001gPMEAY")
	secret := s.write("secret", bySecret.ClientSecret)
	s.lane("key", byKey, nil, "LOKI_PUSH_TOKEN_FILE="+token)
	s.lane("secret", bySecret, nil, "LOKI_PUSH_TOKEN_FILE="+token, "SF_PULL_AUTH=client-credentials", "SF_PULL_CLIENT_SECRET_FILE="+secret)
	text := read(t, s.path("conf/secret.conf"))
	s.write("conf/secret.conf", regexp.MustCompile(`(?m)^SF_PULL_(USERNAME|PRIVATE_KEY_FILE)=.*\n`).ReplaceAllString(text, ""))
	v := s.serve()
	all := func(what string) {
		t.Helper()
		for _, l := range s.lanes {
			l.make()
		}
		s.eventually(what, func() bool { return s.stored(s.lanes[0]) && s.stored(s.lanes[1]) })
	}
	all("what came first is stored")
	const once = `2 running, ["runs":1 "runs":1]`
	s.eventually("both lanes run", func() bool { return s.runs() == once })
	for n := range often(1, 3) {
		// The servers first, and the files only when somebody was refused.
		s.loki.SetTokens(fmt.Sprintf("token %d", n))
		for _, l := range s.lanes {
			l.make()
		}
		s.eventually("the old token is refused", func() bool { return strings.Count(v.messages(), "401 Unauthorized") > n })
		s.write("token", fmt.Sprintf("token %d", n))
		all("what came while the token was replaced is stored")

		newSecret := bySecret.Rotate()
		byKey.Rotate()
		s.write("secret", newSecret)
		s.write("key.pem", byKey.PrivateKeyPEM())
		byKey.ExpireTokens()
		bySecret.ExpireTokens()
		all("what came while secret and key were replaced is stored")
	}
	if got := s.runs(); got != once {
		t.Errorf("%s: a lane was started again", got)
	}
	v.stop()
	if strings.Contains(v.messages(), "status=7") {
		t.Error("a stage failed")
	}
}

// An org whose certificate has expired: its lanes come back by themselves when
// that is cured, and other orgs never notice.
func TestExpiredCertificate(t *testing.T) {
	t.Parallel()
	s := newSite(t, "busybox", lokitest.Config{})
	s.fourLanes("SF2LOKI_SECOND=0.01", "SF2LOKI_GRACE=9999")
	sick := s.lanes[0].org
	sick.Fault("/services/oauth2/token", sftest.Fault{Times: -1, Status: 400, Body: `{"error":"invalid_grant","error_description":"invalid assertion"}`})
	v := s.serve()
	for _, l := range s.lanes {
		l.make()
	}
	s.eventually("the other org's events are stored", func() bool { return s.stored(s.lanes[2]) && s.stored(s.lanes[3]) })
	loud := func(lane string) func() bool {
		return func() bool {
			return strings.Contains(v.messages(), "level=error program=sf2loki lane="+lane+" stage=sf-pull status=77 retry_in=")
		}
	}
	s.eventually("a loud failure of org1-stream", loud("org1-stream"))
	s.eventually("a loud failure of org1-bulk", loud("org1-bulk"))
	_, out := s.ask("status", "--json", "org2-stream", "org2-bulk")
	if strings.Count(out, `"runs":1,`) != 2 {
		t.Errorf("the other org's lanes were started again: %s", out)
	}
	sick.ClearFaults()
	s.eventually("the lanes return", func() bool { return s.stored(s.lanes[0]) && s.stored(s.lanes[1]) })
	s.lanes[2].make()
	s.eventually("and the others go on", func() bool { return s.stored(s.lanes[2]) })
	_, out = s.ask("status", "--json", "org2-stream", "org2-bulk")
	if strings.Count(out, `"runs":1,`) != 2 {
		t.Errorf("the other org's lanes were started again: %s", out)
	}
	if strings.Contains(v.messages(), "lane=org2-stream stage=sf-pull status=") {
		t.Error("a stage of the other org has ended")
	}
	v.stop()
}

// One-shots of one lane that overlap: the second ends with 75, whether it was
// started by cron or by hand, and the first is not disturbed.
func TestOverlappingJobs(t *testing.T) {
	for _, shell := range these("bash") {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			var refuse atomic.Bool
			var bad atomic.Value // the line of the entry that is refused
			s := newSite(t, shell, lokitest.Config{Refuse: func(e lokitest.Entry) string {
				bad.CompareAndSwap(nil, e.Line)
				if refuse.Load() && bad.Load() == e.Line {
					return "not today"
				}
				return ""
			}})
			org, _ := newSiteOrg(t, "00Dxx0000001gPLEAY")
			l := s.lane("prod", org, nil)
			backfill := []string{"backfill", "prod", "--since", l.hour.Format("2006-01-02"), "--until", l.hour.AddDate(0, 0, 1).Format("2006-01-02")}
			l.make()
			refuse.Store(true)
			if status, text := s.ask(backfill...); status != 0 || len(s.loki.Entries("prod")) != 4 {
				t.Fatalf("%d, %s", status, text) // one has become a dead letter
			}
			refuse.Store(false)
			l.make()
			for _, job := range [][]string{backfill, {"replay", "prod"}} {
				var asked atomic.Bool
				release := make(chan bool)
				s.loki.Script(func(int, lokitest.Request) *lokitest.Answer {
					asked.Store(true)
					<-release
					return nil
				})
				first := s.command(job...)
				var out bytes.Buffer
				first.Stdout, first.Stderr = &out, &out
				must(t, first.Start())
				t.Cleanup(func() {
					if t.Failed() {
						t.Logf("the first %s:\n%s", job[0], out.String())
					}
				})
				s.eventually("the first "+job[0]+" pushes", asked.Load)
				if status, text := s.ask(job...); status != 75 || !strings.Contains(text, "runs already, as process") {
					t.Errorf("a second %s: %d, %s", job[0], status, text)
				}
				close(release)
				if err := first.Wait(); err != nil {
					t.Errorf("the first %s: %v\n%s", job[0], err, out.String())
				}
				s.loki.Script(nil)
				if status, text := s.ask(job...); status != 0 {
					t.Errorf("%s once more: %d, %s", job[0], status, text)
				}
			}
			if !s.stored(l) {
				t.Errorf("%d entries, want %d", len(s.loki.Entries("prod")), l.made.Load())
			}
			document := read(t, s.path("prod.json"))
			if !strings.Contains(document, "window=") || regexp.MustCompile(`"org=prod:eventlogfile:`).MatchString(document) {
				t.Errorf("a window has its own position, and moves no other: %s", document)
			}
			if left, _ := filepath.Glob(s.path("spool-prod/*.replayed")); len(left) != 1 {
				t.Errorf("the letter was not replayed: %v", left)
			}
		})
	}
}

// A job that is told to stop has not done its work.
func TestJobStopped(t *testing.T) {
	for _, shell := range these("busybox") {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, shell, lokitest.Config{})
			org, _ := newSiteOrg(t, "00Dxx0000001gPLEAY")
			l := s.lane("prod", org, nil, "LOKI_PUSH_BATCH_ENTRIES=1", "LOKI_PUSH_BUFFER_BYTES=64KiB", "SF2LOKI_HEAD_GRACE=60")
			for range 400 {
				l.make()
			}
			var first sync.Once
			seen := make(chan bool)
			s.loki.Script(func(int, lokitest.Request) *lokitest.Answer {
				first.Do(func() { close(seen) })
				return &lokitest.Answer{Store: true, Delay: 5 * time.Millisecond}
			})
			cmd := s.command("backfill", "prod", "--since", l.hour.Format(time.RFC3339), "--until", l.hour.Add(time.Hour).Format(time.RFC3339))
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			must(t, cmd.Start())
			<-seen
			must(t, cmd.Process.Signal(syscall.SIGTERM))
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != 75 {
				t.Errorf("status %d, want 75\n%s", got, out.String())
			}
			s.loki.Script(nil)
			if status, text := s.ask("backfill", "prod", "--since", l.hour.Format(time.RFC3339), "--until", l.hour.Add(time.Hour).Format(time.RFC3339)); status != 0 {
				t.Errorf("once more: %d, %s", status, text)
			}
			if !s.stored(l) {
				t.Errorf("%d entries, want %d", len(s.loki.Entries("prod")), l.made.Load())
			}
		})
	}
}

// The lanes of two hosts share a lease. The host of the leader is cut off at
// once, with all its processes; the other goes on within the lease's time, and
// nothing is missing. SUPERVISOR_STRICT holds it to the time.
func TestFailover(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	here := newSite(t, "dash", lokitest.Config{})
	org, bus := newSiteOrg(t, "00Dxx0000001gPLEAY")
	lease := "SF2LOKI_LEASE=" + here.path("lease")
	l := here.lane("prod", org, bus, lease, "CKPT_TTL=3s", "CKPT_RENEW=1s", "SF2LOKI_METRICS=127.0.0.1:"+freePorts(t, 4))
	there := newSite(t, "busybox", lokitest.Config{})
	conf := strings.ReplaceAll(read(t, here.path("conf/prod.conf")), here.path("run"), there.path("run"))
	conf = regexp.MustCompile("SF2LOKI_METRICS=.*").ReplaceAllString(conf, "SF2LOKI_METRICS=127.0.0.1:"+freePorts(t, 4))
	there.write("conf/prod.conf", conf)

	hosts := []*site{here, there}
	services := []*service{here.serve("prod"), nil}
	l.make()
	here.eventually("the first leader stores", func() bool { return here.stored(l) })
	services[1] = there.serve("prod")
	rounds := often(2, 4)
	for round := range rounds {
		leader, standby := hosts[round%2], hosts[(round+1)%2]
		here.eventually("a standby", func() bool { _, out := standby.ask("status"); return strings.Contains(out, "prod: standby") })
		services[round%2].stopped.Store(true)
		at := time.Now()
		leader.end()
		<-services[round%2].done
		l.make()
		here.eventually("the standby goes on", func() bool { return here.stored(l) })
		took := time.Since(at)
		t.Logf("after %v", took.Round(time.Millisecond))
		if os.Getenv("SUPERVISOR_STRICT") != "" && took > ttl+2*time.Second {
			t.Errorf("later than the ttl and two seconds")
		}
		services[round%2] = leader.serve("prod")
	}
	document := read(t, here.path("prod.json"))
	epoch := regexp.MustCompile(`"__fence_epoch__": ?"(\d+)"`).FindStringSubmatch(document)
	if epoch == nil || atoi(epoch[1]) <= rounds {
		t.Errorf("the epoch has not grown with each leader: %s", document)
	}
	// A leader that is stopped hands over at once.
	here.eventually("a leader", func() bool { _, out := here.ask("status"); return strings.Contains(out, "prod: running") })
	there.eventually("a standby", func() bool { _, out := there.ask("status"); return strings.Contains(out, "prod: standby") })
	if status, out := here.ask("stop", "prod"); status != 0 {
		t.Errorf("stop: %d, %s", status, out)
	}
	<-services[0].done
	if services[0].status != 0 {
		t.Errorf("the leader ended with %d", services[0].status)
	}
	l.make()
	here.eventually("the standby goes on", func() bool { return here.stored(l) })
}

// A lane of several that was told to stop stays stopped also under a lease,
// when a stage of it was killed.
func TestStopUnderLease(t *testing.T) {
	for _, shell := range these("dash") {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, shell, lokitest.Config{})
			org, bus := newSiteOrg(t, "00Dxx0000001gPLEAY")
			// It is killed when the head of the pipe has ended.
			must(t, os.Mkdir(s.path("shim"), 0o755))
			must(t, os.WriteFile(s.path("shim/loki-push"), []byte("#!/bin/sh\ncat >/dev/null\nkill -KILL $$\n"), 0o755))
			s.env[0] = strings.Replace(s.env[0], "PATH=", "PATH="+s.path("shim")+":", 1)
			s.lane("leased", org, bus, "SF2LOKI_LEASE="+s.path("lease"))
			s.lane("other", org, bus, "SF_PULL_LANE=other")
			v := s.serve()
			s.eventually("both lanes run", func() bool { return bus.Streams(topic) == 2 })
			v.stopped.Store(true)
			holder := regexp.MustCompile(`(?m)^pid (\d+)$`).FindStringSubmatch(read(t, s.path("run/leased/state")))
			for _, lane := range []string{"leased", "other"} {
				if status, out := s.ask("stop", lane); status != 0 {
					t.Errorf("stop %s: %d, %s", lane, status, out)
				}
				if text := read(t, s.path("run/leased/state")); !regexp.MustCompile(`(?m)^state standby$`).MatchString(text) {
					t.Errorf("the state under a lease: %s", text)
				}
				s.eventually("the supervisor takes the end of the lane", func() bool { _, err := os.Stat("/proc/" + holder[1]); return err != nil })
			}
			s.eventually("the supervisor ends", func() bool { return len(s.processes()) == 0 })
			<-v.done
			if n := strings.Count(v.messages(), " lane=leased pid="); n != 1 || v.status <= 128 {
				t.Errorf("status %d, %d supervisors of the lane", v.status, n)
			}
		})
	}
}

// The status of a pipeline tells of any stage that fails or is killed, under a
// lease, from cron, and under the supervisor.
func TestStatusOfStages(t *testing.T) {
	const pipeline = `sf-pull elf --file a.csv | loki-push --url "$LOKI" --tenant prod | ckpt commit state.json`
	s := newSite(t, "dash", lokitest.Config{})
	org, _ := newSiteOrg(t, "00Dxx0000001gPLEAY")
	l := s.lane("prod", org, nil)
	l.make()
	s.write("a.csv", string(sftest.Hour{Type: "Login", Start: l.hour, Rows: 20}.CSV()))
	s.env = append(s.env, "LOKI="+s.loki.URL)
	path := s.env[0]
	ways := map[string]func() (int, string){
		"cron": func() (int, string) { return s.shellRun("/bin/sh", "-c", pipeline) },
		"lease": func() (int, string) {
			return s.shellRun("ckpt", "lease", "lease", "--fence", "state.json", "--", "sh", "-c", pipeline)
		},
		"supervisor": func() (int, string) {
			return s.ask("backfill", "prod", "--since", "2026-01-01", "--until", "2100-01-01")
		},
	}
	for name, run := range ways {
		if status, out := run(); status != 0 {
			t.Fatalf("%s: all is well, and the status is %d\n%s", name, status, out)
		}
		for _, stage := range []string{"sf-pull", "loki-push", "ckpt"} {
			for how, script := range failing(stage) {
				shim := s.path("shim-" + stage + "-" + strings.ReplaceAll(how, " ", "-"))
				must(t, os.MkdirAll(shim, 0o755))
				real, _, _ := strings.Cut(strings.TrimPrefix(path, "PATH="), ":")
				text := "#!/bin/sh\ncase $1 in lease) exec \"$REAL/ckpt\" \"$@\" ;; esac\n" + script + "\n"
				must(t, os.WriteFile(filepath.Join(shim, stage), []byte(text), 0o755))
				s.env[0] = "PATH=" + shim + ":" + strings.TrimPrefix(path, "PATH=")
				s.env = append(s.env, "REAL="+real)
				status, out := run()
				s.env[0] = path
				if status == 0 {
					t.Errorf("%s: %s %s, and the status is 0\n%s", name, stage, how, out)
				}
			}
		}
		if status, out := run(); status != 0 {
			t.Errorf("%s: all is well again, and the status is %d\n%s", name, status, out)
		}
	}
}

// failing are scripts that stand for a stage that does not do its work. A few
// bytes of what it writes arrive, or none.
func failing(stage string) map[string]string {
	scripts := map[string]string{"is killed in the middle": `"$REAL/` + stage + `" "$@" | head -c 200; kill -9 $$`}
	if stage == "loki-push" || long() {
		scripts["fails"] = "exit 69"
	}
	if stage != "loki-push" || long() {
		scripts["is killed"] = "kill -9 $$"
	}
	return scripts
}

// shellRun runs a command without the supervisor.
func (s *site) shellRun(args ...string) (int, string) {
	s.t.Helper()
	cmd := s.command()
	cmd.Args = append([]string{"env"}, args...)
	cmd.Path = "/usr/bin/env"
	out, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(out)
}
