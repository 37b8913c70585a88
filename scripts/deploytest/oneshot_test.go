package deploytest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// commands are the literal blocks of the page about deployment.
func commands(t *testing.T) (blocks []string) {
	t.Helper()
	for _, part := range strings.Split(read(t, root+"/man/sf2loki-deploy.7"), ".Bd -literal -offset indent\n")[1:] {
		text, _, _ := strings.Cut(part, "\n.Ed\n")
		blocks = append(blocks, strings.ReplaceAll(text, `\e`, `\`)+"\n")
	}
	return blocks
}

// systemdRun is a program that notes its arguments, one a line, where the real
// one would ask a manager that is not there.
const systemdRun = "#!/bin/sh\nfor word; do printf '%s\\0' \"$word\"; done\n"

// words are those of a command, as a shell hands them to systemd-run.
func words(t *testing.T, command string) []string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "systemd-run"), systemdRun, 0o755)
	cmd := exec.Command("dash", "-c", command)
	cmd.Env = []string{"PATH=" + dir}
	return strings.Split(strings.TrimSuffix(output(t, cmd), "\x00"), "\x00")
}

// What is written about systemd-run has options that it knows, is a unit that
// systemd takes, and does its work in a simulated org.
func TestSystemdRun(t *testing.T) {
	help := output(t, exec.Command("systemd-run", "--help"))
	tried := 0
	for _, block := range commands(t) {
		if !strings.HasPrefix(block, "systemd-run ") {
			continue
		}
		tried++
		unit := "[Service]\n"
		argv := words(t, block)
		for len(argv) > 0 && strings.HasPrefix(argv[0], "--") {
			name, value, _ := strings.Cut(argv[0], "=")
			if !regexp.MustCompile(regexp.QuoteMeta(name) + `[= ]`).MatchString(help) {
				t.Errorf("systemd-run does not know %s", name)
			}
			switch name {
			case "--property":
				unit += value + "\n"
			case "--uid":
				unit += "User=" + value + "\n"
			case "--gid":
				unit += "Group=" + value + "\n"
			case "--working-directory":
				unit += "WorkingDirectory=" + value + "\n"
			case "--unit":
			default:
				t.Errorf("what is %s", name)
			}
			argv = argv[1:]
		}
		dir := t.TempDir()
		write(t, filepath.Join(dir, "transient.service"), unit+"ExecStart=/bin/true\n", 0o644)
		if out := output(t, verify(dir, "transient.service")); out != "" {
			t.Errorf("%s: %s", unit, out)
		}
		t.Run(argv[0], func(t *testing.T) { runOneShot(t, argv) })
	}
	if tried != 2 {
		t.Errorf("%d commands", tried)
	}
}

// runOneShot runs the command of a transient unit beside an org, with the
// settings of the sample's lane.
func runOneShot(t *testing.T, argv []string) {
	b := newBench(t)
	b.Env = []string{"HOME=" + b.Dir, "CREDENTIALS_DIRECTORY=" + b.Path("credentials"), "RUNTIME_DIRECTORY=" + b.Path("run"), "SF2LOKI_CONF_DIR=" + b.Path("conf")}
	write(t, b.Path("credentials/client-secret"), b.org.ClientSecret+"\n", 0o600)
	conf := strings.NewReplacer("https://example.my.salesforce.com", b.org.URL, "3MVG9example", b.org.ClientID, "https://loki.example.org", b.loki.URL).
		Replace(read(t, root+"/scripts/packages/example.conf"))
	conf = regexp.MustCompile(`(?m)^SF2LOKI_METRICS=.*\n`).ReplaceAllString(conf, "")
	write(t, b.Path("conf/prod.conf"), conf+fmt.Sprintf("SF2LOKI_STATE=%s\nLOKI_PUSH_SPOOL=%s\n", b.Path("prod.json"), b.Path("dead")), 0o600)
	b.threeDaysAgo(12)
	local := strings.NewReplacer("/var/spool/sf2loki", b.Dir, "/usr/bin/sf2loki", mustAbs(t, root+"/scripts/sf2loki"),
		"2026-06-01", daysAgo(3), "2026-06-08", daysAgo(2), "2026-07-01", daysAgo(3), "2026-07-08", daysAgo(2))
	for line := range strings.Lines(conf) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && argv[0] == "sh" && !strings.HasPrefix(name, "#") {
			b.Env = append(b.Env, name+"="+value) // EnvironmentFile
		}
	}
	var script strings.Builder
	for _, word := range argv {
		script.WriteString(" '" + strings.ReplaceAll(local.Replace(word), "'", `'\''`) + "'")
	}
	for range 2 {
		b.sh(0, b.programs("v1.0.0"), script.String())
		if got := b.stored(); got != 12 {
			t.Errorf("%d entries", got)
		}
	}
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	must(t, err)
	return abs
}
