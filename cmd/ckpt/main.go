// Command ckpt keeps the positions of pipelines: it turns acknowledgements
// into checkpoints, and shows and edits them. See ckpt(1).
package main

import "sf2loki/pkg/cli"

func main() { cli.Main("ckpt", newRoot) }
