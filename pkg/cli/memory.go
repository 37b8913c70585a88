package cli

import "runtime/debug"

// LimitMemory has garbage collected the more often the further memory is above
// n bytes. Who sets GOMEMLIMIT knows better.
func (a *App) LimitMemory(n int64) {
	if _, set := a.LookupEnv("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(n)
	}
}
