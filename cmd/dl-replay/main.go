// Command dl-replay shows the dead letters of a spool, and brings them back
// through the command that pushes. See dl-replay(1).
package main

import "sf2loki/pkg/cli"

func main() { cli.Main("dl-replay", newRoot) }
