package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"
	"golang.org/x/sys/unix"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/cli"
	"sf2loki/pkg/lease"
	leasefile "sf2loki/pkg/lease/file"
	"sf2loki/pkg/lease/k8s"
	"sf2loki/pkg/sysexits"
)

const leaseUsage = "ckpt lease LEASE --fence STORE [flags] -- CMD [ARG...]"

type leader struct {
	app *cli.App

	fences []string
	ttl    time.Duration
	renew  time.Duration
	wait   time.Duration
	grace  time.Duration
	id     string
	parent int

	mu      sync.Mutex
	leading bool
	epoch   uint64
}

func newLease(app *cli.App) *ffcli.Command {
	l := &leader{app: app, wait: -1}
	fs := app.FlagSet("ckpt lease")
	cli.RepeatVar(fs, &l.fences, "fence", "raise the epoch of the document in `STORE` before CMD starts; may be given again")
	cli.DurationVar(fs, &l.ttl, "ttl", 45*time.Second, "the lease ends this `TIME` after its last renewal")
	cli.DurationVar(fs, &l.renew, "renew", 10*time.Second, "renew the lease once in this `TIME`")
	cli.DurationVar(fs, &l.grace, "grace", 40*time.Second, "kill what CMD leaves behind in its group after this `TIME`")
	fs.StringVar(&l.id, "id", "", "`NAME` of this contender (the host's name and the process id)")
	fs.IntVar(&l.parent, "parent", 0, "end as if told to when process `PID` is no longer our parent")
	fs.Func("wait", "longest `TIME` to wait for the lease, 0, or forever (forever)", func(text string) (err error) {
		if l.wait = -1; text != "forever" {
			l.wait, err = cli.ParseDuration(text)
		}
		return err
	})
	return &ffcli.Command{
		Name: "lease", ShortUsage: leaseUsage, ShortHelp: "run a command while we lead", FlagSet: fs,
		LongHelp: "CMD runs in a process group of its own, with CKPT_EPOCH in its environment.", Exec: l.exec,
	}
}

func (l *leader) exec(ctx context.Context, args []string) error {
	name, argv, err := l.operands(args)
	if err != nil {
		return err
	}
	backend, fences, err := l.open(name)
	if err != nil {
		return err
	}
	command := &lease.Command{Argv: argv, Env: inherited(os.Environ()), Terminal: l.foreground()}
	if _, err := command.Look(); err != nil {
		return err
	}
	l.observe()
	ctx, cancel := l.withParent(ctx)
	defer cancel()
	runner := &lease.Runner{
		Elector: lease.New(lease.Config{
			Backend: backend, Fences: fences, ID: l.id, TTL: l.ttl, Renew: l.renew, Log: l.app.Log,
			Check: func(ctx context.Context, document string, by checkpoint.Leader) error {
				return checkLive(ctx, l.app, document, by)
			},
		}),
		Start: func(epoch uint64) (lease.Process, error) { return start(command, epoch) },
		Stop:  func() syscall.Signal { return stopSignal(ctx) },
		Wait:  l.wait, Grace: l.grace, Log: l.app.Log, OnState: l.setState,
	}
	status, err := runner.Run(ctx)
	l.takeTerminal(command)
	if err == nil && status != 0 {
		err = sysexits.Errorf(sysexits.Code(status), "%s ended with status %d", argv[0], status)
	}
	return err
}

