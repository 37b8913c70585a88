package deploytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const units = root + "/scripts/systemd"

// exposure is the most that `systemd-analyze security` may find, of 100.
const exposure = "20"

// instances are the shipped units as they are for the lane prod, in a
// directory of their own; bin is where their programs are.
func instances(t *testing.T) (dir string, names []string) {
	t.Helper()
	dir = t.TempDir()
	bin := filepath.Join(dir, "sf2loki")
	write(t, bin, "#!/bin/sh\n", 0o755)
	paths, err := filepath.Glob(units + "/*@.*")
	must(t, err)
	for _, path := range paths {
		name := strings.Replace(filepath.Base(path), "@.", "@prod.", 1)
		write(t, filepath.Join(dir, name), strings.ReplaceAll(read(t, path), "/usr/bin/sf2loki", bin), 0o644)
		names = append(names, name)
	}
	if len(names) < 5 {
		t.Fatalf("only %v", names)
	}
	return dir, names
}

func verify(dir, name string) *exec.Cmd {
	cmd := exec.Command("systemd-analyze", "verify", "--recursive-errors=yes", "--man=no", filepath.Join(dir, name))
	cmd.Env = append(os.Environ(), "SYSTEMD_LOG_LEVEL=notice")
	return cmd
}

// What systemd has to say about a unit it says aloud, even where it goes on.
func TestUnits(t *testing.T) {
	dir, names := instances(t)
	for _, name := range names {
		if out := output(t, verify(dir, name)); out != "" {
			t.Errorf("%s: %s", name, out)
		}
		if strings.HasSuffix(name, ".service") {
			output(t, exec.Command("systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold="+exposure, filepath.Join(dir, name)))
		}
	}
	broken := filepath.Join(dir, "broken.service")
	write(t, broken, strings.Replace(read(t, filepath.Join(dir, names[0])), "[Service]", "[Service]\nNoNewPrivilege=yes", 1), 0o644)
	if out, err := verify(dir, "broken.service").CombinedOutput(); err == nil {
		t.Errorf("an unknown name is not found: %s", out)
	}
}

// Every service is hardened the same, and stops after both times of grace.
func TestUnitsAgree(t *testing.T) {
	hardening := regexp.MustCompile(`(?s)\nUser=sf2loki\n.*\nSystemCallErrorNumber=EPERM\n`)
	paths, err := filepath.Glob(units + "/*.service")
	must(t, err)
	if len(paths) < 4 {
		t.Errorf("only %v", paths)
	}
	want := hardening.FindString(read(t, units+"/sf2loki@.service"))
	for _, path := range paths {
		text := read(t, path)
		if hardening.FindString(text) != want || want == "" {
			t.Errorf("%s is hardened in another way than sf2loki@.service", path)
		}
		for _, line := range []string{"KillMode=mixed", "TimeoutStopSec=40"} {
			if !strings.Contains(text, "\n"+line+"\n") {
				t.Errorf("%s: no %s", path, line)
			}
		}
	}
	for _, line := range []string{"NoNewPrivileges=yes", "ProtectSystem=strict", "MemoryMax=1G", "TasksMax=512"} { // #71-2, #155
		if !strings.Contains(want, "\n"+line+"\n") {
			t.Errorf("hardened without %s by %s", line, want)
		}
	}
}

