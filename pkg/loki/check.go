package loki

import "sf2loki/pkg/record"

// Problem is why an entry must not be sent: Loki would refuse it, or refuse
// the whole request for it, or store it damaged without a word.
type Problem struct {
	Reason record.Reason
	// Text says what is wrong for the dead letter's detail; it holds names,
	// sizes and times, never a line.
	Text string
}

// Check judges a whole entry: labels, then time, then metadata, the order in
// which Loki would. labels are those that will be sent, the hour label
// included. ts and now are nanoseconds since the epoch. nil: nothing is wrong.
func (l *Limits) Check(labels, metadata []record.Pair, ts, now int64) *Problem {
	if p := l.CheckLabels(labels); p != nil {
		return p
	}
	if p := l.CheckTime(ts, now); p != nil {
		return p
	}
	return l.CheckMetadata(metadata)
}

// CheckLabels judges the labels of a stream. Labels that repeat from entry to
// entry need it once. The reason is invalid_labels.
func (l *Limits) CheckLabels(labels []record.Pair) *Problem { return nil }

// CheckMetadata judges an entry's structured metadata: invalid_metadata,
// metadata_too_large, metadata_too_many.
func (l *Limits) CheckMetadata(metadata []record.Pair) *Problem { return nil }

// CheckTime judges an entry's age: too_old, too_new.
func (l *Limits) CheckTime(ts, now int64) *Problem { return nil }
