package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sf2loki/pkg/lease"
	"sf2loki/pkg/sysexits"
)

// job is a command that goes on until a signal ends it.
type job struct {
	mu       sync.Mutex
	signals  []syscall.Signal
	stubborn bool // only SIGKILL ends it
	status   int  // once it has ended
	gone     chan struct{}
	exited   chan struct{} // before gone, if somebody is left behind
}

func (j *job) Exited() <-chan struct{} {
	if j.exited != nil {
		return j.exited
	}
	return j.gone
}

func (j *job) Gone() <-chan struct{} { return j.gone }

func (j *job) Status() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.status
}

func (j *job) Signal(s syscall.Signal) {
	j.mu.Lock()
	j.signals = append(j.signals, s)
	j.mu.Unlock()
	if s == syscall.SIGKILL {
		j.end(137)
	} else if !j.stubborn {
		j.end(0)
	}
}

func (j *job) end(status int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case <-j.gone:
	default:
		j.status = status
		close(j.gone)
	}
}

// shift runs jobs while it leads.
type shift struct {
	runner *lease.Runner
	began  chan *job
	epochs []uint64
}

func newShift(p place, stubborn bool) *shift {
	s := &shift{began: make(chan *job, 1)}
	s.runner = &lease.Runner{
		Elector: p.contend("a"), Wait: -1, Grace: time.Minute, Log: slog.New(slog.DiscardHandler),
		Stop: func() syscall.Signal { return syscall.SIGINT }, OnState: func(bool, uint64) {},
		Start: func(epoch uint64) (lease.Process, error) {
			s.epochs = append(s.epochs, epoch)
			j := &job{gone: make(chan struct{}), stubborn: stubborn}
			s.began <- j
			return j, nil
		},
	}
	return s
}

// #92, #97: who loses the lease ends its command, be it with 0, stands by, and
// starts another one under a higher epoch when it leads again.
func TestLostAndLedAgain(t *testing.T) {
	for name, stubborn := range map[string]bool{"drains": false, "has to be killed": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlace()
				s := newShift(p, stubborn)
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				status := -1
				go func() {
					var err error
					status, err = s.runner.Run(ctx)
					ended <- err
				}()
				const times = 20
				want := []syscall.Signal{syscall.SIGTERM}
				if stubborn {
					want = append(want, syscall.SIGKILL)
				}
				for i := range times {
					var j *job
					select {
					case j = <-s.began:
					case err := <-ended:
						t.Fatalf("ended with %d, %v after %d times", status, err, i)
					}
					p.lease.Remove()
					<-j.gone
					if !slices.Equal(j.signals, want) {
						t.Fatalf("time %d: signals %v", i, j.signals)
					}
				}
				last := <-s.began
				stop()
				synctest.Wait()
				last.end(0)
				if err := <-ended; err != nil {
					t.Errorf("the end: %v", err)
				}
				if status != 0 || !slices.Equal(last.signals, []syscall.Signal{syscall.SIGINT}) {
					t.Errorf("status %d, signals %v", status, last.signals)
				}
				if len(s.epochs) != times+1 || !slices.IsSorted(s.epochs) || len(slices.Compact(slices.Clone(s.epochs))) != times+1 {
					t.Errorf("epochs %v", s.epochs)
				}
			})
		})
	}
}

// #97, #114: a command that ends by itself hands its status on, that of one
// which was fenced included, and gives the lease back at once.
func TestStatusOfTheCommand(t *testing.T) {
	for _, status := range []int{0, 3, 76} {
		synctest.Test(t, func(t *testing.T) {
			p := newPlace()
			s := newShift(p, false)
			go func() { (<-s.began).end(status) }()
			got, err := s.runner.Run(t.Context())
			if err != nil || got != status {
				t.Errorf("%d, %v; want %d", got, err, status)
			}
			within(t, 0, 0, func() { must(t, p.lead(t, "b").End(t.Context())) })
		})
	}
}

// What a command leaves behind in its group has the grace to end, and no more.
func TestLeftBehindIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace()
		s := newShift(p, true)
		s.runner.Start = func(uint64) (lease.Process, error) {
			j := &job{gone: make(chan struct{}), exited: make(chan struct{}), stubborn: true}
			close(j.exited)
			s.began <- j
			return j, nil
		}
		within(t, time.Minute, time.Minute, func() {
			_, err := s.runner.Run(t.Context())
			must(t, err)
		})
		if j := <-s.began; !slices.Equal(j.signals, []syscall.Signal{syscall.SIGKILL}) {
			t.Errorf("signals %v", j.signals)
		}
	})
}

// A command that cannot be started ends the run, and somebody else can lead at
// once; whoever watches is told of both.
func TestStartFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace()
		s := newShift(p, false)
		var states []bool
		s.runner.OnState = func(leading bool, _ uint64) { states = append(states, leading) }
		failure := errors.New("no such command")
		s.runner.Start = func(uint64) (lease.Process, error) { return nil, failure }
		if _, err := s.runner.Run(t.Context()); !errors.Is(err, failure) {
			t.Errorf("the end: %v", err)
		}
		if !slices.Equal(states, []bool{true, false}) {
			t.Errorf("states %v", states)
		}
		within(t, 0, 0, func() { must(t, p.lead(t, "b").End(t.Context())) })
	})
}

// A standby that is stopped has done what it should; one that waits in vain has not.
func TestStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace()
		leader := p.lead(t, "b")
		s := newShift(p, false)
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, stop)
		within(t, time.Hour, time.Hour, func() {
			if status, err := s.runner.Run(ctx); status != 0 || err != nil {
				t.Errorf("stopped: %d, %v", status, err)
			}
		})
		s.runner.Wait = time.Minute
		var held *lease.HeldError
		if _, err := s.runner.Run(t.Context()); !errors.As(err, &held) || !strings.Contains(err.Error(), "held by b") || sysexits.Of(err) != sysexits.TempFail {
			t.Errorf("waited in vain: %v", err)
		}
		if len(s.epochs) != 0 {
			t.Errorf("it led %v", s.epochs)
		}
		must(t, leader.End(t.Context()))
	})
}

// A command goes on while its lease cannot be given back: it has ended already.
func TestReleaseFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace()
		var b broken
		p.lease.Fault = b.ask
		s := newShift(p, false)
		go func() {
			j := <-s.began
			b.set(down)
			j.end(0)
		}()
		if status, err := s.runner.Run(t.Context()); status != 0 || err != nil {
			t.Errorf("%d, %v", status, err)
		}
		b.set(nil)
		within(t, ttl-renew, ttl+2*time.Second, func() { must(t, p.lead(t, "b").End(t.Context())) })
	})
}
