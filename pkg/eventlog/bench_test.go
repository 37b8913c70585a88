package eventlog

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"sf2loki/pkg/outlet"
	"sf2loki/pkg/record"
	"sf2loki/pkg/shape"
	"sf2loki/pkg/tally"
)

// sample is a file of some megabytes: the rows of a fixture over and over, each
// time a day later, or all on one day and so out of order.
func sample(b testing.TB, size int, ordered bool) []byte {
	b.Helper()
	data, err := os.ReadFile("testdata/RestApi.csv")
	if err != nil {
		b.Fatal(err)
	}
	head, rows, _ := bytes.Cut(data, []byte("\n"))
	out := append([]byte(nil), head...)
	out = append(out, '\n')
	for day := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC); len(out) < size; {
		of := bytes.ReplaceAll(rows, []byte("2026-07-01T"), []byte(day.Format("2006-01-02T")))
		out = append(out, bytes.ReplaceAll(of, []byte(`"20260701`), []byte(day.Format(`"20060102`)))...)
		if ordered {
			day = day.AddDate(0, 0, 1)
		}
	}
	return out
}

// cpu is the processor time of the whole process, the collector's included.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// perCPU runs fn b.N times over size bytes and reports megabytes of CSV per
// second of processor time.
func perCPU(b *testing.B, size int, fn func()) {
	b.Helper()
	b.SetBytes(int64(size))
	b.ReportAllocs()
	begin := cpu(b)
	for b.Loop() {
		fn()
	}
	spent := cpu(b) - begin
	b.ReportMetric(float64(size)*float64(b.N)/1e6/spent.Seconds(), "MB/cpu-s")
}

const benchSize = 16 << 20

func BenchmarkScan(b *testing.B) {
	data := sample(b, benchSize, true)
	b.Run("here", func(b *testing.B) {
		perCPU(b, len(data), func() {
			s := NewScanner(bytes.NewReader(data), 0)
			for {
				if _, err := s.Next(); err == io.EOF {
					return
				}
			}
		})
	})
	b.Run("standard", func(b *testing.B) {
		perCPU(b, len(data), func() {
			r := csv.NewReader(bytes.NewReader(data))
			r.ReuseRecord = true
			for {
				if _, err := r.Read(); err == io.EOF {
					return
				}
			}
		})
	})
}

// BenchmarkRecords goes the whole way from the bytes of a file to the lines of
// the record stream, here and as one would with the standard library.
func BenchmarkRecords(b *testing.B) {
	sh, err := shape.New(shape.Config{})
	if err != nil {
		b.Fatal(err)
	}
	ordered := sample(b, benchSize, true)
	b.Run("in-order", func(b *testing.B) { benchRecords(b, sh, ordered) })
	b.Run("out-of-order", func(b *testing.B) { benchRecords(b, sh, sample(b, benchSize, false)) })
	b.Run("standard", func(b *testing.B) {
		perCPU(b, len(ordered), func() { standardRecords(b, ordered) })
	})
}

func benchRecords(b *testing.B, sh *shape.Shape, data []byte) {
	out := &outlet.Output{Records: func([]byte) error { return nil }, Now: time.Now}
	e := newEmitter(out, tally.New(), sh, newSorter(b.TempDir(), DefaultRowLimit))
	perCPU(b, len(data), func() { writeFile(b, e, data) })
}

// standardRecords makes the same records with encoding/csv and encoding/json.
func standardRecords(b *testing.B, data []byte) {
	r := csv.NewReader(bytes.NewReader(data))
	r.ReuseRecord = true
	names, err := r.Read()
	if err != nil {
		b.Fatal(err)
	}
	names = append([]string(nil), names...)
	enc := json.NewEncoder(io.Discard)
	for n := 1; ; n++ {
		cells, err := r.Read()
		if err == io.EOF {
			return
		}
		row := make(map[string]string, len(names))
		for i, name := range names {
			row[name] = cells[i]
		}
		line, err := json.Marshal(row)
		if err != nil {
			b.Fatal(err)
		}
		t, err := record.ParseTime([]byte(row[columnDerived]))
		if err != nil {
			b.Fatal(err)
		}
		err = enc.Encode(map[string]any{
			"ts": time.Unix(0, t).UTC().Format(time.RFC3339Nano), "ts_unix_nano": t,
			"labels":              map[string]string{"source": SourceLabel, "event_type": row[columnType]},
			"structured_metadata": map[string]string{"level": "info"},
			"line":                string(line), "checkpoint_key": "file:x", "checkpoint_value": n,
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
