package main

import (
	"math"
	"runtime/debug"
	"testing"

	"sf2loki/pkg/cli"
)

func TestMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	env := map[string]string{}
	app := cli.NewApp("loki-push")
	app.LookupEnv = func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	for buffer, want := range map[int64]int64{24 << 20: 160 << 20, math.MaxInt64: math.MaxInt64/2 + 64<<20 - 3} {
		(&push{app: app, buffer: buffer}).limitMemory()
		if got := debug.SetMemoryLimit(-1); got != want {
			t.Errorf("--buffer-bytes %d: limit %d, want %d", buffer, got, want)
		}
	}
	env["GOMEMLIMIT"] = "off"
	debug.SetMemoryLimit(123 << 20)
	(&push{app: app, buffer: 1}).limitMemory()
	if got := debug.SetMemoryLimit(-1); got != 123<<20 {
		t.Errorf("GOMEMLIMIT is overruled: %d", got)
	}
}
