package loki

import (
	"slices"
	"testing"
)

// While memory is full the streams with the fullest batches are chosen, those
// that are open longest first, without looking at all streams for each.
func TestFullest(t *testing.T) {
	var open openList
	add := func(size int, queued ...*batch) *stream {
		st := &stream{open: &batch{mem: arena{size: size}}, queue: queued}
		open.push(st)
		return st
	}
	first, _, second, _ := add(60), add(50), add(100), add(200, &batch{})
	third, emptied, last := add(90), add(80), add(51)

	var f fullest
	var took []int
	take := func(list *openList) *stream {
		st := f.next(list)
		if st != nil {
			took = append(took, st.open.mem.size)
			open.remove(st)
			st.open = nil
		}
		return st
	}
	if st := f.next(&open); st != first || f.next(&open) != first {
		t.Fatalf("%+v is not the first one", st)
	}
	for take(&openList{}) != second { // it remembers all that it needs
	}
	emptied.open = &batch{} // it was sent meanwhile, and another one began
	for take(&openList{}) != nil {
	}
	if want := []int{60, 100, 90, 51}; !slices.Equal(took, want) {
		t.Errorf("took %v, want %v", took, want)
	}
	if third.open != nil || last.open != nil {
		t.Error("the order is another one")
	}
	if take(&open); took[len(took)-1] != 50 {
		t.Errorf("then took %v", took)
	}
	if st := f.next(&openList{}); st != nil {
		t.Errorf("took %+v, which waits to be sent, or is empty", st)
	}
}
