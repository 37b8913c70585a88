// Package bench measures the programs as they are installed, against a program
// of the standard library that does the same (std), in one run: `make bench`.
// Cost is processor time, the system's included, so that a busy machine changes
// it little; MB are 1e6 bytes.
package bench

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sf2loki/scripts/testbed"
)

// dir holds the programs and the data, for as long as the tests run.
var dir string

func TestMain(m *testing.M) {
	var err error
	if dir, err = os.MkdirTemp("", "bench-"); err != nil {
		panic(err)
	}
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// programs is the directory of the programs, built once. BENCH_PROGRAMS names
// one that is there already: of another release, to compare with.
var programs = sync.OnceValues(func() (string, error) {
	given := os.Getenv("BENCH_PROGRAMS")
	targets := []string{"sf2loki/scripts/bench/std"}
	if given == "" {
		targets = append(targets, "sf2loki/cmd/...")
	}
	return given, testbed.Build(dir, targets...)
})

// program is the path of a program.
func program(tb testing.TB, name string) string {
	tb.Helper()
	given, err := programs()
	if err != nil {
		tb.Fatal(err)
	}
	if given != "" && name != "std" {
		return filepath.Join(given, name)
	}
	return filepath.Join(dir, name)
}

// number is the value of an environment variable.
func number(tb testing.TB, name string, otherwise int) int {
	tb.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// usage is what programs have cost.
type usage struct {
	cpu  time.Duration
	wall time.Duration
	rss  int64 // bytes, at most
}

func (u usage) plus(v usage) usage {
	return usage{u.cpu + v.cpu, max(u.wall, v.wall), max(u.rss, v.rss)}
}

// stage is one program of a pipe.
type stage []string

func elf(path string, flags ...string) stage {
	return append(stage{"sf-pull", "elf", "--log-level", "warn", "--file", path}, flags...)
}

func push(url string, flags ...string) stage {
	return append(stage{"loki-push", "--log-level", "error", "--url", url, "--max-age", "0", "--stream-bytes-per-second", "0"}, flags...)
}

func commit(path string) stage { return stage{"ckpt", "commit", "--log-level", "warn", path} }

// run runs a pipe from one file to another and tells what each stage has cost.
func run(tb testing.TB, from, to string, stages ...stage) []usage {
	tb.Helper()
	spent, err := tryRun(tb, from, to, stages...)
	if err != nil {
		tb.Fatal(err)
	}
	return spent
}

func tryRun(tb testing.TB, from, to string, stages ...stage) (spent []usage, failed error) {
	tb.Helper()
	in, err := os.Open(from)
	if err != nil {
		tb.Fatal(err)
	}
	defer in.Close()
	var cmds []*exec.Cmd
	begin := time.Now()
	for i, s := range stages {
		cmd := exec.Command(program(tb, s[0]), s[1:]...)
		cmd.Stdin, cmd.Stderr = in, os.Stderr
		var out *os.File
		if i == len(stages)-1 {
			if out, err = os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err != nil {
				tb.Fatal(err)
			}
			cmd.Stdout = out
		} else {
			var r *os.File
			if r, out, err = os.Pipe(); err != nil {
				tb.Fatal(err)
			}
			cmd.Stdout, in = out, r
		}
		if err := cmd.Start(); err != nil {
			tb.Fatal(err)
		}
		out.Close()
		if i > 0 {
			cmd.Stdin.(*os.File).Close()
		}
		cmds = append(cmds, cmd)
	}
	memory := watchMemory(cmds)
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			failed = fmt.Errorf("%v: %w", stages[i], err)
		}
		state := cmd.ProcessState
		spent = append(spent, usage{cpu: state.UserTime() + state.SystemTime(), wall: time.Since(begin)})
	}
	for i, most := range memory() {
		spent[i].rss = most
	}
	return spent, failed
}

// watchMemory looks at how much memory programs have at most, every so often
// until the function that it returns is called. What the kernel reports of a
// program that has ended includes what its parent had when it was started.
func watchMemory(cmds []*exec.Cmd) func() []int64 {
	most := make([]int64, len(cmds))
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			for i, cmd := range cmds {
				most[i] = max(most[i], highWater(cmd.Process.Pid))
			}
			select {
			case <-time.After(5 * time.Millisecond):
			case <-end:
				return
			}
		}
	}()
	return func() []int64 {
		close(end)
		<-ended
		return most
	}
}

// highWater is the most memory that a process has had, in bytes.
func highWater(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0 // it has ended
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	var kilobytes int64
	if _, err := fmt.Sscan(after, &kilobytes); err != nil {
		return 0
	}
	return kilobytes << 10
}

// nullServer answers 204 to everything and counts it.
type nullServer struct {
	URL      string
	requests atomic.Int64
	bytes    atomic.Int64 // of bodies, as sent
	hang     chan struct{}
}

func newNullServer(tb testing.TB) *nullServer {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &nullServer{URL: "http://" + l.Addr().String() + "/loki/api/v1/push"}
	server := &http.Server{Handler: s}
	go func() { _ = server.Serve(l) }() // ends with Close
	tb.Cleanup(func() { server.Close() })
	return s
}

func (s *nullServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, _ := io.Copy(io.Discard, r.Body)
	s.requests.Add(1)
	s.bytes.Add(n)
	if s.hang != nil {
		<-s.hang
	}
	w.WriteHeader(http.StatusNoContent)
}
