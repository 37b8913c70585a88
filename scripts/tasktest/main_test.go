// Package tasktest runs what the documentation tells people to type: the tasks
// of an operator, the README, the steps of onboarding, against the simulated
// org and Loki as programs. It also holds the texts to what is there: messages
// that are quoted, files and pages that are named, flags of all programs.
package tasktest

import (
	"bufio"
	"bytes"
	"encoding/json"
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

	"sf2loki/scripts/testbed"
)

func TestMain(m *testing.M) { os.Exit(testbed.Main(m)) }

// built builds the simulators once, and puts them and the supervisor beside the
// programs.
var built = sync.OnceValues(func() (string, error) {
	bin, err := testbed.Programs()
	if err == nil {
		err = testbed.Build(bin, "sf2loki/pkg/sftest/cmd/sftest", "sf2loki/pkg/lokitest/cmd/lokitest")
	}
	if err != nil {
		return "", err
	}
	script, err := filepath.Abs(testbed.Root + "/scripts/sf2loki")
	if err != nil {
		return "", err
	}
	return bin, os.Symlink(script, bin+"/sf2loki")
})

// binDir is the directory of the programs, the simulators and the supervisor.
func binDir(t *testing.T) string {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// bench is a directory to type commands in.
type bench struct {
	*testbed.Bed
	// places replaces what the documentation has by what the test has.
	places []string
	lokis  map[string]string // URL by name
}

func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	binDir(t)
	b := &bench{Bed: testbed.New(t), lokis: map[string]string{}}
	b.Env[0] = strings.Replace(b.Env[0], "=", "="+b.Dir+"/bin:", 1)
	b.Set("SF2LOKI_CONF_DIR="+b.Dir+"/etc/sf2loki", "RUNTIME_DIRECTORY="+b.Dir+"/run")
	for _, d := range []string{"/etc/sf2loki", "/var/lib/sf2loki", "/var/spool/sf2loki", "/etc/cron.d", "/archive", "/backup", "/run"} {
		b.mkdir(d[1:])
		b.places = append(b.places, d, b.Dir+d)
	}
	b.mkdir("bin")
	return b
}

func (b *bench) mkdir(name string) {
	b.T.Helper()
	if err := os.MkdirAll(b.Path(name), 0o700); err != nil {
		b.T.Fatal(err)
	}
}

// here is a text of the documentation with the places of this test.
func (b *bench) here(text string) string { return strings.NewReplacer(b.places...).Replace(text) }

// program puts a shell script into the PATH: the stand-in of a program that
// cannot be had here.
func (b *bench) program(name, text string) {
	b.T.Helper()
	b.Write("bin/"+name, "#!/bin/sh\n"+text)
	if err := os.Chmod(b.Path("bin/"+name), 0o700); err != nil {
		b.T.Fatal(err)
	}
}

// read is what a file holds, as the shell's $(cat) has it.
func (b *bench) read(name string) string {
	b.T.Helper()
	return strings.TrimSuffix(b.Read(name), "\n")
}

// serve starts a simulator and returns the first lines of its output. It ends
// with the test.
func (b *bench) serve(lines int, name string, args ...string) []string {
	b.T.Helper()
	cmd := exec.Command(filepath.Join(binDir(b.T), name), args...)
	cmd.Dir, cmd.Env = b.Dir, b.Env
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	scan := bufio.NewScanner(out)
	var first []string
	for len(first) < lines && scan.Scan() {
		first = append(first, scan.Text())
	}
	if len(first) < lines {
		b.T.Fatalf("%s %q has not started: %s", name, args, said.String())
	}
	return first
}

// org starts a simulated org and puts its credentials where the documentation
// has those of acme.
func (b *bench) org(args ...string) {
	b.T.Helper()
	lines := b.serve(2, "sftest", append([]string{"--dir", "org", "--pubsub-listen", "127.0.0.1:0"}, args...)...)
	b.Write("etc/sf2loki/prod.pem", b.read("org/private-key.pem"))
	b.places = append(b.places, "https://acme.my.salesforce.com", lines[0], "3MVG9example", b.read("org/client-id"), "loki@acme.example", b.read("org/username"))
	b.Set("SF_PULL_ENDPOINT=" + lines[1])
}

// loki starts a simulated Loki in place of an address of the documentation.
func (b *bench) loki(place string, args ...string) {
	b.T.Helper()
	url := b.serve(1, "lokitest", args...)[0]
	b.places = append(b.places, place, url)
	b.lokis[place] = url
}

const acmeLoki = "https://loki.acme.example"

