package topictest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// natsPrograms builds the server and its command line from their own modules.
var natsPrograms = sync.OnceValue(func() error {
	bin, err := programs()
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-o", bin+"/", "github.com/nats-io/nats-server/v2", "github.com/nats-io/natscli/nats")
	cmd.Dir = "testdata/nats"
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build nats: %w: %s", err, out)
	}
	return nil
})

// natsServer starts a server whose streams lie on the disk.
func (b *bench) natsServer() *exec.Cmd {
	b.t.Helper()
	if err := natsPrograms(); err != nil {
		b.t.Fatal(err)
	}
	bin, _ := programs()
	cmd := exec.Command(bin+"/nats-server", "-a", "127.0.0.1", "-p", "-1", "-js", "-sd", b.dir+"/streams", "--ports_file_dir", b.dir)
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var ports struct{ NATS []string }
	for deadline := time.Now().Add(time.Minute); len(ports.NATS) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatal("the server does not say where it is")
		}
		if found, _ := filepath.Glob(b.dir + "/*.ports"); len(found) == 1 {
			if data, err := os.ReadFile(found[0]); err == nil {
				_ = json.Unmarshal(data, &ports) // half of it, perhaps: looked at again
			}
		}
	}
	b.env = append(b.env, "NATS_URL="+ports.NATS[0], "XDG_CONFIG_HOME="+b.dir)
	return cmd
}

const natsStream = "nats stream add dead --subjects dead --storage file --defaults >/dev/null"

// Letters are stored by the server before the position moves, and come back to
// the byte; the server may be killed in between.
func TestNATS(t *testing.T) {
	b := newBench(t)
	server := b.natsServer()
	b.want(0, natsStream)
	bad := b.input(3000)
	all := recipes(t, "Subjects of NATS")
	b.want(0, fromRecords(all[0]))
	_ = server.Process.Signal(syscall.SIGKILL)
	_ = server.Wait()
	b.want(0, "rm *.ports")
	b.natsServer()
	b.returns(all[1], bad)
}

// What the server does not take is never behind the position, although the
// program that ships it ends with 0.
func TestNATSRefuses(t *testing.T) {
	for name, before := range map[string]string{
		"nobody listens": "true",
		"a full stream":  strings.Replace(natsStream, "--defaults", "--discard new --max-msgs 3 --defaults", 1),
		"long letters":   strings.Replace(natsStream, "--defaults", "--max-msg-size 300 --defaults", 1),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.natsServer()
			b.want(0, before)
			b.input(30)
			if status, out := b.run(fromRecords(recipes(t, "Subjects of NATS")[0])); status == 0 || b.read("state.json") != "" {
				t.Errorf("status %d, position %s: %s", status, b.read("state.json"), out)
			}
		})
	}
}

// A server that is not there is told by the status, and no position is moved.
func TestNATSDown(t *testing.T) {
	b := newBench(t)
	server := b.natsServer()
	_ = server.Process.Kill()
	_ = server.Wait()
	b.input(30)
	if status, out := b.run(fromRecords(recipes(t, "Subjects of NATS")[0])); status == 0 || b.read("state.json") != "" {
		t.Errorf("status %d, position %s: %s", status, b.read("state.json"), out)
	}
}
