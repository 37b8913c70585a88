package cli

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/peterbourgon/ff/v3"
	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/sysexits"
)

// level is where a value comes from.
type level int

const (
	fromDefault level = iota
	fromFlags
	fromEnv
	fromConfig
)

// common holds the flags that every command has.
type common struct {
	config        []string
	logFormat     string
	logLevel      string
	instance      string
	report        string
	metricsListen string
	metricsFile   string
	lane          string // not declared here: read back from a command that has --lane
}

func (c *common) register(fs *flag.FlagSet) {
	ListVar(fs, &c.config, "config", "read flags from `FILE`; of two files the later wins")
	EnumVar(fs, &c.logFormat, "log-format", "text", "`FORMAT` of messages on stderr", "text", "json")
	EnumVar(fs, &c.logLevel, "log-level", "info", "least `LEVEL` of messages", "debug", "info", "warn", "error")
	fs.StringVar(&c.instance, "instance", "", "`NAME` of this instance (default: the host's name, and the lane)")
	fs.StringVar(&c.report, "report", "", "write the account of the run to `FILE` at exit")
	fs.StringVar(&c.metricsListen, "metrics-listen", "", "serve /metrics, /healthz, /readyz and /statusz at `ADDR`")
	fs.StringVar(&c.metricsFile, "metrics-file", "", "write a node_exporter textfile to `PATH`")
}

// parse sets the flags of the chosen command: first those of the command line,
// then what is still free from the environment, then from the files, the last
// of them first.
func (app *App) parse(root *ffcli.Command, inv invocation) error {
	app.dash = inv.dash
	fs := inv.cmd.FlagSet
	if fs == nil {
		return nil
	}
	fs.SetOutput(io.Discard)
	defer func() { app.Log = app.newLogger() }()
	app.level = fromFlags
	if err := ff.Parse(fs, inv.flags); err != nil {
		return parseError(err)
	}
	app.level = fromEnv
	if err := ff.Parse(fs, nil, ff.WithEnvVarPrefix(app.Prefix())); err != nil {
		return parseError(err)
	}
	app.level = fromConfig
	for _, file := range slices.Backward(app.common.config) {
		if err := app.parseConfig(root, fs, file); err != nil {
			return err
		}
	}
	if f := fs.Lookup("lane"); f != nil {
		app.common.lane = f.Value.String()
	}
	return nil
}

// parseError takes ff's own words off and makes it a usage error.
func parseError(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	text := strings.TrimPrefix(err.Error(), "error setting ")
	text = strings.Replace(text, " for flag -", " for --", 1)
	return sysexits.Wrap(sysexits.Usage, errors.New(text))
}

// maxConfig is larger than any configuration file, in bytes.
const maxConfig = 8 << 20

func (app *App) parseConfig(root *ffcli.Command, fs *flag.FlagSet, file string) error {
	data, err := readFile(file, maxConfig)
	if err != nil {
		return sysexits.Wrap(sysexits.Config, fmt.Errorf("read configuration: %w", err))
	}
	parser := func(_ io.Reader, set func(name, value string) error) error {
		return parseLines(file, string(data), root, fs, set)
	}
	return ff.Parse(fs, nil, ff.WithConfigFile(file), ff.WithConfigFileParser(parser))
}

// parseLines reads the format that the package comment describes.
func parseLines(file, text string, root *ffcli.Command, fs *flag.FlagSet, set func(name, value string) error) error {
	sc := bufio.NewScanner(strings.NewReader(text))
	sc.Buffer(nil, 1<<20)
	for n := 1; sc.Scan(); n++ {
		name, value, err := parseLine(sc.Text())
		if err == nil && name != "" {
			err = setLine(root, fs, name, value, set)
		}
		if err != nil {
			return sysexits.Errorf(sysexits.Usage, "%s:%d: %w", file, n, err)
		}
	}
	if err := sc.Err(); err != nil {
		return sysexits.Errorf(sysexits.Usage, "%s: %w", file, err)
	}
	return nil
}

// setLine sets one name; value nil stands for a name alone.
func setLine(root *ffcli.Command, fs *flag.FlagSet, name string, value *string, set func(name, value string) error) error {
	f := fs.Lookup(name)
	switch {
	case name == "config":
		return errors.New("a configuration file cannot name another")
	case f == nil && lookup(root, name) == nil:
		return fmt.Errorf("unknown key %.80q", name)
	case f == nil:
		return nil // another subcommand's
	case value == nil && isBool(f):
		return set(name, "true")
	case value == nil:
		return fmt.Errorf("%s needs a value", name)
	}
	if err := set(name, *value); err != nil {
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// parseLine takes a line apart: no name for a blank line or a comment, a nil
// value for a name alone.
func parseLine(line string) (name string, value *string, err error) {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' {
		return "", nil, nil
	}
	end := strings.IndexAny(line, " \t=")
	if end < 0 {
		return line, nil, nil
	}
	name = line[:end]
	if name == "" {
		return "", nil, errors.New("a line begins with the name of a flag")
	}
	rest := strings.TrimSpace(line[end:])
	if after, ok := strings.CutPrefix(rest, "="); ok {
		rest = strings.TrimSpace(after)
	}
	if strings.HasPrefix(rest, `"`) {
		if rest, err = strconv.Unquote(rest); err != nil {
			return "", nil, fmt.Errorf("%.80q: the quoted value does not end, or something follows it", name)
		}
	}
	return name, &rest, nil
}

// warnUnknownEnv names the variables that look like the program's and are not,
// which a mistyped name does.
func (app *App) warnUnknownEnv(root *ffcli.Command) {
	for _, name := range app.findUnknownEnv(root, os.Environ()) {
		app.Log.Warn("unknown environment variable", "name", name)
	}
}

// envName is the environment variable of the flag name.
func (app *App) envName(name string) string {
	return app.Prefix() + "_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// findUnknownEnv looks for names of environ with the program's prefix that
// belong to no flag of any command.
func (app *App) findUnknownEnv(root *ffcli.Command, environ []string) []string {
	var known []string
	for _, s := range app.secrets {
		known = append(known, app.envName(s.name))
	}
	Walk(root, func(path []*ffcli.Command) {
		if fs := path[len(path)-1].FlagSet; fs != nil {
			fs.VisitAll(func(f *flag.Flag) { known = append(known, app.envName(f.Name)) })
		}
	})
	var unknown []string
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, app.Prefix()+"_") && !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}