// acme is the org and the Loki of the documentation, with its settings in the
// environment as a shell has them after it has read prod.env.
func (b *bench) acme(orgArgs ...string) {
	b.T.Helper()
	b.org(orgArgs...)
	b.Write("etc/sf2loki/loki.token", "secret\n")
	b.loki(acmeLoki, "--multi-tenant", "--token-file", b.Path("etc/sf2loki/loki.token"))
	b.settings()
}

// settings reads the environment file of the documentation.
func (b *bench) settings() {
	b.T.Helper()
	_, env, _ := strings.Cut(page(b.T, "sf2loki-tasks.7"), ".Bd -literal -offset indent\n")
	env, _, _ = strings.Cut(env, ".Ed")
	b.Write("etc/sf2loki/prod.env", b.here(env))
	for line := range strings.Lines(b.here(env)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
			b.Set(line)
		}
	}
	b.Set("LOKI_PUSH_FLUSH_INTERVAL=50ms", "SF_PULL_LOG_LEVEL=warn", "LOKI_PUSH_LOG_LEVEL=warn", "CKPT_LOG_LEVEL=warn", "DL_REPLAY_LOG_LEVEL=warn")
}

// control steers the simulated org.
func (b *bench) control(verb, body string) {
	b.T.Helper()
	res, err := http.Post(b.read("org/url")+"/__sftest/"+verb, "application/json", strings.NewReader(body))
	if err != nil {
		b.T.Fatal(err)
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK {
		b.T.Fatalf("%s %s: %s", verb, body, text)
	}
}

// stored counts what a Loki holds of a selector, for a tenant.
func (b *bench) stored(place, tenant, selector string) int {
	b.T.Helper()
	query := url.Values{"query": {"sum(count_over_time(" + selector + "[10y]))"}, "time": {strconv.FormatInt(time.Now().Add(90*24*time.Hour).Unix(), 10)}}
	req, err := http.NewRequestWithContext(b.T.Context(), http.MethodGet, b.lokis[place]+"/loki/api/v1/query?"+query.Encode(), nil)
	if err != nil {
		b.T.Fatal(err)
	}
	req.Header.Set("X-Scope-OrgID", tenant)
	req.Header.Set("Authorization", "Bearer secret")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.T.Fatal(err)
	}
	defer res.Body.Close()
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		b.T.Fatal(err)
	}
	n := 0
	for _, r := range answer.Data.Result {
		one, err := strconv.Atoi(fmt.Sprint(r.Value[1]))
		if err != nil {
			b.T.Fatal(err)
		}
		n += one
	}
	return n
}

// holds fails unless the Loki of acme holds so many entries of a selector.
func (b *bench) holds(selector string, want int) {
	b.T.Helper()
	if got := b.stored(acmeLoki, "7", selector); got != want || got == 0 {
		b.T.Errorf("Loki holds %d entries of %s, want %d", got, selector, want)
	}
}

// rows are those that the org made, of one type or of all; repeats count once.
func (b *bench) rows(eventType string) int {
	b.T.Helper()
	var m struct {
		Rows   int
		ByType map[string]int `json:"by_type"`
	}
	if err := json.Unmarshal([]byte(b.read("org/manifest.json")), &m); err != nil {
		b.T.Fatal(err)
	}
	if eventType == "" {
		return m.Rows
	}
	return m.ByType[eventType]
}

// sh runs commands of the documentation, which have to end with a status and
// to print some texts, on whichever output.
func (b *bench) sh(status int, script string, texts ...string) *testbed.Result {
	b.T.Helper()
	return b.in("sh", status, script, texts...)
}

func (b *bench) in(shell string, status int, script string, texts ...string) *testbed.Result {
	b.T.Helper()
	bed := *b.Bed
	bed.Shell = shell
	r := bed.Run(b.here(script))
	if r.Status != status {
		b.T.Fatalf("want status %d: %v", status, r)
	}
	for _, text := range texts {
		if !strings.Contains(r.Stdout+r.Stderr, text) {
			b.T.Errorf("want %q: %v", text, r)
		}
	}
	return r
}

// begin runs a script until the function that it returns is called, which
// sends TERM to the shell and waits.
func (b *bench) begin(script string) (end func() *testbed.Result) {
	b.T.Helper()
	run := b.Start(b.here(script))
	end = sync.OnceValue(func() *testbed.Result {
		_ = run.Cmd.Process.Signal(syscall.SIGTERM)
		return run.Wait()
	})
	b.T.Cleanup(func() { end() })
	return end
}

// page is the source of a manual page.
func page(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(testbed.Root + "/man/" + name)
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
