package scripts_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
	"sf2loki/scripts/testbed"
)

// number is what an environment variable says, or otherwise.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

// site is the real programs, under the supervisor, with simulated orgs and a
// simulated Loki.
type site struct {
	t     *testing.T
	shell []string
	dir   string
	mark  string // in the environment of all its processes
	env   []string
	loki  *lokitest.Server
	lanes []*siteLane
}

// siteLane is one lane; its tenant of Loki has its name.
type siteLane struct {
	name string
	org  *sftest.Org
	bus  *sftest.Bus // of a streaming lane
	hour time.Time   // of files
	made atomic.Int64
}

var sites atomic.Int64

func newSite(t *testing.T, shell string, cfg lokitest.Config) *site {
	t.Helper()
	cfg.MultiTenant = true
	if cfg.Limits == nil {
		cfg.Limits = lokitest.Plain
	}
	s := &site{t: t, shell: shells[shell], dir: t.TempDir(), loki: lokitest.NewServer(cfg)}
	t.Cleanup(s.loki.Close)
	must(t, os.Mkdir(s.path("conf"), 0o755))
	s.mark = fmt.Sprintf("SITE_OF_TEST=%d-%d", os.Getpid(), sites.Add(1))
	s.env = []string{
		"PATH=" + testbed.Bin(t) + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + s.dir, "TMPDIR=" + s.dir,
		"SF2LOKI_CONF_DIR=" + s.path("conf"), s.mark,
	}
	t.Cleanup(s.end)
	return s
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

func (s *site) write(name, text string) string {
	s.t.Helper()
	// In one step, as a program may read it at any time.
	must(s.t, os.WriteFile(s.path(name)+".new", []byte(text), 0o600))
	must(s.t, os.Rename(s.path(name)+".new", s.path(name)))
	return s.path(name)
}

const topic = "/event/LoginEventStream"

// newSiteOrg is an org with an event bus.
func newSiteOrg(t *testing.T, id string) (*sftest.Org, *sftest.Bus) {
	t.Helper()
	org := sftest.NewOrg(sftest.Config{OrgID: id})
	t.Cleanup(org.Close)
	bus := org.NewBus(sftest.BusConfig{})
	bus.DefineSamples()
	return org, bus
}

// lane configures a lane of an org: of its events when there is a bus, else of
// its files.
func (s *site) lane(name string, org *sftest.Org, bus *sftest.Bus, lines ...string) *siteLane {
	s.t.Helper()
	l := &siteLane{name: name, org: org, bus: bus, hour: time.Now().UTC().Truncate(time.Hour).Add(-2 * time.Hour)}
	source := []string{"SF2LOKI_SOURCE=elf", "SF_PULL_EVENT_TYPE=API", "SF_PULL_POLL=1s", "SF_PULL_SETTLE=1s", "SF_PULL_LOG_LEVEL=warn"}
	if bus != nil {
		source = []string{"SF2LOKI_SOURCE=pubsub", "SF_PULL_TOPIC=" + topic, "SF_PULL_ENDPOINT=http://" + bus.Addr}
	}
	text := append(append(source,
		"SF2LOKI_STATE="+s.path(name+".json"), "SF2LOKI_RUN_DIR="+s.path("run"),
		"SF_PULL_ORG="+name, "SF_PULL_LOGIN_URL="+org.URL, "SF_PULL_CLIENT_ID="+org.ClientID, "SF_PULL_USERNAME="+org.Username,
		"SF_PULL_PRIVATE_KEY_FILE="+s.write(name+".pem", org.PrivateKeyPEM()), "SF_PULL_TMPDIR="+s.dir,
		"LOKI_PUSH_URL="+s.loki.URL, "LOKI_PUSH_TENANT="+name, "LOKI_PUSH_SPOOL="+s.path("spool-"+name), "LOKI_PUSH_FLUSH_INTERVAL=50ms",
	), lines...)
	s.write("conf/"+name+".conf", strings.Join(text, "\n")+"\n")
	s.lanes = append(s.lanes, l)
	return l
}

// fourLanes are a streaming and a bulk lane of each of two orgs.
func (s *site) fourLanes(lines ...string) {
	for i, id := range []string{"00Dxx0000001gPLEAY", "00Dxx0000001gPMEAY"} {
		org, bus := newSiteOrg(s.t, id)
		s.lane(fmt.Sprintf("org%d-stream", i+1), org, bus, lines...)
		s.lane(fmt.Sprintf("org%d-bulk", i+1), org, nil, lines...)
	}
}

// make has a few more events in the lane's org.
func (l *siteLane) make() {
	n := int(l.made.Load())
	if l.bus != nil {
		for i := range 3 {
			l.bus.Publish(topic, sftest.Sample(topic, n+i, time.Now()))
		}
		l.made.Add(3)
		return
	}
	l.org.AddHour(sftest.Hour{Type: "API", Start: l.hour, Rows: n + 5}, func(f *sftest.LogFile) { f.Created = time.Now().Add(-2 * time.Second) })
	l.made.Add(5)
}

// stored tells whether Loki has everything that was made, and nothing else.
func (s *site) stored(l *siteLane) bool {
	return len(s.loki.Entries(l.name)) == int(l.made.Load())
}

// eventually waits for a condition.
func (s *site) eventually(what string, condition func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			for _, l := range s.lanes {
				s.t.Logf("%s: %d of %d", l.name, len(s.loki.Entries(l.name)), l.made.Load())
			}
			s.t.Fatalf("never: %s", what)
		}
	}
}

