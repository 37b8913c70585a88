package pubsub

import (
	"time"

	"sf2loki/pkg/feed"
	"sf2loki/pkg/record"
)

// account is what became of a topic's events since the last one that was
// written. Nobody knows how many events there were on the bus: it tells of those
// that came. It ends with the hour of its events, so that a ledger shows them
// hour by hour, and with the run.
type account struct {
	record.Account
	first, latest int64 // times of its events
	ends          int64 // the hour that it is of
}

// count counts an event of time t, 0 for one whose time nobody knows.
func (a *account) count(t int64) {
	a.Rows++
	switch {
	case t == 0:
	case a.first == 0:
		a.first, a.latest = t, t
	default:
		a.first, a.latest = min(a.first, t), max(a.latest, t)
	}
}

// turn ends the account of an hour before an event of time t, the first one
// after it. last is the time that the position until there bears. Times of
// events that are still to come end nothing.
func (e *emitter) turn(t, last int64) {
	hour := time.Unix(0, min(t, e.s.cfg.Now().UnixNano())).Truncate(time.Hour)
	if ends := hour.Add(time.Hour).UnixNano(); ends > e.account.ends {
		e.tell(last)
		e.account.ends = ends
	}
}

// tell writes the account, if there is something to tell, with the position of
// time last that the stream has come to.
func (e *emitter) tell(last int64) {
	a := &e.account
	if e.passed != nil {
		e.lastID, e.passed = append(e.lastID[:0], e.passed...), nil
	}
	if a.Rows+a.SourceGaps == 0 || len(e.lastID) == 0 {
		return
	}
	a.Origin, a.EventType = e.topic+" "+feed.DateTime(a.first)+"/"+feed.DateTime(a.latest), e.eventType
	e.block = record.AppendRecord(e.block, &record.Record{
		Time: a.latest, HasTime: a.latest != 0, Key: e.key, EscapedValue: e.tokens.of(e.lastID, last), CheckpointOnly: true,
		Account: record.AppendAccount(nil, &a.Account),
	})
	e.account = account{ends: a.ends}
}
