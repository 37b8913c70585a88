package deploytest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// nfpm is the tool that makes packages.
func nfpm(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(root+"/scripts/test-tools", "nfpm")
	cmd.Stderr = os.Stderr
	dir, err := cmd.Output()
	must(t, err)
	return filepath.Join(strings.TrimSpace(string(dir)), "nfpm")
}

// tree is an unpacked release. Its programs are small ones that tell their
// version, or the real ones with DEPLOYTEST_REAL set.
func tree(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	for _, part := range []string{"man", "scripts/sf2loki", "scripts/lib", "scripts/systemd", "scripts/cron", "scripts/grafana", "scripts/kubernetes", "scripts/prometheus",
		"README.md", "LICENSE", "CHANGELOG.md"} {
		must(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(part)), 0o755))
		output(t, exec.Command("cp", "-R", filepath.Join(root, part), filepath.Join(dir, part)))
	}
	real := ""
	if os.Getenv("DEPLOYTEST_REAL") != "" {
		all, err := releases()
		must(t, err)
		real = filepath.Join(all, version)
	}
	for _, name := range []string{"sf-pull", "loki-push", "ckpt", "dl-replay"} {
		program := filepath.Join(dir, "bin", name)
		write(t, program, "#!/bin/sh\necho "+name+" "+version+"\n", 0o755)
		if real != "" {
			write(t, program, read(t, filepath.Join(real, name)), 0o755)
		}
		for shell, file := range map[string]string{"bash": name, "zsh": "_" + name, "fish": name + ".fish"} {
			write(t, filepath.Join(dir, "completions", shell, file), output(t, exec.Command(program, "completion", shell)), 0o644)
		}
	}
	return dir
}

const sourceDate = "1782936000"

// packages makes the .deb and the .rpm of a version.
func packages(t *testing.T, tree, version string) (deb, rpm string) {
	t.Helper()
	out := t.TempDir()
	cmd := exec.Command("sh", root+"/scripts/packages/build", tree, runtime.GOARCH, version, out)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+sourceDate, "NFPM="+nfpm(t))
	output(t, cmd)
	return globs(t, out+"/*.deb")[0], globs(t, out+"/*.rpm")[0]
}

func TestPackagesAreReproducible(t *testing.T) {
	first, second := tree(t, "v1.0.0"), tree(t, "v1.0.0")
	must(t, os.Chmod(filepath.Join(second, "README.md"), 0o600)) // somebody's umask
	deb, rpm := packages(t, first, "v1.0.0")
	debAgain, rpmAgain := packages(t, second, "v1.0.0")
	if read(t, deb) != read(t, debAgain) || read(t, rpm) != read(t, rpmAgain) {
		t.Error("two builds of the same release differ")
	}
	// Both may have been made in one second.
	for entry := range strings.Lines(output(t, exec.Command("sh", "-c", `dpkg-deb --fsys-tarfile "$0" | TZ=UTC tar -tv --full-time`, deb))) {
		if !strings.Contains(entry, " 2026-07-01 20:00:00 ") {
			t.Errorf("not of the time of the source: %s", entry)
		}
	}
	for when := range strings.FieldsSeq(output(t, exec.Command("rpm", "-qp", "--nosignature", "--qf", "[%{FILEMTIMES} ]", rpm))) {
		if when != sourceDate {
			t.Errorf("a file of the .rpm is of %s", when)
		}
	}
}

// dpkg and rpm sort versions as they follow each other.
func TestPackageVersions(t *testing.T) {
	dir := tree(t, "v1.0.0")
	last := "0~"
	for _, version := range []string{"3f7029b", "v0.0.1", "v1.0.0", "v1.1.0-rc1", "v1.1.0", "v1.1.0-12-g3f7029b", "v1.1.0-12-g3f7029b-dirty", "v1.2.0"} {
		deb, rpm := packages(t, dir, version)
		now := strings.TrimSpace(output(t, exec.Command("dpkg-deb", "-f", deb, "Version")))
		if err := exec.Command("dpkg", "--compare-versions", last, "lt", now).Run(); err != nil {
			t.Errorf("%s does not come after %s", now, last)
		}
		last = now
		output(t, exec.Command("rpm", "-K", "--nosignature", rpm))
	}
}

