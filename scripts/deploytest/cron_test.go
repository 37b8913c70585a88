package deploytest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// job is a line of a crontab of the system.
type job struct{ when, user, command string }

var (
	setting = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)$`)
	field   = `(?:\*|\d+(?:-\d+)?)(?:/\d+)?(?:,(?:\*|\d+(?:-\d+)?)(?:/\d+)?)*`
	first   = regexp.MustCompile(`.* level=WARN msg="the file of --resume does not exist: this is a first start" .*\n`)
	entry   = regexp.MustCompile(`^((?:` + field + `\s+){5})([a-z_][a-z0-9_-]*)\s+(\S.*)$`)
)

// crontab reads a file as cron does.
func crontab(t *testing.T, text string) (env []string, jobs []job) {
	t.Helper()
	if !strings.HasSuffix(text, "\n") {
		t.Error("the last line has no end: cron ignores it")
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case setting.MatchString(line):
			m := setting.FindStringSubmatch(line)
			env = append(env, m[1]+"="+m[2])
		case entry.MatchString(line) && len(line) < 999:
			m := entry.FindStringSubmatch(line)
			// The first % that is bare ends the command; \% is one.
			if regexp.MustCompile(`(^|[^\\])%`).MatchString(m[3]) {
				t.Errorf("a bare percent sign: %s", line)
			}
			jobs = append(jobs, job{m[1], m[2], strings.ReplaceAll(m[3], `\%`, "%")})
		default:
			t.Errorf("no line of a crontab: %s", line)
		}
	}
	return env, jobs
}

// The shipped lines do their work in cron's shell and environment, and say
// nothing when all is well.
func TestCron(t *testing.T) {
	b := newBench(t)
	shipped, jobs := crontab(t, read(t, root+"/scripts/cron/sf2loki"))
	if len(jobs) != 4 {
		t.Fatalf("%d jobs", len(jobs))
	}
	local := strings.NewReplacer("/var/lib/sf2loki", b.Dir, "/var/spool/sf2loki", b.Path("spool"), "/etc/sf2loki", b.Dir)
	write(t, b.Path("client-secret"), b.org.ClientSecret+"\n", 0o600)
	b.Env = []string{"HOME=" + b.Dir, "LOGNAME=sf2loki"} // what cron has besides
	shell := ""
	for _, pair := range shipped {
		name, value, _ := strings.Cut(pair, "=")
		switch name {
		case "PATH", "MAILTO":
			continue
		case "SHELL":
			shell = value
		case "SF_PULL_LOGIN_URL":
			value = b.org.URL
		case "SF_PULL_CLIENT_ID":
			value = b.org.ClientID
		case "LOKI_PUSH_URL":
			value = b.loki.URL
		}
		b.Env = append(b.Env, name+"="+local.Replace(value))
	}
	if target, err := filepath.EvalSymlinks(shell); err != nil || filepath.Base(target) != "dash" {
		t.Logf("the shell is %s, %v", target, err)
	}
	b.publish(3, 30)
	b.threeDaysAgo(20)
	run := func(j job) {
		t.Helper()
		if j.user != "sf2loki" {
			t.Errorf("%s runs as %s", j.command, j.user)
		}
		if out := b.sh(0, b.programs("v1.0.0"), "exec "+shell+" -c '"+strings.ReplaceAll(local.Replace(j.command), "'", `'\''`)+"'"); first.ReplaceAllString(out, "") != "" {
			t.Errorf("cron would mail: %s", out)
		}
	}
	run(jobs[0])
	if got := b.stored(); got != 30 {
		t.Errorf("%d entries after the first pass, want 30", got)
	}
	run(jobs[1])
	if got := b.stored(); got != 50 {
		t.Errorf("%d entries with those of three days ago, want 50", got)
	}
	run(jobs[0])
	if got := b.stored(); got != 50 {
		t.Errorf("%d entries after the second pass", got)
	}
	must(t, os.MkdirAll(b.Path("spool/cron"), 0o700))
	run(jobs[3])
	run(jobs[2])
	must(t, os.Truncate(b.Path("cron.ledger"), 0))
	if out := b.sh(65, b.programs("v1.0.0"), local.Replace(jobs[2].command)); !strings.Contains(out, "not pulled") && !strings.Contains(out, "no account of the file") {
		t.Errorf("the mail says %s", out)
	}
	// Beside a run that goes on, another one ends at once.
	b.sh(75, b.programs("v1.0.0"), "exec 9>cron.lock; flock 9; "+local.Replace(jobs[0].command))
}
