package main

import (
	"errors"
	"iter"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"sf2loki/pkg/spool"
	"sf2loki/pkg/spool/table"
)

// source is a file whose records are appended.
type source struct {
	file  *spool.File
	name  string // absolute, and without what says that nothing is left to do
	state string
}

func newSource(f *spool.File) (source, error) {
	path, err := filepath.Abs(f.Path)
	return source{f, strings.TrimSuffix(path, ".replayed"), f.State()}, err
}

// batchRows and batchBytes bound what is in memory at a time.
const (
	batchRows  = 4096
	batchBytes = 8 << 20
)

// rows reads the records of files in batches: an array.RecordReader.
type rows struct {
	schema  *arrow.Schema
	next    func() (table.Row, error, bool)
	stop    func()
	records int64
	build   *array.RecordBuilder
	batch   arrow.RecordBatch
	at      arrow.Timestamp
	states  map[string]string
	err     error
}

func newRows(schema *arrow.Schema, from []source, at time.Time, log *slog.Logger) *rows {
	r := &rows{schema: schema, build: array.NewRecordBuilder(memory.DefaultAllocator, schema), at: arrow.Timestamp(at.UnixMicro()), states: map[string]string{}}
	for _, s := range from {
		r.states[s.name] = s.state
	}
	r.next, r.stop = iter.Pull2(all(from, log))
	return r
}

var errStop = errors.New("stopped")

// all gives out the rows of all files; an error ends them.
func all(from []source, log *slog.Logger) iter.Seq2[table.Row, error] {
	return func(yield func(table.Row, error) bool) {
		for _, s := range from {
			_, err := s.file.Read(func(l *spool.Letter, status spool.Status) error {
				if status != spool.Moved && !yield(table.RowOf(s.name, l, status), nil) {
					return errStop
				}
				return nil
			}, func(d *spool.Damage) { d.Say(log) })
			if errors.Is(err, errStop) {
				return
			}
			if err != nil {
				yield(table.Row{}, err)
				return
			}
		}
	}
}

func (r *rows) Retain()                        {}
func (r *rows) Release()                       {}
func (r *rows) Schema() *arrow.Schema          { return r.schema }
func (r *rows) RecordBatch() arrow.RecordBatch { return r.batch }
func (r *rows) Record() arrow.RecordBatch      { return r.batch }
func (r *rows) Err() error                     { return r.err }

// Next builds the next batch.
func (r *rows) Next() bool {
	if r.batch != nil {
		r.batch.Release()
		r.batch = nil
	}
	n, size := 0, 0
	for n < batchRows && size < batchBytes && r.err == nil {
		row, err, ok := r.next()
		if !ok {
			break
		}
		if r.err = err; err == nil {
			size += r.add(&row)
			n++
		}
	}
	if r.err != nil || n == 0 {
		return false
	}
	r.records += int64(n)
	r.batch = r.build.NewRecordBatch()
	return true
}

// add appends a row, and returns about how large it is.
func (r *rows) add(row *table.Row) (size int) {
	columns := table.Columns()
	for i, c := range columns {
		size += appendValue(r.build.Field(i), c.Value(row))
	}
	r.build.Field(len(columns)).(*array.TimestampBuilder).Append(r.at)
	return size + appendValue(r.build.Field(len(columns)+1), r.states[row.File])
}

func appendValue(b array.Builder, v any) int {
	if v == nil {
		b.AppendNull()
		return 1
	}
	switch b := b.(type) {
	case *array.StringBuilder:
		b.Append(v.(string))
		return len(v.(string))
	case *array.Int64Builder:
		b.Append(v.(int64))
	case *array.BooleanBuilder:
		b.Append(v.(bool))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(v.(int64)))
	}
	return 8
}
