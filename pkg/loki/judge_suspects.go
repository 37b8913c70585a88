package loki

import "sort"

// EntryFacts is an entry as the predicates see it: as it was pushed.
type EntryFacts struct {
	Time          int64 // nanoseconds
	LineBytes     int
	MetadataBytes int // names and values
	MetadataPairs int
}

// Suspect is what a verdict says about one entry of the request.
type Suspect struct {
	// Fault is the index in Verdict.Faults that explains the entry's refusal;
	// -1: none does.
	Fault int
	// Sure: the text proves it. Otherwise the entry may as well have been
	// stored (times are told in whole seconds): let the next answer decide.
	Sure bool
}

const second = int64(1e9)

// metadataSlack is room for what some versions of Loki add to an entry's
// metadata before they count it: detected_level and its value.
const metadataSlack = 64

// Suspects appends to dst one Suspect for each entry of the request, which must
// be given in the order in which it was pushed, times ascending. It is for
// Partial and Refused. An entry that several faults meet gets the one that Loki
// looks for first; one that is sure wins over one that is not.
func (v *Verdict) Suspects(dst []Suspect, entries []EntryFacts) []Suspect {
	base := len(dst)
	for range entries {
		dst = append(dst, Suspect{Fault: -1})
	}
	found := dst[base:]
	for i := range v.Faults {
		match := v.Faults[i].matcher(entries, v.Sharded)
		for j := range entries {
			if found[j].Sure {
				continue
			}
			switch match(j, &entries[j]) {
			case sure:
				found[j] = Suspect{Fault: i, Sure: true}
			case maybe:
				if found[j].Fault < 0 {
					found[j].Fault = i
				}
			}
		}
	}
	return dst
}

type match int

const (
	no match = iota
	maybe
	sure
)

func over(n int, limit int64, slack int) match {
	switch {
	case limit <= 0:
		return maybe
	case int64(n) > limit:
		return sure
	case int64(n) > limit-int64(slack):
		return maybe
	}
	return no
}

// matcher is the predicate of a fault for one request.
func (f *Fault) matcher(entries []EntryFacts, sharded bool) func(int, *EntryFacts) match {
	if f.WholeStream {
		return func(int, *EntryFacts) match { return sure }
	}
	switch f.Kind {
	case KindTooOld:
		return f.tooOld(entries)
	case KindTooNew:
		return f.tooNew(entries)
	case KindTooFarBehind:
		return f.tooFarBehind(entries, sharded)
	case KindLineTooLong:
		return func(_ int, e *EntryFacts) match { return over(e.LineBytes, f.Limit, 0) }
	case KindMetadataTooLarge:
		return func(_ int, e *EntryFacts) match { return over(e.MetadataBytes, f.Limit, metadataSlack) }
	case KindMetadataTooMany:
		return func(_ int, e *EntryFacts) match { return over(e.MetadataPairs, f.Limit, 1) }
	case KindMetadataDisallowed, KindMetadataName:
		hit := sure
		if f.Kind == KindMetadataName {
			hit = maybe // the text does not say which entry's
		}
		return func(_ int, e *EntryFacts) match {
			if e.MetadataPairs == 0 {
				return no
			}
			return hit
		}
	}
	return func(int, *EntryFacts) match { return maybe }
}

// tooOld: the limit is told in whole seconds, rounded down. What is older than
// that is refused for sure; in the second that follows, an entry is sure when
// the text names as many of its second as the request has.
func (f *Fault) tooOld(entries []EntryFacts) func(int, *EntryFacts) match {
	named := f.namedSeconds(entries)
	return func(_ int, e *EntryFacts) match {
		switch m := named[floorSecond(e.Time)]; {
		case m == sure, f.Oldest != 0 && e.Time < f.Oldest:
			return sure
		case m == maybe, f.Oldest != 0 && e.Time < f.Oldest+second:
			return maybe
		}
		return no
	}
}

// tooNew: the text names no limit, but what is newer than a refused entry is
// refused as well.
func (f *Fault) tooNew(entries []EntryFacts) func(int, *EntryFacts) match {
	named := f.namedSeconds(entries)
	if len(f.Named) == 0 {
		return func(int, *EntryFacts) match { return maybe }
	}
	first := f.Named[0].Time
	for _, n := range f.Named[1:] {
		first = min(first, n.Time)
	}
	return func(_ int, e *EntryFacts) match {
		if e.Time >= first+second {
			return sure
		}
		return named[floorSecond(e.Time)]
	}
}

// tooFarBehind: the ingester takes entries in order, with a limit that only the
// stream's newest entry moves, so of a request in time order it refuses the
// oldest ones. When it has seen all entries of the request, their number says
// which. Otherwise the limit that the text names does. Of a sharded stream,
// each shard has its own limit and only the last one's answer is seen.
func (f *Fault) tooFarBehind(entries []EntryFacts, sharded bool) func(int, *EntryFacts) match {
	exact := make(map[int64]bool, len(f.Named))
	for _, n := range f.Named {
		exact[n.Time] = true
	}
	oldestOnes := !sharded && f.refusedOldest(entries, exact)
	return func(i int, e *EntryFacts) match {
		switch {
		case exact[e.Time], oldestOnes && i < f.Ignored:
			return sure
		case oldestOnes:
			return no
		case f.Oldest != 0 && e.Time < f.Oldest && !sharded:
			return sure
		case f.Oldest == 0 || e.Time < f.Oldest+second:
			return maybe
		}
		return no
	}
}

// refusedOldest tells whether the refused are exactly the first Ignored ones.
func (f *Fault) refusedOldest(entries []EntryFacts, exact map[int64]bool) bool {
	if f.Ignored <= 0 || f.Total != len(entries) || f.Ignored > len(entries) {
		return false
	}
	last := entries[f.Ignored-1].Time
	if f.Ignored < len(entries) && entries[f.Ignored].Time <= last {
		return false
	}
	for t := range exact {
		if t > last {
			return false
		}
	}
	return true
}

// namedSeconds says of each whole second that the text names whether all
// entries of the request in it are refused.
func (f *Fault) namedSeconds(entries []EntryFacts) map[int64]match {
	seconds := make(map[int64]match, len(f.Named))
	for _, n := range f.Named {
		from := floorSecond(n.Time)
		have := countBetween(entries, from, from+second)
		if n.Count >= have {
			seconds[from] = sure
		} else {
			seconds[from] = maybe
		}
	}
	return seconds
}

func countBetween(entries []EntryFacts, from, to int64) int {
	i := sort.Search(len(entries), func(i int) bool { return entries[i].Time >= from })
	j := sort.Search(len(entries), func(i int) bool { return entries[i].Time >= to })
	return j - i
}

// floorSecond is the whole second that ns lies in.
func floorSecond(ns int64) int64 {
	s, _ := splitTime(ns)
	return s * second
}
