package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/spool"
	"sf2loki/pkg/sysexits"
)

// mark is requeue and discard: both give records another status.
type mark struct {
	app     *cli.App
	sel     selectFlags
	to      spool.Status
	fate    string         // what the account calls those that have it now
	from    []spool.Status // those that it takes without --status
	because string
	dryRun  bool
	json    bool
	account *account
}

func newRequeue(app *cli.App, stock *stock) *ffcli.Command {
	m := &mark{app: app, sel: selectFlags{stock: stock}, to: spool.New, fate: "requeued", from: []spool.Status{spool.Failed}}
	fs := app.FlagSet("dl-replay requeue")
	m.sel.register(fs)
	fs.BoolVar(&m.dryRun, "dry-run", false, "say how many, and change nothing")
	fs.BoolVar(&m.json, "json", false, "print the result as a JSON object")
	return &ffcli.Command{
		Name: "requeue", ShortUsage: "dl-replay requeue [SELECT] [--dry-run] [FILE...]",
		ShortHelp: "make records new again, so that run takes them", FlagSet: fs, Exec: m.exec,
		LongHelp: "Without --status, those that failed. How often they were refused still counts: see --max-attempts of run.",
	}
}

func newDiscard(app *cli.App, stock *stock) *ffcli.Command {
	m := &mark{app: app, sel: selectFlags{stock: stock}, to: spool.Discarded, fate: "discarded", from: []spool.Status{spool.New, spool.Failed}}
	fs := app.FlagSet("dl-replay discard")
	m.sel.register(fs)
	fs.StringVar(&m.because, "because", "", "`TEXT` that says why; kept in the journal")
	fs.BoolVar(&m.dryRun, "dry-run", false, "say how many, and change nothing")
	fs.BoolVar(&m.json, "json", false, "print the result as a JSON object")
	return &ffcli.Command{
		Name: "discard", ShortUsage: "dl-replay discard SELECT --because TEXT [--dry-run] [FILE...]",
		ShortHelp: "decide that records are not to be replayed", FlagSet: fs, Exec: m.exec,
		LongHelp: "The records stay in their files until those are pruned; requeue --status discarded takes it back.",
	}
}

// check refuses a decision over everything, or without a reason.
func (m *mark) check() error {
	m.because = strings.TrimSpace(m.because)
	switch {
	case m.to != spool.Discarded:
		return nil
	case m.because == "":
		return cli.Usagef("--because: say why these records are not to be replayed")
	case len(m.because) > spool.MaxBecause:
		return cli.Usagef("--because: %d bytes, at most %d are kept", len(m.because), spool.MaxBecause)
	case !m.sel.narrows():
		return sysexits.WithHint(cli.Usagef("nothing says which records to discard"), "--status new,failed is all that nobody has replayed")
	}
	return nil
}

// What becomes of a record that does not get its status.
const (
	groupInUse = 1
	unchanged  = 2
)

// marked is what was done.
type marked struct {
	Records int64        `json:"records"`
	To      spool.Status `json:"to"`
	InUse   int64        `json:"files_in_use"`
	DryRun  bool         `json:"dry_run"`

	damage *spool.Damage
}

func (m *mark) exec(_ context.Context, args []string) error {
	m.account = newAccount(m.app, cli.Count{Name: m.fate}, cli.Count{Name: "in_use"}, cli.Count{Name: "unchanged"})
	if err := m.check(); err != nil {
		return err
	}
	sel, err := m.sel.selection()
	if err != nil {
		return err
	}
	if len(sel.Statuses) == 0 {
		sel.Statuses = m.from
	}
	set, err := m.sel.find(m.app, args)
	if err != nil {
		return err
	}
	defer set.Close()
	done := marked{To: m.to, DryRun: m.dryRun}
	for _, files := range set.Groups() {
		err := m.group(files, m.taker(&sel, &done), &done)
		m.account.settle(unchanged)
		if err != nil {
			return err
		}
	}
	if err := m.print(&done); err != nil {
		return err
	}
	if done.InUse > 0 {
		return sysexits.WithHint(sysexits.Errorf(sysexits.TempFail, "%d files are in somebody else's hands and were left alone", done.InUse),
			"a writer gives a file away a minute after its last record: run this again then")
	}
	return done.damage.Verdict()
}

// taker takes the selected records, up to the limit.
func (m *mark) taker(sel *spool.Selection, done *marked) func(*spool.Letter, spool.Status) bool {
	return func(l *spool.Letter, s spool.Status) bool {
		if s == m.to || m.sel.limit > 0 && done.Records >= int64(m.sel.limit) || !sel.Matches(l, s) {
			return false
		}
		done.Records++
		m.account.open(l)
		return true
	}
}

// group changes the records of one group. Nothing is claimed when there is
// nothing to change.
func (m *mark) group(files []*spool.File, take func(*spool.Letter, spool.Status) bool, done *marked) error {
	before := done.Records
	inUse := int64(0)
	for _, f := range files {
		info, err := f.Read(func(l *spool.Letter, s spool.Status) error {
			if s == spool.Pending { // should its run die, it is new
				s = spool.New
			}
			take(l, s)
			return nil
		}, m.damaged(done))
		var d *spool.Damage
		if errors.As(err, &d) { // nothing is decided about half a group
			m.damaged(done)(d)
			done.Records = before
			return nil
		}
		if err != nil {
			return err
		}
		if info.InUse {
			inUse++
		}
	}
	if done.Records == before || m.dryRun && inUse == 0 {
		return nil
	}
	done.Records = before
	if inUse > 0 {
		m.account.settle(groupInUse)
		done.InUse += inUse
		return nil
	}
	claim, err := spool.TakeGroup(files, m.app.RunID(), time.Now, m.app.Log)
	if errors.Is(err, spool.ErrInUse) {
		m.account.settle(groupInUse)
		done.InUse++
		return nil
	}
	var d *spool.Damage
	if errors.As(err, &d) {
		m.damaged(done)(d)
		return nil
	}
	if err != nil {
		return err
	}
	defer claim.Release()
	m.account.forget() // they are taken again, from what nobody else changes any more
	_, err = claim.Mark(spool.Mark{
		To: m.to, Because: m.because, Take: take, Marked: func() { m.account.settle(asAsked) },
	}, func(*spool.Damage) {})
	if err != nil {
		return err
	}
	return claim.Finish(false)
}

func (m *mark) damaged(done *marked) func(*spool.Damage) {
	return func(d *spool.Damage) {
		d.Say(m.app.Log)
		done.damage = spool.Worse(done.damage, d)
	}
}

func (m *mark) print(done *marked) error {
	if m.json {
		return json.NewEncoder(m.app.Stdout).Encode(done)
	}
	verb := "are"
	if m.dryRun {
		verb = "would be"
	}
	_, err := fmt.Fprintf(m.app.Stdout, "%d records %s %s now\n", done.Records, verb, m.to)
	return err
}
