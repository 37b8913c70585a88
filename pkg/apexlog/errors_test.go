package apexlog

import (
	"slices"
	"testing"
	"time"

	"sf2loki/pkg/sftest/answertest"
	"sf2loki/pkg/sysexits"
)

// Every answer of an org that is no good one, in every place where it can come:
// the status of the run, and nothing is lost by it.
func TestErrorAnswers(t *testing.T) {
	for _, place := range []answertest.Place{
		{Name: "listing", Match: "FROM ApexLog", Fates: answertest.Listing()},
		{Name: "body", Match: "/Body", Fates: answertest.Body()},
		{Name: "login", Match: "/token", Session: "FROM ApexLog", Fates: answertest.Login()},
	} {
		place.Each(t, func(t *testing.T, run answertest.Run) {
			b := newBench(t)
			ids := b.add(4, b.ago(time.Hour))
			run.Arm(b.org)
			lines, err := b.pull()
			if got := sysexits.Of(err); got != run.Want {
				t.Errorf("%d, want %d: %v", got, run.Want, err)
			}
			got, lost := origins(entries(lines)), gaps(lines)
			for _, l := range entries(lines) {
				if skipped := l.Metadata["body_skipped"] != ""; skipped != slices.Contains(origins(lost), l.Origin) {
					t.Errorf("a body is missing without a word: %+v", l)
				}
			}
			b.org.ClearFaults()
			if err != nil {
				b.config = func(c *Config) { c.Overlap = 0 }
				got = append(got, origins(b.must(b.pull()))...)
			}
			sameSet(t, got, ids)
		})
	}
}
