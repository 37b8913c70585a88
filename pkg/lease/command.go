package lease

import (
	"errors"
	"fmt"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"sf2loki/pkg/sysexits"
)

// Statuses of a command that could not be run, as shells have them.
const (
	notExecutable sysexits.Code = 126
	notFound      sysexits.Code = 127
)

// Command is what runs under a lease: in a process group of its own, with the
// descriptors that we have, whatever their number.
type Command struct {
	Argv     []string
	Env      []string
	Terminal bool // descriptor 0 is the terminal that we have in the foreground
}

// Group is a running Command.
type Group struct {
	pid    int
	exited chan struct{} // the command itself has ended
	gone   chan struct{} // so has everybody in its group
	status syscall.WaitStatus
}

// Look finds the command, so that a wrong name is told before anybody waits.
func (c *Command) Look() (string, error) {
	path, err := exec.LookPath(c.Argv[0])
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, exec.ErrDot):
		return path, nil // the current directory is in the path of who asked for it
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EISDIR):
		return "", sysexits.Errorf(notExecutable, "%s cannot be executed", c.Argv[0])
	}
	return "", sysexits.Errorf(notFound, "%s was not found", c.Argv[0])
}

// Start runs the command with one more variable in its environment.
func (c *Command) Start(variable string) (*Group, error) {
	path, err := c.Look()
	if err != nil {
		return nil, err
	}
	// Those of the group whose parent has ended become our children, so that
	// the end of the whole group can be waited for.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, sysexits.Wrap(sysexits.Software, fmt.Errorf("become the reaper of orphans: %w", err))
	}
	g := &Group{exited: make(chan struct{}), gone: make(chan struct{})}
	started := make(chan error)
	go g.run(c, path, variable, started)
	if err := <-started; err != nil {
		code := notExecutable
		if errors.Is(err, syscall.ENOENT) {
			code = notFound
		}
		return nil, sysexits.Wrap(code, fmt.Errorf("execute %s: %w", c.Argv[0], err))
	}
	return g, nil
}

// run starts the command and waits for its group, all on one thread: when that
// ends, by SIGKILL of us, the kernel sends the command a SIGTERM.
func (g *Group) run(c *Command, path, variable string, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, _, err := syscall.StartProcess(path, c.Argv, &syscall.ProcAttr{
		Env: append(c.Env[:len(c.Env):len(c.Env)], variable), Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Setpgid: true, Foreground: c.Terminal, Ctty: 0, Pdeathsig: syscall.SIGTERM},
	})
	g.pid = pid
	started <- err
	if err != nil {
		return
	}
	defer close(g.gone)
	ended := false
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-g.pid, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil && !ended:
			close(g.exited) // cannot be: it was our child
			return
		case err != nil:
			return // nobody is left
		}
		if pid == g.pid {
			g.status, ended = status, true
			close(g.exited)
		}
	}
}

// Exited is closed when the command itself has ended.
func (g *Group) Exited() <-chan struct{} { return g.exited }

// Gone is closed when everybody in the group has ended.
func (g *Group) Gone() <-chan struct{} { return g.gone }

// Status is the command's own, once it has ended: 128 and the number of the
// signal that ended it, if one did.
func (g *Group) Status() int {
	if g.status.Signaled() {
		return 128 + int(g.status.Signal())
	}
	return g.status.ExitStatus()
}

// Signal sends s to everybody in the group, stopped ones too.
func (g *Group) Signal(s syscall.Signal) {
	_ = syscall.Kill(-g.pid, s) // the group may have ended
	if s != syscall.SIGKILL {
		_ = syscall.Kill(-g.pid, syscall.SIGCONT)
	}
}

// Foreground puts our own group back into the foreground of the terminal fd.
// Whoever is in the background is stopped for that, unless it ignores it.
func Foreground(fd int) {
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, unix.Getpgrp()) // the terminal may have gone
}
