package replay

import (
	"errors"
	"time"

	"sf2loki/pkg/spool"
)

// Preview is what a replay would do.
type Preview struct {
	Counts
	InUse   int64            `json:"in_use"` // of Send, in files that somebody has in hand
	Sending *spool.Summary   `json:"sending"`
	Reasons map[string]int64 `json:"reasons"`
	Types   map[string]int64 `json:"event_types"`
	Orgs    map[string]int64 `json:"orgs"`
	Hours   map[string]int64 `json:"hours"` // of the events

	Damage *spool.Damage `json:"-"`
}

// hourLayout names the hour of an event.
const hourLayout = "2006-01-02T15"

// Look decides as Run would, and changes nothing.
func Look(set *spool.Set, o Options) (*Preview, error) {
	p := &Preview{
		Sending: spool.NewSummary(spool.Window{Now: o.Now(), MaxAge: o.MaxAge}),
		Reasons: map[string]int64{}, Types: map[string]int64{}, Orgs: map[string]int64{}, Hours: map[string]int64{},
	}
	for _, f := range set.Files {
		var inFile int64
		info, err := f.Read(func(l *spool.Letter, s spool.Status) error {
			v := o.Judge(l, s)
			if v == Send && o.Limit > 0 && p.Send >= int64(o.Limit) {
				return nil
			}
			p.Counts.add(v)
			if v == Send || v == TooOld {
				p.Sending.Add(l, s)
			}
			if v == Send {
				inFile++
				p.count(l)
			}
			return nil
		}, func(d *spool.Damage) {
			if !f.Replayed() {
				p.Damage = spool.Worse(p.Damage, d)
			}
		})
		var d *spool.Damage
		if errors.As(err, &d) {
			p.Damage = spool.Worse(p.Damage, d)
		} else if err != nil {
			return nil, err
		}
		if info.InUse {
			p.InUse += inFile
		}
	}
	return p, nil
}

func (p *Preview) count(l *spool.Letter) {
	p.Reasons[string(l.Reason())]++
	p.Types[l.Label("event_type")]++
	p.Orgs[l.Org()]++
	hour := "none"
	if at, ok := l.Time(); ok {
		hour = hourOf(at)
	}
	p.Hours[hour]++
}

func hourOf(ns int64) string { return time.Unix(0, ns).UTC().Format(hourLayout) }
