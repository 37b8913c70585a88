// Package tasktest runs what the documentation tells people to type: the tasks
// of an operator, the README, the steps of onboarding, against the simulated
// org and Loki as programs. It also holds the texts to what is there: messages
// that are quoted, files and pages that are named, flags of all programs.
package tasktest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const root = "../.."

var binDir string

func TestMain(m *testing.M) {
	status := func() int {
		dir, err := os.MkdirTemp("", "tasktest-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binDir = dir
		return m.Run()
	}()
	os.Exit(status)
}

// built builds the programs and the simulators once, and puts the supervisor
// beside them.
var built = sync.OnceValue(func() error {
	cmd := exec.Command("go", "build", "-o", binDir+"/", "./cmd/...", "./pkg/sftest/cmd/sftest", "./pkg/lokitest/cmd/lokitest")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	script, err := filepath.Abs(root + "/scripts/sf2loki")
	if err != nil {
		return err
	}
	return os.Symlink(script, binDir+"/sf2loki")
})

// bench is a directory to type commands in.
type bench struct {
	t   *testing.T
	dir string
	env []string
	// places replaces what the documentation has by what the test has.
	places []string
	lokis  map[string]string // URL by name
}

func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	if err := built(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	b := &bench{t: t, dir: dir, lokis: map[string]string{}, env: []string{
		"PATH=" + dir + "/bin:" + binDir + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + dir, "TMPDIR=" + dir, "LC_ALL=C",
		"SF2LOKI_CONF_DIR=" + dir + "/etc/sf2loki", "RUNTIME_DIRECTORY=" + dir + "/run",
	}}
	for _, d := range []string{"/etc/sf2loki", "/var/lib/sf2loki", "/var/spool/sf2loki", "/etc/cron.d", "/archive", "/backup", "/run"} {
		if err := os.MkdirAll(dir+d, 0o700); err != nil {
			t.Fatal(err)
		}
		b.places = append(b.places, d, dir+d)
	}
	b.mkdir("bin")
	return b
}

func (b *bench) mkdir(name string) {
	b.t.Helper()
	if err := os.MkdirAll(b.path(name), 0o700); err != nil {
		b.t.Fatal(err)
	}
}

// here is a text of the documentation with the places of this test.
func (b *bench) here(text string) string { return strings.NewReplacer(b.places...).Replace(text) }

func (b *bench) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(b.dir, name)
}

func (b *bench) write(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// program puts a shell script into the PATH: the stand-in of a program that
// cannot be had here.
func (b *bench) program(name, text string) {
	b.t.Helper()
	b.write("bin/"+name, "#!/bin/sh\n"+text)
	if err := os.Chmod(b.path("bin/"+name), 0o700); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) read(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(b.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Fatal(err)
	}
	return strings.TrimSuffix(string(data), "\n")
}

func (b *bench) set(pairs ...string) { b.env = append(b.env, pairs...) }

// serve starts a simulator and returns the first lines of its output. It ends
// with the test.
func (b *bench) serve(lines int, name string, args ...string) []string {
	b.t.Helper()
	cmd := exec.Command(filepath.Join(binDir, name), args...)
	cmd.Dir, cmd.Env = b.dir, b.env
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	scan := bufio.NewScanner(out)
	var first []string
	for len(first) < lines && scan.Scan() {
		first = append(first, scan.Text())
	}
	if len(first) < lines {
		b.t.Fatalf("%s %q has not started: %s", name, args, said.String())
	}
	return first
}

// org starts a simulated org and puts its credentials where the documentation
// has those of acme.
func (b *bench) org(args ...string) {
	b.t.Helper()
	lines := b.serve(2, "sftest", append([]string{"--dir", "org", "--pubsub-listen", "127.0.0.1:0"}, args...)...)
	b.write("etc/sf2loki/prod.pem", b.read("org/private-key.pem"))
	b.places = append(b.places, "https://acme.my.salesforce.com", lines[0], "3MVG9example", b.read("org/client-id"), "loki@acme.example", b.read("org/username"))
	b.set("SF_PULL_ENDPOINT=" + lines[1])
}

// loki starts a simulated Loki in place of an address of the documentation.
func (b *bench) loki(place string, args ...string) {
	b.t.Helper()
	url := b.serve(1, "lokitest", args...)[0]
	b.places = append(b.places, place, url)
	b.lokis[place] = url
}

const acmeLoki = "https://loki.acme.example"

// acme is the org and the Loki of the documentation, with its settings in the
// environment as a shell has them after it has read prod.env.
func (b *bench) acme(orgArgs ...string) {
	b.t.Helper()
	b.org(orgArgs...)
	b.write("etc/sf2loki/loki.token", "secret\n")
	b.loki(acmeLoki, "--multi-tenant", "--token-file", b.path("etc/sf2loki/loki.token"))
	b.settings()
}

// settings reads the environment file of the documentation.
func (b *bench) settings() {
	b.t.Helper()
	_, env, _ := strings.Cut(page(b.t, "sf2loki-tasks.7"), ".Bd -literal -offset indent\n")
	env, _, _ = strings.Cut(env, ".Ed")
	b.write("etc/sf2loki/prod.env", b.here(env))
	for line := range strings.Lines(b.here(env)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
			b.set(line)
		}
	}
	b.set("LOKI_PUSH_FLUSH_INTERVAL=50ms", "SF_PULL_LOG_LEVEL=warn", "LOKI_PUSH_LOG_LEVEL=warn", "CKPT_LOG_LEVEL=warn", "DL_REPLAY_LOG_LEVEL=warn")
}

