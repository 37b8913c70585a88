package sftest

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// Fault is a failure on demand. What is set takes effect, in this order:
// Latency, then Reset, then an answer of its own (Fixture, HTML, or Status with
// Body), else the true answer, mangled by CutAfter, StallAfter or Trickle.
type Fault struct {
	Times int // how often; 0: once, negative: until ClearFaults
	Skip  int // matching requests that pass first

	Latency time.Duration // before anything is answered
	Reset   bool          // the connection is reset instead of an answer

	Fixture     string // the answer is that of fixtures/rest, with its status and headers
	HTML        bool   // the answer is the maintenance page, with Status or 200
	Status      int
	Body        string
	ContentType string // of Body; empty: by its first character
	Header      http.Header
	Short       int // a query's answer tells of so many records more than it holds: it leaves out the last; negative: there are none

	CutAfter   int           // the body breaks off after so many bytes
	StallAfter int           // the body stops, and the connection stays open
	Trickle    time.Duration // pause before each chunk of the body
}

type armedFault struct {
	Fault
	match string
}

// Fault makes requests fail whose line, as "GET /services/data/v62.0/query?q=SELECT ...",
// contains match; the first fault that matches takes effect.
func (o *Org) Fault(match string, f Fault) {
	if f.Times == 0 {
		f.Times = 1
	}
	if f.Fixture != "" {
		mustFixture(f.Fixture)
	}
	o.locked(func() {
		o.faults = slices.DeleteFunc(o.faults, func(old *armedFault) bool { return old.Times == 0 })
		o.faults = append(o.faults, &armedFault{f, match})
	})
}

// ClearFaults ends all faults.
func (o *Org) ClearFaults() { o.locked(func() { o.faults = nil }) }

// takeFault gives the fault for a request, or nil. The caller holds mu.
func (o *Org) takeFault(line string) *Fault {
	for _, f := range o.faults {
		if f.Times == 0 || !strings.Contains(line, f.match) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times > 0 {
			f.Times--
		}
		copied := f.Fault
		return &copied
	}
	return nil
}

func matching(log []Request, match string) []Request {
	var out []Request
	for _, r := range log {
		if strings.Contains(r.Line(), match) {
			out = append(out, r)
		}
	}
	return out
}
