package lokitest

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// discard is one series of loki_discarded_samples_total.
type discard struct{ tenant, reason string }

// accepted is a stream on its way to the ingester, with the entries that
// passed.
type accepted struct {
	labels  string
	pairs   []Label
	entries []Entry
}

// texts are a push's errors, grouped by their words as Loki does it.
type texts struct {
	counts map[string]int
	total  int
}

func (t *texts) add(format string, args ...any) {
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.counts[fmt.Sprintf(format, args...)]++
	t.total++
}

// String joins the groups in an order that is never the same; a single error
// stands bare.
func (t *texts) String() string {
	var groups []string
	for text, n := range t.counts {
		if t.total == 1 {
			return text
		}
		groups = append(groups, fmt.Sprintf("%d errors like: %s", n, text))
	}
	rand.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	return strings.Join(groups, "; ")
}

// distributor judges one push. s.mu is held.
type distributor struct {
	s        *Server
	t        *tenant
	now      time.Time
	backfill string
	errors   texts
	blocked  bool
	lines    int
	bytes    int
	streams  []accepted
}

func (d *distributor) discard(reason string, n int) {
	d.s.metrics[discard{d.t.name, reason}] += n
	d.s.stats.Discarded[reason] += n
}

// stream judges one stream and its entries. An error is one that loses the
// whole push.
func (d *distributor) stream(p pushed, labels []Label) *refusal {
	l := &d.t.limits
	if d.backfill != "" {
		labels = append(labels, Label{"__backfill__", "true"}, Label{"__backfill_shard__", d.backfill})
		sortLabels(labels)
	}
	labels = addServiceName(labels, l.DiscoverServiceName)
	name := labelString(labels)
	if reason := d.labels(name, labels); reason != "" {
		d.discard("invalid_labels", len(p.entries))
		d.discard(reason, len(p.entries))
		return nil
	}
	if missing := missingLabels(labels, l.EnforcedLabels); missing != "" {
		d.errors.add("missing required labels '%s' for user '%s' for stream '%s' (policy: '')", missing, d.t.name, name)
		d.discard("missing_enforced_labels", len(p.entries))
		return nil
	}
	if d.now.Before(l.BlockUntil) {
		d.blocked = true
		d.discard("blocked_ingestion", len(p.entries))
		return nil
	}
	ok := accepted{labels: name, pairs: labels}
	before := int64(0) // the time that the last accepted entry came with
	for i := range p.entries {
		e, passed, refused := d.entry(name, labels, &p.entries[i])
		if refused != nil {
			return refused
		}
		if passed {
			pushedAt := e.Nanos
			if n := len(ok.entries); n > 0 && l.IncrementDuplicateTimestamp && e.Nanos == before && e.Line != ok.entries[n-1].Line {
				e.Nanos = ok.entries[n-1].Nanos + 1
			}
			before = pushedAt
			ok.entries = append(ok.entries, e)
			d.lines++
			d.bytes += size(&e)
		}
	}
	if len(ok.entries) > 0 {
		d.streams = append(d.streams, ok)
	}
	return nil
}

// labels returns Loki's reason against the label set.
func (d *distributor) labels(name string, labels []Label) string {
	l := &d.t.limits
	count := len(labels)
	for _, label := range labels {
		if label.Name == "service_name" {
			count--
		}
	}
	switch {
	case len(labels) == 0:
		d.errors.add("error at least one label pair is required per stream")
		return "missing_labels"
	case count > l.MaxLabelNames:
		d.errors.add("entry for stream '%s' has %d label names; limit %d", name, count, l.MaxLabelNames)
		return "max_label_names_per_series"
	}
	last := ""
	for _, label := range labels {
		switch {
		case len(label.Name) > l.MaxLabelNameLength:
			d.errors.add("stream '%s' has label name too long: '%s'", name, label.Name)
			return "label_name_too_long"
		case len(label.Value) > l.MaxLabelValueLength:
			d.errors.add("stream '%s' has label value too long: '%s'", name, label.Value)
			return "label_value_too_long"
		case label.Name == last:
			d.errors.add("stream '%s' has duplicate label name: '%s'", name, label.Name)
			return "duplicate_label_names"
		}
		last = label.Name
	}
	return ""
}

func missingLabels(labels []Label, enforced []string) string {
	var missing []string
	for _, name := range enforced {
		found := false
		for _, l := range labels {
			found = found || l.Name == name
		}
		if !found {
			missing = append(missing, name)
		}
	}
	return strings.Join(missing, ",")
}

