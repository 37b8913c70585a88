package eventlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"sf2loki/pkg/feed"
	"sf2loki/pkg/outlet"
	"sf2loki/pkg/record"
	"sf2loki/pkg/shape"
	"sf2loki/pkg/sysexits"
	"sf2loki/pkg/tally"
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
	Output outlet.Output
	Log    *slog.Logger
}

// Files reads CSV files that somebody has downloaded.
type Files struct {
	cfg       FilesConfig
	stats     *tally.Stats
	progress  Progress
	positions map[string]filePosition // by path
}

// NewFiles returns a source of the files.
func NewFiles(cfg FilesConfig) *Files {
	if cfg.RowLimit <= 0 {
		cfg.RowLimit = DefaultRowLimit
	}
	return &Files{cfg: cfg, stats: tally.New(), positions: map[string]filePosition{}}
}

// Stats are the counters of the run.
func (f *Files) Stats() *tally.Stats { return f.stats }

// Progress is how far the run is. The size of what comes through a pipe is not
// known before its end.
func (f *Files) Progress() *Progress { return &f.progress }

// Check finds files that cannot be read, and positions that must not be passed
// over, before anything has been written.
func (f *Files) Check() error {
	for _, path := range f.cfg.Paths {
		if _, ok := f.positions[path]; ok {
			return sysexits.Errorf(sysexits.Usage, "%s is named twice", path)
		}
		if err := f.readable(path); err != nil {
			return sysexits.Wrap(sysexits.Config, err)
		}
		pos, err := f.load(f.key(path))
		if err != nil {
			return err
		}
		f.positions[path] = pos
	}
	return nil
}

func (f *Files) key(path string) string { return f.cfg.KeyPrefix + "file:" + path }

// load reads the stored position of a key; the zero one is none.
func (f *Files) load(key string) (filePosition, error) {
	text, ok := f.cfg.Resume(key)
	if !ok {
		return filePosition{}, nil
	}
	pos, err := parseFilePosition(text)
	switch {
	case err == nil:
		return pos, nil
	case feed.IsUseless(err):
		f.stats.Change(func(t *tally.Totals) { t.LoadErrors++ })
		f.cfg.Log.Warn("a stored position cannot be used", "key", key, "err", err)
		return filePosition{}, nil
	}
	return pos, fmt.Errorf("%s: %w", key, err)
}

func (f *Files) readable(path string) error {
	if path == Stdin {
		if file, ok := f.cfg.Stdin.(*os.File); ok {
			if info, err := file.Stat(); err == nil && endless(info) {
				return errors.New("standard input is a device, not a file")
			}
		}
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory", path)
	case endless(info):
		return fmt.Errorf("%s is a device, not a file", path)
	case !info.Mode().IsRegular():
		return nil // a pipe can be opened once
	}
	r, err := os.Open(path)
	if err != nil {
		return err
	}
	f.progress.total.Add(2 * info.Size())
	return r.Close()
}

// Pull writes the records of all files, one file after the other; Check comes
// first. Files that are no whole CSV files are an error, after the others have
// been written.
func (f *Files) Pull(ctx context.Context) error {
	e := newEmitter(&f.cfg.Output, f.stats, f.cfg.Shape, newSorter(f.cfg.TmpDir, f.cfg.RowLimit))
	e.progress, e.halves = &f.progress, 2
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
	f.cfg.Shape.WarnMissing(f.cfg.Log)
	return sysexits.Wrap(sysexits.DataErr, errors.Join(bad...))
}

// badFile is a file that is not what it should be.
type badFile struct{ path, text string }

func (b *badFile) Error() string { return b.path + ": " + b.text }

func (f *Files) pull(ctx context.Context, e *emitter, path string) error {
	file, err := f.open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := sniff(path, file.body()); err != nil {
		return err
	}
	v, err := look(ctx, file.body(), f.cfg.RowLimit, nil)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, ErrRow):
		return &badFile{path, err.Error()}
	case err != nil:
		return sysexits.Wrap(sysexits.IOErr, err)
	case v.header == nil && file.piped: // a file may be empty; here a command has failed
		return &badFile{path, "nothing came through the pipe, not even a header"}
	}
	e.setType(f.cfg.EventType)
	err = e.file(ctx, f.parcel(path, file, v), v)
	// Only now the type is known: that of the last row.
	f.stats.Add(&tally.Count{EventType: e.count.EventType, Bytes: file.size})
	if err != nil {
		return err
	}
	if v.torn != nil {
		return &badFile{path, v.torn.String()}
	}
	return nil
}

// endless tells of a device that may never end, or wait for somebody to type.
func endless(info os.FileInfo) bool {
	if info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// onDisk is a file that can be read twice.
type onDisk struct {
	*os.File
	size     int64
	modified int64 // 0: it is no file on disk
	piped    bool  // it came through a pipe, or is standard input
}

func (d *onDisk) body() body { return body{d.File, d.size} }

// open opens a file; what can be read only once is kept first.
func (f *Files) open(path string) (*onDisk, error) {
	var from io.Reader = f.cfg.Stdin
	piped := path == Stdin
	if !piped {
		file, err := os.Open(path)
		if err != nil {
			return nil, sysexits.Wrap(sysexits.Config, err)
		}
		info, err := file.Stat()
		if err != nil {
			file.Close()
			return nil, sysexits.Wrap(sysexits.Config, err)
		}
		if info.Mode().IsRegular() {
			return &onDisk{File: file, size: info.Size(), modified: info.ModTime().UnixNano()}, nil
		}
		defer file.Close()
		from, piped = file, info.Mode()&os.ModeNamedPipe != 0
	}
	kept, size, err := keep(f.cfg.TmpDir, from)
	if err != nil {
		return nil, sysexits.Wrap(sysexits.IOErr, fmt.Errorf("read %s: %w", path, err))
	}
	return &onDisk{File: kept, size: size, piped: piped}, nil
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

func (f *Files) parcel(path string, file *onDisk, v survey) *parcel {
	p := &parcel{
		key: []byte(f.key(path)), name: path, eventType: f.cfg.EventType, body: file.body(),
		token: fileToken(file.size, v.sum), otherwise: file.modified,
		account: record.Account{EventType: f.cfg.EventType, Bytes: file.size},
	}
	pos := f.positions[path]
	cause := "no position"
	if skip, same := pos.passed(file.size, v.sum); same {
		p.skip, cause = min(skip, v.rows), "position"
	} else if pos.V != 0 {
		cause = "the file has changed since the stored position"
	}
	f.cfg.Log.Info("begin", "key", string(p.key), "cause", cause, "rows", p.skip)
	return p
}
