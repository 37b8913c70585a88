package table

import (
	"database/sql"
	"net/url"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver
)

// sqliteKinds are what the kinds of columns are called. Times are text of
// RFC 3339, which sorts, and which SQLite's own functions understand.
var sqliteKinds = map[Kind]string{Text: "TEXT", Int: "INTEGER", Bool: "INTEGER", Time: "TEXT"}

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
		names[i], kinds[i] = c.Name, c.Name+" "+sqliteKinds[c.Kind]
		if c.Required {
			kinds[i] += " NOT NULL"
		}
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
		s.values[i] = c.Value(r)
		if at, ok := s.values[i].(int64); ok && c.Kind == Time {
			s.values[i] = time.UnixMicro(at).UTC().Format("2006-01-02T15:04:05.000000Z")
		}
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