// host is a root directory with dpkg's and rpm's records, a shell, and what
// systemd makes users with.
type host struct {
	t   *testing.T
	dir string
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t, t.TempDir()}
	must(t, os.Chmod(h.dir, 0o755))
	for _, dir := range []string{"bin", "etc", "tmp", "usr/bin", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "var/log"} {
		must(t, os.MkdirAll(h.path(dir), 0o755))
	}
	write(t, h.path("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n", 0o644)
	write(t, h.path("etc/group"), "root:x:0:\n", 0o644)
	write(t, h.path("var/lib/dpkg/status"), "Package: util-linux\nStatus: install ok installed\nMaintainer: nobody\nVersion: 2.38\nArchitecture: "+runtime.GOARCH+"\nDescription: is there\n\n", 0o644)
	write(t, h.path("dev/null"), "", 0o666)
	h.program("busybox", "/bin/busybox")
	for _, name := range []string{"sh", "rmdir", "grep", "readlink", "cat", "stat"} {
		must(t, os.Symlink("busybox", h.path("bin/"+name)))
	}
	h.program("install", "/usr/bin/install")
	h.program("systemd-sysusers", "/usr/bin/systemd-sysusers")
	return h
}

func (h *host) path(name string) string { return filepath.Join(h.dir, name) }

// program copies one of this machine, and its libraries.
func (h *host) program(name, path string) {
	h.t.Helper()
	real, err := exec.LookPath(name)
	must(h.t, err)
	write(h.t, h.path(path), read(h.t, real), 0o755)
	out, err := exec.Command("ldd", real).CombinedOutput()
	if err != nil {
		return // a static one
	}
	for _, library := range regexp.MustCompile(`/\S+\.so\S*`).FindAllString(string(out), -1) {
		write(h.t, h.path(library), read(h.t, library), 0o755)
	}
}

