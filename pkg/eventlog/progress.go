package eventlog

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"time"
)

// Progress is how far a run has come with the bytes of its files. A file of an
// org is downloaded, then read, so each of its bytes comes twice: it is counted
// in halves.
type Progress struct{ done, total atomic.Int64 }

// Bytes are those that are done, and those of all files; 0 of 0 when it is not
// known how much there is.
func (p *Progress) Bytes() (done, total int64) {
	total = p.total.Load() / 2
	return min(p.done.Load()/2, total), total
}

// counting counts what is read through it.
type counting struct {
	io.Reader
	n *atomic.Int64
}

func (c counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// foresee finds out how many bytes there are to pull. Whoever watches does
// without when it cannot be found out.
func (s *Source) foresee(ctx context.Context, names []string, upper time.Time) {
	total, err := s.ahead(ctx, names, upper)
	if err != nil {
		s.log.Debug("how much there is to do is not known", "err", err)
		return
	}
	s.progress.total.Store(2 * total)
}

// ahead is the size of all files behind the positions, by one listing of all
// types.
func (s *Source) ahead(ctx context.Context, names []string, upper time.Time) (total int64, err error) {
	wanted := map[string]selection{}
	all := selection{interval: s.cfg.Interval, window: s.cfg.Window, before: upper, limit: 2000}
	for i, name := range names {
		q := s.series[name].next(&s.cfg, upper)
		wanted[name] = q
		if i == 0 || q.from.Before(all.from) {
			all.from = q.from
		}
	}
	for {
		files, err := s.list.files(ctx, all)
		if err != nil {
			return 0, err
		}
		for i := range files {
			if q, ok := wanted[files[i].EventType]; ok && q.selects(&files[i]) {
				total += files[i].Length
			}
		}
		if len(files) < all.limit {
			return total, nil
		}
		last := files[len(files)-1]
		all.from, all.after = last.Created, last.ID
	}
}

// selects tells of a file of the right type and interval whether it is behind
// the position and in the window.
func (s *selection) selects(f *File) bool {
	if f.LogDate.Before(s.window.Since) || f.Created.Before(s.from) {
		return false
	}
	if s.after == "" || f.Created.After(s.from) {
		return true
	}
	order := strings.Compare(f.ID, s.after)
	return order > 0 || order == 0 && s.include
}
