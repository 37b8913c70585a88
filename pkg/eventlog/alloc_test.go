package eventlog

import (
	"bytes"
	"context"
	"testing"
	"time"

	"sf2loki/pkg/outlet"
	"sf2loki/pkg/shape"
	"sf2loki/pkg/tally"
)

// A row costs no allocation on its way to its record: a file of twice as many
// rows costs as many as one of half of them.
func TestRowsAllocateNothing(t *testing.T) {
	sh, err := shape.New(shape.Config{Metadata: []string{"USER_ID"}})
	if err != nil {
		t.Fatal(err)
	}
	const size = 2 << 20
	for _, ordered := range []bool{true, false} {
		out := &outlet.Output{Records: func([]byte) error { return nil }, Now: time.Now}
		e := newEmitter(out, tally.New(), sh, newSorter(t.TempDir(), DefaultRowLimit))
		e.sorter.entries = 100 * runEntries // rows are sorted in memory, as those of most files
		allocations := func(size int) float64 {
			data := sample(t, size, ordered)
			return testing.AllocsPerRun(5, func() { writeFile(t, e, data) })
		}
		whole, half := allocations(size), allocations(size/2)
		if whole-half > 5 {
			t.Errorf("ordered %v: %v allocations for a file, %v for half of it", ordered, whole, half)
		}
	}
}

// writeFile takes a whole file through the emitter.
func writeFile(t testing.TB, e *emitter, data []byte) {
	t.Helper()
	body := body{bytes.NewReader(data), int64(len(data))}
	v, err := look(context.Background(), body, DefaultRowLimit, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &parcel{key: []byte("file:x"), name: "x", body: body, token: fileToken(body.size, v.sum)}
	if err := e.file(context.Background(), p, v); err != nil {
		t.Fatal(err)
	}
}
