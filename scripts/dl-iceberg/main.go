// Command dl-iceberg appends dead letters to an Apache Iceberg table whose
// catalogue is an SQLite file. It is a program of its own, in its own module,
// because its libraries outweigh all the others together. See sf2loki-deadletter(5).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/spool"
	"sf2loki/pkg/sysexits"
)

func main() { cli.Main("dl-iceberg", newRoot) }

type command struct {
	app       *cli.App
	spools    []string
	catalog   string
	warehouse string
	table     string
	attempts  int
	json      bool
}

func newRoot(app *cli.App) *ffcli.Command {
	c := &command{app: app}
	fs := app.FlagSet("dl-iceberg")
	cli.ListVar(fs, &c.spools, "spool", "spool `DIR`; may be repeated")
	fs.StringVar(&c.catalog, "catalog", "", "SQLite `FILE` of the catalogue; made when it is not there")
	fs.StringVar(&c.warehouse, "warehouse", "", "`DIR` of the table's files; made when it is not there")
	fs.StringVar(&c.table, "table", "sf2loki.dead_letters", "`NAMESPACE.NAME` of the table")
	fs.IntVar(&c.attempts, "attempts", 20, "give up after `N` appends that another writer was faster than")
	fs.BoolVar(&c.json, "json", false, "print the result as a JSON object")
	return &ffcli.Command{
		Name: "dl-iceberg", ShortUsage: "dl-iceberg --spool DIR --catalog FILE --warehouse DIR [--table NAMESPACE.NAME]",
		ShortHelp: "append dead letters to an Iceberg table", FlagSet: fs, Exec: c.exec,
		LongHelp: "Files that did not change since they were appended are passed over, files that are in use are left for the next run.",
	}
}

func (c *command) check(args []string) (namespace, name string, err error) {
	namespace, name, ok := strings.Cut(c.table, ".")
	switch {
	case len(args) > 0:
		return "", "", cli.Usagef("operand %q: name spools with --spool", args[0])
	case len(c.spools) == 0:
		return "", "", cli.Usagef("name a directory with --spool")
	case c.catalog == "":
		return "", "", cli.Usagef("name the catalogue with --catalog")
	case c.warehouse == "":
		return "", "", cli.Usagef("name the directory of the table's files with --warehouse")
	case !ok || namespace == "" || name == "" || strings.Contains(name, "."):
		return "", "", cli.Usagef("--table %q: want NAMESPACE.NAME", c.table)
	case c.attempts < 1:
		return "", "", cli.Usagef("--attempts %d: want 1 at least", c.attempts)
	}
	return namespace, name, nil
}

// result is what a run did.
type result struct {
	Table    string `json:"table"`
	Files    int    `json:"files"`
	Records  int64  `json:"records"`
	InUse    int    `json:"files_in_use"`
	Snapshot int64  `json:"snapshot_id,string,omitempty"`
	Retries  int    `json:"retries"`
}

func (c *command) exec(ctx context.Context, args []string) error {
	namespace, name, err := c.check(args)
	if err != nil {
		return err
	}
	syscall.Umask(0o077) // what is in the table is as confidential as the spool
	warehouse, err := filepath.Abs(c.warehouse)
	if err != nil {
		return sysexits.Wrap(sysexits.Config, err)
	}
	set, err := spool.Find(c.spools, nil, c.app.Log)
	if err != nil {
		return err
	}
	defer set.Close()
	l, err := openLake(ctx, c.catalog, warehouse, namespace, name)
	if err != nil {
		return sysexits.Wrap(sysexits.CantCreat, err)
	}
	defer l.close()
	res := result{Table: c.table}
	for ; res.Retries < c.attempts; res.Retries++ {
		err = c.once(ctx, l, set, &res)
		if !errors.Is(err, errConflict) {
			break
		}
		c.app.Log.Info("another writer was faster", "table", c.table, "retries", res.Retries+1)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(l.pause(res.Retries)):
		}
	}
	if err != nil {
		return sysexits.Wrap(sysexits.TempFail, fmt.Errorf("append to %s: %w", c.table, err))
	}
	return c.print(&res)
}

// once appends what the table, as it is now, does not have yet, in one snapshot
// or not at all.
func (c *command) once(ctx context.Context, l *lake, set *spool.Set, res *result) error {
	have, err := l.states(ctx)
	if err != nil {
		return err
	}
	res.Files, res.Records, res.InUse = 0, 0, 0
	var todo []source
	for _, f := range set.Files {
		s, err := newSource(f)
		if err != nil {
			return err
		}
		if have[s.name] == s.state {
			continue
		}
		used, err := spool.InUse([]*spool.File{f})
		if err != nil {
			return err
		}
		if used {
			res.InUse++
			continue
		}
		todo = append(todo, s)
	}
	if len(todo) == 0 {
		return nil
	}
	rows := newRows(l.schema, todo, time.Now().UTC(), c.app.Log)
	defer rows.stop()
	res.Snapshot, err = l.append(ctx, rows)
	res.Files, res.Records = len(todo), rows.records
	return err
}

func (c *command) print(res *result) error {
	if c.json {
		return json.NewEncoder(c.app.Stdout).Encode(res)
	}
	_, err := fmt.Fprintf(c.app.Stdout, "%d records of %d files appended to %s; %d files in use\n", res.Records, res.Files, res.Table, res.InUse)
	return err
}
