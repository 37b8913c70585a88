package loki

import (
	"fmt"
	"time"
	"unicode/utf8"

	"sf2loki/pkg/record"
)

// Problem is why an entry must not be sent: Loki would refuse it, or refuse
// the whole request for it, or store it damaged without a word.
type Problem struct {
	Reason record.Reason
	// Text says what is wrong, for a dead letter's detail: names, sizes and
	// times, never a line or a value.
	Text string
}

func problem(reason record.Reason, format string, args ...any) *Problem {
	return &Problem{Reason: reason, Text: fmt.Sprintf(format, args...)}
}

// The labels that Loki itself adds to what comes with its backfill header; a
// request that brings them is refused whole.
const (
	backfillLabel      = "__backfill__"
	backfillShardLabel = "__backfill_shard__"
)

// CheckLabels judges the labels of a stream; those that repeat from entry to
// entry need it once. The reason is always invalid_labels. Found are: what
// Loki's parser cannot read, which costs the whole request (names that are not
// [a-zA-Z_][a-zA-Z0-9_]*, values that hold U+FFFD or invalid UTF-8, Loki's own
// backfill labels), names that repeat (some servers die of them), a set without
// a single value, and more or longer labels than the limits allow. Labels with
// an empty value are not sent and not counted.
func (l *Limits) CheckLabels(labels []record.Pair) *Problem {
	sent := 0
	for i := range labels {
		name, value := labels[i].Name, labels[i].Value
		if p := checkLabelName(name); p != nil {
			return p
		}
		if len(value) == 0 {
			continue
		}
		sent++
		if l.LabelName > 0 && len(name) > l.LabelName {
			return problem(record.InvalidLabels, "label name of %d bytes, limit %d", len(name), l.LabelName)
		}
		if l.LabelValue > 0 && len(value) > l.LabelValue {
			return problem(record.InvalidLabels, "value of label %q has %d bytes, limit %d", name, len(value), l.LabelValue)
		}
		if !readableValue(value) {
			return problem(record.InvalidLabels, "value of label %q holds U+FFFD or invalid UTF-8", name)
		}
	}
	if l.Labels > 0 && sent > l.Labels {
		return problem(record.InvalidLabels, "%d labels, limit %d", sent, l.Labels)
	}
	if name := repeated(labels); name != nil {
		return problem(record.InvalidLabels, "label %q is there twice", name)
	}
	if sent == 0 {
		return problem(record.InvalidLabels, "no label with a value")
	}
	return nil
}

// fewPairs are compared with each other faster than they are put into a map.
const fewPairs = 32

// repeated returns a name that two pairs have.
func repeated(pairs []record.Pair) []byte {
	if len(pairs) > fewPairs {
		seen := make(map[string]struct{}, len(pairs))
		for i := range pairs {
			seen[string(pairs[i].Name)] = struct{}{}
			if len(seen) == i {
				return pairs[i].Name
			}
		}
		return nil
	}
	for i := range pairs {
		if hasPair(pairs[:i], pairs[i].Name) {
			return pairs[i].Name
		}
	}
	return nil
}

// checkLabelName keeps to the classic syntax: Loki takes quoted UTF-8 names
// too, and then fails every query that touches their stream.
func checkLabelName(name []byte) *Problem {
	if len(name) == 0 {
		return problem(record.InvalidLabels, "label with an empty name")
	}
	for i, c := range name {
		if !isLetter(c) && c != '_' && (i == 0 || !isDigit(c)) {
			return problem(record.InvalidLabels, "label name %.80q is not [a-zA-Z_][a-zA-Z0-9_]*", name)
		}
	}
	if string(name) == backfillLabel || string(name) == backfillShardLabel {
		return problem(record.InvalidLabels, "label %q is reserved by Loki", name)
	}
	return nil
}

// readableValue tells whether Loki's label parser reads the value: it takes
// U+FFFD, which replaces invalid bytes, for an invalid byte itself.
func readableValue(v []byte) bool {
	for i := 0; i < len(v); {
		if v[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRune(v[i:])
		if r == utf8.RuneError {
			return false
		}
		i += n
	}
	return true
}

// CheckTime judges an entry's age: too_old when it is older than MaxAge,
// too_new when it is further ahead of now than MaxFuture. ts and now are
// nanoseconds since the epoch.
func (l *Limits) CheckTime(ts, now int64) *Problem {
	if l.MaxAge > 0 {
		if oldest := now - int64(l.MaxAge); ts < oldest && oldest <= now {
			return problem(record.TooOld, "time %s, oldest acceptable %s", showTime(ts), showTime(oldest))
		}
	}
	if l.MaxFuture > 0 {
		if newest := now + int64(l.MaxFuture); ts > newest && newest >= now {
			return problem(record.TooNew, "time %s, newest acceptable %s", showTime(ts), showTime(newest))
		}
	}
	return nil
}

func showTime(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
