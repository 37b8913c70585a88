package spool

// Kind is what an account is kept by.
type Kind struct{ Source, EventType string }

// Beyond mostKinds, which is more than an org has, all others are one, as those
// with very long names are, so that no file fills the memory or the metrics.
const (
	mostKinds = 1000
	longKind  = 4096
	otherKind = "other"
)

// Kinds numbers the kinds of records, from 0.
type Kinds struct{ at map[Kind]int }

// Kind is the record's.
func (l *Letter) Kind() Kind { return Kind{l.Label("source"), l.Label("event_type")} }

// Number is that of a kind, and the kind that has it. isNew tells that it has
// not been there before.
func (k *Kinds) Number(of Kind) (n int, kind Kind, isNew bool) {
	kind = of
	n, ok := k.at[kind]
	if !ok && (len(k.at) >= mostKinds || len(kind.Source)+len(kind.EventType) > longKind) {
		kind = Kind{otherKind, otherKind}
		n, ok = k.at[kind]
	}
	if ok {
		return n, kind, false
	}
	if k.at == nil {
		k.at = map[Kind]int{}
	}
	n = len(k.at)
	k.at[kind] = n
	return n, kind, true
}