// control steers the simulated org.
func (b *bench) control(verb, body string) {
	b.t.Helper()
	res, err := http.Post(b.read("org/url")+"/__sftest/"+verb, "application/json", strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK {
		b.t.Fatalf("%s %s: %s", verb, body, text)
	}
}

// stored counts what a Loki holds of a selector, for a tenant.
func (b *bench) stored(place, tenant, selector string) int {
	b.t.Helper()
	query := url.Values{"query": {"sum(count_over_time(" + selector + "[10y]))"}, "time": {strconv.FormatInt(time.Now().Add(90*24*time.Hour).Unix(), 10)}}
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.lokis[place]+"/loki/api/v1/query?"+query.Encode(), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("X-Scope-OrgID", tenant)
	req.Header.Set("Authorization", "Bearer secret")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		b.t.Fatal(err)
	}
	n := 0
	for _, r := range answer.Data.Result {
		one, err := strconv.Atoi(fmt.Sprint(r.Value[1]))
		if err != nil {
			b.t.Fatal(err)
		}
		n += one
	}
	return n
}

// holds fails unless the Loki of acme holds so many entries of a selector.
func (b *bench) holds(selector string, want int) {
	b.t.Helper()
	if got := b.stored(acmeLoki, "7", selector); got != want || got == 0 {
		b.t.Errorf("Loki holds %d entries of %s, want %d", got, selector, want)
	}
}

// rows are those that the org made, of one type or of all; repeats count once.
func (b *bench) rows(eventType string) int {
	b.t.Helper()
	var m struct {
		Rows   int
		ByType map[string]int `json:"by_type"`
	}
	if err := json.Unmarshal([]byte(b.read("org/manifest.json")), &m); err != nil {
		b.t.Fatal(err)
	}
	if eventType == "" {
		return m.Rows
	}
	return m.ByType[eventType]
}

// result is how a script ended.
type result struct {
	script         string
	status         int
	stdout, stderr string
}

func (r *result) String() string {
	return fmt.Sprintf("%s\nstatus %d\nstdout: %.2000s\nstderr: %.3000s", r.script, r.status, r.stdout, r.stderr)
}

func (b *bench) command(ctx context.Context, shell, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, shell, "-c", script)
	cmd.Dir, cmd.Env = b.dir, b.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// sh runs commands of the documentation, which have to end with a status and
// to print some texts, on whichever output.
func (b *bench) sh(status int, script string, texts ...string) *result {
	b.t.Helper()
	return b.in("sh", status, script, texts...)
}

func (b *bench) in(shell string, status int, script string, texts ...string) *result {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := b.command(ctx, shell, b.here(script))
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.t.Fatalf("%s: %v", script, err)
	}
	r := &result{script: b.here(script), status: cmd.ProcessState.ExitCode(), stdout: out.String(), stderr: said.String()}
	if r.status != status {
		b.t.Fatalf("want status %d: %v", status, r)
	}
	for _, text := range texts {
		if !strings.Contains(r.stdout+r.stderr, text) {
			b.t.Errorf("want %q: %v", text, r)
		}
	}
	return r
}

// begin runs a script until the function that it returns is called, which
// sends TERM to the shell and waits.
func (b *bench) begin(script string) (end func() *result) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	cmd := b.command(ctx, "sh", b.here(script))
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	var once sync.Once
	r := &result{script: script}
	end = func() *result {
		once.Do(func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
			cancel()
			r.status, r.stdout, r.stderr = cmd.ProcessState.ExitCode(), out.String(), said.String()
		})
		return r
	}
	b.t.Cleanup(func() { end() })
	return end
}

// eventually waits for a condition.
func (b *bench) eventually(what string, condition func() bool) {
	b.t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline:
			b.t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

// page is the source of a manual page.
func page(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(root + "/man/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var unescape = strings.NewReplacer(`\e`, `\`, `\&`, "", `\-`, "-")

// literal matches a display of a manual page.
var literal = regexp.MustCompile(`(?ms)^\.Bd -literal.*?\n(.*?)^\.Ed`)

// sections are the displays below each .Ss of a page, by its title.
func sections(t *testing.T, name string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, part := range strings.Split(page(t, name), "\n.Ss ")[1:] {
		title, text, _ := strings.Cut(part, "\n")
		text, _, _ = strings.Cut(text, "\n.Sh ")
		all[title] = []string{}
		for _, m := range literal.FindAllStringSubmatch(text, -1) {
			all[title] = append(all[title], unescape.Replace(m[1]))
		}
	}
	return all
}
