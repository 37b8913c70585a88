package record

import (
	"slices"

	"sf2loki/pkg/sysexits"
)

// Runs follows the run lines of a stream, so that its reader ends with a
// status that is true of the whole pipeline.
type Runs struct {
	ID   string // run_id of the first run
	any  bool
	open []runName // begun and not ended
	lost bool      // more were open at a time than are kept: that one of them never ended
	told error     // the first status other than 0
}

type runName struct{ program, id string }

// mostRuns bounds how many runs that are open at a time are kept.
const mostRuns = 1000

// Note takes one run line.
func (r *Runs) Note(text []byte) error {
	run, err := ParseRun(text)
	if err != nil {
		return sysexits.Errorf(sysexits.DataErr, "run line %.120s: %w", text, err)
	}
	if !r.any {
		r.any, r.ID = true, run.RunID
	}
	name := runName{run.Program, run.RunID}
	if run.Status == nil {
		if r.lost = r.lost || len(r.open) >= mostRuns; !r.lost {
			r.open = append(r.open, name)
		}
		return nil
	}
	if i := slices.Index(r.open, name); i >= 0 {
		r.open = slices.Delete(r.open, i, i+1)
	}
	if *run.Status != 0 && r.told == nil {
		r.told = sysexits.Errorf(sysexits.Told(*run.Status), "the input is incomplete: %.80s ended with status %d", run.Program, *run.Status)
	}
	return nil
}

// Err is the first status other than 0 that was told; a run that began and
// never ended counts as a temporary failure.
func (r *Runs) Err() error {
	switch {
	case r.told != nil:
		return r.told
	case len(r.open) > 0:
		return sysexits.Errorf(sysexits.TempFail, "the input is incomplete: %s never told its end: it was killed, or the stream was cut", r.open[0].program)
	case r.lost:
		return sysexits.Errorf(sysexits.TempFail, "the input is incomplete: of more than %d runs at a time some never told their end", mostRuns)
	}
	return nil
}
