package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sf2loki/pkg/sftest"
)

// blocked starts sf-pull with outputs that nobody reads, and waits until one of
// them is full.
func blocked(t *testing.T, env []string, full int, args ...string) (cmd *exec.Cmd, outputs [2]*os.File, stderr *bytes.Buffer) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stderr = &bytes.Buffer{}
	cmd = &exec.Cmd{Path: exe, Args: append([]string{"sf-pull"}, args...), Env: append(os.Environ(), env...), Stderr: stderr}
	var ends []*os.File
	for i := range outputs {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		outputs[i], ends = r, append(ends, w)
	}
	cmd.Stdout, cmd.ExtraFiles = ends[0], ends[1:]
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	ends[1-full].Close()
	defer ends[full].Close()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		poll := []unix.PollFd{{Fd: int32(ends[full].Fd()), Events: unix.POLLOUT}}
		switch n, err := unix.Poll(poll, 0); {
		case err != nil && !errors.Is(err, unix.EINTR):
			t.Fatal(err)
		case err == nil && n == 0: // it takes no more
			return cmd, outputs, stderr
		case time.Now().After(deadline):
			t.Fatalf("the pipe is not full: %s", stderr)
		}
	}
}

// busEnv is the environment of a run against a bus with many events.
func busEnv(t *testing.T, garbage bool) []string {
	t.Helper()
	org := sftest.NewOrg(sftest.Config{})
	t.Cleanup(org.Close)
	bus := org.NewBus(sftest.BusConfig{})
	bus.DefineSamples()
	const topic = "/event/LoginEventStream"
	for n := range 500 {
		e := sftest.Sample(topic, n, org.Now())
		if garbage {
			e = sftest.Event{Payload: bytes.Repeat([]byte{1}, 1000)}
		}
		bus.Publish(topic, e)
	}
	return []string{"SF_PULL_LOGIN_URL=" + org.URL, "SF_PULL_AUTH=client-credentials", "SF_PULL_CLIENT_ID=" + org.ClientID,
		"SF_PULL_CLIENT_SECRET=" + org.ClientSecret, "SF_PULL_ENDPOINT=http://" + bus.Addr, "SF_PULL_TOPIC=" + topic}
}

// A pipe that does not move holds up the end no longer than --grace allows.
func TestGrace(t *testing.T) {
	file := t.TempDir() + "/day.csv"
	data := sftest.Hour{Type: "Login", Start: time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC), Rows: 1000}.CSV()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		env  []string
		full int
		args []string
	}{
		"pubsub":       {busEnv(t, false), 0, []string{"pubsub"}},
		"dead letters": {busEnv(t, true), 1, []string{"pubsub", "--dead-letter-fd", "3"}},
		"elf":          {nil, 0, []string{"elf", "--file", file}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, outputs, stderr := blocked(t, c.env, c.full, append(c.args, "--grace", "100ms")...)
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // were it not bounded, it would not end
			if code := cmd.ProcessState.ExitCode(); code != 75 || !strings.Contains(stderr.String(), "the time of --grace is over") {
				t.Errorf("status %d: %s", code, stderr)
			}
			if out, _ := io.ReadAll(outputs[0]); bytes.Contains(out, []byte(`"status"`)) {
				t.Errorf("a run that was cut off has an end: %s", out[max(len(out)-200, 0):])
			}
		})
		t.Run(name+" that moves", func(t *testing.T) {
			t.Parallel()
			cmd, outputs, stderr := blocked(t, c.env, c.full, append(c.args, "--grace", "1h")...)
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			go io.Copy(io.Discard, outputs[1])
			out, _ := io.ReadAll(outputs[0])
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != 0 || !bytes.HasSuffix(out, []byte("\"status\":0}}\n")) {
				t.Errorf("status %d: %s\n%s", code, out[max(len(out)-200, 0):], stderr)
			}
		})
	}
}