// Every secret that a program of a lane knows is loaded under its name.
func TestCredentials(t *testing.T) {
	var want []string
	for _, path := range globs(t, root+"/cmd/sf-pull/*.go", root+"/cmd/loki-push/*.go") {
		for _, m := range regexp.MustCompile(`cli\.Secret\([^"]*"([a-z-]+)"`).FindAllStringSubmatch(read(t, path), -1) {
			want = append(want, m[1])
		}
	}
	slices.Sort(want)
	want = slices.Compact(want)
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^LoadCredential=([a-z-]+):sf2loki-%i\.([a-z-]+)$`).FindAllStringSubmatch(read(t, units+"/sf2loki@.service"), -1) {
		if m[1] != m[2] {
			t.Errorf("%s is loaded from %s", m[1], m[2])
		}
		got = append(got, m[1])
	}
	slices.Sort(got)
	if len(want) < 4 || !slices.Equal(got, want) {
		t.Errorf("loaded are %v, the programs know %v", got, want)
	}
}

func globs(t *testing.T, patterns ...string) (paths []string) {
	t.Helper()
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		must(t, err)
		if len(found) == 0 {
			t.Fatalf("nothing is %s", pattern)
		}
		paths = append(paths, found...)
	}
	return paths
}

func TestTimers(t *testing.T) {
	for _, path := range globs(t, units+"/*.timer") {
		text := read(t, path)
		when := regexp.MustCompile(`(?m)^OnCalendar=(.*)$`).FindStringSubmatch(text)
		delay := regexp.MustCompile(`(?m)^RandomizedDelaySec=(.*)$`).FindStringSubmatch(text)
		if when == nil || delay == nil {
			t.Errorf("%s: no time", path)
			continue
		}
		output(t, exec.Command("systemd-analyze", "calendar", when[1]))
		output(t, exec.Command("systemd-analyze", "timespan", delay[1]))
		if _, err := os.Stat(strings.TrimSuffix(path, "timer") + "service"); err != nil {
			t.Error(err)
		}
	}
}

// What a unit runs is what the supervisor knows: each command line, in the
// shell that it names, with a supervisor that takes note.
func TestUnitsRun(t *testing.T) {
	want := map[string]string{
		"sf2loki@.service":          `^run prod$`,
		"sf2loki-backfill@.service": `^backfill prod --since 20\d\d-\d\d-\d\d --until 20\d\d-\d\d-\d\d$`,
		"sf2loki-replay@.service":   `^replay prod$`,
		"sf2loki-audit@.service":    `^audit prod --days-ago 3$`,
	}
	known := read(t, root+"/scripts/sf2loki")
	for _, path := range globs(t, units+"/*.service") {
		name := filepath.Base(path)
		line := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(read(t, path))[1]
		dir := t.TempDir()
		fake := filepath.Join(dir, "sf2loki")
		write(t, fake, "#!/bin/sh\necho \"$@\"\n", 0o755)
		// As systemd does: specifiers, doubled signs, and words in quotes.
		line = strings.NewReplacer("%i", "prod", "%%", "%", "$$", "$", "/usr/bin/sf2loki", fake).Replace(line)
		var argv []string
		for _, m := range regexp.MustCompile(`'([^']*)'|(\S+)`).FindAllStringSubmatch(line, -1) {
			argv = append(argv, m[1]+m[2])
		}
		out := strings.TrimSpace(output(t, exec.Command(argv[0], argv[1:]...)))
		if want[name] == "" || !regexp.MustCompile(want[name]).MatchString(out) {
			t.Errorf("%s runs sf2loki %s", name, out)
		}
		command, _, _ := strings.Cut(out, " ")
		if !regexp.MustCompile(`(?m)^\s*([a-z]+ \| )*` + command + `\b`).MatchString(known) {
			t.Errorf("%s: the supervisor does not know %q", name, command)
		}
	}
}

// The user and the directories, made in a root of their own.
func TestUserAndDirectories(t *testing.T) {
	dir := t.TempDir()
	for _, part := range []string{"sysusers.d", "tmpfiles.d"} {
		write(t, filepath.Join(dir, "usr/lib", part, "sf2loki.conf"), read(t, units+"/"+part+"/sf2loki.conf"), 0o644)
	}
	must(t, os.MkdirAll(filepath.Join(dir, "etc"), 0o755))
	// One process, as the namespace of each has owners of its own.
	output(t, asRoot("sh", "-c", `systemd-sysusers --root="$0" sf2loki.conf && systemd-tmpfiles --root="$0" --create sf2loki.conf &&
		for d in var/lib var/spool etc; do stat -c '%A %u %g' "$0/$d/sf2loki"; done >"$0/found"`, dir))
	if passwd := read(t, filepath.Join(dir, "etc/passwd")); !regexp.MustCompile(`(?m)^sf2loki:.*:/var/lib/sf2loki:.*nologin$`).MatchString(passwd) {
		t.Fatalf("the users are %s", passwd)
	}
	output(t, asRoot("systemd-tmpfiles", "--root="+dir, "--create", "sf2loki.conf"))
	for name, want := range map[string]os.FileMode{"etc/sf2loki": 0o750, "var/lib/sf2loki": 0o750, "var/spool/sf2loki": 0o700} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if mode := info.Mode().Perm(); mode != want || (info.Sys().(*syscall.Stat_t).Uid == uint32(os.Geteuid())) != strings.HasPrefix(name, "etc") {
			t.Errorf("%s is %o, want %o: %+v", name, mode, want, info.Sys())
		}
	}
}

// asRoot makes a command believe that it is root's, with other users beside.
func asRoot(argv ...string) *exec.Cmd {
	if os.Geteuid() != 0 {
		argv = append([]string{"unshare", "--map-root-user", "--map-auto"}, argv...)
	}
	return exec.Command(argv[0], argv[1:]...)
}
