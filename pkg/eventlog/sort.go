package eventlog

import (
	"bufio"
	"cmp"
	"container/heap"
	"context"
	"encoding/binary"
	"io"
	"os"
	"slices"
	"sync"
)

// orderVersion names the order that rows leave in: by time, rows of the same
// time as they stand in the file. Positions inside a file count in it.
const orderVersion = 1

// Sizes of the sort. It sorts a list of where the rows are, not the rows: that
// is a twenty-fifth of an ordinary file, so the disk holds each file once.
const (
	runEntries   = 64 << 10  // entries sorted in memory at a time: 1.5 MiB
	mergeBuffers = 256 << 10 // bytes for reading all runs of one file together
	entrySize    = 24
)

// entry is where one row is and when it was.
type entry struct {
	time   int64
	offset int64
	number uint32
	size   uint32 // with the top bit set when the time is not the row's own
}

const (
	borrowed = 1 << 31
	maxSize  = borrowed - 1
)

func (e *entry) bytes() int64 { return int64(e.size &^ borrowed) }

func compareEntries(a, b entry) int {
	return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.number, b.number))
}

// sorter makes sorted sequences. Only one list is built at a time, so that the
// memory does not grow with the number of files.
type sorter struct {
	tmpdir  string
	limit   int
	entries int // of one run

	mu  sync.Mutex
	run []entry
}

func newSorter(tmpdir string, limit int) *sorter {
	return &sorter{tmpdir: tmpdir, limit: limit, entries: runEntries}
}

// sequence returns the rows of b in time order.
func (s *sorter) sequence(ctx context.Context, b body, h *header, fallback int64) (sequence, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from, err := newAsItStands(b, h, s.limit, fallback)
	if err != nil {
		return nil, err
	}
	from.any = true
	list := &index{}
	if err := s.fill(ctx, list, from); err != nil {
		list.close()
		return nil, err
	}
	if err := list.rewind(); err != nil {
		list.close()
		return nil, err
	}
	return &inOrder{list: list, h: h, rows: newFetcher(b), limit: s.limit}, nil
}

func (s *sorter) fill(ctx context.Context, list *index, from *asItStands) error {
	s.run = s.run[:0]
	for n := 0; ; n++ {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		row, t, own, err := from.next()
		if err == io.EOF {
			return s.finish(list)
		}
		if err != nil {
			return err
		}
		e := entry{time: t, offset: row.Offset, number: uint32(row.Number), size: uint32(min(row.Size, maxSize))}
		if !own {
			e.size |= borrowed
		}
		s.run = append(s.run, e)
		if len(s.run) == s.entries {
			slices.SortFunc(s.run, compareEntries)
			if err := list.spill(s.tmpdir, s.run); err != nil {
				return err
			}
			s.run = s.run[:0]
		}
	}
}

// finish sorts the last run; a small file has no other and stays in memory.
func (s *sorter) finish(list *index) error {
	slices.SortFunc(s.run, compareEntries)
	if list.file == nil && len(s.run) <= s.entries/8 {
		list.runs = []*run{{entries: slices.Clone(s.run)}}
		return nil
	}
	if len(s.run) == 0 {
		return nil
	}
	return list.spill(s.tmpdir, s.run)
}

// index is a list of entries in sorted runs, on disk or, of a small file, in
// memory. After rewind it is a heap of the runs by their next entry.
type index struct {
	file *os.File
	end  int64
	runs []*run
}

type run struct {
	entries    []entry // read and not yet given out
	begin, end int64   // what is still in the file
	room       int
}

func (x *index) spill(tmpdir string, entries []entry) error {
	if x.file == nil {
		f, err := tempFile(tmpdir)
		if err != nil {
			return err
		}
		x.file = f
	}
	begin := x.end
	w := bufio.NewWriterSize(x.file, 64<<10)
	var b [entrySize]byte
	for _, e := range entries {
		binary.LittleEndian.PutUint64(b[0:], uint64(e.time))
		binary.LittleEndian.PutUint64(b[8:], uint64(e.offset))
		binary.LittleEndian.PutUint32(b[16:], e.number)
		binary.LittleEndian.PutUint32(b[20:], e.size)
		w.Write(b[:]) // an error stays in w
	}
	if err := w.Flush(); err != nil {
		return diskError(err)
	}
	x.end += int64(len(entries)) * entrySize
	x.runs = append(x.runs, &run{begin: begin, end: x.end})
	return nil
}

func (x *index) rewind() error {
	room := max(mergeBuffers/entrySize/max(len(x.runs), 1), 16)
	for _, r := range x.runs {
		r.room = room
		if err := r.refill(x.file); err != nil {
			return err
		}
	}
	x.runs = slices.DeleteFunc(x.runs, func(r *run) bool { return len(r.entries) == 0 })
	heap.Init(x)
	return nil
}

