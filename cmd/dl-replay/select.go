package main

import (
	"errors"
	"flag"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/record"
	"sf2loki/pkg/spool"
	"sf2loki/pkg/sysexits"
)

// selectFlags are the flags of SELECT, the same for every subcommand.
type selectFlags struct {
	stock *stock

	spools                 []string
	since, until           time.Time
	eventSince, eventUntil time.Time
	reasons, types         []string
	sources, orgs          []string
	match, grep            []string
	ids, runIDs, statuses  []string
	limit                  int
}

func (s *selectFlags) register(fs *flag.FlagSet) {
	cli.ListVar(fs, &s.spools, "spool", "spool `DIR`; may be repeated")
	cli.TimeOrAgeVar(fs, &s.since, "since", "captured at or after this `TIME`, date, or age as 7d", time.Now)
	cli.TimeOrAgeVar(fs, &s.until, "until", "captured before this `TIME`, date or age", time.Now)
	cli.TimeOrAgeVar(fs, &s.eventSince, "event-since", "events at or after this `TIME`, date or age", time.Now)
	cli.TimeOrAgeVar(fs, &s.eventUntil, "event-until", "events before this `TIME`, date or age", time.Now)
	cli.ListVar(fs, &s.reasons, "reason", "`REASON` of sf2loki-deadletter(5)")
	cli.ListVar(fs, &s.types, "event-type", "event types, `NAMES`")
	cli.ListVar(fs, &s.sources, "source", "`SOURCE` label")
	cli.ListVar(fs, &s.orgs, "org", "`NAME` of the org that the record came from")
	cli.RepeatVar(fs, &s.match, "match", "`NAME=VALUE` of a label, a piece of metadata or a field")
	cli.ListVar(fs, &s.ids, "id", "`ID` of the record, or its beginning")
	cli.ListVar(fs, &s.runIDs, "run-id", "`ID` of the run that captured it")
	cli.RepeatVar(fs, &s.grep, "grep", "`REGEXP` that the line matches")
	cli.ListVar(fs, &s.statuses, "status", "`STATUS`: new, pending, replayed, failed, discarded")
	fs.IntVar(&s.limit, "limit", 0, "at most `N` records")
}

// selection is what the flags say.
func (s *selectFlags) selection() (spool.Selection, error) {
	sel := spool.Selection{
		Since: s.since, Until: s.until, EventSince: s.eventSince, EventUntil: s.eventUntil,
		Reasons: s.reasons, EventTypes: s.types, Sources: s.sources, Orgs: s.orgs,
		IDs: s.ids, RunIDs: s.runIDs,
	}
	for _, reason := range s.reasons {
		if _, ok := spool.Explain(record.Reason(reason)); !ok {
			return sel, sysexits.WithHint(cli.Usagef("unknown reason %q", reason), "it may be "+reasonNames())
		}
	}
	for _, status := range s.statuses {
		if !slices.Contains(spool.Statuses, spool.Status(status)) {
			return sel, cli.Usagef("unknown status %q: it may be new, pending, replayed, failed or discarded", status)
		}
		sel.Statuses = append(sel.Statuses, spool.Status(status))
	}
	for _, match := range s.match {
		name, value, ok := strings.Cut(match, "=")
		if !ok || name == "" {
			return sel, cli.Usagef("--match %q: want NAME=VALUE", match)
		}
		sel.Match = append(sel.Match, spool.Match{Name: name, Value: value})
	}
	for _, pattern := range s.grep {
		re, err := regexp.Compile(pattern)
		if err != nil {
			return sel, cli.Usagef("--grep %q: %v", pattern, err)
		}
		sel.Grep = append(sel.Grep, re)
	}
	for _, span := range []struct {
		since, until time.Time
		flags        string
	}{{s.since, s.until, "--since and --until"}, {s.eventSince, s.eventUntil, "--event-since and --event-until"}} {
		if !span.since.IsZero() && !span.until.IsZero() && !span.since.Before(span.until) {
			return sel, cli.Usagef("%s leave no time between them", span.flags)
		}
	}
	if s.limit < 0 {
		return sel, cli.Usagef("--limit %d: it cannot be negative", s.limit)
	}
	return sel, nil
}

