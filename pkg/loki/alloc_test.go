package loki

import (
	"bytes"
	"io"
	"testing"

	"sf2loki/pkg/record"
)

// Nothing is allocated per entry on the way from a record's text to its
// settlement, once the buffers have grown.
func TestEntriesAllocateNothing(t *testing.T) {
	e, err := NewEngine(EngineConfig{DryRun: true, HourLabel: "event_hour", MaxLine: 256 << 10, Breaker: true})
	if err != nil {
		t.Fatal(err)
	}
	reader := record.NewReader(&loop{data: benchmarkInput(1000, 300)})
	reader.LeaveValues()
	var rec record.Record
	one := func() {
		if err := reader.Read(&rec); err != nil {
			t.Fatal(err)
		}
		if err := e.add(&rec, nil); err != nil {
			t.Fatal(err)
		}
		if len(e.ready) > 0 { // a batch is full: it is settled at once
			e.step()
		}
	}
	const entries = 5000
	// The whole of them, as what is below one per entry is rounded down. A batch
	// of 1000 costs a few.
	allocs := testing.AllocsPerRun(3, func() {
		for range entries {
			one()
		}
	})
	if allocs > entries/200 {
		t.Errorf("%v allocations of %d entries", allocs, entries)
	}
	if n := e.Status().Delivered; n < 4*entries-1000 {
		t.Errorf("%d entries were settled", n)
	}
}

// loop repeats data without end.
type loop struct {
	data []byte
	rest bytes.Reader
}

func (l *loop) Read(p []byte) (int, error) {
	n, err := l.rest.Read(p)
	if err == io.EOF {
		l.rest.Reset(l.data)
		return l.rest.Read(p)
	}
	return n, err
}
