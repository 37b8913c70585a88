package bench

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// BenchmarkStart is the time from the start of a program to its first byte, or
// to its end where it has nothing to say. The least of many is what it costs
// on a machine that does nothing else.
func BenchmarkStart(b *testing.B) {
	server := newNullServer(b)
	csv := csvFile(b, 10, true)
	records := pulled(b, 10)
	acks := filepath.Join(dir, "acks.ndjson")
	run(b, records, acks, push(server.URL))
	for _, p := range []struct {
		name  string
		stdin string
		stage stage
	}{
		{"sf-pull", null, elf(csv)},
		{"loki-push", records, push(server.URL)},
		{"ckpt", acks, commit(filepath.Join(dir, "start.json"))},
		{"dl-replay", null, stage{"dl-replay", "list", "--log-level", "error", "--spool", b.TempDir()}},
	} {
		b.Run(p.name, func(b *testing.B) {
			var all []time.Duration
			for b.Loop() {
				all = append(all, firstByte(b, p.stdin, p.stage))
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[0].Microseconds())/1000, "least-ms")
			b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
		})
	}
}

func firstByte(b *testing.B, stdin string, s stage) time.Duration {
	b.Helper()
	in, err := os.Open(stdin)
	if err != nil {
		b.Fatal(err)
	}
	defer in.Close()
	cmd := exec.Command(program(b, s[0]), s[1:]...)
	cmd.Stdin, cmd.Stderr = in, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	_, _ = io.ReadFull(out, make([]byte, 1)) // or its end
	took := time.Since(begin)
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	return took
}