func (h *host) dpkg(args ...string) string {
	h.t.Helper()
	cmd := asRoot(append([]string{"dpkg", "--root=" + h.dir, "--force-confdef", "--force-confold"}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+systemPath, "DPKG_FRONTEND_LOCKED=", "DEBIAN_FRONTEND=noninteractive")
	return output(h.t, cmd)
}

// in runs a program inside.
func (h *host) in(argv ...string) string {
	h.t.Helper()
	cmd := asRoot(append([]string{"chroot", h.dir}, argv...)...)
	cmd.Env = append(os.Environ(), "PATH="+systemPath)
	return output(h.t, cmd)
}

// owner is who has a file, by the names inside, and its mode.
func (h *host) owner(name string) string {
	h.t.Helper()
	return strings.TrimSpace(h.in("stat", "-c", "%U:%G %a", "/"+name))
}

// works says whether the package is there as it should be.
func (h *host) works(version string) {
	h.t.Helper()
	for _, name := range []string{"sf-pull", "loki-push", "ckpt", "dl-replay"} {
		if out := h.in("/usr/bin/"+name, "--version"); !strings.Contains(out, version) {
			h.t.Errorf("%s of %s says %s", name, version, out)
		}
	}
	if out := h.in("/usr/bin/sf2loki", "--help"); !strings.Contains(out, "usage: sf2loki") {
		h.t.Errorf("the supervisor says %s", out)
	}
	for name, want := range map[string]string{
		"etc/sf2loki": "root:sf2loki 750", "var/lib/sf2loki": "sf2loki:sf2loki 750", "var/spool/sf2loki": "sf2loki:sf2loki 700",
		"usr/bin/ckpt": "root:root 755", "usr/lib/systemd/system/sf2loki@.service": "root:root 644",
	} {
		if got := h.owner(name); got != want {
			h.t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// data is what users leave: it has to survive everything.
var data = map[string]string{
	"etc/sf2loki/prod.conf":             "SF2LOKI_SOURCE=elf\n",
	"var/lib/sf2loki/prod.json":         `{"k":"1"}`,
	"var/spool/sf2loki/prod/h-1.ndjson": "{}\n",
}

func (h *host) survived(when string) {
	h.t.Helper()
	for name, want := range data {
		if got, err := os.ReadFile(h.path(name)); err != nil || string(got) != want {
			h.t.Errorf("%s is %q, %v after %s", name, got, err, when)
		}
	}
}

const sample = "etc/sf2loki/example.conf.sample"

// A package is installed, replaced by the next one and by the one before,
// removed and purged.
func TestDeb(t *testing.T) {
	first, _ := packages(t, tree(t, "v1.0.0"), "v1.0.0")
	second, _ := packages(t, tree(t, "v1.1.0"), "v1.1.0")
	h := newHost(t)
	h.dpkg("-i", first)
	h.works("v1.0.0")
	if out := h.dpkg("-s", "sf2loki"); !strings.Contains(out, "Status: install ok installed") || !strings.Contains(out, " /"+sample+" ") {
		t.Errorf("dpkg says %s", out)
	}
	if passwd := read(t, h.path("etc/passwd")); !strings.Contains(passwd, "\nsf2loki:") {
		t.Errorf("the users are %s", passwd)
	}
	for name, text := range data {
		write(t, h.path(name), text, 0o644)
	}
	edited := read(t, h.path(sample)) + "# mine\n"
	write(t, h.path(sample), edited, 0o644)
	for _, next := range []struct{ deb, version string }{{second, "v1.1.0"}, {first, "v1.0.0"}} {
		h.dpkg("-i", next.deb)
		h.works(next.version)
		h.survived(next.version)
		if read(t, h.path(sample)) != edited {
			t.Errorf("%s replaced a configuration file that was changed", next.version)
		}
	}
	h.dpkg("--remove", "sf2loki")
	h.survived("removal")
	if _, err := os.Stat(h.path("usr/bin/ckpt")); !os.IsNotExist(err) || read(t, h.path(sample)) != edited {
		t.Errorf("removal left a program, or took a configuration file: %v", err)
	}
	h.dpkg("--purge", "sf2loki")
	h.survived("purge")
	for _, name := range []string{sample, "usr/lib/sf2loki", "usr/lib/systemd/system/sf2loki@.service", "usr/share/doc/sf2loki"} {
		if _, err := os.Stat(h.path(name)); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
}

// Where nobody has made anything, purging leaves nothing.
func TestDebLeavesNothing(t *testing.T) {
	deb, _ := packages(t, tree(t, "v1.0.0"), "v1.0.0")
	h := newHost(t)
	h.dpkg("-i", deb)
	h.dpkg("--purge", "sf2loki")
	for _, name := range []string{"etc/sf2loki", "var/lib/sf2loki", "var/spool/sf2loki", "usr/share/man"} {
		if _, err := os.Stat(h.path(name)); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
}

// The .rpm holds what the .deb holds, knows its configuration file, and can be
// installed and erased.
func TestRPM(t *testing.T) {
	deb, rpm := packages(t, tree(t, "v1.0.0"), "v1.0.0")
	listed := strings.Fields(output(t, exec.Command("rpm", "-qpl", rpm)))
	unpacked := t.TempDir()
	output(t, exec.Command("dpkg-deb", "-x", deb, unpacked))
	must(t, filepath.WalkDir(unpacked, func(path string, d fs.DirEntry, err error) error {
		if name := strings.TrimPrefix(path, unpacked); err == nil && !d.IsDir() && !slices.Contains(listed, name) {
			t.Errorf("%s is not in the .rpm", name)
		}
		return err
	}))
	if out := output(t, exec.Command("rpm", "-qpc", rpm)); strings.TrimSpace(out) != "/"+sample {
		t.Errorf("configuration files: %s", out)
	}
	h := newHost(t)
	command := func(args ...string) *exec.Cmd {
		return asRoot(append([]string{"rpm", "--root", h.dir, "--dbpath", "/var/lib/rpm", "--nodeps"}, args...)...)
	}
	output(t, command("--ignorearch", "--nosignature", "-i", rpm))
	h.works("v1.0.0")
	for name, text := range data {
		write(t, h.path(name), text, 0o644)
	}
	output(t, command("-e", "sf2loki"))
	h.survived("erasing")
	if _, err := os.Stat(h.path("usr/bin/ckpt")); !os.IsNotExist(err) {
		t.Errorf("ckpt is left: %v", err)
	}
}

// Everything in a package is root's, has sane modes, and is where programs
// look for it.
func TestPackageContent(t *testing.T) {
	deb, _ := packages(t, tree(t, "v1.0.0"), "v1.0.0")
	dir := t.TempDir()
	output(t, exec.Command("dpkg-deb", "-x", deb, dir))
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if mode := info.Mode().Perm(); mode&0o022 != 0 || mode&0o444 != 0o444 {
			t.Errorf("%s has mode %o", strings.TrimPrefix(path, dir), mode)
		}
		if st := info.Sys().(*syscall.Stat_t); os.Geteuid() == 0 && st.Uid != 0 {
			t.Errorf("%s is of user %d", path, st.Uid)
		}
		return nil
	}))
	for _, name := range []string{
		"usr/share/man/man8/sf2loki.8.gz", "usr/share/bash-completion/completions/ckpt", "usr/share/zsh/vendor-completions/_ckpt",
		"usr/share/fish/vendor_completions.d/ckpt.fish", "usr/lib/sf2loki/lane.sh", "usr/share/doc/sf2loki/copyright",
		"usr/share/doc/sf2loki/examples/cron/sf2loki", "usr/share/doc/sf2loki/examples/kubernetes/sf2loki.yaml", "usr/share/doc/sf2loki/examples/grafana/lanes.json",
		"usr/share/doc/sf2loki/examples/prometheus/deadletter.rules.yml", sample,
	} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if tests, _ := filepath.Glob(filepath.Join(dir, "usr/share/doc/sf2loki/examples/*/*_test*")); len(tests) > 0 {
		t.Errorf("tests are packaged: %s", fmt.Sprint(tests))
	}
}
