// Package cli is what the four programs share: commands and flags, environment
// and configuration files, secrets, logs, metrics, signals and the exit status.
// Only the packages under cmd import it. What users see of it stands in
// sf2loki-pipeline(7).
//
// A program is a tree of ffcli commands whose flag sets come from App.FlagSet:
//
//	func main() { cli.Main("loki-push", newRoot) }
//
//	func newRoot(app *cli.App) *ffcli.Command {
//		fs := app.FlagSet("loki-push")
//		url := fs.String("url", "", "Loki's `URL`")
//		token := cli.Secret(app, fs, "token", "bearer token")
//		return &ffcli.Command{
//			Name: "loki-push", ShortUsage: "loki-push --url URL [flags] < records > acks",
//			ShortHelp: "push records to Loki", FlagSet: fs,
//			Exec: func(ctx context.Context, args []string) error { ... },
//		}
//	}
//
// # Where values come from
//
// A flag on the command line beats the environment (LOKI_PUSH_URL), which beats
// the files of --config; of two files the later one wins. Within one level a
// repeatable flag collects, a higher level replaces. -flag and --flag may stand
// before, between and after operands and subcommands, up to "--". An empty
// environment variable counts as not set, except for a secret, where it is an
// error. A configuration file has one flag on a line, named without dashes:
//
//	# a comment is a line of its own
//	url = https://loki.example.org
//	batch-entries 500
//	label env=prod
//	label "quoted as in JSON: for leading spaces, or nothing at all"
//	dry-run
//
// The sign between name and value is white space or one "=". A name alone turns
// a boolean flag on. A name that no command of the program knows is an error;
// one that another of its commands has is passed over, so that one file serves
// all of them.
//
// # Errors
//
// Exec returns errors; cli prints `loki-push: text` once and exits with
// sysexits.Of(err). An error in the chain with a method Hint() string, or one
// made by sysexits.WithHint, adds a line `loki-push: hint: text`. EPIPE on standard
// output and fdio.ErrReaderGone are 74 without a word. A context.Canceled that
// nobody gave a code, after a signal, is 75: a command that stopped as asked
// returns nil.
package cli
