package main

import (
	"sync"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/spool"
)

// account says, by source and event type, what became of the records that a
// command has selected.
type account struct {
	fates []cli.Count // the last one is of those that have no other

	mu    sync.Mutex // metrics may ask for it at any time
	kinds spool.Kinds
	rows  []accountRow
}

// asAsked is the fate that a command is run for.
const asAsked = 0

type accountRow struct {
	spool.Kind
	selected int64
	fates    []int64
	open     int64 // selected, and without a fate yet
}

// newAccount begins the account of a command whose records come to one of
// these ends.
func newAccount(app *cli.App, fates ...cli.Count) *account {
	a := &account{fates: fates}
	app.Account(a.row(&accountRow{fates: make([]int64, len(fates))}))
	app.Report(a.report)
	return a
}

// open counts a record that was selected, and has no fate yet.
func (a *account) open(l *spool.Letter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.of(l.Kind())
	r.selected++
	r.open++
}

// settle gives all that are open their fate, a number of those that the
// account began with.
func (a *account) settle(fate int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.rows {
		r := &a.rows[i]
		r.fates[fate] += r.open
		r.open = 0
	}
}

// forget takes those that are open for not selected: they are looked at again.
func (a *account) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.rows {
		r := &a.rows[i]
		r.selected -= r.open
		r.open = 0
	}
}

// add counts n records that were selected and have their fate.
func (a *account) add(kind spool.Kind, fate int, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.of(kind)
	r.selected += n
	r.fates[fate] += n
}

func (a *account) of(kind spool.Kind) *accountRow {
	n, kind, isNew := a.kinds.Number(kind)
	if isNew {
		a.rows = append(a.rows, accountRow{Kind: kind, fates: make([]int64, len(a.fates))})
	}
	return &a.rows[n]
}

func (a *account) report() []cli.ReportRow {
	a.mu.Lock()
	defer a.mu.Unlock()
	rows := []cli.ReportRow{}
	for i := range a.rows {
		if a.rows[i].selected > 0 {
			rows = append(rows, a.row(&a.rows[i]))
		}
	}
	return rows
}

func (a *account) row(r *accountRow) cli.ReportRow {
	row := cli.ReportRow{Source: r.Source, EventType: r.EventType, In: cli.Count{Name: "selected", N: r.selected}}
	for i, fate := range a.fates {
		fate.N = r.fates[i]
		if i == len(a.fates)-1 {
			fate.N, fate.Now = fate.N+r.open, true
		}
		row.Out = append(row.Out, fate)
	}
	return row
}
