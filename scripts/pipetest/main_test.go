// Package pipetest drives whole pipelines: real shells, the four programs as
// they are installed, a simulated org and a simulated Loki in the test's
// process, and VictoriaLogs as a store that is not of this project.
package pipetest

import (
	"os"
	"testing"
	"time"

	"sf2loki/scripts/testbed"
)

func TestMain(m *testing.M) { os.Exit(testbed.Main(m)) }

// bench is a directory to run scripts in.
type bench struct{ *testbed.Bed }

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{testbed.New(t)}
	b.Shell, b.Limit = "dash", time.Minute
	return b
}

// set adds variables to the environment of scripts.
func (b *bench) set(pairs ...string) *bench {
	b.Set(pairs...)
	return b
}

// running is a script that runs.
type running struct {
	*testbed.Running
	b *bench
}

func (b *bench) start(script string) *running {
	b.T.Helper()
	return &running{b.Start(script), b}
}
