// Package audit tells whether everything that Salesforce offers in a window
// has arrived: it joins the listing of sf-pull list with the ledger of ckpt
// commit, the spool of dead letters and the counts of loki-push count. ckpt(1)
// has the command.
package audit

import (
	"cmp"
	"slices"
	"time"

	"sf2loki/pkg/sysexits"
)

// Verdict is what an audit finds.
type Verdict string

// The verdicts, from good to bad.
const (
	Complete Verdict = "complete"
	Early    Verdict = "too early"
	Hole     Verdict = "hole"
)

// Code is the exit status that a verdict stands for.
func (v Verdict) Code() sysexits.Code {
	switch v {
	case Complete:
		return sysexits.OK
	case Early:
		return sysexits.TempFail
	}
	return sysexits.DataErr
}

// Config says what is audited, and how.
type Config struct {
	Since, Until time.Time // of the events
	Now          time.Time
	// Wait is how long after its creation a file may be without an account.
	Wait time.Duration
	// Late is how long after its end files of a window may still come.
	Late time.Duration
	// AcceptDiscarded takes letters that somebody discarded for dealt with.
	AcceptDiscarded bool
	// StrictCounts takes each entry that Loki holds less than was delivered for
	// lost, also where a late file may have repeated rows, which Loki folds.
	StrictCounts bool
	Commands     Commands
}

func (c *Config) window() window { return window{c.Since, c.Until} }

// Kind is what a finding is about.
type Kind string

// The kinds of findings.
const (
	NotPulled   Kind = "not pulled"
	RowsMissing Kind = "rows missing"
	Changed     Kind = "file changed"
	Dropped     Kind = "dropped"
	LettersWait Kind = "dead letters wait"
	LettersFail Kind = "dead letters failed"
	LettersGone Kind = "dead letters lost"
	Discarded   Kind = "dead letters discarded"
	Gap         Kind = "gap of the source"
	LokiFewer   Kind = "fewer in Loki"
	StillToCome Kind = "still to come"
)

// Finding is one thing that keeps the window from being complete, and the
// command that mends it.
type Finding struct {
	Verdict   Verdict `json:"verdict"`
	Kind      Kind    `json:"kind"`
	Source    string  `json:"source,omitempty"`
	EventType string  `json:"event_type,omitempty"`
	File      string  `json:"file,omitempty"`
	LogDate   string  `json:"log_date,omitempty"`
	Entries   int64   `json:"entries,omitempty"`
	Text      string  `json:"text"`
	Command   string  `json:"command,omitempty"`
}

// Row is the account of one source and event type in the window.
type Row struct {
	Source    string  `json:"source"`
	EventType string  `json:"event_type"`
	Verdict   Verdict `json:"verdict"`

	Files     int64 `json:"files"` // that are offered
	Pulled    int64 `json:"pulled"`
	Rows      int64 `json:"rows"`
	LeftOut   int64 `json:"left_out"` // by rules, sampling, as repeats
	Earlier   int64 `json:"earlier"`  // settled by a run that was cut off, before the one that has the account
	Delivered int64 `json:"delivered"`
	Refused   int64 `json:"refused"` // dead letters of any status
	Dropped   int64 `json:"dropped"`

	Replayed  int64  `json:"replayed"`
	Waiting   int64  `json:"waiting"`
	Failed    int64  `json:"failed"`
	Discarded int64  `json:"discarded"`
	Loki      *int64 `json:"loki,omitempty"` // entries that Loki holds
}

// Input is a file that the audit has read.
type Input struct {
	What   string `json:"what"`
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Report is the outcome of an audit.
type Report struct {
	Version  int       `json:"v"`
	Program  string    `json:"program"`
	Release  string    `json:"release"`
	Instance string    `json:"instance"`
	MadeAt   time.Time `json:"made_at"`
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"`
	Verdict  Verdict   `json:"verdict"`
	Status   int       `json:"status"`
	Rows     []*Row    `json:"rows"`
	Findings []Finding `json:"findings"`
	Notes    []string  `json:"notes,omitempty"`
	Inputs   []Input   `json:"inputs"`
}

// auditor joins.
type auditor struct {
	cfg      Config
	in       *Inputs
	rows     map[[2]string]*Row
	report   *Report
	ofFile   map[string][]*letter  // of listed files
	origins  map[string]int64      // letters of what is not listed, by origin
	times    map[[3]string][]int64 // the same by source, org, and event type or topic: their times, sorted
	lostOf   map[string]int64      // dropped of listed files, by runs that were cut off
	org      string                // of all passes, when they are of one
	captured []*letter             // that stand for entries of the window
}

// Join joins what the inputs say.
func Join(cfg Config, in *Inputs) *Report {
	a := &auditor{
		cfg: cfg, in: in, rows: map[[2]string]*Row{}, ofFile: map[string][]*letter{}, origins: map[string]int64{}, times: map[[3]string][]int64{}, lostOf: map[string]int64{},
		report: &Report{Version: 1, MadeAt: cfg.Now.UTC(), Since: cfg.Since, Until: cfg.Until, Inputs: in.Read,
			Rows: []*Row{}, Findings: []Finding{}},
	}
	a.sortLetters()
	in.coverLosses()
	a.org = in.org()
	for i := range in.files {
		a.file(&in.files[i])
	}
	a.others()
	a.stray()
	a.waiting()
	a.losses()
	a.counts()
	if !cfg.Until.IsZero() && cfg.Now.Before(cfg.Until.Add(cfg.Late)) {
		a.find(Finding{Verdict: Early, Kind: StillToCome,
			Text: "what is of the window may still come, until " + stamp(cfg.Until.Add(cfg.Late))})
	}
	return a.end()
}

func (a *auditor) row(source, eventType string) *Row {
	key := [2]string{source, eventType}
	r := a.rows[key]
	if r == nil {
		r = &Row{Source: source, EventType: eventType, Verdict: Complete}
		a.rows[key] = r
	}
	return r
}

func (a *auditor) find(f Finding) {
	a.report.Findings = append(a.report.Findings, f)
	if f.EventType != "" {
		r := a.row(f.Source, f.EventType)
		r.Verdict = worse(r.Verdict, f.Verdict)
	}
}

func worse(a, b Verdict) Verdict {
	rank := []Verdict{Complete, Early, Hole}
	if slices.Index(rank, b) > slices.Index(rank, a) {
		return b
	}
	return a
}

// end puts the report in order.
func (a *auditor) end() *Report {
	r := a.report
	r.Verdict = Complete
	for _, f := range r.Findings {
		r.Verdict = worse(r.Verdict, f.Verdict)
	}
	r.Status = int(r.Verdict.Code())
	for _, row := range a.rows {
		r.Rows = append(r.Rows, row)
	}
	if len(r.Rows) == 0 {
		r.Notes = append(r.Notes, "there is nothing of the window, neither a file that is offered nor an account in the ledger: was anything pulled?")
	}
	slices.SortFunc(r.Rows, func(a, b *Row) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.EventType, b.EventType))
	})
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.EventType, b.EventType), cmp.Compare(a.LogDate, b.LogDate), cmp.Compare(a.File, b.File), cmp.Compare(a.Text, b.Text))
	})
	return r
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999Z") }