func (r *run) refill(f *os.File) error {
	n := min(int64(r.room), (r.end-r.begin)/entrySize)
	if n == 0 || len(r.entries) > 0 {
		return nil
	}
	b := make([]byte, n*entrySize)
	if _, err := f.ReadAt(b, r.begin); err != nil {
		return diskError(err)
	}
	r.begin += int64(len(b))
	r.entries = slices.Grow(r.entries[:0], int(n))[:n]
	for i := range r.entries {
		e := b[i*entrySize:]
		r.entries[i] = entry{
			time:   int64(binary.LittleEndian.Uint64(e)),
			offset: int64(binary.LittleEndian.Uint64(e[8:])),
			number: binary.LittleEndian.Uint32(e[16:]),
			size:   binary.LittleEndian.Uint32(e[20:]),
		}
	}
	return nil
}

// next gives the entries in order, io.EOF after the last.
func (x *index) next() (entry, error) {
	if len(x.runs) == 0 {
		return entry{}, io.EOF
	}
	r := x.runs[0]
	e := r.entries[0]
	if r.entries = r.entries[1:]; len(r.entries) == 0 {
		if err := r.refill(x.file); err != nil {
			return entry{}, err
		}
	}
	if len(r.entries) == 0 {
		heap.Pop(x)
	} else {
		heap.Fix(x, 0)
	}
	return e, nil
}

func (x *index) close() {
	if x.file != nil {
		x.file.Close()
	}
}

func (x *index) Len() int { return len(x.runs) }
func (x *index) Less(i, j int) bool {
	return compareEntries(x.runs[i].entries[0], x.runs[j].entries[0]) < 0
}
func (x *index) Swap(i, j int) { x.runs[i], x.runs[j] = x.runs[j], x.runs[i] }
func (x *index) Push(v any)    { x.runs = append(x.runs, v.(*run)) }
func (x *index) Pop() any {
	last := x.runs[len(x.runs)-1]
	x.runs = x.runs[:len(x.runs)-1]
	return last
}

// inOrder gives the rows that an index names.
type inOrder struct {
	list  *index
	h     *header
	rows  *fetcher
	limit int
	row   Row
}

func (o *inOrder) next() (*Row, int64, bool, error) {
	e, err := o.list.next()
	if err != nil {
		return nil, 0, false, err
	}
	size := e.bytes()
	huge := size > int64(o.limit)
	if huge {
		size = min(size, keepOfHuge)
	}
	buf, err := o.rows.fetch(e.offset, int(size))
	if err != nil {
		return nil, 0, false, err
	}
	if huge {
		o.row.raw, o.row.cells, o.row.Bad = buf[:size], nil, errHuge
	} else {
		o.row.split(buf, int(size), true)
		o.h.judge(&o.row)
	}
	o.row.Number, o.row.Offset, o.row.Size = int64(e.number), e.offset, e.bytes()
	return &o.row, e.time, e.size&borrowed == 0, nil
}

func (o *inOrder) close() { o.list.close() }

// fetcher reads rows here and there in a file. Files are mostly in order, as
// several servers wrote into them one after the other, so it keeps a window
// open at each of the last places.
type fetcher struct {
	b       body
	windows [fetchWindows]window
	clock   int64
	single  []byte
}

const (
	fetchWindows = 16
	windowLeast  = 4 << 10 // of a place that is visited for the first time
	windowSize   = 32 << 10
)

type window struct {
	begin, end int64
	used       int64
	size       int // of the next reading: a place that goes on reads more at a time
	data       []byte
}

func newFetcher(b body) *fetcher { return &fetcher{b: b} }

// fetch returns size bytes at offset, with slack behind them, valid until the
// next call.
func (f *fetcher) fetch(offset int64, size int) ([]byte, error) {
	if size > windowSize/2 {
		return f.fetchSingle(offset, size)
	}
	f.clock++
	next := &f.windows[0]
	for i := range f.windows {
		w := &f.windows[i]
		switch {
		case offset < w.begin || offset > w.end || w.end == 0:
			if w.used < next.used {
				next = w
			}
			continue
		case offset+int64(size) <= w.end:
			w.used = f.clock
			return w.data[offset-w.begin:], nil
		}
		w.size = min(2*w.size, windowSize)
		return w.open(f.b, offset, size, f.clock)
	}
	next.size = windowLeast
	return next.open(f.b, offset, size, f.clock)
}

func (w *window) open(b body, offset int64, size int, clock int64) ([]byte, error) {
	if w.data == nil {
		w.data = make([]byte, windowSize+slack)
	}
	w.begin, w.end, w.used = 0, 0, 0
	n, err := b.ReadAt(w.data[:max(w.size, size)], offset)
	if n < size {
		return nil, cmp.Or(err, io.ErrUnexpectedEOF)
	}
	w.begin, w.end, w.used = offset, offset+int64(n), clock
	return w.data, nil
}

func (f *fetcher) fetchSingle(offset int64, size int) ([]byte, error) {
	if cap(f.single) < size+slack || cap(f.single) > 1<<20 && size < 1<<19 {
		f.single = make([]byte, size+slack)
	}
	b := f.single[:size+slack]
	if n, err := f.b.ReadAt(b[:size], offset); n < size {
		return nil, cmp.Or(err, io.ErrUnexpectedEOF)
	}
	return b, nil
}