// entry judges one entry: the first reason against it is the only one.
func (d *distributor) entry(stream string, labels []Label, in *entry) (e Entry, ok bool, lost *refusal) {
	l := &d.t.limits
	when := time.Unix(in.seconds, int64(in.nanos)).UTC()
	e = Entry{Stream: stream, Labels: labels, Nanos: in.seconds*1e9 + int64(in.nanos), Line: in.line, Metadata: in.metadata}
	oldest := d.now.Add(-l.RejectOldAge)
	metadata := 0
	for _, m := range in.metadata {
		metadata += len(m.Name) + len(m.Value)
	}
	refused := func(reason, format string, args ...any) (Entry, bool, *refusal) {
		d.errors.add(format, args...)
		d.discard(reason, 1)
		return e, false, nil
	}
	switch {
	case d.backfill == "" && l.RejectOldAge > 0 && e.Nanos < oldest.UnixNano():
		return refused("greater_than_max_sample_age", "entry for stream '%s' has timestamp too old: %v, oldest acceptable timestamp is: %v",
			stream, when.Format(time.RFC3339), oldest.UTC().Format(time.RFC3339))
	case e.Nanos > d.now.Add(l.CreationGrace).UnixNano():
		return refused("too_far_in_future", "entry for stream '%s' has timestamp too new: %v", stream, when.Format(time.RFC3339))
	case len(e.Line) > l.MaxLineSize && !l.MaxLineSizeTruncate:
		return refused("line_too_long", "max entry size '%d' bytes exceeded for stream '%s' while adding an entry with length '%d' bytes",
			l.MaxLineSize, stream, len(e.Line))
	case len(in.metadata) > 0 && !l.AllowStructuredMetadata:
		return refused("disallowed_structured_metadata", "stream '%s' includes structured metadata, but this feature is disallowed. "+
			"Please see `limits_config.allow_structured_metadata` or contact your Loki administrator to enable it", stream)
	case metadata > l.MaxMetadataSize:
		return refused("structured_metadata_too_large", "stream '%s' has structured metadata too large: '%d' bytes, limit: '%d' bytes. "+
			"Please see `limits_config.max_structured_metadata_size` or contact your Loki administrator to increase it",
			stream, metadata, l.MaxMetadataSize)
	case len(in.metadata) > l.MaxMetadataCount:
		return refused("structured_metadata_too_many", "stream '%s' has too many structured metadata labels: '%d', limit: '%d'. "+
			"Please see `limits_config.max_structured_metadata_entries_count` or contact your Loki administrator to increase it",
			stream, len(in.metadata), l.MaxMetadataCount)
	}
	if len(e.Line) > l.MaxLineSize {
		e.Line = e.Line[:l.MaxLineSize] // bytes, also inside a character
	}
	var err error
	if e.Metadata, err = normalize(in.metadata); err != nil {
		return e, false, refuse(http.StatusInternalServerError, "%s", err)
	}
	if d.s.config.Refuse != nil {
		if text := d.s.config.Refuse(e); text != "" {
			return refused("refused", "%s", text)
		}
	}
	if l.DiscoverLogLevels {
		e.Metadata = addDetectedLevel(e.Metadata, labels, e.Line)
	}
	return e, true, nil
}

func size(e *Entry) int {
	n := len(e.Line)
	for _, l := range e.Metadata {
		n += len(l.Name) + len(l.Value)
	}
	return n
}

// push judges and stores a push of a tenant, and returns the answer; nil is
// 204. s.mu is held.
func (s *Server) push(name, backfill string, streams []pushed, labels [][]Label) *refusal {
	t := s.tenant(name)
	d := distributor{s: s, t: t, now: s.config.Now(), backfill: backfill}
	for i, p := range streams {
		if len(p.entries) == 0 {
			continue
		}
		if lost := d.stream(p, labels[i]); lost != nil {
			return lost
		}
	}
	if len(d.streams) > 0 {
		if !t.allow(s, d.bytes) {
			d.discard("rate_limited", d.lines)
			return refuse(http.StatusTooManyRequests, "ingestion rate limit exceeded for user %s (limit: %d bytes/sec) while attempting to ingest "+
				"'%d' lines totaling '%d' bytes, reduce log volume or contact your Loki administrator to see if the limit can be increased",
				name, t.limits.IngestionRate, d.lines, d.bytes)
		}
		sharded := t.shard(d.streams, d.now)
		if n := grpcSize(sharded); n > t.limits.GRPCMaxRecvMsgSize {
			return refuse(http.StatusInternalServerError, "rpc error: code = ResourceExhausted desc = grpc: received message larger than max (%d vs. %d)",
				n, t.limits.GRPCMaxRecvMsgSize)
		}
		if refused := s.ingest(&d, sharded); refused != nil {
			return refused // in the place of what the distributor found
		}
	}
	switch {
	case d.errors.total > 0:
		return refuse(http.StatusBadRequest, "%s", d.errors.String())
	case d.blocked && t.limits.BlockStatus != http.StatusOK:
		return refuse(t.limits.BlockStatus, "ingestion blocked for user '%s' until '%s' with status code '%d'",
			name, t.limits.BlockUntil.UTC().Format(time.RFC3339), t.limits.BlockStatus)
	}
	return nil
}
