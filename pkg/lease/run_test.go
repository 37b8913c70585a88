package lease_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sf2loki/pkg/lease"
)

// job is a command that goes on until a signal ends it.
type job struct {
	mu       sync.Mutex
	signals  []syscall.Signal
	stubborn bool // only SIGKILL ends it
	status   int  // once it has ended
	gone     chan struct{}
}

func (j *job) Exited() <-chan struct{} { return j.gone }
func (j *job) Gone() <-chan struct{}   { return j.gone }

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
