package table

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sf2loki/pkg/atomicfile"
)

// The formats.
const (
	Parquet = "parquet"
	SQLite  = "sqlite"
)

// File is a table that appears under its name when it is whole, or not at all.
type File struct {
	Writer
	path string
	tmp  *os.File
}

// Create begins a file of that format; createdBy names the program in it.
func Create(path, format, createdBy string) (*File, error) {
	dir, err := atomicfile.Resolve(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	path = filepath.Join(dir, filepath.Base(path))
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // 0600: dead letters are confidential
	if err != nil {
		return nil, err
	}
	f := &File{path: path, tmp: tmp}
	switch format {
	case Parquet:
		f.Writer = NewParquet(tmp, createdBy)
	case SQLite:
		f.Writer, err = NewSQLite(tmp.Name())
	default:
		err = fmt.Errorf("unknown format %q", format)
	}
	if err != nil {
		f.Abort()
		return nil, err
	}
	return f, nil
}

// Commit ends the table and gives the file its name.
func (f *File) Commit() error {
	err := f.Writer.Close()
	if err == nil {
		err = f.tmp.Sync()
	}
	if err == nil {
		err = os.Rename(f.tmp.Name(), f.path)
	}
	if err != nil {
		f.Abort()
		return err
	}
	return errors.Join(f.tmp.Close(), atomicfile.SyncDir(filepath.Dir(f.path)))
}

// Abort leaves nothing behind.
func (f *File) Abort() {
	f.tmp.Close()
	os.Remove(f.tmp.Name())
}
