package loki

import (
	"fmt"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// breaker stops a run in which most entries are refused for one reason that is
// a mistake in the configuration far more likely than in the data. It looks at
// the last thousand entries that were decided.
type breaker struct {
	window []record.Reason // a ring; "" for an entry that passed
	next   int
	counts map[record.Reason]int
}

const (
	breakerWindow = 1000
	breakerLeast  = 100
)

func newBreaker() *breaker {
	return &breaker{window: make([]record.Reason, 0, breakerWindow), counts: map[record.Reason]int{}}
}

// see counts an entry and tells whether its reason is now too frequent.
func (k *breaker) see(reason record.Reason) bool {
	if len(k.window) < breakerWindow {
		k.window = append(k.window, reason)
	} else {
		if was := k.window[k.next]; was != "" {
			k.counts[was]--
		}
		k.window[k.next] = reason
		if k.next++; k.next == breakerWindow {
			k.next = 0
		}
	}
	if reason == "" {
		return false
	}
	k.counts[reason]++
	n := k.counts[reason]
	return n >= breakerLeast && 2*n >= len(k.window)
}

// harmless are reasons that say nothing about the configuration: an age is the
// data's, lateness the source's, a budget was set on purpose.
func harmless(r record.Reason) bool {
	switch r {
	case record.TooOld, record.TooNew, record.TooFarBehind, record.Budget:
		return true
	}
	return false
}

// trips asks the breaker about a batch that is about to be captured, and ends
// the run when it opens: this batch is then neither captured nor acknowledged,
// so that a restart finds everything as it was.
//
// There are two, because what is judged here is decided as it is read, and
// what Loki judges much later: in one window, in the order of the decisions,
// the refusals of a whole buffer would come before all that passes.
func (e *Engine) trips(b *batch) bool {
	if !e.cfg.Breaker || b.stream == nil {
		return false
	}
	for i := range b.entries {
		en := &b.entries[i]
		switch en.state {
		case entryStored:
			e.breaker.see("")
		case entryRefused:
			f := &b.faults[en.fault]
			if !harmless(f.reason) && (e.breaker.see(f.reason) || b.stops) {
				e.fail(breakerError(e.breaker, f, b.stops))
				return true
			}
		}
	}
	return false
}

// askBreakerHere asks the breaker about an entry that was judged here, nil if it
// passed, and ends the run when it opens.
func (e *Engine) askBreakerHere(f *fault) {
	switch {
	case !e.cfg.Breaker || e.cfg.DryRun:
	case f == nil:
		e.breakerHere.see("")
	case !harmless(f.reason) && e.breakerHere.see(f.reason):
		e.fail(breakerError(e.breakerHere, f, false))
	}
}

func breakerError(k *breaker, f *fault, stops bool) error {
	what := fmt.Sprintf("%d of the last %d entries were", k.counts[f.reason], len(k.window))
	if stops {
		what = "every entry will be"
	}
	why := f.detail // what is judged here quotes no data; the server's words may
	if f.stage == stagePush {
		why = fmt.Sprintf("status %d", f.status)
	}
	err := sysexits.Errorf(sysexits.Config, "stopped by the breaker: %s refused as %s: %s", what, f.reason, why)
	return sysexits.WithHint(err, breakerCure(f.reason)+"; --breaker=false goes on all the same")
}

// breakerCure says what helps against a reason.
func breakerCure(r record.Reason) string {
	switch r {
	case record.MetadataDisallowed:
		return "allow structured metadata on the server (limits_config.allow_structured_metadata, schema v13)"
	case record.LineTooLong:
		return "make --max-line-bytes as small as the server's max_line_size, or raise that"
	case record.MetadataTooLarge, record.MetadataTooMany:
		return "send less metadata, or raise max_structured_metadata_size and max_structured_metadata_entries_count on the server"
	case record.InvalidLabels:
		return "look at the labels: --label adds one that is required, --allow-label makes metadata of the others"
	case record.InvalidRecord:
		return "look at what stands before loki-push in the pipe: its output is not as sf2loki-record(5) says"
	case record.Oversized:
		return "a limit between here and the server refuses single entries: raise it, or lower --max-line-bytes"
	}
	return "`loki-push probe` looks for the cause"
}
