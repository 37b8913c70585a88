package loki

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"sf2loki/pkg/record"
	"sf2loki/pkg/secret"
	"sf2loki/pkg/sysexits"
)

// MaxBody bounds what is kept of an answer's body, in bytes. Loki's texts have
// no bound: 2,000 bad entries made 322 KB.
const MaxBody = 8 << 10

// Answer is what came back for one request.
type Answer struct {
	Status      int
	Body        []byte // at most MaxBody bytes
	ContentType string
	Location    string        // of a redirect, without userinfo and query
	RetryAfter  time.Duration // what the server asked for, capped; 0 nothing
	Err         error         // no answer: transport, time-out, context; holds no secret
	Sent        int64         // bytes of the request's body as sent, compressed

	secrets *secret.Set // what the request proved itself with, for the server may quote it
}

// Class says what an answer proves and who is at fault.
type Class int

// The classes. The zero Class is none of them.
const (
	_ Class = iota
	// Stored: every entry of the request is stored.
	Stored
	// Partial: the entries that the Faults explain were refused for good, all
	// others are stored. Faults is not a complete list: an ingester's text
	// replaces the distributor's. A Fault of WholeStream refuses all entries.
	Partial
	// Refused: nothing is stored, and an entry (or the stream's labels, then
	// the Fault is WholeStream) is at fault. With a Fault of KindOther the text
	// is not known, so what is stored is not either, and the fault may be a
	// configuration's after all: bisect, and blame an entry only once a part of
	// the same request without it was stored.
	Refused
	// TooLarge: nothing is stored; halve. Limit tells the size if named.
	TooLarge
	// RateLimited: the tenant's rate; nothing is stored. A request larger than
	// the burst is answered so for ever: split when it goes on.
	RateLimited
	// StreamRate: this stream's rate. A part may be stored; send the same again.
	StreamRate
	// StreamLimit: the tenant has too many active streams for this new one.
	// Nothing of this stream is stored; others may go on.
	StreamLimit
	// Busy: 5xx, transport, time-out. Whether it is stored is unknown.
	Busy
	// Misconfigured: refused for what no entry can help: credentials, path,
	// tenant, blocked ingestion, redirect, a body that could not be decoded.
	Misconfigured
	// NotLoki: the answer is somebody else's, a proxy's page for instance.
	NotLoki
)

// Kind names a fault by the reason that Loki itself counts it under
// (loki_discarded_samples_total{reason}), where it has one.
type Kind string

// The kinds of faults.
const (
	KindTooOld             Kind = "greater_than_max_sample_age"
	KindTooNew             Kind = "too_far_in_future"
	KindTooFarBehind       Kind = "too_far_behind"
	KindLineTooLong        Kind = "line_too_long"
	KindMetadataDisallowed Kind = "disallowed_structured_metadata"
	KindMetadataTooLarge   Kind = "structured_metadata_too_large"
	KindMetadataTooMany    Kind = "structured_metadata_too_many"
	KindMetadataName       Kind = "invalid_metadata_name" // a 500, not counted by Loki
	KindLabelCount         Kind = "max_label_names_per_series"
	KindLabelName          Kind = "label_name_too_long"
	KindLabelValue         Kind = "label_value_too_long"
	KindLabelDuplicate     Kind = "duplicate_label_names"
	KindLabelSyntax        Kind = "invalid_labels"
	KindNoLabels           Kind = "missing_labels"
	KindRequiredLabels     Kind = "missing_enforced_labels"
	KindReservedLabels     Kind = "reserved_labels"
	KindOther              Kind = "other" // a text of Loki's that is not known here
)

// Fault is one kind of refusal that an answer names, with what the text tells
// about the entries that it meets.
type Fault struct {
	Kind   Kind
	Reason record.Reason
	// WholeStream: the labels are at fault, so every entry of the request is.
	WholeStream bool
	// Stops: no entry will ever pass until the configuration is changed; the
	// breaker need not wait for a thousand of them.
	Stops bool

	Count int   // entries that the texts of this kind stand for, as far as read
	Limit int64 // the limit named: bytes, pairs, labels; 0 when none is
	// Oldest is the oldest acceptable time that the text names, in nanoseconds,
	// whole seconds rounded down; 0 when none is named.
	Oldest int64
	// Named are the times of refused entries, in the order of the text.
	Named []NamedTime
	// Ignored of Total entries of the stream (an ingester's text); Total counts
	// those that passed the distributor. 0 of 0: not told.
	Ignored, Total int
}

// NamedTime is a time that a text gives for refused entries, in nanoseconds:
// exact, or only the whole second that it lies in. Count entries have it.
type NamedTime struct {
	Time  int64
	Exact bool
	Count int
}

// Verdict is the meaning of an answer.
type Verdict struct {
	Class  Class
	Status int // 0: no answer
	// Detail is the server's own words (or the transport's error): valid UTF-8,
	// at most record.MaxDetail bytes. It may quote label values.
	Detail string
	// Hint is what an operator can do about it, where that is known.
	Hint string
	// Code is the exit status for giving up on this answer: 69, 77 or 78; OK
	// when Stored.
	Code       sysexits.Code
	RetryAfter time.Duration
	// Faults are the kinds of refusal of Partial and Refused, at least one.
	Faults []Fault
	// Limit is what the text names: TooLarge the bytes of a request, compressed
	// when LimitCompressed; RateLimited and StreamRate bytes per second.
	Limit           int64
	LimitCompressed bool
	// Bytes is the size of the request as RateLimited counted it.
	Bytes int64
	// Sharded: Loki deals this stream's entries over shards, so its answers
	// prove the last shard only.
	Sharded bool
}

// Late reports whether the fault is lateness: a refusal of that kind does not
// prove that the entry is absent, since Loki refuses repeats of what it holds
// as well.
func (f *Fault) Late() bool { return f.Kind == KindTooOld || f.Kind == KindTooFarBehind }

var classNames = [...]string{
	Stored: "stored", Partial: "partly refused", Refused: "refused", TooLarge: "too large",
	RateLimited: "rate limited", StreamRate: "stream rate limited", StreamLimit: "too many streams",
	Busy: "busy", Misconfigured: "misconfigured", NotLoki: "not an answer of Loki",
}

func (c Class) String() string {
	if c > 0 && int(c) < len(classNames) {
		return classNames[c]
	}
	return fmt.Sprintf("class %d", int(c))
}

// String is the verdict in one line for logs and error messages. Where the
// server's words may quote data, it names the kinds of fault instead.
func (v *Verdict) String() string {
	var b strings.Builder
	if v.Status != 0 {
		fmt.Fprintf(&b, "%d", v.Status)
		if text := http.StatusText(v.Status); text != "" {
			b.WriteString(" " + text)
		}
	}
	if len(v.Faults) > 0 {
		for i := range v.Faults {
			b.WriteString([]string{": ", ", "}[min(i, 1)])
			b.WriteString(string(v.Faults[i].Reason))
			if k := v.Faults[i].Kind; k != KindOther {
				b.WriteString(" (" + string(k) + ")")
			}
		}
		return b.String()
	}
	line, _, _ := strings.Cut(v.Detail, "\n")
	if line = cutText(line, 240); line != "" {
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(line)
	}
	return b.String()
}
