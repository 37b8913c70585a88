package tasktest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sf2loki/scripts/testbed"
)

var programs = []string{"sf-pull", "loki-push", "ckpt", "dl-replay"}

// helpFlag is a flag as --help has it.
type helpFlag struct {
	command, name, arg, text, value string
}

var (
	helpLine    = regexp.MustCompile(`(?m)^  --([a-z][a-z-]*)(?: (\S+))?  +(.*)$`)
	helpDefault = regexp.MustCompile(` \(([^()]*)\)$`)
	helpCommand = regexp.MustCompile(`(?m)^  ([a-z-]+)  +(\S.*)$`)
)

func help(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(filepath.Join(binDir(t), args[0]), append(args[1:], "--help")...).Output()
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return string(out)
}

// commands are all commands of the four programs, with the text that each has
// in the list of its program.
func commands(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, program := range programs {
		all[program] = ""
		_, list, _ := strings.Cut(help(t, program), "\nsubcommands:\n")
		list, _, _ = strings.Cut(list, "\n\n")
		for _, m := range helpCommand.FindAllStringSubmatch(list, -1) {
			all[program+" "+m[1]] = m[2]
		}
	}
	if len(all) < 25 {
		t.Fatalf("%d commands", len(all))
	}
	return all
}

func helpFlags(t *testing.T) []helpFlag {
	t.Helper()
	var all []helpFlag
	for command := range commands(t) {
		if strings.HasSuffix(command, "completion") {
			continue
		}
		_, text, _ := strings.Cut(help(t, strings.Fields(command)...), "\nflags:\n")
		for _, m := range helpLine.FindAllStringSubmatch(text, -1) {
			f := helpFlag{command: command, name: m[1], arg: m[2], text: m[3]}
			if d := helpDefault.FindStringSubmatch(f.text); d != nil {
				f.value = d[1]
			}
			all = append(all, f)
		}
	}
	if len(all) < 300 {
		t.Fatalf("%d flags", len(all))
	}
	return all
}

// differs has the flags that may differ between commands, and why.
var differs = map[string]string{
	"buffer-bytes": "what is held is not the same",
	"concurrency":  "files are larger than pages of rows",
	"event-type":   "list takes all, a pull has to be told",
	"grace":        "each stage has longer than the one before it",
	"id":           "of a contender, and of a letter",
	"interval":     "list shows both",
	"object":       "a pull may say more of an object",
	"overlap":      "debug logs appear later",
	"poll":         "files come by the hour, logs at any time",
	"settle":       "debug logs appear later",
	"wait":         "a standby waits for ever, an audit does not",
}

// A flag has one name for its value and one default everywhere.
func TestFlagsMeanOneThing(t *testing.T) {
	byName := map[string][]helpFlag{}
	for _, f := range helpFlags(t) {
		byName[f.name] = append(byName[f.name], f)
	}
	for name, all := range byName {
		differ := false
		for _, f := range all[1:] {
			if f.arg != all[0].arg || f.value != all[0].value {
				differ = true
				if differs[name] == "" {
					t.Errorf("--%s is %s (%s) for %s, and %s (%s) for %s", name, f.arg, f.value, f.command, all[0].arg, all[0].value, all[0].command)
				}
			}
		}
		if differs[name] != "" && !differ {
			t.Errorf("--%s does not differ", name)
		}
	}
}

// units are what the names of values say of them.
var units = map[string]*regexp.Regexp{
	"TIME": regexp.MustCompile(`^(?:0|forever|(?:\d+[smhd])+)$`),
	"AGE":  regexp.MustCompile(`^(?:0|(?:\d+[smhd])+)$`),
	"SIZE": regexp.MustCompile(`^(?:0|\d+(?:[KMG]iB|[kMG]B)?)$`),
	"N":    regexp.MustCompile(`^-?\d+$`),
}

// Help texts are written in one manner, and values have one unit each.
func TestFlagsAreWrittenAlike(t *testing.T) {
	for _, f := range helpFlags(t) {
		where := f.command + " --" + f.name
		switch {
		case f.arg == "VALUE" && !slices.Contains([]string{"job", "service-name"}, f.name):
			t.Errorf("%s: a value without a name", where)
		case f.arg != "" && !regexp.MustCompile(`^\[?[A-Z]`).MatchString(f.arg):
			t.Errorf("%s: the value %s is not in capitals", where, f.arg)
		case strings.HasSuffix(f.text, "."):
			t.Errorf("%s: a full stop: %s", where, f.text)
		case f.arg != "" && !strings.Contains(f.text, f.arg) && f.arg != "FILE" && f.arg != "VALUE":
			t.Errorf("%s: the text does not say what %s is: %s", where, f.arg, f.text)
		}
		if unit := units[f.arg]; unit != nil && f.value != "" && !strings.Contains(f.value, " for ") && !unit.MatchString(f.value) {
			t.Errorf("%s: %s is no %s", where, f.value, f.arg)
		}
		suffixes := map[string]string{"-bytes": "SIZE", "-per-second": "", "-retention": "TIME", "-file": "", "-fd": "N"}
		for suffix, arg := range suffixes {
			if arg != "" && strings.HasSuffix(f.name, suffix) && f.arg != arg && f.name != "max-label-name-bytes" && f.name != "max-label-value-bytes" {
				t.Errorf("%s takes %s, not %s", where, f.arg, arg)
			}
		}
	}
	for command, text := range commands(t) {
		if strings.Contains(command, " ") && (text == "" || strings.HasSuffix(text, ".") || text[0] >= 'A' && text[0] <= 'Z') {
			t.Errorf("%s: %q", command, text)
		}
	}
}

