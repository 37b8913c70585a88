package main

import (
	"flag"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"sf2loki/pkg/cli/clitest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ckpt": main, "ckpt-worker": worker})
}

var update = flag.Bool("update", false, "write what the scripts compare")

func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", RequireExplicitExec: true, UpdateScripts: *update})
}

func TestManual(t *testing.T) { clitest.Manual(t, "ckpt", newRoot) }
