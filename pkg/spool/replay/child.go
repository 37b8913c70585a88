package replay

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"sf2loki/pkg/sysexits"
)

// The exit statuses of a shell for a command that it cannot start.
const (
	codeNotExecutable sysexits.Code = 126
	codeNotFound      sysexits.Code = 127
	codeSignal        sysexits.Code = 128
)

// child is the command with the three pipes to it.
type child struct {
	name    string
	cmd     *exec.Cmd
	stdin   *os.File
	acks    *os.File
	letters *os.File
}

// start starts the command in a process group of its own: an interrupt from the
// terminal is for us, who then let the command finish what it has.
func start(argv, env []string, stderr *os.File) (*child, error) {
	c := &child{name: argv[0], cmd: exec.Command(argv[0], argv[1:]...)}
	var theirs []*os.File
	pipe := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			c.cmd.Err = errors.Join(c.cmd.Err, err)
		}
		return r, w
	}
	stdin, ourStdin := pipe()
	ourAcks, stdout := pipe()
	ourLetters, letters := pipe()
	theirs = append(theirs, stdin, stdout, letters)
	c.stdin, c.acks, c.letters = ourStdin, ourAcks, ourLetters
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = stdin, stdout, stderr
	c.cmd.ExtraFiles = []*os.File{letters} // the first of these is descriptor 3
	c.cmd.Env = env
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err := c.cmd.Start()
	for _, f := range theirs {
		f.Close()
	}
	if err != nil {
		c.close()
		return nil, startError(argv[0], err)
	}
	return c, nil
}

func startError(name string, err error) error {
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return sysexits.Errorf(codeNotFound, "%s: command not found", name)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOEXEC):
		return sysexits.Wrap(codeNotExecutable, fmt.Errorf("start %s: %w", name, err))
	}
	return sysexits.Wrap(sysexits.TempFail, fmt.Errorf("start %s: %w", name, err))
}

// wait returns how the command ended: its own status becomes ours.
func (c *child) wait() error {
	err := c.cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return sysexits.Errorf(codeSignal+sysexits.Code(status.Signal()), "%s was killed by %s", c.name, unix.SignalName(status.Signal()))
	}
	return sysexits.Errorf(sysexits.Code(exit.ExitCode()), "%s ended with status %d", c.name, exit.ExitCode())
}

// signal reaches every process of the command.
func (c *child) signal(s syscall.Signal) {
	// The group may have ended by itself.
	_ = syscall.Kill(-c.cmd.Process.Pid, s)
}

func (c *child) close() {
	for _, f := range []io.Closer{c.stdin, c.acks, c.letters} {
		f.Close()
	}
}
