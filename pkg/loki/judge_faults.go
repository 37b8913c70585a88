package loki

import (
	"slices"
	"strconv"
	"strings"

	"sf2loki/pkg/record"
)

// readFaults reads the body of a 400. Errors of the distributor come as one
// bare text, or as `3 errors like: TEXT; 1 errors like: TEXT` in any order;
// an error of the ingester stands alone.
func readFaults(b *body) ([]Fault, Class) {
	text := b.bare()
	if f, ok := requestFault(text); ok {
		return []Fault{f}, Refused
	}
	var faults []Fault
	class := Partial
	for _, e := range elements(text) {
		f, ok := entryFault(e.text)
		if !ok && b.cut && e.last {
			break // the rest of it was not kept
		}
		if !ok {
			f = Fault{Kind: KindOther, Reason: record.BadRequest}
		}
		if f.Count == 0 {
			f.Count = e.count
		}
		for i := range f.Named {
			f.Named[i].Count = max(f.Named[i].Count, e.count)
		}
		faults = addFault(faults, f)
		if f.WholeStream {
			break // what follows can be a label's own text
		}
	}
	if len(faults) == 0 {
		faults = []Fault{{Kind: KindOther, Reason: record.BadRequest}}
	}
	if len(faults) == 1 && faults[0].Kind == KindOther {
		class = Refused
	}
	slices.SortStableFunc(faults, func(a, b Fault) int { return judgedAt(a.Kind) - judgedAt(b.Kind) })
	return faults, class
}

type element struct {
	count int
	text  string
	last  bool
}

const errorsLike = " errors like: "

// elements takes a list of distributor errors apart.
func elements(text string) []element {
	count, rest, ok := countedError(text)
	if !ok {
		return []element{{count: 1, text: text, last: true}}
	}
	var list []element
	for {
		end, next, nextCount := len(rest), "", 0
		for from := 0; ; {
			i := strings.Index(rest[from:], "; ")
			if i < 0 {
				break
			}
			from += i + 2
			if n, after, ok := countedError(rest[from:]); ok {
				end, next, nextCount = from-2, after, n
				break
			}
		}
		list = append(list, element{count: count, text: rest[:end], last: nextCount == 0})
		if nextCount == 0 {
			return list
		}
		count, rest = nextCount, next
	}
}

func countedError(text string) (count int, rest string, ok bool) {
	end := 0
	for end < len(text) && end < 9 && isDigit(text[end]) {
		end++
	}
	if end == 0 || !strings.HasPrefix(text[end:], errorsLike) {
		return 0, "", false
	}
	count, err := strconv.Atoi(text[:end])
	return count, text[end+len(errorsLike):], err == nil && count > 0
}

// requestFault knows the texts of the push parser that an entry's labels are to
// blame for: the request was refused whole.
func requestFault(text string) (Fault, bool) {
	f := Fault{Reason: record.InvalidLabels, WholeStream: true}
	switch {
	case strings.HasPrefix(text, "couldn't parse labels: "):
		f.Kind = KindLabelSyntax
	case strings.HasPrefix(text, "streams must not contain the reserved labels "):
		f.Kind = KindReservedLabels
	case strings.HasPrefix(text, "cannot read Loki ") && strings.Contains(text, "cannot parse labels"): // VictoriaLogs
		f.Kind = KindLabelSyntax
	default:
		return Fault{}, false
	}
	return f, true
}

// entryFault knows the texts of distributor and ingester about one entry or
// one stream, label sets already taken out.
func entryFault(text string) (Fault, bool) {
	switch {
	case strings.HasPrefix(text, "entry for stream '{}' has "):
		return timeFault(text, strings.TrimPrefix(text, "entry for stream '{}' has "))
	case strings.HasPrefix(text, "stream '{}' "):
		return streamFault(strings.TrimPrefix(text, "stream '{}' "))
	case strings.HasPrefix(text, "max entry size '"), strings.HasPrefix(text, "Max entry size '"):
		limit := numberAfter(text, "entry size '")
		return Fault{Kind: KindLineTooLong, Reason: record.LineTooLong, Limit: limit}, limit > 0
	case strings.HasPrefix(text, "entry with timestamp "):
		return ingesterFault(text)
	case strings.HasPrefix(text, "missing required labels '"):
		return Fault{Kind: KindRequiredLabels, Reason: record.InvalidLabels, WholeStream: true, Stops: true}, true
	case strings.HasPrefix(text, "error at least one label pair is required"):
		return Fault{Kind: KindNoLabels, Reason: record.InvalidLabels, WholeStream: true}, true
	case strings.HasPrefix(text, "error parsing labels '"):
		return Fault{Kind: KindLabelSyntax, Reason: record.InvalidLabels, WholeStream: true}, true
	}
	return Fault{}, false
}

