package tasktest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sf2loki/scripts/testbed"
)

// sources is the text of all programs, without their tests and simulators.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range []string{"cmd", "pkg", "scripts/lib"} {
		err := filepath.WalkDir(filepath.Join(testbed.Root, dir), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && slices.Contains([]string{"sftest", "lokitest", "clitest", "checkpointtest", "testdata"}, d.Name()):
				return fs.SkipDir
			case d.IsDir() || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			data, err := os.ReadFile(path)
			all.Write(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// system has texts that are not the programs' own.
var system = []string{"no space left on device"}

// Messages that the troubleshooting page quotes are printed by some program.
func TestMessagesExist(t *testing.T) {
	all := sources(t)
	quoted := regexp.MustCompile(`(?m)^\.It Li (.*)$`).FindAllStringSubmatch(page(t, "sf2loki-troubleshooting.7"), -1)
	if len(quoted) < 40 {
		t.Fatalf("%d messages", len(quoted))
	}
	for _, m := range quoted {
		text := unescape.Replace(m[1])
		if !strings.Contains(all, text) && !strings.Contains(all, strings.ReplaceAll(text, `"`, `\"`)) && !slices.Contains(system, text) {
			t.Errorf("nothing prints %q", text)
		}
	}
}

// pages are the manual pages by name, as NAME and as NAME(SECTION).
func pages(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob(testbed.Root + "/man/*.[1-8]")
	if err != nil || len(names) < 9 {
		t.Fatalf("%d pages, %v", len(names), err)
	}
	all := map[string]string{}
	for _, path := range names {
		name := filepath.Base(path)
		all[name] = page(t, name)
	}
	return all
}

// others are pages of the system that ours refer to.
var others = strings.Fields(`bash.1 benchstat.1 busybox.1 valgrind.1 cron.8 systemd-analyze.1 promtool.1 kubectl.1 nfpm.1 dash.1 docker.1 fcntl.2 flock.1 flock.2 jq.1 kcat.1 kubectl.1 make.1 mkfifo.1 nohup.1
	openssl.1 prometheus-node-exporter.1 systemd.1 tee.1 crontab.5 systemd.exec.5 systemd.timer.5 systemd.unit.5
	grep.1 sysusers.d.5 tmpfiles.d.5 promtool.1 curl.1 flock.1 sqlite3.1 systemctl.1 apt.8 dpkg.1 rpm.8 systemd-creds.1 systemd.service.5`)

// Each cross reference of a page leads to a page, and each section that is
// named in it is there.
func TestReferences(t *testing.T) {
	all := pages(t)
	xr := regexp.MustCompile(`(?m)\bXr ([\w.-]+) (\d)`)
	sx := regexp.MustCompile(`(?m)^\.Sx (.*?)(?: [.,:;)])*$`)
	for name, text := range all {
		if !strings.Contains(text, "\n.Sh NAME\n") {
			t.Errorf("%s has no name", name)
		}
		for _, m := range xr.FindAllStringSubmatch(text, -1) {
			target := m[1] + "." + m[2]
			if all[target] == "" && !slices.Contains(others, target) {
				t.Errorf("%s refers to %s(%s), which is not there", name, m[1], m[2])
			}
			if target == name {
				t.Errorf("%s refers to itself", name)
			}
		}
		for _, m := range sx.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(text, "\n.Sh "+m[1]+"\n") && !strings.Contains(text, "\n.Ss "+m[1]+"\n") {
				t.Errorf("%s has no section %s", name, m[1])
			}
		}
	}
}

// Each page can be found from another one, or from the README.
func TestPagesAreFound(t *testing.T) {
	all := pages(t)
	readme := read(t, "README.md")
	for name := range all {
		base, section, _ := strings.Cut(name, ".")
		if strings.HasPrefix(name, "sf2loki.conf") {
			base, section = "sf2loki.conf", "5"
		}
		found := strings.Contains(readme, base+"("+section+")")
		for other, text := range all {
			found = found || other != name && strings.Contains(text, "Xr "+base+" "+section)
		}
		if !found {
			t.Errorf("nothing leads to %s", name)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(testbed.Root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Links of Markdown, files that it and the pages name, and targets of make are there.
func TestLinks(t *testing.T) {
	texts := pages(t)
	for _, name := range []string{"README.md", "CHANGELOG.md"} {
		texts[name] = read(t, name)
	}
	makefile := read(t, "Makefile")
	link := regexp.MustCompile(`\]\(([^)#\s]+)`)
	file := regexp.MustCompile(`(?:\.?\b)(?:scripts|pkg|cmd|man|\.ci)/[A-Za-z0-9_./-]*[A-Za-z0-9]`)
	target := regexp.MustCompile(`\bmake ([a-z][a-z-]+)`)
	manual := regexp.MustCompile(`\b(sf2loki[a-z.-]*|sf-pull|loki-push|ckpt|dl-replay)\((\d)\)`)
	for name, text := range texts {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.HasSuffix(name, ".md") && !strings.Contains(m[1], "://") {
				if _, err := os.Stat(filepath.Join(testbed.Root, m[1])); err != nil {
					t.Errorf("%s: the link %s leads nowhere", name, m[1])
				}
			}
		}
		for _, path := range file.FindAllString(text, -1) {
			if _, err := os.Stat(filepath.Join(testbed.Root, path)); err != nil {
				t.Errorf("%s: there is no %s", name, path)
			}
		}
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s: there is no target %s", name, m[1])
			}
		}
		for _, m := range manual.FindAllStringSubmatch(text, -1) {
			if texts[m[1]+"."+m[2]] == "" {
				t.Errorf("%s: there is no %s", name, m[0])
			}
		}
	}
}

// invocation matches a program of ours where a command begins, up to what ends it.
var invocation = regexp.MustCompile(`(?m)(?:^|[\s'"(])(sf-pull|loki-push|ckpt|dl-replay)( [^|;&<>()\n]*)?`)

// Commands that the pages and the README print have subcommands and flags that
// their programs know.
func TestPrintedCommands(t *testing.T) {
	known := map[string]bool{}
	for _, f := range helpFlags(t) {
		known[f.command+" --"+f.name] = true
	}
	names, displays := commands(t), map[string][]string{}
	for name, text := range pages(t) {
		for _, m := range literal.FindAllStringSubmatch(text, -1) {
			displays[name] = append(displays[name], unescape.Replace(m[1]))
		}
		for _, m := range regexp.MustCompile(`(?m)^\.Dl (.*)$`).FindAllStringSubmatch(text, -1) {
			displays[name] = append(displays[name], unescape.Replace(m[1]))
		}
	}
	displays["README.md"] = regexp.MustCompile(`(?m)(?:^    .*\n)+`).FindAllString(read(t, "README.md"), -1)
	seen := 0
	for name, all := range displays {
		for _, text := range all {
			for _, m := range invocation.FindAllStringSubmatch(strings.ReplaceAll(text, "\\\n", " "), -1) {
				line, _, _ := strings.Cut(m[2]+" ", " -- ")
				command := m[1]
				if words := strings.Fields(line); len(words) > 0 && names[command+" "+words[0]] != "" {
					command += " " + words[0]
				}
				for _, flag := range regexp.MustCompile(` --[a-z][a-z-]*`).FindAllString(line, -1) {
					if seen++; !known[command+flag] {
						t.Errorf("%s: %s has no%s, in%s", name, command, flag, m[0])
					}
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("%d flags are printed", seen)
	}
}
