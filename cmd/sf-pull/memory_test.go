package main

import (
	"runtime/debug"
	"testing"

	"sf2loki/pkg/cli"
)

func TestLimitMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	env := map[string]string{}
	app := cli.NewApp("sf-pull")
	app.LookupEnv = func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	if limitMemory(app, 16<<20); debug.SetMemoryLimit(-1) != 192<<20 {
		t.Errorf("limit %d", debug.SetMemoryLimit(-1))
	}
	env["GOMEMLIMIT"] = "off"
	if limitMemory(app, 1<<20); debug.SetMemoryLimit(-1) != 192<<20 {
		t.Errorf("GOMEMLIMIT is overruled: %d", debug.SetMemoryLimit(-1))
	}
}
