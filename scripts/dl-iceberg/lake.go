package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	sqlcat "github.com/apache/iceberg-go/catalog/sql"
	icetable "github.com/apache/iceberg-go/table"
	_ "modernc.org/sqlite" // the driver

	"sf2loki/pkg/spool/table"
)

// errConflict says that the table changed between reading and appending.
var errConflict = errors.New("the table changed meanwhile")

// The columns that this program adds to those of a dead letter.
const (
	appendedAt = "appended_at" // of the snapshot
	fileState  = "file_state"  // of the file when it was appended
	fileColumn = "file"
)

// lake is a table and its catalogue.
type lake struct {
	db     *sql.DB
	cat    *sqlcat.Catalog
	ident  icetable.Identifier
	table  *icetable.Table
	schema *arrow.Schema
}

func openLake(ctx context.Context, path, warehouse, namespace, name string) (*lake, error) {
	if err := os.MkdirAll(warehouse, 0o700); err != nil {
		return nil, err
	}
	// An empty database is a good one. It is made here for its mode: dead letters
	// are confidential.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	f.Close()
	dsn := url.URL{Scheme: "file", OmitHost: true, Path: path,
		RawQuery: url.Values{"_pragma": {"busy_timeout(20000)"}, "_txlock": {"immediate"}}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	l := &lake{db: db, ident: icetable.Identifier{namespace, name}}
	home := url.URL{Scheme: "file", Path: warehouse}
	l.cat, err = sqlcat.NewCatalog("sf2loki", db, sqlcat.SQLite, iceberg.Properties{"warehouse": home.String(), "init_catalog_tables": "true"})
	if err == nil {
		err = l.ensure(ctx, home.JoinPath(namespace, name).String())
	}
	if err == nil {
		l.schema, err = icetable.SchemaToArrowSchema(schema(), nil, false, false)
	}
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("open the catalogue %s: %w", filepath.Clean(path), err)
	}
	return l, nil
}

func (l *lake) close() { l.db.Close() }

// ensure makes the table when it is not there. Somebody else may do so at the
// same moment.
func (l *lake) ensure(ctx context.Context, location string) error {
	err := l.cat.CreateNamespace(ctx, icetable.Identifier{l.ident[0]}, nil)
	if err != nil && !errors.Is(err, catalog.ErrNamespaceAlreadyExists) {
		return err
	}
	there, err := l.cat.CheckTableExists(ctx, l.ident)
	if err != nil || there {
		return err
	}
	_, err = l.cat.CreateTable(ctx, l.ident, schema(), catalog.WithLocation(location))
	if errors.Is(err, catalog.ErrTableAlreadyExists) {
		return nil
	}
	if err != nil {
		if there, cerr := l.cat.CheckTableExists(ctx, l.ident); cerr == nil && there {
			return nil
		}
	}
	return err
}

// schema is the table's: the columns of a dead letter, when they were appended,
// and what the file was like.
func schema() *iceberg.Schema {
	kinds := map[table.Kind]iceberg.Type{
		table.Text: iceberg.PrimitiveTypes.String, table.Int: iceberg.PrimitiveTypes.Int64,
		table.Bool: iceberg.PrimitiveTypes.Bool, table.Time: iceberg.PrimitiveTypes.TimestampTz,
	}
	var fields []iceberg.NestedField
	add := func(name string, kind table.Kind, required bool) {
		fields = append(fields, iceberg.NestedField{ID: len(fields) + 1, Name: name, Type: kinds[kind], Required: required})
	}
	for _, c := range table.Columns() {
		add(c.Name, c.Kind, c.Required)
	}
	add(appendedAt, table.Time, true)
	add(fileState, table.Text, true)
	return iceberg.NewSchema(0, fields...)
}

// states loads the table, and reads of each file in what state it was when it
// was last appended.
func (l *lake) states(ctx context.Context) (map[string]string, error) {
	var err error
	if l.table, err = l.cat.LoadTable(ctx, l.ident); err != nil {
		return nil, err
	}
	states, when := map[string]string{}, map[string]arrow.Timestamp{}
	if l.table.CurrentSnapshot() == nil {
		return states, nil
	}
	_, batches, err := l.table.Scan(icetable.WithSelectedFields(fileColumn, appendedAt, fileState)).ToArrowRecords(ctx)
	if err != nil {
		return nil, err
	}
	for batch, err := range batches {
		if err != nil {
			return nil, err
		}
		column := func(name string) arrow.Array { return batch.Column(batch.Schema().FieldIndices(name)[0]) }
		files, at, state := column(fileColumn), column(appendedAt).(*array.Timestamp), column(fileState)
		for i := range int(batch.NumRows()) {
			if file := files.ValueStr(i); states[file] == "" || at.Value(i) > when[file] {
				states[file], when[file] = state.ValueStr(i), at.Value(i)
			}
		}
		batch.Release()
	}
	return states, nil
}

// append adds rows in one snapshot, if the table still is what states saw:
// what was new then may have come from somebody else by now.
func (l *lake) append(ctx context.Context, rows array.RecordReader) (snapshot int64, err error) {
	tx := l.table.NewTransaction()
	if err := tx.AssertRefSnapshotID(icetable.MainBranch); err != nil {
		return 0, err
	}
	if err := tx.Append(ctx, rows, nil); err != nil {
		return 0, err
	}
	if err := rows.Err(); err != nil {
		return 0, err
	}
	done, err := tx.Commit(ctx)
	if err != nil {
		return 0, l.explain(ctx, err)
	}
	return done.CurrentSnapshot().SnapshotID, nil
}

// explain tells a conflict from other errors of a commit: the library has no
// one error for it. When the table is not what it was, looking again is right
// whoever changed it, we ourselves included.
func (l *lake) explain(ctx context.Context, err error) error {
	if errors.Is(err, icetable.ErrCommitFailed) {
		return fmt.Errorf("%w: %v", errConflict, err)
	}
	now, lerr := l.cat.LoadTable(ctx, l.ident)
	if lerr == nil && head(now) != head(l.table) {
		return fmt.Errorf("%w: %v", errConflict, err)
	}
	return err
}

func head(t *icetable.Table) int64 {
	if s := t.CurrentSnapshot(); s != nil {
		return s.SnapshotID
	}
	return 0
}

// pause keeps writers that met from meeting again.
func (l *lake) pause(retries int) time.Duration {
	longest := min(50*time.Millisecond<<min(retries, 6), 2*time.Second)
	return rand.N(longest) + time.Millisecond
}
