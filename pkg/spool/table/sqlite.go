package table

import (
	"database/sql"
	"net/url"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver
)

// column is a column of an SQLite table, and where its value comes from.
type column struct {
	name, kind string
	value      func(r *Row) any
}

// columns are those of Row, in its order. Times are text of RFC 3339, which
// sorts, and which SQLite's own functions understand.
var columns = []column{
	{"id", "TEXT NOT NULL", func(r *Row) any { return r.ID }},
	{"run_id", "TEXT", func(r *Row) any { return r.RunID }},
	{"org", "TEXT", func(r *Row) any { return r.Org }},
	{"tenant", "TEXT", func(r *Row) any { return r.Tenant }},
	{"instance", "TEXT", func(r *Row) any { return r.Instance }},
	{"source", "TEXT", func(r *Row) any { return r.Source }},
	{"entity", "TEXT", func(r *Row) any { return r.Entity }},
	{"source_file", "TEXT", func(r *Row) any { return r.SourceFile }},
	{"origin", "TEXT", func(r *Row) any { return r.Origin }},
	{"event_time", "TEXT", func(r *Row) any { return timeText(r.EventTime) }},
	{"ts_unix_nano", "INTEGER", func(r *Row) any { return r.TSUnixNano }},
	{"rejected_at", "TEXT", func(r *Row) any { return timeText(r.RejectedAt) }},
	{"first_rejected_at", "TEXT", func(r *Row) any { return timeText(r.FirstAt) }},
	{"reason", "TEXT", func(r *Row) any { return r.Reason }},
	{"http_status", "INTEGER NOT NULL", func(r *Row) any { return r.HTTPStatus }},
	{"detail", "TEXT", func(r *Row) any { return r.Detail }},
	{"stage", "TEXT", func(r *Row) any { return r.Stage }},
	{"attempts", "INTEGER NOT NULL", func(r *Row) any { return r.Attempts }},
	{"maybe_stored", "INTEGER NOT NULL", func(r *Row) any { return r.MaybeStored }},
	{"truncated", "INTEGER NOT NULL", func(r *Row) any { return r.Truncated }},
	{"errors", "TEXT", func(r *Row) any { return orNull(r.Errors) }},
	{"replay_status", "TEXT NOT NULL", func(r *Row) any { return r.Status }},
	{"replayed_at", "TEXT", func(r *Row) any { return timeText(r.ReplayedAt) }},
	{"labels", "TEXT", func(r *Row) any { return orNull(r.Labels) }},
	{"structured_metadata", "TEXT", func(r *Row) any { return orNull(r.Metadata) }},
	{"line", "TEXT", func(r *Row) any { return r.Line }},
	{"payload_base64", "TEXT", func(r *Row) any { return r.Payload }},
	{"schema_id", "TEXT", func(r *Row) any { return r.SchemaID }},
	{"checkpoint_key", "TEXT", func(r *Row) any { return r.Key }},
	{"checkpoint_value", "TEXT", func(r *Row) any { return r.Value }},
	{"file", "TEXT NOT NULL", func(r *Row) any { return r.File }},
	{"file_line", "INTEGER NOT NULL", func(r *Row) any { return r.FileLine }},
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func timeText(micros int64) any {
	if micros == 0 {
		return nil
	}
	return time.UnixMicro(micros).UTC().Format("2006-01-02T15:04:05.000000Z")
}

// tableName is the table's name in an SQLite file.
const tableName = "dead_letters"

type sqliteWriter struct {
	db     *sql.DB
	tx     *sql.Tx
	insert *sql.Stmt
	values []any
}

// NewSQLite makes a table in the SQLite file of that path, which must be empty.
// Nothing is on the disk for certain before the file has been synced after
// Close: it is a file that nobody else knows of yet.
func NewSQLite(path string) (Writer, error) {
	dsn := url.URL{Scheme: "file", OmitHost: true, Path: path,
		RawQuery: url.Values{"_pragma": {"journal_mode(OFF)", "synchronous(OFF)", "cache_size(-8000)"}}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	s := &sqliteWriter{db: db, values: make([]any, len(columns))}
	if err := s.begin(); err != nil {
		db.Close()
		return nil, err
	}
	return s, nil
}

func (s *sqliteWriter) begin() (err error) {
	names, kinds := make([]string, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		names[i], kinds[i] = c.name, c.name+" "+c.kind
	}
	if s.tx, err = s.db.Begin(); err != nil {
		return err
	}
	if _, err = s.tx.Exec("CREATE TABLE " + tableName + " (\n\t" + strings.Join(kinds, ",\n\t") + "\n)"); err != nil {
		return err
	}
	s.insert, err = s.tx.Prepare("INSERT INTO " + tableName + " (" + strings.Join(names, ", ") +
		") VALUES (?" + strings.Repeat(", ?", len(columns)-1) + ")")
	return err
}

func (s *sqliteWriter) Write(r *Row) error {
	for i, c := range columns {
		s.values[i] = c.value(r)
	}
	_, err := s.insert.Exec(s.values...)
	return err
}

func (s *sqliteWriter) Close() error {
	defer s.db.Close()
	for _, by := range []string{"reason", "entity", "rejected_at", "id"} {
		if _, err := s.tx.Exec("CREATE INDEX " + tableName + "_" + by + " ON " + tableName + " (" + by + ")"); err != nil {
			return err
		}
	}
	if err := s.tx.Commit(); err != nil {
		return err
	}
	return s.db.Close()
}
