package cli_test

import (
	"bufio"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/sysexits"
)

// A whole program: it copies lines, counts them, and drains after a signal.
func Example() {
	// In a real program: func main() { cli.Main("copy-lines", newRoot) }
	newRoot := func(app *cli.App) *ffcli.Command {
		fs := app.FlagSet("copy-lines")
		var grace time.Duration
		cli.DurationVar(fs, &grace, "grace", 25*time.Second, "after a signal go on for at most `TIME`")
		token := cli.Secret(app, fs, "token", "bearer token")

		exec := func(ctx context.Context, args []string) error {
			if err := cli.NoOperands(args); err != nil {
				return err
			}
			if _, err := token.Value(); err != nil { // afresh at each call
				return err
			}
			work, cancel := app.Drain(app.WatchStdout(ctx), grace)
			defer cancel()
			copied := app.Metrics.Counter("lines_copied_total", "Lines copied.").WithLabelValues()
			var lines atomic.Int64
			app.Report(func() []cli.ReportRow {
				n := lines.Load()
				return []cli.ReportRow{{
					Source: "stdin", In: cli.Count{Name: "read", N: n}, Out: []cli.Count{{Name: "written", N: n}},
				}}
			})
			in := bufio.NewScanner(app.Stdin)
			for in.Scan() && work.Err() == nil {
				if _, err := fmt.Fprintln(app.Stdout, in.Text()); err != nil {
					return err // EPIPE: 74, quietly
				}
				lines.Add(1)
				copied.Inc()
			}
			return sysexits.Wrap(sysexits.IOErr, in.Err())
		}
		return &ffcli.Command{
			Name: "copy-lines", ShortUsage: "copy-lines [flags] < lines", ShortHelp: "copy lines",
			FlagSet: fs, Exec: exec,
		}
	}
	fmt.Println(newRoot(cli.NewApp("copy-lines")).Name)
	// Output: copy-lines
}