func (s *site) command(args ...string) *exec.Cmd {
	s.t.Helper()
	script, err := filepath.Abs("sf2loki")
	must(s.t, err)
	argv := append(append(append([]string{}, s.shell...), script), args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = s.env, s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// ask runs a command to its end.
func (s *site) ask(args ...string) (status int, output string) {
	s.t.Helper()
	cmd := s.command(args...)
	out, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(out)
}

// service is `sf2loki run` under somebody who starts it again when it fails, as
// systemd does.
type service struct {
	*site
	log     string
	stopped atomic.Bool
	starts  atomic.Int64
	done    chan struct{}
	status  int

	mu      sync.Mutex
	process *os.Process
}

func (s *site) serve(args ...string) *service {
	s.t.Helper()
	v := &service{site: s, log: s.path(fmt.Sprintf("log-%d", time.Now().UnixNano())), done: make(chan struct{})}
	log, err := os.Create(v.log)
	must(s.t, err)
	s.t.Cleanup(func() {
		v.stopped.Store(true)
		s.end()
		<-v.done
		log.Close()
		if s.t.Failed() {
			s.t.Logf("supervisor:\n%s", tail(v.messages(), 16<<10))
		}
	})
	go func() {
		defer close(v.done)
		for !v.stopped.Load() {
			cmd := s.command(append([]string{"run"}, args...)...)
			cmd.Stdout, cmd.Stderr = log, log
			v.mu.Lock()
			err := cmd.Start()
			v.process = cmd.Process
			v.mu.Unlock()
			if err != nil {
				fmt.Fprintln(log, err)
				return
			}
			v.starts.Add(1)
			_ = cmd.Wait()
			v.status = cmd.ProcessState.ExitCode()
			if v.status == 0 {
				return
			}
		}
	}()
	return v
}

func (v *service) messages() string {
	text, _ := os.ReadFile(v.log)
	return string(text)
}

func tail(text string, n int) string { return text[max(0, len(text)-n):] }

// stop ends the service as systemd does, and returns its status.
func (v *service) stop() int {
	v.t.Helper()
	v.stopped.Store(true)
	v.mu.Lock()
	process := v.process
	v.mu.Unlock()
	_ = process.Signal(syscall.SIGTERM)
	select {
	case <-v.done:
	case <-time.After(2 * time.Minute):
		v.t.Fatal("the supervisor has not ended")
	}
	return v.status
}

// processes are those of this site that run.
func (s *site) processes() (pids []int) {
	found, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range found {
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(s.mark+"\x00")) {
			if pid, err := strconv.Atoi(strings.Split(path, "/")[2]); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// end kills whatever is left of this site.
func (s *site) end() {
	for left := s.processes(); len(left) > 0; left = s.processes() {
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func named(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(text))
}

// freePorts is the first of n ports that nobody listens at.
func freePorts(t *testing.T, n int) string {
	t.Helper()
next:
	for range 100 {
		first, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		port := first.Addr().(*net.TCPAddr).Port
		first.Close()
		for i := range n {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+i))
			if err != nil {
				continue next
			}
			l.Close()
		}
		return strconv.Itoa(port)
	}
	t.Fatal("no ports are free")
	return ""
}
