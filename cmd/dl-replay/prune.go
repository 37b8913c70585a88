package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"
	"github.com/prometheus/client_golang/prometheus"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/record"
	"sf2loki/pkg/spool"
	"sf2loki/pkg/sysexits"
)

type prune struct {
	app     *cli.App
	stock   *stock
	spools  []string
	sweep   spool.Sweep
	json    bool
	lost    *prometheus.CounterVec
	account *account
}

func newPrune(app *cli.App, stock *stock) *ffcli.Command {
	p := &prune{app: app, stock: stock}
	fs := app.FlagSet("dl-replay prune")
	cli.ListVar(fs, &p.spools, "spool", "spool `DIR`; may be repeated")
	cli.DurationVar(fs, &p.sweep.OlderThan, "older-than", 0, "only files that were last written longer ago than this `AGE`; 0 for any")
	cli.SizeVar(fs, &p.sweep.Bytes, "bytes", 0, "only until a spool is no larger than this `SIZE`; 0 for no such end")
	fs.BoolVar(&p.sweep.Unreplayed, "unreplayed", false, "also files with records that nobody has replayed; needs --older-than or --bytes")
	fs.BoolVar(&p.sweep.DryRun, "dry-run", false, "say what would go, and remove nothing")
	fs.BoolVar(&p.json, "json", false, "print one JSON object a file")
	p.lost = app.Metrics.Counter("deadletter_pruned_unreplayed_total", "Dead letters removed from the spool before a replay.", "reason")
	for _, e := range spool.Reasons() {
		p.lost.WithLabelValues(string(e.Reason))
	}
	return &ffcli.Command{
		Name: "prune", ShortUsage: "dl-replay prune --spool DIR [--older-than AGE] [--bytes SIZE] [--unreplayed] [--dry-run]",
		ShortHelp: "remove files of which nothing is left to do", FlagSet: fs, Exec: p.exec,
	}
}

func (p *prune) exec(ctx context.Context, args []string) error {
	p.account = newAccount(p.app, cli.Count{Name: "removed"}, cli.Count{Name: "removed_unreplayed", Loss: true}, cli.Count{Name: "unchanged"})
	switch {
	case len(args) > 0:
		return sysexits.WithHint(cli.Usagef("prune takes no files"), "rm removes a file: its journal is the one beside it")
	case len(p.spools) == 0:
		return cli.Usagef("name a directory with --spool")
	case p.sweep.Unreplayed && p.sweep.OlderThan == 0 && p.sweep.Bytes == 0:
		return sysexits.WithHint(cli.Usagef("--unreplayed needs --older-than or --bytes"), "to be rid of records say so with dl-replay discard")
	}
	p.stock.watch(p.spools)
	p.sweep.Now, p.sweep.Log = time.Now, p.app.Log
	var swept []spool.Swept
	inUse, err := 0, error(nil)
	for _, dir := range p.spools {
		var n int
		n, err = spool.Prune(dir, p.sweep, func(s spool.Swept) error {
			swept = append(swept, s)
			p.count(&s)
			p.mourn(&s)
			return ctx.Err()
		})
		inUse += n
		if err != nil {
			break
		}
	}
	if perr := p.print(swept); perr != nil {
		return perr
	}
	if err == nil && inUse > 0 {
		return sysexits.Errorf(sysexits.TempFail, "%d files are in somebody else's hands and stay", inUse)
	}
	return err
}

// count adds the records of a file to the account.
func (p *prune) count(s *spool.Swept) {
	const unreplayed = 1
	for _, r := range s.Kinds {
		if p.sweep.DryRun {
			p.account.add(r.Kind, unchanged, r.Records)
			continue
		}
		p.account.add(r.Kind, asAsked, r.Records-r.Lost)
		p.account.add(r.Kind, unreplayed, r.Lost)
	}
}

// mourn counts what nobody had replayed. The entry of a truncated copy is in
// Loki, so that is no alarm.
func (p *prune) mourn(s *spool.Swept) {
	if p.sweep.DryRun {
		return
	}
	for reason, n := range s.Lost {
		p.lost.WithLabelValues(string(reason)).Add(float64(n))
	}
	if lost := s.Waiting() - s.Lost[record.TruncatedCopy]; lost > 0 {
		p.app.Log.Warn("dead letters were removed that nobody had replayed", "file", s.File, "records", lost)
	}
}

func (p *prune) print(swept []spool.Swept) error {
	if p.json {
		enc := json.NewEncoder(p.app.Stdout)
		for _, s := range swept {
			if err := enc.Encode(s); err != nil {
				return err
			}
		}
		return nil
	}
	if len(swept) == 0 {
		return nil
	}
	table := p.app.NewTable("removed", "records", "bytes", "unreplayed", "reasons")
	for _, s := range swept {
		table.Row(s.File, s.Records, s.Bytes, s.Waiting(), counted(s.Lost))
	}
	return table.Flush()
}
