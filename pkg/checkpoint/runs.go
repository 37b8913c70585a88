package checkpoint

import (
	"slices"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// Runs follows the run lines of a stream, so that its reader ends with a
// status that is true of the whole pipeline.
type Runs struct {
	ID   string // run_id of the first run
	any  bool
	open []runName // begun and not ended
	told error     // the first status other than 0
}

type runName struct{ program, id string }

// Note takes one run line.
func (r *Runs) Note(text []byte) error {
	run, err := record.ParseRun(text)
	if err != nil {
		return sysexits.Errorf(sysexits.DataErr, "run line %.120s: %w", text, err)
	}
	if !r.any {
		r.any, r.ID = true, run.RunID
	}
	name := runName{run.Program, run.RunID}
	if run.Status == nil {
		r.open = append(r.open, name)
		return nil
	}
	if i := slices.Index(r.open, name); i >= 0 {
		r.open = slices.Delete(r.open, i, i+1)
	}
	if *run.Status != 0 && r.told == nil {
		r.told = sysexits.Errorf(sysexits.Told(*run.Status), "%s, before us in the pipe, ended with status %d", run.Program, *run.Status)
	}
	return nil
}

// Err is the first status other than 0 that was told; a run that began and
// never ended counts as a temporary failure.
func (r *Runs) Err() error {
	if r.told != nil {
		return r.told
	}
	if len(r.open) > 0 {
		return sysexits.Errorf(sysexits.TempFail,
			"%s, before us in the pipe, never said how it ended: it was killed, or the stream was cut", r.open[0].program)
	}
	return nil
}