func timeFault(text, rest string) (Fault, bool) {
	switch {
	case strings.HasPrefix(rest, "timestamp too old: "):
		f := Fault{Kind: KindTooOld, Reason: record.TooOld}
		f.Oldest, _ = timeAfter(rest, "oldest acceptable timestamp is: ")
		f.addNamed(timeAfter(rest, "timestamp too old: "))
		return f, true
	case strings.HasPrefix(rest, "timestamp too new: "):
		f := Fault{Kind: KindTooNew, Reason: record.TooNew}
		f.addNamed(timeAfter(rest, "timestamp too new: "))
		return f, true
	case strings.Contains(rest, " label names; limit "):
		return Fault{Kind: KindLabelCount, Reason: record.InvalidLabels, WholeStream: true,
			Limit: numberAfter(text, "; limit ")}, true
	}
	return Fault{}, false
}

func (f *Fault) addNamed(ns int64, ok bool) {
	if ok {
		f.Named = append(f.Named, NamedTime{Time: ns, Count: 1})
	}
}

// streamFault knows what Loki says of a stream, and of the metadata of one of
// its entries.
func streamFault(rest string) (Fault, bool) {
	switch {
	case strings.HasPrefix(rest, "has label value too long: "):
		return Fault{Kind: KindLabelValue, Reason: record.InvalidLabels, WholeStream: true}, true
	case strings.HasPrefix(rest, "has label name too long: "):
		return Fault{Kind: KindLabelName, Reason: record.InvalidLabels, WholeStream: true}, true
	case strings.HasPrefix(rest, "has duplicate label name: "):
		return Fault{Kind: KindLabelDuplicate, Reason: record.InvalidLabels, WholeStream: true}, true
	case strings.HasPrefix(rest, "includes structured metadata, but this feature is disallowed"):
		return Fault{Kind: KindMetadataDisallowed, Reason: record.MetadataDisallowed, Stops: true}, true
	case strings.HasPrefix(rest, "has structured metadata too large: "):
		limit := numberAfter(rest, "limit: '")
		return Fault{Kind: KindMetadataTooLarge, Reason: record.MetadataTooLarge, Limit: limit}, limit > 0
	case strings.HasPrefix(rest, "has too many structured metadata labels: "):
		limit := numberAfter(rest, "limit: '")
		return Fault{Kind: KindMetadataTooMany, Reason: record.MetadataTooMany, Limit: limit}, limit > 0
	}
	return Fault{}, false
}

// goTime is how Go prints a time, and so how an ingester names an entry.
const goTime = "2006-01-02 15:04:05.999999999 -0700 MST"

// ingesterFault reads the ingester's list: at most ten entries by their exact
// times, then how many there are. Servers before Loki 2.4 say "entry out of
// order" of what is not the newest.
func ingesterFault(text string) (Fault, bool) {
	f := Fault{Kind: KindTooFarBehind, Reason: record.TooFarBehind}
	for line := range strings.SplitSeq(text, "\n") {
		rest, found := strings.CutPrefix(line, "entry with timestamp ")
		if !found {
			continue
		}
		when, why, found := strings.Cut(rest, " ignored, reason: '")
		if !found {
			continue
		}
		if !strings.HasPrefix(why, "entry too far behind") && !strings.HasPrefix(why, "entry out of order") {
			return Fault{}, false
		}
		if ns, ok := parseTime(when, goTime); ok {
			f.Named = append(f.Named, NamedTime{Time: ns, Exact: true, Count: 1})
		}
		if ns, ok := timeAfter(why, "oldest acceptable timestamp is: "); ok && (f.Oldest == 0 || ns < f.Oldest) {
			f.Oldest = ns
		}
	}
	if len(f.Named) == 0 {
		return Fault{}, false
	}
	f.Ignored = int(numberAfter(text, "total ignored: "))
	if f.Ignored > 0 {
		_, after, _ := strings.Cut(text, "total ignored: ")
		f.Total = int(numberAfter(after, " out of "))
	}
	f.Count = max(f.Ignored, len(f.Named))
	return f, true
}

// addFault adds f, or what it tells to the fault of its kind that is there.
func addFault(faults []Fault, f Fault) []Fault {
	for i := range faults {
		have := &faults[i]
		if have.Kind != f.Kind {
			continue
		}
		have.Count += f.Count
		have.Named = append(have.Named, f.Named...)
		have.Limit = max(have.Limit, f.Limit)
		if have.Oldest == 0 || f.Oldest != 0 && f.Oldest < have.Oldest {
			have.Oldest = f.Oldest
		}
		return faults
	}
	return append(faults, f)
}

// judgeOrder is the order in which Loki looks for the kinds: an entry is
// refused for the first that meets it.
var judgeOrder = []Kind{
	KindReservedLabels, KindLabelSyntax, KindNoLabels, KindLabelCount, KindLabelName, KindLabelValue,
	KindLabelDuplicate, KindRequiredLabels, KindTooOld, KindTooNew, KindLineTooLong, KindMetadataDisallowed,
	KindMetadataTooLarge, KindMetadataTooMany, KindMetadataName, KindTooFarBehind, KindOther,
}

func judgedAt(k Kind) int { return slices.Index(judgeOrder, k) }