// Every program has these.
func TestCommonFlags(t *testing.T) {
	has := map[string]bool{}
	for _, f := range helpFlags(t) {
		has[f.command+" --"+f.name] = true
	}
	for command := range commands(t) {
		if strings.HasSuffix(command, "completion") || command == "sf-pull" {
			continue
		}
		for _, name := range []string{"config", "instance", "log-format", "log-level", "metrics-file", "metrics-listen", "report"} {
			if !has[command+" --"+name] {
				t.Errorf("%s has no --%s", command, name)
			}
		}
	}
	for _, command := range []string{
		"ckpt list", "ckpt doctor", "loki-push probe", "sf-pull doctor", "sf-pull check-plans",
		"dl-replay list", "dl-replay stats", "dl-replay show", "dl-replay run", "dl-replay prune", "dl-replay verify", "dl-replay requeue", "dl-replay discard", "dl-replay export",
	} {
		if !has[command+" --json"] {
			t.Errorf("%s prints a table, and has no --json", command)
		}
	}
}

// Completion knows all commands and flags, for each shell.
func TestCompletions(t *testing.T) {
	flags := helpFlags(t)
	for _, program := range programs {
		for _, shell := range []string{"bash", "zsh", "fish"} {
			out, err := exec.Command(filepath.Join(binDir(t), program), "completion", shell).Output()
			if err != nil {
				t.Fatalf("%s %s: %v", program, shell, err)
			}
			for _, f := range flags {
				if command, sub, _ := strings.Cut(f.command, " "); command == program &&
					(!strings.Contains(string(out), f.name) || !strings.Contains(string(out), sub)) {
					t.Errorf("%s's completion for %s has no %s --%s", program, shell, sub, f.name)
				}
			}
		}
	}
}

// A mistake on the command line is told in the same words by all.
func TestMistakesSoundAlike(t *testing.T) {
	for command := range commands(t) {
		program := strings.Fields(command)[0]
		cases := map[string]string{"--no-such-flag": program + ": unknown flag --no-such-flag\n" + program + ": hint: see " + command + " --help\n"}
		if command == program && program != "loki-push" {
			cases["nonsense"] = program + ": unknown subcommand \"nonsense\"\n" + program + ": hint: it may be "
		}
		for arg, want := range cases {
			if strings.HasSuffix(command, "completion") {
				continue
			}
			cmd := exec.Command(filepath.Join(binDir(t), program), append(strings.Fields(command)[1:], arg)...)
			cmd.Env = []string{"HOME=" + t.TempDir()}
			var said strings.Builder
			cmd.Stderr = &said
			err := cmd.Run()
			if cmd.ProcessState.ExitCode() != 64 || !strings.HasPrefix(said.String(), want) {
				t.Errorf("%s %s: %v: %s", command, arg, err, said.String())
			}
		}
	}
}

// logCall is a message with its keys, as the source has it.
type logCall struct {
	where, text string
	keys        []string
}

// logCalls are the messages of all programs.
func logCalls(t *testing.T) []logCall {
	t.Helper()
	var all []logCall
	set := token.NewFileSet()
	for _, dir := range []string{"cmd", "pkg"} {
		err := filepath.WalkDir(filepath.Join(testbed.Root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "test/") {
				return err
			}
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if c, ok := readLogCall(call); ok {
						c.where = fmt.Sprint(set.Position(call.Pos()))
						all = append(all, c)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(all) < 80 {
		t.Fatalf("%d messages", len(all))
	}
	return all
}

// readLogCall reads log.Warn("text", "key", value...) and the like.
func readLogCall(call *ast.CallExpr) (c logCall, ok bool) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, method.Sel.Name) || len(call.Args) == 0 {
		return c, false
	}
	receiver := strings.ToLower(name(method.X))
	if receiver != "log" && receiver != "logger" {
		return c, false
	}
	c.text, ok = text(call.Args[0])
	for i := 1; i < len(call.Args); i += 2 {
		if key, ok := text(call.Args[i]); ok {
			c.keys = append(c.keys, key)
		}
	}
	return c, ok
}

func name(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.Ident:
		return x.Name
	}
	return ""
}

func text(x ast.Expr) (string, bool) {
	lit, ok := x.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

// otherwise has words for keys that have another one already.
var otherwise = map[string]string{
	"error": "err", "cure": "hint", "filename": "file", "directory": "dir", "duration": "dur", "elapsed": "dur", "count": "what is counted",
	"checkpoint_key": "key", "eventType": "event_type", "type": "event_type", "organization": "org", "position": "from or after",
}

// Messages have one manner, and one thing has one key.
func TestLogKeys(t *testing.T) {
	for _, c := range logCalls(t) {
		first := c.text[:1]
		if first != strings.ToLower(first) && !strings.HasPrefix(c.text, "Salesforce") && !strings.HasPrefix(c.text, "Loki") {
			t.Errorf("%s: %q begins with a capital", c.where, c.text)
		}
		if strings.HasSuffix(c.text, ".") || strings.Contains(c.text, "failed to") {
			t.Errorf("%s: %q", c.where, c.text)
		}
		for _, key := range c.keys {
			if !regexp.MustCompile(`^[a-z][a-z_]*$`).MatchString(key) {
				t.Errorf("%s: the key %q", c.where, key)
			}
			if better := otherwise[key]; better != "" {
				t.Errorf("%s: the key %q is %s elsewhere", c.where, key, better)
			}
		}
	}
}

// Tables come from one printer.
func TestOneTable(t *testing.T) {
	err := filepath.WalkDir(testbed.Root+"/cmd", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), `"text/tabwriter"`) {
			t.Errorf("%s has a table of its own", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
