// Package topictest ships dead letters to a topic of a Kafka broker and of a
// NATS server, and back, with kcat and nats, as sf2loki-deadletter(5) says. It is
// a module of its own for the sake of the broker.
package topictest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"sf2loki/pkg/lokitest"
)

const root = "../.."

var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "topictest-")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", dir+"/", "./cmd/loki-push", "./cmd/dl-replay", "./cmd/ckpt")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the programs: %w: %s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	if dir, err := programs(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(status)
}

type bench struct {
	t   *testing.T
	dir string
	srv *lokitest.Server
	env []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	srv := lokitest.NewServer(lokitest.Config{Limits: func(tenant string, l *lokitest.Limits) {
		lokitest.Plain(tenant, l)
		l.MaxLineSize = 100
	}})
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	return &bench{t: t, dir: dir, srv: srv, env: append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"),
		"LOKI_PUSH_URL="+srv.URL, "LOKI_PUSH_BREAKER=false", "LOKI_PUSH_FLUSH_INTERVAL=20ms", "LOKI_PUSH_LOG_LEVEL=warn")}
}

// broker starts a broker with one topic of several partitions.
func (b *bench) broker() *kfake.Cluster {
	b.t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "dead"))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(c.Close)
	b.env = append(b.env, "BROKER="+c.ListenAddrs()[0])
	return c
}

func (b *bench) run(script string) (status int, out string) {
	b.t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir, cmd.Env = b.dir, b.env
	var all bytes.Buffer
	cmd.Stdout, cmd.Stderr = &all, &all
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), all.String()
}

func (b *bench) want(status int, script string) string {
	b.t.Helper()
	got, out := b.run(script)
	if got != status {
		b.t.Errorf("status %d, want %d: %s\n%s", got, status, script, out)
	}
	return out
}

func (b *bench) read(name string) string {
	data, _ := os.ReadFile(filepath.Join(b.dir, name))
	return string(data)
}

// input writes records of which every third is too long.
func (b *bench) input(n int) (bad int) {
	b.t.Helper()
	var text strings.Builder
	now := time.Now().UTC()
	for i := 1; i <= n; i++ {
		line := fmt.Sprintf("%d é\u2028 <&> \\\\", i)
		if i%3 == 0 {
			line += strings.Repeat("x", 200)
			bad++
		}
		fmt.Fprintf(&text, `{"ts":"%s","labels":{"source":"s","event_type":"T"},"line":"%s","checkpoint_key":"k","checkpoint_value":"%d"}`+"\n",
			now.Add(time.Duration(i)*time.Microsecond).Format(time.RFC3339Nano), line, i)
	}
	if err := os.WriteFile(filepath.Join(b.dir, "records"), []byte(text.String()), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return bad
}

// recipes are the scripts of a section of the manual.
func recipes(t *testing.T, section string) []string {
	t.Helper()
	page, err := os.ReadFile(root + "/man/sf2loki-deadletter.5")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(page), "\n.Ss "+section+"\n")
	text, _, _ = strings.Cut(text, "\n.S")
	var found []string
	for _, part := range strings.Split(text, ".Bd -literal -offset indent\n")[1:] {
		script, _, _ := strings.Cut(part, "\n.Ed")
		found = append(found, strings.ReplaceAll(script, `\e`, `\`))
	}
	if !ok || len(found) != 2 {
		t.Fatalf("recipes of %s: %q", section, found)
	}
	return found
}

// Letters go to the topic in their order and come back to the byte; then they
// are replayed, and the position was moved when they were in the topic.
func TestTopic(t *testing.T) {
	b := newBench(t)
	b.broker()
	bad := b.input(3000)
	all := recipes(t, "Topics")
	b.want(0, fromRecords(all[0]))
	b.returns(all[1], bad)
}

// fromRecords has a recipe read the records that input wrote.
func fromRecords(recipe string) string {
	return strings.Replace(recipe, "sf-pull elf --event-type '*' --resume state.json", "cat records", 1)
}

// returns checks that all of the 3000 records are behind the position, that what
// recipe brings back are the letters, and that their replay completes the store.
func (b *bench) returns(recipe string, bad int) {
	b.t.Helper()
	b.want(0, `test "$(ckpt get state.json k)" = 3000`)
	b.want(0, "loki-push --spool copy <records >/dev/null; cat copy/*.ndjson >copied")
	b.srv.SetLimits("fake", func(l *lokitest.Limits) { l.MaxLineSize = 1000 })
	out := b.want(0, recipe)
	if !strings.Contains(out, fmt.Sprintf("%d to send: %d replayed", bad, bad)) || len(b.srv.Entries("fake")) != 3000 {
		b.t.Errorf("%d stored: %s", len(b.srv.Entries("fake")), out)
	}
	strip := `jq -c '[.ts, .labels, .line, .reason, .dead_letter.id]' `
	b.want(0, strip+"copied >a; "+strip+"back.ndjson.replayed >b; cmp a b && test $(wc -l <b) = "+fmt.Sprint(bad))
}

// A broker that is not there is told by the status, and no position is moved.
func TestBrokerDown(t *testing.T) {
	b := newBench(t)
	c := b.broker()
	c.Close()
	b.input(30)
	script := fromRecords(recipes(t, "Topics")[0])
	if status, out := b.run(script); status == 0 || b.read("state.json") != "" {
		t.Errorf("status %d, position %s: %s", status, b.read("state.json"), out)
	}
}
