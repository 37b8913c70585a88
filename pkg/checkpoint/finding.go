package checkpoint

import "sf2loki/pkg/sysexits"

// Finding is one row of a doctor's report.
type Finding struct {
	Check  string // what was looked at
	Level  Level
	Detail string // what was found
	Cure   string // what to do about it; empty on a pass
	Code   sysexits.Code
}

// Level says how bad a finding is.
type Level string

// The levels.
const (
	Pass Level = "PASS"
	Warn Level = "WARN"
	Fail Level = "FAIL"
)

// Passed is a finding that all is well.
func Passed(check, detail string) Finding { return Finding{Check: check, Level: Pass, Detail: detail} }

// Failed is an error that was found.
func Failed(check string, err error, cure string) Finding {
	return Finding{Check: check, Level: Fail, Detail: err.Error(), Cure: cure, Code: sysexits.Of(err)}
}
