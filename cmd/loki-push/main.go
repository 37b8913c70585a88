// Loki-push turns records on standard input into entries in Loki and
// acknowledgements on standard output. Its manual is loki-push(1).
package main

import "sf2loki/pkg/cli"

func main() { cli.Main("loki-push", newRoot) }
