package checkpoint

import (
	"sync"
	"time"
)

// Watermark is how far one key has come.
type Watermark struct {
	Key       Key
	Time      time.Time // of the last record behind the position; zero: unknown
	Committed time.Time // when the position was stored last; zero: not in this run
}

// Watermarks remembers how far each live key has come, for metrics. Windows
// are left out: a backfill is not late.
type Watermarks struct {
	mu    sync.Mutex
	marks map[Key]Watermark
	order []Key
}

// Start takes in what the document holds, so that every key has its series
// before it moves.
func (w *Watermarks) Start(doc Document) {
	for text, value := range doc.Positions() {
		t, _ := doc.RecordTime(text)
		w.Note(Position{Key: text, Value: value, Time: t}, time.Time{})
	}
}

// Note takes in a position, and when it was stored; zero: not in this run.
func (w *Watermarks) Note(p Position, committed time.Time) {
	key := ParseKey(p.Key)
	if key.Window != "" || !startsWithSource(key.Source) {
		return
	}
	t := p.Time
	if t.IsZero() {
		t, _ = PositionTime(key, p.Value)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.marks == nil {
		w.marks = make(map[Key]Watermark)
	}
	last, ok := w.marks[key]
	if !ok {
		w.order = append(w.order, key)
	}
	if t.IsZero() {
		t = last.Time // a token without a time has not gone back
	}
	w.marks[key] = Watermark{Key: key, Time: t, Committed: committed}
}

// All returns the watermarks in the order of first appearance.
func (w *Watermarks) All() []Watermark {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]Watermark, 0, len(w.order))
	for _, key := range w.order {
		all = append(all, w.marks[key])
	}
	return all
}
