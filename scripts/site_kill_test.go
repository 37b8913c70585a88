package scripts_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"sf2loki/pkg/lokitest"
)

// Two orgs, four lanes, and any process killed at any time, those of the
// supervisor too. In each round one lane's Loki takes nothing until the others
// have stored what came meanwhile: no lane waits for another. In the end
// everything is stored. SUPERVISOR_KILLS and SUPERVISOR_SEED change how often
// and what.
func TestKillAnyProcess(t *testing.T) {
	kills, seed := number(t, "SUPERVISOR_KILLS", 3), number(t, "SUPERVISOR_SEED", 1)
	for i, shell := range []string{"dash", "bash", "busybox"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
			s := newSite(t, shell, lokitest.Config{})
			s.fourLanes("SF2LOKI_SECOND=0.1")
			v := s.serve()
			victims := map[string]int{}
			for round := range kills {
				held := s.lanes[rng.IntN(len(s.lanes))]
				s.loki.Script(func(_ int, r lokitest.Request) *lokitest.Answer {
					if r.Tenant == held.name {
						return &lokitest.Answer{Status: 503, Body: "held"}
					}
					return nil
				})
				for _, l := range s.lanes {
					l.make()
				}
				s.eventually("somebody to kill", func() bool { return len(s.processes()) > 1 })
				all := s.processes()
				victim := all[rng.IntN(len(all))]
				name := named(victim)
				if syscall.Kill(victim, syscall.SIGKILL) == nil {
					victims[name]++
				}
				for _, l := range s.lanes {
					if l != held {
						s.eventually(fmt.Sprintf("round %d: %s goes on after %s was killed", round, l.name, name), func() bool { return s.stored(l) })
					}
				}
				s.loki.Script(nil)
				s.eventually(fmt.Sprintf("round %d: %s returns after %s was killed", round, held.name, name), func() bool { return s.stored(held) })
			}
			v.stop()
			s.eventually("all processes end", func() bool { return len(s.processes()) == 0 })
			for _, l := range s.lanes {
				if !s.stored(l) {
					t.Errorf("%s: %d entries of %d", l.name, len(s.loki.Entries(l.name)), l.made.Load())
				}
			}
			t.Logf("seed %d: killed %v, the supervisor was started %d times", seed, victims, v.starts.Load())
		})
	}
}
