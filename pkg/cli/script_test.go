package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"
	"github.com/rogpeppe/go-internal/testscript"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/sysexits"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"fake-tool": func() { cli.Main("fake-tool", newFake) },
		"freeport":  freeport,
	})
}

func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", RequireExplicitExec: true, Setup: func(env *testscript.Env) error {
		env.Setenv("HOSTNAME_IS", hostname())
		return nil
	}})
}

func hostname() string {
	h, err := os.Hostname()
	if err != nil {
		panic(err)
	}
	return h
}

// freeport prints an address that nobody listens at.
func freeport() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(ln.Addr())
	ln.Close()
}

// newFake is a program with a bit of everything.
func newFake(app *cli.App) *ffcli.Command {
	show := showCommand(app)
	app.OnRun(show, func(status *int) error {
		mode, ok := app.LookupEnv("RUN_LINES")
		if !ok {
			return nil
		}
		if mode == "broken" && status != nil {
			return sysexits.Errorf(sysexits.IOErr, "end the run: broken")
		}
		line := "begin\n"
		if status != nil {
			line = fmt.Sprintf("end %d\n", *status)
		}
		_, err := io.WriteString(app.Stdout, line)
		return err
	})
	root := &ffcli.Command{
		Name: "fake-tool", ShortUsage: "fake-tool SUBCOMMAND", ShortHelp: "do this and that",
		Subcommands: []*ffcli.Command{show, failCommand(app), idleCommand(app), countCommand(app), wrapCommand(app), yesCommand(app)},
	}
	app.OnRun(root, func(status *int) error {
		if _, ok := app.LookupEnv("RUN_LINES"); !ok {
			return nil
		}
		line := "root begin\n"
		if status != nil {
			line = fmt.Sprintf("root end %d\n", *status)
		}
		_, err := io.WriteString(app.Stdout, line)
		return err
	})
	return root
}

// showCommand prints the values of its flags and its operands.
func showCommand(app *cli.App) *ffcli.Command {
	fs := app.FlagSet("show")
	url := fs.String("url", "none", "a `URL`")
	dry := fs.Bool("dry-run", false, "do nothing")
	fs.String("lane", "", "a `LANE`")
	n := fs.Int("n", 0, "a number")
	var list, repeat []string
	var wait time.Duration
	var size int64
	var since time.Time
	cli.ListVar(fs, &list, "list", "items")
	cli.RepeatVar(fs, &repeat, "label", "labels")
	cli.DurationVar(fs, &wait, "wait", 5*time.Minute, "a `TIME`")
	cli.SizeVar(fs, &size, "size", 1<<20, "a `SIZE`")
	cli.TimeVar(fs, &since, "since", "a `TIME`")
	token := cli.Secret(app, fs, "token", "a token")
	return &ffcli.Command{Name: "show", ShortHelp: "show the flags", FlagSet: fs, Exec: func(_ context.Context, args []string) error {
		secret, err := token.Value()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(app.Stdout, "url=%s dry=%t n=%d list=%v label=%v wait=%v size=%d since=%s secret=%q set=%t instance=%s args=%q\n",
			*url, *dry, *n, list, repeat, wait, size, since.Format(time.RFC3339), secret, token.Set(), app.Instance, args)
		return err
	}}
}

// failCommand fails in the way that its operand names.
func failCommand(app *cli.App) *ffcli.Command {
	fs := app.FlagSet("fail")
	return &ffcli.Command{Name: "fail", ShortHelp: "fail", FlagSet: fs, Exec: func(ctx context.Context, args []string) error {
		switch strings.Join(args, " ") {
		case "plain":
			return errors.New("read schema: 404 Not Found\nand more")
		case "hint":
			err := sysexits.WithHint(sysexits.Errorf(sysexits.NoPerm, "log in: 401"), "grant the permission")
			return fmt.Errorf("start: %w", err)
		case "levels":
			app.Log.Debug("at debug")
			app.Log.Info("at info")
			app.Log.Warn("at warn")
			app.SetRunID("run-of-the-pipe")
			app.Log.Error("at error", "n", 1)
			return nil
		case "full":
			for {
				if _, err := app.Stdout.WriteString("x\n"); err != nil {
					return err
				}
			}
		}
		return cli.NoOperands(args)
	}}
}

