package eventlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"sf2loki/pkg/record"
	"sf2loki/pkg/shape"
	"sf2loki/pkg/sysexits"
)

// Stdin is the path that stands for standard input.
const Stdin = "-"

// FilesConfig says which CSV files on disk to read.
type FilesConfig struct {
	Paths     []string
	Stdin     io.Reader
	EventType string // of all rows; empty: what each row says

	KeyPrefix string
	Resume    func(key string) (string, bool)
	TmpDir    string
	RowLimit  int

	Shape  *shape.Shape
	Output Output
	Log    *slog.Logger
}

// Files reads CSV files that somebody has downloaded.
type Files struct {
	cfg   FilesConfig
	stats *Stats
}

// NewFiles returns a source of the files.
func NewFiles(cfg FilesConfig) *Files {
	if cfg.RowLimit <= 0 {
		cfg.RowLimit = DefaultRowLimit
	}
	return &Files{cfg, newStats()}
}

// Stats are the counters of the run.
func (f *Files) Stats() *Stats { return f.stats }

// Check finds files that cannot be read before anything has been written.
func (f *Files) Check() error {
	seen := map[string]bool{}
	for _, path := range f.cfg.Paths {
		if seen[path] {
			return sysexits.Errorf(sysexits.Usage, "%s is named twice", path)
		}
		seen[path] = true
		if err := readable(path); err != nil {
			return sysexits.Wrap(sysexits.Config, err)
		}
	}
	return nil
}

func readable(path string) error {
	if path == Stdin {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("%s is a directory", path)
	}
	if !info.Mode().IsRegular() {
		return nil // a pipe can be opened once
	}
	r, err := os.Open(path)
	if err != nil {
		return err
	}
	return r.Close()
}

// Pull writes the records of all files, one file after the other. Files that
// are no whole CSV files are an error, after the others have been written.
func (f *Files) Pull(ctx context.Context) error {
	e := newEmitter(&f.cfg.Output, f.stats, f.cfg.Shape, newSorter(f.cfg.TmpDir, f.cfg.RowLimit))
	var bad []error
	for _, path := range f.cfg.Paths {
		err := f.pull(ctx, e, path)
		var broken *badFile
		if errors.As(err, &broken) {
			bad = append(bad, err)
			continue
		}
		if err != nil {
			return err
		}
	}
	return sysexits.Wrap(sysexits.DataErr, errors.Join(bad...))
}

// badFile is a file that is not what it should be.
type badFile struct{ path, text string }

func (b *badFile) Error() string { return b.path + ": " + b.text }

func (f *Files) pull(ctx context.Context, e *emitter, path string) error {
	file, b, err := f.open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := sniff(path, b); err != nil {
		return err
	}
	v, err := look(ctx, b, f.cfg.RowLimit, nil)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, ErrRow):
		return &badFile{path, err.Error()}
	case err != nil:
		return sysexits.Wrap(sysexits.IOErr, err)
	}
	p, err := f.parcel(path, file, b, v)
	if err != nil {
		return err
	}
	e.setType(f.cfg.EventType)
	e.count.Bytes += b.size
	if err := e.file(ctx, p, v); err != nil {
		return err
	}
	if v.torn != nil {
		return &badFile{path, v.torn.String()}
	}
	return nil
}

// open gives a file that can be read twice; what cannot is kept first.
func (f *Files) open(path string) (*os.File, body, error) {
	var from io.Reader = f.cfg.Stdin
	if path != Stdin {
		file, err := os.Open(path)
		if err != nil {
			return nil, body{}, sysexits.Wrap(sysexits.Config, err)
		}
		info, err := file.Stat()
		if err != nil {
			file.Close()
			return nil, body{}, sysexits.Wrap(sysexits.Config, err)
		}
		if info.Mode().IsRegular() {
			return file, body{file, info.Size()}, nil
		}
		defer file.Close()
		from = file
	}
	kept, size, err := keep(f.cfg.TmpDir, from)
	if err != nil {
		return nil, body{}, sysexits.Wrap(sysexits.IOErr, fmt.Errorf("read %s: %w", path, err))
	}
	return kept, body{kept, size}, nil
}

// sniff refuses what is plainly no CSV file.
func sniff(path string, b body) error {
	head := make([]byte, 512)
	n, err := b.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return sysexits.Wrap(sysexits.IOErr, err)
	}
	if text := refused(head[:n]); text != "" {
		return &badFile{path, text + ", not a CSV file"}
	}
	return nil
}

func (f *Files) parcel(path string, file *os.File, b body, v survey) (*parcel, error) {
	key := f.cfg.KeyPrefix + "file:" + path
	p := &parcel{
		key: []byte(key), name: path, eventType: f.cfg.EventType, body: b,
		token:   fileToken(b.size, v.sum),
		account: record.Account{EventType: f.cfg.EventType, Bytes: b.size},
	}
	if info, err := file.Stat(); err == nil && path != Stdin {
		p.otherwise = info.ModTime().UnixNano()
	}
	text, ok := f.cfg.Resume(key)
	if !ok {
		f.cfg.Log.Debug("begin", "key", key, "cause", "no position")
		return p, nil
	}
	pos, err := parseFilePosition(text)
	switch {
	case err != nil && useless(err):
		f.stats.change(func(t *Totals) { t.LoadErrors++ })
		f.cfg.Log.Warn("a stored position cannot be used", "key", key, "err", err)
		return p, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	skip, same := pos.passed(b.size, v.sum)
	if !same {
		f.cfg.Log.Info("begin", "key", key, "cause", "the file has changed since the stored position")
		return p, nil
	}
	p.skip = min(skip, v.rows)
	f.cfg.Log.Info("begin", "key", key, "cause", "position", "rows", p.skip)
	return p, nil
}
