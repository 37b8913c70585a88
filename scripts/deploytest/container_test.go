package deploytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What the image holds, in a root directory of its own: a lane runs there as a
// user who can write the volumes and nothing else, with busybox for a shell.
func TestImage(t *testing.T) {
	b := newBench(t)
	all, err := releases()
	must(t, err)
	h := &host{t, t.TempDir()}
	must(t, os.Chmod(h.dir, 0o755))
	h.program("busybox", "/bin/busybox")
	h.program("flock", "/usr/bin/flock") // Alpine's busybox has one
	for applet := range strings.FieldsSeq(output(t, exec.Command("busybox", "--list"))) {
		if applet != "busybox" {
			must(t, os.Symlink("busybox", h.path("bin/"+applet)))
		}
	}
	write(t, h.path("usr/bin/sf2loki"), read(t, root+"/scripts/sf2loki"), 0o755)
	for _, name := range []string{"sf-pull", "loki-push", "ckpt"} {
		write(t, h.path("usr/bin/"+name), read(t, filepath.Join(all, "v1.0.0", name)), 0o755)
	}
	for _, part := range globs(t, root+"/scripts/lib/*.sh") {
		write(t, h.path("usr/lib/sf2loki/"+filepath.Base(part)), read(t, part), 0o644)
	}
	for _, device := range []string{"null", "urandom"} {
		write(t, h.path("dev/"+device), "12", 0o666)
		must(t, os.Chmod(h.path("dev/"+device), 0o666)) // whatever the umask
	}
	must(t, os.Mkdir(h.path("proc"), 0o755))
	for _, volume := range []string{"run/sf2loki", "var/tmp", "var/spool/sf2loki", "var/lib/sf2loki"} {
		must(t, os.MkdirAll(h.path(volume), 0o755))
		output(t, asRoot("chown", "10001:10001", h.path(volume)))
	}
	write(t, h.path("run/credentials/client-secret"), b.org.ClientSecret, 0o644)
	write(t, h.path("etc/sf2loki/prod.conf"), strings.Join([]string{
		"SF2LOKI_SOURCE=elf", "SF_PULL_LOGIN_URL=" + b.org.URL, "SF_PULL_AUTH=client-credentials", "SF_PULL_CLIENT_ID=" + b.org.ClientID,
		"SF_PULL_EVENT_TYPE=*", "SF_PULL_POLL=1s", "LOKI_PUSH_URL=" + b.loki.URL, "",
	}, "\n"), 0o644)
	env := regexp.MustCompile(`(?m)^ENV (.*)$`).FindStringSubmatch(read(t, root+"/scripts/kubernetes/Containerfile"))[1]
	chroot, err := exec.LookPath("chroot")
	must(t, err)
	inside := func(command string) *exec.Cmd {
		cmd := asRoot("unshare", "--mount", "sh", "-c", `mount --rbind /proc "$0/proc" && exec "$2" --userspec=10001:10001 "$0" /bin/sh -c "$1"`,
			h.dir, "cd /var/tmp; exec "+command, chroot)
		cmd.Env = append(strings.Fields(env), "PATH=/usr/bin:/bin", "CREDENTIALS_DIRECTORY=/run/credentials", "HOME=/")
		return cmd
	}
	output(t, inside("sf2loki check"))
	b.publish(3, 20)
	b.threeDaysAgo(10)
	cmd := inside("sf2loki run")
	said, err := os.Create(filepath.Join(t.TempDir(), "said"))
	must(t, err)
	defer said.Close()
	cmd.Stderr = said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, cmd.Start())
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the status says it all
	}()
	for deadline := time.Now().Add(time.Minute); b.stored() < 20; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d stored: %s", b.stored(), read(t, said.Name()))
		}
	}
	output(t, inside("sf2loki backfill prod --since "+daysAgo(3)+" --until "+daysAgo(2)))
	if got := b.stored(); got != 30 {
		t.Errorf("%d stored after the backfill", got)
	}
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	<-ended
	if status := cmd.ProcessState.ExitCode(); status != 0 {
		t.Errorf("status %d: %s", status, read(t, said.Name()))
	}
}