// idleCommand says that it is ready and waits for its end. With --drain it
// then goes on until its input ends.
func idleCommand(app *cli.App) *ffcli.Command {
	fs := app.FlagSet("idle")
	var grace time.Duration
	cli.DurationVar(fs, &grace, "grace", time.Minute, "drain for `TIME`")
	drain := fs.Bool("drain", false, "drain")
	raw := fs.Bool("raw", false, "return the context's error")
	stubborn := fs.Bool("stubborn", false, "do not mind the context")
	return &ffcli.Command{Name: "idle", ShortHelp: "wait", FlagSet: fs, Exec: func(ctx context.Context, _ []string) error {
		ctx = app.WatchStdout(ctx)
		app.OnUSR1(func() any { return map[string]int{"waiting": 1} })
		app.Report(func() []cli.ReportRow { return []cli.ReportRow{{Source: "s", EventType: "T"}} })
		app.Stderr.WriteString("ready\n")
		if *stubborn {
			select {}
		}
		if *drain {
			work, cancel := app.Drain(ctx, grace)
			defer cancel()
			<-ctx.Done()
			app.Stderr.WriteString("draining\n")
			<-work.Done()
			return context.Cause(work)
		}
		<-ctx.Done()
		if *raw {
			return ctx.Err()
		}
		return nil
	}}
}

// countCommand counts its operands, in all the ways that there are to show it.
func countCommand(app *cli.App) *ffcli.Command {
	fs := app.FlagSet("count")
	org := fs.String("org", "", "an org")
	get := fs.String("get", "", "print what this `PATH` serves")
	bad := fs.Bool("unbalanced", false, "lose one")
	twice := fs.Bool("twice", false, "settle one twice")
	lost := app.Metrics.Counter("entries_dropped_total", "Entries dropped.", "reason")
	lost.WithLabelValues("budget")
	words := app.Metrics.Counter("words_total", "Words.", "word")
	sizes := app.Metrics.Histogram("word_bytes", "Sizes.", []float64{1, 2, 4})
	app.Metrics.Gauge("pending", "Pending.")
	none := fs.Bool("none", false, "end before there is anything to count")
	return &ffcli.Command{Name: "count", ShortHelp: "count", FlagSet: fs, Exec: func(ctx context.Context, args []string) error {
		app.Metrics.SetOrg(*org)
		app.Metrics.Collect(func(s *cli.Samples) {
			s.Counter("looks_total", "Looks.", 1, "kind", "any")
			s.Gauge("operands", "Operands.", float64(len(args)))
		})
		if *none {
			app.Account(cli.ReportRow{Out: []cli.Count{{Name: "written"}, {Name: "filtered"}}})
			app.Report(func() []cli.ReportRow { return nil })
			return nil
		}
		n := int64(len(args))
		for _, a := range args {
			words.WithLabelValues(a).Inc()
			sizes.WithLabelValues().Observe(float64(len(a)))
		}
		written := n
		if *bad {
			written--
		}
		fates := []cli.Count{{Name: "written", N: written}, {Name: "filtered"}}
		if *twice {
			fates = []cli.Count{{Name: "written", N: n + 1}, {Name: "unsettled", N: -1, Now: true}}
		}
		app.Report(func() []cli.ReportRow {
			return []cli.ReportRow{
				{Source: "elf", EventType: "Login", In: cli.Count{Name: "read", N: n}, Out: fates, Info: []cli.Count{{Name: "bytes", N: 7}}},
				{Source: "elf", EventType: "API", In: cli.Count{Name: "read", N: 2}, Out: []cli.Count{{Name: "written", N: 1}, {Name: "dropped", N: 1, Loss: true}}},
			}
		})
		app.OnReady(func() error { return errors.New("no access token yet") })
		app.OnUSR1(func() any { return map[string]any{"operands": args} })
		if *get == "" {
			return nil
		}
		return printPage(app, *get)
	}}
}

// printPage asks the program's own metrics listener, whose address is in
// --metrics-listen.
func printPage(app *cli.App, path string) error {
	addr, _ := app.LookupEnv("FAKE_TOOL_METRICS_LISTEN")
	resp, err := http.Get("http://" + addr + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	fmt.Fprintln(app.Stdout, resp.StatusCode)
	_, err = io.Copy(app.Stdout, resp.Body)
	return err
}

func wrapCommand(app *cli.App) *ffcli.Command {
	fs := app.FlagSet("wrap")
	return &ffcli.Command{Name: "wrap", ShortHelp: "start another", FlagSet: fs, Exec: func(_ context.Context, args []string) error {
		before, after, found := app.SplitDash(args)
		_, err := fmt.Fprintf(app.Stdout, "%q %q %t\n", before, after, found)
		return err
	}}
}

// yesCommand writes through a buffer until it cannot.
func yesCommand(app *cli.App) *ffcli.Command {
	fs := app.FlagSet("yes")
	return &ffcli.Command{Name: "yes", ShortHelp: "write without end", FlagSet: fs, Exec: func(context.Context, []string) error {
		w := bufio.NewWriter(app.Stdout)
		enc := json.NewEncoder(w)
		for {
			if err := enc.Encode("y"); err != nil {
				return fmt.Errorf("write records: %w", err)
			}
		}
	}}
}
