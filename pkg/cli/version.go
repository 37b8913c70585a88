package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// release is set by the linker: -ldflags "-X sf2loki/pkg/cli.release=1.2.3".
var release string

// Version is the program's release, else what the build knows of itself.
func (app *App) Version() string { return version() }

// version is the release, else what the build knows of itself.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	rev, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			rev = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if rev == "" {
		return "devel"
	}
	return "devel-" + rev + dirty
}

func (app *App) printVersion() error {
	_, err := fmt.Fprintf(app.Stdout, "%s %s (%s %s/%s)\n", app.Name, version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
