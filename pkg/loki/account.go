package loki

import (
	"maps"
	"slices"
	"strings"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// SourceAccount is what became of the entries of one source and event type.
// Read is the sum of Delivered, DeadLettered, Discarded, DroppedBudget and
// Unsettled.
type SourceAccount struct {
	Source, EventType string

	Read          int64
	Delivered     int64
	DeadLettered  int64                   // captured durably
	Discarded     map[record.Reason]int64 // refused, and no destination took them
	DroppedBudget int64
	Unsettled     int64

	Refused   map[record.Reason]int64 // all that will not reach Loki, captured or not
	Truncated int64                   // lines that were cut
	Lag       Lag                     // of what was delivered
}

// LagBuckets are the upper bounds of Lag's buckets, in seconds.
var LagBuckets = [...]float64{1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 14400, 28800, 86400}

// Lag counts entries by how long after their time they were stored.
type Lag struct {
	Buckets [len(LagBuckets) + 1]int64 // each entry in one; the last has no bound
	Sum     float64                    // seconds
}

func (l *Lag) observe(lag time.Duration) {
	s := max(0, lag.Seconds()) // the sender's clock can be ahead
	i := 0
	for i < len(LagBuckets) && s > LagBuckets[i] {
		i++
	}
	l.Buckets[i]++
	l.Sum += s
}

func (a *SourceAccount) refuse(r record.Reason) { a.Refused[r]++ }

// Beyond mostAccounts sources and event types, which is more than an org has,
// all others share an account, as those with very long names do, so that no
// input fills the memory or the metrics.
const (
	mostAccounts = 1000
	longAccount  = 4096
	otherAccount = "other"
)

func (e *Engine) accountOf(rec *record.Record) *SourceAccount { return e.accountOfLabels(rec.Labels) }

func (e *Engine) accountOfLabels(labels []record.Pair) *SourceAccount {
	var source, eventType []byte
	for i := range labels {
		switch string(labels[i].Name) {
		case "source":
			source = labels[i].Value
		case "event_type":
			eventType = labels[i].Value
		}
	}
	key := string(source) + "\x00" + string(eventType)
	a := e.accounts[key]
	if a == nil && (len(e.accounts) >= mostAccounts || len(key) > longAccount) {
		source, eventType = []byte(otherAccount), []byte(otherAccount)
		key = otherAccount + "\x00" + otherAccount
		a = e.accounts[key]
	}
	if a == nil {
		a = &SourceAccount{
			Source: string(source), EventType: string(eventType),
			Discarded: map[record.Reason]int64{}, Refused: map[record.Reason]int64{},
		}
		e.accounts[key] = a
	}
	return a
}

// Accounts returns a copy of all accounts, in the order of their names.
func (e *Engine) Accounts() []SourceAccount {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []SourceAccount
	for _, a := range e.accounts {
		c := *a
		c.Discarded, c.Refused = maps.Clone(a.Discarded), maps.Clone(a.Refused)
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b SourceAccount) int {
		if c := strings.Compare(a.Source, b.Source); c != 0 {
			return c
		}
		return strings.Compare(a.EventType, b.EventType)
	})
	return all
}

// rejects is how many entries were refused, captured or not.
func (e *Engine) rejects() int64 {
	n := int64(0)
	for _, a := range e.accounts {
		for _, k := range a.Refused {
			n += k
		}
		n -= a.Refused[record.Budget]
	}
	return n
}

// noteOldest remembers the oldest entry that was refused for its age.
func (e *Engine) noteOldest(ts int64) {
	if e.oldest == 0 || ts < e.oldest {
		e.oldest = ts
	}
}

// runsError is the status that the input tells, as an error.
func (e *Engine) runsError() error {
	if err := e.in.runs.Err(); err != nil {
		return err
	}
	if e.in.ended && e.in.bytes == 0 && !e.cfg.AllowEmpty {
		return sysexits.WithHint(sysexits.Errorf(sysexits.TempFail, "the input is empty: what writes it did not begin"),
			"--allow-empty says that it may be")
	}
	return nil
}
