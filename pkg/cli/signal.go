package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"sf2loki/pkg/fdio"
	"sf2loki/pkg/sysexits"

	"golang.org/x/sys/unix"
)

// Stopped is the cause of a context that a signal cancelled.
type Stopped struct{ Signal os.Signal }

func (s *Stopped) Error() string { return "stopped by " + unix.SignalName(s.Signal.(syscall.Signal)) }

// Is makes errors.Is(cause, context.Canceled) true, as of a plain context.
func (s *Stopped) Is(target error) bool { return target == context.Canceled }

// echo is how long after a signal the same one counts as its echo: timeout(1)
// sends one to its child and, at once, another to the group.
const echo = 20 * time.Millisecond

// watchSignals returns the context that TERM, INT and HUP end, those of them
// that were not ignored when the program started; a second signal then has
// its default action. It also catches SIGPIPE, so that writing to a vanished
// reader of stdout is an error and not the end, and answers SIGUSR1.
func (app *App) watchSignals() context.Context {
	ctx, cancel := context.WithCancelCause(app.life)
	ends := make(chan os.Signal, 4)
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(ends, s)
		}
	}
	signal.Notify(app.usr1, syscall.SIGUSR1) // answered once flags are parsed
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	go func() {
		select {
		case first := <-ends:
			cancel(&Stopped{first})
			awaitEcho(ends, first)
		case <-ctx.Done():
		}
	}()
	return ctx
}

// answerUSR1 prints the status at each SIGUSR1 until Run returns.
func (app *App) answerUSR1() {
	for {
		select {
		case <-app.usr1:
			app.printStatus()
		case <-app.life.Done():
			return
		}
	}
}

// awaitEcho passes over echoes of first and restores the default actions. A
// signal of another kind that came meanwhile takes its default action now.
func awaitEcho(ends chan os.Signal, first os.Signal) {
	timer := time.NewTimer(echo)
	defer timer.Stop()
	for waiting := true; waiting; {
		select {
		case s := <-ends:
			if s != first {
				signal.Stop(ends)
				raise(s)
			}
		case <-timer.C:
			waiting = false
		}
	}
	signal.Stop(ends)
	select {
	case s := <-ends: // between the timer and Stop
		raise(s)
	default:
	}
}

func raise(s os.Signal) {
	signal.Reset(s)
	syscall.Kill(os.Getpid(), s.(syscall.Signal))
}

// ErrGraceOver is the cause of a context of Drain whose time is over.
var ErrGraceOver = sysexits.Wrap(sysexits.TempFail, errors.New("the time of --grace is over with work left undone"))

// Drain returns a context for work that goes on after ctx has been cancelled
// by a signal, for at most grace; its cause is then ErrGraceOver. Once
// WatchStdout has seen the reader of standard output go, the work ends at once.
func (app *App) Drain(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(app.gone, func() { cancel(fdio.ErrReaderGone) })
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(grace, func() { cancel(ErrGraceOver) })
		context.AfterFunc(work, func() { timer.Stop() })
	})
	return work, func() { unwatch(); stop(); cancel(nil) }
}

// mercy is what a program has for its end when the reader of its output has
// gone: the whole is to take less than a second.
const mercy = 700 * time.Millisecond

// WatchStdout returns a context that is also cancelled, with the cause
// fdio.ErrReaderGone, when the reader of standard output has gone, even while
// nothing is being written and while the program drains. A program that has not
// ended shortly after is ended: as any kill, this may happen at any moment.
func (app *App) WatchStdout(ctx context.Context) context.Context {
	watched, cancel := context.WithCancelCause(ctx)
	gone := fdio.ReaderGone(app.life, app.Stdout)
	go func() {
		select {
		case <-gone:
		case <-app.life.Done():
			cancel(nil)
			return
		}
		app.setGone()
		cancel(fdio.ErrReaderGone)
		select {
		case <-time.After(mercy):
			os.Exit(int(app.finish(fdio.ErrReaderGone, nil)))
		case <-app.life.Done():
		}
	}()
	return watched
}

// checkStdout finds a standard output that was closed at the start. Go's
// runtime has then opened /dev/null for reading and writing in its place; a
// shell's >/dev/null is for writing only. When another standard stream is the
// same open file, somebody put it there on purpose, as daemon(3) does. One
// that somebody put there alone looks like the runtime's in all that the
// kernel tells, so this is for commands whose stream would be lost; it spares
// those that are run for their status or their work.
func (app *App) checkStdout() error {
	fd := int(app.Stdout.Fd())
	var out, null unix.Stat_t
	mode, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return errClosed
	}
	if unix.Fstat(fd, &out) != nil || unix.Stat(os.DevNull, &null) != nil {
		return nil
	}
	if out.Mode&unix.S_IFMT != unix.S_IFCHR || out.Rdev != null.Rdev || mode&unix.O_ACCMODE != unix.O_RDWR {
		return nil
	}
	if sameOpenFile(fd, 0) || sameOpenFile(fd, 2) {
		return nil
	}
	return errClosed
}

var errClosed = sysexits.WithHint(sysexits.Wrap(sysexits.IOErr, errors.New("standard output is closed")),
	"if nobody is to read it, let a shell say >/dev/null, or open that for writing only: "+
		"for reading and writing, as Python's DEVNULL and Node's 'ignore' are, it cannot be told from a closed one")

// sameOpenFile asks kcmp(2); where that is not allowed the answer is no.
func sameOpenFile(a, b int) bool {
	pid := uintptr(os.Getpid())
	const kcmpFile = 0
	r, _, errno := unix.Syscall6(unix.SYS_KCMP, pid, pid, kcmpFile, uintptr(a), uintptr(b), 0)
	return errno == 0 && r == 0
}

// snapshot is what SIGUSR1 prints and /statusz serves.
type snapshot struct {
	Program  string    `json:"program"`
	Version  string    `json:"version"`
	RunID    string    `json:"run_id"`
	Instance string    `json:"instance,omitempty"`
	Start    time.Time `json:"start"`
	At       time.Time `json:"at"`
	Ready    bool      `json:"ready"`
	NotReady string    `json:"not_ready,omitempty"` // why
	Status   any       `json:"status,omitempty"`
}

func (app *App) snapshot() ([]byte, error) {
	app.mu.Lock()
	status := app.status
	app.mu.Unlock()
	s := snapshot{
		Program: app.Name, Version: version(), RunID: app.RunID(), Instance: app.Instance,
		Start: app.start.UTC(), At: time.Now().UTC(), NotReady: app.notReady(),
	}
	s.Ready = s.NotReady == ""
	if status != nil {
		s.Status = status()
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("status snapshot: %w", err)
	}
	return []byte(app.Secrets.HideLong(string(b)) + "\n"), nil
}

func (app *App) printStatus() {
	b, err := app.snapshot()
	if err != nil {
		app.Log.Error(err.Error())
		return
	}
	app.term.Write(b)
}
