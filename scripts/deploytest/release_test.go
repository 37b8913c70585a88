package deploytest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
)

// releases are the programs of two neighbouring ones: the directories
// v1.0.0 and v1.1.0 below the one returned. They differ in their version, so
// that is all that is changed in the second.
var releases = sync.OnceValues(func() (string, error) {
	const first, second = "v1.0.0-of-deploytest", "v1.1.0-of-deploytest"
	dir, err := os.MkdirTemp("", "deploytest-")
	if err != nil {
		return "", err
	}
	built = dir
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w -X sf2loki/pkg/cli.release="+first, "-o", filepath.Join(dir, "v1.0.0")+"/", "./cmd/...")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	if err := os.Mkdir(filepath.Join(dir, "v1.1.0"), 0o755); err != nil {
		return dir, err
	}
	for _, name := range []string{"sf-pull", "loki-push", "ckpt", "dl-replay"} {
		program, err := os.ReadFile(filepath.Join(dir, "v1.0.0", name))
		if err != nil {
			return dir, err
		}
		program = bytes.ReplaceAll(program, []byte(first), []byte(second))
		if err := os.WriteFile(filepath.Join(dir, "v1.1.0", name), program, 0o755); err != nil {
			return dir, err
		}
	}
	return dir, nil
})

// built is what TestMain removes.
var built string

func TestMain(m *testing.M) {
	status := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(status)
}

// bench is a directory with a simulated org and a simulated Loki beside it.
type bench struct {
	t    *testing.T
	dir  string
	org  *sftest.Org
	loki *lokitest.Server
	env  []string
	rows int // published
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir(), org: sftest.NewOrg(sftest.Config{}), loki: lokitest.NewServer(lokitest.Config{})}
	t.Cleanup(b.org.Close)
	t.Cleanup(b.loki.Close)
	write(t, b.path("key.pem"), b.org.PrivateKeyPEM(), 0o600)
	b.env = []string{
		"HOME=" + b.dir, "TMPDIR=" + b.dir, "LC_ALL=C",
		"SF_PULL_LOGIN_URL=" + b.org.URL, "SF_PULL_CLIENT_ID=" + b.org.ClientID, "SF_PULL_USERNAME=" + b.org.Username,
		"SF_PULL_PRIVATE_KEY_FILE=" + b.path("key.pem"), "LOKI_PUSH_URL=" + b.loki.URL,
	}
	return b
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// programs is PATH with those of the releases in front.
func (b *bench) programs(dirs ...string) string {
	b.t.Helper()
	all, err := releases()
	must(b.t, err)
	var path []string
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(all, dir)
		}
		path = append(path, dir)
	}
	return "PATH=" + strings.Join(append(path, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"), ":")
}

// publish adds an hour of Login.
func (b *bench) publish(ago, rows int) {
	start := time.Now().UTC().Truncate(time.Hour).Add(-time.Duration(ago) * time.Hour)
	b.org.AddHour(sftest.Hour{Type: "Login", Start: start, Rows: rows}, func(f *sftest.LogFile) { f.Created = time.Now().Add(-time.Duration(ago) * 10 * time.Minute) })
	b.rows += rows
}

// threeDaysAgo adds an hour that only a backfill finds.
func (b *bench) threeDaysAgo(rows int) {
	day := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -3)
	b.org.AddHour(sftest.Hour{Type: "Login", Start: day.Add(10 * time.Hour), Rows: rows}, func(f *sftest.LogFile) { f.Created = day.Add(12 * time.Hour) })
}

// daysAgo is a date.
func daysAgo(n int) string { return time.Now().UTC().AddDate(0, 0, -n).Format(time.DateOnly) }

// sh runs a script that has to end with status.
func (b *bench) sh(status int, path, script string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "dash", "-c", script)
	cmd.Dir, cmd.Env = b.dir, append([]string{path}, b.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, _ := cmd.CombinedOutput() // the status says it all
	if got := cmd.ProcessState.ExitCode(); got != status {
		b.t.Fatalf("%s\nstatus %d, want %d:\n%s", script, got, status, out)
	}
	return string(out)
}

// stored is how many entries the simulated Loki holds.
func (b *bench) stored() int { return len(b.loki.Entries("fake")) }

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); {
		if time.Now().After(deadline) {
			t.Fatalf("no %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
