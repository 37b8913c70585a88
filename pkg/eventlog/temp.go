package eventlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"sf2loki/pkg/sysexits"
)

// tempFile makes a file that is gone when it is closed, or when the program
// ends in whatever way: it has no name any more.
func tempFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "sf-pull-*")
	if err != nil {
		return nil, sysexits.Errorf(sysexits.CantCreat, "make a temporary file in --tmpdir: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.Close()
		return nil, sysexits.Errorf(sysexits.CantCreat, "make a temporary file in --tmpdir: %w", err)
	}
	return f, nil
}

// diskError marks a temporary file that cannot be written or read back.
func diskError(err error) error {
	return sysexits.Wrap(sysexits.IOErr, fmt.Errorf("temporary file in --tmpdir: %w", err))
}

// tempWriter tells failures of the disk from those of what is copied to it.
type tempWriter struct{ f *os.File }

func (w tempWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	if err != nil {
		err = diskError(err)
	}
	return n, err
}

// keep copies r into a temporary file.
func keep(dir string, r io.Reader) (*os.File, int64, error) {
	f, err := tempFile(dir)
	if err != nil {
		return nil, 0, err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{tempWriter{f}}, struct{ io.Reader }{r}, make([]byte, 64<<10))
	if err != nil {
		f.Close()
		return nil, n, err
	}
	return f, n, nil
}
