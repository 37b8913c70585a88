// Package feed is what the sources that query rows by time have in common: the
// position in the order of (time, Id), the memory of rows that an overlap
// brings again, rows as REST answers with them, and the way out with its
// counts. The sources themselves are sobject and apexlog; eventlog has the same
// windows and errors. What a user sees of them stands in sf-pull(1).
package feed

import (
	"context"
	"errors"
	"time"

	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sysexits"
)

// Verdict is what a failure means for the work.
type Verdict int

// The verdicts.
const (
	Ends     Verdict = iota // nothing can go on: the error is the program's end
	Refused                 // what was asked for is not to be had; others may be
	Later                   // the same may go well later
	Throttle                // the org has had enough of us
	Gone                    // what was asked for is not there any more
)

// ErrLeft is a pass after which something is left for a later one. What that
// is stands in front of it.
var ErrLeft = errors.New("left for a later pass")

// OddAnswer is an answer that is not what was asked for. It may be better the
// next time.
type OddAnswer struct{ Text string }

func (e *OddAnswer) Error() string { return e.Text }

// Judge tells what err means.
func Judge(err error) Verdict {
	var e *salesforce.Error
	var odd *OddAnswer
	switch {
	case errors.Is(err, ErrLeft) || errors.As(err, &odd):
		return Later
	case !errors.As(err, &e):
		return Ends
	}
	switch e.Kind {
	case salesforce.KindLimitTotal, salesforce.KindLimitConcurrent, salesforce.KindReserve, salesforce.KindLoginRate:
		return Throttle
	case salesforce.KindNotFound:
		return Gone
	case salesforce.KindNotJSON, salesforce.KindTimeout, salesforce.KindTransport, salesforce.KindTransient,
		salesforce.KindOther, salesforce.KindLocator, salesforce.KindQueryTimeout:
		return Later
	case salesforce.KindField, salesforce.KindType, salesforce.KindQuery, salesforce.KindBigObject, salesforce.KindPermission:
		return Refused
	}
	return Ends
}

// Temporary tells whether a later attempt can do better.
func Temporary(err error) bool {
	v := Judge(err)
	return err != nil && (v == Later || v == Throttle)
}

// Final is the error that a run ends with: the cause of its end when it was
// asked to stop, and one that another run may not have is to run again.
func Final(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case Temporary(err):
		return sysexits.Wrap(sysexits.TempFail, err) // unless it has a status of its own
	}
	return err
}

// Status is the HTTP status that came with a failure, 0 when there was none.
func Status(err error) int {
	var e *salesforce.Error
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// Window bounds the times of rows or files: Since is in it, Until is not. A zero
// time bounds nothing.
type Window struct{ Since, Until time.Time }

// Fixed tells whether it is a window with positions of its own.
func (w Window) Fixed() bool { return !w.Until.IsZero() }

// Prefix is what the keys of a window begin with.
func (w Window) Prefix() string {
	if !w.Fixed() {
		return ""
	}
	since := ""
	if !w.Since.IsZero() {
		since = w.Since.UTC().Format(time.RFC3339)
	}
	return "window=" + since + "/" + w.Until.UTC().Format(time.RFC3339) + ":"
}
