package main

import "sf2loki/pkg/cli"

// usualMemory is more than is in use as a rule, also while the largest answer
// is held that is taken.
const usualMemory = 128 << 20

// limitMemory keeps the garbage that large answers make from piling up. held is
// how much more is asked to be held.
func limitMemory(app *cli.App, held int64) {
	app.LimitMemory(usualMemory + 4*max(held, 0))
}
