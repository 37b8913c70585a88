package cli

import (
	"fmt"
	"time"
)

// paceSpan is how far back the speed of a Pace is looked at: a wait shows soon,
// a hiccup does not.
const paceSpan = 30 * time.Second

// Pace tells how fast something goes, and how long the rest will take at that
// speed. It is for one goroutine, as the text of KeepProgress is.
type Pace struct {
	now     func() time.Time
	samples []paceSample
}

type paceSample struct {
	at   time.Time
	done int64
}

// NewPace begins to look at the clock.
func NewPace() *Pace {
	p := &Pace{now: time.Now}
	p.samples = append(p.samples, paceSample{at: p.now()})
	return p
}

// Text is the speed, as "1200/s", and when the total is known and not reached
// the time left, as "1200/s, 2m30s left". A total of 0 is not known.
func (p *Pace) Text(done, total int64) string {
	now := p.now()
	for len(p.samples) > 1 && now.Sub(p.samples[1].at) >= paceSpan {
		p.samples = p.samples[1:]
	}
	p.samples = append(p.samples, paceSample{now, done})
	first := p.samples[0]
	rate := 0.0
	if d := now.Sub(first.at).Seconds(); d > 0 {
		rate = float64(done-first.done) / d
	}
	text := fmt.Sprintf("%.0f/s", rate)
	if rate > 0 && rate < 10 {
		text = fmt.Sprintf("%.1f/s", rate)
	}
	if total <= done {
		return text
	}
	if rate <= 0 {
		return text + ", no end in sight"
	}
	return text + fmt.Sprintf(", %s left", FormatDuration(coarseLeft(float64(total-done)/rate)))
}

// coarseLeft is a time to the second, a long one to the minute.
func coarseLeft(seconds float64) time.Duration {
	d := time.Duration(min(seconds, 1e7)) * time.Second
	if d >= time.Hour {
		return d.Truncate(time.Minute)
	}
	return max(d, time.Second)
}
