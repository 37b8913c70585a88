package spool

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/record"
)

// benchFile writes a file of about 16 MB of letters whose lines are JSON texts
// of so many bytes, which a spool's mostly are.
func benchFile(b *testing.B, lineBytes int) (dir string, size int64) {
	b.Helper()
	dir = b.TempDir()
	var line strings.Builder
	line.WriteString(`{"EVENT_TYPE":"Login"`)
	for i := 0; line.Len() < lineBytes-40; i++ {
		fmt.Fprintf(&line, `,"FIELD_%d":"text é of %d"`, i, i)
	}
	line.WriteString("}")
	var text []byte
	for i := int64(0); len(text) < 16<<20; i++ {
		rec := record.Record{
			Time: 1782936000000000000 + i, HasTime: true, Line: []byte(line.String()),
			Labels: []record.Pair{{Name: []byte("source"), Value: []byte("eventlogfile")}, {Name: []byte("event_type"), Value: []byte("Login")}},
			Key:    []byte("eventlogfile:Login"), Value: fmt.Append(nil, i), Origin: fmt.Appendf(nil, "0AT000000000001:%d", i),
		}
		text = record.AppendLetter(text, &rec, &record.Letter{
			Reason: record.LineTooLong, CapturedAt: time.Unix(1782936000+i, 0), Status: 400, Stage: "push",
			Detail: `Max entry size '262144' bytes exceeded for stream '{event_type="Login"}'`, RunID: "0123456789abcdef", Instance: "host-a",
		})
	}
	if err := os.WriteFile(filepath.Join(dir, "a-20260701-000001.ndjson"), text, 0o600); err != nil {
		b.Fatal(err)
	}
	return dir, int64(len(text))
}

// What list and stats do with each file: read it, and count.
func BenchmarkSummary(b *testing.B) {
	for _, lineBytes := range []int{300, 3000, 30_000, 250_000} {
		b.Run(fmt.Sprint("line=", lineBytes), func(b *testing.B) {
			dir, size := benchFile(b, lineBytes)
			set, err := Find([]string{dir}, nil, slog.New(slog.DiscardHandler))
			if err != nil {
				b.Fatal(err)
			}
			defer set.Close()
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				sum := NewSummary(Window{Now: time.Now(), MaxAge: 7 * 24 * time.Hour})
				_, err := set.Files[0].Read(func(l *Letter, s Status) error { sum.Add(l, s); return nil },
					func(d *Damage) { b.Error(d) })
				if err != nil {
					b.Fatal(err)
				}
				sum.Seal()
			}
		})
	}
}
