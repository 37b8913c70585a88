package bench

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
)

// BenchmarkGrowth shows that cost grows no faster than the work: the time of a
// processor per row or entry, over rows, streams, metadata and poison. With
// BENCH_GROWTH_ROWS=10000000 the rows go as far.
func BenchmarkGrowth(b *testing.B) {
	most := number(b, "BENCH_GROWTH_ROWS", 100_000)
	for rows := 10_000; rows <= most; rows *= 10 {
		b.Run(fmt.Sprint("rows-", rows), func(b *testing.B) {
			path := csvFile(b, rows, true)
			server := newNullServer(b)
			perUnit(b, rows, "ns-cpu/row", func() usage {
				return total(run(b, null, null, elf(path), push(server.URL), commit(filepath.Join(b.TempDir(), "state.json"))))
			})
		})
	}
	kind := recordKind{entries: number(b, "BENCH_ROWS", 200_000), line: 500, streams: 1, metadata: 1}
	for _, n := range []int{1, 10, 100, 500} {
		growth(b, fmt.Sprint("streams-", n), kind, func(k *recordKind) { k.streams = n })
	}
	for _, n := range []int{0, 1, 5, 10, 20} {
		growth(b, fmt.Sprint("metadata-", n), kind, func(k *recordKind) { k.metadata = n })
	}
	for _, percent := range []int{0, 1, 5, 10} {
		growth(b, fmt.Sprint("poison-", percent), kind, func(k *recordKind) { k.poison = float64(percent) / 100 })
	}
}

func growth(b *testing.B, name string, k recordKind, change func(*recordKind)) {
	change(&k)
	b.Run(name, func(b *testing.B) {
		path := recordFile(b, k)
		server := newNullServer(b)
		perUnit(b, k.entries, "ns-cpu/entry", func() usage {
			spool := filepath.Join(b.TempDir(), "spool")
			return run(b, path, null, push(server.URL, "--max-age", "180d", "--max-new-streams", "0", "--breaker=false", "--spool", spool))[0]
		})
	})
}

func perUnit(b *testing.B, n int, unit string, spend func() usage) {
	b.Helper()
	var sum usage
	for b.Loop() {
		sum = sum.plus(spend())
	}
	b.ReportMetric(float64(sum.cpu.Nanoseconds())/float64(b.N)/float64(n), unit)
	b.ReportMetric(float64(sum.rss)/(1<<20), "MiB-rss")
}

// BenchmarkMemory is the most memory of each program, with input of BENCH_MB.
func BenchmarkMemory(b *testing.B) {
	mb := number(b, "BENCH_MB", 100)
	csv := csvFile(b, mb*1_000_000/540, false)
	b.Run("sf-pull", func(b *testing.B) {
		memory(b, func() usage { return run(b, null, null, elf(csv))[0] })
	})
	for _, streams := range []int{10, 200} {
		path := recordFile(b, recordKind{entries: mb * 1_000_000 / 1050, line: 500, streams: streams, metadata: 1})
		b.Run(fmt.Sprintf("loki-push-%d-streams", streams), func(b *testing.B) {
			server := newNullServer(b)
			memory(b, func() usage { return run(b, path, null, push(server.URL))[0] })
		})
		b.Run(fmt.Sprintf("loki-push-%d-streams-hanging", streams), func(b *testing.B) {
			server := newNullServer(b)
			server.hang = make(chan struct{})
			defer close(server.hang)
			memory(b, func() usage { return giveUp(b, path, server.URL) })
		})
	}
}

func memory(b *testing.B, spend func() usage) {
	b.Helper()
	var sum usage
	for b.Loop() {
		sum = sum.plus(spend())
	}
	b.ReportMetric(float64(sum.rss)/(1<<20), "MiB-rss")
}

// giveUp runs loki-push against a server that never answers, until it gives up.
func giveUp(b *testing.B, path, url string) usage {
	b.Helper()
	s := push(url, "--timeout", "2s", "--give-up", "5s")
	spent, err := tryRun(b, path, null, s)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 69 {
		b.Fatalf("%v: %v, want status 69", s, err)
	}
	return spent[0]
}
