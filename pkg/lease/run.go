package lease

import (
	"context"
	"errors"
	"log/slog"
	"syscall"
	"time"
)

// Process is what runs under a lease, as a Group is.
type Process interface {
	Exited() <-chan struct{}
	Gone() <-chan struct{}
	Status() int
	Signal(s syscall.Signal)
}

// Runner runs something while this contender leads.
type Runner struct {
	Elector *Elector
	Wait    time.Duration // for the lease; negative: for ever
	Start   func(epoch uint64) (Process, error)
	Stop    func() syscall.Signal // what to pass on when the context of Run is done
	Grace   time.Duration         // for those that the command leaves behind in its group
	Log     *slog.Logger
	OnState func(leading bool, epoch uint64) // called at each change
}

// Run contends, runs the command while it leads, and contends again when the
// lease was lost. It returns the status of a command that ended by itself, or
// because ctx was done; a standby that is stopped has 0.
func (r *Runner) Run(ctx context.Context) (status int, err error) {
	for {
		term, err := r.Elector.Acquire(ctx, r.Wait)
		if err != nil && ctx.Err() != nil {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		status, again, err := r.lead(ctx, term)
		if err != nil || !again {
			return status, err
		}
	}
}

// lead runs the command for one term.
func (r *Runner) lead(ctx context.Context, term *Term) (status int, again bool, err error) {
	r.OnState(true, term.Epoch())
	defer r.OnState(false, term.Epoch())
	r.Log.Info("leading", "epoch", term.Epoch())
	process, err := r.Start(term.Epoch())
	if err != nil {
		return 0, false, errors.Join(err, term.End(ctx))
	}
	doubted := r.watch(ctx, term, process)
	status = process.Status()
	ended := term.End(ctx)
	switch {
	case errors.Is(ended, ErrLost) && status != 0, doubted:
		again = ctx.Err() == nil
		r.Log.Warn("lost the lease", "epoch", term.Epoch(), "status", status)
	case ended != nil:
		r.Log.Warn("the lease stays ours until it ends", "err", ended.Error())
	default:
		r.Log.Info("released the lease", "epoch", term.Epoch(), "status", status)
	}
	return status, again, nil
}

// watch waits until everybody in the group has ended, and sees to it that this
// is while we lead.
func (r *Runner) watch(ctx context.Context, term *Term, p Process) (doubted bool) {
	stop, exited, doubt, over := ctx.Done(), p.Exited(), term.Doubt(), term.Over()
	var grace <-chan time.Time
	for {
		select {
		case <-p.Gone():
			return doubted
		case <-stop:
			stop = nil
			p.Signal(r.Stop())
		case <-exited:
			exited = nil
			grace = time.After(r.Grace)
		case <-grace:
			r.Log.Warn("killing what the command left behind", "after", r.Grace.String())
			p.Signal(syscall.SIGKILL)
		case <-doubt:
			doubt, doubted = nil, true
			r.Log.Error("ending the command: the lease is not ours for sure")
			p.Signal(syscall.SIGTERM)
		case <-over:
			over = nil
			p.Signal(syscall.SIGKILL)
		}
	}
}
