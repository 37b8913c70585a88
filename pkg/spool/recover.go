package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"sf2loki/pkg/sysexits"
)

// recover puts right what a run left that was killed: a torn end of the
// .failed file, whose record is still where it came from, and records there
// that no journal knows of yet.
func (c *Claim) recover() error {
	failed := c.failedFile()
	if failed == nil {
		return nil
	}
	if err := failed.mendEnd(c.log); err != nil {
		return sysexits.Wrap(sysexits.IOErr, fmt.Errorf("recover %s: %w", failed.file.Path, err))
	}
	return c.adopt(failed)
}

// mendEnd cuts off half a record, which is whole where it came from, and ends
// the last line of a file that only lacks its line feed.
func (f *claimed) mendEnd(log *slog.Logger) error {
	whole, err := wholeSize(f.data, f.size)
	if err != nil || whole == f.size {
		return err
	}
	tail := make([]byte, min(f.size-whole, maxObject))
	if _, err := f.data.ReadAt(tail, whole); err != nil {
		return err
	}
	var l Letter
	if n, err := l.parse(tail); err == nil && n == len(tail) {
		f.size++
		_, err := f.data.Write([]byte{'\n'})
		return err
	}
	log.Warn("torn end of a file cut off", "file", f.file.Path, "bytes", f.size-whole)
	f.size = whole
	return f.data.Truncate(whole)
}

// wholeSize is where the last whole line of a file ends.
func wholeSize(f *os.File, size int64) (int64, error) {
	buf := make([]byte, 64<<10)
	for end := size; end > 0; {
		n := min(end, int64(len(buf)))
		if _, err := f.ReadAt(buf[:n], end-n); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return end - n + int64(i) + 1, nil
		}
		end -= n
	}
	return 0, nil
}

// adopt enters the moves that a killed run made and had not entered: the record
// is in the .failed file, so the one it came from is done with.
func (c *Claim) adopt(failed *claimed) error {
	loose, err := c.loose(failed)
	if err != nil || len(loose) == 0 {
		return err
	}
	failed.grown = true // the killed run may not have waited for the disk
	for _, f := range c.files {
		err := f.each(func(l *Letter, s Status) error {
			ends := loose[l.ID()]
			if s.final() || len(ends) == 0 || f == failed && l.Offset+int64(len(l.Raw)) > ends[0] {
				return nil
			}
			loose[l.ID()] = ends[1:]
			if f == failed && l.Offset+int64(len(l.Raw))+1 == ends[0] {
				return nil // that is the moved record itself
			}
			f.known.of[place{l.Line, l.ID()}] = fate{status: Failed}
			return f.note(c, &entry{line: l.Line, id: l.ID(), fate: Failed, end: ends[0]})
		}, func(*Damage) {})
		if err != nil {
			return err
		}
	}
	return c.Commit()
}

// loose finds the records of the .failed file that no entry accounts for. A
// truncated copy that a delivered record left behind has none to account for it.
func (c *Claim) loose(failed *claimed) (map[ID][]int64, error) {
	loose := map[ID][]int64{}
	err := failed.each(func(l *Letter, s Status) error {
		at := move{l.ID(), l.Offset + int64(len(l.Raw)) + 1}
		for _, f := range c.files {
			if f.known.moved[at] {
				return nil
			}
		}
		loose[at.id] = append(loose[at.id], at.end)
		return nil
	}, func(*Damage) {})
	return loose, err
}