// operands are LEASE, and CMD after "--".
func (l *leader) operands(args []string) (name string, argv []string, err error) {
	before, argv, found := l.app.SplitDash(args)
	switch {
	case len(before) != 1:
		return "", nil, cli.Usagef("one LEASE has to be given; usage: %s", leaseUsage)
	case !found || len(argv) == 0 || argv[0] == "":
		return "", nil, cli.Usagef("no command was given after --; usage: %s", leaseUsage)
	case len(l.fences) == 0:
		return "", nil, sysexits.WithHint(cli.Usagef("no --fence: a leader that was asleep could write again"), "--fence STORE, the one that CMD commits to")
	case l.renew <= 0 || l.ttl < 3*l.renew:
		return "", nil, cli.Usagef("the ttl has to be three times --renew at least, and that more than nothing")
	case l.grace <= 0:
		return "", nil, cli.Usagef("--grace has to be more than nothing")
	}
	if l.id == "" {
		host, err := os.Hostname()
		if err != nil {
			return "", nil, sysexits.Wrap(sysexits.Config, fmt.Errorf("find the host's name for --id: %w", err))
		}
		l.id = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	if strings.ContainsAny(l.id, "\n\x00") {
		return "", nil, cli.Usagef("--id %q: not a name", l.id)
	}
	return before[0], argv, nil
}

func (l *leader) open(name string) (lease.Backend, []checkpoint.Store, error) {
	name, err := forGood(name)
	if err != nil {
		return nil, nil, err
	}
	// A new holder reads again what it wrote once those who wrote at the same
	// time have come through.
	backend, err := openLease(l.app, name, min(max(l.renew/20, 50*time.Millisecond), 500*time.Millisecond))
	if err != nil {
		return nil, nil, err
	}
	var fences []checkpoint.Store
	for _, text := range l.fences {
		store, err := openForGood(l.app, text)
		if err != nil {
			return nil, nil, err
		}
		if store.String() == backend.String() {
			return nil, nil, cli.Usagef("%s is the lease, it cannot be the document too", text)
		}
		fences = append(fences, store)
	}
	return backend, fences, nil
}

// withParent ends the context when --parent has ended: a standby that nobody
// looks after any more would be in the way of the next one on this host.
func (l *leader) withParent(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.parent == 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for os.Getppid() == l.parent {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
		l.app.Log.Warn("the parent process has ended", "pid", l.parent)
		cancel(&cli.Stopped{Signal: syscall.SIGTERM})
	}()
	return ctx, func() { cancel(nil) }
}

// openLease makes the lease that text names. Nothing is opened yet.
func openLease(app *cli.App, text string, pause time.Duration) (lease.Backend, error) {
	loc, err := checkpoint.ParseLocation(text)
	if err != nil {
		return nil, err
	}
	switch loc.Scheme {
	case "file":
		return leasefile.New(loc.String(), loc.Path, pause), nil
	case "k8s":
		return k8s.New(loc, app.Secrets)
	}
	store, err := openStore(app, text)
	if err != nil {
		return nil, err
	}
	return lease.Documents(store), nil
}

// inherited is the environment of CMD. What is ours alone stays with us: a
// ckpt commit inside would serve metrics at the same address, or write the
// same files.
func inherited(environ []string) []string {
	return slices.DeleteFunc(environ, func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return slices.Contains([]string{"CKPT_METRICS_LISTEN", "CKPT_METRICS_FILE", "CKPT_REPORT"}, name)
	})
}

func start(command *lease.Command, epoch uint64) (lease.Process, error) {
	group, err := command.Start(fmt.Sprintf("CKPT_EPOCH=%d", epoch))
	if err != nil {
		return nil, err // not a Process that is a nil Group
	}
	return group, nil
}

// stopSignal is the one that asked us to stop.
func stopSignal(ctx context.Context) syscall.Signal {
	var stopped *cli.Stopped
	if errors.As(context.Cause(ctx), &stopped) {
		if s, ok := stopped.Signal.(syscall.Signal); ok {
			return s
		}
	}
	return syscall.SIGTERM
}

// foreground reports whether standard input is the terminal in whose
// foreground we are: the command gets it, or could not read from it.
func (l *leader) foreground() bool {
	group, err := unix.IoctlGetInt(int(l.app.Stdin.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// takeTerminal takes it back for whoever started us.
func (l *leader) takeTerminal(command *lease.Command) {
	if command.Terminal {
		lease.Foreground(int(l.app.Stdin.Fd()))
	}
}

func (l *leader) setState(leading bool, epoch uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leading, l.epoch = leading, epoch
}

func (l *leader) state() (leading bool, epoch uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leading, l.epoch
}

// observe makes the state visible.
func (l *leader) observe() {
	l.app.Metrics.Collect(func(s *cli.Samples) {
		leading, epoch := l.state()
		value := 0.0
		if leading {
			value = 1
		}
		s.Gauge("leader", "1 while this contender leads.", value)
		s.Gauge("lease_epoch", "Epoch of the last time that this contender led.", float64(epoch))
	})
	l.app.OnReady(func() error {
		if leading, _ := l.state(); !leading {
			return errors.New("standby")
		}
		return nil
	})
	l.app.OnUSR1(func() any {
		leading, epoch := l.state()
		return map[string]any{"leading": leading, "epoch": epoch, "id": l.id}
	})
}
