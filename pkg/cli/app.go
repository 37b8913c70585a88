package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/fdio"
	"sf2loki/pkg/secret"
	"sf2loki/pkg/sysexits"
)

// App is what one run of a program shares with its commands. newRoot gets it
// before anything is parsed; Log, Instance and the values of flags are ready
// when Exec is called.
type App struct {
	Name                  string
	Stdin, Stdout, Stderr *os.File
	LookupEnv             func(string) (string, bool)

	Log      *slog.Logger // stderr, by --log-format and --log-level; bears program and run_id
	Instance string       // --instance; by default the host's name, with "-LANE" after it when there is a --lane
	Metrics  *Metrics
	Secrets  *secret.Set // no message shows them, nor what the program tells of itself

	start    time.Time
	runID    atomic.Pointer[string]
	common   common
	term     *terminal
	level    level // which of flags, environment, configuration is being parsed
	secrets  []*SecretFlag
	runLines map[*ffcli.Command]func(status *int) error
	dash     int // operands before "--"; -1 when there was none

	life    context.Context // until Run returns
	end     context.CancelFunc
	gone    context.Context // until WatchStdout sees the reader go
	setGone context.CancelFunc
	usr1    chan os.Signal

	mu     sync.Mutex
	status func() any
	ready  func() error
	names  ReportRow // of the numbers that every account has
	report func() []ReportRow

	finished sync.Once
	code     sysexits.Code
}

// NewApp returns the App of the program name, on the process's own streams and
// environment. Only tests need it: Main calls it by itself.
func NewApp(name string) *App {
	app := &App{
		Name:  name,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		LookupEnv: os.LookupEnv,
		start:     time.Now(),
		runLines:  map[*ffcli.Command]func(*int) error{},
		dash:      -1,
		usr1:      make(chan os.Signal, 1),
		Secrets:   &secret.Set{},
	}
	app.life, app.end = context.WithCancel(context.Background())
	app.gone, app.setGone = context.WithCancel(context.Background())
	app.SetRunID(newRunID(app.start))
	app.term = &terminal{w: app.Stderr, secrets: app.Secrets}
	app.Log = app.newLogger()
	app.Metrics = newMetrics(name)
	return app
}

// Main runs the program name with the arguments, environment and streams of
// the process, and exits. It is all that a main function calls.
func Main(name string, newRoot func(app *App) *ffcli.Command) {
	app := NewApp(name)
	log.SetFlags(0)
	log.SetOutput(strayLog{app})
	os.Exit(int(app.Run(os.Args[1:], newRoot)))
}

// Run is Main without the exit: it returns the status.
func (app *App) Run(args []string, newRoot func(app *App) *ffcli.Command) sysexits.Code {
	defer app.end()
	ctx := app.watchSignals() // first: a signal before that kills without a word
	root := newRoot(app)
	app.addCompletion(root)
	inv, err := pick(root, args)
	if inv.version {
		return app.finish(app.printVersion(), nil)
	}
	if inv.help {
		return app.finish(app.printHelp(inv), nil)
	}
	chosen := inv.cmd
	if chosen == nil {
		chosen = root
	}
	runLine := app.runLines[chosen]
	if runLine != nil {
		if err := app.checkStdout(); err != nil {
			return app.finish(err, nil)
		}
		if err := runLine(nil); err != nil {
			return app.finish(err, nil)
		}
	}
	if err == nil {
		err = app.exec(ctx, root, inv)
	}
	return app.finish(err, runLine)
}

// exec runs the chosen command.
func (app *App) exec(ctx context.Context, root *ffcli.Command, inv invocation) error {
	if err := app.parse(root, inv); err != nil {
		return err
	}
	if err := app.setInstance(); err != nil {
		return err
	}
	app.warnUnknownEnv(root)
	stop, err := app.startMetrics()
	if err != nil {
		return err
	}
	defer stop()
	go app.answerUSR1()
	err = inv.cmd.Exec(ctx, inv.operands)
	if err != nil && !sysexits.Coded(err) && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return sysexits.Wrap(sysexits.TempFail, fmt.Errorf("%w: work was left undone", context.Cause(ctx)))
	}
	return err
}

// finish says once how the run ended: the account, the report, the metrics
// file, the last run line, one line on stderr. It returns the exit status.
func (app *App) finish(err error, runLine func(status *int) error) sysexits.Code {
	app.finished.Do(func() {
		rows := app.rows()
		app.logAccount(rows)
		code, quiet := app.judge(err)
		if bug := imbalance(rows); bug != nil {
			if err != nil && !quiet {
				app.Log.Error(oneLine(err.Error()))
			}
			err, code, quiet = bug, sysexits.Software, false
		}
		if werr := app.writeEnd(code); werr != nil && err == nil {
			err, code = werr, sysexits.IOErr
		} else if werr != nil {
			app.Log.Error(oneLine(werr.Error()))
		}
		if runLine != nil {
			status := int(code)
			if werr := runLine(&status); werr != nil && err == nil {
				err = werr
				code, quiet = app.judge(err)
				err = errors.Join(err, app.writeEnd(code)) // the files told another status
			}
		}
		if err != nil && !quiet {
			app.printError(err, code)
		}
		app.code = code
	})
	return app.code
}

