package loki

import (
	"log/slog"
	"slices"

	"sf2loki/pkg/record"

	"sf2loki/pkg/sysexits"
)

// Some refusals may be the configuration's fault after all, although they read
// as the entry's: a 400 whose text nobody knows, and a request of one entry
// that is too large for something on the way. Whoever answers everything so
// must not turn a whole stream into dead letters. Hence an entry is blamed for
// them only when it was refused, something else was stored, and it was refused
// again. Until then it is held, its stream goes on, and as long as nothing at
// all has been stored it counts as a wrong configuration.

// unknown tells whether the answer is such a 400.
func (v *Verdict) unknown() bool {
	return v.Class == Refused && len(v.Faults) == 1 && v.Faults[0].Kind == KindOther
}

// unexplained takes in a 400 whose text is not known.
func (e *Engine) unexplained(r *request, v *Verdict) {
	switch {
	case e.blames(r):
		e.served(r.stream)
		e.isolate(r, v)
	case len(r.entries) > 1:
		r.batch.notSpotless()
		e.bisect(r)
	default:
		e.suspend(r, v, "the text of this refusal is not known: --log-level debug shows it, `loki-push probe` looks for the cause")
	}
}

// tooLarge takes in that a request is larger than something takes.
func (e *Engine) tooLarge(r *request, v *Verdict) {
	blamed := e.blames(r)
	if blamed {
		e.served(r.stream)
	}
	switch {
	case len(r.entries) > 1:
		e.learn(r, v)
		e.halve(r)
	case blamed:
		r.batch.notSpotless()
		e.refuse(r, r.entries[0], record.Oversized, v, false)
		e.popGroup(r.batch)
	default:
		e.suspend(r, v, breakerCure(record.Oversized))
	}
}

// blames tells whether something was stored since the first such refusal of
// the entries.
func (e *Engine) blames(r *request) bool {
	g := r.group
	if g.doubted == 0 {
		g.doubted = e.successes + 1
	}
	return e.successes >= g.doubted
}

// suspend holds an entry until something else has been stored.
func (e *Engine) suspend(r *request, v *Verdict, hint string) {
	if !r.batch.heldAlone {
		e.hold(r, v)
	}
	if !slices.Contains(e.suspended, r.stream) {
		e.suspended = append(e.suspended, r.stream)
	}
	doubt := *v
	doubt.Class, doubt.Code, doubt.Hint = Misconfigured, sysexits.Config, hint
	e.logOnce(Misconfigured, &doubt, r, slog.LevelWarn, "refused in a way that proves nothing while nothing else is stored: it is held and tried again")
	e.troubled(r, &doubt)
}

// resume has entries tried again that were held for doubt: something has been
// stored, so that now their answers tell.
func (e *Engine) resume() {
	streams := e.suspended
	e.suspended = e.suspended[len(e.suspended):]
	for _, st := range streams {
		st.heldUntil = 0
		e.schedule(st)
	}
}
