// Package table turns dead letters into the rows of a table, and writes such
// tables as files of other formats. sf2loki-deadletter(5) describes the
// columns, which are the same in all of them.
package table

import (
	"strings"
	"time"

	"sf2loki/pkg/spool"
)

// Row is one dead letter. Times are in microseconds since the epoch, for all
// formats have that; the entry's own, to the nanosecond, stands in TSUnixNano.
// A field that is nil or, for a time, zero is absent.
type Row struct {
	ID          string  `parquet:"id"`
	RunID       *string `parquet:"run_id,optional,dict"`
	Org         *string `parquet:"org,optional,dict"`
	Tenant      *string `parquet:"tenant,optional,dict"`
	Instance    *string `parquet:"instance,optional,dict"`
	Source      *string `parquet:"source,optional,dict"`
	Entity      *string `parquet:"entity,optional,dict"` // the event type
	SourceFile  *string `parquet:"source_file,optional,dict"`
	Origin      *string `parquet:"origin,optional"`
	EventTime   int64   `parquet:"event_time,optional,timestamp(microsecond)"`
	TSUnixNano  *int64  `parquet:"ts_unix_nano,optional"`
	RejectedAt  int64   `parquet:"rejected_at,optional,timestamp(microsecond)"`
	FirstAt     int64   `parquet:"first_rejected_at,optional,timestamp(microsecond)"`
	Reason      *string `parquet:"reason,optional,dict"`
	HTTPStatus  int32   `parquet:"http_status"`
	Detail      *string `parquet:"detail,optional"`
	Stage       *string `parquet:"stage,optional,dict"`
	Attempts    int32   `parquet:"attempts"`
	MaybeStored bool    `parquet:"maybe_stored"`
	Truncated   bool    `parquet:"truncated"`
	Errors      *string `parquet:"errors,optional"`
	Status      string  `parquet:"replay_status,dict"`
	ReplayedAt  int64   `parquet:"replayed_at,optional,timestamp(microsecond)"` // or failed, or discarded
	Labels      *string `parquet:"labels,optional"`
	Metadata    *string `parquet:"structured_metadata,optional"`
	Line        *string `parquet:"line,optional"`
	Payload     *string `parquet:"payload_base64,optional"`
	SchemaID    *string `parquet:"schema_id,optional,dict"`
	Key         *string `parquet:"checkpoint_key,optional,dict"`
	Value       *string `parquet:"checkpoint_value,optional"`
	File        string  `parquet:"file,dict"`
	FileLine    int64   `parquet:"file_line"`
}

// RowOf is the row of a letter that lies in a file of that path. It shares
// nothing with the letter.
func RowOf(file string, l *spool.Letter, status spool.Status) Row {
	refusal := l.Refusal()
	r := Row{
		ID: l.ID().String(), RunID: some(refusal.RunID), Org: some(l.Org()), Tenant: some(refusal.Tenant), Instance: some(refusal.Instance),
		Source: some(l.Label("source")), Entity: some(l.Label("event_type")),
		Reason: some(string(refusal.Reason)), HTTPStatus: int32(refusal.Status), Detail: some(refusal.Detail), Stage: some(refusal.Stage),
		Attempts: int32(l.Attempts()), MaybeStored: refusal.MaybeStored, Truncated: refusal.Truncated,
		Errors: some(l.EnvelopeText("errors")), Status: string(status), ReplayedAt: micros(l.FateAt, l.FateAt != 0 && status != spool.New),
		Labels: some(l.Text("labels")), Metadata: some(l.Text("structured_metadata")),
		Payload: field(l, "payload_base64"), SchemaID: field(l, "schema_id"),
		Key: field(l, "checkpoint_key"), Value: field(l, "checkpoint_value"),
		File: valid(file), FileLine: l.Line,
	}
	r.Origin = field(l, "origin")
	r.SourceFile = sourceFile(r.Origin)
	if at, ok := l.Time(); ok {
		r.EventTime, r.TSUnixNano = micros(at, true), &at
	}
	r.RejectedAt = micros(l.Captured())
	r.FirstAt = r.RejectedAt
	if first, err := time.Parse(time.RFC3339Nano, l.Envelope("first_captured_at")); err == nil {
		r.FirstAt = first.UnixMicro()
	}
	if l.HasLine() {
		line := valid(string(l.EntryLine()))
		r.Line = &line
	}
	return r
}

// sourceFile is the origin without the row that it ends with.
func sourceFile(origin *string) *string {
	if origin == nil {
		return nil
	}
	i := strings.LastIndexByte(*origin, ':')
	if i <= 0 || strings.Trim((*origin)[i+1:], "0123456789") != "" {
		return origin
	}
	return some((*origin)[:i])
}

func micros(ns int64, ok bool) int64 {
	if !ok {
		return 0
	}
	return time.Unix(0, ns).UnixMicro()
}

// some is nil for an empty text: what is absent from a letter reads as that.
func some(s string) *string {
	if s == "" || s == "null" {
		return nil
	}
	s = valid(s)
	return &s
}

func field(l *spool.Letter, name string) *string {
	s, ok := l.TopField(name)
	if !ok {
		return nil
	}
	return some(s)
}

// valid is s in valid UTF-8, as tables want their texts.
func valid(s string) string { return strings.Clone(strings.ToValidUTF8(s, "\uFFFD")) }

// size is about how much memory a row takes.
func (r *Row) size() int {
	n := 256 + len(r.ID) + len(r.File)
	for _, s := range []*string{r.Line, r.Payload, r.Labels, r.Metadata, r.Errors, r.Detail, r.Value, r.Origin} {
		if s != nil {
			n += len(*s)
		}
	}
	return n
}