func reasonNames() string {
	var names []string
	for _, e := range spool.Reasons() {
		names = append(names, string(e.Reason))
	}
	return strings.Join(names, ", ")
}

// find lists the files that the flags and operands name.
func (s *selectFlags) find(app *cli.App, files []string) (*spool.Set, error) {
	if len(s.spools) == 0 && len(files) == 0 {
		return nil, sysexits.WithHint(cli.Usagef("nothing to read"), "name a directory with --spool, or files")
	}
	s.stock.watch(s.spools)
	return spool.Find(s.spools, files, app.Log)
}

// reading reads the records that the flags select, file by file.
type reading struct {
	app   *cli.App
	set   *spool.Set
	sel   spool.Selection
	limit int

	taken int // of limit

	mu     sync.Mutex
	damage *spool.Damage
}

func (s *selectFlags) read(app *cli.App, files []string) (*reading, error) {
	sel, err := s.selection()
	if err != nil {
		return nil, err
	}
	set, err := s.find(app, files)
	if err != nil {
		return nil, err
	}
	return &reading{app: app, set: set, sel: sel, limit: s.limit}, nil
}

func (r *reading) close() { r.set.Close() }

// each calls fn for all files, for some of them at the same time: then what fn
// shares is its own affair. With a limit the order of the records counts, so it
// is one after the other.
func (r *reading) each(fn func(i int, f *spool.File) error) error {
	workers := min(runtime.GOMAXPROCS(0), maxReaders, len(r.set.Files))
	if r.limit > 0 {
		workers = min(workers, 1)
	}
	var next atomic.Int64
	errs := make([]error, workers)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(r.set.Files)) && errs[w] == nil; i = next.Add(1) - 1 {
				errs[w] = fn(int(i), r.set.Files[i])
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// maxReaders bounds the memory of reading files at the same time: each needs
// that of its longest record.
const maxReaders = 2

// file reads one file.
func (r *reading) file(f *spool.File, fn func(*spool.Letter, spool.Status) error) (spool.Info, error) {
	info, err := f.Read(func(l *spool.Letter, s spool.Status) error {
		if r.limit > 0 && r.taken >= r.limit || !r.sel.Matches(l, s) {
			return nil
		}
		if r.limit > 0 {
			r.taken++
		}
		return fn(l, s)
	}, func(d *spool.Damage) { r.damaged(f, d) })
	var d *spool.Damage
	if info.Unreadable && errors.As(err, &d) { // keeps nobody from the other files
		r.damaged(f, d)
		err = nil
	}
	return info, err
}

func (r *reading) damaged(f *spool.File, d *spool.Damage) {
	d.Say(r.app.Log)
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.Err != nil || !f.Replayed() {
		r.damage = spool.Worse(r.damage, d)
	}
}

// all reads all files.
func (r *reading) all(fn func(*spool.File, *spool.Letter, spool.Status) error) error {
	for _, f := range r.set.Files {
		_, err := r.file(f, func(l *spool.Letter, s spool.Status) error { return fn(f, l, s) })
		if err != nil {
			return err
		}
	}
	return r.verdict()
}

// verdict is the error for places that held no record, once all others have
// been read.
func (r *reading) verdict() error { return r.damage.Verdict() }

// narrows reports whether records are selected by anything.
func (s *selectFlags) narrows() bool {
	return len(s.reasons)+len(s.types)+len(s.sources)+len(s.orgs)+len(s.match)+len(s.grep)+
		len(s.ids)+len(s.runIDs)+len(s.statuses)+s.limit > 0 ||
		!s.since.IsZero() || !s.until.IsZero() || !s.eventSince.IsZero() || !s.eventUntil.IsZero()
}
