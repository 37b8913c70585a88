// Package prooftest proves that nothing is lost and that an auditor can see it:
// audits and the commands that fill holes, planted bugs, planted secrets, and
// the index of faults. The programs are real, as they are installed.
package prooftest

import (
	"context"
	"errors"
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

// root is the top of the source tree.
const root = "../.."

var scratch string

func TestMain(m *testing.M) {
	status := func() int {
		dir, err := os.MkdirTemp("", "prooftest-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		scratch = dir
		return m.Run()
	}()
	os.Exit(status)
}

var built = sync.OnceValue(func() error { return build(filepath.Join(scratch, "bin"), "", "./cmd/...") })

// build builds programs, with files in the place of others when overlay names
// a list of them.
func build(dir, overlay string, programs ...string) error {
	args := []string{"build", "-trimpath", "-o", dir + "/"}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.Command("go", append(args, programs...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %v: %w\n%s", programs, err, out)
	}
	return nil
}

// bench is a directory to run scripts in, with the programs in PATH, an org and
// a Loki.
type bench struct {
	t   *testing.T
	dir string
	env []string
	org *sftest.Org
	srv *lokitest.Server
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchWith(t, lokitest.Config{})
}

func newBenchWith(t *testing.T, cfg lokitest.Config) *bench {
	t.Helper()
	if err := built(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	b := &bench{t: t, dir: dir}
	b.org = sftest.NewOrg(sftest.Config{Gzip: true})
	t.Cleanup(b.org.Close)
	b.srv = lokitest.NewServer(cfg)
	t.Cleanup(b.srv.Close)
	b.env = []string{
		"PATH=" + filepath.Join(scratch, "bin") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + dir, "TMPDIR=" + dir, "LC_ALL=C",
		"SF_PULL_LOGIN_URL=" + b.org.URL, "SF_PULL_CLIENT_ID=" + b.org.ClientID, "SF_PULL_USERNAME=" + b.org.Username,
		"SF_PULL_PRIVATE_KEY_FILE=" + b.write("key.pem", b.org.PrivateKeyPEM()),
		"LOKI_PUSH_URL=" + b.srv.URL,
	}
	return b
}

// set adds variables to the environment of scripts.
func (b *bench) set(pairs ...string) { b.env = append(b.env, pairs...) }

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bench) write(name, text string) string {
	b.t.Helper()
	if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return b.path(name)
}

func (b *bench) read(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(b.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Fatal(err)
	}
	return string(data)
}

// result is how a script ended.
type result struct {
	script         string
	status         int
	stdout, stderr string
}

func (r *result) String() string {
	return fmt.Sprintf("%s\nstatus %d\nstdout: %.3000s\nstderr: %.4000s", r.script, r.status, r.stdout, r.stderr)
}

// run runs a script of the shell to its end.
func (b *bench) run(script string) *result {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	var out, errs strings.Builder
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = b.dir, b.env, &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	r := &result{script, cmd.ProcessState.ExitCode(), out.String(), errs.String()}
	if ctx.Err() != nil {
		b.t.Fatalf("not done in time: %v: %v", err, r)
	}
	return r
}

// ok runs a script that has to end with 0.
func (b *bench) ok(script string) *result {
	b.t.Helper()
	r := b.run(script)
	if r.status != 0 {
		b.t.Fatalf("%v", r)
	}
	return r
}

// hour publishes a file of an hour that is some hours back, made some time ago.
func (b *bench) hour(eventType string, back, rows int, edit func(i int, cells map[string]string)) string {
	start := time.Now().UTC().Truncate(time.Hour).Add(-time.Duration(back) * time.Hour)
	h := sftest.Hour{Type: eventType, Start: start, Rows: rows, Edit: edit}
	return b.org.AddHour(h, func(f *sftest.LogFile) { f.Created = time.Now().Add(-3 * time.Hour) })
}

// tooOld gives every so many rows a time that Loki refuses.
func tooOld(every int) func(int, map[string]string) {
	return func(i int, cells map[string]string) {
		if i%every == 3 {
			cells["TIMESTAMP_DERIVED"] = time.Now().AddDate(0, 0, -9).UTC().Format("2006-01-02T15:04:05.000Z")
		}
	}
}
