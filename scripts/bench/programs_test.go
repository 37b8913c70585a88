package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sf2loki/pkg/record"
)

// measure reports how many units of work a second of processor time did, and
// how many times as many as the standard library's program. That runs in turn
// with the other, so that what slows down one slows down both; nil: there is none.
func measure(b *testing.B, unit string, work float64, spend func() usage, std func() usage) {
	b.Helper()
	var sum, stdSum usage
	for b.Loop() {
		sum = sum.plus(spend())
		if std != nil {
			b.StopTimer()
			stdSum = stdSum.plus(std())
			b.StartTimer()
		}
	}
	done := work * float64(b.N)
	b.ReportMetric(done/sum.cpu.Seconds(), unit+"/cpu-s")
	b.ReportMetric(float64(sum.rss)/(1<<20), "MiB-rss")
	if std != nil {
		b.ReportMetric(done/stdSum.cpu.Seconds(), unit+"/std-cpu-s")
		b.ReportMetric(stdSum.cpu.Seconds()/sum.cpu.Seconds(), "x-std")
	}
}

const null = os.DevNull

func total(spent []usage) (sum usage) {
	for _, u := range spent {
		sum = sum.plus(u)
	}
	return sum
}

// BenchmarkPull is sf-pull elf --file, in MB of CSV.
func BenchmarkPull(b *testing.B) {
	rows := number(b, "BENCH_ROWS", 400_000)
	for _, ordered := range []bool{true, false} {
		path := csvFile(b, rows, ordered)
		mb := float64(size(b, path)) / 1e6
		std := func() usage { return run(b, null, null, stage{"std", "elf", path})[0] }
		order := map[bool]string{true: "ordered", false: "unordered"}[ordered]
		b.Run(order, func(b *testing.B) {
			measure(b, "MB", mb, func() usage { return run(b, null, null, elf(path))[0] }, std)
		})
	}
}

// lines is how many bytes of lines a file of records holds, in MB.
func lines(tb testing.TB, path string) float64 {
	tb.Helper()
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	r := record.NewReader(f)
	n := 0
	for rec := (record.Record{}); r.Read(&rec) == nil; {
		n += len(rec.Line)
	}
	return float64(n) / 1e6
}

// BenchmarkPush is loki-push against a server that only answers, in MB of
// lines: lines of some lengths, and those of an event log file.
func BenchmarkPush(b *testing.B) {
	rows := number(b, "BENCH_ROWS", 400_000)
	inputs := []struct {
		name string
		path func() string
	}{
		{"200B", func() string { return recordFile(b, recordKind{entries: rows, line: 200, streams: 1, metadata: 1}) }},
		{"500B", func() string { return recordFile(b, recordKind{entries: rows, line: 500, streams: 1, metadata: 1}) }},
		{"file", func() string { return pulled(b, rows) }},
	}
	for _, in := range inputs {
		b.Run(in.name, func(b *testing.B) {
			path := in.path()
			server := newNullServer(b)
			mb := lines(b, path)
			std := func() usage { return run(b, path, null, stage{"std", "push", server.URL})[0] }
			sent := int64(0)
			measure(b, "MB", mb, func() usage {
				before := server.bytes.Load()
				defer func() { sent = server.bytes.Load() - before }()
				return run(b, path, null, push(server.URL))[0]
			}, std)
			b.ReportMetric(float64(sent)/(mb*1e6), "wire-B/line-B")
		})
	}
}

// pulled is the records of an event log file.
func pulled(tb testing.TB, rows int) string {
	tb.Helper()
	path := csvFile(tb, rows, true)
	out := path + ".ndjson"
	if _, err := os.Stat(out); err != nil {
		run(tb, null, out, elf(path))
	}
	return out
}

// BenchmarkPipe is the whole pipe, in MB of CSV.
func BenchmarkPipe(b *testing.B) {
	rows := number(b, "BENCH_ROWS", 400_000)
	path := csvFile(b, rows, true)
	mb := float64(size(b, path)) / 1e6
	server := newNullServer(b)
	std := func() usage {
		return total(run(b, null, null, stage{"std", "elf", path}, stage{"std", "push", server.URL}))
	}
	n := 0
	measure(b, "MB", mb, func() usage {
		n++
		state := filepath.Join(dir, fmt.Sprintf("state-%d-%d.json", time.Now().UnixNano(), n))
		return total(run(b, null, null, elf(path), push(server.URL), commit(state)))
	}, std)
}
