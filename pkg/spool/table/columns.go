package table

// Kind is what the values of a column are.
type Kind int

// The kinds.
const (
	Text Kind = iota
	Int
	Bool
	Time // microseconds since the epoch
)

// Column is a column of the table.
type Column struct {
	Name     string
	Kind     Kind
	Required bool
	// Value is a string, an int64 or a bool, by Kind; nil when it is absent.
	Value func(r *Row) any
}

// Columns are the columns, in their order: those of Row.
func Columns() []Column { return append([]Column(nil), columns...) }

var columns = []Column{
	{"id", Text, true, func(r *Row) any { return r.ID }},
	{"run_id", Text, false, func(r *Row) any { return text(r.RunID) }},
	{"org", Text, false, func(r *Row) any { return text(r.Org) }},
	{"tenant", Text, false, func(r *Row) any { return text(r.Tenant) }},
	{"instance", Text, false, func(r *Row) any { return text(r.Instance) }},
	{"source", Text, false, func(r *Row) any { return text(r.Source) }},
	{"entity", Text, false, func(r *Row) any { return text(r.Entity) }},
	{"source_file", Text, false, func(r *Row) any { return text(r.SourceFile) }},
	{"origin", Text, false, func(r *Row) any { return text(r.Origin) }},
	{"event_time", Time, false, func(r *Row) any { return instant(r.EventTime) }},
	{"ts_unix_nano", Int, false, func(r *Row) any { return number(r.TSUnixNano) }},
	{"rejected_at", Time, false, func(r *Row) any { return instant(r.RejectedAt) }},
	{"first_rejected_at", Time, false, func(r *Row) any { return instant(r.FirstAt) }},
	{"reason", Text, false, func(r *Row) any { return text(r.Reason) }},
	{"http_status", Int, true, func(r *Row) any { return int64(r.HTTPStatus) }},
	{"detail", Text, false, func(r *Row) any { return text(r.Detail) }},
	{"stage", Text, false, func(r *Row) any { return text(r.Stage) }},
	{"attempts", Int, true, func(r *Row) any { return int64(r.Attempts) }},
	{"maybe_stored", Bool, true, func(r *Row) any { return r.MaybeStored }},
	{"truncated", Bool, true, func(r *Row) any { return r.Truncated }},
	{"errors", Text, false, func(r *Row) any { return text(r.Errors) }},
	{"replay_status", Text, true, func(r *Row) any { return r.Status }},
	{"replayed_at", Time, false, func(r *Row) any { return instant(r.ReplayedAt) }},
	{"labels", Text, false, func(r *Row) any { return text(r.Labels) }},
	{"structured_metadata", Text, false, func(r *Row) any { return text(r.Metadata) }},
	{"line", Text, false, func(r *Row) any { return text(r.Line) }},
	{"payload_base64", Text, false, func(r *Row) any { return text(r.Payload) }},
	{"schema_id", Text, false, func(r *Row) any { return text(r.SchemaID) }},
	{"checkpoint_key", Text, false, func(r *Row) any { return text(r.Key) }},
	{"checkpoint_value", Text, false, func(r *Row) any { return text(r.Value) }},
	{"file", Text, true, func(r *Row) any { return r.File }},
	{"file_line", Int, true, func(r *Row) any { return r.FileLine }},
}

func text(s *string) any {
	if s == nil {
		return nil
	}
	return *s
}

func number(n *int64) any {
	if n == nil {
		return nil
	}
	return *n
}

func instant(micros int64) any {
	if micros == 0 {
		return nil
	}
	return micros
}
