package loki

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"sf2loki/pkg/record"
)

// BenchmarkEngine pushes records to a server that only answers, over HTTP, and
// tells the megabytes of lines per second of CPU, the server's included.
func BenchmarkEngine(b *testing.B) {
	for _, size := range []int{200, 500, 1000} {
		b.Run(fmt.Sprint(size, "B"), func(b *testing.B) { benchmarkEngine(b, size) })
	}
}

func benchmarkEngine(b *testing.B, size int) {
	const n = 50000
	input := benchmarkInput(n, size)
	server := newNullServer(b)
	b.SetBytes(int64(n * size))
	b.ReportAllocs()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu := cpuTime()
	for b.Loop() {
		client, err := NewClient(Config{URL: server.URL})
		if err != nil {
			b.Fatal(err)
		}
		e, err := NewEngine(EngineConfig{
			Push: client, Limits: DefaultLimits(), HourLabel: "event_hour", MaxLine: 256 << 10, Breaker: true,
		})
		if err != nil {
			b.Fatal(err)
		}
		if err := e.Run(context.Background(), bytes.NewReader(input), io.Discard); err != nil {
			b.Fatal(err)
		}
		client.Close()
	}
	used := cpuTime() - cpu
	runtime.ReadMemStats(&after)
	entries := float64(b.N * n)
	b.ReportMetric(entries*float64(size)/1e6/used.Seconds(), "MB/cpu-s")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/entries, "allocs/entry")
}

func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// benchmarkInput is records as sf-pull writes them.
func benchmarkInput(n, size int) []byte {
	var out []byte
	now := time.Now().Add(-10 * time.Minute).Truncate(time.Hour).Add(time.Minute).UnixNano()
	for i := range n {
		line := fmt.Sprintf(`{"EVENT_TYPE":"Login","USER_ID":"005%015d","CLIENT_IP":"10.%d.%d.%d","URI":"/services/%x","PAD":"`,
			i%5000, i%256, i/256%256, i%97, uint64(i)*0x9E3779B97F4A7C15)
		line += strings.Repeat("Mozilla/5.0 (X11; Linux) ", 40)[:max(0, size-len(line)-2)] + `"}`
		out = record.AppendRecord(out, &record.Record{
			Time: now + int64(i)*1000, HasTime: true,
			Labels: []record.Pair{
				{Name: []byte("source"), Value: []byte("eventlogfile")}, {Name: []byte("event_type"), Value: []byte("Login")},
				{Name: []byte("job"), Value: []byte("sf2loki")}, {Name: []byte("sf_org_id"), Value: []byte("00D000000000001AAA")},
			},
			Metadata: []record.Pair{{Name: []byte("level"), Value: []byte("info")}},
			Line:     []byte(line), Key: []byte("eventlogfile:Login"),
			Value:  fmt.Appendf(nil, `{"v":1,"org":"00D000000000001AAA","created":"2026-07-01T10:00:00.000Z","id":"0AT000000000001AAA","len":2692,"order":1,"rows":%d}`, i),
			Origin: fmt.Appendf(nil, "0AT000000000001AAA:%d", i),
		})
	}
	return out
}