// writeEnd writes the files that tell how the run ended.
func (app *App) writeEnd(code sysexits.Code) error {
	return errors.Join(app.writeReport(code), app.Metrics.writeLast(code))
}

// judge tells the exit status of err and whether there is nothing to say.
func (app *App) judge(err error) (code sysexits.Code, quiet bool) {
	if app.gone.Err() != nil || errors.Is(err, fdio.ErrReaderGone) {
		return sysexits.IOErr, true
	}
	var path *fs.PathError
	if errors.As(err, &path) && path.Path == app.Stdout.Name() {
		return sysexits.IOErr, errors.Is(err, syscall.EPIPE)
	}
	return sysexits.Of(err), false
}

// printError prints err on one line, and what may help on another.
func (app *App) printError(err error, code sysexits.Code) {
	text := oneLine(err.Error())
	hint := sysexits.Hint(err)
	if app.common.logFormat == "json" {
		args := []any{slog.Int("status", int(code))}
		if hint != "" {
			args = append(args, slog.String("hint", hint))
		}
		app.Log.Error(text, args...)
		return
	}
	out := fmt.Sprintf("%s: %s\n", app.Name, text)
	if hint != "" {
		out += fmt.Sprintf("%s: hint: %s\n", app.Name, oneLine(hint))
	}
	app.term.Write([]byte(out))
}

// oneLine keeps what a server or a file may have put into a message from
// making lines of its own, and from driving the terminal.
func oneLine(s string) string {
	s = strings.ReplaceAll(strings.TrimSpace(s), "\n", "; ")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
}

// RunID is the run's id: its own, until SetRunID adopts that of the pipe's
// first stage.
func (app *App) RunID() string { return *app.runID.Load() }

// SetRunID makes id the run's id in logs, report and status from here on.
func (app *App) SetRunID(id string) { app.runID.Store(&id) }

// OnUSR1 sets what a status snapshot shows: SIGUSR1 prints it on stderr as one
// line of JSON, /statusz serves it. fn may be called at any time, from any
// goroutine.
func (app *App) OnUSR1(fn func() any) {
	app.mu.Lock()
	defer app.mu.Unlock()
	app.status = fn
}

// OnReady sets what /readyz asks: an error is a 503 with its text. Without it
// a program is ready once its Exec runs.
func (app *App) OnReady(fn func() error) {
	app.mu.Lock()
	defer app.mu.Unlock()
	app.ready = fn
}

// OnRun has fn called as the first and the last thing of a run of cmd, before
// flags are parsed (status nil) and with the exit status: there sf-pull,
// loki-push and dl-replay cat write their run lines. Help and version are no
// runs. The root's is called when the arguments name no command. Such a command
// does not begin without a standard output, as its stream would be lost.
func (app *App) OnRun(cmd *ffcli.Command, fn func(status *int) error) { app.runLines[cmd] = fn }

// SplitDash splits the operands that Exec got at the "--" of the command line,
// for commands that start another: `lease LEASE -- CMD`. found is false, and
// all operands are before it, when there was none.
func (app *App) SplitDash(args []string) (before, after []string, found bool) {
	if app.dash < 0 || app.dash > len(args) {
		return args, nil, false
	}
	return args[:app.dash], args[app.dash:], true
}

// FlagSet returns a new flag set with the flags that all commands share:
// config, log-format, log-level, instance, report, metrics-listen and
// metrics-file. `grace` is not among them: a command that drains declares it
// with its own default.
func (app *App) FlagSet(name string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	app.common.register(fs)
	return fs
}

// Prefix is what the names of the program's environment variables begin with:
// LOKI_PUSH for loki-push.
func (app *App) Prefix() string {
	return strings.ToUpper(strings.ReplaceAll(app.Name, "-", "_"))
}

func (app *App) setInstance() error {
	name := app.common.instance
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return sysexits.Wrap(sysexits.Config, fmt.Errorf("find the host's name for --instance: %w", err))
		}
		name = host
		if app.common.lane != "" {
			name += "-" + app.common.lane
		}
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r <= ' ' || r == 0x7f }) || strings.HasPrefix(name, ".") {
		return sysexits.Errorf(sysexits.Usage, "instance %q: it becomes part of file names: no slash, space or leading dot", name)
	}
	app.Instance = name
	app.Metrics.setInstance(name)
	return nil
}
