package replay

import "sf2loki/pkg/spool"

// Account is what became of the selected records of one source and event type.
// Selected is the sum of all others; at the end none is Waiting.
type Account struct {
	spool.Kind

	Selected int64
	Replayed int64
	Failed   int64
	Returned int64
	TooOld   int64
	Spent    int64
	Unsent   int64
	InUse    int64
	Waiting  int64 // to be sent, or sent and without a fate yet
}

// judged counts a record that was looked at and selected.
func (a *Account) judged(v Verdict) {
	a.Selected++
	switch v {
	case Send:
		a.Waiting++
	case TooOld:
		a.TooOld++
	case Spent:
		a.Spent++
	case Unsent:
		a.Unsent++
	}
}

// accounts are those of a run, by the numbers of their kinds.
type accounts struct {
	kinds spool.Kinds
	list  []Account
}

// number tells which account a record belongs to.
func (a *accounts) number(l *spool.Letter) uint16 {
	n, kind, isNew := a.kinds.Number(l.Kind())
	if isNew {
		a.list = append(a.list, Account{Kind: kind})
	}
	return uint16(n)
}

// accountOf is that of an item.
func (r *run) accountOf(it *item) *Account { return &r.accounts.list[it.account] }
