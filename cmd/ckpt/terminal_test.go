package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo terminal and what was printed on it.
type terminal struct {
	master, slave *os.File
	mu            sync.Mutex
	printed       strings.Builder
}

func openTerminal(t *testing.T) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	t.Cleanup(func() { _ = master.Close() })
	raw, err := master.SyscallConn()
	must(t, err)
	var number int
	must(t, raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}))
	must(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	t.Cleanup(func() { _ = slave.Close() })
	term := &terminal{master: master, slave: slave}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			if err != nil {
				return
			}
			term.mu.Lock()
			term.printed.Write(buf[:n])
			term.mu.Unlock()
		}
	}()
	return term
}

func (term *terminal) shows(text string) bool {
	term.mu.Lock()
	defer term.mu.Unlock()
	return strings.Contains(term.printed.String(), text)
}

// The command reads from the terminal and gets its signals, as if it had been
// started alone, and the shell has the terminal again afterwards.
func TestTerminal(t *testing.T) {
	for name, test := range map[string]struct {
		typed, shown string
		status       string
	}{
		"read":      {"hello\n", "got hello", "status 0 more"},
		"interrupt": {"\x03", "", "status 130 more"},
	} {
		t.Run(name, func(t *testing.T) {
			term, dir := openTerminal(t), t.TempDir()
			self, err := os.Executable()
			must(t, err)
			program := filepath.Join(dir, "ckpt")
			must(t, os.Symlink(self, program))
			shell := ckpt(t)
			shell.Path, shell.Args, shell.Dir = "/bin/sh", []string{"sh", "-i", "-c", `trap : INT
				"$PROGRAM" lease lease --fence state.json -- sh -c 'echo asking; read x; echo got $x'
				status=$?; read y; echo status $status $y`}, dir
			shell.Env = append(os.Environ(), "PROGRAM="+program)
			shell.Stdin, shell.Stdout, shell.Stderr = term.slave, term.slave, term.slave
			shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			must(t, shell.Start())
			t.Cleanup(func() { _ = shell.Process.Kill(); _ = shell.Wait() })
			await(t, "question", func() bool { return term.shows("asking") })
			_, err = term.master.WriteString(test.typed)
			must(t, err)
			await(t, "answer", func() bool { return term.shows(test.shown) })
			await(t, "end", func() bool { return term.shows("released the lease") })
			_, err = term.master.WriteString("more\n")
			must(t, err)
			await(t, "shell", func() bool { return term.shows(test.status) })
		})
	}
}
